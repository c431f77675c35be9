"""What a foreachBatch function may do with a batch, whatever its columns are; each action returns something to compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def static(df: DataFrame) -> DataFrame:
    """A table of three partitions, with the columns of the batch."""
    nulls = [F.lit(None).cast(field.dataType).alias(field.name) for field in df.schema]
    return df.sparkSession.range(0, 3, 1, 3).select(*nulls)


def in_order(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, rows.collect()), key=repr)


ACTIONS: dict[str, Callable[[DataFrame], Any]] = {
    "rows": in_order,
    "coalesce to one": lambda df: in_order(df.coalesce(1)),
    "coalesce to two": lambda df: in_order(df.coalesce(2)),
    "an rdd's coalesce": lambda df: in_order(df.rdd.coalesce(1)),
    "an rdd of two batches": lambda df: df.rdd.union(df.rdd).count(),
    "union behind other rows": lambda df: in_order(static(df).union(df)),
    "union with itself": lambda df: in_order(df.union(df)),
    "repartition": lambda df: in_order(df.repartition(3)),
    "sort": lambda df: [tuple(row) for row in df.orderBy(*df.columns).collect()],
    "join with itself": lambda df: in_order(df.alias("x").join(df.alias("y"), df.columns[0])),
    "cached": lambda df: (df.cache().count(), in_order(df), df.unpersist() is None),
    "twice": lambda df: (df.count(), in_order(df)),
    "a filter": lambda df: in_order(df.where(F.hash(df.columns[0]) % 2 == 0)),
    "one row": lambda df: len(df.limit(1).collect()),
    "is it empty": lambda df: df.isEmpty(),
    "nothing": lambda df: None,
}
