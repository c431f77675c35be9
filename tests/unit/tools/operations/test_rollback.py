"""Back to a batch: what is removed for each kind of store, what is refused, and what a kill leaves."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from minispark_stream import inspect, rollback
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.commit_log import CommitLog, CommitMetadata
from minispark_stream.engine.checkpointing.compactible_file_stream_log import CompactionConf, FileEntry, FileStreamSourceLog
from minispark_stream.engine.checkpointing.file_stream_sink_log import FileStreamSinkLog, SinkFileStatus
from minispark_stream.engine.checkpointing.stream_metadata import read_or_create
from minispark_stream.extras.rocksdb.changes import PUT, Record
from minispark_stream.tools.cli import main
from minispark_stream.tools.operations.rollback_plan import SET_ASIDE, RollbackRefused
from tests.unit.hand_made import content, keys_of, log_batch, state_files, values_of, windowed_count
from tests.unit.rocksdb_files import ROCKSDB_CONF, changelog, sst, write_snapshot

LAST = 7


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Batches 0 to 7. Each reads a file but the last one; a snapshot is at the versions 3, 6 and 8, and Spark has kept checksums."""
    path = tmp_path / "checkpoint"
    windowed_count(path)
    for i in range(8):
        (tmp_path / f"{i}.json").touch()
    shutil.rmtree(path / "sources")
    source = FileStreamSourceLog(str(path / "sources/0"), CompactionConf())
    for i in range(LAST):
        source.add(i, (FileEntry((tmp_path / f"{i}.json").as_uri(), 1, i),))
    for batch in range(3, LAST + 1):
        log_batch(path, batch, f'{{"logOffset":{min(batch, LAST - 1)}}}')
    for batch in range(3):
        (path / f"offsets/{batch}").unlink()
        log_batch(path, batch, f'{{"logOffset":{batch}}}', next_watermark=None)
    for partition in (0, 1):
        files = state_files(path, partition)
        rows = [(0, "a", 1)]
        for version in range(1, LAST + 2):
            files.write_delta(version, [(keys_of(rows), values_of([(0, "a", version)]))])
        for version in (3, 6, 8):
            files.write_snapshot(version, keys_of(rows), values_of([(0, "a", version)]))
    for file in [*path.rglob("[0-9]*")]:
        if file.is_file():
            (file.parent / f".{file.name}.crc").write_bytes(b"crc")
    return path


@pytest.fixture
def sink(tmp_path: Path) -> Path:
    log = FileStreamSinkLog(str(tmp_path / "out/_spark_metadata"), CompactionConf())
    for i in range(LAST + 1):
        log.add(i, (SinkFileStatus(f"file:///out/{i}", 1, False, 1, 1, 1),))
        (tmp_path / f"out/_spark_metadata/.{i}.crc").touch()
    return tmp_path / "out"


def numbers(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_file())


def with_checksums(*names: Any) -> list[str]:
    return sorted([*map(str, names), *(f".{name}.crc" for name in names)])


def test_what_goes_and_what_stays(checkpoint: Path, sink: Path, tmp_path: Path) -> None:
    before = content(checkpoint)
    done = rollback(checkpoint, 3, to=tmp_path / "copy", sink=sink)
    assert done.done == f"file:{tmp_path}/copy" and done.next_batch == 4 and content(checkpoint) == before
    copy = tmp_path / "copy"
    assert numbers(copy / "offsets") == numbers(copy / "commits") == numbers(copy / "sources/0") == with_checksums(0, 1, 2, 3)
    for partition in (0, 1):
        kept = with_checksums("1.delta", "2.delta", "3.delta", "3.snapshot", "4.delta")
        assert numbers(copy / f"state/0/{partition}") == kept
    assert numbers(sink / "_spark_metadata") == with_checksums(0, 1, 2, 3)
    assert numbers(copy / "_spark_metadata") == with_checksums(4, 5, 6, 7)  # kept there
    assert "start no query from the original again" in str(done)
    report = inspect(str(copy))
    assert report.next.batch_id == 4 and not report.next.rerun and not report.findings
    assert done.plan.reads_again == tuple((tmp_path / f"{i}.json").as_uri() for i in (4, 5, 6))


