"""The way of each new row: from its file to the key of a stateful operator (level "rows" of the trace).

Models: nothing of Spark, which does not follow a row.

1. As soon as a source has returned its new rows, the first of them are read into the driver (`take`), each with the file that
   it comes from and a number.
2. The plan below each stateful operator runs over these rows once more, with the number as an additional column. Whatever a row
   has become afterwards (one row, several for sliding windows, or none) has its number.
3. Of each such row are recorded: the event time at its `withWatermark`; and at the operator, the key, the partition of the
   key, and the time that decides whether it is late.

    2024-01-01 12:04:00,a   ->  0.csv, event time 12:04:00, operator 0: key window=[12:00, 12:05), time 12:05:00, partition 1

4. A deduplication or a limit passes on rows of its input, so their way continues above it. What any other operator has emitted
   in this batch is told by its tasks (told.py): these rows are numbered and followed in the same way.

A plan in which a number cannot be carried along (an aggregation without state, a Python function over whole rows) is left out:
only the file and the values of its rows are known.

The user's functions below an operator run once more for this, and random values there may be different.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream.engine.jvm import expressions, plans, scala
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.base import StatefulOperator
from minispark_stream.engine.operators.explained import Entry
from minispark_stream.engine.plan.nodes import Node, SourceLeaf, Stateless, Static, Watermark
from minispark_stream.engine.plan.streaming_relation import SourceKeys
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.lens.recording.previews import harmless, in_ms, preview
from minispark_stream.lens.recording.told import emitted_plan
from minispark_stream.lens.trace.events import MAX_ARRIVALS

logger = logging.getLogger(__name__)

_ROW, _FILE = "__row", "__file"
# Nodes that pass on the columns of their child, whatever they are.
_TRANSPARENT = ("Filter", "Sort", "Generate", "Repartition", "RepartitionByExpression", "ResolvedHint", "Join")


@dataclass(frozen=True)
class Taken:
    """The first new rows of a source: each with its file and its way, by its number; and a plan over them."""

    rows: Mapping[str, dict[str, Any]]
    plan: JavaObject

    def first(self, most: int, columns: Sequence[str]) -> list[dict[str, Any]]:
        """At most `most` rows, without the metadata of their files."""
        return [dict(zip(columns, one["row"].values())) for one in islice(self.rows.values(), most)]


def take(session: SparkSession, sources: SourceKeys, ordinal: int, name: str, data: DataFrame) -> Taken | None:
    """(1) `name` is what the trace calls the source. None if its rows could not be numbered."""
    try:
        return _taken(session, sources, ordinal, name, plans.analyzed(data))
    except Exception:  # the query was stopped, or the batch itself will report what is wrong with the data; or `arrivals` warns
        logger.debug("the rows of %s could not be numbered", name, exc_info=True)
        return None


def _taken(session: SparkSession, sources: SourceKeys, ordinal: int, name: str, plan: JavaObject) -> Taken:
    """The rows stay in the driver for the plans that will run over them."""
    if sources.asks_for_metadata(ordinal):
        plan = plan.withMetadataColumns()
    width = len(scala.items(plan.output()))
    row = F.concat(F.lit(f"{ordinal}:"), F.monotonically_increasing_id())
    numbered = plans.of_rows(session, plan).select("*", F.input_file_name().alias(_FILE), row.alias(_ROW)).limit(MAX_ARRIVALS)
    rows = plans.local_frame(session, plans.analyzed(numbered).output(), plans.collect_rows(numbered))
    found = {
        line[_ROW]: {"source": name, "file": line[_FILE] or None, "row": dict(list(line.items())[:width])}
        for line in preview(rows, MAX_ARRIVALS)
    }
    return Taken(found, plans.analyzed(rows))


class Arrivals:
    """Follows the new rows of one batch. `taken` has the rows of each source, by the number of the source."""

    def __init__(self, execution: IncrementalExecution, taken: Mapping[int, Taken]):
        self._session, self._execution, self._taken = execution.batch.session, execution, taken

    def found(self) -> dict[str, list[dict[str, Any]]]:
        """`arrivals`: the new rows in the order in which they were read, each with its way.

        `onward`: the way of each row that an operator emitted, if there is another operator above; `place` is its place among
        the rows that the operator told.
        """
        found = {number: row for taken in self._taken.values() for number, row in taken.rows.items()}
        onward: dict[str, dict[str, Any]] = {}
        for watermark in self._execution.template.watermarks:  # (3)
            for line in self._followed(watermark, partial(self._event_time, watermark)):
                found[line[_ROW]]["time"] = in_ms(line["time"])
        for operator in self._execution.template.operators:
            for side, entry in enumerate(operator.entries()):
                for line in self._followed(operator.children[side], partial(self._columns, operator, entry)):
                    of_row = found.get(line[_ROW])
                    if of_row is None:  # (4)
                        of_row = onward.setdefault(line[_ROW], _emitted_row(line[_ROW]))
                    place = {"operatorId": operator.operator_id, "side": side, **_at(entry, line)}
                    of_row.setdefault("at", []).append(place)
        if not self._execution.template.operators:
            for line in self._followed(self._execution.template.root, lambda _: []):
                found[line[_ROW]].setdefault("at", []).append({"operatorId": None})
        return {"arrivals": list(found.values()), "onward": list(onward.values())}

    def _followed(self, node: Node, columns: Callable[[JavaObject], Iterable[Column]]) -> Iterator[dict[str, Any]]:
        """(2) What has become of the rows below an operator: their numbers, and some columns."""
        plan = self._carried(node)
        if plan is not None:
            rows = plans.of_rows(self._session, plan)
            shown = rows.select(self._column(_attribute(plan, _ROW)).alias(_ROW), *columns(plan))
            yield from (line for line in preview(shown, MAX_ARRIVALS * 10) if line[_ROW] is not None)

    def _carried(self, node: Node) -> JavaObject | None:
        """The plan of a node over the rows that were taken, with their number as the last column; None if not possible."""
        match node:
            case SourceLeaf():
                return self._leaf(node)
            case Watermark():
                return self._carried(node.children[0])
            case Stateless(children=()):  # a stream without new rows
                return self._no_rows(node.plan)
            case Stateless() if any(not isinstance(child, Static) for child in node.children):
                return self._stateless(node)
            case StatefulOperator(passes_rows_on=True):  # its decision says which of them it drops
                return self._carried(node.children[0])
            case StatefulOperator():  # (4)
                return emitted_plan(self._execution, node, _ROW)
        return None

    def _leaf(self, leaf: SourceLeaf) -> JavaObject:
        taken = self._taken.get(leaf.ordinal)
        if taken is None:
            return self._no_rows(leaf.empty)
        *columns, _, row = scala.items(taken.plan.output())
        without_file = plans.project(self._session, [*columns, row], taken.plan)
        return plans.rename(self._session, without_file, [*leaf.attributes, (_ROW, None)])

    def _no_rows(self, plan: JavaObject) -> JavaObject:
        return plans.analyzed(plans.of_rows(self._session, plan).withColumn(_ROW, F.lit(None).cast("string")))

    def _stateless(self, node: Stateless) -> JavaObject | None:
        optimized = self._execution.template.optimized
        children = [child.plan_in(optimized) if isinstance(child, Static) else self._carried(child) for child in node.children]
        if None in children:
            return None
        name, below = scala.class_name(node.plan), children[0]
        if name in ("CollectMetrics", "LocalLimit"):  # nothing is observed twice; the limit of a partition is for speed only
            return below
        if name == "Project":
            columns = [*scala.items(node.plan.projectList()), _attribute(below, _ROW)]
            return plans.project(self._session, columns, below)
        if name == "Expand":
            row = _attribute(below, _ROW)
            projections = [
                scala.seq(self._session, [*scala.items(one), row]) for one in scala.items(node.plan.projections())
            ]
            output = scala.seq(self._session, [*scala.items(node.plan.output()), row])
            return scala.call(node.plan.copy, projections=scala.seq(self._session, projections), output=output, child=below)
        if name == "Union":
            children = [self._with_row_last(old, new) for old, new in zip(scala.items(node.plan.children()), children)]
        elif name not in _TRANSPARENT:
            return None
        plan = plans.with_children(self._session, node.plan, children)
        return plan if any(a.name() == _ROW for a in scala.items(plan.output())) else None

    def _with_row_last(self, old: JavaObject, new: JavaObject) -> JavaObject:
        return plans.project(self._session, [*scala.items(old.output()), _attribute(new, _ROW)], new)

    # -- (3) what is asked of the rows ---------------------------------------------------------------------------

    def _column(self, expression: JavaObject) -> Column:
        return expressions.column(self._session, expression)

    def _event_time(self, watermark: Watermark, below: JavaObject) -> list[Column]:
        return [_micros(self._column(_attribute(below, watermark.column))).alias("time")]

    def _columns(self, operator: StatefulOperator, entry: Entry, _: JavaObject) -> list[Column]:
        time = F.lit(None) if entry.time is None else self._column(entry.time)
        start, end = (time["start"], time["end"]) if entry.is_window else (F.lit(None), time)
        by = [self._column(key) for key in entry.shuffled_by]
        partitions = operator.partitions(self._execution.batch.num_partitions)
        partition = F.pmod(F.hash(*by), F.lit(partitions)) if by else F.lit(0)
        keys = [self._column(key).alias(f"key{i}") for i, key in enumerate(entry.key.values())]
        row = [self._column(attribute).alias(f"row{i}") for i, attribute in enumerate(entry.row)]
        return [*keys, *row, _micros(start).alias("start"), _micros(end).alias("time"), partition.alias("partition")]


def arrivals(execution: IncrementalExecution, taken: Mapping[int, Taken]) -> Mapping[str, list[dict[str, Any]] | None]:
    """`arrivals` and `onward` (see `Arrivals.found`); None if the rows of the batch could not be followed."""
    nothing: dict[str, list[dict[str, Any]] | None] = {"arrivals": None, "onward": None}
    if execution.new_data.keys() != taken.keys():
        logger.warning("the rows of this batch could not be followed, because not all of them could be numbered")
        return nothing
    return harmless(lambda: Arrivals(execution, taken).found(), "the rows of this batch could not be followed") or nothing


def _emitted_row(number: str) -> dict[str, Any]:
    operator_id, place = number.removeprefix("operator ").split(":")
    return {"operatorId": int(operator_id), "place": int(place)}


def _at(entry: Entry, line: Mapping[str, Any]) -> dict[str, Any]:
    """What the trace keeps of a row at an operator."""
    key = {name: line[f"key{i}"] for i, name in enumerate(entry.key)}
    window = {"start": in_ms(line["start"])} if entry.is_window else {}
    row = {"row": {a.name(): line[f"row{i}"] for i, a in enumerate(entry.row)}} if entry.row else {}
    return {"partition": line["partition"], "key": key, "time": in_ms(line["time"]), **window, **row}


def _micros(column: Column) -> Column:
    return F.unix_micros(column.cast("timestamp"))


def _attribute(plan: JavaObject, name: str) -> JavaObject:
    return next(a for a in scala.items(plan.output()) if a.name() == name)
