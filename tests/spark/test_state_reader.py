"""Random typed rows through a query's state: Spark's statestore reader and `inspect` read the same rows from the checkpoint.

Each type is once a grouping key, and in every query a value, under first (any value of the group), max and collect_list.

    batch 0   20 rows of 8 groups     batch 1   20 more, with some of the same groups
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from minispark_stream import MiniSparkSession, inspect
from minispark_stream.inspection.report import CheckpointReport

QUERIES = 4
TEXTS = ["", "a", "é", "\U0001f600", "longer than eight bytes", "a\0b"]
NOON = datetime(2024, 2, 29, 12, tzinfo=timezone.utc)

# Spark's name of a type, and how to draw a value of it.
TYPES: dict[str, Callable[[random.Random], Any]] = {
    "boolean": lambda r: r.random() < 0.5,
    "tinyint": lambda r: r.choice([-128, 0, 127]),
    "smallint": lambda r: r.randrange(-(2**15), 2**15),
    "int": lambda r: r.choice([-(2**31), -1, 2**31 - 1]),
    "bigint": lambda r: r.randrange(-(2**63), 2**63),
    "float": lambda r: r.choice([0.5, -0.0, math.inf, math.nan, 2.0**-149]),
    "double": lambda r: r.choice([r.uniform(-1e300, 1e300), -0.0, -math.inf, math.nan]),
    "decimal(9,2)": lambda r: Decimal(r.randrange(-(10**9) + 1, 10**9)).scaleb(-2),
    "decimal(38,10)": lambda r: Decimal(r.choice([0, 1, -(10**37), r.randrange(-(10**30), 10**30)])).scaleb(-10),
    "date": lambda r: date(r.randrange(1600, 9999), 2, 28),
    "timestamp": lambda r: NOON + timedelta(microseconds=r.randrange(-(10**16), 10**16)),
    "timestamp_ntz": lambda r: NOON.replace(tzinfo=None) + timedelta(seconds=r.randrange(-(10**10), 10**10)),
    "string": lambda r: r.choice(TEXTS),
    "binary": lambda r: r.randbytes(r.randrange(12)),
    "array<string>": lambda r: [r.choice([None, *TEXTS]) for _ in range(r.randrange(4))],
    "struct<x:int,y:struct<z:string,d:decimal(30,1)>>": lambda r: {
        "x": r.choice([None, 1]), "y": r.choice([None, {"z": r.choice(TEXTS), "d": r.choice([None, Decimal("-1.5")])}]),
    },
    "array<struct<n:bigint,t:timestamp>>": lambda r: [{"n": i, "t": r.choice([None, NOON])} for i in range(r.randrange(3))],
    "map<string,array<double>>": lambda r: {k: [r.random(), None] for k in r.sample(TEXTS, r.randrange(3))},
}
NAMES = {kind: f"c{i}" for i, kind in enumerate(TYPES)}
SCHEMA = ", ".join(f"{name} {kind}" for kind, name in NAMES.items())
NOT_ORDERED = {"map<string,array<double>>"}  # nothing to compare them by: no key, no max


def keys_of(query: int) -> list[str]:
    return [NAMES[kind] for kind in list(TYPES)[query::QUERIES] if kind not in NOT_ORDERED]


def some_rows(rng: random.Random, groups: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    return [{**value(rng), **rng.choice(groups)} for _ in range(count)]


def value(rng: random.Random) -> dict[str, Any]:
    return {NAMES[kind]: None if rng.random() < 0.15 else draw(rng) for kind, draw in TYPES.items()}


def grouped(stream: DataFrame, keys: list[str]) -> DataFrame:
    aggregates: list[Column] = [F.count("*").alias("n")]
    for kind, name in NAMES.items():
        if name not in keys:
            aggregates += [F.first(name).alias(f"first_{name}")]
            aggregates += [] if kind in NOT_ORDERED else [F.max(name).alias(f"max_{name}")]
    aggregates += [F.collect_list(name).alias(f"all_{name}") for name in list(NAMES.values())[::5]]
    return stream.groupBy(*keys).agg(*aggregates)


@pytest.fixture(scope="module", params=range(QUERIES), ids=lambda query: ",".join(keys_of(query)))
def checkpoint(request: pytest.FixtureRequest, mini: MiniSparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the model, after two batches."""
    query: int = request.param
    rng, base = random.Random(query), tmp_path_factory.mktemp("state")
    groups = [{name: v for name, v in value(rng).items() if name in keys_of(query)} for _ in range(8)]
    arrow_schema = to_arrow_schema(StructType.fromDDL(SCHEMA))
    (base / "in").mkdir()
    for batch in range(2):
        rows = some_rows(rng, groups[3 * batch : 3 * batch + 5], 20)
        pq.write_table(pa.Table.from_pylist(rows, arrow_schema), base / f"in/{batch}.parquet")
    stream = mini.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(base / "in"))
    writer = grouped(stream, keys_of(query)).writeStream.outputMode("update").format("noop")
    writer.option("checkpointLocation", str(base / "cp")).trigger(availableNow=True).start().awaitTermination()
    return base / "cp"


