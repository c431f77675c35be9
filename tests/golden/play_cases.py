"""Random cases of the page of play.py, and what real Spark made of each: play_cases.json.

    python -m tests.golden.play_cases 420      records cases that are not there yet, for 420 seconds at most

A case is its text (lens/view/play_case.js); what Spark did with it is, of each batch, its watermark, how many rows the state had after
it and how many were dropped, and what the sink was given, in the order in which it was:

    {"windows;delay=10;..": {"batches": [[0, null, 2, 0], ..], "sink": [[0, []], [1, ["a12:00-12:05=2"]], ..]}}
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

FILE = Path(__file__).with_name("play_cases.json")
OPERATORS = ("windows", "dedup", "join", "sessions")
CASES = 71  # of each operator
DELAYS, SIZES = (0, 2, 5, 10, 20), (2, 3, 5, 10, 15)
SCHEMA = "side string, key string, time timestamp"
Case = dict[str, Any]


def case_text(operator: str, number: int) -> str:
    """A random case: most rows are of their file's time, every third comes late."""
    rng = random.Random(f"{operator} {number}")
    per_batch, size = rng.choice((1, 1, 2)), rng.choice(SIZES)
    knobs: dict[str, Any] = {"delay": rng.choice(DELAYS)}
    if operator == "windows":
        knobs |= {"size": size, "slide": rng.choice([s for s in SIZES if s <= size]), "mode": rng.choice(("append", "append", "update"))}
    elif operator == "join":
        knobs |= {"within": size, "how": rng.choice(("inner", "left", "left"))}
    elif operator == "sessions":
        knobs |= {"gap": size}
    files: list[list[str]] = []
    for file in range(rng.randint(3, 6)):
        earlier = files[len(files) // per_batch * per_batch:] if operator == "dedup" else []
        taken = {row[-6] for rows in earlier for row in rows}  # which of two files of a batch comes first, only Spark knows
        keys = [key for key in "abc" if key not in taken]
        rows = []
        for _ in range(rng.randrange(5) if keys else 0):
            minute = 722 + 8 * file + (rng.randrange(-4, 5) if rng.random() < 0.67 else -rng.randrange(30))
            side = rng.choice(("ad ", "click ")) if operator == "join" else ""
            rows.append(f"{side}{rng.choice(keys)}{minute // 60:02d}:{minute % 60:02d}")
        files.append(rows)
    crash = [f"crash={rng.randrange(-(-len(files) // per_batch) + 1)}"] if rng.random() < 0.3 else []
    words = [f"{name}={value}" for name, value in knobs.items()]
    return ";".join([operator, *words, f"n={per_batch}", *crash, "rows=" + "|".join(map(",".join, files))])


def parsed(text: str) -> Case:
    operator, *parts = text.split(";")
    case: Case = {"operator": operator, "crash": None, **dict(part.split("=") for part in parts)}
    case["files"] = [[row for row in file.split(",") if row] for file in case["rows"].split("|")]
    return case


def as_json(row: str) -> str:
    side, _, rest = row.rpartition(" ")
    return json.dumps({"side": side, "key": rest[0], "time": f"2024-01-01 {rest[1:]}:00"})


def query(session: Any, folder: str, case: Case) -> DataFrame:
    """The case as a query of either engine."""
    rows = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", int(case["n"])).json(folder)
    delay = f"{case['delay']} minutes"
    if case["operator"] == "join":
        ads = rows.where("side = 'ad'").select("key", F.col("time").alias("ad")).withWatermark("ad", delay)
        others = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", int(case["n"])).json(folder)
        clicks = others.where("side = 'click'").select(F.col("key").alias("of"), F.col("time").alias("click")).withWatermark("click", delay)
        condition = F.expr(f"key = of AND click >= ad AND click <= ad + INTERVAL {case['within']} MINUTES")
        return ads.join(clicks, condition, case["how"]).select("key", "ad", "click")
    rows = rows.withWatermark("time", delay)
    if case["operator"] == "dedup":
        return rows.dropDuplicatesWithinWatermark(["key"]).select("key", "time")
    if case["operator"] == "sessions":
        window = F.session_window("time", f"{case['gap']} minutes")
    else:
        window = F.window("time", f"{case['size']} minutes", f"{case['slide']} minutes")
    return rows.groupBy(window.alias("w"), "key").count().select("key", "w.start", "w.end", "count")


def said(row: Row) -> str:
    values = [f"{value:%H:%M}" if isinstance(value, datetime) else "null" if value is None else str(value) for value in row[1:]]
    return row[0] + "-".join(values[:2]) + "".join(f"={count}" for count in values[2:])


class Killed(Exception):
    pass


def play(session: Any, case: Case, folder: Path) -> dict[str, Any]:
    """What an engine makes of a case."""
    source = folder / "in"
    source.mkdir(parents=True)
    for i, rows in enumerate(case["files"]):
        path = source / f"{i}.json"
        path.write_text("\n".join(map(as_json, rows)))
        os.utime(path, (1_700_000_000 + i,) * 2)
    sink: list[tuple[int, list[str]]] = []
    batches: dict[int, list[Any]] = {}

    def take(rows: DataFrame, batch: int) -> None:
        kill = str(batch) == case["crash"] and all(number != batch for number, _ in sink)
        sink.append((batch, sorted(map(said, rows.collect()))))
        if kill:
            raise Killed

    runs = 0
    while runs == 0 or (runs == 1 and sink[-1][0] not in batches):  # the batch that was killed has no report
        runs += 1
        writer = query(session, str(source), case).writeStream.outputMode(case.get("mode", "append")).foreachBatch(take)
        running = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
        try:
            running.awaitTermination()
        except Exception as e:
            if "Killed" not in str(e):
                raise
        for progress in map(json.loads, (p.json for p in running.recentProgress if any(number == p.batchId for number, _ in sink))):
            state, watermark = progress["stateOperators"][0], progress["eventTime"].get("watermark", "1970")
            reached = None if watermark.startswith("1970") else watermark[11:16]
            batches[progress["batchId"]] = [progress["batchId"], reached, state["numRowsTotal"], state["numRowsDroppedByWatermark"]]
    return {"batches": [batches[number] for number in sorted(batches)], "sink": sink}


def recorded() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text())) if FILE.exists() else {}


def record(spark: SparkSession, texts: Sequence[str], until: float, save: Callable[[dict[str, Any]], object]) -> None:
    found = recorded()

    def one(text: str) -> None:
        if time.monotonic() < until and text not in found:
            with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
                found[text] = play(spark.newSession(), parsed(text), Path(folder))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, texts))
    save({text: found[text] for text in texts if text in found})


def write(found: dict[str, Any]) -> None:
    lines = (f"{json.dumps(text)}: {json.dumps(result, separators=(',', ':'))}" for text, result in found.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    spark = (
        SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 1).config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", False).config("spark.ui.showConsoleProgress", False).getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    every = [case_text(operator, number) for number in range(CASES) for operator in OPERATORS]
    record(spark, every, time.monotonic() + float(sys.argv[1]), write)
    print(len(recorded()), "of", len(set(every)))
