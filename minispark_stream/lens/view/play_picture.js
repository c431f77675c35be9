// The picture of the page to play with: rows by file and event time, both watermarks, and what is in the state over the batches; and how
// rows are dragged in it. It is drawn for the width and the height that there are, so that all of it is in view while a row is dragged.

const box = one(".picture-of-rows");
const [TOP, LOW, HIGH, NARROW] = [40, 150, 250, 600];
let place = null, dragged = null;

// When the first row of the case comes, from which the times are drawn, so that they stay where they are.
const from = () => Math.min(...first.files.flat().map(row => row.time), ...(first.files.flat().length ? [] : [first.scale.zero + 722]));

// Where everything is: the columns of files and batches from left to right, event time from below.
function places(lanes) {
  const { files, perBatch, scale, several } = shown, width = Math.max(box.clientWidth, 300), left = several ? 84 : scale.unit === "min" ? 46 : 66;
  const empty = batches.filter(batch => !batch.withData).length, share = shown.waits ? 0.5 : 0.75;
  const column = (width - left - 6) / (files.length + share * empty), times = files.flat().map(row => row.time), least = 30 * Math.max(60_000 / scale.ms, 1);
  const span = Math.min(least, Math.max(first.delay, first.size || 0, first.gap || 0, first.within || 0, 1) * 3), rim = span / 5;
  const known = dragged && place;  // while a row is dragged, the times stay where they are
  const low = known ? place.low : Math.min(...times, from()) - rim, high = known ? place.high : Math.max(...times, low + span) + rim;
  const below = innerHeight - (box.getBoundingClientRect().top + scrollY) - 10, free = below - TOP - 52 - lanes;
  document.body.style.setProperty("--free", `${Math.max(below, 300)}px`);
  const tall = width < NARROW && innerWidth < NARROW ? HIGH : Math.min(Math.max(free, LOW), HIGH), begins = [], ofFile = [];
  let x = left, file = 0;
  for (const batch of batches) {
    begins.push(x);
    for (let end = Math.min(file + perBatch, files.length); batch.withData && file < end; file++, x += column) ofFile.push(x);
    if (!batch.withData) x += share * column;
  }
  return {
    width, left, column, low, high, tall, bottom: TOP + tall, x: file => ofFile[file],
    y: time => TOP + tall * (1 - (Math.min(Math.max(time, low), high) - low) / (high - low)),
    begin: batch => begins[batch.number], end: batch => begins[batch.number + 1] ?? width - 6,
    fileAt: x => Math.max(ofFile.findLastIndex(begin => begin <= x), 0),
  };
}

const line = (look, x1, y1, x2, y2) => `<line class="${look}" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"/>`;
const rect = (look, x, y, width, height, round = 0) =>
  `<rect class="${look}" x="${x}" y="${y}" width="${Math.max(width, 0)}" height="${height}" rx="${round}"/>`;
const text = (look, x, y, words, anchor = "start") => `<text class="${look}" x="${x}" y="${y}" text-anchor="${anchor}">${escaped(words)}</text>`;

function drawGround() {
  const { low, high, y, bottom, width, left, tall } = place, { ms, aDay } = shown.scale;
  const step = (DURATIONS.find(step => step % ms === 0 && (high - low) * ms / step <= 9) || Math.ceil((high - low) / aDay / 9) * aDay * ms) / ms;
  let drawn = "";
  for (const batch of batches) {
    const x = place.begin(batch), wide = place.end(batch) - x;
    drawn += batch.number % 2 ? "" : rect("stripe", x, TOP, wide, tall);
    drawn += batch.withData ? "" : rect("nothing", x + 2, TOP + 2, wide - 4, tall - 4, 4);
    if (batch.late > low && past().includes(batch)) drawn += rect("too-late", x, y(batch.late), wide, bottom - y(batch.late));
  }
  for (let time = Math.ceil(low / step) * step; time <= high; time += step) {
    drawn += line("grid", left, y(time), width - 6, y(time)) + text("soft", left - 6, y(time) + 4, at(time), "end");
  }
  for (let file = 1; file < shown.files.length; file++) {
    if (file % shown.perBatch === 0) drawn += line("between", place.x(file), TOP, place.x(file), bottom);
  }
  return drawn + rect("plane", left, TOP, place.end(batches.at(-1)) - left, tall).replace("/>", ' fill="transparent"/>');
}

