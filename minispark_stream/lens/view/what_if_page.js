// What if the watermark came later, or the windows were longer? The rows of the trace (lens/view/what_if_page.py) are played
// (play_rules.js) with another delay and other windows. In a notebook, `what_if` runs the query itself.
//
//   whatIf({ files: [[{time, key}]], waits: false }, 600000, 300000)     event times in ms; the other columns of the key as a text

function whatIf({ files, waits }, delay, size) {
  const batches = batchesOf({ operator: "windows", files, waits, delay, size, slide: size, mode: "append" });
  const { next: watermark, held } = batches.at(-1);
  return {
    late: batches.flatMap(({ number, late, dropped }) => dropped.map(({ time }) => ({ batch: number, time, late }))),
    emitted: batches.flatMap(({ number, out }) => out.map(window => ({ batch: number, ...window }))),
    held: held.size, batches: batches.length, watermark,
  };
}

const clockOf = ms => new Date(ms).toISOString().slice(11, 19).replace(/:00$/, "");

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
    `batch ${one.batch}`, `[${clockOf(one.start)}, ${clockOf(one.end)})${one.key && " " + one.key}`, plural(one.count, "row"),
  ]);
  const end = time => (Math.floor(time / size) + 1) * size;
  const of = found.late.map(row => `${clockOf(row.time)} in batch ${row.batch}, as its window ended ${clockOf(end(row.time))}, ` +
    `at or before the late watermark, ${clockOf(row.late)}`);
  const { held } = found;
  const said = [
    of.length ? `Too late: ${of.join("; ")}.` : "No row is too late.",
    `${rows.length || "No"} ${rows.length === 1 ? "window is" : "windows are"} emitted, ${held || "none"} ${held === 1 ? "is" : "are"} ` +
      `still held after batch ${found.batches - 1}, when the next watermark is ${clockOf(found.watermark)}.`,
  ];
  card.querySelector("[role=status]").textContent = said.join(" ");
  card.querySelector("tbody").replaceChildren(...rows.map(cells => {
    const line = document.createElement("tr");
    for (const cell of cells) line.insertCell().textContent = cell;
    return line;
  }));
}

document.querySelector("#what-if")?.addEventListener("input", drawWhatIf);
