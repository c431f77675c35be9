// The controls of the page to play with, and what it says. What comes of a case is worked out by play_rules.js; play_picture.js draws it.
// Each change makes a new case, and everything is drawn again from it.

const one = selector => document.querySelector(selector), given = JSON.parse(one("#given").textContent);
const hasAddress = location.protocol.startsWith("http"), inFrame = location.protocol === "about:";  // a notebook, or a file: no link leads there
const MOST_FILES = 12;
let shown = null, batches = [], first = null, card = null;

const inMs = count => duration(count * shown.scale.ms);
const days = () => new Set(shown.files.flat().map(({ time }) => Math.floor(time / shown.scale.aDay)));
const dated = (time, { ms, aDay, zero }) => zero === 0 ? "" : new Date(Math.floor(time / aDay) * aDay * ms).toISOString().slice(5, 10) + " ";
const keyName = key => (shown.keys[key.charCodeAt() - 97] ?? key).trim();
const sideName = side => side === "ad" ? shown.sides[0] || "ad" : shown.sides[1] || "click";
const titled = row => `${row.side ? sideName(row.side) + " " : ""}${keyName(row.key)} ${at(row.time)}`;

function at(time) {  // a time as the page shows it: without seconds where they are zero, with the day if there are several
  const { scale, several } = shown, words = clock(time - Math.floor(time / scale.aDay) * scale.aDay + scale.zero, scale);
  return (several ? dated(time, scale) : "") + words.replace(/^(\d\d:\d\d):00(\.000)?$/, "$1").replace(/\.000$/, "");
}

const escaped = text => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
const reads = time => time === NONE ? "none" : at(time);

// -- the query, its knobs, and what is said ----------------------------------------------------------------------------

const CODE = {
  windows: (c, of) => `rows.withWatermark("time", ${of(c.delay)})\n` +
    `    .groupBy(window("time", ${of(c.size)}${c.slide < c.size ? `, ${of(c.slide)}` : ""}), "key").count()` +
    `\n    .writeStream.outputMode(<b>"${c.mode}"</b>)`,
  dedup: (c, of) => `rows.withWatermark("time", ${of(c.delay)}).dropDuplicatesWithinWatermark(["key"])`,
  join: (c, of) => `ads = ads.withWatermark("shown", ${of(c.delay)})\n` +
    `clicks = clicks.withWatermark("clicked", ${of(c.delay)})\n` +
    `ads.join(clicks, expr("key = of AND clicked BETWEEN shown AND shown + <b>INTERVAL ${of(c.within).replace(/<\/?b>|"/g, "").toUpperCase()}</b>"), ` +
    `<b>"${c.how}"</b>)`,
  sessions: (c, of) => `rows.withWatermark("time", ${of(c.delay)})\n` +
    `    .groupBy(session_window("time", ${of(c.gap)}), "key").count()`,
};
const KNOB_WORDS = {
  delay: "watermark delay", size: "window size", slide: "window slide", mode: "output mode",
  within: "click within", how: "join", gap: "session gap", perBatch: "files a batch",
};
const HELD = { windows: "window", dedup: "key", join: "row", sessions: "session" };
const WHY_LATE = {
  windows: row => `the last window of it ended ${at(Math.floor(row.time / shown.slide) * shown.slide + shown.size)}, not after`,
  dedup: () => "it is not after", join: () => "it is not after",
  sessions: row => `its own session would end ${at(row.time + shown.gap)}, not after`,
};

// What a slider offers: the usual durations of the unit, as far as they are of the size of the query's own, and this own one.
function values(name) {
  if (name === "perBatch") return [1, 2, 3];
  const own = first[name], { ms } = shown.scale, most = Math.max(1_800_000, 6 * own * ms);
  const usual = DURATIONS.filter(value => value % ms === 0 && value <= most).map(value => value / ms);
  return [...new Set([...(name === "delay" ? [0] : []), ...usual, own])].sort((one, other) => one - other);
}

