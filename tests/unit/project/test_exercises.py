"""The checks of the course: what is right is accepted in each form in which it comes."""

import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from minispark_stream.engine.checkpointing.errors import SparkRuntimeException
from minispark_stream.engine.clock import ManualClock
from minispark_stream.engine.runtime import watermark_tracker
from minispark_stream.engine.runtime.trigger_executor import ProcessingTimeTrigger, execute
from minispark_stream.engine.sources.seen_files_map import SeenFilesMap
from minispark_stream.engine.state.hdfs_backed_state_store_provider import HDFSBackedStateStoreProvider
from minispark_stream.engine.state.maintenance import write_snapshot
from minispark_stream.engine.state.state_records import decode_records
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId
from minispark_stream.extras.continuous.epoch_coordinator import (
    CommitPartitionEpoch,
    EpochCoordinator,
    ReportPartitionOffset,
    SetReaderPartitions,
    SetWriterPartitions,
)

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"


@pytest.mark.parametrize(
    ("exercise", "right", "wrong"),
    [
        ("00-2", [8, np.int64(8)], [np.int64(7), "8", True]),
        ("07-1", [{"complete"}, ["complete"], ("complete",)], ["complete", {"append"}]),
        ("04-2", [(False, False), [np.False_, False]], [(True, False), False, np.True_]),
        ("15-1", [(5, 10), [5, 10], (np.int64(5), np.int64(10))], [(10, 5), 5, {5, 10}]),
        ("17-1", [[3, 4], (3, 4)], [[3], [4, 3]]),
    ],
)
def test_a_number_out_of_a_data_frame_and_a_list_for_a_pair_are_accepted(exercise, right, wrong, monkeypatch):
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    judged = import_module("exercises").judged
    assert all(judged(exercise, answer).startswith(f"{exercise}: right. ") for answer in right)
    assert all(judged(exercise, answer).startswith(f"{exercise}: no. ") for answer in wrong)


def test_of_a_wrong_answer_it_is_said_what_is_wrong(monkeypatch):
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    exercises = import_module("exercises")
    divided = {"04-4": "For 0, None it raises", "08-4": "Your function raises"}
    told = [
        ("00-2", "8", "The answer is a number, and this is a text."),
        ("00-2", 8.0, "The answer is a number, and this is a number with a fraction."),
        ("00-1", "or not", "The answer is a set, and this is a text."),
        ("00-2", 7, "Try it out, and look again."),
        ("04-4", 3, "The answer is a function, and this is a number."),
        ("04-4", lambda offsets, commits: commits == 0, "For 3, 3 it gives False, where True is right."),
        *((name, lambda *_: 1 / 0, f"{words} ZeroDivisionError: division by zero.") for name, words in divided.items()),
    ]
    for name, answer, words in told:
        assert exercises.judged(name, answer) == f'{name}: no. {words} hint("{name}") helps.'
    assert exercises.judged("04-4", lambda *_: None).startswith("04-4: no answer yet.")
    for unknown, words in (("6-1", 'is it "06-1"'), (6, "they are called"), ("why", "they are called")):
        with pytest.raises(LookupError, match=words):
            exercises.judged(unknown, 1)


def in_the_source(file, time, seen, newest, max_age):
    files = SeenFilesMap(max_age, file_name_only=False)
    for name in seen:
        files.add(name, newest)
    files.purge()
    return files.is_new_file(file, time)


class Watch(ManualClock):
    """Waits by going on."""

    def wait_till_time(self, target_ms, stopped=None):
        self.advance(max(target_ms - self.get_time_millis(), 0))


def by_the_executor(lengths, interval):
    clock, begun, left = Watch(0), [], list(lengths)

    def batch():
        if not left:
            return False
        begun.append(clock.get_time_millis())
        clock.advance(left.pop(0))
        return True

    execute(ProcessingTimeTrigger(interval), batch, clock, threading.Event())
    return begun


