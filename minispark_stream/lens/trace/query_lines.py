"""Which line of a query belongs to which step: `withWatermark` to updateWatermark, `groupBy` to stateOperator, and so on.

The text of a query (lens/trace/written.py) is parsed, never run: it may come from a file.

1. A call of a method of the streaming API is on the line on which its name stands. Options belong to what they set: those of a
   reader to its source, `checkpointLocation` to the two logs.
2. A stateful operator belongs to the calls that make it, with those of its aggregates. If a query has several operators of a
   kind, one upon the other in one chain, the lower one belongs to the earlier call; otherwise it is not known which is whose,
   and all of them are named.
3. A name may stand for a reader or a writer: `writer = counts.writeStream`, and later `writer.start()`.

    rows = session.readStream.json(folder)                      latestOffset, getBatch, commitSource
    rows.withWatermark("time", "10 minutes")                    queryPlanning, updateWatermark
        .groupBy(F.window("time", "5 minutes"))                 queryPlanning, stateOperator (stateStoreSave)
        .count()                                                the same

A step without a line is one that the engine does for every query.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

BUILT: Mapping[str, tuple[str, ...]] = {  # what readers and writers are still readers and writers after
    "readStream": ("readStream", "schema", "format", "option", "options", "name"),
    "writeStream": (
        "writeStream", "format", "option", "options", "outputMode", "queryName", "trigger", "partitionBy", "clusterBy",
        "foreach", "foreachBatch",
    ),
}
READ = ("latestOffset", "getBatch", "commitSource")
LIMITED = ("latestOffset", "constructNextBatch")
LOGS = ("populateStartOffsets", "walCommit", "commitOffsets", "purge", "getStartOffset", "addOffset", "commitEpoch")
STATE = ("queryPlanning", "stateOperator")
WRITE: Mapping[str, tuple[str, ...]] = {
    "writeStream": ("addBatch", "commitEpoch"), "format": ("addBatch",), "foreach": ("addBatch",),
    "foreachBatch": ("addBatch",), "partitionBy": ("addBatch",), "outputMode": ("stateOperator",),
    "trigger": ("trigger", "runContinuous"),
    "queryName": ("startQuery",), "start": ("startQuery",), "toTable": ("startQuery", "addBatch"),
}
ROWS = (
    "select", "selectExpr", "where", "filter", "withColumn", "withColumns", "withColumnRenamed", "withColumnsRenamed", "drop",
    "dropna", "fillna", "union", "unionByName", "unionAll", "mapInPandas", "mapInArrow", "toDF", "repartition", "coalesce",
)
AGGREGATES = ("stateStoreSave", "sessionWindowStateStoreSaveExec")
OPERATORS: Mapping[str, tuple[str, ...]] = {  # method -> the operators that it makes, as progress reports name them
    "groupBy": AGGREGATES, "groupby": AGGREGATES, "rollup": AGGREGATES, "cube": AGGREGATES,
    "dropDuplicates": ("dedupe",), "drop_duplicates": ("dedupe",), "distinct": ("dedupe", "stateStoreSave"),
    "dropDuplicatesWithinWatermark": ("dedupeWithinWatermark",), "join": ("symmetricHashJoin",), "limit": ("globalLimit",),
    "applyInPandasWithState": ("applyInPandasWithState",),
    "transformWithState": ("transformWithState",), "transformWithStateInPandas": ("transformWithState",),
}
GROUPED = ("agg", "count", "sum", "avg", "mean", "min", "max", "pivot", "apply", "applyInPandas")  # of what groupBy returned
GROUPS = ("groupBy", "groupby", "rollup", "cube")


PIECES = "\n\n\n"  # between the functions and statements of a query
LinePlace = tuple[int, int]  # line and column, from 0


@dataclass(frozen=True)
class Call:
    """A call that belongs to steps. If it makes a stateful operator, or is an aggregate of one, it has the names that this may
    have, the place of the call that makes it, and the places of those that make the operators below it in the same chain."""

    line: int
    steps: tuple[str, ...]
    makes: tuple[str, ...] = ()
    made_at: LinePlace = (-1, -1)
    below: tuple[LinePlace, ...] = ()

    def is_of(self, step: str, operator: str | None) -> bool:
        """Whether it belongs to a step, which for stateOperator is that of an operator."""
        if step not in self.steps:
            return False
        return step != "stateOperator" or not self.makes or any(str(operator).startswith(one) for one in self.makes)


@lru_cache(maxsize=32)
def calls_of_a_query(code: str) -> tuple[Call, ...]:
    """The calls of the streaming API in the text of a query, from the innermost of a chain to the outermost."""
    found: list[Call] = []
    line, names = 0, _Names()
    for piece in code.split(PIECES):
        tree = _parsed(piece)
        with suppress(RecursionError):  # no query is written so deep
            found += [] if tree is None else list(_calls(names.visit(tree), line))
        line += (piece + PIECES).count("\n")
    return tuple(found)


def lines_of(code: str, step: str, operator: str | None = None, place: tuple[int, int] = (0, 1)) -> list[int]:
    """The lines (from 0) that a step belongs to.

    Args:
        code: the text of the query.
        step: the name of the step.
        operator: for stateOperator, the name of the operator.
        place: which of how many operators of this name it is, counted from the lowest.
    """
    fitting = [call for call in calls_of_a_query(code) if call.is_of(step, operator)]
    number, count = place
    if step == "stateOperator" and count > 1:
        made = _one_upon_the_other([call for call in fitting if call.makes])  # (2)
        fitting = [call for call in fitting if len(made) != count or not call.makes or call.made_at == made[number]]
    return sorted({call.line for call in fitting})


def _one_upon_the_other(calls: Sequence[Call]) -> list[LinePlace]:
    """Where the operators are made, the lowest first, if all of them are in one chain."""
    below = {call.made_at: call.below for call in calls}
    ordered = sorted(below, key=lambda place: len(below[place]))
    return ordered if all(lower in below[upper] for lower, upper in pairwise(ordered)) else []


def _parsed(piece: str) -> ast.AST | None:
    for text in (piece, f"({piece}\n)"):  # a lambda over several lines is an expression only in brackets
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


class _Names(ast.NodeTransformer):
    """(3) Reads a name to which a reader or a writer was given as that reader or writer."""

    def __init__(self) -> None:
        self._means: dict[str, str] = {}

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        node.value = self.visit(node.value)
        upon = [one.attr for one in _upon(ast.Attribute(node.value, "", ast.Load()))]
        begins = next((one for one in upon if one in BUILT), "")
        for name in (one.id for one in node.targets if isinstance(one, ast.Name)):
            self._means.pop(name, None)
            if begins and upon[0] in BUILT[begins]:
                self._means[name] = begins
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        means = self._means.get(node.id) if isinstance(node.ctx, ast.Load) else None
        return node if means is None else ast.copy_location(ast.Attribute(node, means, ast.Load()), node)


def _calls(tree: ast.AST, first: int) -> Iterator[Call]:
    """(1) In the order in which Python calls them: what a method is called upon comes before it."""
    for node in ast.iter_child_nodes(tree):
        yield from _calls(node, first)
    if isinstance(tree, ast.Attribute) and tree.attr in BUILT:
        yield Call(first + (tree.end_lineno or 1) - 1, READ if tree.attr == "readStream" else WRITE["writeStream"])
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute):
        yield from _call(tree, tree.func, first + (tree.func.end_lineno or 1) - 1)


def _call(call: ast.Call, method: ast.Attribute, line: int) -> Iterator[Call]:
    upon = _upon(method)
    names = [one.attr for one in upon]
    name = method.attr
    option = str(call.args[0].value) if call.args and isinstance(call.args[0], ast.Constant) else ""
    if "writeStream" in names:
        if name in ("option", "options"):
            named = {option, *(one.arg or "" for one in call.keywords)}
            yield Call(line, LOGS if "checkpointLocation" in named else ("addBatch",))
        elif name in WRITE:
            yield Call(line, WRITE[name])
    elif "readStream" in names and not {name, *names[: names.index("readStream")]} & {*OPERATORS, *ROWS, "withWatermark"}:
        yield Call(line, LIMITED if name == "option" and option.startswith("max") else READ)
    else:
        yield from _of_rows(method, upon, line, option)


def _of_rows(method: ast.Attribute, upon: Sequence[ast.Attribute], line: int, option: str) -> Iterator[Call]:
    name, first = method.attr, line - (method.end_lineno or 1) + 1
    makers = [_place(one, first) for one in upon if one.attr in OPERATORS]
    if name == "withWatermark":
        yield Call(line, ("queryPlanning", "updateWatermark"))
    elif name in OPERATORS and not _is_of_text(method):
        yield Call(line, STATE, OPERATORS[name], _place(method, first), tuple(makers))
    elif name in GROUPED and any(one.attr in GROUPS for one in upon):
        yield Call(line, STATE, AGGREGATES, makers[0], tuple(makers[1:]))
    elif name == "operator" and option and any(one.attr in GROUPS for one in upon):  # one of the user's own
        yield Call(line, STATE, (option,), makers[0], tuple(makers[1:]))
    elif name in ROWS:
        yield Call(line, ("addBatch",))


def _is_of_text(method: ast.Attribute) -> bool:
    """", ".join(..), os.path.join(..)"""
    upon = method.value
    return isinstance(upon, (ast.Constant, ast.JoinedStr)) or (isinstance(upon, ast.Attribute) and upon.attr == "path")


def _place(method: ast.Attribute, first: int) -> LinePlace:
    return (first + (method.end_lineno or 1) - 1, method.end_col_offset or 0)


def _upon(method: ast.Attribute) -> list[ast.Attribute]:
    """The attributes that a method is called upon, the nearest first."""
    found: list[ast.Attribute] = []
    node: ast.AST = method.value
    while True:
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Attribute):
            found.append(node)
            node = node.value
        else:
            return found