def test_nothing_is_changed_without_a_target(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = content(checkpoint)
    assert main(["rollback", str(checkpoint), "3"]) == 0
    printed = capsys.readouterr().out
    assert "back to batch 3; the next batch is 4: batches 4 to 7 are taken back" in printed and "nothing was changed" in printed
    assert "the original" not in printed  # there is no sink that goes back with the copy
    assert main(["rollback", str(checkpoint), "3", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["next_batch"] == 4 and shown["done"] is None and "state/0/0/8.snapshot" in shown["remove"]["state"]
    assert content(checkpoint) == before


def test_in_place_with_a_backup(checkpoint: Path, tmp_path: Path) -> None:
    before = content(checkpoint)
    assert main(["rollback", str(checkpoint), "5", "--in-place", "--backup", str(tmp_path / "backup")]) == 0
    assert content(tmp_path / "backup") == before
    assert inspect(str(checkpoint)).next.batch_id == 6
    kept = {name for name in before if not any(name.endswith(end) for end in ("/6", "/7", "/.6.crc", "/.7.crc"))}
    assert set(content(checkpoint)) == {name for name in kept if not any(f"{v}." in name for v in (7, 8))}


def test_an_entry_of_a_source_is_not_the_batch(checkpoint: Path, tmp_path: Path) -> None:
    """The last batch has read nothing: the source's log ends with entry 6."""
    for batch in (4, 5):  # as if they had read nothing, either
        (checkpoint / f"offsets/{batch}").unlink()
        log_batch(checkpoint, batch, '{"logOffset":3}', next_watermark=None)
    plan = rollback(checkpoint, 5).plan
    assert [name for name in plan.remove["sources"] if not name.endswith(".crc")] == [f"sources/0/{i}" for i in (6, 5, 4)]


def test_versions_of_rocksdb(tmp_path: Path) -> None:
    """Zips, changelogs, and those with unique ids, whose checksums are no hidden files."""
    path = tmp_path / "ck"
    windowed_count(path, ROCKSDB_CONF)
    for old in path.glob("state/0/*/*.delta"):
        old.unlink()
    (path / "state/0/1").rmdir()
    shutil.rmtree(path / "sources")
    folder = path / "state/0/0"
    ids = {v: f"{v}{'0' * 7}-0000-0000-0000-{'0' * 12}" for v in range(1, 4)}
    put = [Record(PUT, b"\0" + keys_of([(0, "a", 1)])[0], b"\0" + values_of([(0, "a", 1)])[0])]
    for v in (1, 2, 3):
        (path / f"offsets/{v - 1}").unlink()
        (path / f"commits/{v - 1}").unlink()
        log_batch(path, v - 1, '{"logOffset":-1}', next_watermark=None, conf={**ROCKSDB_CONF, "spark.sql.shuffle.partitions": "1"})
        CommitLog(str(path / "commits")).add(v - 1, CommitMetadata(0, {"0": [[ids[v]]]}))
        lineage = {u: ids[u] for u in range(1, v)}
        (folder / f"{v}_{ids[v]}.changelog").write_bytes(changelog(put, 3, lineage))
        (folder / f"{v}_{ids[v]}.changelog.crc").touch()
    write_snapshot(folder, f"3_{ids[3]}", [sst(enumerate(put, 1))])
    (folder / "3.zip").write_bytes((folder / f"3_{ids[3]}.zip").read_bytes())
    (folder / "3.changelog").write_bytes(changelog(put))
    plan = rollback(path, 1).plan
    assert sorted(plan.remove["state"]) == sorted(f"state/0/0/{name}" for name in (
        f"3_{ids[3]}.changelog", f"3_{ids[3]}.changelog.crc", f"3_{ids[3]}.zip", "3.zip", "3.changelog"))
    (path / "commits/1").write_text('v1\n{"nextBatchWatermarkMs":0}')
    with pytest.raises(RollbackRefused, match="commits/1 does not say which of the files of version 2 counts"):
        rollback(path, 1)


def delete(*names: str) -> Callable[[Path], None]:
    def damage(checkpoint: Path) -> None:
        for name in names:
            (checkpoint / name).unlink()

    return damage


def damage_state(checkpoint: Path) -> None:
    (checkpoint / "state/0/0/4.delta").write_bytes(b"x")


def lose_a_partition(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "state/0/0")
    shutil.copytree(checkpoint / "state/0/1", checkpoint / "state/0/2")


def compact(checkpoint: Path) -> None:
    (checkpoint / "sources/0/2").rename(checkpoint / "sources/0/4.compact")
    (checkpoint / "sources/0/4").unlink()


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "no commit": (delete("commits/3"), "commits/3 is missing"),
    "no offsets": (delete("offsets/3"), "offsets/3 is missing"),
    "no offsets before": (delete("offsets/2"), "offsets/2, without which no restart begins"),
    "no metadata": (delete("metadata"), "metadata is missing"),
    "no state": (delete("state/0/1/4.delta", "state/0/1/6.snapshot"), "version 4 of its state cannot be loaded"),
    "damaged state": (damage_state, "version 4 of its state cannot be loaded"),
    "a lost partition": (lose_a_partition, "partition 0"),
    "the last partition is lost": (lambda checkpoint: shutil.rmtree(checkpoint / "state/0/1"), "partition 1 of the state"),
    "a file to be read again is gone": (delete("../5.json"), "5.json, which would be read again"),
    "compacted": (compact, "sources/0/2 is missing: only a later compact"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_reached_is_refused(checkpoint: Path, tmp_path: Path, name: str) -> None:
    damage, says = REFUSED[name]
    damage(checkpoint)
    before = content(checkpoint)
    with pytest.raises(RollbackRefused, match=says):
        rollback(checkpoint, 3, to=tmp_path / "copy", sink="none")
    assert content(checkpoint) == before and not (tmp_path / "copy").exists()


def test_the_nearest_batch_is_named(checkpoint: Path) -> None:
    (checkpoint / "state/0/0/4.delta").unlink()
    (checkpoint / "state/0/0/5.delta").unlink()
    with pytest.raises(RollbackRefused, match="the nearest batch that can be reached is 2"):
        rollback(checkpoint, 3)
    with pytest.raises(RollbackRefused, match="commits/9 is missing .* nearest batch that can be reached is 7"):
        rollback(checkpoint, 9)


def test_a_copy_may_have_another_query_id(checkpoint: Path, tmp_path: Path) -> None:
    ids = [inspect(str(checkpoint)).query_id]
    for name, new_id in (("same", False), ("other", True)):
        rollback(checkpoint, 3, to=tmp_path / name, new_id=new_id)
        ids.append(inspect(str(tmp_path / name)).query_id)
    assert ids[0] == ids[1] != ids[2]
    assert content(tmp_path / "same") | {"metadata": b""} == content(tmp_path / "other") | {"metadata": b""}
    with pytest.raises(ValueError, match="in a copy"):
        rollback(checkpoint, 3, in_place=True, backup=tmp_path / "backup", new_id=True)


def test_a_file_sink_must_be_named(checkpoint: Path, sink: Path, tmp_path: Path) -> None:
    rollback(checkpoint, 3)  # they were not written together
    for i in range(LAST + 1):
        for name, at in ((f"checkpoint/offsets/{i}", 1), (f"out/_spark_metadata/{i}", 2), (f"checkpoint/commits/{i}", 3)):
            os.utime(tmp_path / name, (at, at))
    with pytest.raises(RollbackRefused, match="out has the manifest of a file sink"):
        rollback(checkpoint, 3)
    assert rollback(checkpoint, 3, sink="none").plan.remove["manifest"] == ()
    assert rollback(checkpoint, 3, sink=sink).plan.remove["manifest"][::2] == ("7", "6", "5", "4")
    with pytest.raises(RollbackRefused, match="not the folder of a file sink"):
        rollback(checkpoint, 3, sink=tmp_path)
    (sink / "_spark_metadata/8").touch()
    with pytest.raises(RollbackRefused, match="another query has written it"):
        rollback(checkpoint, 3, sink=sink)


def test_arguments_that_do_not_fit(checkpoint: Path, tmp_path: Path) -> None:
    for wrong in ({"in_place": True}, {"backup": tmp_path / "b"}, {"in_place": True, "backup": tmp_path / "b", "to": tmp_path / "c"}):
        with pytest.raises(ValueError, match="in a copy .to., or in place with a backup"):
            rollback(checkpoint, 3, **wrong)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    with pytest.raises(RollbackRefused, match="full is not empty"):
        rollback(checkpoint, 3, to=tmp_path / "full")


# --- kills -----------------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


@pytest.fixture
def kill_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """Kills the process, as it were, before its nth operation on a file; called without a number, it says how many are left."""
    left = [10**9]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return real(*args, **kwargs)

        return call

    for name in ("create_atomic", "delete"):
        monkeypatch.setattr(CheckpointFileManager, name, counted(getattr(CheckpointFileManager, name)))
    monkeypatch.setattr(os, "rename", counted(os.rename))
    def set_left(n: int | None = None) -> int:
        if n is not None:
            left[0] = n
        return left[0]

    yield set_left


def state_of(path: Path) -> str:
    """What a start of the query would do."""
    if not path.exists():
        return "not there"
    try:
        read_or_create(str(path), lambda key: None)
    except Exception as e:
        return str(e.getCondition())  # type: ignore[attr-defined]
    return f"batch {inspect(str(path)).next.batch_id}"


REFUSES = "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"


@pytest.mark.parametrize("how", ["in place", "copy", "copy with another id"])
def test_a_kill_at_any_file_operation(
    checkpoint: Path, sink: Path, tmp_path: Path, kill_at: Callable[..., int], how: str
) -> None:
    original, manifest = content(checkpoint), content(sink)
    right: dict[str, bytes] | None = None
    points = [10**9]
    while points:
        n = points.pop()
        for folder, files in ((checkpoint, original), (sink, manifest)):
            shutil.rmtree(folder)
            for name, data in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)
        for left in ("copy", "backup", "copy.partial"):
            shutil.rmtree(tmp_path / left, ignore_errors=True)
        target = checkpoint if how == "in place" else tmp_path / "copy"
        where: dict[str, Any] = {"in_place": True, "backup": tmp_path / "backup"} if how == "in place" else {"to": target, "new_id": how != "copy"}
        kill_at(n)
        try:
            rollback(checkpoint, 3, sink=sink, **where)
        except Killed:
            kill_at(10**9)
            found, entries = state_of(target), len(content(sink))
            if how == "in place":
                assert found == REFUSES or (found == "batch 8" and entries == len(manifest)) or (found == "batch 4" and entries == 8)
            else:
                assert found in (REFUSES, "not there") and content(checkpoint) == original
            assert found != "not there" or entries == len(manifest)
            if found == REFUSES:
                (target / ".metadata.crc").write_bytes(b"crc")  # which a start that Spark refuses leaves
            rollback(checkpoint, 3, sink=sink, **where)  # finishes it
        if n == 10**9:  # of the many copies, only some; of all that comes after them, each
            total = 10**9 - kill_at()
            points = [*range(6), *range(6, total - 45, 9), *range(total - 45, total)]
        if how == "in place":
            assert content(tmp_path / "backup").items() >= original.items()
        result = {**content(target), **{f"sink/{name}": data for name, data in content(sink).items()}}
        result = {name: data for name, data in result.items() if name != SET_ASIDE}
        assert ".metadata.crc" not in result
        assert (result["metadata"] != original["metadata"]) == (how == "copy with another id")
        right = right or result
        assert {n for n in result if not n.startswith("_spark_metadata")} == {n for n in right if not n.startswith("_spark_metadata")}
        assert state_of(target) == "batch 4"
