"""Two engines, one query, one input: what each did, batch by batch, and where they disagree.

A `Comparison` is data: the engines are not needed any more to look at it. differences.py says what counts as a difference.

    batch  offsets            in  out  watermark  state   spark ms  model ms
    0      {"logOffset":0}     4    0  none yet       3        812       540   equal
    1      {"logOffset":1}     2    0  11:57          4        301       205   equal
    ms: how long the trigger of the batch took, measured while the model was recording rows, which takes Spark jobs of its own

So the times say where a run spent its time, and not which engine is faster. What is measured without a recording is in
docs/performance.md.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import graphviz
import pandas as pd

from minispark_stream.engine.times import iso_ms
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.trace.values import without_values
from minispark_stream.lens.view import flow
from minispark_stream.lens.view.page import page
from minispark_stream.lens.view.words import clip, plural, printable
from minispark_stream.tools.compare.differences import LONGEST, Difference, differences, row_key
from minispark_stream.tools.compare.engine_run import EngineRun

if TYPE_CHECKING:
    from minispark_stream.lens.view.stepper import Stepper


@dataclass(frozen=True)
class Comparison:
    """The outcome of `side_by_side`. In Jupyter it is shown as a table.

    Attributes:
        differences: what the engines disagree on; empty if they agree.
        spark, model: what each engine did.
        query: what the title of a page calls the query.
        recorded: what the model recorded meanwhile: "off", "steps" or "rows".
    """

    spark: EngineRun
    model: EngineRun
    columns: tuple[str, ...]
    ordered: bool = False
    query: str = ""
    recorded: str = "rows"
    differences: tuple[Difference, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "differences", tuple(differences(self.spark, self.model, self.ordered)))

    @property
    def traces(self) -> dict[str, Trace]:
        """Engine -> its trace."""
        return {"spark": self.spark.trace, "model": self.model.trace}

    @property
    def differing(self) -> frozenset[int | None]:
        """The batches on which the engines disagree; None stands for the run as a whole."""
        return frozenset(d.batch_id for d in self.differences)

    def table(self) -> pd.DataFrame:
        """A line for each batch, with both engines; `equal` says whether they agree on everything that is compared."""
        lines = []
        for ours, theirs in zip_longest(self.model.batches, self.spark.batches):
            shown = ours or theirs
            progress = shown.progress
            lines.append(
                {
                    "batch": shown.batch_id,
                    "offsets": " ".join(str(s["endOffset"]).replace(" ", "") for s in progress["sources"]),
                    "rows in": progress["numInputRows"],
                    "rows out": len(shown.rows),
                    "watermark": _watermark(progress["eventTime"].get("watermark", "")),
                    "state rows": sum(op["numRowsTotal"] for op in progress["stateOperators"]),
                    "late rows dropped": sum(op["numRowsDroppedByWatermark"] for op in progress["stateOperators"]),
                    "spark ms": theirs and theirs.progress["durationMs"].get("triggerExecution"),
                    "model ms": ours and ours.progress["durationMs"].get("triggerExecution"),
                    "equal": shown.batch_id not in self.differing,
                }
            )
        return pd.DataFrame(lines, columns=COLUMNS)

    def rows(self, batch_id: int) -> pd.DataFrame:
        """The rows that a batch sent to the sink, with the engine that sent them; a row that both engines sent is one line."""
        sent = [[row for b in run.batches if b.batch_id == batch_id for row in b.rows] for run in (self.spark, self.model)]
        spark, model = (Counter(map(row_key, rows)) for rows in sent)
        shown = {row_key(row): row for rows in sent for row in rows}
        counts = [(key, n < spark[key], n < model[key]) for key in sorted(shown) for n in range(max(spark[key], model[key]))]
        lines = [(*shown[key], _which(in_spark, in_model)) for key, in_spark, in_model in counts]
        return pd.DataFrame(lines, columns=[*self.columns, "engine"])

    def draw(self, batch: int | None = None, step: str | None = None, every_step: bool = False) -> graphviz.Digraph:
        """The flow of one batch (the last one) on both engines, differences marked; in five boxes, or with every step."""
        return flow.draw(self.traces, batch, step, self.differing, every_step)

    def stepper(self, batch: int | None = None, step: str | None = None, ask: bool = False) -> Stepper:
        """Forward and back through every step of both engines, for Jupyter; it needs no kernel.

        Args:
            batch, step: where to begin: the first step of this batch and with this name; None means any.
            ask: whether it asks before a step what it will do; the button "ask" turns this on and off.

        Raises:
            ValueError: there is no such step.
        """
        from minispark_stream.lens.view.stepper import Stepper

        return Stepper(self.traces, self._repr_html_(), batch, step, ask, self.differing, self.query)

    def to_html(self, path: str | Path) -> Path:
        """Write one file that opens in any browser: the table, the differences, and every step. Returns the path."""
        html = page(self.traces, self._repr_html_(), differing=self.differing, query=self.query)
        Path(path).write_text(html, encoding="utf-8")
        return Path(path)

    def to_text(self) -> str:
        """The table and the verdict as text, without durations."""
        table = self.table().drop(columns=["spark ms", "model ms"])
        table["offsets"] = [_in_short(offsets) for offsets in table["offsets"]]
        return printable(self._verdict() if table.empty else f"{table.to_string(index=False)}\n{self._verdict()}")

    @property
    def timed(self) -> str:
        """What the milliseconds of the table are, in a sentence."""
        took = "ms: how long the trigger of the batch took"
        if self.recorded == "off":
            return f"{took}; nothing was recorded."
        costs = ", which takes Spark jobs of its own: this is not a race" if self.recorded == "rows" else ""
        return f"{took}, measured while the model was recording {self.recorded}{costs}."

    def _verdict(self) -> str:
        batches = plural(len(self.model.batches), "batch")
        notes = [f"  {note}" for note in self._notes()]
        if self.differences:
            return "\n".join([f"{plural(len(self.differences), 'difference')}:", *(f"  {d}" for d in self.differences), *notes])
        if self.model.error is not None:
            ran = f"{batches}, and then both" if self.model.batches else "No batch has ended well: both"
            return f"{ran} engines fail alike: {self.model.cause or self.model.condition}"
        if not self._had_rows():
            return f"{f'{batches}, and no row' if self.model.batches else 'No batch ran'}: there is nothing to compare."
        return "\n".join([f"{batches}: both engines agree.", *notes])

    def _notes(self) -> list[str]:
        """What an agreement does not prove, in sentences."""
        read = [e for e in self.model.trace.events if e.step == "getBatch" and e.batch_id == 0 and e.outputs.get("files")]
        empty = {name: None for e in read for name in without_values(e.outputs.get("rows") or ())}
        wrong = "in every row of the first batch: if the files have values there, the schema has another type for them."
        return [f"{name} is null {wrong}" for name in empty]

    def _had_rows(self) -> bool:
        """Whether a row has gone in or come out, so that there is something to compare."""
        return any(batch.progress["numInputRows"] or batch.rows for batch in self.model.batches)

    def __repr__(self) -> str:
        found = f"{len(self.differences)} differences"
        if not self.differences and (self.model.error is not None or not self._had_rows()):
            found = "nothing to compare" if self.model.error is None else "both engines fail alike"
        return f"<Comparison: {len(self.model.batches)} batches, {found}>"

    def _repr_html_(self) -> str:
        lines = self.table()
        head = "".join(f"<th>{html.escape(str(c))}</th>" for c in lines.columns)
        body = "".join(_html_row(list(map(str, lines.columns)), line) for line in lines.itertuples(index=False))
        table = "" if lines.empty else (
            f"<div class='wide' tabindex='0'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
            f"<p class='timed'>{self.timed}</p>"
        )
        found = "".join(f"<li>{html.escape(clip(str(d), LONGEST))}</li>" for d in self.differences[:50])
        found = f"<ul>{found}</ul>" if found else ""
        found += "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())
        proven = self._had_rows() and self.model.error is None
        color = _RED if self.differences else _GREEN if proven else "light-dark(#8a5a00, #ffcf66)"
        verdict = html.escape(self._verdict().split("\n")[0])
        return (
            f"{_STYLE}<div class='mss-compare'><p style='color:{color}'><b>{verdict}</b></p>"
            f"{table}{found}</div>"
        )


COLUMNS = (
    "batch", "offsets", "rows in", "rows out", "watermark", "state rows", "late rows dropped", "spark ms", "model ms", "equal",
)
_RED, _GREEN = "light-dark(#b3261e, #ffaaa3)", "light-dark(#1b6e3c, #8fd3a1)"
_STYLE = (
    "<style>.mss-compare table{border-collapse:collapse;font:13px system-ui,sans-serif}"
    ".mss-compare th{background:light-dark(#eef2f7, #2a323b);text-align:left;padding:4px 10px;border-bottom:2px solid #c5cedb}"
    ".mss-compare td{padding:3px 10px;border-bottom:1px solid light-dark(#e2e8f0, #39434e);text-align:left}"
    ".mss-compare .timed{font-size:12px;margin:4px 0;color:light-dark(#53606d, #a9b4bf)}"
    ".mss-compare .wide{overflow-x:auto}.mss-compare :is(th,td):first-child{position:sticky;left:0}"
    ".mss-compare td:first-child{background:light-dark(#fff, #1d232a)}"
    ".mss-compare td.n{text-align:right;font-variant-numeric:tabular-nums}"
    f".mss-compare tr.differs td{{background:light-dark(#fde8e6, #4d211e)}}.mss-compare td.ok{{color:{_GREEN}}}"
    f".mss-compare td.bad{{color:{_RED};font-weight:600}}</style>"
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


def _watermark(told: str) -> str:
    """The watermark of a progress report, which has the beginning of 1970 as long as there is none."""
    return "none yet" if iso_ms(told) == 0 else told


def _in_short(offsets: str) -> str:
    """`{"logOffset":1} {"logOffset":0}`, of two folders, as `logOffset 1/0`, so that a line is not wider than a notebook."""
    numbers = re.fullmatch(r'\{"logOffset":(\d+)\}(?: \{"logOffset":(\d+)\})+', offsets) and re.findall(r"\d+", offsets)
    return f"logOffset {'/'.join(numbers)}" if numbers else offsets


def _which(in_spark: bool, in_model: bool) -> str:
    return "both" if in_spark and in_model else "spark only" if in_spark else "model only"
