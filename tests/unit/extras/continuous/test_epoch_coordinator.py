"""The epoch coordinator, from lists of messages, in every order in which tasks can send them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minispark_stream.extras.continuous.epoch_coordinator import (
    CommitPartitionEpoch,
    EpochCoordinator,
    GetCurrentEpoch,
    IncrementAndGetEpoch,
    ReportPartitionOffset,
    SetReaderPartitions,
    SetWriterPartitions,
    StopContinuousExecutionWrites,
)


class Calls:
    """A coordinator, and what it has called."""

    def __init__(self, readers: int, writers: int, start_epoch: int = 0, backlog_size: int = 10_000):
        self.offsets: list[tuple[int, dict[int, Any]]] = []
        self.commits: list[tuple[int, list[Any]]] = []
        self.coordinator = EpochCoordinator(
            start_epoch, backlog_size,
            lambda epoch, offsets: self.offsets.append((epoch, dict(offsets))),
            lambda epoch, messages: self.commits.append((epoch, list(messages))),
        )
        self.tell(SetReaderPartitions(readers), SetWriterPartitions(writers))

    def tell(self, *messages: Any) -> Any:
        return [self.coordinator.receive(message) for message in messages][-1]


def test_an_epoch_is_committed_when_all_offsets_and_all_commits_are_there():
    run = Calls(readers=2, writers=2)
    run.tell(ReportPartitionOffset(0, 0, "a"), CommitPartitionEpoch(1, 0, "y"), CommitPartitionEpoch(0, 0, "x"))
    assert (run.offsets, run.commits) == ([], [])
    run.tell(ReportPartitionOffset(1, 0, "b"))
    assert (run.offsets, run.commits) == ([(0, {0: "a", 1: "b"})], [(0, ["x", "y"])])


def test_the_driver_counts_epochs_and_readers_ask_for_them():
    run = Calls(1, 1, start_epoch=7)
    assert run.tell(GetCurrentEpoch()) == 7
    assert run.tell(IncrementAndGetEpoch()) == 8
    assert run.tell(GetCurrentEpoch()) == 8
    run.tell(ReportPartitionOffset(0, 7, 3), CommitPartitionEpoch(0, 7, None))
    assert run.commits == [(7, [None])]


def test_an_epoch_of_a_task_that_is_ahead_waits():
    run = Calls(1, 1)
    run.tell(ReportPartitionOffset(0, 1, 9), CommitPartitionEpoch(0, 1, "late"))
    assert run.commits == []
    run.tell(ReportPartitionOffset(0, 0, 5), CommitPartitionEpoch(0, 0, "early"))
    assert run.commits == [(0, ["early"]), (1, ["late"])]


def test_what_comes_after_the_stop_is_not_counted():
    run = Calls(1, 1)
    run.tell(StopContinuousExecutionWrites(), ReportPartitionOffset(0, 0, 1), CommitPartitionEpoch(0, 0, None))
    assert (run.offsets, run.commits) == ([], [])


@pytest.mark.parametrize(
    ("message", "what"),
    [(ReportPartitionOffset, "partition offset"), (CommitPartitionEpoch, "partition commit")],
)
def test_the_backlog_has_a_limit(message, what):
    run = Calls(2, 2, backlog_size=3)
    run.tell(*(message(0, epoch, None) for epoch in range(3)))
    with pytest.raises(RuntimeError, match=f"Size of the {what} queue has exceeded its maximum"):
        run.tell(message(0, 3, None))


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, int, list[list[Any]]]:
    """The first epoch, the number of partitions, and the messages of each task in its own order, with repeated commits."""
    start, partitions, epochs = draw(st.integers(0, 3)), draw(st.integers(1, 3)), draw(st.integers(0, 4))
    tasks: list[list[Any]] = []
    for partition in range(partitions):
        told = range(start, start + draw(st.integers(0, epochs)))
        tasks.append([ReportPartitionOffset(partition, epoch, epoch * 10) for epoch in told])
        told = range(start, start + draw(st.integers(0, len(told))))
        repeated = draw(st.lists(st.sampled_from(told), max_size=2)) if told else []
        tasks.append([CommitPartitionEpoch(partition, epoch, (partition, epoch)) for epoch in [*told, *repeated]])
    return start, partitions, tasks


@given(runs(), st.data())
def test_no_order_commits_early_twice_or_out_of_order(run, data):
    start, partitions, tasks = run
    calls = Calls(partitions, partitions, start)
    seen: list[ReportPartitionOffset | CommitPartitionEpoch] = []
    while any(tasks):
        task = data.draw(st.sampled_from([task for task in tasks if task]))
        seen.append(task.pop(0))
        calls.tell(seen[-1])

        def complete(kind: type[ReportPartitionOffset | CommitPartitionEpoch], epoch: int) -> bool:
            return len({m.partition_id for m in seen if isinstance(m, kind) and m.epoch == epoch}) == partitions

        offsets = [epoch for epoch, _ in calls.offsets]
        assert sorted(offsets) == [e for e in range(start, start + 9) if complete(ReportPartitionOffset, e)]
        expected = start
        while complete(ReportPartitionOffset, expected) and complete(CommitPartitionEpoch, expected):
            expected += 1
        assert [epoch for epoch, _ in calls.commits] == list(range(start, expected))
        assert all(messages == [(p, epoch) for p in range(partitions)] for epoch, messages in calls.commits)
