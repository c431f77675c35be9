// The controls and the picture of the page to play with. What comes of a case is worked out by play_rules.js; this draws it.
// Each change makes a new case, and everything is drawn again from it.

const one = selector => document.querySelector(selector), box = one(".picture-of-rows");
const inFrame = location.protocol === "about:";  // in a notebook, the page has no address
const [LEFT, TOP, HIGH, LANE, MOST_FILES] = [46, 40, 250, 34, 10];
let shown = null, batches = [], place = null, dragged = null;

const minutes = count => count ? `${count} min` : "none";
const reads = time => time === NONE ? "none" : clock(time);
const plural = (count, noun) => `${count || "no"} ${noun}${count === 1 ? "" : "s"}`;
const titled = row => `${row.side ? row.side + " " : ""}${row.key} ${clock(row.time)}`;
const sentence = words => words[0].toUpperCase() + words.slice(1);

// -- the query, its knobs, and what is said ----------------------------------------------------------------------------

const CODE = {
  windows: c => `rows.withWatermark("time", <b>"${c.delay} minutes"</b>)\n` +
    `    .groupBy(window("time", <b>"${c.size} minutes"</b>${c.slide < c.size ? `, <b>"${c.slide} minutes"</b>` : ""}), "key").count()` +
    `\n    .writeStream.outputMode(<b>"${c.mode}"</b>)`,
  dedup: c => `rows.withWatermark("time", <b>"${c.delay} minutes"</b>).dropDuplicatesWithinWatermark(["key"])`,
  join: c => `ads = ads.withWatermark("shown", <b>"${c.delay} minutes"</b>)\n` +
    `clicks = clicks.withWatermark("clicked", <b>"${c.delay} minutes"</b>)\n` +
    `ads.join(clicks, expr("key = of AND clicked BETWEEN shown AND shown + <b>INTERVAL ${c.within} MINUTES</b>"), <b>"${c.how}"</b>)`,
  sessions: c => `rows.withWatermark("time", <b>"${c.delay} minutes"</b>)\n` +
    `    .groupBy(session_window("time", <b>"${c.gap} minutes"</b>), "key").count()`,
};
const KNOB_WORDS = {
  delay: "delay of the watermark", size: "size of the windows", slide: "slide of the windows", mode: "output mode",
  within: "a click comes within", how: "join", gap: "gap between sessions", perBatch: "files a batch",
};
const HELD = { windows: "window", dedup: "key", join: "row", sessions: "session" };
const WHY_LATE = {
  windows: row => `the last window of it ended ${clock(Math.floor(row.time / shown.slide) * shown.slide + shown.size)}, not after`,
  dedup: () => "it is not after", join: () => "it is not after",
  sessions: row => `its own session would end ${clock(row.time + shown.gap)}, not after`,
};

function values(name) {
  if (name === "perBatch") return [1, 2, 3];
  return name === "delay" ? [0, ...MINUTES] : MINUTES;
}

function drawKnobs() {
  const names = [...Object.keys(KNOBS[shown.operator]), "perBatch"];
  one(".knobs").innerHTML = names.map(name => {
    const label = `<span>${KNOB_WORDS[name]}</span>`;
    if (WORDS[name]) {
      const options = WORDS[name].map(word => `<option${word === shown[name] ? " selected" : ""}>${word}</option>`).join("");
      return `<label>${label}<b></b><select name="${name}">${options}</select></label>`;
    }
    const at = values(name).indexOf(shown[name]), most = values(name).length - 1;
    return `<label>${label}<b></b><input type="range" name="${name}" min="0" max="${most}" value="${at}"></label>`;
  }).join("");
  const sides = shown.operator === "join" ? ["ad ", "click "] : [""];
  one("[name=new]").innerHTML = sides.flatMap(side => ["a", "b", "c"].map(key => `<option>${side}${key}</option>`)).join("");
}

