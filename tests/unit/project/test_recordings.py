"""Recordings of what Spark did in a comparison (tests/conformance/recordings.py)."""

from __future__ import annotations

import datetime
import json
import lzma
from collections import Counter
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

from minispark_stream.lens.trace.trace import Trace
from minispark_stream.tools.compare.checkpoint_files import FamilyChanges
from minispark_stream.tools.compare.comparison import Comparison
from minispark_stream.tools.compare.engine_run import Cause, EngineBatch, EngineRun
from minispark_stream.tools.compare.runner import COLLECT, Runner
from tests.commit import chosen_by_commit
from tests.conformance import digests, recordings
from tests.conformance.recorded_runs import run_from_json, run_to_json
from tests.conformance.recordings import Recordings

PROGRESS = {
    "batchId": 0, "numInputRows": 1, "eventTime": {}, "sources": [], "stateOperators": [], "sink": {"description": "sink", "numOutputRows": 1},
    "durationMs": {"addBatch": 5, "walCommit": 1},
}
LINES = [["a"]]
CONSTRAINTS = Path(__file__).parents[3] / ".ci" / "constraints.txt"
STALE = 20  # at most so many recordings are of a test that has changed since; Spark plays these in every run, until `make record`


def run_of(*rows, files=()):
    return EngineRun((EngineBatch(0, PROGRESS, rows, {"offsets/0": "v1\n{}"}),), Trace((), "spark"), dict(files))


def item(path: Path, name: str) -> Any:
    """What of a test a recording looks at."""
    return SimpleNamespace(path=path, name=name, originalname=name.partition("[")[0])


class Spark:
    """Counts how often it is asked."""

    def __init__(self, run):
        self.asked, self.answer = 0, run

    def run(self, *arguments):
        self.asked += 1
        return self.answer


@pytest.fixture
def spark(monkeypatch):
    spark = Spark(run_of(("a", 1)))
    monkeypatch.setattr(Runner, "run", spark.run)
    return spark


@pytest.fixture
def module(tmp_path):
    """The file of the test that compares."""
    module = tmp_path / "test_words.py"
    module.write_text("def test_it(): assert count() == 1\ndef count(): return 1\n")
    return module


@pytest.fixture
def compare(tmp_path, monkeypatch, spark, module):
    """compare(mode, model's row, feed): what the comparison finds."""
    monkeypatch.setattr(recordings, "RECORDED", tmp_path / "recorded")
    monkeypatch.setattr(recordings, "chosen_by_commit", lambda name, one_in: False)
    def compare(mode="", row=("a", 1), feed=LINES, collect=COLLECT):
        for known in (digests._module, digests._definition, recordings._entries):
            known.cache_clear()
        monkeypatch.setattr(recordings, "MODE", mode)
        runner: Any = SimpleNamespace(_only_spark=True, _collect_rows=collect, _inputs=tmp_path / "input")

        def play():
            return Comparison(Runner.run(runner, feed, {}, lambda: None), run_of(row), ("k", "n"))

        return Recordings(item(module, "test_it"), tmp_path).compare(play).differences

    return compare


def test_spark_is_not_asked_for_what_is_recorded(compare, spark):
    compare("yes")
    assert compare() == ()
    assert spark.asked == 1


def test_spark_is_asked_for_what_is_not_recorded(compare, spark):
    assert compare() == ()
    assert spark.asked == 1


def test_spark_is_asked_again_when_the_test_has_changed(compare, spark, module):
    compare("yes")
    module.write_text(module.read_text().replace("return 1", "return 2"))
    compare()
    assert spark.asked == 2


def test_a_comment_or_another_test_changes_nothing(compare, spark, module):
    compare("yes")
    module.write_text(module.read_text() + "\n# a comment\ndef test_another(): pass\n")
    compare()
    assert spark.asked == 1


def test_a_difference_is_one_from_what_spark_does_now(compare, spark):
    compare("yes")
    spark.answer = run_of(("a", 2))
    assert compare(row=("a", 2)) == ()
    assert [d.spark for d in compare(row=("a", 3))] == [["('a', 2)"]]
    assert spark.asked == 3


