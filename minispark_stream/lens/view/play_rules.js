// What a query makes of its rows, batch by batch: windows, deduplication, joins and sessions, in append mode or, for windows, in
// update mode. play.js draws it on the page to play with, and what_if_page.js for the rows of a trace.
//
//   batchesOf({ operator: "windows", files: [[{ time: 722, key: "a" }], ..], perBatch: 1, delay: 10, size: 5, slide: 5, mode: "append" })
//     -> [{ rows, late: -Infinity, watermark: -Infinity, next: 712, dropped: [], out: [], held: Map }, ..]
//
// Times are numbers of any one unit. All files are there when the query starts, and nothing comes later; or, if it `waits`, each file
// comes when the query has nothing left to do.
//
// 1. A batch takes the next files. It drops rows by the late watermark, which is the watermark of the batch before.
// 2. The operator puts the other rows into its state, and says what goes out.
// 3. What the watermark of the batch has reached leaves the state.
// 4. The next watermark is the newest event time less the delay; of two inputs, the one that is further behind. It never goes back.
// 5. When the watermark has moved and there is no file to read, a batch runs without data.
// 6. A batch that is killed before it is committed runs again with the same rows, so the same rows go out; its sink may have them
//    twice. The watermark is on disk, but not how far each of two inputs has come: after the restart, one that has not sent a row
//    yet holds the watermark back.
//
// tests/unit/lens/view/test_play_rules.py compares all of this with what real Spark did in hundreds of random cases, and
// tests/spark/test_what_if_page.py with runs of the engine where a query waits.

const NONE = -Infinity;  // no watermark yet

const OPERATORS = {
  // A row counts in each of its windows that the late watermark has not reached. A window goes out when the watermark reaches it,
  // or, in update mode, whenever it has changed.
  windows(batch, state, { size, slide, mode }) {
    const changed = new Set();
    for (const row of batch.rows) {
      let counted = false;
      for (let start = Math.floor(row.time / slide) * slide; start > row.time - size; start -= slide) {
        if (start + size <= batch.late) continue;
        const id = `${start} ${row.key}`, window = state.get(id) || { id, key: row.key, start, end: start + size, count: 0 };
        state.set(id, { ...window, count: window.count + 1 });
        changed.add(id);
        counted = true;
      }
      if (!counted) batch.dropped.push(row);
    }
    if (mode === "update") batch.out.push(...[...changed].map(id => state.get(id)));
    for (const window of reached(batch, state, window => window.end)) if (mode !== "update") batch.out.push(window);
  },

  // The first row of a key passes. Its key is kept until the watermark reaches the row's time plus the delay.
  dedup(batch, state, { delay }) {
    for (const row of batch.rows) {
      if (row.time <= batch.late) batch.dropped.push(row);
      else if (state.has(row.key)) batch.duplicates.push(row);
      else {
        state.set(row.key, { id: row.key, key: row.key, start: row.time, end: row.time + delay });
        batch.out.push(row);
      }
    }
    reached(batch, state, key => key.end);
  },

  // A click meets the ads of its key that were shown before it, but no more than `within` before. Ads come first, then clicks.
  // In an outer join, an ad that leaves the state and has met nobody goes out alone.
  join(batch, state, { within, how }) {
    const ordered = [...batch.rows.filter(row => row.side === "ad"), ...batch.rows.filter(row => row.side !== "ad")];
    for (const row of ordered) {
      if (row.time <= batch.late) {
        batch.dropped.push(row);
        continue;
      }
      const met = [...state.values()].filter(other => {
        const [ad, click] = row.side === "ad" ? [row, other] : [other, row];
        return other.side !== row.side && ad.key === click.key && ad.time <= click.time && click.time <= ad.time + within;
      });
      for (const other of met) {
        const [ad, click] = row.side === "ad" ? [row, other] : [other, row];
        batch.out.push({ key: row.key, ad: ad.time, click: click.time });
        state.set(other.id, { ...other, matched: true });
      }
      const isOld = row.side !== "ad" && row.time < batch.watermark;  // a click that would leave at once is not kept
      if (!isOld) state.set(row.id, { ...row, start: row.time, end: row.time, matched: met.length > 0 });
    }
    for (const row of reached(batch, state, row => row.time + (row.side === "ad" ? within : 0), true)) {
      if (how === "left" && row.side === "ad" && !row.matched) batch.out.push({ key: row.key, ad: row.time, click: null });
    }
  },

  // Each row opens a session that lasts until `gap` after it; sessions of a key that touch become one.
  sessions(batch, state, { gap }) {
    for (const row of batch.rows) {
      let session = { id: row.id, key: row.key, start: row.time, end: row.time + gap, count: 1 };
      if (session.end <= batch.late) {
        batch.dropped.push(row);
        continue;
      }
      for (const other of [...state.values()]) {
        if (other.key !== session.key || other.start > session.end || session.start > other.end) continue;
        state.delete(other.id);
        session = {
          id: session.id === row.id ? other.id : session.id, key: session.key, count: other.count + session.count,
          start: Math.min(other.start, session.start), end: Math.max(other.end, session.end),
        };
      }
      state.set(session.id, session);
    }
    batch.out.push(...reached(batch, state, session => session.end));
  },
};

// (3) Takes out of the state what has ended by the watermark of the batch; with `before`, what has ended before it.
function reached(batch, state, end, before = false) {
  const gone = [...state.values()].filter(one => before ? end(one) < batch.watermark : end(one) <= batch.watermark);
  for (const one of gone) state.delete(one.id);
  batch.gone.push(...gone);
  return gone;
}

function batchesOf({ operator, files, perBatch = 1, waits = false, crash = null, ...knobs }) {
  const batches = [], state = new Map(), newest = new Map(operator === "join" ? [["ad", NONE], ["click", NONE]] : [[undefined, NONE]]);
  let late = NONE, watermark = NONE;

  function run(rows, withData) {
    const batch = { number: batches.length, withData, rows, late, watermark, dropped: [], duplicates: [], out: [], gone: [] };
    OPERATORS[operator](batch, state, knobs);  // (1) to (3)
    if (batch.number === crash) for (const side of newest.keys()) newest.set(side, NONE);  // (6)
    for (const { time, side } of rows) newest.set(side, Math.max(newest.get(side), Math.floor(time)));
    late = watermark;
    watermark = Math.max(watermark, Math.min(...newest.values()) - knobs.delay);  // (4)
    batches.push({ ...batch, next: watermark, held: new Map(state) });
  }

  for (let first = 0; first < files.length; first += perBatch) {
    run(files.slice(first, first + perBatch).flat(), true);
    if (watermark > late && (waits || first + perBatch >= files.length)) run([], false);  // (5)
  }
  return batches;
}

// (6) What the sink is given: the number of a batch and its rows, twice where the batch `crash` was killed.
function deliveries(batches, crash) {
  return batches.flatMap(({ number, out }) => number === crash ? [{ number, out, killed: true }, { number, out }] : [{ number, out }]);
}