function sayKnobs() {
  for (const knob of document.querySelectorAll(".knobs input")) {
    const words = knob.name === "perBatch" ? String(shown.perBatch) : minutes(shown[knob.name]);
    knob.value = values(knob.name).indexOf(shown[knob.name]);
    knob.setAttribute("aria-valuetext", words);
    knob.previousElementSibling.textContent = words;
  }
  one(".code").innerHTML = CODE[shown.operator](shown);
  for (const button of document.querySelectorAll("[data-operator]")) {
    button.setAttribute("aria-pressed", button.dataset.operator === shown.operator);
  }
}

function said() {
  const last = batches.at(-1), late = [], behind = [], twice = [];
  for (const batch of batches) {
    for (const row of batch.rows) {
      if (batch.dropped.includes(row)) {
        late.push(`${titled(row)} in batch ${batch.number}, as ${WHY_LATE[shown.operator](row)} the late watermark, ${reads(batch.late)}`);
      } else if (row.time < batch.watermark && !batch.duplicates.includes(row)) {
        behind.push(`${titled(row)} in batch ${batch.number} (watermark ${reads(batch.watermark)}, late watermark ${reads(batch.late)})`);
      }
    }
    twice.push(...batch.duplicates.map(row => `${titled(row)} in batch ${batch.number}`));
  }
  const killed = batches.some(batch => batch.number === shown.crash);
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
  if ("ad" in out) return `${out.key}: ad ${clock(out.ad)}, click ${out.click === null ? "null" : clock(out.click)}`;
  if ("count" in out) return `[${clock(out.start)}, ${clock(out.end)}) ${out.key}: ${out.count}`;
  return `${out.key} ${clock(out.time)}`;
}

function drawSink() {
  one("tbody").replaceChildren(...deliveries(batches, shown.crash).map(({ number, out, killed }) => {
    const line = document.createElement("tr");
    line.className = killed ? "killed" : "";
    const again = killed ? ", killed" : number === shown.crash ? ", again" : batches[number].withData ? "" : ", without data";
    for (const cell of [number + again, reads(batches[number].watermark), out.map(words).join(", ") || "–"]) line.insertCell().textContent = cell;
    return line;
  }));
}

// -- the picture -----------------------------------------------------------------------------------------------------------

// Where everything is: the columns of files and batches from left to right, event time from below.
function places() {
  const width = Math.max(box.clientWidth, 300), files = shown.files.length, extra = batches.some(batch => !batch.withData) ? 0.75 : 0;
  const column = (width - LEFT - 6) / (files + extra), times = shown.files.flat().map(row => row.time);
  const known = dragged && place;  // while a row is dragged, the times stay where they are
  const low = known ? place.low : Math.min(...times, 722) - 6, high = known ? place.high : Math.max(...times, low + 30) + 6;
  return {
    width, column, low, high, bottom: TOP + HIGH,
    x: file => LEFT + column * file, y: time => TOP + HIGH * (1 - (Math.min(Math.max(time, low), high) - low) / (high - low)),
    begin: batch => LEFT + column * Math.min(batch.number * shown.perBatch, files),
    end: batch => batch.withData ? LEFT + column * Math.min((batch.number + 1) * shown.perBatch, files) : width - 6,
  };
}

const line = (look, x1, y1, x2, y2) => `<line class="${look}" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"/>`;
const rect = (look, x, y, width, height, round = 0) =>
  `<rect class="${look}" x="${x}" y="${y}" width="${Math.max(width, 0)}" height="${height}" rx="${round}"/>`;
const text = (look, x, y, words, anchor = "start") => `<text class="${look}" x="${x}" y="${y}" text-anchor="${anchor}">${words}</text>`;