def test_whoever_records_asks_only_for_what_no_recording_fits(compare, spark, module):
    compare("yes")
    compare("yes")
    assert spark.asked == 1
    module.write_text(module.read_text().replace("return 1", "return 2"))
    compare("yes")
    compare()
    assert spark.asked == 2


def test_in_the_weekly_job_spark_is_asked(compare, spark):
    compare("yes")
    compare("no")
    assert spark.asked == 2


def test_input_that_a_function_writes_is_recorded(compare, spark):
    name = "a"
    feed = [lambda folder: Path(folder, name).touch(), partial(Path.joinpath, Path("b"))]
    compare("yes", feed=feed)
    compare(feed=feed)
    assert spark.asked == 1


def test_a_function_that_may_note_something_is_not_recorded(compare, spark):
    noted = []
    compare("yes", feed=[lambda folder: noted.append(folder)])
    compare(feed=[lambda folder: noted.append(folder)])
    assert spark.asked == 2


def test_a_sink_that_may_note_something_is_not_recorded(compare, spark):
    noted: list[Any] = []
    compare("yes", collect=lambda batch: noted)
    compare(collect=lambda batch: noted)
    assert spark.asked == 2


def test_another_sink_is_recorded(compare, spark):
    compare("yes", collect=lambda batch: [])
    compare(collect=lambda batch: [])
    assert spark.asked == 1


def test_files_that_are_there_already_are_not_those_of_another_run(compare, spark, tmp_path):
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "0.txt").touch()
    compare("yes")
    compare()
    assert spark.asked == 2


def test_the_model_does_not_go_on_from_what_it_did_beside_a_recording(compare, spark, tmp_path):
    compare("yes")
    (tmp_path / "checkpoint-model").mkdir()
    compare(row=("a", 3))
    assert not (tmp_path / "checkpoint-model").exists()


def test_a_commit_chooses_one_in_so_many():
    assert 50 < sum(chosen_by_commit(f"test {i}", 10) for i in range(1000)) < 200
    assert all(chosen_by_commit(f"test {i}", 1) for i in range(10))


@pytest.mark.skipif(f"pyspark=={pyspark.__version__}" not in CONSTRAINTS.read_text().split(), reason="recorded with another PySpark")
def test_few_recordings_are_of_tests_that_have_changed_since():
    stale = []
    for file in sorted(recordings.RECORDED.glob("*.json.xz")):
        [module] = file.parents[2].glob(f"*/{file.name.partition('.')[0]}.py")
        for name, entry in json.loads(lzma.decompress(file.read_bytes())).items():
            if entry["key"] != recordings.key_of(item(module, name.rpartition(" ")[0])):
                stale.append(f"{module.name}: {name}")
    assert len(stale) <= STALE, stale


VALUES = (
    None, True, 3, -0.1, float("inf"), "a\ud7ff\n", b"text", b"\xff\x00", Decimal("1.50"), datetime.date(2024, 2, 29),
    datetime.datetime(2024, 1, 1, 12, 0, 0, 1), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), datetime.time(1, 2, 3),
    datetime.timedelta(days=-1, microseconds=3), [1, [2.5]], (1, ("a",)), {"k": (1,), 2: None},
)


def test_a_recording_is_the_run():
    files = {
        "offsets/0": "v1\n{}", "sources/0/0": b"v1\n{}", "state/0/0/_metadata/schema": b"\x00\xff",
        "state/0/0/1.delta": Counter({(b"\x00\xff", b"v"): 2, (b"k", None): 1}), "state/0/1/1.changelog": FamilyChanges({b"k": None}),
    }
    run = EngineRun(run_of(VALUES).batches, Trace((), "spark"), files, "STREAM_FAILED", Cause("DIVIDE_BY_ZERO", "Division by zero."))
    again = run_from_json(run_to_json(run))
    assert again.batches == run.batches
    assert again.files == files
    assert [type(again.files[name]) for name in files] == [type(content) for content in files.values()]
    assert again.error == run.error


def test_a_value_without_a_form_is_not_recorded():
    with pytest.raises(TypeError, match="no JSON for a object"):
        run_to_json(run_of((object(),)))
