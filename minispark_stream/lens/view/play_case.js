// A case of the page to play with as text, for the address of the page.
//
//   windows;delay=10;size=5;slide=5;mode=append;n=1;rows=a12:02,b12:04|a12:21
//
// Files are separated by |, rows by commas; a row is a key and a time, and of a join the word ad or click stands before both.
// What is left out, or makes no sense, is as in the case that the operator begins with.

const MINUTES = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30];  // a day has a whole number of each
const KNOBS = {
  windows: { delay: 10, size: 5, slide: 5, mode: "append" }, dedup: { delay: 10 },
  join: { delay: 10, within: 10, how: "left" }, sessions: { delay: 10, gap: 5 },
};
const WORDS = { mode: ["append", "update"], how: ["inner", "left"] };
const ROWS = {
  windows: "a12:02,a12:04|a12:14|a12:04,b12:12|a12:27|a12:05,b12:16|a12:09,a12:38",
  dedup: "a12:02|a12:08,b12:09|b12:24|a12:15,b12:05|a12:26|a12:40",
  join: "ad a12:00,ad b12:02|click a12:06|ad c12:20|click b12:19,click c12:22|ad a12:40,click c12:41",
  sessions: "a12:00|a12:08|a12:04,b12:10|a12:26|b12:13|a12:40",
};

const clock = time => `${String(Math.floor(time / 60)).padStart(2, "0")}:${String(time % 60).padStart(2, "0")}`;

function rowsOf(text, operator) {
  let id = 0;
  return text.split("|").map(file => [...file.matchAll(/(?:(ad|click) )?([a-z])(\d\d):(\d\d)/g)].map(([, side, key, hours, minutes]) => ({
    id: `r${id++}`, key, time: 60 * hours + +minutes, ...(operator === "join" ? { side: side || "ad" } : {}),
  })));
}

function caseOf(text) {
  const [operator, ...parts] = text.split(";"), known = Object.hasOwn(KNOBS, operator) ? operator : "windows";
  const given = Object.fromEntries(parts.map(part => part.split("=")));
  const knobs = Object.fromEntries(Object.entries(KNOBS[known]).map(([name, usual]) => {
    const allowed = WORDS[name] || (name === "delay" ? [0, ...MINUTES] : MINUTES);
    return [name, allowed.find(value => String(value) === given[name]) ?? usual];
  }));
  if (knobs.slide > knobs.size) knobs.slide = knobs.size;
  const whole = name => /^\d+$/.test(given[name]) ? +given[name] : null;
  const files = rowsOf(given.rows || ROWS[known], known);
  return { operator: known, ...knobs, perBatch: Math.min(Math.max(whole("n") || 1, 1), 3), crash: whole("crash"), files };
}

function textOf({ operator, perBatch, crash, files, ...given }) {
  const knobs = Object.keys(KNOBS[operator]).map(name => `${name}=${given[name]}`);
  const rows = files.map(rows => rows.map(({ side, key, time }) => (side ? `${side} ` : "") + key + clock(time)).join(",")).join("|");
  return [operator, ...knobs, `n=${perBatch}`, ...(crash === null ? [] : [`crash=${crash}`]), `rows=${rows}`].join(";");
}