function drawGround() {
  const { low, high, y, bottom, width } = place, step = [5, 10, 15, 30, 60].find(step => (high - low) / step <= 9) || 120;
  let drawn = "";
  for (const batch of batches) {
    const x = place.begin(batch), wide = place.end(batch) - x;
    drawn += batch.number % 2 ? "" : rect("stripe", x, TOP, wide, HIGH);
    drawn += batch.withData ? "" : rect("nothing", x + 2, TOP + 2, wide - 4, HIGH - 4, 4);
    if (batch.late > low) drawn += rect("too-late", x, y(batch.late), wide, bottom - y(batch.late));
  }
  for (let time = Math.ceil(low / step) * step; time <= high; time += step) {
    drawn += line("grid", LEFT, y(time), width - 6, y(time)) + text("soft", LEFT - 6, y(time) + 4, clock(time), "end");
  }
  for (let file = 1; file < shown.files.length; file++) {
    if (file % shown.perBatch === 0) drawn += line("between", place.x(file), TOP, place.x(file), bottom);
  }
  return drawn + rect("plane", LEFT, TOP, place.column * shown.files.length, HIGH).replace("/>", ' fill="transparent"/>');
}

function drawWatermark(name, look) {
  let path = "";
  for (const batch of batches) {
    if (batch[name] > place.low) path += `${path ? "L" : "M"}${place.begin(batch)} ${place.y(batch[name])}H${place.end(batch)}`;
  }
  return path ? `<path class="${look}" d="${path}"/>` : "";
}

function drawRows() {
  const { column, x, y } = place, radius = Math.min(11, Math.max(8, column / 5));
  return batches.flatMap(batch => batch.rows.map(row => {
    const file = shown.files.findIndex(rows => rows.includes(row)), rows = shown.files[file];
    const at = x(file) + column * (rows.indexOf(row) + 0.5) / rows.length, high = y(row.time), r = radius;
    const fate = batch.dropped.includes(row) ? "dropped" : batch.duplicates.includes(row) ? "duplicate" : "";
    const shape = row.side === "ad" ? rect("shape", at - r, high - r, 2 * r, 2 * r, 3) : `<circle class="shape" cx="${at}" cy="${high}" r="${r}"/>`;
    const label = `${titled(row)}, file ${file}, ${fate || "taken"}`, held = dragged?.id === row.id ? "held" : "";
    return `<g class="row ${row.key} ${fate} ${held}" tabindex="0" role="button" data-row="${row.id}" aria-label="${label}"><title>${label}</title>` +
      `<circle class="ring" cx="${at}" cy="${high}" r="${r + 5}"/>${shape}${text("", at, high + 4.5, row.key, "middle")}</g>`;
  })).join("");
}

function drawHeads() {
  return batches.map(batch => {
    const x = place.begin(batch), wide = place.end(batch) - x, on = batch.number === shown.crash;
    const short = wide < 92, name = short ? `${batch.number}` : `batch ${batch.number}`;
    return `<g class="kill${on ? " on" : ""}" tabindex="0" role="button" aria-pressed="${on}" data-kill="${batch.number}" ` +
      `aria-label="kill batch ${batch.number} before it is committed">${rect("", x + 3, 8, wide - 6, 26, 6)}` +
      `${text("", x + wide / 2, 25.5, on ? (short ? `⚡${name}` : `⚡ ${name}, twice`) : name, "middle")}</g>`;
  }).join("") + shown.files.map((_, file) => {
    const name = place.column < 60 ? file : `file ${file}`;
    return text("soft", place.x(file) + place.column / 2, place.bottom + 16, name, "middle");
  }).join("");
}

// One lane for each thing in the state: from the batch in which it comes to the one in which it leaves.
function lanes() {
  const found = [], open = new Map();
  for (const batch of batches) {
    const here = new Map([...batch.held.values(), ...batch.gone].map(thing => [thing.id, thing]));
    for (const [id, lane] of open) {
      if (here.has(id)) continue;
      lane.merged = true;  // another session has taken it in
      open.delete(id);
    }
    for (const [id, thing] of here) {
      const lane = open.get(id) || { from: batch, cells: [] };
      if (!open.has(id)) found.push(lane);
      open.set(id, lane);
      lane.thing = thing;
      lane.cells.push({ batch, thing, out: batch.out.includes(thing) });
      if (batch.gone.includes(thing)) {
        lane.gone = true;
        open.delete(id);
      }
    }
  }
  return found;
}

function laneName({ thing }) {
  if (shown.operator === "dedup") return `${thing.key}, kept until ${clock(thing.end)}`;
  if (shown.operator === "join") return titled(thing);
  return `[${clock(thing.start)}, ${clock(thing.end)}) ${thing.key}`;
}

