"""What an operator says of itself to those who follow rows through it: how rows come in, and what decides about them.

Models: nothing of Spark, which does not follow a row. The numbers are those that the tasks of the operator work with.

1. An `Entry` is one input of an operator: the columns of its key, and the column that decides about lateness.
2. A `Decision` contains the rules of one batch: which rows are late, what is kept of the others, which state leaves, and what
   is emitted. It is a part of the trace (step stateOperator, `decides`), whose sentences name these numbers. The tasks report
   which rows the rules were applied to (told.py).
3. `Explained` is what a trace asks an operator for: the two above, and how the rows of its state and of its reports are read.

    a windowed count, append, watermarks 12:11 and 12:20
    {"keeps": "groups", "late_ms": 12:11, "leaves_ms": [12:20], "emits": "leaving", ...}
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.checkpointing.unsafe_row.plain import decode_rows
from minispark_stream.engine.jvm import expressions
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.batch_context import BatchContext
from minispark_stream.engine.operators.columns import EventTime
from minispark_stream.engine.operators.state_task import OperatorWatermarks
from minispark_stream.engine.operators.told import EMITTED, FIRED

# What an operator keeps of rows that are not late: their groups, their sessions, their keys, the rows themselves, what a user's
# function makes of them, or only how many have passed.
GROUPS, SESSIONS, KEYS, ROWS, VALUES, COUNT = "groups", "sessions", "keys", "rows", "values", "count"
OWN_WORDS = "own words"  # what an operator of one's own does with a row, it says itself
# What it emits of what it keeps: what the batch has changed, all of it, or what leaves; None: something else.
CHANGED, ALL, LEAVING = "changed", "all", "leaving"
EMITS = {"update": CHANGED, "complete": ALL, "append": LEAVING}


@dataclass(frozen=True)
class Entry:
    """(1) How rows come in on one side of an operator. If it stores rows, `row` are the columns that it stores of each."""

    key: Mapping[str, JavaObject]
    shuffled_by: Sequence[JavaObject]
    time: JavaObject | None = None
    is_window: bool = False
    row: Sequence[JavaObject] = ()

    @staticmethod
    def of(
        key: Mapping[str, JavaObject], shuffled_by: Sequence[JavaObject], columns: Sequence[JavaObject],
        event_time: EventTime | None, row: Sequence[JavaObject] = (),
    ) -> Entry:
        """The entry whose event time is one of `columns`."""
        if event_time is None:
            return Entry(key, shuffled_by, row=row)
        return Entry(key, shuffled_by, columns[event_time.position], event_time.is_window, row)


@dataclass(frozen=True)
class Decision:
    """(2) The rules by which an operator decides in one batch. All times are in ms.

    Attributes:
        keeps: what it keeps of rows that are not late.
        late_ms: rows up to this time are late; None: no row is.
        leaves_ms: for each side of the input, state that ends at or before this time leaves; None: it never leaves.
        lasts_ms: state ends this long after the time of its row.
        emits: what it emits of what it keeps.
        limit: how many rows may pass.
        join_type: Spark's name of a join's type.
    """

    keeps: str
    late_ms: int | None = None
    leaves_ms: Sequence[int | None] = (None,)
    lasts_ms: int | None = None
    emits: str | None = None
    limit: int | None = None
    join_type: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}


class Explained(ABC):
    """(3) What an operator tells of itself. The methods that need not be overridden do what is right for most operators."""

    @abstractmethod
    def schemas(self) -> list[tuple[str, StructType, StructType]]:
        """The name, key schema and value schema of each store."""

    @property
    def lateness(self) -> EventTime | None:
        """The column whose time decides whether a row is late; None if no row ever is."""
        return None

    def late_ms(self, watermarks: OperatorWatermarks) -> int | None:
        """Rows up to this time are late; None if no row ever is."""
        return None if self.lateness is None else watermarks.late_ms

    def readable(self, store: str, rows: Sequence[tuple[bytes, bytes]], batch: BatchContext) -> list[dict[str, Any]]:
        """Rows of a store as the trace shows them: dictionaries with the name of the `store`, the `key` and the `value`."""
        [(keys, values)] = [(keys, values) for name, keys, values in self.schemas() if name == store]
        decoded = (decode_rows(UnsafeRowCodec(schema), part) for schema, part in zip((keys, values), zip(*rows)))
        return [{"store": store, "key": key, "value": value} for key, value in zip(*decoded)]

    def without_indexes(self, rows: Mapping[bytes, bytes], batch: BatchContext) -> Mapping[bytes, bytes]:
        """The rows of a store without those that are only an index to others."""
        return rows

    def parts_of_told(self, what: str, side: int) -> Mapping[str, StructType]:
        """The schemas of the rows that its tasks report as `what` (told.py), by name; mostly these are rows of the input."""
        return {"row": expressions.struct_type(self.entries()[side].row)}

    @property
    def functions(self) -> Sequence[Mapping[str, Any]]:
        """The aggregate functions whose buffers are the last columns of its values (expressions.aggregate_functions)."""
        return ()

    def entries(self) -> Sequence[Entry]:
        """How rows come in, for each input; empty if they cannot be followed."""
        return ()

    def decision(self, watermarks: OperatorWatermarks, output_mode: str) -> Decision:
        """The rules for rows and state in a batch with these watermarks."""
        return Decision(VALUES, self.late_ms(watermarks))

    @property
    def passes_rows_on(self) -> bool:
        """Whether its output consists of rows of its input, which leave in the batch in which they come or never."""
        return False


def parts_of_function(what: str, keys: StructType, result: StructType) -> Mapping[str, StructType] | None:
    """`parts_of_told` of a user's function: for rows that it returned and for keys whose timers fired; None for other rows."""
    return {EMITTED: {"row": result, "key": keys}, FIRED: {"key": keys}}.get(what)
