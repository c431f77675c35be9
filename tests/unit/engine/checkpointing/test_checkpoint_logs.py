"""The logs of a checkpoint: files, order, purge, and what is said about damage."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException, SparkRuntimeException

from minispark_stream.engine.checkpointing import stream_metadata
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager, redacted
from minispark_stream.engine.checkpointing.commit_log import CommitLog, CommitMetadata
from minispark_stream.engine.checkpointing.compactible_file_stream_log import (
    CompactionConf,
    FileEntry,
    FileStreamSourceLog,
    derive_compact_interval,
    log_offset,
)
from minispark_stream.engine.checkpointing.offset_seq_log import (
    RELEVANT_CONFS,
    OffsetMap,
    OffsetSeq,
    OffsetSeqLog,
    OffsetSeqMetadata,
    to_offsets,
)


class TestCheckpointFileManager:
    def test_a_file_can_be_created_once(self, tmp_path: Path) -> None:
        files = CheckpointFileManager(f"file://{tmp_path}")
        files.create_atomic("log/7", b"first")
        with pytest.raises(FileExistsError):
            files.create_atomic("log/7", b"second")
        assert files.open("log/7") == b"first"
        assert [p.name for p in (tmp_path / "log").iterdir()] == ["7"], "no temporary file stays behind"

    @pytest.mark.parametrize("scheme", ["", "file:", "FILE:", "File://"])
    def test_a_local_folder_under_any_of_its_names(self, tmp_path: Path, scheme: str) -> None:
        files = CheckpointFileManager(f"{scheme}{tmp_path}")
        assert (files.location, files.root) == (f"file:{tmp_path}", f"file:{tmp_path}")

    def test_overwriting_removes_a_checksum_that_no_longer_fits(self, tmp_path: Path) -> None:
        files = CheckpointFileManager(str(tmp_path))
        files.create_atomic("1.delta", b"old")
        (tmp_path / ".1.delta.crc").write_bytes(b"sum of old")
        files.create_atomic("1.delta", b"new", overwrite=True)
        assert files.open("1.delta") == b"new" and not (tmp_path / ".1.delta.crc").exists()

    @pytest.mark.parametrize("links", [True, False])
    def test_a_file_gets_another_name_on_this_machine(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
    ) -> None:
        files, copy = CheckpointFileManager(str(tmp_path / "of")), tmp_path / "copy"
        files.create_atomic("1.sst", b"table")
        if not links:
            monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(errno.EXDEV, "another disk")))
        files.copy_to("1.sst", str(copy))
        assert copy.read_bytes() == b"table" and copy.samefile(tmp_path / "of/1.sst") == links
        with pytest.raises(FileNotFoundError):
            files.copy_to("2.sst", str(tmp_path / "other"))

    def test_list_gives_names_sizes_and_times(self, tmp_path: Path) -> None:
        files = CheckpointFileManager(str(tmp_path))
        files.create_atomic("a", b"123")
        [(name, size, modified_ms)] = files.list()
        assert (name, size, modified_ms) == ("a", 3, (tmp_path / "a").stat().st_mtime_ns // 1_000_000)
        assert files.list("nothing") == []

    def test_deleting_what_is_not_there_is_no_error(self, tmp_path: Path) -> None:
        CheckpointFileManager(str(tmp_path)).delete("nothing")

    def test_a_file_system_of_pyarrow(self, tmp_path: Path) -> None:
        files = CheckpointFileManager("mock://bucket/checkpoint")
        files.create_atomic("offsets/0", b"x")
        with pytest.raises(FileExistsError):
            files.create_atomic("offsets/0", b"y")
        files.create_atomic("offsets/0", b"z", overwrite=True)
        assert (files.open("offsets/0"), files.exists("offsets/1"), [n for n, *_ in files.list("offsets")]) == (b"z", False, ["0"])
        assert files.identity("offsets/0") is not None and files.identity("offsets/1") is None
        files.delete("offsets/0")
        assert not files.exists("offsets/0")

    def test_a_file_system_without_links_that_syncs_no_folders(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def no_links(*names: str) -> None:
            raise PermissionError(1, "Operation not permitted")

        def sync_files_only(descriptor: int) -> None:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "Invalid argument")

        monkeypatch.setattr(os, "link", no_links)
        monkeypatch.setattr(os, "fsync", sync_files_only)
        files = CheckpointFileManager(str(tmp_path))
        files.create_atomic("offsets/7", b"first")
        with pytest.raises(FileExistsError):
            files.create_atomic("offsets/7", b"second")
        assert files.open("offsets/7") == b"first" and [name for name, *_ in files.list("offsets")] == ["7"]

    def test_without_links_a_kill_at_any_moment_leaves_the_name_free(self, tmp_path: Path) -> None:
        """A process for each of the system calls that the writing of a file makes; it dies before this call."""
        script = """
