"""The code of the Python functions in a plan, as digests: the same for the same code, wherever it was written.

1. Spark has a function as bytes, which were pickled by this process when the query was built.
2. They are loaded again, and what decides about the function's results is put into words: its code with all its constants and
   the functions in it, its defaults, and what it has from outside. File names and line numbers are left out.
3. Of an object of one's own class, the methods are put into words, with the attributes that they name; but not `init`: it
   declares the state, which is compared by itself.
4. Any other object is known by what pickle needs to make it again.

    lambda x: x + 1   in two modules      the same digest
    lambda x: x + 2                       another one

What a function calls in other modules is known by its name alone: that code is the same in both queries, which are built in one
process. The digest of something that cannot be put into words is that of its bytes.

Models: nothing of Spark.
Shown by tests/unit/tools/operations/test_check_plans.py::test_code_is_compared_and_not_where_it_stands.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Iterator
from typing import Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import expressions, scala
from minispark_stream.engine.jvm.scala import JavaObject

_BY_NAME = ("builtins", "pyspark", "pandas", "numpy", "pyarrow", "abc", "typing")
_DESCRIPTORS = (staticmethod, classmethod, property)
_REDUCE: Any = object.__reduce__  # of an object that is made again from its attributes
_NOT_COMPARED = ("init", "__init__", "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__firstlineno__",
                 "__static_attributes__", "__annotations__", "__abstractmethods__", "_abc_impl", "__slotnames__")


def digests(session: SparkSession, plan: JavaObject) -> dict[int, str]:
    """The digest of each Python function in a plan, by the id of its call."""
    if "PythonUDF" not in str(plan.toJSON()):
        return {}
    found: dict[int, str] = {}
    _of_plan(session, plan, found)
    return found


def _of_plan(session: SparkSession, plan: JavaObject, found: dict[int, str]) -> None:
    for expression in scala.items(plan.expressions()):
        _of_expression(session, expression, found)
    for child in scala.items(plan.children()):
        _of_plan(session, child, found)


def _of_expression(session: SparkSession, expression: JavaObject, found: dict[int, str]) -> None:
    if scala.class_name(expression) in ("PythonUDF", "PythonUDAF"):
        found[int(expression.resultId().id())] = digest(expressions.command(session, expression))
    for child in scala.items(expression.children()):
        _of_expression(session, child, found)


def digest(command: bytes) -> str:
    """The digest of a function that PySpark has pickled."""
    try:
        text = words(CloudPickleSerializer().loads(command), set()).encode("utf-8", "replace")  # (1)
    except Exception:
        text = command
    return hashlib.sha256(text).hexdigest()[:12]


def words(value: Any, seen: set[int]) -> str:  # (2)
    """What decides about the results of a value: code, constants, and what it refers to."""
    if id(value) in seen:
        return "..."
    if isinstance(value, types.CodeType):
        inner = [words(one, seen) for one in value.co_consts if not _is_doc(one, value)]
        return f"code {value.co_code.hex()} {value.co_names} {inner}"
    if isinstance(value, types.FunctionType):
        if _is_by_name(value) and not value.__closure__:
            return f"function {value.__module__}.{value.__qualname__}"
        seen = {*seen, id(value)}
        outside = [words(cell.cell_contents, seen) for cell in value.__closure__ or ()]
        own = {n: words(value.__globals__[n], seen) for n in sorted(_names(value.__code__)) if n in value.__globals__}
        return f"function {words(value.__code__, seen)} {words(value.__defaults__, seen)} {outside} {own}"
    if isinstance(value, types.MethodType):
        return f"method {words(value.__func__, seen)} {words(value.__self__, seen)}"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, _DESCRIPTORS):
        return f"{type(value).__name__} {words(_function_of(value), seen)}"
    if isinstance(value, type):
        return _of_class(value, {*seen, id(value)})
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} {[words(one, seen) for one in value]}"
    if isinstance(value, dict):
        return f"dict {sorted((repr(k), words(v, seen)) for k, v in value.items())}"
    if value is None or isinstance(value, (bool, int, float, str, bytes, complex)):
        return repr(value)
    if isinstance(value, (set, frozenset)):
        return f"set {sorted(words(one, seen) for one in value)}"
    seen = {*seen, id(value)}
    if type(value).__reduce__ is not _REDUCE or not hasattr(value, "__dict__"):  # (4)
        parts = value.__reduce_ex__(4)
        made = parts if isinstance(parts, str) else [list(one) if isinstance(one, Iterator) else one for one in parts]
        return f"object {words(made, seen)}"
    used = vars(value) if _is_by_name(type(value)) else _used(type(value))
    return f"object {words(type(value), seen)} {words({n: v for n, v in vars(value).items() if n in used}, seen)}"


def _is_by_name(value: Any) -> bool:
    """Whether it belongs to a library, and so is the same in both queries."""
    return str(value.__module__).split(".")[0] in _BY_NAME


def _of_class(value: type, seen: set[int]) -> str:  # (3)
    """Its methods and those that it inherits, and the attributes that they name."""
    if _is_by_name(value):
        return f"class {value.__module__}.{value.__qualname__}"
    used = _used(value)
    own = {n: v for n, v in _own(value).items() if _is_code(v) or n in used}
    return f"class {[(n, words(v, seen)) for n, v in sorted(own.items())]}"


def _own(of: type) -> dict[str, Any]:
    """What the class and those that it inherits from define, but for what is known by name, and what declares the state."""
    classes = [one for one in reversed(of.__mro__) if not _is_by_name(one)]
    return {name: v for one in classes for name, v in vars(one).items() if name not in _NOT_COMPARED}


def _is_code(value: object) -> bool:
    return isinstance(value, (types.FunctionType, type, *_DESCRIPTORS))


def _function_of(value: Any) -> Any:
    """The function in a static method, a class method or a property; anything else as it is."""
    return getattr(value, "__func__", None) or getattr(value, "fget", None) or value


def _used(of: type) -> set[str]:
    """The names in the code of a class."""
    functions = map(_function_of, _own(of).values())
    return {name for one in functions if isinstance(one, types.FunctionType) for name in _names(one.__code__)}


def _names(code: types.CodeType) -> set[str]:
    """The names in it and in the functions in it, and the texts, as one of them may be the name of an attribute."""
    texts = {one for one in code.co_consts if isinstance(one, str)}
    return {*code.co_names, *texts, *(n for c in code.co_consts if isinstance(c, types.CodeType) for n in _names(c))}


def _is_doc(constant: object, code: types.CodeType) -> bool:
    return isinstance(constant, str) and bool(code.co_consts) and constant is code.co_consts[0] and "__doc__" in code.co_names