function drawKnobs() {
  const names = [...Object.keys(KNOBS[shown.operator]), ...(shown.waits ? [] : ["perBatch"])];
  one(".knobs").innerHTML = names.map(name => {
    const label = `<span>${KNOB_WORDS[name]}</span>`;
    if (WORDS[name]) {
      const options = WORDS[name].map(word => `<option${word === shown[name] ? " selected" : ""}>${word}</option>`).join("");
      return `<label>${label}<b></b><select name="${name}">${options}</select></label>`;
    }
    return `<label>${label}<b></b><input type="range" name="${name}" min="0" max="${values(name).length - 1}"></label>`;
  }).join("");
  const keys = shown.keys.length ? shown.keys.map((_, number) => String.fromCharCode(97 + number)) : ["a", "b", "c"];
  one("[name=new]").replaceChildren(...(shown.operator === "join" ? ["ad", "click"] : [""]).flatMap(side => keys.map(key =>
    new Option((side ? sideName(side) + " " : "") + keyName(key), side ? `${side} ${key}` : key))));
  for (const button of document.querySelectorAll("[data-operator]")) {
    button.ariaPressed = button.dataset.operator === shown.operator;
  }
  one(".arrive").textContent = shown.waits ? "Each file comes when the query has nothing left to do, as these did."
    : "All files are there when the query starts, as with trigger(availableNow=True).";
}

function sayKnobs() {
  for (const knob of document.querySelectorAll(".knobs input")) {
    const words = knob.name === "perBatch" ? String(shown.perBatch) : inMs(shown[knob.name]);
    knob.value = values(knob.name).indexOf(shown[knob.name]);
    knob.setAttribute("aria-valuetext", words);
    knob.previousElementSibling.textContent = words;
  }
  one(".code").innerHTML = CODE[shown.operator](shown, count => `<b>"${interval(count * shown.scale.ms)}"</b>`);
}

function said() {
  const last = past().at(-1), late = [], behind = [], twice = [];
  if (!last) return "No batch has run yet.";
  for (const batch of past()) {
    for (const row of batch.rows) {
      if (batch.dropped.includes(row)) {
        late.push(`${titled(row)} in batch ${batch.number}, as ${WHY_LATE[shown.operator](row)} the late watermark, ${reads(batch.late)}`);
      } else if (row.time < batch.watermark && !batch.duplicates.includes(row)) {
        behind.push(`${titled(row)} in batch ${batch.number} (watermark ${reads(batch.watermark)}, late watermark ${reads(batch.late)})`);
      }
    }
    twice.push(...batch.duplicates.map(row => `${titled(row)} in batch ${batch.number}`));
  }
  const killed = past().some(batch => batch.number === shown.crash);
  return [
    late.length ? `Too late: ${late.join("; ")}.` : "No row is too late.",
    behind.length ? `Behind the watermark, but not too late: ${behind.join("; ")}.` : "",
    twice.length ? `Duplicates: ${twice.join("; ")}.` : "",
    `After batch ${last.number} the state holds ${plural(last.held.size, HELD[shown.operator])}, and the next watermark is ` +
      `${reads(last.next)}.`,
    killed ? `Batch ${shown.crash} was killed before it was committed, and ran again with the same rows: a sink that only appends ` +
      "has them twice." : "",
    killed && shown.operator === "join" ? "The restart knew the watermark, but not how far each input had come: it moves again when both " +
      "have sent a row." : "",
  ].filter(Boolean).join(" ");
}

function words(out) {
  const key = keyName(out.key);
  if ("ad" in out) return `${key}: ${sideName("ad")} ${at(out.ad)}, ${sideName("click")} ${out.click === null ? "null" : at(out.click)}`;
  if ("count" in out) return `[${at(out.start)}, ${at(out.end)})${key ? ` ${key}` : ""}: ${out.count}`;
  return `${key} ${at(out.time)}`;
}

function drawSink() {
  const before = [...one("tbody").rows].map(line => line.textContent);
  one("tbody").replaceChildren(...deliveries(past(), shown.crash).map(({ number, out, killed }) => {
    const line = document.createElement("tr");
    line.className = killed ? "killed" : "";
    const again = killed ? ", killed" : number === shown.crash ? ", again" : batches[number].withData ? "" : ", no data";
    for (const cell of [number + again, reads(batches[number].watermark), out.length ? "" : "–"]) line.insertCell().textContent = cell;
    out.forEach((row, i) => {  // each stays whole, where lines are broken
      const one = document.createElement("span");
      one.textContent = words(row) + (i < out.length - 1 ? "," : "");
      line.lastChild.append(i ? " " : "", one);
    });
    return line;
  }));
  const changed = [...one("tbody").rows].find((line, number) => line.textContent !== before[number]);
  if (changed && before.length) one(".sink").scrollTop = changed.offsetTop - one(".sink").clientHeight / 2;
}

