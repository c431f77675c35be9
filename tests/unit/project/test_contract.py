"""The lists of what is used of Spark's internals are complete, and the Spark that is installed has all of it. No JVM is started."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from minispark_stream.engine.jvm.contract import ENGINE
from minispark_stream.extras.jvm.contract import EXTRAS
from minispark_stream.tools.contract import check
from tests.import_graph import file_of, modules

ENTRIES = check.entries()
CLASSES = {entry.name for entry in ENTRIES if entry.kind in ("class", "object")}
MEMBERS = {re.split(r"[( ]", m.removeprefix("static ").removeprefix("field "))[0] for entry in ENTRIES for m in entry.members}
PYTHON = {entry.name: entry.members for entry in ENTRIES if entry.kind == "python"}
THE_CHECK = "tools.contract"
OF_PYTHON = {"_replace", "_asdict", "_fields", "_getframe", "_ScandirIterator", "_target_id"}

FULL_NAMES = {  # texts with the full name of a class that is not called
    "engine.state.state_store": "the providers, as a conf and a checkpoint name them",
    "engine.spark_versions": "the package of a class in a conf, which is another one in other versions",
    "engine.runtime.real_time_mode": "a class of Delta in the text of an error",
    "extras.delta.sink": "a class of Delta in the text of an error",
}
PUBLIC = {  # PySpark's documented modules
    "pyspark", "pyspark.accumulators", "pyspark.broadcast", "pyspark.errors", "pyspark.sql", "pyspark.sql.datasource",
    "pyspark.sql.functions", "pyspark.sql.streaming", "pyspark.sql.streaming.datasource", "pyspark.sql.streaming.listener",
    "pyspark.sql.streaming.state", "pyspark.sql.streaming.stateful_processor", "pyspark.sql.types",
}
OF_JAVA_AND_SCALA = set("""
    ArrayList Byte Inf Random WeakHashMap appendedAll asInterfaceInstance asJava asScala asType bindTo collectArguments forName fromFunction
    getClass getDeclaredField getMethod getName getProperty getRawPath getSimpleName getTime guardWithTest hasNext identityHashCode isDefined keySet
    methodType mkString newInstance nonEmpty ofMillis parseLong productArity productElement productElementName publicLookup
    setAccessible setValue singletonList takeRight toArray toList toSeq toVector unsafeArray unsafeWrapArray writeValueAsString
    isEmpty toString isInstance
""".split())


def _place(module: str, node: ast.AST) -> str:
    return f"{file_of(module)}:{getattr(node, 'lineno', 0)}"


def report(problems: list[str]) -> None:
    if problems:
        pytest.fail(f"{len(problems)}:\n" + "\n".join(problems), pytrace=False)


def test_the_installed_spark_has_all_of_it():
    spark = check.installed()
    assert spark is not None
    report(list(map(str, check.differences(spark, ENTRIES))))


@pytest.mark.parametrize("contract", [ENGINE, EXTRAS], ids=["engine", "extras"])
def test_a_simple_name_means_one_class(contract):
    names = {entry.name for entry in contract.entries if entry.kind in ("class", "object")}
    assert [name for name, n in Counter(one.rpartition(".")[2] for one in names).items() if n > 1] == []
    assert [name for name, n in Counter((entry.kind, entry.name) for entry in contract.entries).items() if n > 1] == []
    assert [entry.name for entry in contract.entries if not entry.use] == []


def test_no_class_of_spark_has_its_full_name_elsewhere():
    """A module gives the simple name; a docstring may have the full one."""
    problems = []
    for name, tree in modules().items():
        if name in FULL_NAMES or name.startswith(THE_CHECK):
            continue
        for node in _without_docstrings(tree):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if "org.apache." in text or (isinstance(node, ast.Attribute) and node.attr == "apache"):
                problems.append(f"{_place(name, node)}: declare the class in contract.txt, and give its simple name")
    report(problems)


def test_every_class_that_is_asked_for_is_declared():
    problems = []
    for name, tree in modules().items():
        for node in ast.walk(tree):
            asked = _asked(node)
            if asked and asked[:1].isupper():
                try:
                    (EXTRAS if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "EXTRAS" else ENGINE)[asked]
                except KeyError:
                    problems.append(f"{_place(name, node)}: {asked} is not in the list")
    report(problems)


def _asked(node: ast.AST) -> str | None:
    """The class that a call or a subscript asks for by a text."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("ENGINE", "EXTRAS"):
        given: ast.AST | None = node.slice
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = node.args[1] if called in ("java_class", "companion", "constant", "method_handle") else None
    else:
        given = None
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else None


