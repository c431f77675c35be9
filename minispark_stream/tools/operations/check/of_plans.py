"""The differences between the old query and the new one, operator by operator. Each is looked up in the table of rules.

1. The operators are compared in pairs: keys, functions, conditions, columns, code. Spark has already refused other kinds of
   operators, and state of other types, so what is left here is what it lets pass.
2. Watermarks are compared by their places.
3. What is below or above the operators only affects new rows.
4. The result: other names, or other values under them.

    groupBy("k") -> groupBy("u")       operator 0 (stateStoreSave), keys    0.k -> 0.u    wrong [key.changed]

Models: nothing of Spark.
Shown by tests/unit/tools/operations/test_check_plans.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from minispark_stream.tools.operations.check.answer import CheckDifference
from minispark_stream.tools.operations.check.plan import ABOVE, Description, PlannedOperator
from minispark_stream.tools.operations.check.rules import difference

# Functions whose values are of one kind, so that the old value is a possible value of the new function.
LIKE = ({"first", "last"}, {"collectList", "collectSet"})
SAME_STATE = {"stddevPop", "stddevSamp", "variancePop", "varianceSamp"}
OUTER = {"Inner", "LeftOuter", "RightOuter", "FullOuter"}
WINDOW = "preciseTimestampConversion("


def of_plans(before: Description, after: Description, complete: bool) -> Iterator[CheckDifference]:
    """All differences between two queries. `complete`: whether the new one writes its whole result in each batch."""
    if [one.kind for one in before.operators] != [one.kind for one in after.operators]:
        kinds = (", ".join(one.kind for one in side.operators) or "none" for side in (before, after))
        yield difference("operator.changed", "operators", *kinds)
        return
    for old, new in zip(before.operators, after.operators):  # (1)
        yield from _of_operator(old, new)
    if after.operators:
        yield from _of_watermarks(before, after)  # (2)
    yield from _of_places(before, after, complete)  # (3)
    yield from _of_output(before, after, complete)  # (4)


def _of_operator(old: PlannedOperator, new: PlannedOperator) -> Iterator[CheckDifference]:
    where = f"operator {new.operator_id} ({new.kind})"
    changed = {n for n in (*old.facts, *new.facts) if old.facts.get(n, ()) != new.facts.get(n, ())}
    for name in sorted(changed):
        was, now = old.facts.get(name, ()), new.facts.get(name, ())
        match name:
            case "keys":
                yield from of_keys(f"{where}, keys", was, now, new.kind.startswith("session"))
            case "functions":
                yield from of_functions(f"{where}, functions", was, now)
            case "type":
                yield difference(_of_join(*was, *now), where, *was, *now)
            case "equal":
                yield difference("key.changed", f"{where}, keys", _list(was), _list(now))
            case "other conditions":
                yield difference("join.condition", where, _list(was), _list(now))
            case "left columns" | "right columns":
                rule = "join.columns" if sorted(was) == sorted(now) else "join.columns-computed"
                yield difference(rule, f"{where}, {name}", _list(was), _list(now))
            case "limit":
                yield difference("limit.more" if int(now[0]) > int(was[0]) else "limit.changed", where, *was, *now)
            case "code":
                declared = changed & {"output", "state", "fields"} or old.facts.get("variables") != new.facts.get("variables")
                yield difference("keyed.code-and-declaration" if declared else "keyed.code", f"{where}, code", *was, *now)
            case "output":
                yield difference("keyed.output", f"{where}, output", _list(was), _list(now))
            case "columns":
                yield difference("keyed.columns", f"{where}, input", _list(was), _list(now))
            case "state":
                yield difference("keyed.state-names", f"{where}, state", *was, *now)
            case "timeout" | "time mode":
                yield difference("keyed.timeout", f"{where}, {name}", *was, *now)
            case "function's mode":
                yield difference("keyed.mode", f"{where}, {name}", *was, *now)
            case "variables":
                yield from of_variables(f"{where}, variables", was, now)
            case "fields":
                yield from _of_fields(f"{where}, fields", was, now, "avro" in (*was, *now))
            case "time to live":
                yield difference("variable.time-to-live", f"{where}, variables", _list(was), _list(now))
            case _:
                yield difference("not-decided", f"{where}, {name}", _list(was), _list(now))


def _of_join(was: str, now: str) -> str:
    if {was, now} <= OUTER:
        return "join.type"
    return "join.semi" if was in OUTER and now == "LeftSemi" else "join.from-semi" if was == "LeftSemi" else "not-decided"


def of_keys(where: str, was: Sequence[str], now: Sequence[str], is_session: bool = False) -> Iterator[CheckDifference]:
    if sorted(was) == sorted(now):
        yield difference("key.reordered", where, _list(was), _list(now))
        return
    for old, new in zip_longest(was, now, fillvalue="nothing"):
        if old != new:
            both = all(WINDOW in one for one in (old, new)) and _columns(old) == _columns(new)
            rule = "key.changed" if not both else "session.gap" if is_session else "window.changed"
            yield difference(rule, where, old, new)


def _columns(text: str) -> set[str]:
    """The columns of sources in an expression."""
    return set(re.findall(r"\b\w+\.[A-Za-z_]\w*", text))


def of_functions(where: str, was: Sequence[str], now: Sequence[str]) -> Iterator[CheckDifference]:
    """The functions of an aggregation: the state holds their values in this order."""
    if sorted(was) == sorted(now):
        yield difference("function.reordered", where, _list(was), _list(now))
        return
    for old, new in zip_longest(was, now, fillvalue=""):
        if old != new:
            yield difference(_of_function(_name(old), _name(new)), where, old or "nothing", new or "nothing")


def _of_function(old: str, new: str) -> str:
    if old == new:
        return "function.argument"
    if {old, new} <= SAME_STATE:
        return "function.same-state"
    return "function.like" if any({old, new} <= like for like in LIKE) else "function.other"


def _name(call: str) -> str:
    return call.removeprefix("distinct ").partition("(")[0]


def of_variables(where: str, was: Sequence[str], now: Sequence[str]) -> Iterator[CheckDifference]:
    """The state variables of a processor, each as its name and its kind."""
    gone, new = [v for v in was if v not in now], [v for v in now if v not in was]
    for old in gone:
        like = next((one for one in new if one.partition(" ")[2] == old.partition(" ")[2]), None)
        if like is not None:
            new.remove(like)
        yield difference("variable.removed" if like is None else "variable.renamed", where, old, like)
    for one in new:
        yield difference("variable.added", where, None, one)


def _of_fields(where: str, was: Sequence[str], now: Sequence[str], is_avro: bool) -> Iterator[CheckDifference]:
    """The fields of the variables that both processors have, each as `variable.field type`."""
    names = [{one.partition(" ")[0] for one in side if "." in one} for side in (was, now)]
    variables = [{name.partition(".")[0] for name in side} for side in names]
    gone, new = ({n for n in some - others if n.partition(".")[0] in variables[0] & variables[1]}
                 for some, others in (names, names[::-1]))
    if gone or new or variables[0] == variables[1]:
        by_name = "variable.field-renamed" if gone and new else "variable.fields-by-name"
        yield difference(by_name if is_avro and gone | new else "variable.fields", where, _list(was), _list(now))


def _of_watermarks(before: Description, after: Description) -> Iterator[CheckDifference]:
    for old, new in zip_longest(before.watermarks, after.watermarks):
        if old is None or new is None:
            forgets = old is not None and any(op.kind == "dedupe" and old[0] in op.facts["keys"] for op in before.operators)
            rule = "watermark.added" if old is None else "watermark.removed-keys" if forgets else "watermark.removed"
            yield difference(rule, "watermark", *(side and " ".join(side) for side in (old, new)))
        elif old[0] != new[0]:
            yield difference("watermark.column", "watermark", old[0], new[0])
        elif old[1] != new[1]:
            keeps = any(op.kind == "dedupeWithinWatermark" for op in after.operators)
            yield difference("watermark.delay-kept" if keeps else "watermark.delay", "watermark", old[1], new[1])


def _of_places(before: Description, after: Description, complete: bool) -> Iterator[CheckDifference]:
    for place in sorted({*before.conditions, *after.conditions}):
        was, now = (sorted(side.conditions.get(place, ())) for side in (before, after))
        if was != now:
            rule = "output.complete" if complete and place == ABOVE and after.operators else "condition.changed"
            yield difference(rule, f"conditions {place}", _list(was), _list(now))
    for place in sorted({*before.nodes, *after.nodes}):
        was, now = (side.nodes.get(place, []) for side in (before, after))
        if was != now:
            tables = all(one.startswith("table(") for one in {*was} ^ {*now})
            anew = complete and place == ABOVE and after.operators
            rule = "output.complete" if anew else "table.changed" if tables else "rows.changed"
            yield difference(rule, f"rows {place}", _list(was), _list(now))


def _of_output(before: Description, after: Description, complete: bool) -> Iterator[CheckDifference]:
    was, now = ([text for _, text in side.output] for side in (before, after))
    names = [tuple(name for name, _ in side.output) for side in (before, after)]
    if was == now and names[0] != names[1]:
        yield difference("output.renamed", "result", _list(names[0]), _list(names[1]))
    elif was != now:
        rule = "output.complete" if complete and after.operators else "output.changed"
        yield difference(rule, "result", _list(was), _list(now))


def _list(texts: Sequence[str]) -> str:
    return ", ".join(texts) or "nothing"
