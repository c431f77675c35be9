"""Plans as texts, and what their differences mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pyspark.cloudpickle import dumps

from minispark_stream.tools.operations.check.expressions import ExpressionTree, Words, conjuncts, trees
from minispark_stream.tools.operations.check.functions import digest
from minispark_stream.tools.operations.check.of_plans import of_plans
from minispark_stream.tools.operations.check.plan import ABOVE, Description, PlannedOperator

PACKAGE = "org.apache.spark.sql.catalyst.expressions."


def node(name: str, children: int = 0, /, **fields: Any) -> dict[str, Any]:
    return {"class": PACKAGE + name, "num-children": children, **fields}


def column(name: str, number: int) -> dict[str, Any]:
    return node("AttributeReference", name=name, dataType="string", exprId={"id": number})


def test_an_expression_is_told_in_columns_of_sources() -> None:
    upper = [node("Alias", 1, child=0, name="a", exprId={"id": 9}), node("Upper", 1, child=0), column("k", 7)]
    assert Words({7: "0.k"}, {}).of(ExpressionTree(iter(upper))) == "upper(0.k)"
    window = [node("Substring", 2, children=[0, 1]), column("k", 7), node("Literal", value="2", dataType="integer")]
    assert Words({7: "0.k"}, {}).of(ExpressionTree(iter(window))) == "substring(0.k, 2)"


def test_a_text_and_a_number_differ() -> None:
    texts = [Words({}, {}).of(ExpressionTree(iter([node("Literal", value="1", dataType=kind)]))) for kind in ("string", "integer")]
    assert texts[0] != texts[1]


def test_what_is_not_a_child_belongs_to_the_expression() -> None:
    def precision(value: float) -> str:
        return Words({7: "0.k"}, {}).of(ExpressionTree(iter([node("HyperLogLogPlusPlus", 1, child=0, relativeSD=value), column("k", 7)])))

    assert precision(0.05) != precision(0.2)


def test_conditions_are_split_at_and() -> None:
    both = [node("And", 2, left=0, right=1), node("IsNotNull", 1, child=0), column("k", 7), column("b", 8)]
    [tree] = trees(both)
    assert [Words({}, {}).of(one) for one in conjuncts(tree)] == ["isNotNull(k)", "b"]


def made(add: int) -> Callable[[int], int]:
    return lambda x: x + add


class Adds:
    """A processor: `init` declares, `run` computes."""

    schema, factor, minutes = "n long", 1, timedelta(minutes=1)

    def init(self) -> str:
        return self.schema

    def run(self, value: int) -> Any:
        return self.minutes * self.factor * self.twice(value)

    @staticmethod
    def twice(value: int) -> int:
        return 2 * value


class OtherSchema(Adds):
    schema = "m long"


class OtherFactor(Adds):
    factor = 2


class OtherMinutes(Adds):
    minutes = timedelta(minutes=2)


class OtherHelper(Adds):
    @staticmethod
    def twice(value: int) -> int:
        return 3 * value


def like(pattern: str) -> Any:
    compiled = re.compile(pattern)
    return lambda x: [y for y in x if compiled.match(y)]


@pytest.mark.parametrize(("one", "other", "same"), [
    (lambda x: x + 1, lambda x: x + 1, True),
    (Adds(), Adds(), True),
    (Adds(), OtherSchema(), True),
    (Adds(), OtherFactor(), False),
    (Adds(), OtherMinutes(), False),
    (Adds(), OtherHelper(), False),
    (like("a"), like("a"), True),
    (like("a"), like("b"), False),
    (partial(min, 1), partial(min, 2), False),
    (max, min, False),
    (lambda x: x + 1, lambda x: x + 2, False),
    (made(1), made(1), True),
    (made(1), made(2), False),
    (lambda x, y=1: x, lambda x, y=2: x, False),
    (lambda x: [y for y in x if y], lambda x: [y for y in x if not y], False),
])
def test_code_is_compared_and_not_where_it_stands(one: Any, other: Any, same: bool) -> None:
    assert (digest(dumps((one, None))) == digest(dumps((other, None)))) is same


def query(kind: str = "stateStoreSave", conditions: dict[str, list[str]] | None = None, output: str = "n", **facts: str) -> Description:
    found = {name.replace("_", " "): tuple(text.split("; ")) for name, text in facts.items()}
    return Description([PlannedOperator(0, kind, found)], conditions or {}, output=((output, "operator 0.functions[0]"),))


@pytest.mark.parametrize(("before", "after", "found"), [
    (query(keys="0.k"), query(keys="0.k"), []),
    (query(keys="0.k"), query(keys="0.u"), ["key.changed"]),
    (query(keys="0.k; 0.u"), query(keys="0.u; 0.k"), ["key.reordered"]),
    (query(functions="sum(0.v)"), query(functions="sum(0.w)"), ["function.argument"]),
    (query(functions="sum(0.v)"), query(functions="count(0.v)"), ["function.other"]),
    (query(functions="first(0.v)"), query(functions="last(0.v)"), ["function.like"]),
    (query(functions="sum(0.v); count(1)"), query(functions="count(1); sum(0.v)"), ["function.reordered"]),
    (query(functions="stddevSamp(0.v)"), query(functions="varianceSamp(0.v)"), ["function.same-state"]),
    (query("symmetricHashJoin", type="Inner"), query("symmetricHashJoin", type="LeftOuter"), ["join.type"]),
    (query("symmetricHashJoin", left_columns="0.k; 0.u"), query("symmetricHashJoin", left_columns="0.u; 0.k"), ["join.columns"]),
    (query("symmetricHashJoin", equal="a"), query("symmetricHashJoin", equal="b"), ["key.changed"]),
    (query("symmetricHashJoin", type="LeftSemi"), query("symmetricHashJoin", type="Inner"), ["join.from-semi"]),
    (query("globalLimit", limit="3"), query("globalLimit", limit="2"), ["limit.changed"]),
    (query("globalLimit", limit="3"), query("globalLimit", limit="5"), ["limit.more"]),
    (query(fields="a.n bigint"), query(fields="a.m bigint"), ["variable.fields"]),
    (query(fields="a.n int; avro"), query(fields="a.n bigint; avro"), ["variable.fields"]),
    (query(fields="a.n bigint; avro"), query(fields="a.m bigint; avro"), ["variable.field-renamed"]),
    (query(fields="a.n bigint; avro"), query(fields="a.n bigint; a.m bigint; avro"), ["variable.fields-by-name"]),
    (query(fields="a.n bigint"), query(fields="a.n bigint; b.m bigint"), []),
    (query(time_to_live="a 60 ms"), query(time_to_live="a 120 ms"), ["variable.time-to-live"]),
    (query("other", what="1"), query("other", what="2"), ["not-decided"]),
    (query("stateStoreSave"), query("dedupe"), ["operator.changed"]),
    (query(), query(conditions={ABOVE: ["(a > 1)"]}), ["condition.changed"]),
    (query(), query(output="m"), ["output.renamed"]),
    (query(variables="a ValueState"), query(variables="b ValueState"), ["variable.renamed"]),
    (query(variables="a ValueState"), query(variables="a ValueState; b ListState"), ["variable.added"]),
    (query(keys="0.k", functions="sum(0.v)"), query(keys="0.u", functions="sum(0.w)"), ["function.argument", "key.changed"]),
])
def test_a_change_of_an_operator_has_its_rule(before: Description, after: Description, found: list[str]) -> None:
    assert [one.id for one in of_plans(before, after, complete=False)] == found


def test_a_complete_result_is_written_anew() -> None:
    [found] = of_plans(query(), query(conditions={ABOVE: ["(a > 1)"]}), complete=True)
    assert (found.id, found.verdict) == ("output.complete", "right")


def test_a_watermark_on_another_column_is_wrong() -> None:
    before, after = query(), query()
    before.watermarks, after.watermarks = [("0.ts", "2 minutes")], [("0.ts2", "2 minutes")]
    assert [one.verdict for one in of_plans(before, after, complete=False)] == ["wrong"]
    after.watermarks = [("0.ts", "1 hour")]
    assert [one.verdict for one in of_plans(before, after, complete=False)] == ["right"]


def test_without_its_watermark_a_deduplication_forgets_what_it_has_evicted() -> None:
    before, after = query("dedupe", keys="0.k; 0.ts"), query("dedupe", keys="0.k; 0.ts")
    before.watermarks = [("0.ts", "2 minutes")]
    assert [one.id for one in of_plans(before, after, complete=False)] == ["watermark.removed-keys"]
    before.operators = after.operators = query("dedupe", keys="0.k").operators
    assert [one.id for one in of_plans(before, after, complete=False)] == ["watermark.removed"]