import os, sys
import fcntl
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
left = int(sys.argv[2])

def no_links(*names):
    raise PermissionError(1, "Operation not permitted")

def die(event, arguments):
    global left
    if event.startswith(("open", "os.", "fcntl.")):
        left -= 1
        if left < 0:
            os._exit(9)

os.link = no_links
files = CheckpointFileManager(sys.argv[1])
files.mkdirs("offsets")
sys.addaudithook(die)
files.create_atomic("offsets/7", b"whole")
print("done", flush=True)
os._exit(0)
"""
        for call in range(20):
            folder = tmp_path / str(call)
            command = [sys.executable, "-c", script, str(folder), str(call)]
            done = subprocess.run(command, capture_output=True, text=True)
            files = CheckpointFileManager(str(folder))
            assert not files.exists("offsets/7") or files.open("offsets/7") == b"whole"
            if done.stdout:
                break
            assert done.returncode == 9, done.stderr
        assert done.stdout and call >= 4, "killed at every one of its calls, and then at none"

    def test_without_links_one_of_several_writers_at_once_succeeds(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def no_links(*names: str) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", no_links)
        together, outcomes = threading.Barrier(8), []

        def write(number: int) -> None:
            files = CheckpointFileManager(str(tmp_path))
            together.wait()
            for name in map(str, range(20)):
                try:
                    files.create_atomic(name, str(number).encode())
                    outcomes.append((name, number))
                except FileExistsError:
                    pass

        writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert sorted(int(name) for name, _ in outcomes) == list(range(20)), "each name was given once"
        assert all((tmp_path / name).read_text() == str(number) for name, number in outcomes)

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_content_and_name_are_on_the_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool) -> None:
        synced: list[tuple[str, list[str]]] = []

        def fsync(descriptor: int) -> None:
            names = [p.name for p in (tmp_path / "offsets").iterdir() if not p.name.startswith(".")]
            synced.append((Path(os.readlink(f"/proc/self/fd/{descriptor}")).name[:3], names))

        monkeypatch.setattr(os, "fsync", fsync)
        CheckpointFileManager(str(tmp_path)).create_atomic("offsets/7", b"x", overwrite)
        assert synced == [(".7.", []), ("off", ["7"])]

    @pytest.mark.parametrize("uri", ["hdfs:/user/x", "s3a:/bucket/x"])
    def test_a_uri_with_one_slash_is_no_local_path(self, uri: str) -> None:
        with pytest.raises((OSError, ValueError)):  # without HDFS's library, or because pyarrow does not know it
            CheckpointFileManager(uri)

    def test_a_password_is_not_shown(self) -> None:
        files = CheckpointFileManager("s3://KEY:SECRET@bucket/ck?region=us-east-1")
        assert files.root == "s3://***@bucket/ck" and "SECRET" in files.location
        assert redacted("abfs://container@account.net/ck") == "abfs://container@account.net/ck"
        for damaged in ("s3://KEY:SEC/RET@bucket/ck", "s9://KEY:SECRET@bucket/ck"):
            with pytest.raises(ValueError, match=r"://\*\*\*@bucket/ck") as e:
                CheckpointFileManager(damaged)
            assert "RET" not in str(e.value)


METADATA = OffsetSeqMetadata(1, 2, {"spark.sql.shuffle.partitions": "2"})


class TestOffsetSeqLog:
    def test_an_entry_is_sparks_text(self, tmp_path: Path) -> None:
        log = OffsetSeqLog(str(tmp_path))
        log.add(0, OffsetSeq(('{"logOffset":0}', None), METADATA))
        assert (tmp_path / "0").read_text() == (
            'v1\n{"batchWatermarkMs":1,"batchTimestampMs":2,"conf":{"spark.sql.shuffle.partitions":"2"}}\n{"logOffset":0}\n-'
        )

    def test_only_what_java_reads_as_the_end_of_a_line_is_one(self, tmp_path: Path) -> None:
        offset = '{"folder":"\u2028 \u2029 \x85 \x0b \x0c \x1c"}'  # JSON may hold the first three as they are
        OffsetSeqLog(str(tmp_path)).add(0, OffsetSeq((offset, None), METADATA))
        assert OffsetSeqLog(str(tmp_path)).get(0) == OffsetSeq((offset, None), METADATA)
        (tmp_path / "0").write_bytes((tmp_path / "0").read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
        assert OffsetSeqLog(str(tmp_path)).get(0) == OffsetSeq((offset, None), METADATA)

    def test_a_folder_that_somebody_has_deleted_is_not_made_again(self, tmp_path: Path) -> None:
        log = OffsetSeqLog(str(tmp_path / "offsets"))
        log.add(0, OffsetSeq(("{}",), METADATA))
        (tmp_path / "offsets" / "0").unlink()
        (tmp_path / "offsets").rmdir()
        with pytest.raises(FileNotFoundError, match="offsets/1 cannot be written, because its folder is gone"):
            log.add(1, OffsetSeq(("{}",), METADATA))

    def test_a_second_writer_is_told(self, tmp_path: Path) -> None:
        entry = OffsetSeq((None,), METADATA)
        assert OffsetSeqLog(str(tmp_path)).add(0, entry)
        assert not OffsetSeqLog(str(tmp_path)).add(0, entry)

    def test_only_names_that_spark_writes_are_entries(self, tmp_path: Path) -> None:
        log = OffsetSeqLog(str(tmp_path))
        log.add(7, OffsetSeq((None,), METADATA))
        for junk in ("010", "+9", "٩", "1_0", "9 ", "99999999999999999999"):
            (tmp_path / junk).write_text("v1\njunk")
        assert log.list_batches() == [7] and log.get_latest_batch_id() == 7

    def test_purge_spares_the_threshold(self, tmp_path: Path) -> None:
        log = OffsetSeqLog(str(tmp_path))
        for i in range(5):
            log.add(i, OffsetSeq((str(i),), METADATA))
        assert log.purge(3) == [0, 1, 2]
        assert log.list_batches() == [3, 4]

    def test_what_is_no_batch_file_is_ignored(self, tmp_path: Path) -> None:
        log = OffsetSeqLog(str(tmp_path))
        log.add(3, OffsetSeq((None,), METADATA))
        for name in ("notes.txt", ".9.tmp", "9.crc", "-4", "٣"):
            (tmp_path / name).write_text("junk")
        assert log.list_batches() == [3]

    def test_an_entry_of_named_sources_is_sparks_text(self, tmp_path: Path) -> None:
        metadata = replace(METADATA, version=2)
        entry = to_offsets({0: '{"logOffset":0}', 1: "7"}, {"clicks": 0, "views": 1, "idle": 2}, metadata)
        OffsetSeqLog(str(tmp_path)).add(0, entry)
        assert (tmp_path / "0").read_text() == (
            'v2\n{"batchWatermarkMs":1,"batchTimestampMs":2,"conf":{"spark.sql.shuffle.partitions":"2"},"sourceMetadataInfo":{}}\n'
            'clicks:{"logOffset":0}\nviews:7'
        )
        assert OffsetSeqLog(str(tmp_path)).get(0) == entry

    def test_named_sources_find_their_offsets_whatever_the_query_looks_like_now(self) -> None:
        entry = OffsetMap({"clicks": "3", "views": "7", "idle": None}, replace(METADATA, version=2))
        assert entry.to_stream_progress({"new": 0, "views": 1, "idle": 2}) == {1: "7"}

    def test_a_stream_that_is_used_twice_has_one_line_in_version_2(self) -> None:
        twice = {"0": 0, "1": 0}
        entry = to_offsets({0: "3"}, twice, replace(METADATA, version=2))
        assert entry.by_id() == {"1": "3"} and entry.to_stream_progress(twice) == {0: "3"}
        assert to_offsets({0: "3"}, twice, METADATA).by_id() == {"0": "3", "1": "3"}

    def test_an_entry_of_the_continuous_engine_has_no_metadata(self, tmp_path: Path) -> None:
        (tmp_path / "0").write_text("v1\n\n3")
        assert OffsetSeqLog(str(tmp_path)).get(0) == OffsetSeq(("3",), None)

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            (b"", "Incomplete log file"),
            (b"v1", "Incomplete log file"),
            (b"garbage", "MALFORMED_LOG_FILE"),
            (b"v9\n{}", "supported log version is v2, but encountered v9"),
            (b"v1\n{bad", "Expecting property name"),
            (b"v1\n[]", "a JSON object was expected"),
            (b'v1\n{"batchWatermarkMs":"soon"}', "batchWatermarkMs must be an integer"),
            (b'v1\n{"conf":{"a":1}}', "conf must map names to texts"),
            (b"v2\n{}\nnonsense", "Invalid OffsetMap format"),
            (b"v2\n{}\n../x:3", "'../x' is no name of a source"),
            (b"v2\n\nclicks:3", "VERSION_2 offset log requires metadata"),
            (b"v1\n\xff\xfe", "can't decode"),
        ],
    )
    def test_damage_is_named_with_its_file(self, tmp_path: Path, content: bytes, says: str) -> None:
        (tmp_path / "0").write_bytes(content)
        with pytest.raises(SparkRuntimeException, match="Failed to read log file") as e:
            OffsetSeqLog(str(tmp_path)).get(0)
        assert says in str(e.value) and f"file:{tmp_path}/0" in str(e.value) and "Restore the file" in str(e.value)
        assert (tmp_path / "0").read_bytes() == content

    def test_deep_nesting_is_an_error_and_no_crash(self, tmp_path: Path) -> None:
        (tmp_path / "0").write_bytes(b"v1\n" + b'{"a":' * 100_000)
        with pytest.raises(SparkRuntimeException, match="Failed to read log file"):
            OffsetSeqLog(str(tmp_path)).get(0)

    @given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=2), max_size=4))
    def test_entries_survive(self, offsets: list[str | None]) -> None:
        named = {f"source_{i}": offset for i, offset in enumerate(offsets)}
        log = OffsetSeqLog("/nowhere")
        for entry in (OffsetSeq(tuple(offsets), METADATA), OffsetMap(named, replace(METADATA, version=2))):
            assert log.deserialize(log.serialize(entry)) == entry


class TestConfs:
    def test_the_logged_value_wins_and_a_missing_one_means_what_it_meant_then(self) -> None:
        session: dict[str, str] = dict.fromkeys(RELEVANT_CONFS, "session's")
        OffsetSeqMetadata(conf={"spark.sql.shuffle.partitions": "7"}).apply_to_session(session.__setitem__, session.get)
        assert session["spark.sql.streaming.internal.stateStore.partitions"] == "7"
        assert session["spark.sql.shuffle.partitions"] == "session's"
        assert session["spark.sql.streaming.aggregation.stateFormatVersion"] == "1"
        assert session["spark.sql.streaming.stateStore.providerClass"] == "session's"


class TestCommitLog:
    def test_an_entry_is_sparks_text(self, tmp_path: Path) -> None:
        CommitLog(str(tmp_path)).add(4, CommitMetadata(7))
        assert (tmp_path / "4").read_text() == 'v1\n{"nextBatchWatermarkMs":7}'

    def test_the_ids_of_the_state_make_it_version_2(self, tmp_path: Path) -> None:
        log, entry = CommitLog(str(tmp_path)), CommitMetadata(7, {"0": [["x"], ["y"]]})
        assert log.add(4, entry) and log.get(4) == entry
        assert (tmp_path / "4").read_text() == 'v2\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["x"],["y"]]}}'

    @pytest.mark.parametrize("text", [
        "v1", "v1\n{}", "v1\r\n{}\r\n", 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}',
        'v3\n{"nextBatchWatermarkMs":0,"sinkMetadataMap":{}}',
    ])
    def test_what_else_spark_accepts(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "0").write_text(text)
        assert CommitLog(str(tmp_path)).get(0) == CommitMetadata(0, {} if text.startswith("v2") else None)


class TestStreamMetadata:
    def test_the_id_is_made_once(self, tmp_path: Path) -> None:
        first = stream_metadata.read_or_create(str(tmp_path), lambda key: None)
        assert (tmp_path / "metadata").read_text() == f'{{"id":"{first}"}}'
        assert stream_metadata.read_or_create(str(tmp_path), lambda key: None) == first

    def test_logs_without_identity_are_refused(self, tmp_path: Path) -> None:
        CommitLog(f"{tmp_path}/commits").add(0, CommitMetadata())
        with pytest.raises(SparkRuntimeException) as e:
            stream_metadata.read_or_create(str(tmp_path), lambda key: None)
        assert e.value.getCondition() == "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
        assert not (tmp_path / "metadata").exists()


def entries(*names: str, batch_id: int) -> tuple[FileEntry, ...]:
    return tuple(FileEntry(f"file:///{name}", 1, batch_id) for name in names)


@pytest.mark.parametrize(
    ("offset", "entry"),
    [('{"logOffset":3}', 3), ('{"logOffset":true}', None), ('{"offset":3}', None), ("3", 3), ("3x", None), ("[" * 100_000, None), (None, None)],
)
def test_an_offset_of_a_file_source_names_an_entry_of_its_log(offset: str | None, entry: int | None) -> None:
    assert log_offset(offset) == entry


class TestFileStreamSourceLog:
    def log(self, path: Path, **conf: Any) -> FileStreamSourceLog:
        """Whenever this log looks at its clock, an hour has passed."""
        return FileStreamSourceLog(str(path), CompactionConf(**conf), now_ms=count(1e15, 3_600_000).__next__)

    def test_every_third_entry_repeats_all_before_it(self, tmp_path: Path) -> None:
        log = self.log(tmp_path, interval=3)
        for i in range(7):
            log.add(i, entries(f"f{i}", batch_id=i))
        assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "1", "2.compact", "3", "4", "5.compact", "6"]
        assert [e.path[-2:] for e in log.all_files()] == [f"f{i}" for i in range(7)]
        assert [e.path[-2:] for e in log.files_of(4, 5)] == ["f4", "f5"]

    def test_covered_files_are_deleted_when_enough_batches_are_kept(self, tmp_path: Path) -> None:
        log = self.log(tmp_path, interval=3, min_batches_to_retain=2)
        for i in range(9):
            log.add(i, entries(f"f{i}", batch_id=i))
        assert sorted(p.name for p in tmp_path.iterdir()) == ["5.compact", "6", "7", "8.compact"]
        assert [e.path[-2:] for e in log.files_of(3, 4)] == ["f3", "f4"], "found in the compact file"

    def test_a_file_is_deleted_ten_minutes_after_it_was_written_and_the_folder_is_not_listed_for_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        conf = CompactionConf(interval=3, min_batches_to_retain=1)
        FileStreamSourceLog(str(tmp_path), conf).add(0, entries("f0", batch_id=0))
        log = FileStreamSourceLog(str(tmp_path), conf, now_ms=lambda: time.time() * 1000 + minute * 60_000)
        monkeypatch.setattr(CheckpointFileManager, "list", None)
        for minute in range(1, 20):  # a batch each minute
            log.add(minute, entries(f"f{minute}", batch_id=minute))
            oldest = min(int(file.stem) for file in tmp_path.iterdir())
            assert oldest == max(0, minute - 9)

    def test_a_missing_entry_is_named(self, tmp_path: Path) -> None:
        log = self.log(tmp_path)
        for i in range(3):
            log.add(i, entries(f"f{i}", batch_id=i))
        (tmp_path / "1").unlink()
        with pytest.raises(SparkRuntimeException, match=r"1 doesn't exist \(latestId: 2, compactInterval: 10\)"):
            self.log(tmp_path).all_files()
        with pytest.raises(SparkRuntimeException, match="batch 1 doesn't exist"):
            self.log(tmp_path).files_of(0, 1)
        with pytest.raises(PySparkException, match=r"Unable to find batch .*/1\. Nothing was changed") as raised:
            self.log(tmp_path, interval=4).add(3, ())
        assert raised.value.getCondition() == "BATCH_METADATA_NOT_FOUND"

    @pytest.mark.parametrize("line", ["{}", '{"path":1,"timestamp":1,"batchId":0}', '{"path":"x","timestamp":"y","batchId":0}', "[1]"])
    def test_an_entry_that_is_none(self, tmp_path: Path, line: str) -> None:
        (tmp_path / "0").write_text(f"v1\n{line}")
        with pytest.raises(SparkRuntimeException, match="Failed to read log file"):
            self.log(tmp_path).all_files()

    def test_the_interval_of_the_files_that_are_there_is_kept(self, tmp_path: Path) -> None:
        first = self.log(tmp_path, interval=4)
        for i in range(8):
            first.add(i, entries(f"f{i}", batch_id=i))
        assert self.log(tmp_path, interval=10).interval == 4

    @pytest.mark.parametrize("kill_at", range(6))
    def test_a_kill_at_any_delete_loses_nothing(self, kill_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever the order of the listing; another conf after the kill."""
        listed, deleted, deletes = CheckpointFileManager.list, CheckpointFileManager.delete, iter(range(100))
        monkeypatch.setattr(CheckpointFileManager, "list", lambda *args, **named: sorted(listed(*args, **named), reverse=True))

        def killed(files: CheckpointFileManager, name: str) -> None:
            if next(deletes) == kill_at:
                raise KeyboardInterrupt
            deleted(files, name)

        monkeypatch.setattr(CheckpointFileManager, "delete", killed)
        log = self.log(tmp_path, interval=3, min_batches_to_retain=1)
        with pytest.raises(KeyboardInterrupt):
            for i in range(14):
                log.add(i, entries(f"f{i}", batch_id=i))
        latest = log.get_latest_batch_id()
        assert latest is not None
        for i in range(latest + 1, 14):
            log = self.log(tmp_path, interval=2 + i % 5, min_batches_to_retain=1)
            log.add(i, entries(f"f{i}", batch_id=i))
            assert [e.batch_id for e in log.all_files()] == list(range(i + 1))

    @pytest.mark.parametrize(("interval", "latest", "gone"), [(2, 6, 3), (3, 13, 8), (10, 3, None)])
    def test_a_log_with_a_gap_is_read_and_goes_on(self, interval: int, latest: int, gone: int | None, tmp_path: Path) -> None:
        """A compact file that a kill took before older ones; and a log that has no compact file yet."""
        log = self.log(tmp_path, interval=interval, delete_expired=False)
        for i in range(latest + 1):
            log.add(i, entries(f"f{i}", batch_id=i))
        if gone is not None:
            (tmp_path / f"{gone}.compact").unlink()
            for i in range(gone):
                (tmp_path / str(i)).unlink(missing_ok=True)
        for i in range(latest + 1, 20):
            log = self.log(tmp_path, interval=3, min_batches_to_retain=1)
            log.add(i, entries(f"f{i}", batch_id=i))
            assert [e.batch_id for e in log.all_files()] == list(range(i + 1))

    def test_a_history_that_is_lost_is_named(self, tmp_path: Path) -> None:
        log = self.log(tmp_path, interval=20)
        for i in range(17):
            log.add(i, entries(f"f{i}", batch_id=i))
        for i in range(14):
            (tmp_path / str(i)).unlink()
        for one in (self.log(tmp_path, interval=3), self.log(tmp_path, interval=30)):
            with pytest.raises(SparkRuntimeException, match="doesn't exist .* Restore the file from a copy, or start the query"):
                one.all_files()

    @pytest.mark.parametrize(("default", "latest", "interval"), [(5, 11, 6), (10, 9, 10), (2, 9, 2), (100, 9, 10), (7, 9, 10)])
    def test_an_interval_that_fits_the_one_compact_file(self, default: int, latest: int, interval: int) -> None:
        assert derive_compact_interval(default, latest) == interval

    @pytest.mark.parametrize(
        ("names", "interval"),
        [(["2147483646.compact"], 2147483647), (["999999999999999988.compact"], 10**18 - 11), (["2147483646.compact", "4294967293"], 2147483647)],
        ids=["32 bits", "18 digits", "not confirmed"],
    )
    def test_the_interval_of_a_forged_log_is_found_at_once(self, tmp_path: Path, names: list[str], interval: int) -> None:
        for name in names:
            (tmp_path / name).touch()
        assert self.log(tmp_path, interval=10).interval == interval
