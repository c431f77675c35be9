"""Whether a value has a shape: that of a type such as `Sequence[int] | None`, or of a TypedDict.

    misfit({"batchId": "7"}, Report, "progress")     "progress.batchId must be a whole number"
    misfit({"batchId": 7, "other": []}, Report)      None: an entry may be missing, and there may be others
    fitting({"batchId": "7", "name": "a"}, Report)   {"name": "a"}

A whole number has at most 64 bits, as all of Spark's have; a number is finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

PLAIN = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "null"}


def misfit(value: Any, shape: Any, where: str) -> str | None:
    """What does not fit, in words; None if everything does."""
    kind, of = get_origin(shape), get_args(shape)
    if shape is Any:
        return None
    if shape in PLAIN:
        return None if _is(value, shape) else f"{where} must be {PLAIN[shape]}"
    if kind is Literal:
        return None if value in of else f"{where} must be {' or '.join(map(str, of))}"
    if kind in (Union, UnionType):
        found = [misfit(value, one, where) for one in of]
        return None if None in found else found[0]
    if kind in (Sequence, tuple):
        if not isinstance(value, (list, tuple)) or kind is tuple and len(value) != len(of):
            return f"{where} must be a list" + (f" of {len(of)}" if kind is tuple else "")
        shapes = of if kind is tuple else repeat(of[0])
        return _first(misfit(one, shape, f"{where}[{n}]") for n, (one, shape) in enumerate(zip(value, shapes)))
    if not isinstance(value, Mapping):
        return f"{where} must be an object"
    if is_typeddict(shape):
        return _first(misfit(value[name], one, f"{where}.{name}") for name, one in _entries(shape).items() if name in value)
    return _first(misfit(one, of[1], f"{where}.{name}") for name, one in value.items())


def fits(value: Any, shape: Any) -> bool:
    """Whether a value has a shape."""
    return misfit(value, shape, "") is None


def fitting(value: Any, shape: Any) -> Any:
    """What of a value has a shape, without the entries and elements that have not; None if it is of another kind."""
    kind, of = get_origin(shape), get_args(shape)
    if isinstance(value, Mapping) and (kind is Mapping or is_typeddict(shape)):
        shapes = dict.fromkeys(value, of[1]) if kind is Mapping else _entries(shape)
        kept = {name: fitting(one, shapes.get(name, Any)) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one is not None or fits(value[name], shapes.get(name, Any))}
    if isinstance(value, (list, tuple)) and kind is Sequence:
        return [one for one in (fitting(one, of[0]) for one in value) if one is not None]
    return value if fits(value, shape) else None


def _is(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int) and abs(value) < 2**63 or isinstance(value, float) and math.isfinite(value)
    return isinstance(value, kind) and (not isinstance(value, int) or -(2**63) <= value < 2**63)


@lru_cache(maxsize=128)
def _entries(shape: Any) -> Mapping[str, Any]:
    return get_type_hints(shape)


def _first(found: Iterable[str | None]) -> str | None:
    return next((words for words in found if words is not None), None)
