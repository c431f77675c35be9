"""What the author of an operator writes: one class, whose method `run` gets the rows of a partition, its state and a task.

Models: nothing of Spark. There, an operator is a part of the engine; a user's own code is a function of
transformWithState or applyInPandasWithState, which is called for one key at a time and cannot say what became of a row.

1. `register_operator("every_nth", EveryNth)` gives the class a name. `df.groupBy("k").operator("every_nth", n=3)` makes an
   `EveryNth(n=3)`, which is sent to the workers as a user's function is.
2. In each batch, `run` is called once for each partition. Its rows come with their keys; all rows of a key are in the same
   partition, in every batch. `state` is a dict of what is kept of each key; its changes are committed when `run` ends.
3. `task` takes what `run` decides about a row: `pass_on`, `keep` or `drop`, each with words of the operator's own. The fate of
   a row, the stepper page and its questions say these words. `emit` takes rows that did not come in.
4. An operator that `uses_watermark` gets no late rows; `task.watermark` says how far the time has come, and when it has moved,
   there is a batch even without data, in which `run` may let go of what is due.

    every_nth, n=2        key a: state (1)      a5 arrives -> pass_on(a5, "kept: number 2 of key a"), state (2)

Differs from Spark: nothing.
Shown by tests/spark/test_operators_of_ones_own.py::test_rows_state_progress_and_restarts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from datetime import datetime

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.operators.told import KEPT, PASSED, TURNED_AWAY
from minispark_stream.engine.state.state_store import StateStore


class Operator(ABC):  # (1)
    """An operator of one's own.

    Attributes:
        state: the columns that are kept of each key, as in "seen LONG, last TIMESTAMP".
        output: the columns of the rows that it emits; None: those of the rows that come in.
        output_modes: the output modes of a query that may contain it.
        uses_watermark: whether late rows are dropped before `run` sees them, and time alone is a reason for a batch.
    """

    state: str
    output: str | None = None
    output_modes: Sequence[str] = ("append", "update", "complete")
    uses_watermark: bool = False  # (4)

    @abstractmethod
    def run(self, rows: Iterable[tuple[Row, Row]], state: MutableMapping[Row, Row], task: Task) -> None:
        """Process the rows of one partition of one batch.

        Args:
            rows: the key of each row, and the row.
            state: what is kept of each key, as a row of the columns `state`; a tuple may be put.
            task: takes what is decided. A batch may run twice, so nothing else may be changed.
        """


class State(MutableMapping[Row, Row]):
    """(2) The store of a partition as a dict of rows. What is put or deleted goes into the store when the task ends (`flush`).

    Two keys are the same if their bytes in the store are the same.
    """

    def __init__(self, store: StateStore, keys: StructType, values: StructType):
        self._store, self._keys, self._values = store, keys, values
        self._key_codec, self._value_codec = UnsafeRowCodec(keys), UnsafeRowCodec(values)
        self._bytes: dict[Row, bytes] = {}
        self._rows: dict[bytes, Row] = {}  # the key of some bytes, and always the same object
        self._found: dict[bytes, Row | None] = {}
        self._changed: dict[bytes, None] = {}
        self._is_whole = False

    def read(self, encoded: Sequence[bytes], keys: Sequence[Row]) -> list[Row]:
        """The keys of a batch; what is kept of them is read from the store at once."""
        for each, key in zip(encoded, keys):
            self._bytes.setdefault(self._rows.setdefault(each, key), each)
        new = [each for each in dict.fromkeys(encoded) if each not in self._found]
        is_there, values = self._store.get(new)
        known = iter(as_rows(self._value_codec.decode(values), self._values))
        self._found |= {each: next(known) if found else None for each, found in zip(new, is_there)}
        return [self._rows[each] for each in encoded]

    def _at(self, key: Row) -> bytes:
        if key not in self._bytes:
            [encoded] = self._key_codec.encode(as_columns([key], self._keys))
            self.read([encoded], [key])
            self._bytes[key] = encoded
        return self._bytes[key]

    def __getitem__(self, key: Row) -> Row:
        if (value := self._found[self._at(key)]) is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Row, value: Row) -> None:
        self._found[self._at(key)] = Row(*self._values.names)(*value)
        self._changed[self._at(key)] = None

    def __delitem__(self, key: Row) -> None:
        if key not in self:
            raise KeyError(key)
        self._found[self._at(key)] = None
        self._changed[self._at(key)] = None

    def __iter__(self) -> Iterator[Row]:
        if not self._is_whole:
            encoded, _ = self._store.rows()
            self.read(list(encoded), as_rows(self._key_codec.decode(encoded), self._keys))
            self._is_whole = True
        return iter([self._rows[each] for each, value in self._found.items() if value is not None])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def flush(self) -> tuple[int, int]:
        """Put and remove in the store what has changed; returns how many rows were put, and how many removed."""
        put = {each: value for each in self._changed if (value := self._found[each]) is not None}
        self._store.put(list(put), self._value_codec.encode(as_columns(list(put.values()), self._values), len(put)))
        removed = self._store.remove([each for each in self._changed if self._found[each] is None])
        return len(put), removed


class Task:
    """(3) Takes what an operator decides in one partition of a batch.

    Attributes:
        watermark: state that is not after this time may go; 1970 before there is a watermark. Like the times in the rows, it
            is in the time zone of the workers.
    """

    def __init__(self, rows: Sequence[Row], watermark_ms: int):
        self.watermark = datetime.fromtimestamp(watermark_ms / 1000)
        self.counts = Counter[str]()
        self.emitted: list[int | Row] = []  # the place of a row that came in, or another row
        self.decided: list[tuple[int, str, str]] = []
        self._place = {id(row): i for i, row in enumerate(rows)}

    def pass_on(self, row: Row, words: str) -> None:
        """`row` leaves the operator as it came. The words say why."""
        self._decide(row, PASSED, words)
        self.emitted.append(self._place[id(row)])

    def keep(self, row: Row, words: str) -> None:
        """`row`, or a part of it, is in the state now."""
        self._decide(row, KEPT, words)

    def drop(self, row: Row, words: str) -> None:
        """`row` ends here."""
        self._decide(row, TURNED_AWAY, words)

    def emit(self, *values: object) -> None:
        """A row that did not come in leaves the operator: the values of its columns."""
        self.emitted.append(Row(*values))

    def count(self, name: str, by: int = 1) -> None:
        """Add to a metric of the operator's own, which is in the progress report (`customMetrics`)."""
        self.counts[name] += by

    def _decide(self, row: Row, what: str, words: str) -> None:
        if id(row) not in self._place:
            raise ValueError(f"{row} is not one of the rows that came in; task.emit(...) is for rows that did not.")
        self.decided.append((self._place[id(row)], what, words))


def as_rows(columns: Sequence[pa.Array], schema: StructType) -> list[Row]:
    """Columns as the rows that PySpark makes of them."""
    return ArrowTableToRowsConversion.convert(pa.Table.from_arrays(list(columns), names=schema.names), schema)


def as_columns(rows: Sequence[Row], schema: StructType) -> list[pa.Array]:
    """Rows as columns with the types of `schema`.

    Raises:
        PySparkValueError, ArrowInvalid and the like: a value does not fit its type.
    """
    if not rows:
        return [pa.array([], kind) for kind in to_arrow_schema(schema, timezone="UTC").types]
    table = LocalDataToArrowConversion.convert(rows, schema, False)
    return [pa.concat_arrays(column.chunks) for column in table.columns]
