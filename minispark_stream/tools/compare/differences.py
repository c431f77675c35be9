"""On what do two runs of a query disagree?

1. Batches are matched in the order in which they ran; a batch that was run again after a restart counts again.
2. In each batch are compared: offsets, rows in, rows out (in any order, unless the query sorts), event times and watermark,
   state rows and counts of every stateful operator, and the entries of the offset log, commit log and source log.
3. At the end are compared: how the engines failed, and the causes if these have Spark's conditions; or, if they did not fail,
   the files of the checkpoint, state files record by record. If timeouts in a state were set by the clock, each counts from the
   time of its batch. In transformWithState in processing time, keys and values contain times, so only sizes are compared.

    Difference(2, "rows", ["('a', 3)"], ["('a', 2)"])   "batch 2, rows: Spark has ["('a', 3)"], the model ["('a', 2)"]"

What must differ is left out: ids, wall-clock times and durations, and sizes in memory. Floating-point results are compared to
nine digits, and average event times to the millisecond, because both engines may add partial results in any order.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from minispark_stream.engine.times import iso_ms
from minispark_stream.lens.trace.values import entry_metadata
from minispark_stream.lens.view.words import clip, plural
from minispark_stream.tools.compare.checkpoint_files import without_ids, without_time
from minispark_stream.tools.compare.engine_run import EngineBatch, EngineRun

LONGEST = 1000  # characters of a value
NO_TIMESTAMP, _AT, _TIMEOUT = -1, 16, struct.Struct("<q")  # of a timeout in a state row (operators/groups/group_state_rows.py)


@dataclass(frozen=True)
class Difference:
    """One thing on which the engines disagree."""

    batch_id: int | None
    what: str
    spark: Any
    model: Any

    def __str__(self) -> str:
        where = "checkpoint" if self.batch_id is None else f"batch {self.batch_id}"
        return f"{where}, {self.what}: Spark has {self.spark!r}, the model {self.model!r}"


def differences(spark: EngineRun, model: EngineRun, ordered: bool) -> Iterator[Difference]:
    """Everything on which two runs disagree; `ordered`: whether the order of the rows counts."""
    if spark.condition != model.condition:
        yield Difference(None, "error", spark.error, model.error)
    causes = [run.cause for run in (spark, model) if run.cause is not None and run.cause.has_condition]
    if len({cause.name for cause in causes}) > 1:
        yield Difference(None, "cause of the error", *map(str, causes))
    if len(spark.batches) != len(model.batches):
        yield Difference(None, "batches", [b.batch_id for b in spark.batches], [b.batch_id for b in model.batches])
    for theirs, ours in zip(spark.batches, model.batches):  # (1)
        for what, a, b in zip(_COMPARED, _comparable(theirs, ordered), _comparable(ours, ordered)):  # (2)
            if a != b:
                yield from _explain(theirs.batch_id, what, a, b)
        averages = (theirs.progress["eventTime"].get("avg"), ours.progress["eventTime"].get("avg"))
        if not _same_average(*averages):
            yield Difference(theirs.batch_id, "event time avg", *averages)
    if spark.condition is None and model.condition is None:  # (3)
        for name in sorted({*spark.files, *model.files}):
            a, b = spark.files.get(name), model.files.get(name)
            if a != b and not _same_but_for_the_clock(spark, model, name):
                yield Difference(None, name, _in_words(a, b), _in_words(b, a))


def _same_but_for_the_clock(spark: EngineRun, model: EngineRun, name: str) -> bool:
    """Whether the records of a state are equal if timeouts count from the batch that set them, or at least their sizes are."""
    one, other = (_sizes(run, name) or _by_time_of_batch(run, name) for run in (spark, model))
    return one is not None and one == other


def _sizes(run: EngineRun, name: str) -> Counter[Any] | None:
    """For a changelog of transformWithState in processing time: family and size of each changed key, and size of its value."""
    found, changes = re.fullmatch(r"state/(\d+)/\d+/\d+\.changelog", name), run.files.get(name)
    if found is None or '"timeMode\\":\\"ProcessingTime' not in str(run.files.get(f"state/{found[1]}/_metadata/v2/0")):
        return None
    return Counter((key[:2], len(key), value and len(value)) for key, value in (changes or {}).items())


def _by_time_of_batch(run: EngineRun, name: str) -> Counter[Any] | None:
    """The records of a delta, with timeouts that count from the time of the batch; None if it has no timeouts.

    The row of a state with a timeout is: null bits, the place of the state, the timeout (-1: none), the state.
    """
    found, records = re.fullmatch(r"state/(\d+)/\d+/(\d+)\.delta", name), run.files.get(name)
    schema = run.files.get(f"state/{found[1]}/0/_metadata/schema") if found else None
    if found is None or not isinstance(records, Counter) or b"timeoutTimestamp" not in (schema or b""):
        return None
    batch_id = int(found[2]) - 1
    entries = [b.logs.get(f"offsets/{batch_id}") for b in run.batches if b.batch_id == batch_id]
    began_ms = entry_metadata(entries[-1]).get("batchTimestampMs", 0) if entries else 0
    return Counter({(key, _counted_from(value, began_ms)): count for (key, value), count in records.items()})


def _counted_from(value: bytes | None, began_ms: int) -> bytes | None:
    timeout_ms = NO_TIMESTAMP if value is None else _TIMEOUT.unpack_from(value, _AT)[0]
    if value is None or timeout_ms == NO_TIMESTAMP:
        return value
    return value[:_AT] + _TIMEOUT.pack(timeout_ms - began_ms) + value[_AT + _TIMEOUT.size :]


def _in_words(content: Any, other: Any) -> str:
    """The content of a file in words: its text, or for a state file, the number of its records."""
    if content is None:
        return "no such file"
    if isinstance(content, dict) and not isinstance(content, Counter):
        content = Counter(content.items())
        other = Counter(other.items()) if isinstance(other, dict) else other
    if isinstance(content, Counter):
        own = content - other if isinstance(other, Counter) else content
        return f"{plural(content.total(), 'record')}, {own.total() or 'none'} of them only there"
    try:
        return clip(content if isinstance(content, str) else content.decode(), LONGEST)
    except UnicodeDecodeError:
        return plural(len(content), "byte")


_COMPARED = ("batch id", "rows in", "rows out", "event time", "sources", "state operators", "sink", "logs", "rows")


def _comparable(batch: EngineBatch, ordered: bool) -> tuple[Any, ...]:
    progress = batch.progress
    rows = [row_key(row) for row in batch.rows]
    return (
        batch.batch_id,
        progress["numInputRows"],
        len(rows),
        {name: time for name, time in progress["eventTime"].items() if name != "avg"},
        [(s["startOffset"], s["endOffset"], s["numInputRows"]) for s in progress["sources"]],
        [{key: op[key] for key in _STATE_METRICS} | _counts(op) for op in progress["stateOperators"]],
        progress["sink"].get("numOutputRows"),
        {name: without_ids(without_time(text)) for name, text in batch.logs.items()},
        rows if ordered else sorted(rows),
    )


_STATE_METRICS = (
    "operatorName", "numRowsTotal", "numRowsUpdated", "numRowsRemoved", "numRowsDroppedByWatermark", "numShufflePartitions",
    "numStateStoreInstances",
)


def _counts(operator: Mapping[str, Any]) -> dict[str, Any]:
    """The custom metrics that count rows (the others measure time, memory and caches)."""
    custom = operator.get("customMetrics", {})
    return {name: value for name, value in custom.items() if name.startswith("num") or name.endswith("Rows")}


def _same_average(one: str | None, other: str | None) -> bool:
    """Whether two averages are equal to the millisecond; the last digit of Spark's depends on which task finishes first."""
    ms, other_ms = iso_ms(one), iso_ms(other)
    return one == other if ms is None or other_ms is None else abs(ms - other_ms) <= 1


