"""The first rows that the tasks of a batch in real-time mode read and write, for whoever explains the batch (level "rows").

Models: nothing of Spark, which does not keep rows to show them.

A micro-batch can be looked at once more when its rows have been written. Here each row passes once, so

1. a reader or a writer keeps the first of its rows, if the driver asks for it, and reports them at its end.
2. The driver makes a DataFrame of the first ones of each source, and of those that were written.

    reader 0    a b c ...    FirstRows(source 0, [a b c ... 50 rows])       writer 1   a   FirstRows(None, [a])
    driver      {0: a DataFrame with a b c ..., None: a DataFrame with a}

Differs from Spark: nothing.
Shown by tests/unit/extras/real_time/test_first_rows.py::test_a_task_keeps_no_more_rows_than_are_shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import expressions

MOST_SHOWN = 50  # rows of a task


@dataclass
class FirstRows:
    """(1) `source` is the number of the source from which the rows come; None: they were written."""

    source: int | None
    kept: list[pa.RecordBatch] = field(default_factory=list)

    def note(self, rows: pa.Table | pa.RecordBatch, width: int) -> None:
        """Keep the first `width` columns of the first rows."""
        left = MOST_SHOWN - sum(map(len, self.kept))
        if left > 0:
            few = rows.slice(0, left).select(range(width))
            self.kept += few.to_batches() if isinstance(few, pa.Table) else [few]


def first_rows(
    session: SparkSession, reports: Sequence[Any], schemas: Mapping[int | None, StructType]
) -> dict[int | None, DataFrame]:  # (2)
    """The rows that tasks have reported, by the number of the source; None are those that were written."""
    found = {}
    for source, schema in schemas.items():
        kept = [rows for one in reports if isinstance(one, FirstRows) and one.source == source for rows in one.kept]
        if kept:
            rows = pa.Table.from_batches(kept).slice(0, MOST_SHOWN).rename_columns([f"_{i}" for i in range(len(schema))])
            found[source] = session.createDataFrame(rows, expressions.positional(schema)).toDF(*schema.names)
    return found
