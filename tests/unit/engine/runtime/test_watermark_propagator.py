"""Which watermark each operator of a plan sees. Plans are drawn as nested calls; times in minutes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from minispark_stream.engine.operators.state_task import OperatorWatermarks
from minispark_stream.engine.plan.nodes import SourceLeaf, Stateless, Watermark
from minispark_stream.engine.runtime import watermark_propagator
from minispark_stream.engine.runtime.template import Template
from minispark_stream.engine.runtime.watermark_propagator import operator_watermarks, propagate

ANY: Any = None


def source() -> Any:
    return SourceLeaf(0, relation=Any, attributes=(), empty=None, renamed=None)  # type: ignore[arg-type]


def with_watermark(child: Any) -> Any:
    return Watermark("node", "ts", 0, "eventTimeStats:0", None, (child,))


def select(*children: Any) -> Any:
    return Stateless(None, children)


def operator(operator_id: int, *children: Any, holds_back: int | None = 0) -> Any:
    """A stateful operator whose output is `holds_back` older than its input; None: it promises nothing."""
    promise = (lambda ms: None) if holds_back is None else (lambda ms: ms - holds_back)
    return SimpleNamespace(operator_id=operator_id, children=children, output_watermark=promise)


def seen(root: Any, watermark: int) -> dict[int, int]:
    found = propagate(Template(root, (), (), ANY, ANY, ANY), watermark, allow_multiple=True)
    return {operator_id: ms for operator_id, (ms, _) in found.items()}


@pytest.mark.parametrize(
    "behaviour, plan, sees",
    [
        ("an aggregation sees the watermark", operator(0, select(with_watermark(source()))), {0: 30}),
        ("without withWatermark it sees the beginning of time", operator(0, select(source())), {0: 0}),
        (
            "what is above a join that keeps rows 10 minutes longer sees 10 minutes less",
            operator(0, operator(1, with_watermark(source()), with_watermark(source()), holds_back=10)),
            {0: 20, 1: 30},
        ),
        (
            "of several inputs the oldest counts",
            operator(0, select(operator(1, with_watermark(source()), holds_back=5), with_watermark(source()))),
            {0: 25, 1: 30},
        ),
        (
            "an input without a watermark is not waited for",
            operator(0, select(source(), with_watermark(source()))),
            {0: 30},
        ),
        (
            "what an operator without a watermark passes on is not waited for",
            operator(0, operator(1, source()), with_watermark(source())),
            {0: 30, 1: 0},
        ),
        (
            "nothing is before 1970",
            operator(0, operator(1, with_watermark(source()), holds_back=40)),
            {0: 0, 1: 30},
        ),
        (
            "a function of the user promises nothing",
            operator(0, operator(1, with_watermark(source()), holds_back=None)),
            {0: 0, 1: 30},
        ),
    ],
)
def test_a_watermark_goes_up_the_plan(behaviour: str, plan: Any, sees: dict[int, int]) -> None:
    assert seen(plan, 30) == sees, behaviour


def watermarks(*operators: Any, previous: int, current: int, allow_multiple: bool) -> dict[int, OperatorWatermarks]:
    """Of operators on top of each other, the first one uppermost."""
    template = Template(operators[0], (), operators, ANY, ANY, ANY)
    return operator_watermarks(template, previous, current, allow_multiple)


def test_rows_are_late_by_the_watermark_of_the_batch_before_and_state_goes_by_that_of_this_batch() -> None:
    count = operator(0, with_watermark(source()))
    for previous, late in ((20, 20), (30, 30)):
        expected = OperatorWatermarks(late_ms=late, eviction_ms=30, moved=previous != 30, output_ms=30)
        assert watermarks(count, previous=previous, current=30, allow_multiple=True) == {0: expected}


def test_without_multiple_operators_all_see_the_watermark_of_the_batch_and_find_late_rows_by_it() -> None:
    join = operator(1, select(source()), holds_back=10)
    count = operator(0, join)
    for previous in (20, 30):
        expected = OperatorWatermarks(late_ms=30, eviction_ms=30, moved=previous != 30)
        assert watermarks(count, join, previous=previous, current=30, allow_multiple=False) == {0: expected, 1: expected}


@pytest.mark.parametrize(
    "plan, redefines",
    [
        (with_watermark(source()), False),
        (with_watermark(select(source(), with_watermark(source()))), True),
        (with_watermark(operator(0, with_watermark(source()), holds_back=5)), True),
        (with_watermark(operator(0, with_watermark(source()), holds_back=None)), False),
        (with_watermark(operator(0, source())), False),
    ],
)
def test_a_watermark_above_another_one_ends_the_query_when_the_watermark_moves(
    plan: Any, redefines: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watermark_propagator, "analysis_error", lambda *_, **named: AnalysisException(f"again: {named}"))
    assert seen(operator(0, plan), 0)[0] == 0
    if redefines:
        with pytest.raises(AnalysisException, match="again.*statefulOperator.allowMultiple"):
            seen(operator(0, plan), 30)
    else:
        assert seen(operator(0, plan), 30)[0] == 30
