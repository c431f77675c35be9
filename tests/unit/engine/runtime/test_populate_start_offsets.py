"""Where a query begins, as a table: what is in the two logs, and which batch runs first."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeq, OffsetSeqMetadata
from minispark_stream.engine.checkpointing.recovery import LogState, decide
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.runtime.populate_start_offsets import populate_start_offsets
from minispark_stream.engine.sources.file import _log_offset
from minispark_stream.engine.sources.rate import _seconds
from minispark_stream.engine.sources.rate_micro_batch import _parsed
from tests.unit.fake_query import Counter, FakeQuery, log, steps


@pytest.mark.parametrize(
    "last_offsets, last_commit, logs, batch_id",
    [
        (None, None, LogState.NEW, 0),
        (None, 3, LogState.NO_OFFSETS, 0),
        (2, 2, LogState.DONE, 3),
        (2, 1, LogState.UNFINISHED, 2),
        (0, None, LogState.UNFINISHED, 0),
        (5, 2, LogState.COMMITS_LOST, 5),
        (5, None, LogState.COMMITS_LOST, 5),
        (1, 2, LogState.OFFSETS_LOST, 1),
    ],
)
def test_what_the_logs_decide(last_offsets: int | None, last_commit: int | None, logs: LogState, batch_id: int) -> None:
    assert decide(last_offsets, last_commit) == (logs, batch_id)


def test_lost_commits_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, commits in {"lost": {2: 0}, "trailing": {4: 0}}.items():
        query = FakeQuery(tmp_path / name, Counter())
        log(query, {4: "5", 5: "9"}, commits)
        with caplog.at_level(logging.WARNING):
            populate_start_offsets(query, MicroBatchExecutionContext())
    assert caplog.text.count("not trailing batchid") == 1


@pytest.mark.parametrize(
    "behaviour, offsets, commits, batch_id, start, end, again",
    [
        ("a new query begins with batch 0", {}, {}, 0, {}, {}, False),
        ("a finished batch is followed by the next", {0: "5", 1: "9"}, {0: 0, 1: 0}, 2, {0: "9"}, {0: "9"}, False),
        ("an unfinished batch runs again", {0: "5", 1: "9"}, {0: 0}, 1, {0: "5"}, {0: "9"}, True),
        ("so does an unfinished first batch", {0: "5"}, {}, 0, {}, {0: "5"}, True),
        ("and a batch whose commits somebody deleted", {2: "5", 3: "9"}, {0: 0}, 3, {0: "5"}, {0: "9"}, True),
        ("and a batch after which somebody deleted offsets", {0: "5", 1: "9"}, {0: 0, 1: 0, 2: 0}, 1, {0: "5"}, {0: "9"}, True),
    ],
)
def test_the_first_batch_of_a_run(
    tmp_path: Path,
    behaviour: str,
    offsets: dict[int, str],
    commits: dict[int, int],
    batch_id: int,
    start: dict[int, str],
    end: dict[int, str],
    again: bool,
) -> None:
    query = FakeQuery(tmp_path, Counter())
    log(query, offsets, commits)
    context = populate_start_offsets(query, MicroBatchExecutionContext())
    assert (context.batch_id, context.start_offsets, context.end_offsets) == (batch_id, start, end), behaviour
    assert context.is_current_batch_constructed == again, behaviour
    assert steps(query) == ["populateStartOffsets"]


@pytest.mark.parametrize("logged, committed, watermark", [(20, 30, 30), (20, 0, 20)])
def test_the_watermark_is_the_greater_of_what_both_logs_say(
    tmp_path: Path, logged: int, committed: int, watermark: int
) -> None:
    query = FakeQuery(tmp_path, Counter())
    log(query, {0: "5", 1: "9"}, {0: 0, 1: committed}, watermark_ms=logged)
    context = populate_start_offsets(query, MicroBatchExecutionContext())
    assert context.watermark_tracker.current_watermark == watermark
    assert context.previous_watermark_ms == logged  # late rows are found by what the batch before ran under


def test_an_unfinished_batch_runs_under_its_logged_watermark(tmp_path: Path) -> None:
    query = FakeQuery(tmp_path, Counter())
    log(query, {0: "5", 1: "9"}, {0: 99}, watermark_ms=20)
    context = populate_start_offsets(query, MicroBatchExecutionContext())
    assert (context.metadata.batch_watermark_ms, context.previous_watermark_ms) == (20, 20)


def test_the_logged_confs_win_over_the_sessions(tmp_path: Path) -> None:
    query = FakeQuery(tmp_path, Counter())
    policy = "spark.sql.streaming.multipleWatermarkPolicy"
    query.session.conf.set(policy, "min")
    query.offset_log.add(0, OffsetSeq(("5",), OffsetSeqMetadata(conf={policy: "max"})))
    context = populate_start_offsets(query, MicroBatchExecutionContext())
    assert query.conf(policy) == context.metadata.conf[policy] == "max"


def test_a_source_is_asked_for_its_last_finished_batch_once_more(tmp_path: Path) -> None:
    source = Counter()
    query = FakeQuery(tmp_path, source)
    log(query, {0: "5", 1: "9"}, {0: 0, 1: 0})
    populate_start_offsets(query, MicroBatchExecutionContext())
    assert source.asked == [("5", "9")]


def test_the_entry_before_the_last_must_be_there(tmp_path: Path) -> None:
    query = FakeQuery(tmp_path, Counter())
    log(query, {2: "9"}, {})
    with pytest.raises(RuntimeError, match="batch 1 doesn't exist"):
        populate_start_offsets(query, MicroBatchExecutionContext())


def test_the_query_must_have_as_many_sources_as_its_log(tmp_path: Path) -> None:
    query = FakeQuery(tmp_path, Counter(), Counter())
    log(query, {0: "5"}, {})
    with pytest.raises(AssertionError, match=r"\[1\] sources in the checkpoint offsets and now there are \[2\].*or a new checkpoint location"):
        populate_start_offsets(query, MicroBatchExecutionContext())


@pytest.mark.parametrize(
    ("parse", "offset", "kind"),
    [(_log_offset, '{"offset":2,"timestamp":2000}', "file"), (_log_offset, "one", "file"), (_seconds, '{"logOffset":0}', "rate"),
     (partial(_parsed, start_ms=0), '{"logOffset":0}', "rate-micro-batch")],
)
def test_a_source_refuses_the_offset_of_a_source_of_another_kind(parse: Callable[[str], Any], offset: str, kind: str) -> None:
    """As Spark does: "No usable value for offset", "For input string", with another text for each pair of kinds."""
    with pytest.raises(RuntimeError, match=f"is not one of a {kind} source.*or a new checkpoint location"):
        parse(offset)


def test_a_file_source_takes_the_offset_of_spark_2_1() -> None:
    """A bare number, which Spark takes to this day."""
    assert _log_offset("1") == 1


def test_an_error_does_not_show_a_password(tmp_path: Path) -> None:
    query = FakeQuery(tmp_path, Counter())
    query.checkpoint = "s3://KEY:SECRET@bucket/checkpoint"
    log(query, {}, {0: 0})
    with pytest.raises(AssertionError, match="assertion failed: s3://.*@bucket/checkpoint/commits has batch 0") as e:
        populate_start_offsets(query, MicroBatchExecutionContext())
    assert "SECRET" not in str(e.value)


def test_commits_without_offsets_are_no_new_query(tmp_path: Path) -> None:
    query = FakeQuery(tmp_path, Counter())
    log(query, {}, {0: 0, 1: 0})
    with pytest.raises(AssertionError, match="assertion failed: .*/commits has batch 1, but there are no offsets"):
        populate_start_offsets(query, MicroBatchExecutionContext())