function ending({ thing, merged, gone, cells }) {  // what the last cell of a lane says, and whether the row goes to the sink
  if (merged) return ["merged", false];
  if (!gone) return null;
  if (shown.operator === "join") return shown.how === "left" && thing.side === "ad" && !thing.matched ? ["→ null", true] : ["leaves", false];
  return cells.at(-1).out ? [`→ ${thing.count}`, true] : ["leaves", false];
}

const SHORT = { leaves: "×", merged: "+", "→ null": "→", paired: "p", waits: "w" };  // in a narrow column

function drawLane(lane, top) {
  const { from, cells } = lane, x = place.begin(from), to = place.end(cells.at(-1).batch), name = laneName(lane);
  const room = place.width - x > 7 * name.length + 8, last = ending(lane);
  let drawn = text("soft", room ? x + 3 : place.width - 8, top + 11, name, room ? "start" : "end");
  drawn += rect(`lane ${lane.thing.key}`, x + 2, top + 15, to - x - 4, 17, 5);
  cells.forEach(({ batch, thing, out }, number) => {
    const begin = place.begin(batch), wide = place.end(batch) - begin, isLast = number === cells.length - 1;
    if (isLast && last) {
      const chip = Math.min(wide - 6, 8 * last[0].length + 12);
      drawn += rect(`chip${last[1] ? "" : " gone"}`, to - 3 - chip, top + 16, chip, 15, 4);
      drawn += text("on-chip", to - 3 - chip / 2, top + 27.5, chip < 7 * last[0].length ? SHORT[last[0]] || last[0] : last[0], "middle");
      return;
    }
    const words = shown.operator === "join" ? (thing.matched ? "paired" : "waits") : thing.count ?? "";
    drawn += text("", begin + wide / 2, top + 27.5, `${out ? "→ " : ""}${wide < 46 ? SHORT[words] || words : words}`, "middle");
  });
  return drawn;
}

function drawPicture() {
  place = places();
  const all = lanes(), top = place.bottom + 50, height = top + LANE * all.length + 10;
  const focus = document.activeElement?.closest?.("[data-row], [data-kill]")?.dataset;
  box.innerHTML = `<svg role="group" aria-label="rows by file and event time, and the state by batch" width="${place.width}" height="${height}">` +
    drawGround() + drawWatermark("late", "late") + drawWatermark("watermark", "mark") + drawHeads() + drawRows() +
    text("soft", LEFT, top - 10, all.length ? `the state: ${plural(all.length, HELD[shown.operator])} over time` : "nothing gets into the state") +
    all.map((lane, number) => drawLane(lane, top + LANE * number)).join("") + "</svg>";
  if (focus) one(focus.row ? `[data-row="${focus.row}"]` : `[data-kill="${focus.kill}"]`)?.focus({ preventScroll: true });
}

const SAMPLES = [
  ['<line x1="0" y1="6" x2="24" y2="6" class="mark"/>', "watermark of the batch: state that ends by then is evicted"],
  ['<line x1="0" y1="6" x2="24" y2="6" class="late"/>', "late watermark, of the batch before: rows that are not after it are dropped (for windows, the end counts)"],
  ['<g class="row dropped"><circle class="shape" cx="12" cy="6" r="5"/></g>', "a row that is dropped"],
  ['<rect x="0" y="0" width="24" height="12" rx="3" class="chip"/>', "emitted when it is evicted from the state"],
];
one(".legend").innerHTML = SAMPLES.map(([drawn, words]) => `<li><svg width="24" height="12" aria-hidden="true">${drawn}</svg>${words}</li>`).join("");

function draw() {
  batches = batchesOf(shown);
  sayKnobs();
  drawPicture();
  one("[role=status]").textContent = said();
  drawSink();
  const fragment = "#" + encodeURI(textOf(shown)), link = (inFrame ? "" : location.href.split("#")[0]) + fragment;
  one("[name=link]").value = link;
  one("[name=frame]").value = `<iframe src="${link}" width="100%" height="900"></iframe>`;
  if (!inFrame) history.replaceState(null, "", fragment);
}

