// What if the watermark came later, or the windows were longer? A small model of these two alone, for a page without Python.
// The arrivals are those of the trace (lens/view/what_if_page.py). In a notebook, `what_if` runs the query itself.
//
//   arrivals: [[{time, key}]]   the rows of each batch with data: event time in ms, and the other columns of their key
//   waits                       whether new data came only when there was nothing left to do
//
// 1. A row is late if its window ended at or before the watermark of the batch before; else it is counted.
// 2. A window that ended at or before the watermark of the batch leaves the state, and is emitted.
// 3. The next watermark is the newest event time less the delay, and never goes back.
// 4. Where it has moved and there is no new data, a batch runs without data.
//
// tests/spark/test_what_if_page.py compares all of this with runs of the engine.

function whatIf({ arrivals, waits }, delay, size) {
  const late = [], emitted = [], open = new Map();
  let watermark = 0, before = 0, batch = 0;

  function run(rows) {
    for (const { time, key } of rows) {
      const start = Math.floor(time / size) * size, end = start + size;
      if (before && end <= before) late.push({ batch, time, end, watermark: before });  // 1
      else {
        const name = start + key, group = open.get(name) || { start, end, key, rows: 0 };
        group.rows++;
        open.set(name, group);
      }
    }
    for (const [name, group] of open) {  // 2
      if (!watermark || group.end > watermark) continue;
      open.delete(name);
      emitted.push({ batch, ...group });
    }
    before = watermark;
    for (const { time } of rows) watermark = Math.max(watermark, Math.floor(time) - delay);  // 3
    batch++;
    return watermark > before;
  }

  arrivals.forEach((rows, i) => {
    const moved = run(rows), more = i < arrivals.length - 1;
    if (moved && (waits || !more)) run([]);  // 4
  });
  return { late, emitted, held: [...open.values()], batches: batch, watermark };
}

// -- the card --------------------------------------------------------------------------------------------------------

const UNITS = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"], [1, "ms"]];

function duration(ms) {
  const [size, unit] = UNITS.find(([size]) => ms % size === 0);
  return ms ? `${ms / size} ${unit}` : "none";
}

const clock = ms => new Date(ms).toISOString().slice(11, 19).replace(/:00$/, "");
const plural = (count, noun) => `${count || "no"} ${noun}${count === 1 ? "" : "s"}`;

function drawWhatIf() {
  const given = data.what_if, card = one("#what-if");
  const [delay, size] = ["delay", "size"].map(name => {
    const slider = card.querySelector(`[name=${name}]`), value = given[name + "s"][slider.value];
    slider.setAttribute("aria-valuetext", duration(value));
    slider.nextElementSibling.textContent = duration(value);
    return value;
  });
  const found = whatIf(given, delay, size);
  const rows = found.emitted.map(one => [
    `batch ${one.batch}`, `[${clock(one.start)}, ${clock(one.end)})${one.key && " " + one.key}`, plural(one.rows, "row"),
  ]);
  const of = found.late.map(row => `${clock(row.time)} in batch ${row.batch}, as its window ended ${clock(row.end)}, ` +
    `at or before the late watermark, ${clock(row.watermark)}`);
  const held = found.held.length;
  const said = [
    of.length ? `Too late: ${of.join("; ")}.` : "No row is too late.",
    `${rows.length || "No"} ${rows.length === 1 ? "window is" : "windows are"} emitted, ${held || "none"} ${held === 1 ? "is" : "are"} ` +
      `still held after batch ${found.batches - 1}, when the next watermark is ${clock(found.watermark)}.`,
  ];
  card.querySelector("[role=status]").textContent = said.join(" ");
  card.querySelector("tbody").replaceChildren(...rows.map(cells => {
    const line = document.createElement("tr");
    for (const cell of cells) line.insertCell().textContent = cell;
    return line;
  }));
}

document.querySelector("#what-if")?.addEventListener("input", drawWhatIf);
