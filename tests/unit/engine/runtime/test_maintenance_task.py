"""The driver's half of state maintenance, with rounds that are run in this process in the place of Spark jobs."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from minispark_stream.engine.observer import Observer
from minispark_stream.engine.runtime import maintenance_task
from minispark_stream.engine.runtime.maintenance_task import Done, MaintenanceTask
from minispark_stream.engine.state.loaded_providers import get_store, unload_stores
from minispark_stream.engine.state.maintenance import MaintenanceResult, MaintenanceRound
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId
from minispark_stream.lens.recording.recording_observer import RecordingObserver
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.recorder import Recorder
from minispark_stream.lens.view.sentences import narrate

CONF = StateStoreConf(min_deltas_for_snapshot=2)
PARTITIONS = tuple((0, partition) for partition in range(4))
pytestmark = pytest.mark.usefixtures("fresh_process", "plain_threads")


@pytest.fixture
def plain_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark's own hand on what the JVM knows of a thread."""
    monkeypatch.setattr(maintenance_task, "InheritableThread", threading.Thread)


class Rounds:
    """Notes what it is asked for. `answers` are given in the place of rounds; "wait" waits until it is cancelled."""

    def __init__(self, state: Path, *answers: Any, recorder: Recorder | None = None):
        self.state, self.answers = state, list(answers)
        self.asked: list[tuple[list[int], bool]] = []
        self.called: list[str] = []
        self.idle, self.waiting, self.cancelled = threading.Semaphore(0), threading.Event(), threading.Event()
        observer = Observer() if recorder is None else RecordingObserver(recorder)
        self.task = MaintenanceTask(frozenset(PARTITIONS), self, 1, lambda name, **what: observer.step(name, None, **what))

    def run(self, partitions: tuple[tuple[int, int], ...], may_read: bool) -> Done:
        self.asked.append(([partition for _, partition in partitions], may_read))
        if not self.answers:
            self.idle.release()
            return [], []
        answer = self.answers.pop(0)
        if answer == "wait":
            self.waiting.set()
            assert self.cancelled.wait(30)
            raise RuntimeError("the job was cancelled")
        if isinstance(answer, Exception):
            raise answer
        return MaintenanceRound(str(self.state), CONF, 3, partitions, may_read).run() if answer == "run" else answer

    def cancel(self) -> None:
        self.called.append("cancel")
        self.cancelled.set()

    def until_idle(self) -> None:
        self.task.start()
        assert self.idle.acquire(timeout=30)
        self.task.stop()


def three_versions(state: Path, *partitions: int) -> None:
    for partition in partitions:
        for version in range(3):
            get_store(StateStoreId(str(state), 0, partition), CONF, version).commit()


def test_each_job_does_what_the_one_before_has_left(tmp_path: Path) -> None:
    three_versions(tmp_path, 0, 1)
    unload_stores()
    three_versions(tmp_path, 2, 3)
    rounds = Rounds(tmp_path, "run", "run", "run")
    rounds.until_idle()
    assert rounds.asked[:3] == [([0, 1, 2, 3], False), ([0, 1], False), ([0, 1], True)]
    assert rounds.asked[3] == ([0, 1, 2, 3], False), "the next time"
    assert all((tmp_path / f"0/{partition}/3.snapshot").exists() for partition in range(4))


def test_what_was_done_is_told_as_a_step_and_what_failed_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    three_versions(tmp_path, 0, 1)
    unload_stores()
    (tmp_path / "0/0/2.delta").write_bytes(b"garbage")
    recorder = Recorder()
    with caplog.at_level(logging.WARNING):
        Rounds(tmp_path, "run", "run", "run", recorder=recorder).until_idle()
    failed, done = recorder.events
    assert isinstance(failed, Event) and failed.inputs == {"operatorId": 0, "partition": 0, "store": "default"}
    assert "2.delta" in str(failed.error) and "2.delta" in caplog.text
    assert (done.inputs["partition"], done.outputs["snapshot"], done.outputs["fromMemory"], done.error) == (1, 3, False, None)
    assert done.outputs["bytes"] == (tmp_path / "0/1/3.snapshot").stat().st_size
    words = f"operator 0, partition 1: snapshot of version 3 written from the files, nothing deleted, by the worker {done.outputs['worker']}"
    assert narrate(done) == words


def test_what_was_done_is_told_even_if_the_other_half_failed(tmp_path: Path) -> None:
    recorder = Recorder()
    half = MaintenanceResult(StateStoreId(str(tmp_path), 0, 1), 3, (), 100, False, "host:1", 5, "OSError: no right to delete")
    Rounds(tmp_path, ([half], []), recorder=recorder).until_idle()
    (told,) = recorder.events
    assert (told.outputs["snapshot"], str(told.error)) == (3, "MaintenanceError: OSError: no right to delete")


def test_a_job_that_fails_is_tried_again_at_the_next_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    three_versions(tmp_path, 0)
    rounds = Rounds(tmp_path, OSError("no route to host"), "run")
    rounds.until_idle()
    assert rounds.asked[:2] == [([0, 1, 2, 3], False)] * 2 and (tmp_path / "0/0/3.snapshot").exists()
    assert "no route to host" in caplog.text


def test_stop_cancels_the_job_that_is_under_way_and_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rounds = Rounds(tmp_path, "wait", "run")
    rounds.task.start()
    assert rounds.waiting.wait(30)
    rounds.task.stop()
    assert rounds.called == ["cancel"] and len(rounds.asked) == 1 and not caplog.records
    Rounds(tmp_path).task.stop()  # never started
