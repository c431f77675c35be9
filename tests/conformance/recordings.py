"""What Spark did in the comparisons of tests, kept in `recorded/`, so that it need not do the same again in every run.

A comparison runs a query on Spark and on the model. Spark's half depends on the test and on the version of PySpark alone, so it is
kept as JSON beside the tests, packed, because the conf of a query stands in each of its offsets:

    recorded/test_limit.json.xz    "test_limit_of_appended_rows[3] 0": {"key": "8f1c...", "run": {"batches": [...], ...}}

1. Only what another run would do again is kept. The input folder is empty at first: files that are there already have names and times of
   their own. A function that puts files into it, does something to the checkpoint between two runs, or is the sink, may refer to nothing
   outside of it that can change: it might note something that the test looks at afterwards.
2. The key is a digest of PySpark's version, of what runs and reads a query, and of what the test runs (tests/conformance/digests.py). If it
   has changed, Spark plays.
3. A tenth of the comparisons is played by Spark in any case; the commit chooses them.
4. No difference is reported because of a recording. If there is one, both engines play from the beginning, and what they do then counts.

The environment says what else Spark plays:

    MINISPARK_RECORD=yes    what no recording fits, and only this; what it does is written down (`make record`)
    MINISPARK_RECORD=no     everything (the weekly job)
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import lzma
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path, PurePath
from types import FunctionType
from typing import Any

import pyspark
import pytest

from minispark_stream.tools.compare import checkpoint_files, engine_run, runner, spark_trace
from minispark_stream.tools.compare.comparison import Comparison
from minispark_stream.tools.compare.engine_run import EngineRun
from minispark_stream.tools.compare.runner import Runner
from tests.commit import chosen_by_commit
from tests.conformance import recorded_runs
from tests.conformance.digests import module_text, what_runs
from tests.conformance.recorded_runs import run_from_json, run_to_json

RECORDED = Path(__file__).parent / "recorded"
FOLDER = "{the test's folder}"  # what stands for it in a recording
ONE_IN = 10
MACHINERY = (checkpoint_files, engine_run, runner, spark_trace, recorded_runs)
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
            for checkpoint in Path(self._folder).glob("checkpoint-*"):  # where the model would go on
                shutil.rmtree(checkpoint)
        with _spark_runs(lambda run: self._kept(name, run())):  # (4)
            return play()

    def _known(self, name: str) -> EngineRun | None:
        if MODE == "no" or not MODE and chosen_by_commit(f"{self._file.name} {name}", ONE_IN):  # (3)
            return None
        entry = _entries(self._file).get(name)
        if entry is None or entry["key"] != self._key:
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
    """Let `instead` say what Spark does in a comparison that may be kept; it receives the function that lets Spark do it. (1)"""
    original = Runner.run

    def run(self: Runner, feed: Sequence[Any], restarts: Mapping[int, Any], tick: Callable[[], object]) -> EngineRun:
        def play() -> EngineRun:
            return original(self, feed, restarts, tick)

        fixed = all(map(_is_fixed, filter(callable, [*feed, *restarts.values()])))
        empty = not (self._inputs.exists() and os.listdir(self._inputs))
        repeatable = fixed and empty and (self._collect_rows is runner.COLLECT or _is_fixed(self._collect_rows))
        return instead(play) if self._only_spark and repeatable else play()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runner, "run", run)
        yield


def _is_fixed(value: object) -> bool:
    """Whether a value cannot change; a function refers to such values only."""
    match value:
        case FunctionType():
            return all(_is_fixed(cell.cell_contents) for cell in value.__closure__ or ())
        case partial():
            return all(map(_is_fixed, (value.func, *value.args, *value.keywords.values())))
        case tuple() | frozenset():
            return all(map(_is_fixed, value))
    return value is None or isinstance(value, str | bytes | int | float | PurePath)


def key_of(test: pytest.Item) -> str:  # (2)
    """The digest of everything that a recording of this test depends on."""
    name = getattr(test, "originalname", None) or test.name
    parts = [pyspark.__version__, *(module_text(Path(str(module.__file__))) for module in MACHINERY), what_runs(test.path, name)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@cache
def _entries(file: Path) -> Mapping[str, Any]:
    """The recordings of a file, as they are when this process first asks for one of them."""
    if not file.exists():
        return {}
    with open(file, "rb") as f:
        fcntl.flock(f, fcntl.LOCK_SH)  # another process may be writing
        return _unpacked(f.read())


def _unpacked(packed: bytes) -> dict[str, Any]:
    return json.loads(lzma.decompress(packed)) if packed else {}


def _is_in_state(folder: str, run: EngineRun) -> bool:
    """Whether a row of the state contains the name of the test's folder, which is another one each time."""
    return any(isinstance(content, dict) and folder in str(content) for content in run.files.values())


def _write(file: Path, name: str, entry: Mapping[str, Any]) -> None:
    """Put an entry into the file; other processes put theirs into the same one."""
    file.parent.mkdir(exist_ok=True)
    with open(file, "a+b") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        f.seek(0)
        entries = {**_unpacked(f.read()), name: entry}
        f.truncate(0)
        f.write(lzma.compress(json.dumps(entries, sort_keys=True, separators=(",", ":")).encode()))
