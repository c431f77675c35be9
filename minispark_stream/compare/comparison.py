"""Two engines, one query, one input: what differs?

A `Comparison` holds what each engine did, batch by batch, and says where they disagree. It is data: the engines are not
needed any more when it is looked at.

1. Batches are matched in the order in which they ran; a batch that was run again after a restart counts again.
2. Compared per batch: offsets, rows in, rows out (in any order, unless the query sorts), event times and watermark, state
   rows and counts of every stateful operator, and the entries of the offset log, commit log and source log.
3. Compared at the end: the files of the checkpoint, state files record by record.

    batch  offsets            in  out  watermark  state   spark ms  model ms
    0      {"logOffset":0}     4    0  00:00          3        812       540   equal
    1      {"logOffset":1}     2    0  11:57          4        301       205   equal

What must differ is left out: ids, wall-clock times and durations, sizes in memory. Floating-point results are compared to
nine digits and average event times to the millisecond, because both engines may add partial results in any order.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from minispark_stream.trace.trace import Trace

if TYPE_CHECKING:
    import graphviz

    from minispark_stream.view.stepper import Stepper

Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class EngineBatch:
    """What one engine did in one batch: the progress report, the rows that the sink got, the log files it left."""

    batch_id: int
    progress: Mapping[str, Any]
    rows: Rows
    logs: Mapping[str, str]


@dataclass(frozen=True)
class EngineRun:
    """All batches of one engine, its trace, and the comparable content of its checkpoint's files."""

    batches: tuple[EngineBatch, ...]
    trace: Trace
    files: Mapping[str, Any]
    error: str | None = None


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


@dataclass(frozen=True)
class Comparison:
    """The outcome of `side_by_side`. In Jupyter it shows itself as a table.

    Attributes:
        differences: what the engines disagree on; empty when they are equal.
        spark, model: what each engine did.
    """

    spark: EngineRun
    model: EngineRun
    columns: tuple[str, ...]
    ordered: bool = False
    differences: tuple[Difference, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "differences", tuple(_differences(self.spark, self.model, self.ordered)))

    @property
    def traces(self) -> dict[str, Trace]:
        return {"spark": self.spark.trace, "model": self.model.trace}

    def table(self) -> pd.DataFrame:
        """One line per batch, both engines; `equal` says whether all that is compared agrees."""
        differing = {d.batch_id for d in self.differences}
        lines = []
        for ours, theirs in zip(_padded(self.model, self.spark), _padded(self.spark, self.model)):
            shown = ours or theirs
            assert shown is not None
            progress = shown.progress
            lines.append(
                {
                    "batch": shown.batch_id,
                    "offsets": " ".join(str(s["endOffset"]).replace(" ", "") for s in progress["sources"]),
                    "rows in": progress["numInputRows"],
                    "rows out": len(shown.rows),
                    "watermark": progress["eventTime"].get("watermark", ""),
                    "state rows": sum(op["numRowsTotal"] for op in progress["stateOperators"]),
                    "late rows dropped": sum(op["numRowsDroppedByWatermark"] for op in progress["stateOperators"]),
                    "spark ms": theirs and theirs.progress["durationMs"].get("triggerExecution"),
                    "model ms": ours and ours.progress["durationMs"].get("triggerExecution"),
                    "equal": shown.batch_id not in differing,
                }
            )
        return pd.DataFrame(lines)

    def rows(self, batch_id: int) -> pd.DataFrame:
        """The rows that left a batch, with the engine that sent them (one line per row that both sent)."""
        runs = (self.spark, self.model)
        both = [(run, [row for b in run.batches if b.batch_id == batch_id for row in b.rows]) for run in runs]
        spark, model = ({_key(row): row for row in rows} for _, rows in both)
        lines = [(*row, _which(key in spark, key in model)) for key, row in sorted({**spark, **model}.items())]
        return pd.DataFrame(lines, columns=[*self.columns, "engine"])

    def draw(self, batch: int | None = None, step: str | None = None) -> graphviz.Digraph:
        """The flow of one batch (the last one) on both engines, differences marked."""
        from minispark_stream.view.flow import draw

        return draw(self.traces, batch, step)

    def stepper(self) -> Stepper:
        """Forward and back through every step of both engines, for Jupyter."""
        from minispark_stream.view.stepper import Stepper

        return Stepper(self.traces)

    def to_html(self, path: str | Path) -> Path:
        """Write one file that opens in any browser: the table, the differences, and every step. Returns the path."""
        from minispark_stream.view.page import page

        Path(path).write_text(page(self.traces, self._repr_html_()), encoding="utf-8")
        return Path(path)

    def to_text(self) -> str:
        """The table and the verdict as text, without durations."""
        table = self.table().drop(columns=["spark ms", "model ms"])
        return f"{table.to_string(index=False)}\n{self._verdict()}"

    def _verdict(self) -> str:
        if not self.differences:
            return f"{len(self.model.batches)} batches: both engines agree."
        return "\n".join([f"{len(self.differences)} differences:", *(f"  {d}" for d in self.differences)])

    def __repr__(self) -> str:
        return f"<Comparison: {len(self.model.batches)} batches, {len(self.differences)} differences>"

    def _repr_html_(self) -> str:
        table = self.table()
        head = "".join(f"<th>{html.escape(str(c))}</th>" for c in table.columns)
        body = "".join(_html_row(list(map(str, table.columns)), line) for line in table.itertuples(index=False))
        found = "".join(f"<li>{html.escape(_short(str(d)))}</li>" for d in self.differences[:50])
        color = "#b3261e" if self.differences else "#1b6e3c"
        verdict = html.escape(self._verdict().split("\n")[0])
        return (
            f"{_STYLE}<div class='mss-compare'><p style='color:{color}'><b>{verdict}</b></p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{f'<ul>{found}</ul>' if found else ''}</div>"
        )


