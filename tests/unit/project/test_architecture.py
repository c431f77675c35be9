"""The house: which folder may look at which, how large a module may be, where state and the JVM are allowed.

The tables below are the rules, and they are all there is to know about the arrows of this package. Nothing here starts a JVM:
the modules are only parsed. An import under TYPE_CHECKING or inside of a function is an arrow like any other.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.import_graph import PACKAGE, ROOT, arrows, file_of, imported_by, modules

# What a folder (or a module beside the folders) may import besides its own modules, from the bottom of the house to its top.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "one_page": (),  # the idea, on PySpark alone
    # -- the engine: runs queries; it knows of nothing below this part of the table -----------------------------
    "engine.clock": (),
    "engine.times": (),  # as reports print them, and rows show them
    "engine.gauges": ("engine.times",),  # what Spark's metrics system has of a report
    "engine.observer": (),  # whom the engine tells of its steps
    "engine.spark_versions": (),  # what differs between versions of Spark, and Spark Connect
    "engine.jvm": ("engine.spark_versions",),  # with extras.jvm, the only room with py4j
    "engine.checkpointing": ("engine.spark_versions",),  # needs no JVM
    "engine.state": ("engine.checkpointing", "engine.observer"),  # needs no JVM
    "engine.plan": ("engine.jvm", "engine.clock"),
    "engine.operators": ("engine.plan", "engine.state", "engine.checkpointing", "engine.jvm", "engine.times"),
    "engine.sources": ("engine.plan", "engine.checkpointing", "engine.jvm", "engine.clock"),
    "engine.sinks": ("engine.checkpointing", "engine.jvm"),
    "engine.runtime": (
        "engine.operators", "engine.sources", "engine.sinks", "engine.plan", "engine.state", "engine.checkpointing",
        "engine.jvm", "engine.clock", "engine.gauges", "engine.times", "engine.observer",
    ),
    "engine": (),
    # -- what a first reader may skip: each of them plugs into the engine ----------------------------------------
    "extras.rpc": (),  # messages between the tasks and the driver
    "extras.jvm": ("engine.jvm",),
    "extras.continuous": (
        "engine.runtime", "engine.operators", "engine.sources", "engine.sinks", "engine.plan", "engine.checkpointing",
        "engine.jvm", "engine.clock", "engine.observer", "extras.rpc",
    ),
    "extras.async_progress_tracking": (
        "engine.runtime", "engine.sinks", "engine.checkpointing", "engine.jvm", "engine.clock", "engine.observer",
    ),
    "extras.real_time": (
        "extras.continuous", "extras.async_progress_tracking", "extras.rpc", "extras.jvm", "engine.runtime", "engine.operators",
        "engine.sources", "engine.sinks", "engine.plan", "engine.state", "engine.checkpointing", "engine.jvm", "engine.clock",
        "engine.observer",
    ),
    "extras.rocksdb": ("engine.state", "engine.checkpointing"),  # needs no JVM
    "extras.transform_with_state": (
        "extras.jvm", "extras.rocksdb", "engine.operators", "engine.plan", "engine.state", "engine.checkpointing", "engine.jvm", "engine.times",
    ),
    "extras.join_in_families": (
        "extras.transform_with_state", "extras.rocksdb", "engine.operators", "engine.state", "engine.checkpointing", "engine.jvm",
    ),
    "extras.kafka": (
        "engine.sources", "engine.sinks", "engine.plan", "engine.checkpointing", "engine.jvm", "engine.clock", "extras.jvm",
        "extras.rpc",
    ),
    "extras.socket": ("extras.continuous", "engine.sources", "engine.plan", "engine.jvm", "engine.clock", "extras.rpc"),
    "extras.delta": ("engine.sinks", "engine.checkpointing", "engine.jvm"),
    "extras.python_data_source": ("engine.sources", "engine.sinks", "engine.plan", "engine.checkpointing", "engine.jvm"),
    "extras": (),
    # -- the lens: pictures of what has run ----------------------------------------------------------------------
    "lens.trace": ("engine.times", "engine.observer"),  # a recorded query as data
    "lens.view.words": ("engine.times",),  # the values of a trace in words
    "lens.steps": ("lens.trace", "lens.view.words", "engine.checkpointing"),  # what each step is, has and says; needs no JVM
    "lens.recording": (  # the observer that makes a trace of what the engine tells it
        "lens.trace", "engine.runtime", "engine.operators", "engine.sources", "engine.sinks", "engine.plan", "engine.state",
        "engine.checkpointing", "engine.jvm", "engine.observer",
    ),
    "lens.view": ("lens.steps", "lens.trace", "lens.view.words", "engine.checkpointing", "engine.state", "engine.times"),  # what a restart runs, and which files it reads
    "lens.trace.saved": ("lens.steps", "lens.trace"),  # a trace from a file is checked against its steps
    "lens.trace.trace": ("lens.trace.saved", "lens.trace", "lens.view"),  # the trace as its user holds it, with the way to its pictures
    "lens": (),
    "tools.pasted_text": ("engine.checkpointing",),
    "tools.reports": ("lens.trace", "tools.pasted_text", "engine.checkpointing"),  # progress reports that were saved; needs no JVM
    "tools.inspection": (  # what is in a checkpoint; needs no JVM
        "tools.reports", "tools.pasted_text", "extras.rocksdb", "lens.view", "lens.view.words", "lens.trace", "engine.state", "engine.checkpointing", "engine.times",
    ),
    "tools.what_runs": ("engine.spark_versions",),
    "tools.requirements": (),
    "tools.contract": ("extras.jvm", "engine.jvm"),  # reads the two lists of what is used of Spark; needs no JVM
    "tools.doctor": ("engine.spark_versions", "tools.what_runs", "tools.contract", "tools.requirements"),
    "tools.cause": ("tools.doctor", "engine.spark_versions"),  # of a wrong installation; needs no PySpark
    # -- the API, PySpark's -------------------------------------------------------------------------------------
    "on_request": (  # the extras, which are imported when they are asked for
        "extras.kafka", "extras.delta", "extras.socket", "extras.python_data_source", "extras.continuous",
        "extras.transform_with_state", "extras.join_in_families", "extras.rocksdb", "engine.operators", "engine.sources",
        "engine.sinks", "engine.plan", "engine.state", "engine.jvm",
    ),
    "registry": (
        "on_request", "engine.runtime", "engine.operators", "engine.sources", "engine.sinks", "engine.plan", "engine.state",
        "engine.jvm",
    ),
    "streaming_query": ("engine.runtime", "tools.inspection", "lens.trace.trace", "lens.trace"),
    "streaming_query_listener_bus": (),
    "streaming_query_manager": (
        "streaming_query", "streaming_query_listener_bus", "extras.continuous", "extras.real_time", "extras.async_progress_tracking", "engine.runtime",
        "engine.sinks", "engine.observer", "lens.recording", "lens.trace", "engine.jvm", "engine.clock",
    ),
    "readwriter": (
        "registry", "streaming_query_manager", "streaming_query", "engine.runtime", "engine.sources", "engine.sinks",
        "engine.plan", "engine.jvm", "engine.clock",
    ),
    "dataframe": ("readwriter", "registry", "engine.operators", "engine.plan"),
    "workers": ("engine.jvm", "tools.cause"),  # what the executors are given
    "session": (
        "dataframe", "readwriter", "registry", "streaming_query_manager", "workers", "tools.cause", "engine.sources",
        "engine.jvm", "engine.clock", "engine.spark_versions",
    ),
    "low_latency_memory_stream": ("session", "extras.real_time", "extras.jvm", "engine.sources"),
    # -- the tools ----------------------------------------------------------------------------------------------
    "tools.held_query": ("tools.inspection", "tools.reports", "streaming_query", "engine.jvm", "engine.spark_versions"),  # of any Spark
    "tools.explanation": ("tools.inspection", "tools.held_query", "tools.reports"),
    "tools.compare": (
        "tools.held_query", "tools.reports", "tools.cause", "engine.spark_versions", "lens.view", "lens.view.words", "lens.trace.trace", "lens.trace",
        "extras.rocksdb", "engine.runtime", "engine.state", "engine.checkpointing",
        "session", "streaming_query", "engine.jvm", "engine.times",
    ),
    "tools.testing": (  # a test of somebody's query; what its users import is the module `testing`
        "tools.explanation", "tools.compare", "tools.inspection", "tools.held_query", "tools.cause", "engine.spark_versions", "lens.steps", "lens.view", "lens.view.words", "lens.trace.trace", "lens.trace",
        "engine.checkpointing", "session", "engine.jvm", "engine.clock", "engine.times", "engine.observer",
    ),
    "testing": ("tools.testing", "tools.cause"),
    "tools.symptoms": ("tools.inspection", "tools.reports"),
    "tools.operations": ("tools.inspection", "lens.view", "lens.view.words", "engine.state", "engine.checkpointing"),  # needs no JVM
    "tools.monitoring": ("tools.inspection", "engine.checkpointing", "engine.gauges", "engine.times"),  # needs no JVM
    "tools.operations.check": (  # what the engine would do with a query
        "session", "readwriter", "registry", "streaming_query_manager", "streaming_query", "tools.inspection", "lens.view", "lens.view.words",
        "engine.runtime", "engine.operators", "engine.sources", "engine.sinks", "engine.plan", "engine.state",
        "engine.checkpointing", "engine.jvm", "engine.observer", "engine.spark_versions",
    ),
    "tools.flights": (),
    "tools.course": (),
    "tools.demo": ("tools.compare", "tools.flights", "lens.steps", "lens.trace.trace", "lens.trace", "session"),
    "tools.preflight": ("tools.compare", "tools.demo", "tools.flights"),
    "tools.play": ("lens.view", "lens.view.words",),
    "tools.cli": ("tools.demo", "tools.cause", "tools.doctor", "tools.requirements", "tools.course", "tools.play", "tools.inspection", "tools.operations", "tools.operations.check", "tools.monitoring", "tools.symptoms", "lens.view", "lens.view.words"),
    "tools": (),
    "__main__": ("tools.cli",),
    "__init__": (
        "engine.spark_versions", "tools.cause", "session", "registry", "low_latency_memory_stream", "tools.compare", "tools.inspection",
        "tools.operations", "tools.operations.check", "tools.monitoring", "tools.explanation", "lens.view", "lens.view.words",
    ),
    "worker_daemon": ("session",),
}
ENGINE = tuple(name for name in MAY_IMPORT if name.startswith("engine"))
WITHOUT_A_JVM = (
    "engine.clock", "engine.checkpointing", "engine.state", "extras.rocksdb", "extras.rpc", "lens.trace", "lens.steps", "lens.view", "tools.inspection", "tools.operations",
    "tools.monitoring"
)

# State of the whole process: what a module has that changes while the process runs.
PROCESS_STATE = {
    "tools.held_query._ONE_AT_A_TIME": "guards the output of the process, while what a query of Spark Connect prints is read",
    "dataframe.ClassicDataFrame.writeStream": "PySpark's property, which must know of this engine; set to the same each time",
    "dataframe.GroupedData.operator": "a method of PySpark's class for the operators of one's own; set to the same each time",
    "lens.view.pictures.KINDS": "the pictures, and what register_picture was given; as large as the user makes it",
    "engine.jvm.sessions._accumulatorRegistry": "PySpark's; the counters of a run leave it when the run ends",
    "engine.runtime.template.STATEFUL": "the stateful operators; the extras add theirs when they are imported",
    "engine.operators.join.symmetric_hash_join.STATE_FORMATS": "the operators of a join by state format; the extras add theirs",
    "engine.state.state_store.PROVIDERS": "Spark's state store providers; the extras add theirs when they are imported",
    "registry._registered": "what register_source and register_sink were given; as large as the user makes it",
    "engine.plan.streaming_relation._leaves": "which engine a stream in a plan belongs to; forgets what no plan has any more",
    "engine.runtime.write_to_stream._temporary_checkpoints": "what is to be deleted when the process ends",
    "streaming_query_manager._active_runs": "a checkpoint may have only one active run in a process; an ended run leaves",
    "streaming_query_manager._active_runs_lock": "guards _active_runs and the books of every manager",
    "engine.state.loaded_providers.LOADED_PROVIDERS": "the stores that a worker keeps loaded; bounded by their size",
}
CACHES = {  # functions whose answers are kept for the whole process; all bounded
    "engine.spark_versions.pyspark_version": "the PySpark that Python has found",
    "engine.spark_versions.spark_of": "what is true of a version",
    "tools.operations.check.rules.rules": "the table of rules, as it is in the package",
    "tools.symptoms._index": "the words of all entries",
    "tools.symptoms.entries.groups": "the entries, as they are in the package",
    "tools.symptoms.words._stems_of": "the stems of a word",
    "engine.checkpointing.compactible_file_stream_log.divisors": "the divisors of the last 128 numbers",
    "engine.jvm.plans._class_tag": "one for each JVM",
    "engine.jvm.scala._java_class": "a look-up in the JVM for every part of a class's name",
    "engine.jvm.scala._companion": "a look-up in the JVM for a Scala object",
    "engine.jvm.scala._as_function": "a function object in the JVM for a method",
    "engine.jvm.scala._constant": "what a static method of the JVM always gives",
    "engine.jvm.query_execution._rule": "a function object in the JVM over expressions",
    "engine.jvm.scala._nil": "one object for each JVM",
    "engine.operators.instance_metrics._scala_order": "the last 100 sets of names, each a query's",
    "engine.operators.worker_tuning._sockets": "the sockets that a worker has open in its first task",
    "lens.trace.shapes._entries": "the entries of the shapes that steps declare",
    "lens.trace.query_lines.calls_of_a_query": "the calls in the texts of the last 32 queries",
    "lens.trace.written._parsed": "the trees of the last 8 files and cells in which queries were started",
    "lens.view.measure.text_width": "the widths of the last 4,096 lines that were drawn",
    "lens.view.shown_code.text_of": "the functions of the last 256 files whose code is shown, as they are in the package",
    "lens.view.step_source.step_sources": "the code of each step, read from the package once",
}
# How many modules a module leads to, through all that it imports: one that needs nothing, and the smallest operator.
REACHED = {
    "engine.runtime.watermark_tracker": 0,
    "engine.operators.limit.streaming_global_limit": 54,
}
LONGEST_MODULE = 300
MOST_POSITIONAL_ARGUMENTS = 8


def folder_of(module: str) -> str:
    """The row of MAY_IMPORT that a module belongs to."""
    while module not in MAY_IMPORT and "." in module:
        module = module.rpartition(".")[0]
    return module


def report(problems: list[str]) -> None:
    if problems:
        pytest.fail(f"{len(problems)}:\n" + "\n".join(problems), pytrace=False)


def test_no_module_imports_itself_on_a_detour():
    """(a) No circle of imports across files."""
    reached = {name: reached_from(name) for name in modules()}
    report([
        f"{file_of(a.importer)}:{a.line}: imports {a.imported}, which imports it in turn: move what both need into a module below"
        for a in arrows() if a.importer in reached[a.imported]
    ])


def reached_from(start: str) -> set[str]:
    """The modules that a module imports, and those that these import in turn."""
    reached: set[str] = set()
    todo = [start]
    while todo:
        new = imported_by()[todo.pop()] - reached
        reached |= new
        todo += new
    return reached


@pytest.mark.parametrize(("module", "most"), REACHED.items())
def test_what_a_first_reader_opens_leads_to_no_more_of_the_package(module, most):
    """(a) These numbers may only fall: lower them when a module has lost an import."""
    assert len(reached_from(module)) <= most, f"{file_of(module)} leads to more modules than before: does it need the new import?"


def test_arrows_point_down():
    """(b) A folder imports only what MAY_IMPORT says."""
    problems = []
    for importer, imported, line in arrows():
        above, below = folder_of(importer), folder_of(imported)
        if above != below and below not in MAY_IMPORT[above]:
            problems.append(
                f"{file_of(importer)}:{line}: {above} may not import {imported}, only {', '.join(MAY_IMPORT[above]) or 'nothing'}: "
                "move what is needed down, or hand it in as an argument"
            )
    report(problems)


def test_the_table_of_arrows_is_complete_and_has_no_circle():
    assert {folder_of(name) for name in modules()} == set(MAY_IMPORT), "every folder has a row in MAY_IMPORT"
    names = list(MAY_IMPORT)
    for i, (folder, below) in enumerate(MAY_IMPORT.items()):
        for name in below:
            assert names.index(name) < i, f"the row of {folder} names {name}, which must have a row above"
    reached = {name: set(MAY_IMPORT[name]) for name in names}
    for name in names:
        reached[name] |= {far for near in reached[name] for far in reached[near]}
    for name in WITHOUT_A_JVM:
        assert "engine.jvm" not in reached[name], f"{name} must need no JVM"
    for name in ENGINE:
        assert reached[name] <= set(ENGINE), f"{name} is of the engine"


def test_py4j_is_only_in_jvm():
    """(c) What is not in a folder jvm/ neither imports py4j nor reaches for the Java half of a PySpark object."""
    java_half = re.compile(r"_j(?:df|vm|sparkSession|sc|rdd|sqm|sq|schema|map)?|_gateway")
    problems = []
    for name, tree in modules().items():
        if folder_of(name) in ("engine.jvm", "extras.jvm"):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and java_half.fullmatch(node.attr):
                problems.append(f"{file_of(name)}:{node.lineno}: .{node.attr}: give the call a name in {PACKAGE}/engine/jvm/")
            elif isinstance(node, (ast.Import, ast.ImportFrom)) and re.search(r"(import|from) py4j", ast.unparse(node)):
                problems.append(f"{file_of(name)}:{node.lineno}: imports py4j: use {PACKAGE}/engine/jvm/ (errors.JavaError)")
    report(problems)


def test_the_state_of_the_process_is_named_here():
    """(d) Nothing of a module changes while the process runs, and no cache outlives its user, but for the lists above."""
    problems, seen = [], set()
    for module, tree in modules().items():
        for name, line, why in _process_state(tree):
            seen.add(f"{module}.{name}")
            if f"{module}.{name}" not in PROCESS_STATE:
                problems.append(f"{file_of(module)}:{line}: {name} {why}: keep it in an object, or name it in PROCESS_STATE")
        for name, line in _cached_functions(tree):
            seen.add(f"{module}.{name}")
            if f"{module}.{name}" not in CACHES:
                problems.append(f"{file_of(module)}:{line}: {name} keeps its answers: name it in CACHES, or keep none")
    problems += [f"{name} is named in this test, and is no more" for name in {*PROCESS_STATE, *CACHES} - seen]
    report(problems)


_CHANGES = {"append", "extend", "insert", "remove", "pop", "popitem", "clear", "update", "setdefault", "add", "discard", "put"}


def _process_state(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """What a module has that changes: name, line and reason."""
    mutable_classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef) and _can_change(node)}
    names = {alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            names.add(name)
            if isinstance(node.value, ast.Call) and _last_name(node.value.func) in {*mutable_classes, "Lock", "RLock", "local"}:
                yield name, node.lineno, "is an object that can change"
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            local = _local_names(function)
            for changed, line in _changes(function):
                name = re.split(r"[.\[]", changed)[0]
                if name in names and name not in local:
                    yield changed.partition("[")[0], line, "is changed by a function"


def _changes(function: ast.AST) -> Iterator[tuple[str, int]]:
    """The texts of what a function changes, other than by giving a local name another value."""
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            yield from ((name, node.lineno) for name in node.names)
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield ast.unparse(node), node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            yield ast.unparse(node.func.value), node.lineno


def _can_change(node: ast.ClassDef) -> bool:
    """Whether a method other than `__init__` changes the object."""
    methods = [m for m in node.body if isinstance(m, ast.FunctionDef) and m.name != "__init__"]
    return any(changed.startswith("self.") for method in methods for changed, _ in _changes(method))


def _local_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    stated = {name for n in ast.walk(function) if isinstance(n, ast.Global) for name in n.names}
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return (stored | {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}) - stated


def _cached_functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                if _last_name(decorator.func if isinstance(decorator, ast.Call) else decorator) in ("cache", "lru_cache"):
                    yield node.name, node.lineno


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("NAMES = {'a': 1}\ndef f(): return NAMES['a']", []),
        ("_seen = {}\ndef f(x): _seen[x] = 1", ["_seen"]),
        ("_seen = []\ndef f(x): _seen.append(x)", ["_seen"]),
        ("_seen = []\ndef f(x):\n    _seen = []\n    _seen.append(x)", []),
        ("_ready = False\ndef f():\n    global _ready\n    _ready = True", ["_ready"]),
        ("_lock = threading.Lock()", ["_lock"]),
        ("from m import C\ndef f(): C.method = 1", ["C.method"]),
        ("class C:\n    def f(self): self.n += 1\nONE = C()", ["ONE"]),
        ("class C:\n    def __init__(self): self.n = 1\nONE = C()", []),
    ],
)
def test_what_counts_as_state_of_the_process(text, found):
    assert [name for name, _, _ in _process_state(ast.parse(text))] == found


def test_no_module_is_too_long_to_read_at_once():
    """(e)"""
    lengths = {name: len((ROOT / file_of(name)).read_text().splitlines()) for name in modules()}
    report([
        f"{file_of(name)}:{LONGEST_MODULE + 1}: has {length} lines: split it where its subjects part"
        for name, length in lengths.items() if length > LONGEST_MODULE
    ])


def test_no_call_makes_a_reader_count():
    """(f)"""
    report([
        f"{file_of(name)}:{node.lineno}: {len(node.args)} arguments by position: name them"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and len(node.args) > MOST_POSITIONAL_ARGUMENTS
    ])


def test_tests_without_spark_lie_in_folders_as_the_package_has():
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit).as_posix() for path in unit.rglob("test_*.py")}
    assert [folder for folder in sorted(folders - {"project"}) if not (ROOT / PACKAGE / folder).is_dir()] == []


# What runs a comparison has these names, too. The recordings of Spark depend on its text, so it keeps them until all are made anew.
NAMED_TWICE = {"Build", "Step", "Rows"}


def types_of(tree: ast.Module) -> Iterator[str]:
    """The public classes and aliases of types that a module defines."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            name = node.name
        else:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
            name = next((target.id for target in targets if isinstance(target, ast.Name) and not target.id.isupper()), "_")
        if name[0].isupper():
            yield name


def test_the_name_of_a_type_means_one_thing():
    defined: dict[str, str] = {}
    report([
        f"{file_of(name)}: {defined[type_name]} has another {type_name}: give one of them a name that says what it is"
        for name, tree in modules().items() for type_name in types_of(tree)
        if type_name not in NAMED_TWICE and defined.setdefault(type_name, file_of(name)) != file_of(name)
    ])


def test_a_docstring_stands_alone():
    report([
        f"{file_of(name)}:{node.lineno}: the same as what?"
        for name, tree in modules().items() for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and (ast.get_docstring(node) or "").startswith("The same")
    ])
