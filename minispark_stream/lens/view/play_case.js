// A case of the page to play with as text, for the address of the page, and for play() in a notebook.
//
//   windows;delay=10;size=5;slide=5;mode=append;n=1;rows=a12:02,b12:04|a12:21
//   windows;unit=s;day=2024-01-01;waits=1;keys=ann,bob;delay=30;size=10;slide=10;mode=append;n=1;rows=a12:02:10|b12:02:21
//
// Files are separated by |, rows by commas; a row is a letter for its key and a time, and of a join the word ad or click stands before
// both. What is left out, or makes no sense, is as in the case that the operator begins with. Rows of a query, which come from a trace
// (played.py), need more words:
//   unit    min, s or ms: in what the knobs are, and how exact the times are      day    of all times; the hours may be more than 24
//   keys    what the letters stand for      sides   what the inputs of a join are called
//   waits   each file comes when the query has nothing left to do

const SIZES = { min: 60_000, s: 1000, ms: 1 };
const SECONDS = [1, 2, 5, 10, 20, 30], MINUTES = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30], HOURS = [1, 2, 6, 12, 24];
const DURATIONS = [[1000, SECONDS], [60_000, MINUTES], [3_600_000, HOURS]].flatMap(([size, counts]) => counts.map(count => count * size));
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
const ROW = /(?:(ad|click) )?([a-z])(\d\d+):(\d\d)(?::(\d\d)(?:\.(\d{3}))?)?/g;

// The scale of a case: its unit, and its first day. Times and knobs are numbers of the unit; times begin in 1970, as windows do.
const scaleOf = (unit, day) => ({ unit, ms: SIZES[unit], aDay: 86_400_000 / SIZES[unit], day, zero: Date.parse(day) / SIZES[unit] });
const USUAL = scaleOf("min", "1970-01-01");

function clock(time, { ms, zero, unit } = USUAL) {
  const passed = (time - zero) * ms, two = number => String(Math.floor(number)).padStart(2, "0");
  const minutes = `${two(passed / 3_600_000)}:${two(passed / 60_000 % 60)}`, seconds = two(passed / 1000 % 60);
  return unit === "min" ? minutes : unit === "s" ? `${minutes}:${seconds}` : `${minutes}:${seconds}.${String(passed % 1000).padStart(3, "0")}`;
}

function rowsOf(text, operator, { ms, zero }) {
  let id = 0;
  return text.split("|").map(file => [...file.matchAll(ROW)].map(([, side, key, hours, minutes, seconds = 0, millis = 0]) => ({
    id: `r${id++}`, key, time: zero + Math.floor((hours * 3_600_000 + minutes * 60_000 + seconds * 1000 + +millis) / ms),
    ...(operator === "join" ? { side: side || "ad" } : {}),
  })));
}

function caseOf(text) {
  const [operator, ...parts] = text.split(";"), known = Object.hasOwn(KNOBS, operator) ? operator : "windows";
  const given = Object.fromEntries(parts.map(part => part.split("=")));
  const scale = scaleOf(Object.hasOwn(SIZES, given.unit) ? given.unit : "min", isNaN(Date.parse(given.day)) ? USUAL.day : given.day);
  const whole = name => /^\d{1,12}$/.test(given[name]) ? +given[name] : null, names = name => given[name] ? given[name].split(",") : [];
  const knobs = Object.fromEntries(Object.entries(KNOBS[known]).map(([name, usual]) => {
    if (WORDS[name]) return [name, WORDS[name].includes(given[name]) ? given[name] : usual];
    const fits = whole(name) !== null && (name === "delay" || whole(name) > 0);
    return [name, fits ? whole(name) : usual * 60_000 / scale.ms];
  }));
  if (knobs.slide > knobs.size) knobs.slide = knobs.size;
  const files = rowsOf(given.rows || ROWS[known], known, scale);
  return {
    operator: known, ...knobs, perBatch: Math.min(Math.max(whole("n") || 1, 1), 3), waits: given.waits === "1", crash: whole("crash"), files,
    scale, keys: names("keys").map(decoded), sides: names("sides").map(decoded),
  };
}

function textOf({ operator, perBatch, waits, crash, files, scale, keys, sides, ...given }) {
  const knobs = Object.keys(KNOBS[operator]).map(name => `${name}=${given[name]}`), list = names => names.map(encodeURIComponent).join();
  const rows = files.map(rows => rows.map(({ side, key, time }) => (side ? `${side} ` : "") + key + clock(time, scale)).join(",")).join("|");
  const words = { unit: scale.unit === "min" ? "" : scale.unit, day: scale.day === USUAL.day ? "" : scale.day, waits: waits ? "1" : "",
    keys: list(keys), sides: list(sides) };
  const more = Object.entries(words).filter(([, word]) => word).map(([name, word]) => `${name}=${word}`);
  return [operator, ...more, ...knobs, `n=${perBatch}`, ...(crash === null ? [] : [`crash=${crash}`]), `rows=${rows}`].join(";");
}

function decoded(text) {  // the names of keys, and the fragment of an address, may be anything
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}
