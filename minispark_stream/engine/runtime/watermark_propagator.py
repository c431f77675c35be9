"""Which watermark does each stateful operator get?

Models: WatermarkPropagator, PropagateWatermarkSimulator, UseSingleWatermarkPropagator (About watermark).

The query has one watermark. It enters the plan at the `withWatermark` nodes, and is passed up from node to node:
1. A node without state passes on the least watermark of its children. A source has none.
2. A stateful operator gets the least watermark of its children, but never one before 1970. It passes on the watermark that is
   true of its own output: an aggregation emits windows that the watermark has passed, so it is the same one; a join keeps rows
   longer, so its output may be older; the output of a user's function has none. If the children have no watermark, the operator
   gets 1970, where no row is late yet, and passes nothing on. A `withWatermark` above another one is refused, as soon as there
   is a watermark to propagate.
3. In each batch, the watermark of the batch is propagated to evict state, and the watermark of the batch before to find late
   rows: a row is late only if the batch before has evicted the state that it belongs to.
4. With `spark.sql.streaming.statefulOperator.allowMultiple` off, nothing is passed up: as before Spark 3.4, every operator gets
   the watermark of the batch, both to evict state and to find late rows.

    watermark 12:30                 join, left rows wait 10 minutes longer:   gets 12:30   passes on 12:19:59.999
                                    aggregation above it:                     gets 12:19:59.999

All of this only depends on the plan and the watermark, so nothing is remembered from batch to batch.

Differs from Spark: if two operators share a shuffle (two aggregations of a stream that are joined), Spark finds no
watermark below the second one when it looks ahead to the next batch, and keeps this result: in every batch, the second
operator evicts nothing, and its state grows. Here they share no shuffle, and both get the watermark.
Shown by tests/spark/test_differences.py::test_what_two_operators_share.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from minispark_stream.engine.jvm.errors import analysis_error
from minispark_stream.engine.operators.event_times import ALLOW_MULTIPLE
from minispark_stream.engine.operators.state_task import OperatorWatermarks
from minispark_stream.engine.plan.nodes import Node, SourceLeaf, Stateless, Static, Watermark, fold
from minispark_stream.engine.runtime.template import Template

T = TypeVar("T")


class Propagated(NamedTuple):
    """The watermark that an operator gets, and the one that it passes on; None if it passes none on. In milliseconds."""

    input_ms: int
    output_ms: int | None


def propagate(template: Template, watermark_ms: int, allow_multiple: bool) -> dict[int, Propagated]:
    """What each stateful operator gets and passes on, by its id, if the query's watermark is `watermark_ms`.

    Raises:
        AnalysisException: the watermark has moved, and in the plan, one watermark is above another one.
    """
    if not allow_multiple:  # (4)
        return {operator.operator_id: Propagated(watermark_ms, None) for operator in template.operators}
    found: dict[int, Propagated] = {}

    def output(node: Node, inputs: list[int | None]) -> int | None:
        below = min((ms for ms in inputs if ms is not None), default=None)
        match node:
            case Watermark():
                if watermark_ms > 0 and below is not None:
                    raise analysis_error(template.session, "_LEGACY_ERROR_TEMP_3076", config=ALLOW_MULTIPLE)
                return watermark_ms
            case SourceLeaf() | Static() | Stateless():  # (1)
                return below
            case operator:  # (2)
                passed_on = None if below is None else operator.output_watermark(below)
                found[operator.operator_id] = Propagated(max(below or 0, 0), passed_on)
                return passed_on

    fold(template.root, output)
    return found


def late_watermark(previous: T, current: T, allow_multiple: bool) -> T:
    """What finds late rows: the watermark (or the watermarks of all operators) of the batch before, or of this batch."""
    return previous if allow_multiple else current  # (3) (4)


def operator_watermarks(
    template: Template, previous_ms: int, current_ms: int, allow_multiple: bool
) -> dict[int, OperatorWatermarks]:
    """Both watermarks of each operator, from the query's watermarks in the batch before and in this batch."""
    before, now = (propagate(template, ms, allow_multiple) for ms in (previous_ms, current_ms))
    late = late_watermark(before, now, allow_multiple)
    return {
        id_: OperatorWatermarks(late[id_].input_ms, ms, moved=ms != before[id_].input_ms, output_ms=output_ms)
        for id_, (ms, output_ms) in now.items()
    }