def from_disk(version, files):
    with TemporaryDirectory() as folder:
        provider = HDFSBackedStateStoreProvider(StateStoreId(folder, 0, 0), StateStoreConf())
        for number in range(5):
            store = provider.get_store(number)
            store.put([b"%d" % number], [b""])
            store.commit()
            write_snapshot(provider.files, number + 1)
        for file in Path(folder).rglob("[1-9]*"):
            if file.name not in files:
                file.unlink()
        try:
            HDFSBackedStateStoreProvider(StateStoreId(folder, 0, 0), StateStoreConf()).get_store(version)
        except SparkRuntimeException:
            return False
        return True


def from_deltas(version, deltas):
    with TemporaryDirectory() as folder:
        provider = HDFSBackedStateStoreProvider(StateStoreId(folder, 0, 0), StateStoreConf())
        for number, delta in enumerate(deltas):
            store = provider.get_store(number)
            for key, value in delta:
                if value is None:
                    store.remove([key.encode()])
                else:
                    store.put([key.encode()], [b"%d" % value])
            store.commit()
        keys, values = provider.get_store(version).rows()
        return {bytes(key).decode(): int(bytes(value)) for key, value in zip(keys, values)}


def by_the_coordinator(readers, writers, messages):
    committed = []
    coordinator = EpochCoordinator(0, 100, lambda epoch, offsets: None, lambda epoch, commits: committed.append(epoch))
    coordinator.receive(SetReaderPartitions(readers))
    coordinator.receive(SetWriterPartitions(writers))
    for kind, partition, epoch in messages:
        coordinator.receive((ReportPartitionOffset if kind == "offset" else CommitPartitionEpoch)(partition, epoch, None))
    return committed


@pytest.mark.parametrize(
    ("exercise", "rule"),
    [
        ("02-2", in_the_source),
        ("03-4", by_the_executor),
        ("05-4", from_deltas),
        ("06-4", watermark_tracker.reached),
        ("12-4", decode_records),
        ("13-4", from_disk),
        ("16-4", by_the_coordinator),
    ],
)
def test_a_rule_to_write_is_the_engines(exercise, rule, monkeypatch):
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    assert import_module("exercises").EXERCISES[exercise].accepts(rule)


def test_an_average_that_keeps_all_values_or_forgets_some_is_refused(monkeypatch):
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    judged = import_module("exercises").judged
    keeps_all = judged("17-4", lambda state, values: ((kept := [*(state or []), *values]), sum(kept) / len(kept)))
    assert keeps_all.startswith("17-4: no. The average is right, but the state has grown with the stream.")
    assert "where 2.33" in judged("17-4", lambda state, values: (state, sum(values) / len(values)))


def test_answers_are_counted_until_they_are_right_and_a_group_is_a_table(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    score, judged = import_module("score"), import_module("exercises").judged
    files = [tmp_path / name / "answers.json" for name in ("ann", "bob", "eve")]
    answers: dict[str, list[tuple[str, object]]] = {
        "ann": [("00-2", 7), ("00-2", 8), ("00-2", 3), ("01-1", "addBatch"), ("06-1", ...)], "bob": [("00-2", 1)], "eve": [],
    }
    for file in files:
        file.parent.mkdir()
        for exercise, answer in answers[file.parent.name]:
            score.record(exercise, judged(exercise, answer), file)
    assert score.read(files[0]) == {"00-2": {"tries": 2, "right": True}, "01-1": {"tries": 1, "right": True}}
    assert [line.split() for line in score.table(files, ["00-1", "00-2", "01-1"]).splitlines()] == [
        ["00", "01", "right", "at", "once"], ["of", "2", "1", "3"], ["ann", "1", "1", "2", "1"], ["bob", ".", ".", "0", "0"], ["eve", ".", ".", "0", "0"],
    ]


def test_the_command_knows_every_exercise(monkeypatch):
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    printed = subprocess.run([sys.executable, NOTEBOOKS / "score.py"], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[1].split()[-1] == str(len(import_module("exercises").EXERCISES))
