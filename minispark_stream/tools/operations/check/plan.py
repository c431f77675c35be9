"""What a planned query does, operator by operator, as texts that can be compared with those of another query.

1. The optimised plan is read as JSON, and the ids of the columns of each node are asked for.
2. From the sources up, each column is told in terms of the columns of the sources (expressions.py).
3. A stateful operator is described by what its state depends on: keys, aggregate functions, columns that are kept, and so on.
4. Everything else belongs to a place: what is below operator 0, and above the next one; what is above all of them. There it
   is a condition, or a node that makes rows of rows.

    groupBy(upper(k)).count() below where(count > 1)     operators[0].facts["keys"]       ("upper(0.k)",)
                                                         operators[0].facts["functions"]  ("count(1)",)
                                                         conditions["above all operators"]   ("(count(1) > 1)",)

Models: nothing of Spark.
Shown by tests/spark/test_check.py::test_foretold_is_what_spark_did.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from minispark_stream.engine.jvm import scala
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.batch_context import StateVariables
from minispark_stream.engine.plan.streaming_relation import SourceKeys, streaming_leaf
from minispark_stream.engine.runtime.template import Template
from minispark_stream.engine.state.operator_state_metadata import variable_kinds
from minispark_stream.tools.operations.check.expressions import ExpressionTree, Words, conjuncts, id_of, trees
from minispark_stream.tools.operations.check.functions import digests

ABOVE = "above all operators"
ROWS_AS_THEY_ARE = ("Project", "Filter", "SubqueryAlias", "EventTimeWatermark", "Aggregate", "Join", "Repartition",
                    "RepartitionByExpression", "RebalancePartitions", "LocalLimit", "CollectMetrics", "ResolvedHint",
                    "UpdateEventTimeWatermarkColumn")
FUNCTIONS_WITH_STATE = ("FlatMapGroupsInPandasWithState", "TransformWithStateInPySpark")


@dataclass(frozen=True)
class PlannedOperator:
    """A stateful operator. `facts`: what its state depends on, each a sequence of texts."""

    operator_id: int
    kind: str
    facts: Mapping[str, tuple[str, ...]]


@dataclass
class Description:
    """A query. By place: `conditions` of filters, and other `nodes`. `watermarks`: column and delay. `output`: name -> text."""

    operators: list[PlannedOperator] = field(default_factory=list)
    conditions: dict[str, list[str]] = field(default_factory=dict)
    nodes: dict[str, list[str]] = field(default_factory=dict)
    watermarks: list[tuple[str, str]] = field(default_factory=list)
    output: tuple[tuple[str, str], ...] = ()


def describe(
    template: Template, sources: SourceKeys, names: Sequence[str], variables: Mapping[int, StateVariables],
    without: Collection[str] = (),
) -> Description:
    """Describe the optimised plan of a query.

    Args:
        names: the names of the sources: numbers, unless the query names them.
        variables: those that its processors have declared, by operator.
        without: names of sources that are left out of unions: the other query does not have them.
    """
    reader = _Reader(template, sources, names, without)
    tree = ExpressionTree(iter(json.loads(template.optimized.toJSON())))  # (1)
    columns = reader.read(tree, template.optimized, ABOVE)
    names = [str(name) for name in template.schema.fieldNames()]
    texts = [columns.get(i, "?") for i in _ids(template.optimized)]
    reader.found.output = tuple(zip(names, texts))
    for i, one in enumerate(reader.found.operators):
        if one.operator_id in variables:
            facts = {**one.facts, **_declared(variables[one.operator_id])}
            reader.found.operators[i] = replace(one, facts=facts)
    for conditions in reader.found.conditions.values():
        conditions[:] = [one for one in conditions if not _is_implied(one, reader.found)]
    return reader.found


def _is_implied(condition: str, found: Description) -> bool:
    """Whether the optimizer adds it by itself: that a value is not null which another condition, or a join, compares."""
    if not condition.startswith("isNotNull("):
        return False
    value = condition.removeprefix("isNotNull(").removesuffix(")")
    joins = [text for one in found.operators for name in ("equal", "other conditions") for text in one.facts.get(name, ())]
    others = [text for texts in found.conditions.values() for text in texts if not text.startswith("isNotNull(")]
    return any(value in text for text in (*others, *joins))


def _declared(variables: StateVariables) -> dict[str, tuple[str, ...]]:
    """The state variables of a processor: the name and kind of each, its fields, and how long its rows live."""
    kinds = tuple(f"{name} {kind}" for name, kind in sorted(variable_kinds(variables.properties).items()))
    encoding = ("avro",) if variables.in_avro else ()
    lives = tuple(f"{name} {ms} ms" for name, ms in sorted(variables.ttl_ms.items()))
    return {"variables": kinds, "fields": (*sorted(variables.fields), *encoding), "time to live": lives}


def _ids(plan: JavaObject) -> list[int]:
    return [int(column.exprId().id()) for column in scala.items(plan.output())]


class _Reader:
    def __init__(self, template: Template, sources: SourceKeys, names: Sequence[str], without: Collection[str]):
        self.template, self.sources, self.names = template, sources, names
        self._gone = re.compile(rf"\b({'|'.join(map(re.escape, without))})\.") if without else None
        self.found = Description()
        self.kinds = {operator.operator_id: operator for operator in template.operators}
        self.functions = digests(template.session, template.optimized)
        self._next = 0

    def read(self, tree: ExpressionTree, plan: JavaObject, place: str) -> dict[int, str]:  # (2)
        """Describe a node and all below it; returns what its columns stand for."""
        ids = _ids(plan)
        below = scala.items(plan.children())
        if not below:
            return self._leaf(tree, plan, ids, place)
        number = self._operator(tree, plan)
        inner = place if number is None else f"below operator {number}"
        if number is not None:
            self.found.operators.append(PlannedOperator(number, self.kinds[number].operator_name, {}))
            at = len(self.found.operators) - 1
        each = [self.read(t, p, inner) for t, p in zip(tree.children, below)]
        columns = {i: text for of_child in each for i, text in of_child.items()}
        words = Words(columns, self.functions)
        facts: dict[str, tuple[str, ...]] | None = None
        if number is not None:  # (3)
            facts = self._facts(tree, words, [_ids(p) for p in below])
            self.found.operators[at] = PlannedOperator(number, self.kinds[number].operator_name, facts)
        elif tree.name in ("Filter", "Join"):  # (4)
            some = [words.of(one) for c in trees(tree.fields.get("condition")) for one in conjuncts(c)]
            kind = "" if tree.name == "Filter" else f"{_text(tree.fields.get('joinType'))} join on "
            self.found.conditions.setdefault(inner, []).extend(kind + one for one in some)
        elif tree.name not in ROWS_AS_THEY_ARE:
            self.found.nodes.setdefault(inner, []).append(f"{tree.name} {self._all(tree, words)}".strip())
        if tree.name == "EventTimeWatermark":
            [column] = trees(tree.fields["eventTime"])
            self.found.watermarks.append((words.of(column), str(plan.delay().toString())))
        return self._made(tree, words, ids, each, number, facts)

    def _leaf(self, tree: ExpressionTree, plan: JavaObject, ids: Sequence[int], place: str) -> dict[int, str]:
        stream = streaming_leaf(self.template.session, plan)
        names = [str(name) for name in plan.schema().fieldNames()]
        if stream is not None:
            source = self.names[self.sources.of(plan, stream)]
            return {i: f"{source}.{name}" for i, name in zip(ids, names)}
        where = "" if plan.isStreaming() else f"table({_table(plan)})"
        if where:
            self.found.nodes.setdefault(place, []).append(where)
        return {i: f"{where or 'nothing'}.{name}" for i, name in zip(ids, names)}

    def _operator(self, tree: ExpressionTree, plan: JavaObject) -> int | None:
        """The number of the operator that a node is. They are numbered from the top, as the plan is compiled (template.py)."""
        made = self.kinds.get(self._next)
        if made is None or not made.plan.fastEquals(plan):
            return None
        self._next += 1
        return self._next - 1

    def _facts(self, tree: ExpressionTree, words: Words, ids: Sequence[Sequence[int]]) -> dict[str, tuple[str, ...]]:
        columns = [tuple(words.columns.get(i, "?") for i in of_child) for of_child in ids]
        match tree.name:
            case "Aggregate":
                keys = tuple(map(words.of, trees(tree.fields["groupingExpressions"])))
                calls = [words.of(node) for one in trees(tree.fields["aggregateExpressions"]) for node in one.down()
                         if node.name == "AggregateExpression"]
                return {"keys": keys, "functions": tuple(dict.fromkeys(calls))}
            case "Join":
                every = [words.of(one) for c in trees(tree.fields["condition"]) for one in conjuncts(c)]
                equal = tuple(one for one in every if " = " in one or " <=> " in one)
                rest = tuple(sorted(one for one in every if one not in equal))
                left, right = columns
                return {"type": (_text(tree.fields["joinType"]),), "equal": equal, "other conditions": rest,
                        "left columns": left, "right columns": right}
            case "Deduplicate" | "DeduplicateWithinWatermark":
                return {"keys": tuple(map(words.of, trees(tree.fields["keys"])))}
            case "GlobalLimit":
                return {"limit": tuple(map(words.of, trees(tree.fields["limitExpr"])))}
            case _ if tree.name in FUNCTIONS_WITH_STATE:
                return self._function(tree, words, columns[0])
            case _:
                return {"all of it": (self._all(tree, words),)}

    def _function(self, tree: ExpressionTree, words: Words, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """applyInPandasWithState, transformWithState: what its state and its calls depend on."""
        call = trees(tree.fields["functionExpr"])[0]
        code = self.functions.get(id_of(call.fields.get("resultId")) or -1, "?")
        if "groupingAttributes" in tree.fields:
            keys = tuple(map(words.of, trees(tree.fields["groupingAttributes"])))
        else:
            keys = tuple(columns[: int(tree.fields["groupingAttributesLen"])])
        made = trees(tree.fields.get("outputAttrs", tree.fields.get("output")))
        output = tuple(f"{one.fields['name']} {_text(one.fields['dataType'])}" for one in made)
        return {
            "keys": keys, "columns": tuple(columns), "code": (code,), "output": output,
            "state": (_text(tree.fields.get("stateType")),), "timeout": (_text(tree.fields.get("timeout")),),
            "time mode": (_text(tree.fields.get("timeMode")),), "function's mode": (_text(tree.fields.get("outputMode")),),
        }

    def _all(self, tree: ExpressionTree, words: Words) -> str:
        return ", ".join(words.of(one) for value in tree.fields.values() for one in trees(value))

    def _made(
        self, tree: ExpressionTree, words: Words, ids: Sequence[int], each: Sequence[Mapping[int, str]], number: int | None,
        facts: Mapping[str, tuple[str, ...]] | None,
    ) -> dict[int, str]:
        """What the columns of a node stand for: a new name, a result, or, of rows made of rows, the node itself."""
        lists = [tree.fields.get(name) for name in ("projectList", "aggregateExpressions")]
        new = {one.id: words.of(one) for one in trees(lists)}
        if facts is not None:
            new = {i: _in_results(text, number, facts) for i, text in new.items()}
        if tree.name == "Union":
            rows = [[*of_child.values()][: len(ids)] for of_child in each]
            left = [side for side in rows if self._gone is None or not all(map(self._gone.search, side))]
            sides = zip(*sorted(left or rows))  # the order of the sides does not matter
            return {i: f"union({' | '.join(side)})" if len(set(side)) > 1 else side[0] for i, side in zip(ids, sides)}
        inner = ""
        made: dict[int, str] = {}
        for at, i in enumerate(ids):
            if i in words.columns and i not in new:
                made[i] = words.columns[i]
            elif i in new:
                made[i] = new[i]
            else:
                inner = inner or self._all(tree, words)
                made[i] = f"{tree.name}[{at}]" + (f"({inner})" if tree.name not in FUNCTIONS_WITH_STATE else "")
        return made


def _table(plan: JavaObject) -> str:
    """A table beside the stream: its files, if it has any, or else what Spark says of it."""
    if scala.class_name(plan) == "LogicalRelation" and scala.class_name(plan.relation()) == "HadoopFsRelation":
        return str(plan.relation().location().rootPaths().mkString(", "))
    return re.sub(r"#\d+L?", "", str(plan.toString()).strip())


def _in_results(text: str, number: int | None, facts: Mapping[str, tuple[str, ...]]) -> str:
    """A result in terms of the operator's keys and functions, so that a change of these is not a change of the result, too."""
    lists = {name: facts.get(name, ()) for name in ("functions", "keys")}
    named = [(one, f"operator {number}.{name}[{i}]") for name, texts in lists.items() for i, one in enumerate(texts)]
    for one, short in sorted(named, key=lambda pair: -len(pair[0])):
        text = text.replace(one, short)
    return text


def _text(value: object) -> str:
    if isinstance(value, dict) and "object" in value:
        return str(value["object"]).rpartition(".")[2].rstrip("$")
    return json.dumps(value, sort_keys=True) if isinstance(value, (dict, list)) else str(value)
