"""What Spark did in the comparisons of this folder, kept in `recorded/`, so that it need not do the same again in every run.

A comparison runs a query on Spark and on the model. Spark's half depends on the test and on the version of PySpark alone, so it is
kept as JSON beside the tests, packed, because the conf of a query stands in each of its offsets:

    recorded/test_limit.json.xz    "test_limit_of_appended_rows[3] 0": {"key": "8f1c...", "run": {"batches": [...], ...}}

1. Only a plain comparison is kept: the input consists of lines, and nothing is done to the checkpoint between two runs.
2. The key is a digest of PySpark's version, of what runs and reads a query, and of the test, with all that it takes from its own module and
   from other modules of the tests. If it has changed, Spark plays.
3. A tenth of the comparisons is played by Spark in any case; the commit chooses them.
4. No difference is reported because of a recording. If there is one, Spark plays, and what it does then counts.

The environment says what else Spark plays:

    MINISPARK_RECORD=yes    everything, and what it does is written down (`make record`)
    MINISPARK_RECORD=no     everything (the weekly job)
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import inspect
import json
import lzma
import os
import subprocess
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pyspark
import pytest

from minispark_stream.tools.compare import checkpoint_files, engine_run, runner, spark_trace
from minispark_stream.tools.compare.comparison import Comparison
from minispark_stream.tools.compare.engine_run import EngineRun
from minispark_stream.tools.compare.runner import Runner
from tests import conftest
from tests.conformance import recorded_runs
from tests.conformance.recorded_runs import run_from_json, run_to_json

RECORDED = Path(__file__).parent / "recorded"
FOLDER = "{the test's folder}"  # what stands for it in a recording
ONE_IN = 10
MACHINERY = (conftest, checkpoint_files, engine_run, runner, spark_trace, recorded_runs)
MODE = os.environ.get("MINISPARK_RECORD", "")


class Recordings:
    """What Spark did in the comparisons of one test, in their order."""

    def __init__(self, test: pytest.Item, folder: Path):
        self._file = RECORDED / f"{test.path.stem}.json.xz"
        self._name, self._folder = test.name, str(folder)
        self._key = key_of(test)
        self._compared = 0

    def compare(self, play: Callable[[], Comparison]) -> Comparison:
        """The comparison that `play` makes with `side_by_side`; Spark's half may be a recording."""
        name = f"{self._name} {self._compared}"
        self._compared += 1
        if (known := self._known(name)) is not None:
            with _spark_runs(lambda run: known):
                comparison = play()
            if not comparison.differences:
                return comparison
        with _spark_runs(lambda run: self._kept(name, run())):  # (4)
            return play()

    def _known(self, name: str) -> EngineRun | None:
        entry = _entries(self._file).get(name)
        if MODE or entry is None or entry["key"] != self._key or _is_played(f"{self._file.name} {name}"):
            return None
        return run_from_json(json.loads(json.dumps(entry["run"]).replace(FOLDER, self._folder)))

    def _kept(self, name: str, run: EngineRun) -> EngineRun:
        if MODE == "yes":
            try:
                text = json.dumps(run_to_json(run))
            except TypeError:  # a value that has no form in JSON
                text = ""
            if text and not _is_in_state(self._folder, run):
                _write(self._file, name, {"key": self._key, "run": json.loads(text.replace(self._folder, FOLDER))})
        return run


@contextmanager
def _spark_runs(instead: Callable[[Callable[[], EngineRun]], EngineRun]) -> Iterator[None]:
    """Let `instead` say what Spark does in a plain comparison; it receives the function that lets Spark do it. (1)"""
    original = Runner.run

    def run(self: Runner, feed: Sequence[Any], restarts: Mapping[int, Any], tick: Callable[[], object]) -> EngineRun:
        def play() -> EngineRun:
            return original(self, feed, restarts, tick)

        plain = not any(map(callable, feed)) and not any(restarts.values()) and self._collect_rows is runner.COLLECT
        return instead(play) if self._only_spark and plain else play()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runner, "run", run)
        yield


def key_of(test: pytest.Item) -> str:  # (2)
    """The digest of everything that a recording of this test depends on."""
    name = getattr(test, "originalname", None) or test.name
    parts = [pyspark.__version__, *map(_source, MACHINERY), _without_other_tests(test.path, name), *_helpers(test.path)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@cache
def _source(module: ModuleType) -> str:
    return inspect.getsource(module)


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _without_other_tests(path: Path, name: str) -> str:
    """The module of a test as a syntax tree, which has no comments, without the other tests."""
    is_other = [isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and node.name != name for node in _parsed(path).body]
    return "\n".join(ast.dump(node) for node, other in zip(_parsed(path).body, is_other) if not other)


@cache
def _helpers(path: Path) -> Sequence[str]:
    """The sources of the modules of the tests that a test's module imports."""
    imported = {node.module for node in ast.walk(_parsed(path)) if isinstance(node, ast.ImportFrom) and node.module}
    files = [Path(*name.split(".")).with_suffix(".py") for name in sorted(imported) if name.startswith("tests.conformance.")]
    return [(RECORDED.parents[2] / file).read_text(encoding="utf-8") for file in files]


@cache
def _commit() -> str:
    told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=RECORDED.parent, capture_output=True, text=True)
    return told.stdout.strip()  # nothing outside of a repository


def _is_played(name: str) -> bool:  # (3)
    return zlib.crc32(f"{_commit()} {name}".encode()) % ONE_IN == 0


@cache
def _entries(file: Path) -> Mapping[str, Any]:
    return json.loads(lzma.decompress(file.read_bytes())) if file.exists() else {}


def _is_in_state(folder: str, run: EngineRun) -> bool:
    """Whether a row of the state contains the name of the test's folder, which is another one each time."""
    return any(isinstance(content, dict) and folder in str(content) for content in run.files.values())


def _write(file: Path, name: str, entry: Mapping[str, Any]) -> None:
    """Put an entry into the file; other processes put theirs into the same one."""
    file.parent.mkdir(exist_ok=True)
    with open(file, "a+b") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        f.seek(0)
        packed = f.read()
        entries = {**(json.loads(lzma.decompress(packed)) if packed else {}), name: entry}
        f.truncate(0)
        f.write(lzma.compress(json.dumps(entries, sort_keys=True, separators=(",", ":")).encode()))