function begin(text) {
  shown = caseOf(text);
  drawKnobs();
  draw();
}

// -- changes -----------------------------------------------------------------------------------------------------------------

function fragment() {  // of the address, where it can be read
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

const find = id => shown.files.flat().find(row => row.id === id);

function removed(id) {
  shown.files = shown.files.map(rows => rows.filter(row => row.id !== id));
}

function moved(id, file, time) {
  const row = find(id), to = Math.min(Math.max(file, 0), shown.files.length - 1), now = { ...row, time: Math.min(Math.max(time, 0), 1439) };
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

function pointed(event) {  // at which file and minute
  const { left, top } = box.getBoundingClientRect(), x = event.clientX - left, y = event.clientY - top;
  const { column, low, high, bottom, width } = place;
  return {
    file: Math.floor((x - LEFT) / column), time: Math.round(low + (high - low) * (bottom - y) / HIGH),
    outside: x < LEFT - 20 || x > width + 10 || y < TOP - 24 || y > bottom + 24,
  };
}

box.addEventListener("pointerdown", event => {
  const row = event.target.closest("[data-row]");
  if (!row) return;
  row.focus({ preventScroll: true });
  dragged = { id: row.dataset.row };
  box.setPointerCapture(event.pointerId);
  event.preventDefault();
});
box.addEventListener("pointermove", event => {
  if (!dragged) return;
  const { file, time, outside } = pointed(event);
  dragged.outside = outside;
  if (!outside) moved(dragged.id, file, Math.min(Math.max(time, place.low), place.high));
});
for (const name of ["pointerup", "pointercancel"]) {
  box.addEventListener(name, () => {
    if (!dragged) return;
    if (dragged.outside) removed(dragged.id);
    dragged = null;
    draw();
  });
}
box.addEventListener("click", event => {
  const kill = event.target.closest("[data-kill]");
  if (kill) killed(+kill.dataset.kill);
  else if (event.target.closest(".plane")) {
    const { file, time } = pointed(event);
    added(Math.min(Math.max(file, 0), shown.files.length - 1), time);
  }
});
box.addEventListener("keydown", event => {
  const { row: id, kill } = event.target.dataset;
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
  if (kill !== undefined && ["Enter", " "].includes(event.key)) killed(+kill);
  else if (id && steps) moved(id, shown.files.findIndex(rows => rows.includes(find(id))) + steps[0], find(id).time + steps[1]);
  else if (id && ["Delete", "Backspace"].includes(event.key)) {
    removed(id);
    draw();
  } else return;
  event.preventDefault();
});

function killed(batch) {
  shown.crash = shown.crash === batch ? null : batch;
  draw();
}

one(".knobs").addEventListener("input", ({ target }) => {
  shown[target.name] = WORDS[target.name] ? target.value : values(target.name)[target.value];
  if (target.name === "size") shown.slide = Math.min(shown.slide, shown.size);
  if (target.name === "slide") shown.size = Math.max(shown.slide, shown.size);
  draw();
});
document.querySelectorAll("[data-operator]").forEach(button => button.addEventListener("click", () => begin(button.dataset.operator)));
const BUTTONS = {
  file: () => { if (shown.files.length < MOST_FILES) shown.files.push([]); draw(); },
  less: () => { if (shown.files.length > 1) shown.files.pop(); draw(); },
  row: () => added(shown.files.length - 1, Math.max(...shown.files.flat().map(row => row.time), 720)),
  again: () => begin(shown.operator),
};
document.querySelectorAll("[data-go]").forEach(button => button.addEventListener("click", BUTTONS[button.dataset.go]));
document.querySelectorAll("details input").forEach(input => input.addEventListener("focus", () => input.select()));
window.addEventListener("hashchange", () => begin(fragment()));
new ResizeObserver(() => { if (place && Math.max(box.clientWidth, 300) !== place.width) drawPicture(); }).observe(box);
begin(fragment() || document.body.dataset.case);