def test_every_java_method_is_declared():
    """Of the methods that modules with Java objects call, those whose names have capitals, as those of Java and Scala do."""
    known = MEMBERS | OF_JAVA_AND_SCALA | _names_of_python()
    problems = []
    for name, tree in modules().items():
        if not {"JavaObject", "java_class", "scala"} & {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called = node.func.attr
                if re.search(r"[a-z][A-Z]", called) and called not in known:
                    problems.append(f"{file_of(name)}:{node.lineno}: .{called}() of what class? Declare it in contract.txt")
    report(problems)


def _names_of_python() -> set[str]:
    """What this package and PySpark's public modules define: functions, methods, classes."""
    folder = Path(pyspark.__file__).parent
    files = [folder.joinpath(*module.split(".")[1:]) for module in PUBLIC]
    sources = [path for file in files for path in (file.with_suffix(".py"), *file.glob("*.py")) if path.is_file()]
    trees = [*modules().values(), *(ast.parse(path.read_bytes()) for path in sources)]
    found = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return found | {"getLogger", "setLocalProperty", "applyInPandas"}


def test_what_is_declared_is_used():
    words = {word for name, tree in modules().items() if not name.startswith(THE_CHECK) for word in _words(tree)}
    problems = []
    for entry in ENTRIES:
        own = entry.name.rpartition(".")[2]
        named = {re.split(r"[( ]", m.removeprefix("static ").removeprefix("field "))[0].rpartition(".")[2] for m in entry.members}
        if entry.kind in ("class", "object") and not {own, own.rpartition("$")[2], *named} & words:
            problems.append(f"{entry.name} is in the list, and nothing names it")
        problems += [f"{entry.name}.{m} is in the list, and nothing calls it" for m in sorted(named - words - {"new"})
                     if not m.startswith("$lessinit") and "$default$" not in m]
    report(problems)


def _words(tree: ast.Module) -> Iterator[str]:
    for node in _without_docstrings(tree):
        match node:
            case ast.Attribute():
                yield node.attr
            case ast.Name():
                yield node.id
            case ast.FunctionDef():
                yield node.name  # a method that Java calls
            case ast.alias():
                yield node.name.rpartition(".")[2]
            case ast.Constant(value=str(text)):
                yield from re.findall(r"\w+", text)


def test_private_names_of_pyspark_are_declared():
    problems = []
    for name, tree in modules().items():
        for node in ast.walk(tree):
            for module, names in _internal_imports(node):
                if module not in PYTHON:
                    problems.append(f"{_place(name, node)}: {module} is no public module: declare it in contract.txt")
                for one in names - {member.partition("(")[0].partition(".")[0] for member in PYTHON.get(module, ())}:
                    problems.append(f"{_place(name, node)}: declare {one} of {module} in contract.txt")
    report(problems)


def _internal_imports(node: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """The modules that an import takes private names from, or that are private as a whole, with these names."""
    if isinstance(node, ast.Import):
        yield from ((one.name, set[str]()) for one in node.names if one.name.startswith("pyspark.") and one.name not in PUBLIC)
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("pyspark"):
        return
    module = str(node.module)
    for one in (alias.name for alias in node.names):
        if _is_module(f"{module}.{one}"):
            if f"{module}.{one}" not in PUBLIC:
                yield f"{module}.{one}", set()
        elif module not in PUBLIC or one.startswith("_"):
            yield module, {one}


def test_private_attributes_of_pyspark_are_declared():
    own = {name for tree in modules().values() for node in ast.walk(tree) for name in _defined(node)}
    declared = {member.partition("(")[0].rpartition(".")[2] for members in PYTHON.values() for member in members}
    problems = [
        f"{file_of(name)}:{node.lineno}: whose is {node.attr}? If it is PySpark's, declare it in contract.txt"
        for name, tree in modules().items() for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and re.fullmatch(r"_[a-zA-Z]\w*", node.attr) and node.attr not in own | declared | OF_PYTHON
    ]
    report(problems)


def _defined(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Attribute(ctx=ast.Store()):
            yield node.attr
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _is_module(name: str) -> bool:
    path = Path(pyspark.__file__).parent.joinpath(*name.split(".")[1:])
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def test_confs_and_conditions_are_declared():
    """Of the engine, the extras and the API. What the tools read of a checkpoint may be of another Spark."""
    spark = check.installed()
    assert spark is not None
    declared = {(entry.kind, entry.name) for entry in ENTRIES}
    problems = []
    for name, tree in modules().items():
        if name.startswith(("tools", "lens")) or name == "one_page":
            continue
        for node in _without_docstrings(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                is_conf = re.fullmatch(r"spark\.[\w.]+\w", node.value) and node.value in spark.confs
                is_condition = re.fullmatch(r"[A-Z_0-9.]*_[A-Z_0-9.]*", node.value) and node.value in spark.conditions
                kind = "conf" if is_conf else "condition" if is_condition else None
                if kind and (kind, node.value) not in declared:
                    problems.append(f"{file_of(name)}:{node.lineno}: declare the {kind} {node.value} in contract.txt")
    report(problems)


def _without_docstrings(tree: ast.Module) -> Iterator[ast.AST]:
    docs = {
        id(node.body[0].value) for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body and isinstance(node.body[0], ast.Expr)
    }
    yield from (node for node in ast.walk(tree) if id(node) not in docs)
