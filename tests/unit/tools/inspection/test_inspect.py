"""What `inspect` says about a checkpoint, whole or damaged. No JVM: these checkpoints are made by hand."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from pyspark.errors import SparkRuntimeException
from pyspark.sql.types import LongType, StructType

from minispark_stream import inspect
from minispark_stream.engine.checkpointing.budget import Budget, LimitExceeded
from minispark_stream.engine.checkpointing.commit_log import CommitLog, CommitMetadata
from minispark_stream.engine.checkpointing.compactible_file_stream_log import CompactionConf, FileEntry, FileStreamSourceLog
from minispark_stream.engine.checkpointing.lz4_block import compress
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetMap, OffsetSeqLog, OffsetSeqMetadata
from minispark_stream.engine.checkpointing.stream_metadata import read_or_create
from minispark_stream.tools.cli import main
from minispark_stream.tools.inspection.contents import DecodedStateRow, Refusal
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.inspection.report import CheckpointReport
from minispark_stream.tools.inspection.store_versions import DeltaReader
from tests.unit.hand_made import NOON_MS, content, encode, keys_of, log_batch, state_files, values_of, windowed_count


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return windowed_count(tmp_path / "cp")


def key(minute: int, k: str) -> dict[str, Any]:
    return {"window": {"start": f"2024-01-01 12:{minute:02}:00", "end": f"2024-01-01 12:{minute + 5:02}:00"}, "k": k}


def findings(report: CheckpointReport) -> list[str]:
    return [str(f) for f in report.findings]


# --- what is there ---------------------------------------------------------------------------------------------


def test_a_checkpoint_without_faults_has_no_findings(checkpoint: Path) -> None:
    report = inspect(str(checkpoint))
    assert findings(report) == []
    assert report.query_id == json.loads((checkpoint / "metadata").read_text())["id"]
    assert report.path == f"file:{checkpoint}"


def test_batches_have_offsets_watermarks_times_confs_commits_and_files(checkpoint: Path) -> None:
    first, second, third = inspect(str(checkpoint)).batches
    assert [b.offsets for b in (first, second, third)] == [{"0": f'{{"logOffset":{n}}}'} for n in (0, 1, 1)]
    assert (second.watermark_ms, second.next_watermark_ms) == (NOON_MS, NOON_MS + 300_000)
    assert second.timestamp_ms == 1_710_000_000_001
    assert second.conf["spark.sql.shuffle.partitions"] == "2"
    assert [b.committed for b in (first, second, third)] == [True] * 3
    assert [b.files for b in (first, second, third)] == [{"0": ("file:///in/0.json",)}, {"0": ("file:///in/1.json",)}, {"0": ()}]


def test_spark_2_1_wrote_the_offset_of_a_file_source_as_a_number(checkpoint: Path) -> None:
    before = inspect(str(checkpoint))
    for entry in (checkpoint / "offsets").iterdir():
        entry.write_text(re.sub(r'\{"logOffset":(\d)\}', r"\1", entry.read_text()))
    report = inspect(str(checkpoint))
    assert [b.files for b in report.batches] == [b.files for b in before.batches] and report.sources[0].kind == "files"
    assert report.next == before.next


def test_the_state_is_decoded(checkpoint: Path) -> None:
    (operator,) = inspect(str(checkpoint)).operators
    assert (operator.operator_id, operator.name, operator.num_partitions, operator.provider) == (0, "stateStoreSave", 2, "HDFS-backed")
    (store,) = operator.stores
    assert store.schemas[0].key.simpleString() == "struct<window:struct<start:timestamp,end:timestamp>,k:string>"
    assert [(p.version, p.num_keys, [v.num_keys for v in p.versions]) for p in store.partitions] == [
        (3, 1, [1, 2, 1]), (3, 0, [1, 1, 0]),
    ]
    assert store.partitions[0].sample == (DecodedStateRow(0, key(5, "a"), {"count": 1, "sum": "10.00"}),)
    assert store.history == {1: 2, 2: 3, 3: 1}


def test_rows_of_any_version(checkpoint: Path) -> None:
    report = inspect(str(checkpoint))
    assert report.rows(version=2) == (
        DecodedStateRow(0, key(0, "a"), {"count": 2, "sum": "20.00"}),
        DecodedStateRow(0, key(5, "a"), {"count": 1, "sum": "10.00"}),
        DecodedStateRow(1, key(0, "b"), {"count": 1, "sum": "10.00"}),
    )
    assert report.rows(version=2, partition=1) == (DecodedStateRow(1, key(0, "b"), {"count": 1, "sum": "10.00"}),)
    assert len(report.rows(version=2, limit=1)) == 1
    assert report.rows(version=0) == ()


@pytest.mark.parametrize(
    "asked", [{"k": "b"}, key(0, "b"), [key(0, "b")["window"], "b"], {"window": {"start": "2024-01-01 12:00:00"}, "k": "b"}]
)
def test_a_row_is_found_by_all_or_some_of_its_key(checkpoint: Path, asked: Any) -> None:
    assert inspect(str(checkpoint)).find(asked, version=1) == (DecodedStateRow(1, key(0, "b"), {"count": 1, "sum": "10.00"}),)


def test_the_difference_of_two_versions(checkpoint: Path) -> None:
    changes = inspect(str(checkpoint)).diff(1, 2)
    assert [(c.mark, c.key, c.before, c.after) for c in changes] == [
        ("~", key(0, "a"), {"count": 1, "sum": "10.00"}, {"count": 2, "sum": "20.00"}),
        ("+", key(5, "a"), None, {"count": 1, "sum": "10.00"}),
    ]
    assert [(c.mark, c.partition) for c in inspect(str(checkpoint)).diff(2, 3)] == [("-", 0), ("-", 1)]


def test_a_question_that_has_no_answer_says_what_there_is(checkpoint: Path) -> None:
    report = inspect(str(checkpoint))
    for ask, says in [
        (lambda: report.rows(7), "there is no operator 7 with state here: 0"),
        (lambda: report.rows(store="left"), "has the stores default"),
        (lambda: report.rows(partition=9), "no partition 9, but 0, 1"),
        (lambda: report.rows(version=9), "version 9 is not on disk, 1 to 3 are"),
        (lambda: report.find({"word": "a"}), "the key has no column word, but window, k"),
        (lambda: report.find(["a"]), "has 2 columns"),
    ]:
        with pytest.raises(ValueError, match=says):
            ask()


def test_any_file_system_of_pyarrow(checkpoint: Path) -> None:
    elsewhere = fs.SubTreeFileSystem(str(checkpoint.parent), fs.LocalFileSystem())
    there, here = inspect("cp", elsewhere), inspect(str(checkpoint))
    assert json.loads(there.to_json()) | {"path": here.path} == json.loads(here.to_json())
    assert inspect(f"file://{checkpoint}").to_json() == here.to_json()
    assert there.rows(version=2) == here.rows(version=2)


def test_nothing_is_ever_written(checkpoint: Path) -> None:
    before = content(checkpoint)
    report = inspect(str(checkpoint))
    report.rows()
    str(report), report.to_json(), report._repr_html_()
    assert content(checkpoint) == before
    reader = report.states[0].partitions[0].reader
    assert isinstance(reader, DeltaReader)
    for write in (lambda: reader.files.write_delta(4, []), lambda: reader.files.delete("1.delta")):
        with pytest.raises(PermissionError, match="inspecting"):
            write()


def test_no_jvm_is_needed(checkpoint: Path) -> None:
    program = (
        "import sys; from minispark_stream import inspect; from pyspark import SparkContext\n"
        "str(inspect(sys.argv[1])); assert SparkContext._gateway is None"
    )
    env = {"PATH": "", "JAVA_HOME": "/nowhere", "PYTHONPATH": ":".join(p for p in sys.path if p)}
    subprocess.run([sys.executable, "-c", program, str(checkpoint)], env=env, check=True, stdin=subprocess.DEVNULL)


# --- what comes next -------------------------------------------------------------------------------------------


def test_a_finished_batch_is_followed_by_a_new_one(checkpoint: Path) -> None:
    upcoming = inspect(str(checkpoint)).next
    assert (upcoming.batch_id, upcoming.rerun) == (3, False)
    assert upcoming.says == "batch 3 next, a new one: batch 2 is in both logs, so it is done. It begins where offsets/2 ends"


def test_a_batch_that_is_not_committed_runs_again(checkpoint: Path) -> None:
    (checkpoint / "commits/2").unlink()
    report = inspect(str(checkpoint))
    assert (report.next.batch_id, report.next.rerun) == (2, True)
    assert "commits/2 is missing" in report.next.says
    assert findings(report) == ["warning: logs: batch 2 was planned but is not committed: it runs again"]
    assert report.operators[0].stores[0].partitions[0].version == 2  # what batch 2 begins with


def test_logs_that_disagree(checkpoint: Path) -> None:
    (checkpoint / "commits/2").unlink()
    (checkpoint / "commits/1").unlink()
    report = inspect(str(checkpoint))
    assert (report.next.batch_id, report.next.rerun) == (2, True)
    assert "the logs disagree" in report.next.says


def test_a_commit_without_its_offsets_stands_in_the_way_of_the_batch_before(checkpoint: Path) -> None:
    (checkpoint / "offsets/2").unlink()
    report = inspect(str(checkpoint))
    assert (report.next.batch_id, report.next.rerun) == (1, True)
    assert report.next.says.startswith(
        "batch 1 next, again: offsets/1 says what it reads. The last entry of commits/ is 2, although it should be 0 or 1"
    )
    assert report.next.refused == Refusal(
        "at the end of its first batch", "commits/1", "it exists already, so the batch cannot be committed",
        "CONCURRENT_STREAM_LOG_UPDATE",
    )


@pytest.mark.parametrize("left", ["commits", "state"])
def test_offsets_that_somebody_has_deleted(checkpoint: Path, left: str) -> None:
    shutil.rmtree(checkpoint / "offsets")
    if left == "state":
        shutil.rmtree(checkpoint / "commits")
    report = inspect(str(checkpoint))
    assert (report.next.batch_id, report.next.rerun) == (None, False)
    assert report.next.refused is not None and report.exit_code == 1
    assert {"commits": "commits/2 exists", "state": "state/ is not empty"}[left] in report.next.refused.says
    assert not any("without the state" in finding for finding in findings(report))


def test_who_goes_on_from_a_continuous_query(checkpoint: Path) -> None:
    offsets = checkpoint / "offsets/2"
    version, _, *sources = offsets.read_text().split("\n")
    offsets.write_text("\n".join([version, "", *sources]))
    report = inspect(str(checkpoint))
    assert report.next.batch_id is None and "it was run with a continuous trigger" in report.next.says
    for entry in (checkpoint / "offsets").iterdir():
        version, _, *sources = entry.read_text().split("\n")
        entry.write_text("\n".join([version, "", *sources]))
    (checkpoint / "commits/2").unlink()
    upcoming = inspect(str(checkpoint)).next  # the same query goes on after the last epoch that was committed
    assert (upcoming.batch_id, upcoming.rerun) == (2, True)
    assert upcoming.says.startswith("epoch 2 next: it begins where offsets/1 ends. It was run with a continuous trigger")


def test_a_folder_that_is_a_link_is_said_to_be_left_out(checkpoint: Path) -> None:
    (checkpoint / "offsets").rename(checkpoint.parent / "elsewhere")
    (checkpoint / "offsets").symlink_to(checkpoint.parent / "elsewhere")
    assert any("offsets" in finding and "symbolic link" in finding for finding in findings(inspect(str(checkpoint))))


def test_a_new_query_begins_with_batch_0(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id":"00000000-0000-4000-8000-000000000000"}')
    report = inspect(str(tmp_path))
    assert (report.next.batch_id, report.next.rerun, report.batches, findings(report)) == (0, False, (), [])


@pytest.mark.parametrize(
    ("lost", "says"),
    [
        ("metadata", "the file is missing, so nobody knows which query this is"),
        ("offsets/1", 'offsets/1: a restart fails in its first batch: "batch 1 doesn\'t exist": it is missing: batch 2 begins'),
    ],
)
def test_a_restart_that_fails(checkpoint: Path, lost: str, says: str) -> None:
    (checkpoint / lost).unlink()
    report = inspect(str(checkpoint))
    assert report.next.batch_id is None
    assert any(f.startswith("error") and says in f for f in findings(report))


# --- findings --------------------------------------------------------------------------------------------------


def test_a_gap_in_a_log(checkpoint: Path) -> None:
    (checkpoint / "offsets/0").unlink()
    log_batch(checkpoint, 5, '{"logOffset":1}')
    assert "warning: offsets: 3 to 4 are missing, between 2 and 5" in findings(inspect(str(checkpoint)))


def test_a_missing_delta(checkpoint: Path) -> None:
    (checkpoint / "state/0/1/2.delta").unlink()
    report = inspect(str(checkpoint))
    (finding,) = findings(report)
    condition = "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS"
    says = f"a restart fails in its first batch: [{condition}] cannot be loaded: 2.delta is missing"
    assert finding == f"error: state/0/1: {says} -> minispark_stream repair CHECKPOINT"
    assert f"It fails in its first batch: [{condition}] state/0/1: cannot be loaded" in report.next.says
    with pytest.raises(ValueError, match="2.delta is missing"):
        report.rows(partition=1)
    assert len(report.rows(partition=0)) == 1


def test_an_old_delta_that_nobody_needs(checkpoint: Path) -> None:
    state = dict(zip(keys_of([(5, "a", 1)]), values_of([(5, "a", 1)])))
    state_files(checkpoint, 0).write_snapshot(3, list(state), list(state.values()))
    (checkpoint / "state/0/0/1.delta").unlink()
    report = inspect(str(checkpoint))
    assert [f.level for f in report.findings] == ["warning"]
    assert report.rows(partition=0) == (DecodedStateRow(0, key(5, "a"), {"count": 1, "sum": "10.00"}),)


def test_a_snapshot_that_is_not_what_the_deltas_say(checkpoint: Path) -> None:
    state_files(checkpoint, 0).write_snapshot(2, [], [])
    assert any("2.snapshot is not what the deltas before it add up to" in f for f in findings(inspect(str(checkpoint))))


def test_a_damaged_snapshot_is_found_though_the_deltas_are_there(checkpoint: Path) -> None:
    (checkpoint / "state/0/0/3.snapshot").write_bytes(b"garbage")
    report = inspect(str(checkpoint))
    (finding,) = report.findings
    assert finding.level == "warning" and "3.snapshot" in finding.says
    assert len(report.rows(partition=0)) == 1  # from the deltas, as Spark does


def test_a_missing_version_in_one_partition(checkpoint: Path) -> None:
    (checkpoint / "state/0/1/3.delta").unlink()
    assert findings(inspect(str(checkpoint))) == [
        "error: state/0/1: a restart fails in its first batch: [CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] "
        "cannot be loaded: version 3 is not on disk, 1 to 2 are -> minispark_stream repair CHECKPOINT"
    ]


def test_a_missing_partition(checkpoint: Path) -> None:
    for delta in (checkpoint / "state/0/0").glob("*.delta"):
        delta.unlink()
    assert any("partition 0 is missing: only 1 of 2 partitions exist" in f for f in findings(inspect(str(checkpoint))))


def test_changed_shuffle_partitions(checkpoint: Path) -> None:
    log_batch(checkpoint, 3, '{"logOffset":1}', conf={"spark.sql.shuffle.partitions": "4"})
    found = findings(inspect(str(checkpoint)))
    assert any("offsets/3: spark.sql.shuffle.partitions was changed from 2 to 4" in f for f in found)


def test_state_that_only_grows(tmp_path: Path) -> None:
    windowed_count(tmp_path)
    for version in range(1, 13):
        if version > 3:
            log_batch(tmp_path, version - 1, '{"logOffset":1}')
        row = [(version, "x", 1)]
        for partition in (0, 1):
            state_files(tmp_path, partition).write_delta(version, [(keys_of(row), values_of(row))])
    assert any("the state only grows: 2 keys in version 1, 24 in version 12" in f for f in findings(inspect(str(tmp_path))))


def test_a_state_that_shrinks_now_and_then_does_not_grow(tmp_path: Path) -> None:
    windowed_count(tmp_path)
    for version in range(1, 13):
        if version > 3:
            log_batch(tmp_path, version - 1, '{"logOffset":1}')
        new, old = [(version, "x", 1)], [(version - 2, "x", 1)]
        for partition in (0, 1):
            state_files(tmp_path, partition).write_delta(version, [(keys_of(new), values_of(new)), (keys_of(old), [None] * len(old))])
    assert findings(inspect(str(tmp_path))) == []


def test_state_ahead_of_the_logs(checkpoint: Path) -> None:
    for log in ("offsets", "commits"):
        (checkpoint / log / "2").unlink()
    assert any("version 3 exists, although batch 1 is the last one" in f for f in findings(inspect(str(checkpoint))))


def test_temporary_files(checkpoint: Path) -> None:
    (checkpoint / "offsets/.3.5c1e.tmp").touch()
    assert findings(inspect(str(checkpoint))) == [
        "note: files: temporary files of a writer that died, or is writing now: offsets/.3.5c1e.tmp "
        "-> minispark_stream repair CHECKPOINT --to COPY"
    ]


def test_what_a_finding_names_is_a_command_that_exists_and_works(checkpoint: Path) -> None:
    (checkpoint / "offsets/.3.5c1e.tmp").touch()
    for log in ("offsets", "commits"):
        (checkpoint / log / "2").unlink()
    commands = [f.command for f in inspect(str(checkpoint)).findings]
    assert commands == ["rollback CHECKPOINT 1", "repair CHECKPOINT --to COPY"]
    paths = {name: str(checkpoint.with_name(name)) for name in ("COPY", "COPY2")} | {"CHECKPOINT": str(checkpoint)}
    for command in (commands[1], f"{commands[0]} --to COPY2"):
        assert main([paths.get(word, word) for word in command.split()]) == 0
    assert [f.command for f in inspect(paths["COPY"]).findings] == ["rollback CHECKPOINT 1"]
    assert findings(inspect(paths["COPY2"])) == []


def test_a_source_log_that_lacks_what_a_batch_read(checkpoint: Path) -> None:
    (checkpoint / "sources/0/1").unlink()
    log_batch(checkpoint, 3, '{"logOffset":2}')
    (checkpoint / "commits/3").unlink()
    (finding,) = (f for f in findings(inspect(str(checkpoint))) if "error" in f)
    assert "\"batch 2 doesn't exist\": batch 3 reads the entries 2 to 2 of the log" in finding


def test_a_compacted_source_log(checkpoint: Path) -> None:
    lines = [(checkpoint / f"sources/0/{i}").read_text().split("\n")[1] for i in range(2)]
    for i in range(2):
        (checkpoint / f"sources/0/{i}").unlink()
    (checkpoint / "sources/0/9.compact").write_text("\n".join(["v1", *lines]))
    report = inspect(str(checkpoint))
    assert findings(report) == []
    assert [b.files for b in report.batches] == [{"0": ("file:///in/0.json",)}, {"0": ("file:///in/1.json",)}, {"0": ()}]


def test_named_sources_are_shown_by_their_names(tmp_path: Path) -> None:
    """`views` is new in batch 1; `clicks` is away in batch 2, and goes on where it was."""
    read_or_create(str(tmp_path), lambda key: None)
    for batch_id, ends in enumerate([{"clicks": 0}, {"clicks": 1, "views": 0}, {"views": 1}, {"clicks": 2, "views": 1}]):
        offsets = {name: f'{{"logOffset":{n}}}' for name, n in ends.items()}
        OffsetSeqLog(str(tmp_path / "offsets")).add(batch_id, OffsetMap(offsets, OffsetSeqMetadata(version=2)))
        CommitLog(str(tmp_path / "commits")).add(batch_id, CommitMetadata(0))
        for name, n in ends.items():
            log = FileStreamSourceLog(str(tmp_path / "sources" / name), CompactionConf())
            log.add(n, (FileEntry(f"file:///{name}/{n}.json", 0, n),))
    report = inspect(str(tmp_path))
    assert findings(report) == [] and [source.source_id for source in report.sources] == ["clicks", "views"]
    clicks = [("file:///clicks/0.json",), ("file:///clicks/1.json",), (), ("file:///clicks/2.json",)]
    assert [b.files["clicks"] for b in report.batches] == clicks
    assert "clicks logOffset 2 | views logOffset 1" in str(report) and "clicks  files, 3 files in its log" in str(report)
    assert "source views: files, 2 files in its log" in report.to_html(tmp_path / "page.html").read_text()


def test_an_unreadable_log_entry_does_not_hide_the_others(checkpoint: Path) -> None:
    (checkpoint / "offsets/0").write_text("garbage")
    report = inspect(str(checkpoint))
    (finding,) = report.findings
    assert finding.level == "warning" and finding.where == "offsets/0"
    assert "MALFORMED_LOG_FILE" in finding.says and "Failed to read log file offsets/0" in finding.says
    assert [b.unreadable for b in report.batches] == [("offsets/0",), (), ()]


def test_a_missing_schema(checkpoint: Path) -> None:
    (checkpoint / "state/0/0/_metadata/schema").unlink()
    report = inspect(str(checkpoint))
    assert [(f.level, f.where) for f in report.findings] == [("warning", "state/0/0/_metadata/schema")]
    assert report.operators[0].stores[0].num_keys == 1
    with pytest.raises(ValueError, match="the key schema is not known"):
        report.rows()


def test_a_row_that_does_not_fit_the_schema(checkpoint: Path) -> None:
    wrong = StructType().add("n", LongType())
    state_files(checkpoint, 1).write_delta(3, [(encode(wrong, [1]), encode(wrong, [2]))])
    (finding,) = findings(inspect(str(checkpoint)))
    assert finding.startswith("error: state/0/1") and "a key does not fit the schema" in finding


def test_row_checksums(tmp_path: Path) -> None:
    windowed_count(tmp_path, {"spark.sql.streaming.stateStore.rowChecksum.enabled": "true"})
    (finding, *_) = findings(inspect(str(tmp_path)))  # these deltas were written without
    assert "Row checksum verification failed" in finding


# --- what cannot be opened -------------------------------------------------------------------------------------


def test_what_cannot_be_listed_is_named(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkpoint.parent / "secret").write_text("password")
    (checkpoint / "commits/99").symlink_to("../../secret")
    (checkpoint / "offsets/99").symlink_to("99")
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("sources/0"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    report = inspect(str(checkpoint))
    named = {f.where: f.says for f in reversed(report.findings) if f.level == "warning"}
    assert named["sources/0"] == "left out, because it cannot be listed: Permission denied"
    assert named["commits/99"] == "left out, because it is a symbolic link"
    assert named["offsets/99"] == "what a restart does cannot be told: it is a symbolic link"
    assert "password" not in str(report) and report.next.unknown is not None and report.exit_code == 3
    with pytest.raises(ValueError, match="commits/99: Too many levels of symbolic links"):
        ReadOnlyFiles(str(checkpoint), None, Budget(1000)).open("commits/99")


def test_a_directory_that_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "readme").touch()
    with pytest.raises(ValueError, match="is not the checkpoint of a streaming query: .* but readme"):
        inspect(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="is not a directory"):
        inspect(str(tmp_path / "nowhere"))


def test_no_more_is_read_than_allowed(checkpoint: Path) -> None:
    with pytest.raises(LimitExceeded, match="offsets/0: more than 300 bytes of memory: allow more with --max-bytes"):
        inspect(str(checkpoint), max_bytes=300)
    assert main(["inspect", str(checkpoint), "--max-bytes", "10"]) == 3
    big = [(minute, "x" * 100, 1) for minute in range(2000)]
    state_files(checkpoint, 0).write_delta(3, [(keys_of(big), values_of(big))])
    report = inspect(str(checkpoint), max_bytes=100_000)
    (finding,) = report.findings
    assert finding.level == "warning" and finding.says.startswith("what a restart does cannot be told: ")
    assert "3.delta: more than 100,000 bytes of memory" in finding.says and report.exit_code == 3
    (checkpoint / "state/0/0/3.delta").write_bytes(compress(bytes(8 * 10_000) + b"\xff" * 4))  # empty keys, empty values
    assert "more than 100,000 bytes of memory" in inspect(str(checkpoint), max_bytes=100_000).findings[0].says
    assert report.operators[0].stores[0].partitions[0].num_keys is None


def test_a_damaged_delta_names_file_and_byte(checkpoint: Path) -> None:
    delta = checkpoint / "state/0/0/2.delta"
    delta.write_bytes(delta.read_bytes()[:-30])
    report = inspect(str(checkpoint))
    assert "2.delta" in report.findings[0].says and "byte 0: the file ends inside a block" in report.findings[0].says
    with pytest.raises(SparkRuntimeException, match="2.delta"):
        report.rows(partition=0)


# --- how it is shown -------------------------------------------------------------------------------------------


def test_the_text(checkpoint: Path) -> None:
    text = str(inspect(str(checkpoint)))
    assert "next       batch 3 next, a new one" in text
    assert "  1   logOffset 1  2024-01-01 12:00:00" in text
    assert "batch 1 read 1 file: 1.json" in text
    assert "operator 0  stateStoreSave, 2 partitions, HDFS-backed" in text
    assert "partition 0: versions 1-3 (3 deltas, " in text and "; version 3 has 1 key" in text
    assert "window=[2024-01-01 12:05, 12:10) k=a -> count=1 sum=10.00" in text


def test_the_json_has_everything(checkpoint: Path) -> None:
    report = json.loads(inspect(str(checkpoint)).to_json())
    assert set(report) == {"path", "query_id", "next", "batches", "sources", "operators", "findings"}
    assert report["operators"][0]["stores"][0]["schemas"][0]["value"]["fields"][1]["type"] == "decimal(30,2)"
    assert report["operators"][0]["stores"][0]["partitions"][0]["sample"][0]["key"] == key(5, "a")


def test_html_and_text_obey_nothing_that_a_file_says(checkpoint: Path, tmp_path: Path) -> None:
    log_batch(checkpoint, 3, '{"x":"<script>alert(1)</script>\x1b[31m\\ud800"}')
    report = inspect(str(checkpoint))
    page = report.to_html(tmp_path / "out.html").read_text()
    assert page.count("<script") == 1 and "<script>//" in page  # the page's own
    assert "&lt;script&gt;" in page and page.startswith("<!doctype html>")
    assert "\x1b" not in page and "\x1b" not in str(report) and "\x1b" not in report.to_json()
    str(report).encode(), report.to_json().encode()
    assert report._repr_html_().startswith("<div class='ms ck'>") and "<script" not in report._repr_html_()


# --- the command -----------------------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    assert main(["inspect", *map(str, arguments)]) == code
    return capsys.readouterr().out


def test_the_command(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "batch 3 next" in run(capsys, checkpoint)
    assert json.loads(run(capsys, checkpoint, "--json"))["next"]["batch_id"] == 3
    assert "out.html" in run(capsys, checkpoint, "--html", tmp_path / "out.html")
    assert run(capsys, checkpoint, "--key", '{"k": "b"}', "--version", 1) == (
        "partition 1  window=[2024-01-01 12:00, 12:05) k=b -> count=1 sum=10.00\n"
    )
    assert run(capsys, checkpoint, "--diff", 2, 3, "--partition", 1).startswith("- partition 1  window=")
    assert json.loads(run(capsys, checkpoint, "--diff", 1, 2, "--json"))[0]["mark"] == "~"
    assert run(capsys, checkpoint, "--operator", 0, "--version", 2).count("\n") == 3
    assert run(capsys, checkpoint, "--version", 2, "--rows", 1).count("\n") == 1


def test_the_command_prints_no_escapes_of_a_terminal(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("\x1b[31m", "\x9b31m"):
        (checkpoint / f"state/0/0/{name}").mkdir()
        (checkpoint / f"state/0/0/{name}/1.delta").write_bytes(b"junk")
    (tmp_path / "other/\x1b[31m").mkdir(parents=True)
    (tmp_path / "other/\x1b[31m/\x9b.tmp").touch()
    shown = [run(capsys, checkpoint, code=2), run(capsys, checkpoint, "--json", code=2)]  # these are not stores
    assert main(["inspect", str(tmp_path / "other")]) == 3
    shown.append(capsys.readouterr().err)
    assert all("\\u001b[31m" in text and "\x1b" not in text and "\x9b" not in text for text in shown)
    assert "\x9b31m" in [store["name"] for store in json.loads(shown[1])["operators"][0]["stores"]]


def test_the_command_fails_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path / "nowhere")]) == 3
    assert capsys.readouterr().err == f"inspect: file:{tmp_path}/nowhere is not a directory\n"