def _explain(batch_id: int, what: str, spark: Any, model: Any) -> Iterator[Difference]:
    """A difference of two collections as a difference of their parts."""
    if what == "rows":
        only_spark, only_model = ([r for r in a if r not in b] for a, b in ((spark, model), (model, spark)))
        yield Difference(batch_id, "rows", only_spark[:5] or spark[:5], only_model[:5] or model[:5])
    elif isinstance(spark, Mapping):
        for key in sorted({*spark, *model}, key=str):
            if spark.get(key) != model.get(key):
                yield Difference(batch_id, f"{what} {key}", spark.get(key), model.get(key))
    elif what == "state operators" and len(spark) == len(model):
        for i, (a, b) in enumerate(zip(spark, model)):
            if a != b:
                yield from _explain(batch_id, f"operator {i}", a, b)
    else:
        yield Difference(batch_id, what, spark, model)


def row_key(row: Any) -> str:
    """A text that is the same for two rows that count as equal."""
    return repr(_canonical(row))


def _canonical(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isnan(value) or math.isinf(value) else float(f"{value:.9g}")
    if isinstance(value, Mapping):
        return sorted((row_key(k), _canonical(v)) for k, v in value.items())
    if isinstance(value, (tuple, list)):
        return tuple(_canonical(v) for v in value)
    return value
