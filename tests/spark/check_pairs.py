"""Pairs of queries on one checkpoint: an old one, and the new one that goes on. Both are built by the names of their parts.

A pair says what it is about, and the verdict that its rows deserve; what Spark does with it is played and recorded (test_check.py).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
AVRO = {**ROCKSDB, "spark.sql.streaming.stateStore.encodingFormat": "avro"}
NAMED = {"spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"}
SCHEMA = "k string, u string, v long, w long, ts timestamp, ts2 timestamp"
Build = Callable[[Any], Any]
Query = Callable[[Any, Path], Any]


@dataclass(frozen=True)
class Pair:
    """`verdict`: what the new result is worth. `damage` changes the checkpoint or the input in between."""

    name: str
    old: Query
    new: Query
    verdict: str
    mode: str = "update"
    new_mode: str | None = None
    confs: Mapping[str, str] = field(default_factory=dict)
    new_confs: Mapping[str, str] = field(default_factory=dict)
    damage: Callable[[Path], None] | None = None
    sink: str = "foreachBatch"
    new_sink: str | None = None


def feed(folder: Path, batch: int) -> None:
    """One file. Files of one time may be read in any order, so each has its own."""
    folder.mkdir(exist_ok=True)
    rows = [
        {"k": k, "u": "xyx"[(i + batch) % 3], "v": 10 * batch + i, "w": i, "ts": f"2026-03-01 12:{6 * batch + i:02}:00",
         "ts2": f"2026-03-01 13:{6 * batch + i:02}:00"}
        for i, k in enumerate("abac"[: 3 + batch % 2])
    ]
    file = folder / f".{batch}"
    file.write_text("\n".join(map(json.dumps, rows)))
    os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))
    file.rename(folder / f"{folder.name}{batch}.json")


def rows(session: Any, home: Path, folder: str = "in", schema: str = SCHEMA, name: str | None = None, **options: str) -> Any:
    reader = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).options(**options)
    return (reader if name is None else reader.name(name)).json(str(home / folder))


def count(*keys: Any, **given: str) -> Query:
    return lambda s, home: rows(s, home, **given).groupBy(*keys).count()


def agg(*functions: Any, keys: tuple[Any, ...] = ("k",)) -> Query:
    return lambda s, home: rows(s, home).groupBy(*(key() if callable(key) else key for key in keys)).agg(*(f() for f in functions))


def windows(size: str = "5 minutes", slide: str | None = None, start: str | None = None, delay: str | None = "2 minutes",
            column: str = "ts", *keys: str, by: str | None = None) -> Query:
    def build(s: Any, home: Path) -> Any:
        timed = rows(s, home) if delay is None else rows(s, home).withWatermark(column, delay)
        return timed.groupBy(F.window(by or column, size, slide, start), *keys).count()

    return build


def sessions(gap: str, *keys: str, value: str = "count(*)") -> Query:
    return lambda s, home: rows(s, home).withWatermark("ts", "2 minutes").groupBy(F.session_window("ts", gap), *keys).agg(F.expr(value))


def dedup(*columns: str, within: bool = False, delay: str | None = "2 minutes", where: str = "true",
          after: Callable[[Any], Any] = lambda df: df) -> Query:
    def build(s: Any, home: Path) -> Any:
        kept = rows(s, home).where(where)
        timed = kept if delay is None else kept.withWatermark("ts", delay)
        return after(timed.dropDuplicatesWithinWatermark(list(columns)) if within else timed.dropDuplicates(list(columns)))

    return build


def join(how: str = "inner", on: str = "k = k2", near: int | None = 5, left: str = "k, u, v, ts", swapped: bool = False,
         select: str = "k, v, v2", watermark: bool = True, right_where: str = "true") -> Query:
    def build(s: Any, home: Path) -> Any:
        a = rows(s, home).selectExpr(*left.split(", "))
        b = rows(s, home, "in2").selectExpr("k as k2", "u as u2", "v as v2", "ts as t2").where(right_where)
        if watermark:
            a, b = a.withWatermark("ts", "2 minutes"), b.withWatermark("t2", "2 minutes")
        time = "" if near is None else f" and t2 >= ts - interval {near} minutes and t2 <= ts + interval {near} minutes"
        both = b.join(a, F.expr(on + time), how) if swapped else a.join(b, F.expr(on + time), how)
        return both.selectExpr(*(select if how != "leftSemi" else "k, v").split(", "))

    return build


def union(first: str, second: str, names: tuple[str | None, str | None] = (None, None), count: bool = True) -> Query:
    def build(s: Any, home: Path) -> Any:
        both = rows(s, home, first, name=names[0]).union(rows(s, home, second, name=names[1]))
        return both.groupBy("k").count() if count else both.select("k", "v")

    return build


def chain(outer: str = "10 minutes", where: str = "true", inner: str = "5 minutes") -> Query:
    """Windows of windows: two stateful operators, one above the other."""

    def build(s: Any, home: Path) -> Any:
        small = windows(inner)(s, home).where(where)
        return small.groupBy(F.window(F.window_time("window"), outer)).agg(F.sum("count").alias("n"))

    return build


def distinct_users(*columns: str, keys: tuple[str, ...] = ("k",)) -> Query:
    """A count above a deduplication: two stateful operators."""
    return lambda s, home: rows(s, home).dropDuplicates(list(columns)).groupBy(*keys).count()


def plain(*columns: str, where: str = "true", **given: Any) -> Query:
    return lambda s, home: rows(s, home, **given).where(where).selectExpr(*columns)


def rate(per_batch: int = 3, start: int = 0) -> Query:
    return lambda s, home: (
        s.readStream.format("rate-micro-batch").option("rowsPerBatch", per_batch).option("startTimestamp", start).load().select("value")
    )


def static(table: str) -> Query:
    return lambda s, home: rows(s, home).join(s.read.schema("k string, n long").json(str(home / table)), "k").select("k", "v", "n")


def adds(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    total = (state.get[0] if state.exists else 0) + sum(int(frame.v.sum()) for frame in frames)
    state.update((total,))
    yield pd.DataFrame({"k": [key[0]], "n": [total]})


def doubles(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    total = (state.get[0] if state.exists else 0) + sum(2 * int(frame.v.sum()) for frame in frames)
    state.update((total,))
    yield pd.DataFrame({"k": [key[0]], "n": [total]})


def adds_and_tells(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    total = (state.get[0] if state.exists else 0) + sum(int(frame.v.sum()) for frame in frames)
    state.update((total,))
    yield pd.DataFrame({"k": [key[0]], "n": [total], "m": [total]})


def keyed(function: Any = adds, output: str = "k string, n long", state: str = "n long", mode: str = "update",
          timeout: str = "NoTimeout", key: str = "k") -> Query:
    def build(s: Any, home: Path) -> Any:
        timed = rows(s, home).withWatermark("ts", "2 minutes") if timeout == "EventTimeTimeout" else rows(s, home)
        return timed.groupBy(key).applyInPandasWithState(function, output, state, mode, timeout)

    return build


class Adds(StatefulProcessor):
    factor, schema, variable, kind = 1, "n long", "total", "value"

    def init(self, handle: StatefulProcessorHandle) -> None:
        make = {"value": handle.getValueState, "list": handle.getListState}[self.kind]
        self.total: Any = make(self.variable, self.schema)

    def handleInputRows(self, key: Any, frames: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        old = (self.total.get()[0] or 0) if self.total.exists() else 0  # null after a change of the fields in Avro
        total = old + sum(self.factor * int(frame.v.sum()) for frame in frames)
        self.total.update((total,))
        yield pd.DataFrame({"k": [key[0]], "n": [total]})

    def close(self) -> None:
        pass


class TwoVariables(Adds):
    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self.other = handle.getValueState("other", "n long")


class Doubles(Adds):
    factor = 2


class Renamed(Adds):
    variable = "sum"


class OtherField(Adds):
    schema = "m long"


class MoreFields(Adds):
    schema = "n long, m long"


class Narrow(Adds):
    schema = "n int"


class AsList(Adds):
    kind = "list"


def processed(processor: type[Adds] = Adds, key: str = "k", time_mode: str = "none") -> Query:
    return lambda s, home: rows(s, home).groupBy(key).transformWithStateInPandas(processor(), "k string, n long", "update", time_mode)


def delete(*patterns: str) -> Callable[[Path], None]:
    """Delete the last file that matches each pattern, with its checksum; of a pattern that ends in / the whole folder."""

    def damage(home: Path) -> None:
        for pattern in patterns:
            found = sorted(home.glob(pattern.rstrip("/")), key=lambda p: (len(p.name), p.name))
            for one in found if "*" in pattern.rsplit("/", 1)[0] else found[-1:]:
                if one.is_dir():
                    shutil.rmtree(one)
                else:
                    one.unlink()
                    one.with_name(f".{one.name}.crc").unlink(missing_ok=True)

    return damage


def late(home: Path) -> None:
    """A file with rows that were read before: they are late, and it comes last."""
    file = home / "in/late.json"
    file.write_text((home / "in/in0.json").read_text())
    os.utime(file, (1_700_000_100, 1_700_000_100))


def rename_input(home: Path) -> None:
    (home / "in").rename(home / "moved")


def c(name: str = "count(*)") -> Any:
    return lambda: F.expr(name)
