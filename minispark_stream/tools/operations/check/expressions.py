"""Expressions of Spark's plans as texts that can be compared: in terms of the columns of the sources.

An expression refers to columns by ids that are new in each plan. Here each of them is replaced by what it stands for, down to
the sources, so that two expressions have the same text exactly if they compute the same from the same columns, in the same way:

    SELECT upper(k) AS a ... GROUP BY a         upper(0.k)        0.k is the column k of source 0
    SELECT trim(k) AS a ... GROUP BY a          trim(0.k)

1. Spark writes a tree as a list of its nodes, each before its children (`TreeNode.toJSON`).
2. The text of a node is the name of its class and, in brackets, its other fields and its children. Ids, metadata, and what
   does not change its value are left out. Operators that people know by a sign are written with it.
3. The code of a function is a digest, which `functions` has by the id of the call.

Models: nothing of Spark.
Shown by tests/unit/tools/operations/test_check_plans.py::test_an_expression_is_told_in_columns_of_sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = Any
LEFT_OUT = {
    "class", "num-children", "exprId", "resultId", "qualifier", "metadata", "explicitMetadata", "nonInheritableMetadataKeys",
    "evalContext", "evalMode", "nullable", "child", "children", "left", "right", "mode", "mutableAggBufferOffset",
    "inputAggBufferOffset", "func", "ansiEnabled", "timeZoneId", "outputAttributeNames",
}
SIGNS = {
    "Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "Remainder": "%", "And": "and", "Or": "or", "EqualTo": "=",
    "EqualNullSafe": "<=>", "GreaterThan": ">", "GreaterThanOrEqual": ">=", "LessThan": "<", "LessThanOrEqual": "<=",
}
TRANSPARENT = {"Alias", "KnownNullable", "KnownNotNull", "KnownFloatingPointNormalized", "AggregateExpression"}


class ExpressionTree:
    """A node with its children, as read from the list."""

    def __init__(self, nodes: Iterator[Mapping[str, Json]]):
        self.fields = next(nodes)
        self.name = str(self.fields["class"]).rpartition(".")[2]
        self.children = [ExpressionTree(nodes) for _ in range(int(self.fields["num-children"]))]

    def down(self) -> Iterator[ExpressionTree]:
        yield self
        for child in self.children:
            yield from child.down()

    @property
    def id(self) -> int | None:
        """The id of the column that it is, or that it makes."""
        return id_of(self.fields.get("exprId"))


def id_of(value: Json) -> int | None:
    return int(value["id"]) if isinstance(value, dict) and "id" in value else None


def trees(value: Json) -> list[ExpressionTree]:
    """The expressions in a field of a plan node: one, several, or none."""
    if not isinstance(value, list):
        return []
    if value and isinstance(value[0], dict) and "class" in value[0]:
        return [ExpressionTree(iter(value))]
    return [tree for part in value for tree in trees(part)]


class Words:
    """The texts of expressions. `columns`: what the columns of the plan below stand for, by id."""

    def __init__(self, columns: Mapping[int, str], functions: Mapping[int, str]):
        self.columns, self.functions = columns, functions

    def of(self, tree: ExpressionTree) -> str:
        name, children = tree.name, [self.of(child) for child in tree.children]
        if name == "AttributeReference":
            return self.columns.get(tree.id or -1, str(tree.fields.get("name")))
        if name == "Literal":
            value, of_type = tree.fields.get("value"), tree.fields.get("dataType")
            return repr(value) if of_type == "string" else str(value)
        if name == "AggregateExpression" and (tree.fields.get("isDistinct") or len(children) > 1):
            distinct = "distinct " if tree.fields.get("isDistinct") else ""
            return f"{distinct}{children[0]}" + (f" filter {children[1]}" if len(children) > 1 else "")
        if name in TRANSPARENT and children:
            return children[0]
        if name in SIGNS and len(children) == 2:
            return f"({children[0]} {SIGNS[name]} {children[1]})"
        if name == "Cast":
            return f"cast({children[0]} as {_plain(tree.fields.get('dataType'))})"
        return f"{_call(tree)}({', '.join([*children, *self._others(tree)])})"

    def _others(self, tree: ExpressionTree) -> list[str]:
        """The fields beside the children that belong to what it computes."""
        found = []
        code = self.functions.get(id_of(tree.fields.get("resultId")) or -1)
        for name, value in tree.fields.items():
            if name in LEFT_OUT or name == "name" and code or value is None or _is_place(value, len(tree.children)):
                continue
            inner = trees(value)
            found.append(f"{name} {', '.join(map(self.of, inner)) if inner else _plain(value)}")
        if code is not None:
            found.append(f"code {code}")
        return found


def _call(tree: ExpressionTree) -> str:
    """The name of a call as people write it."""
    return tree.name[:1].lower() + tree.name[1:]


def _is_place(value: Json, children: int) -> bool:
    """Whether a field says where in the list of children one of them is."""
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return 0 <= value < children
    return isinstance(value, list) and bool(value) and all(isinstance(v, int) and 0 <= v < children for v in value)


def _plain(value: Json) -> str:
    if isinstance(value, dict):
        if "object" in value:
            return str(value["object"]).rpartition(".")[2].rstrip("$")
        return "{" + ", ".join(f"{k} {_plain(v)}" for k, v in value.items() if k not in (*LEFT_OUT, "product-class")) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_plain, value)) + "]"
    return str(value)


def conjuncts(tree: ExpressionTree) -> list[ExpressionTree]:
    """The conditions that a condition connects with `and`."""
    return [c for child in tree.children for c in conjuncts(child)] if tree.name == "And" else [tree]