function drawWatermark(name, look) {
  let path = "";
  for (const batch of past()) {
    if (batch[name] > place.low) path += `${path ? "L" : "M"}${place.begin(batch)} ${place.y(batch[name])}H${place.end(batch)}`;
  }
  return path ? `<path class="${look}" d="${path}"/>` : "";
}

function drawRows() {
  const { column, x, y } = place, radius = Math.min(11, Math.max(7, column / 5));
  return batches.flatMap(batch => batch.rows.map(row => {
    const file = shown.files.findIndex(rows => rows.includes(row)), rows = shown.files[file];
    const over = x(file) + column * (rows.indexOf(row) + 0.5) / rows.length, high = y(row.time), r = radius;
    const isPast = past().includes(batch), falls = until !== null && batch === past().at(-1) ? "falls" : "";
    const fate = !isPast ? "to-come" : batch.dropped.includes(row) ? "dropped" : batch.duplicates.includes(row) ? "duplicate" : "";
    const shape = row.side === "ad" ? rect("shape", over - r, high - r, 2 * r, 2 * r, 3) : `<circle class="shape" cx="${over}" cy="${high}" r="${r}"/>`;
    const label = `${escaped(titled(row))}, file ${file}, ${isPast ? fate || "taken" : "to come"}`, held = dragged?.id === row.id ? "held" : "";
    return `<g class="row ${row.key} ${fate} ${falls} ${held}" style="--from: ${TOP - high}px" tabindex="0" role="button" data-row="${row.id}" aria-label="${label}"><title>${label}</title>` +
      `<circle class="ring" cx="${over}" cy="${high}" r="${r + 5}"/>${shape}${text("", over, high + 4.5, row.key, "middle")}</g>`;
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
  if (shown.operator === "dedup") return `${keyName(thing.key)}, remembered until ${at(thing.end)}`;
  if (shown.operator === "join") return titled(thing);
  return `[${at(thing.start)}, ${at(thing.end)})${keyName(thing.key) ? ` ${keyName(thing.key)}` : ""}`;
}

// The name of a lane stands behind it or before it; where there is no room, above it.
function withName(lane) {
  const name = laneName(lane), needs = 6.4 * name.length + 8, begin = place.begin(lane.from), end = place.end(lane.cells.at(-1).batch);
  const where = place.width - end > needs ? "behind" : begin - 6 > needs ? "before" : "above";
  return { ...lane, name, where, tall: where === "above" ? 34 : 21 };
}

function ending({ thing, merged, gone, cells }) {  // what the last cell of a lane says, and whether the row goes to the sink
  if (merged) return ["merged", false];
  if (!gone) return null;
  if (shown.operator === "join") return shown.how === "left" && thing.side === "ad" && !thing.matched ? ["→ null", true] : ["leaves", false];
  return cells.at(-1).out ? [`→ ${thing.count}`, true] : ["leaves", false];
}

const SHORT = { leaves: "×", merged: "+", "→ null": "→", paired: "p", waits: "w" };  // in a narrow column

function drawLane(lane, top) {
  const { from, where } = lane, cells = lane.cells.filter(({ batch }) => past().includes(batch));
  if (!cells.length) return "";
  const isWhole = cells.length === lane.cells.length && (!lane.merged || past().length > cells.at(-1).batch.number + 1);
  const name = laneName(cells.at(-1)), x = place.begin(from), to = place.end(cells.at(-1).batch), last = isWhole && ending(lane);
  const [left, anchor] = { behind: [to + 4, "start"], before: [x - 4, "end"], above: x > place.width / 2 ? [to - 2, "end"] : [x + 3, "start"] }[where];
  let drawn = text("soft", left, where === "above" ? top + 11 : top + 13, name, anchor);
  if (where === "above") top += 13;
  drawn += rect(`lane ${lane.thing.key}`, x + 2, top, to - x - 4, 17, 5);
  cells.forEach(({ batch, thing, out }, number) => {
    const begin = place.begin(batch), wide = place.end(batch) - begin, isLast = number === cells.length - 1;
    if (isLast && last) {
      const chip = Math.min(wide - 6, 8 * last[0].length + 12);
      drawn += rect(`chip${last[1] ? "" : " gone"}`, to - 3 - chip, top + 1, chip, 15, 4);
      drawn += text("on-chip", to - 3 - chip / 2, top + 12.5, chip < 7 * last[0].length ? SHORT[last[0]] || last[0] : last[0], "middle");
      return;
    }
    const words = shown.operator === "join" ? (thing.matched ? "paired" : "waits") : thing.count ?? "";
    drawn += text("", begin + wide / 2, top + 12.5, `${out ? "→ " : ""}${wide < 46 ? SHORT[words] || words : words}`, "middle");
  });
  return drawn;
}

function drawSweep(bottom) {  // over the column of the newest batch, until it has been swept free
  const batch = until === null ? null : past().at(-1);
  return batch ? rect("sweep", place.begin(batch), TOP, place.end(batch) - place.begin(batch), bottom - TOP) : "";
}

function drawPicture() {
  place = places(0);
  const all = lanes().map(withName), tall = all.reduce((sum, lane) => sum + lane.tall, 0);
  place = places(tall);
  let top = place.bottom + 46;
  const heading = all.length ? `the state: ${plural(all.length, HELD[shown.operator])} over time` : "nothing gets into the state";
  const focus = document.activeElement?.closest?.("[data-row], [data-kill]")?.dataset, drawn = all.map(lane => drawLane(lane, (top += lane.tall) - lane.tall));
  box.innerHTML = `<svg role="group" aria-label="rows by file and event time, and the state by batch" width="${place.width}" height="${top + 8}">` +
    drawGround() + drawWatermark("late", "late") + drawWatermark("watermark", "mark") +
    text("soft", place.left, place.bottom + 37, heading) + drawn.join("") + drawSweep(top) + drawHeads() + drawRows() + "</svg>";
  if (focus) one(focus.row ? `[data-row="${focus.row}"]` : `[data-kill="${focus.kill}"]`)?.focus({ preventScroll: true });
}

const SAMPLES = [
  ['<line x1="0" y1="6" x2="24" y2="6" class="mark"/>', "watermark of the batch: state that ends by then is evicted"],
  ['<line x1="0" y1="6" x2="24" y2="6" class="late"/>', "late watermark, of the batch before: rows that are not after it are dropped (for windows, the end counts)"],
  ['<g class="row dropped"><circle class="shape" cx="12" cy="6" r="5"/></g>', "a row that is dropped"],
  ['<rect x="0" y="0" width="24" height="12" rx="3" class="chip"/>', "emitted when it is evicted from the state"],
];

function drawLegend() {
  const names = shown.keys.map((name, number) => `<li><b>${String.fromCharCode(97 + number)}</b> <span></span></li>`).join("");
  one(".legend").innerHTML = names + SAMPLES.map(([drawn, words]) => `<li><svg width="24" height="12" aria-hidden="true">${drawn}</svg>${words}</li>`).join("");
  shown.keys.forEach((name, number) => { one(`.legend li:nth-child(${number + 1}) span`).textContent = name.trim() || "(no other column)"; });
}

// -- with the mouse, a finger or the keyboard --------------------------------------------------------------------------

function pointed(event) {  // at which file and time
  const { left, top } = box.getBoundingClientRect(), x = event.clientX - left, y = event.clientY - top;
  const { low, high, bottom, width, tall, fileAt } = place;
  return {
    file: fileAt(x), time: Math.round(low + (high - low) * (bottom - y) / tall),
    outside: x < place.left - 20 || x > width + 10 || y < TOP - 24 || y > bottom + 24,
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
  if (!outside) moved(dragged.id, file, Math.round(Math.min(Math.max(time, place.low), place.high)));
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
  else if (event.target.closest(".plane")) added(pointed(event).file, pointed(event).time);
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
new ResizeObserver(() => { if (place && Math.max(box.clientWidth, 300) !== place.width) drawPicture(); }).observe(box);