_STYLE = (
    "<style>.mss-compare table{border-collapse:collapse;font:13px system-ui,sans-serif}"
    ".mss-compare th{background:#eef2f7;text-align:left;padding:4px 10px;border-bottom:2px solid #c5cedb}"
    ".mss-compare td{padding:3px 10px;border-bottom:1px solid #e2e8f0;text-align:left}"
    ".mss-compare td.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".mss-compare tr.differs td{background:#fde8e6}.mss-compare td.ok{color:#1b6e3c}"
    ".mss-compare td.bad{color:#b3261e;font-weight:600}</style>"
)


def _html_row(columns: Sequence[str], line: Sequence[Any]) -> str:
    cells = []
    for name, value in zip(columns, line):
        if name == "equal":
            cells.append("<td class='ok'>&#10003; equal</td>" if value else "<td class='bad'>&#10007; differs</td>")
        else:
            text = "" if value is None or value != value else str(value)
            cells.append(f"<td class='{'n' if isinstance(value, int) else 't'}'>{html.escape(text)}</td>")
    return f"<tr class='{'' if line[-1] else 'differs'}'>{''.join(cells)}</tr>"


def _padded(one: EngineRun, other: EngineRun) -> list[EngineBatch | None]:
    missing = max(0, len(other.batches) - len(one.batches))
    return [*one.batches, *[None] * missing]


def _differences(spark: EngineRun, model: EngineRun, ordered: bool) -> Iterable[Difference]:
    if spark.error != model.error:
        yield Difference(None, "error", spark.error, model.error)
    if len(spark.batches) != len(model.batches):
        yield Difference(None, "batches", [b.batch_id for b in spark.batches], [b.batch_id for b in model.batches])
    for theirs, ours in zip(spark.batches, model.batches):  # (1)
        for what, a, b in zip(_COMPARED, _comparable(theirs, ordered), _comparable(ours, ordered)):  # (2)
            if a != b:
                yield from _explain(theirs.batch_id, what, a, b)
        averages = (theirs.progress["eventTime"].get("avg"), ours.progress["eventTime"].get("avg"))
        if not _same_average(*averages):
            yield Difference(theirs.batch_id, "event time avg", *averages)
    if spark.error is None and model.error is None:  # (3)
        for name in sorted({*spark.files, *model.files}):
            a, b = spark.files.get(name), model.files.get(name)
            if a != b:
                yield Difference(None, name, _short(str(a)), _short(str(b)))


_COMPARED = ("batch id", "rows in", "rows out", "event time", "sources", "state operators", "sink", "logs", "rows")


def _comparable(batch: EngineBatch, ordered: bool) -> tuple[Any, ...]:
    progress = batch.progress
    rows = [_key(row) for row in batch.rows]
    return (
        batch.batch_id,
        progress["numInputRows"],
        len(rows),
        {name: time for name, time in progress["eventTime"].items() if name != "avg"},
        [(s["startOffset"], s["endOffset"], s["numInputRows"]) for s in progress["sources"]],
        [{key: op[key] for key in _STATE_METRICS} | _counts(op) for op in progress["stateOperators"]],
        progress["sink"].get("numOutputRows"),
        {name: _without_times(text) for name, text in batch.logs.items()},
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
    """To the millisecond. Spark merges running means as tasks finish, so the last digit of its own average varies."""
    if one is None or other is None:
        return one == other
    return bool(abs(pd.Timestamp(one) - pd.Timestamp(other)) <= pd.Timedelta(milliseconds=1))


def _explain(batch_id: int, what: str, spark: Any, model: Any) -> Iterable[Difference]:
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


def _without_times(text: str) -> str:
    """A log entry without the wall-clock time of its batch."""
    lines = text.split("\n")
    if len(lines) > 1 and "batchTimestampMs" in lines[1]:
        metadata = json.loads(lines[1])
        metadata.pop("batchTimestampMs")
        lines[1] = json.dumps(metadata)
    return "\n".join(lines)


def _key(row: Any) -> str:
    return repr(_canonical(row))


def _canonical(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isnan(value) or math.isinf(value) else float(f"{value:.9g}")
    if isinstance(value, Mapping):
        return sorted((_key(k), _canonical(v)) for k, v in value.items())
    if isinstance(value, (tuple, list)):
        return tuple(_canonical(v) for v in value)
    return value


def _which(in_spark: bool, in_model: bool) -> str:
    return "both" if in_spark and in_model else "spark only" if in_spark else "model only"


def _short(text: str) -> str:
    return text if len(text) <= 1000 else f"{text[:1000]} …"
