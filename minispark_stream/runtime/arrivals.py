"""Which way each new row goes: from its file to the key of a stateful operator (level "rows" of the trace).

Models: nothing of Spark, which does not follow a row.

1. The first rows of each source are read into the driver, with the file that each of them comes from and a number.
2. The plan below each stateful operator runs over these rows once more, with the number as one more column. What stands for
   a row afterwards (one row, several for sliding windows, or none) has its number.
3. Of each such row: the event time at its `withWatermark`; at the operator, the key, the partition of the key, and the time
   that decides whether it is late.

    2024-01-01 12:04:00,a   ->  0.csv, event time 12:04:00, operator 0: key window=[12:00, 12:05), time 12:05:00, partition 1

A plan in which a number cannot be carried along (an aggregation without state, a Python function over whole rows) and what is
above another stateful operator are left out: of these rows only the file and the values are known.

Spark keeps no such record. The user's functions below an operator run once more for it, and what is random there may come out
otherwise. Differs from Spark: nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from minispark_stream.jvm import expressions, plans, scala
from minispark_stream.jvm.scala import JavaObject
from minispark_stream.operators.base import StatefulOperator
from minispark_stream.operators.columns import EventTime
from minispark_stream.operators.flat_map_groups_with_state import FlatMapGroupsWithState
from minispark_stream.operators.session_window import SessionWindowAggregation
from minispark_stream.operators.stateful_processor_handle import EVENT_TIME
from minispark_stream.operators.streaming_aggregation import StreamingAggregation
from minispark_stream.operators.streaming_deduplicate import StreamingDeduplicate
from minispark_stream.operators.streaming_global_limit import StreamingGlobalLimit
from minispark_stream.operators.symmetric_hash_join import SymmetricHashJoin
from minispark_stream.operators.transform_with_state import TransformWithState
from minispark_stream.plan.nodes import Node, SourceLeaf, Stateless, Static, Watermark
from minispark_stream.runtime.incremental_execution import IncrementalExecution
from minispark_stream.runtime.previews import preview

logger = logging.getLogger(__name__)

MAX_ARRIVALS = 1000  # rows of a source in a batch
_ROW, _FILE = "__row", "__file"
# Nodes that hand on the columns of their child, whatever they are.
_TRANSPARENT = ("Filter", "Sort", "Generate", "Repartition", "RepartitionByExpression", "ResolvedHint", "Join")


class Way(NamedTuple):
    """How rows get into an operator on one side: the columns of their key, and the column that decides about lateness."""

    child: Node
    operator: StatefulOperator
    key: Mapping[str, JavaObject]
    shuffled_by: Sequence[JavaObject]
    time: JavaObject | None = None
    is_window: bool = False
    row: Sequence[JavaObject] = ()

    def partitions(self, execution: IncrementalExecution) -> int:
        return self.operator.partitions(execution.context.num_partitions)


def _ways(operator: StatefulOperator) -> Iterator[Way]:
    """One way for each input."""
    child, plan = operator.children[0], operator.plan

    def time(columns: Sequence[JavaObject], event_time: EventTime | None) -> dict[str, Any]:
        return {} if event_time is None else {"time": columns[event_time.position], "is_window": event_time.is_window}

    match operator:
        case StreamingAggregation():
            grouping = scala.items(plan.groupingExpressions())
            session = operator.session if isinstance(operator, SessionWindowAggregation) else None
            names = (operator.keys if session is None else operator.values).names[: len(grouping)]
            by = [g for i, g in enumerate(grouping) if i != session]
            yield Way(child, operator, dict(zip(names, grouping)), by, **time(grouping, operator.event_time))
        case StreamingDeduplicate():
            keys = {key.name(): key for key in scala.items(plan.keys())}
            yield Way(child, operator, keys, [*keys.values()], **time(scala.items(plan.output()), operator.event_time))
        case SymmetricHashJoin():
            for side, below in enumerate((plan.left(), plan.right())):
                by, row = [*operator.keys[side]], scala.items(below.output())
                keys = {f"field{i}": key for i, key in enumerate(by)}
                yield Way(operator.children[side], operator, keys, by, row=row, **time(row, operator.event_times[side]))
        case FlatMapGroupsWithState():
            columns = scala.items(plan.child().output())
            keys = {columns[i].name(): columns[i] for i in operator.grouping}
            decides = operator.event_time if operator.timeout == "EventTimeTimeout" else None
            yield Way(child, operator, keys, [*keys.values()], **time(columns, decides))
        case TransformWithState():
            keys = {operator.attributes[i].name(): operator.attributes[i] for i in operator.input.grouping}
            decides = operator.event_time if operator.time_mode == EVENT_TIME else None
            yield Way(child, operator, keys, [*keys.values()], **time(operator.attributes, decides))
        case StreamingGlobalLimit():
            yield Way(child, operator, {}, [])


class Arrivals:
    """Follows the new rows of one batch. `names` are those of the sources, by their ordinal."""

    def __init__(self, execution: IncrementalExecution, names: Mapping[int, str]):
        self._session, self._execution, self._names = execution.context.session, execution, names
        self._taken: dict[int, JavaObject] = {}

    def rows(self) -> list[dict[str, Any]]:
        """The new rows in the order in which they were read, each with its way."""
        found: dict[str, dict[str, Any]] = {}
        for ordinal, plan in self._execution.new_data.items():  # (1)
            found |= self._take(ordinal, plan)
        for watermark in self._execution.template.watermarks:  # (3)
            for line in self._followed(watermark, partial(self._event_time, watermark)):
                found[line[_ROW]]["time"] = _ms(line["time"])
        for operator in self._execution.template.operators:
            for side, way in enumerate(_ways(operator)):
                for line in self._followed(way.child, partial(self._columns, way)):
                    found[line[_ROW]].setdefault("at", []).append(_at(way, side, line))
        if not self._execution.template.operators:
            for line in self._followed(self._execution.template.root, lambda _: []):
                found[line[_ROW]].setdefault("at", []).append({"operatorId": None})
        return list(found.values())

    def _take(self, ordinal: int, plan: JavaObject) -> dict[str, dict[str, Any]]:
        """(1) The rows of one source by their number. They stay in the driver for the plans that are to run over them."""
        width = len(scala.items(plan.output()))
        data = plans.of_rows(self._session, plan.withMetadataColumns() if self._asks_for_metadata(ordinal) else plan)
        row = F.concat(F.lit(f"{ordinal}:"), F.monotonically_increasing_id())
        numbered = data.select("*", F.input_file_name().alias(_FILE), row.alias(_ROW)).limit(MAX_ARRIVALS)
        output = plans.analyzed(numbered).output()
        rows = plans.local_frame(self._session, output, plans.collect_rows(numbered))
        self._taken[ordinal] = plans.analyzed(rows)
        return {
            line[_ROW]: {"source": self._names[ordinal], "file": line[_FILE] or None, "row": dict(list(line.items())[:width])}
            for line in preview(rows, MAX_ARRIVALS)
        }

    def _asks_for_metadata(self, ordinal: int) -> bool:
        leaves = [leaf for leaf in _leaves(self._execution.template.root) if leaf.ordinal == ordinal]
        return any(len(leaf.attributes) > len(leaf.relation.schema) for leaf in leaves)

    def _followed(self, node: Node, columns: Callable[[JavaObject], Iterable[Column]]) -> Iterator[dict[str, Any]]:
        """(2) What stands for the rows below an operator: their number, and some columns."""
        plan = self._carried(node)
        if plan is not None:
            rows = plans.of_rows(self._session, plan)
            shown = rows.select(self._column(_attribute(plan, _ROW)).alias(_ROW), *columns(plan))
            yield from (line for line in preview(shown, MAX_ARRIVALS * 10) if line[_ROW] is not None)

    def _carried(self, node: Node) -> JavaObject | None:
        """The plan of a node over the rows that were taken, with their number as the last column; None: cannot be done."""
        match node:
            case SourceLeaf():
                return self._leaf(node)
            case Watermark():
                return self._carried(node.children[0])
            case Stateless() if any(not isinstance(child, Static) for child in node.children):
                return self._stateless(node)
        return None

    def _leaf(self, leaf: SourceLeaf) -> JavaObject:
        taken = self._taken.get(leaf.ordinal)
        if taken is None:
            rows = plans.of_rows(self._session, leaf.empty).withColumn(_ROW, F.lit(None).cast("string"))
            return plans.analyzed(rows)
        *columns, _, row = scala.items(taken.output())
        new_id = scala.companion(self._session, "org.apache.spark.sql.catalyst.expressions.NamedExpression").newExprId()
        without_file = plans.project(self._session, [*columns, row], taken)
        return plans.rename(self._session, without_file, [*leaf.attributes, (_ROW, new_id)])

    def _stateless(self, node: Stateless) -> JavaObject | None:
        children = [child.plan if isinstance(child, Static) else self._carried(child) for child in node.children]
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

    def _columns(self, way: Way, _: JavaObject) -> list[Column]:
        time = F.lit(None) if way.time is None else self._column(way.time)
        start, end = (time["start"], time["end"]) if way.is_window else (F.lit(None), time)
        by, partitions = [self._column(key) for key in way.shuffled_by], F.lit(way.partitions(self._execution))
        partition = F.pmod(F.hash(*by), partitions) if by else F.lit(0)
        keys = [self._column(key).alias(f"key{i}") for i, key in enumerate(way.key.values())]
        row = [self._column(attribute).alias(f"row{i}") for i, attribute in enumerate(way.row)]
        return [*keys, *row, _micros(start).alias("start"), _micros(end).alias("time"), partition.alias("partition")]


def arrivals(execution: IncrementalExecution, names: Mapping[int, str]) -> list[dict[str, Any]] | None:
    """The new rows of a batch and their ways; None if they could not be followed."""
    try:
        return Arrivals(execution, names).rows()
    except Exception:  # the batch itself has run well: whatever it is, it must not end the query
        logger.warning("the rows of this batch could not be followed", exc_info=True)
        return None


def _at(way: Way, side: int, line: Mapping[str, Any]) -> dict[str, Any]:
    """What the trace keeps of a row at an operator."""
    window = {"start": _ms(line["start"])} if way.is_window else {}
    row = {"row": {a.name(): line[f"row{i}"] for i, a in enumerate(way.row)}} if way.row else {}
    return {
        "operatorId": way.operator.operator_id, "side": side, "partition": line["partition"],
        "key": {name: line[f"key{i}"] for i, name in enumerate(way.key)}, "time": _ms(line["time"]), **window, **row,
    }


def _micros(column: Column) -> Column:
    return F.unix_micros(column.cast("timestamp"))


def _ms(micros: int | None) -> float | None:
    """Milliseconds: a whole number where it is one."""
    return None if micros is None else micros // 1000 if micros % 1000 == 0 else micros / 1000


def _attribute(plan: JavaObject, name: str) -> JavaObject:
    return next(a for a in scala.items(plan.output()) if a.name() == name)


def _leaves(node: Node) -> Iterator[SourceLeaf]:
    if isinstance(node, SourceLeaf):
        yield node
    for child in node.children:
        yield from _leaves(child)