// What the query did, batch by batch, against what the rules of this page make of the same rows: [watermark, late rows, rows out].
function differs() {
  for (const [number, [watermark, late, out]] of given.recorded.entries()) {
    const batch = batches[number], here = batch && [reads(batch.watermark), batch.dropped.length, batch.out.length];
    const there = [watermark ? at(watermark / shown.scale.ms) : "none", late, out];
    const names = ["the watermark", "late rows", "rows out"];
    const other = here ? names.findIndex((_, i) => there[i] !== null && there[i] !== here[i]) : -1;
    if (!here) return `The query ran batch ${number}, and this page does not.`;
    if (other >= 0) return `In batch ${number} the query did something else than this page: ${names[other]}: ${there[other]}, and here ${here[other]}.`;
  }
  return "";
}

function draw() {
  batches = batchesOf(shown);
  sayKnobs();
  setUntil(null);
  const text = textOf(shown), fragment = "#" + (text === card?.case ? card.name : encodeURI(text)), link = location.href.split("#")[0] + fragment;
  one("[name=case]").value = `play("${text}")`;
  one("[name=link]").value = link;
  one("[name=frame]").value = `<iframe src="${link}" width="100%" height="720"></iframe>`;
  one(".copied").textContent = "";
  if (!inFrame) history.replaceState(null, "", fragment);
}

// What has happened until now: in the picture, in words, and at the sink.
function drawPast() {
  drawPicture();
  one("[role=status]").textContent = said();
  drawSink();
}

// A question, the case that answers it, and where it goes on.
function drawCard() {
  one(".of-card").hidden = !given.cards;
  if (!given.cards) return;
  one("[name=card]").replaceChildren(...given.cards.map(({ name, question }) => new Option(question, name)), new Option("A case of your own", ""));
  one("[name=card]").value = card?.name || "";
  one(".of-card h2").textContent = card?.question || "";
  one(".answer").innerHTML = card ? `${escaped(card.answer)} <b>${escaped(card.do).replace(/\*(.*?)\*/g, "<i>$1</i>")}</b>` : "";
  one(".leads").innerHTML = (card?.links || []).map(([words, link]) =>
    link ? `<a href="${escaped(link)}" target="_top">${escaped(words)}</a>` : escaped(words)).join(" · ");
}

function begin(text) {
  card = (given.cards || []).find(({ name }) => name === text) || null;
  drawCard();
  [first, shown] = [caseOf(card?.case || text), caseOf(card?.case || text)];
  shown.several = days().size > 1;
  drawKnobs();
  drawLegend();
  draw();
  const isOfQuery = !!given.recorded && text === given.case, other = isOfQuery ? differs() : "";
  one(".operators").hidden = isOfQuery || !!card;
  one(".of-query").hidden = !isOfQuery;
  one(".of-query").textContent = given.note || "";
  one(".differs").hidden = !other;
  one(".differs").textContent = other;
}

// -- changes -----------------------------------------------------------------------------------------------------------------

const find = id => shown.files.flat().find(row => row.id === id);

function removed(id) {
  shown.files = shown.files.map(rows => rows.filter(row => row.id !== id));
}

function moved(id, file, time) {
  const { zero, aDay } = shown.scale, last = (Math.max(...days()) + 1) * aDay - 1;
  const row = find(id), to = Math.min(Math.max(file, 0), shown.files.length - 1), now = { ...row, time: Math.min(Math.max(time, zero), last) };
  if (shown.files[to].includes(row)) {
    shown.files[to] = shown.files[to].map(other => other === row ? now : other);
  } else {
    removed(id);
    shown.files[to] = [...shown.files[to], now];
  }
  draw();
}

function added(file, time) {
  const [key, side] = one("[name=new]").value.split(" ").reverse(), id = `n${Date.now()}`;
  shown.files[file] = [...shown.files[file], { id, key, time, ...(side ? { side } : {}) }];
  draw();
  one(`[data-row="${id}"]`).focus({ preventScroll: true });
}

function killed(batch) {
  shown.crash = shown.crash === batch ? null : batch;
  draw();
}

// A frame may not use the clipboard by its modern name, but it may copy what is selected.
function copy() {
  const details = one("details"), field = one(hasAddress ? "[name=link]" : "[name=case]"), wasOpen = details.open;
  details.open = true;
  field.select();
  const done = document.execCommand("copy");
  details.open = wasOpen || !done;
  one(".copied").textContent = done ? (hasAddress ? "a link to this case is copied" : "copied: a call that shows this case in a notebook")
    : "select the text below, and copy it";
}
