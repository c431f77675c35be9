"""A task over the partitions of some rows, and another one over what it emits."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType

from minispark_stream.engine.jvm import expressions, plans
from minispark_stream.engine.jvm.state_rdd import MapPartitions
from minispark_stream.engine.operators.state_task import own_partition


@dataclass(frozen=True)
class Diary:
    """Hands the rows on, and writes down when it begins and when it has ended."""

    name: str
    folder: Path

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition, rows = own_partition(batches)
        with (self.folder / str(partition)).open("a") as diary:
            print(self.name, "begins", file=diary, flush=True)
            yield from rows
            time.sleep(1)  # the other one would begin now, if it did not wait
            print(self.name, "has ended", file=diary, flush=True)


def test_a_task_whose_rows_are_gathered_begins_when_the_one_below_has_ended(spark: SparkSession, tmp_path: Path) -> None:
    columns = StructType().add("id", LongType())
    numbers = spark.range(0, 40_000, 1, 2)  # more than one Arrow batch in each partition
    tasks = MapPartitions(spark, columns, columns, plans.analyzed(numbers).output())
    below = tasks.over(numbers._jdf.queryExecution().toRdd(), Diary("the first", tmp_path))
    above = tasks.over(below.execute(), Diary("the second", tmp_path), gathered=True)
    assert "MapInArrow Diary(" in above.toString(), "explain names the task"
    rows = plans.rdd_frame(spark, above.execute(), expressions.java_schema(spark, columns)).collect()
    assert [row.id for row in rows] == list(range(40_000)), "in the same order"
    for partition in "01":
        diary = (tmp_path / partition).read_text().splitlines()
        assert diary == ["the first begins", "the first has ended", "the second begins", "the second has ended"]