def by_spark(spark: SparkSession, checkpoint: Path, version: int) -> list[Any]:
    """(partition, key, value) of each row; version N is what batch N - 1 left behind."""
    reader = spark.read.format("statestore").option("batchId", version - 1).load(str(checkpoint))
    return in_order(
        (r.partition_id, [shown(v) for v in r.key], [shown(v) for v in r.value])
        for r in reader.select("partition_id", "key", "value").collect()
    )


def by_inspect(report: CheckpointReport, version: int) -> list[Any]:
    return in_order((r.partition, list(r.key.values()), list(r.value.values())) for r in report.rows(version=version))


def in_order(rows: Any) -> list[Any]:
    return sorted(rows, key=repr)


def shown(value: Any) -> Any:
    """A value that Spark has decoded, as `inspect` writes it."""
    match value:
        case datetime():
            return value.isoformat(" ")
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case bytearray() | bytes():
            return f"0x{value.hex()}"
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Row():
            return {name: shown(v) for name, v in value.asDict().items()}
        case list():
            return [shown(v) for v in value]
        case dict():
            return [[shown(k), shown(v)] for k, v in value.items()]
        case _:
            return value


@pytest.mark.parametrize("version", [1, 2])
def test_the_rows_are_those_of_spark(checkpoint: Path, spark: SparkSession, version: int) -> None:
    report = inspect(str(checkpoint))
    assert report.findings == ()
    ours = by_inspect(report, version)
    assert len(ours) >= 4 and ours == by_spark(spark, checkpoint, version)


def test_each_row_is_found_by_the_key_that_spark_reads(checkpoint: Path, spark: SparkSession) -> None:
    report = inspect(str(checkpoint))
    for partition, key, row in by_spark(spark, checkpoint, 2):
        (found,) = report.find(key)
        assert (found.partition, list(found.value.values())) == (partition, row)


def test_the_difference_is_what_differs_in_spark(checkpoint: Path, spark: SparkSession) -> None:
    before, after = (in_order([p, k] for p, k, _ in by_spark(spark, checkpoint, version)) for version in (1, 2))
    changed = [row for row in by_spark(spark, checkpoint, 2) if row not in by_spark(spark, checkpoint, 1)]
    ours = inspect(str(checkpoint)).diff(1, 2)
    assert in_order([c.partition, list(c.key.values())] for c in ours) == in_order([p, k] for p, k, _ in changed)
    assert sum(c.mark == "+" for c in ours) == len([k for k in after if k not in before])


def test_every_type_is_a_key_once() -> None:
    keys = [name for query in range(QUERIES) for name in keys_of(query)]
    assert sorted(keys) == sorted(name for kind, name in NAMES.items() if kind not in NOT_ORDERED)
