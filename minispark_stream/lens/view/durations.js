// Durations and counts in words, for the pages in which something is played.
//
//   duration(90_000) -> "90 s"      interval(600_000) -> "10 minutes"      plural(1, "row") -> "1 row"

const UNITS = [[86_400_000, "d", "day"], [3_600_000, "h", "hour"], [60_000, "min", "minute"], [1000, "s", "second"], [1, "ms", "millisecond"]];
const wholeIn = ms => UNITS.find(([size]) => ms % size === 0);

function duration(ms) {
  const [size, short] = wholeIn(ms);
  return ms ? `${ms / size} ${short}` : "none";
}

function interval(ms) {  // as Spark reads it
  const [size, , long] = ms ? wholeIn(ms) : UNITS[2];
  return `${ms / size} ${long}${ms === size ? "" : "s"}`;
}

const plural = (count, noun) => `${count || "no"} ${noun}${count === 1 ? "" : "s"}`;
