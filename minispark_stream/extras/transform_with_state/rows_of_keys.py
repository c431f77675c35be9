"""The rows of a task of transformWithState as the processor receives them: key by key, in frames or one by one.

Models: TransformWithStateInPySparkPythonRunner, TransformWithStateInPySparkPythonInitialStateRunner, and PySpark's worker, to
which they send the rows (SIGMOD'18 paper, 4.3.2: a state of the user's own).

1. First the rows of the initial state are sent, if there is one, then the new ones; both are sorted by key. They are sent in
   Arrow batches (engine/operators/groups/arrow_batches.py), none of which has rows of both.
2. Each batch is converted by itself: in pandas, a null turns the integers of its column into floats, for all keys of the batch.
3. Successive rows with the same key reach the processor as
       transformWithState            one Row after the other
       transformWithStateInPandas    frames, which are built from the rows one by one
4. A frame ends when it has `arrow.maxRecordsPerBatch` rows, or `arrow.maxBytesPerBatch` bytes; each row counts as many bytes as
   the average row of the batches so far.

    initial state    ann 1, bob 2
    new rows         bob 3, bob 4, bob 5, cid 6                 with maxRecordsPerBatch 2
    the processor    ann: initial [1]      bob: initial [2], new [3], [4, 5]      cid: new [6]

In the example, the last row of the initial state and the first new rows have the same key, so their frames are counted
together: the frame of 3 ends because 2 has been counted, too.

Differs from Spark: nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.conversion import ArrowBatchTransformer
from pyspark.sql.types import Row, StructType

from minispark_stream.engine.operators.groups.arrow_batches import batch_ends, buffer_bytes
from minispark_stream.engine.operators.groups.grouped_map_pandas_with_state import PandasConf

GroupingKey = tuple[Any, ...]
KeyedRow = tuple[GroupingKey, bool, Any]  # a row with its key, and whether it is new: (key, is_new, row)
NEW, INITIAL = 0, 1  # the columns, if there is an initial state; one of the two is null


@dataclass(frozen=True)
class Input:
    """The columns that a processor receives. `grouping`: the positions of the keys. `data`: where the data columns begin, after
    the keys that are not among them."""

    columns: StructType
    grouping: tuple[int, ...]
    data: int = 0


class RowsOfKeys:
    """Reads the rows of one task, once. `initial`: what the rows of the initial state are, if there are any."""

    def __init__(self, source: Input, initial: Input | None, in_pandas: bool, conf: PandasConf):
        self.source, self.initial, self.in_pandas, self.conf = source, initial, in_pandas, conf
        self._bytes = self._rows = 0  # of the batches so far

    def groups(
        self, rows: pa.RecordBatch, states: pa.RecordBatch | None
    ) -> Iterator[tuple[GroupingKey, Iterator[Any] | None, Iterable[Any]]]:
        """Each key with its new rows (None if it has none) and its rows of the initial state. A key may come twice."""
        sent = self._keyed(rows, self.source, NEW)
        if self.initial is not None and states is not None:
            sent = itertools.chain(self._keyed(states, self.initial, INITIAL), sent)  # (1)
        for key, group in itertools.groupby(sent, key=lambda row: row[0]):  # (3)
            if self.initial is None:
                yield key, self._new_frames(group) if self.in_pandas else (row for _, _, row in group), ()
                continue
            if self.in_pandas:
                new, old = ([_frame(part) for part in parts if part] for parts in zip(*self._parts(group)))
            else:
                both = list(group)
                new, old = ([row for _, is_new, row in both if is_new == side] for side in (True, False))
            yield key, iter(new) if new else None, old

    def _new_frames(self, group: Iterator[KeyedRow]) -> Iterator[Any]:
        return (_frame(new).iloc[:, self.source.data :] for new, _ in self._parts(group))

    def _parts(self, group: Iterator[KeyedRow]) -> Iterator[tuple[list[Any], list[Any]]]:  # (4)
        """The rows of a key, divided: new rows, and rows of the initial state."""
        part: tuple[list[Any], list[Any]] = [], []
        for _, is_new, row in group:
            part[NEW if is_new else INITIAL].append(row)
            num_rows = len(part[NEW]) + len(part[INITIAL])
            num_bytes = num_rows * (self._bytes / self._rows)
            if num_rows >= self.conf.max_records_per_batch or num_bytes >= self.conf.max_bytes_per_batch:
                yield part
                part = [], []
        if any(part):
            yield part

    def _keyed(self, rows: pa.RecordBatch, source: Input, column: int) -> Iterator[KeyedRow]:
        for sent in self._batches(rows):
            batch = sent if self.initial is None else pa.RecordBatch.from_struct_array(sent.column(column))
            named = batch.rename_columns(source.columns.names)
            for row in self._of_pandas(named) if self.in_pandas else _rows_of(named):
                yield tuple(row[i] for i in source.grouping), column == NEW, row

    def _batches(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        begin = 0
        for end in batch_ends(rows.columns, rows.num_rows, self.conf.max_records_per_batch, self.conf.max_bytes_per_batch):
            self._bytes += buffer_bytes(rows.columns, begin, end, in_java=False)
            self._rows += end - begin
            yield rows.slice(begin, end - begin)
            begin = end

    def _of_pandas(self, batch: pa.RecordBatch) -> Iterable[Any]:  # (2)
        import pandas as pd

        series = ArrowBatchTransformer.to_pandas(
            batch, timezone=self.conf.timezone, prefer_int_ext_dtype=self.conf.integer_extension
        )
        return pd.concat(series, axis=1).itertuples(index=False)


def _rows_of(batch: pa.RecordBatch) -> Iterable[Any]:
    make = Row(*batch.schema.names)
    return (make(*(column[i].as_py() for column in batch.columns)) for i in range(batch.num_rows))


def _frame(rows: list[Any]) -> Any:
    import pandas as pd

    return pd.DataFrame(rows)
