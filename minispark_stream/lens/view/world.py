"""The world at one moment: what the logs, the sources, the watermark, the rows and the state look like.

A `World` is plain data. Each step changes it a little (world_changes.py), and what it changed is marked. The text, the HTML
page and the stepper all show these worlds and compute nothing themselves.

    offset log      0, 1, 2 (new)        the step walCommit has just written offsets/2
    commit log      0, 1                 batch 2 is not finished
    sources         after logOffset 1 up to logOffset 2
    watermark       late 11:57, eviction 12:04
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.measured import Measured
from minispark_stream.lens.view.state_files import StoreFiles, StorePlace, changed
from minispark_stream.lens.view.state_places import StatePlaces
from minispark_stream.lens.view.walk import Moment


@dataclass(frozen=True)
class LogEntry:
    """A file of the offset log, the commit log or a source's log; `text` is None if it was written before the trace begins."""

    id: int
    text: str | None
    new: bool = False


@dataclass(frozen=True)
class SourceLogEntry:
    """The files that one offset of a source stands for."""

    end: Any
    files: tuple[str, ...]
    new: bool = False


@dataclass(frozen=True)
class SourceView:
    """A source: the batch reads what comes after `start` up to `end`, and no batch will ask again for data up to `done`.

    `asked`: whether the batch of this trigger already has offsets; otherwise they are those of the batch before.
    """

    name: str
    start: Any = None
    end: Any = None
    done: Any = None
    log: tuple[SourceLogEntry, ...] = ()
    rows: tuple[Any, ...] | None = None
    num_rows: int | None = None
    changed: bool = False
    asked: bool = True


@dataclass(frozen=True)
class WatermarkView:
    """Times in ms since the epoch: rows up to `late` are dropped, state up to `eviction` is evicted, the next batch has `next`.

    `measured`: what each `withWatermark` has measured in this batch.
    """

    late: int | None = None
    eviction: int | None = None
    next: int | None = None
    measured: tuple[Measured, ...] = ()
    changed: bool = False


@dataclass(frozen=True)
class StateRow:
    """A row of state before and after a batch. `mark`: "+" added, "~" changed, "-" removed, "" as it was.

    A row that the batch added or changed and then removed has two marks, "+-" or "~-", and its value in between is `between`.
    """

    store: str
    partition: int | None
    key: Mapping[str, Any]
    before: Any
    after: Any
    mark: str
    between: Any = None


@dataclass(frozen=True)
class OperatorView:
    """A stateful operator. `rows`: None if the trace has no rows; they may be only some of `num_rows`.

    `functions`: the aggregate functions whose buffers are the last columns of its values. `places`: which worker has which
    version, as far as it was told. `files`: those of its stores.
    """

    operator_id: int
    operator: str
    version: int | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[StateRow, ...] | None = None
    changed: bool = False
    num_rows: int | None = None
    functions: tuple[Any, ...] = ()
    places: StatePlaces = field(default_factory=StatePlaces)
    files: Mapping[StorePlace, StoreFiles] = field(default_factory=dict)

    def looked_after(self, event: Event, workers: Sequence[str]) -> OperatorView:
        """The operator after maintenance has done something for one of its stores."""
        tables = {name for files in self.files.values() for names in files.tables.values() for name in names}
        places = self.places.looked_after(event.inputs, event.outputs, workers, tables)
        return replace(self, places=places, files={**self.files, **changed(self.files, event)})


@dataclass(frozen=True)
class World:
    """Everything that a learner may look at after `moment`. `has_watermark`: whether the query has one (None: not known)."""

    moment: Moment
    offset_log: tuple[LogEntry, ...] = ()
    commit_log: tuple[LogEntry, ...] = ()
    earlier_entries: int = 0
    sources: tuple[SourceView, ...] = ()
    watermark: WatermarkView = field(default_factory=WatermarkView)
    rows_out: tuple[Any, ...] | None = None
    num_rows_out: int | None = None
    operators: tuple[OperatorView, ...] = ()
    checkpoint: str | None = None
    has_watermark: bool | None = None

    @property
    def is_computed(self) -> bool:
        """Whether this batch has been computed, so that the fates of its rows are known."""
        decided = bool(self.operators) and all(operator.metrics for operator in self.operators)
        return decided or self.rows_out is not None or self.num_rows_out is not None
