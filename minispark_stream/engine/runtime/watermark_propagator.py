"""Which watermark does each stateful operator see?

Models: WatermarkPropagator, PropagateWatermarkSimulator, UseSingleWatermarkPropagator (About watermark).

The query has one watermark. It enters the plan at the `withWatermark` nodes and goes up:
1. A node without state passes on the least of what its children give; a source gives nothing.
2. A stateful operator sees the least of what its children give (0, the beginning of time, if none gives any), and passes on
   what it can promise about its own output: an aggregation emits windows that the watermark has passed, so the same; a join
   keeps rows longer, so its output may be older; a user's function promises nothing.
   A `withWatermark` above another one is refused, as soon as there is a watermark to propagate.
3. In each batch, the watermark of the batch is propagated to evict state, and that of the batch before to find late rows:
   a row is late only if the batch before has evicted the state that it belongs to.
4. With `spark.sql.streaming.statefulOperator.allowMultiple` off, nothing goes up the plan: as before Spark 3.4, every operator
   sees the watermark of the batch, to evict state and to find late rows.

    watermark 12:30                 join, left rows wait 10 minutes longer:   sees 12:30   passes on 12:19:59.999
                                    aggregation above it:                     sees 12:19:59.999

The promise depends on the plan and the watermark alone, so nothing is remembered from batch to batch.

Differs from Spark: when two operators share a shuffle (two aggregations of a stream that are joined), Spark finds no
watermark below the second one when it looks ahead to the next batch, and keeps this result: batch after batch, the second
operator evicts nothing, and its state grows. Here they share no shuffle, and both see the watermark.
Shown by tests/spark/test_differences.py::test_what_two_operators_share.
"""

from __future__ import annotations

from minispark_stream.engine.operators.base import OperatorWatermarks
from minispark_stream.engine.plan.nodes import Node, SourceLeaf, Stateless, Static, Watermark, fold
from minispark_stream.engine.runtime.template import Template


def propagate(template: Template, watermark_ms: int, allow_multiple: bool) -> dict[int, int]:
    """What each stateful operator sees (operator id -> ms), when the query's watermark is `watermark_ms`.

    Raises:
        AnalysisException: the watermark has moved, and the query defines it twice on one way.
    """
    if not allow_multiple:  # (4)
        return {operator.operator_id: watermark_ms for operator in template.operators}
    if watermark_ms > 0 and template.redefined is not None:
        raise template.redefined
    seen: dict[int, int] = {}

    def output(node: Node, inputs: list[int | None]) -> int | None:
        below = [ms for ms in inputs if ms is not None]
        match node:
            case Watermark():
                return watermark_ms
            case SourceLeaf() | Static() | Stateless():  # (1)
                return min(below, default=None)
            case operator:  # (2)
                seen[operator.operator_id] = min(below, default=0)
                return operator.output_watermark(seen[operator.operator_id])

    fold(template.root, output)
    return seen


def operator_watermarks(
    template: Template, previous_ms: int, current_ms: int, allow_multiple: bool
) -> dict[int, OperatorWatermarks]:
    """Both watermarks of each operator, from those of the batch before and of this batch."""
    before, now = (propagate(template, ms, allow_multiple) for ms in (previous_ms, current_ms))
    late = before if allow_multiple else now  # (3) (4)
    return {id_: OperatorWatermarks(late[id_], now[id_], moved=now[id_] != before[id_]) for id_ in now}
