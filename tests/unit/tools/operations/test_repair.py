"""A checkpoint on which no query can start: each damage is mended in a copy, and what cannot be mended is said."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from minispark_stream import inspect, repair, rollback
from minispark_stream.engine.checkpointing.compactible_file_stream_log import CompactionConf, FileEntry, FileStreamSourceLog
from minispark_stream.engine.checkpointing.file_stream_sink_log import FileStreamSinkLog, SinkFileStatus
from minispark_stream.engine.checkpointing.stream_metadata import read_id, read_or_create
from minispark_stream.tools.cli import main
from minispark_stream.tools.operations.mends import RepairRefused
from minispark_stream.tools.operations.rollback_plan import SET_ASIDE, RollbackRefused
from tests.unit.hand_made import content, keys_of, log_batch, state_files, values_of, windowed_count

LAST = 5
ID = "5b2f1c1e-0000-4000-8000-000000000000"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Batches 0 to 5, each with a file of its own; deltas 1 to 6, a snapshot at version 3."""
    path = tmp_path / "checkpoint"
    windowed_count(path)
    (tmp_path / "in").mkdir()
    for old in [*(path / "sources/0").iterdir(), *(path / "offsets").iterdir(), *(path / "commits").iterdir()]:
        old.unlink()
    log = FileStreamSourceLog(str(path / "sources/0"), CompactionConf())
    for i in range(LAST + 1):
        file = tmp_path / f"in/{i} ä.json"
        file.touch()
        os.utime(file, (1_700_000_000 + i, 1_700_000_000 + i))
        log.add(i, (FileEntry(file.as_uri(), 1_700_000_000_000 + 1000 * i, i),))
        log_batch(path, i, f'{{"logOffset":{i}}}')
    for partition in (0, 1):
        files = state_files(path, partition)
        for version in range(4, LAST + 2):
            files.write_delta(version, [(keys_of([(0, "a", 1)]), values_of([(0, "a", version)]))])
    assert inspect(str(path)).next.refused is None
    return path


def mended(checkpoint: Path, *says: str, **asked: object) -> Path:
    """The mended copy. The checkpoint is not changed, and what is said without `to` is what is done."""
    before = content(checkpoint)
    dry = repair(checkpoint, **asked)  # type: ignore[arg-type]
    copy = checkpoint.with_name("copy")
    done = repair(checkpoint, to=copy, **asked)  # type: ignore[arg-type]
    assert content(checkpoint) == before and dry.done is None and done.done == f"file:{copy}"
    assert len(done.mends) == len(dry.mends) == len(says)
    assert all(words in one.says for words, one in zip(says, done.mends))
    assert inspect(str(copy)).next.refused is None
    return copy


def test_nothing_to_mend(checkpoint: Path) -> None:
    (checkpoint / "offsets/.6.abc.tmp").touch()
    copy = mended(checkpoint)
    assert "nothing to mend" in str(repair(checkpoint)) and "1 temporary file" in str(repair(checkpoint))
    (checkpoint / "offsets/.6.abc.tmp").unlink()
    assert content(copy) == content(checkpoint)


def test_lost_metadata(checkpoint: Path) -> None:
    (checkpoint / "metadata").unlink()
    assert read_id(str(mended(checkpoint, f"with the id {ID}", query_id=ID))) == ID
    with pytest.raises(ValueError, match="UUID"):
        repair(checkpoint, query_id="7")
    (checkpoint / SET_ASIDE).write_text("{}")
    with pytest.raises(RepairRefused, match="a rollback was killed"):
        repair(checkpoint)


def test_metadata_that_cannot_be_read_gets_a_new_id(checkpoint: Path) -> None:
    (checkpoint / "metadata").write_text("{")
    assert read_id(str(mended(checkpoint, "with the id"))) is not None


def test_a_damaged_offset_that_is_not_committed(checkpoint: Path) -> None:
    (checkpoint / "offsets/6").write_text("v1\n{")
    (checkpoint / "offsets/.6.crc").touch()
    copy = mended(checkpoint, "batch 6 is planned anew")
    assert sorted(p.name for p in (copy / "offsets").iterdir()) == ["0", "1", "2", "3", "4", "5"]
    assert inspect(str(copy)).next.batch_id == 6


def test_a_damaged_offset_that_is_committed_takes_its_batch_back(checkpoint: Path) -> None:
    (checkpoint / f"offsets/{LAST}").write_text("v1\n{")
    copy = mended(checkpoint, f"Back to batch {LAST - 1}")
    assert inspect(str(copy)).next.batch_id == LAST and not (copy / f"state/0/0/{LAST + 1}.delta").exists()


def test_a_number_in_another_spelling(checkpoint: Path) -> None:
    (checkpoint / "offsets/010").write_bytes((checkpoint / "offsets/5").read_bytes())
    assert not (mended(checkpoint, "offsets/010 goes") / "offsets/010").exists()


def test_an_unreadable_partition_goes_back_to_the_newest_batch_that_loads(checkpoint: Path) -> None:
    (checkpoint / "state/0/1/5.delta").write_bytes(b"damaged")
    copy = mended(checkpoint, "Back to batch 3, the newest one that can be reached: 2 batches and 4 files of state")
    assert content(copy) == content(Path(str(rollback(checkpoint, 3, to=checkpoint.with_name("other")).done).removeprefix("file:")))


def test_a_missing_entry_of_the_source_log_takes_batches_back(checkpoint: Path) -> None:
    (checkpoint / "sources/0/3").unlink()
    copy = mended(checkpoint, "Back to batch 2")
    assert sorted(p.name for p in (copy / "sources/0").iterdir()) == ["0", "1", "2"]


def test_a_missing_entry_of_the_source_log_is_made_again_if_asked(checkpoint: Path) -> None:
    missing = (checkpoint / "sources/0/3").read_bytes()
    (checkpoint / "sources/0/3").unlink()
    (checkpoint / "sources/0/.3.crc").touch()  # Spark's checksum of the lost file
    (checkpoint.parent / "in/later.json").touch()  # now, which is after the batches were planned
    (checkpoint.parent / "in/_hidden").touch()
    copy = mended(checkpoint, "with 1 file: file:///", rebuild_source_log=True)
    assert (copy / "sources/0/3").read_bytes() == missing and not (copy / "sources/0/.3.crc").exists()
    (checkpoint.parent / "in/3 ä.json").unlink()
    with pytest.raises(RepairRefused, match="no file beside those"):
        repair(checkpoint, rebuild_source_log=True)


def test_several_damages_at_once(checkpoint: Path) -> None:
    (checkpoint / "metadata").unlink()
    (checkpoint / "offsets/6").write_text("")
    (checkpoint / "state/0/0/6.delta").unlink()
    assert inspect(str(mended(checkpoint, "metadata", "offsets/6", "Back to batch 4"))).next.batch_id == 5


def test_the_manifest_of_the_sink_goes_back_too(checkpoint: Path) -> None:
    log = FileStreamSinkLog(str(checkpoint.parent / "out/_spark_metadata"), CompactionConf())
    for i in range(LAST + 1):
        log.add(i, (SinkFileStatus(f"file:///out/{i}", 1, False, 1, 1, 1),))
        for place in (f"checkpoint/offsets/{i}", f"out/_spark_metadata/{i}", f"checkpoint/commits/{i}"):
            os.utime(checkpoint.parent / place, (1_700_000_000 + i, 1_700_000_000 + i))
    (checkpoint / "state/0/1/5.delta").unlink()
    with pytest.raises(RollbackRefused, match="has the manifest of a file sink"):
        repair(checkpoint)
    copy = mended(checkpoint, "Back to batch 3", sink=checkpoint.parent / "out")
    assert sorted(p.name for p in (checkpoint.parent / "out/_spark_metadata").iterdir()) == ["0", "1", "2", "3"]
    assert sorted(p.name for p in (copy / "_spark_metadata").iterdir()) == ["4", "5"]


def test_no_batch_can_be_gone_back_to(checkpoint: Path) -> None:
    for partition in (0, 1):
        for file in (checkpoint / f"state/0/{partition}").glob("*.delta"):
            file.write_bytes(b"damaged")
    with pytest.raises(RepairRefused, match="no batch can be gone back to.*new checkpoint"):
        repair(checkpoint)


@pytest.mark.parametrize("partition", ["0", "1"])
def test_a_lost_partition_is_in_no_batch(checkpoint: Path, partition: str) -> None:
    shutil.rmtree(checkpoint / "state/0" / partition)
    with pytest.raises(RepairRefused, match=f"no batch can be gone back to: partition {partition} of the state of operator 0 is missing"):
        repair(checkpoint)


def test_a_kill_leaves_a_copy_on_which_no_query_starts(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each file operation of the copy, and finished by a second call."""
    from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager

    (checkpoint / "metadata").unlink()
    done = 0
    while True:
        copy, calls = checkpoint.with_name(f"copy{done}"), 0
        create = CheckpointFileManager.create_atomic

        def counted(self: CheckpointFileManager, *args: object, **kwargs: object) -> object:
            nonlocal calls
            if "/copy" in self.location:
                if calls == done:  # noqa: B023
                    raise KeyboardInterrupt
                calls += 1
            return create(self, *args, **kwargs)  # type: ignore[arg-type]  # noqa: B023

        with monkeypatch.context() as patch:
            patch.setattr(CheckpointFileManager, "create_atomic", counted)
            try:
                repair(checkpoint, to=copy, query_id=ID)
                break
            except KeyboardInterrupt:
                pass
        assert not copy.exists() or inspect(str(copy)).next.refused is not None
        repair(checkpoint, to=copy, query_id=ID)
        assert inspect(str(copy)).next.batch_id == LAST + 1
        done += 7
    assert done > 20


def test_the_command(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkpoint / "metadata").unlink()
    assert main(["repair", str(checkpoint), "--query-id", ID]) == 0
    shown = capsys.readouterr().out
    assert "metadata is written again" in shown and "nothing was changed" in shown
    assert main(["repair", str(checkpoint), "--to", str(checkpoint.with_name("copy")), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"].endswith("/copy")
    assert main(["repair", str(checkpoint), "--query-id", "7"]) == 1 and "UUID" in capsys.readouterr().err
    assert read_or_create(str(checkpoint.with_name("copy")), lambda key: None)


def plan_one_more(checkpoint: Path) -> None:
    """Batch 6 is planned, and has tried to write its state in one partition."""
    file = checkpoint.parent / "in/6.json"
    file.touch()
    FileStreamSourceLog(str(checkpoint / "sources/0"), CompactionConf()).add(6, (FileEntry(file.as_uri(), 1_700_000_006_000, 6),))
    log_batch(checkpoint, 6, '{"logOffset":6}', next_watermark=None)
    files = state_files(checkpoint, 1)
    files.write_delta(7, [(keys_of([(0, "a", 1)]), values_of([(0, "a", 7)]))])
    (checkpoint / "state/0/1/7.snapshot").write_bytes((checkpoint / "state/0/1/7.delta").read_bytes())
    (checkpoint / "offsets/.5.crc").touch()


def test_a_batch_is_passed_over(checkpoint: Path) -> None:
    plan_one_more(checkpoint)
    copy = mended(checkpoint, "batch 6 is passed over", skip_batch=6)
    said = str(repair(checkpoint, skip_batch=6))
    assert "source 0 loses 1 file: " in said and "6.json" in said and "an empty batch with this number" in said
    assert (copy / "offsets/5").read_text() == (checkpoint / "offsets/5").read_text().replace(':5}', ':6}')
    assert not (copy / "offsets/.5.crc").exists()
    gone = content(checkpoint).keys() - content(copy).keys()
    assert gone == {"offsets/.5.crc", "state/0/1/7.delta", "state/0/1/7.snapshot"}
    report = inspect(str(copy))
    assert report.next.batch_id == 6 and report.next.rerun
    assert report.batches[-1].files == {"0": ()}


@pytest.mark.parametrize(("batch", "why"), [(5, "only batch 6 is run again"), (7, "only batch 6 is run again")])
def test_another_batch_is_not_passed_over(checkpoint: Path, batch: int, why: str) -> None:
    plan_one_more(checkpoint)
    with pytest.raises(RepairRefused, match=f"batch {batch} cannot be passed over: {why}"):
        repair(checkpoint, skip_batch=batch)


def test_a_batch_that_is_committed_is_not_passed_over(checkpoint: Path) -> None:
    with pytest.raises(RepairRefused, match="no batch is run again by a restart"):
        repair(checkpoint, skip_batch=LAST)


def test_the_first_batch_is_not_passed_over(checkpoint: Path) -> None:
    for log in ("offsets", "commits"):
        for entry in (checkpoint / log).iterdir():
            if entry.name != "0" or log == "commits":
                entry.unlink()
    shutil.rmtree(checkpoint / "state")
    with pytest.raises(RepairRefused, match="nothing was committed before it"):
        repair(checkpoint, skip_batch=0)


def test_a_batch_that_the_sink_has_written_is_not_passed_over(checkpoint: Path, tmp_path: Path) -> None:
    plan_one_more(checkpoint)
    log = FileStreamSinkLog(str(tmp_path / "out/_spark_metadata"), CompactionConf())
    for batch in range(7):
        log.add(batch, (SinkFileStatus(f"file:///out/{batch}", 1, False, 1, 1, 1),))
    with pytest.raises(RepairRefused, match="its rows are written"):
        repair(checkpoint, skip_batch=6, sink=tmp_path / "out")
    (tmp_path / "out/_spark_metadata/6").unlink()
    mended(checkpoint, "batch 6 is passed over", skip_batch=6, sink=tmp_path / "out")


def test_what_is_passed_over_of_a_source_without_files(tmp_path: Path) -> None:
    for batch, (start, end) in enumerate([(0, 3), (3, 8)]):
        log_batch(tmp_path / "ck", batch, f'{{"t":{{"0":{end}}}}}', f'{{"own":{start}}}', next_watermark=None if batch else 0)
    (tmp_path / "ck/metadata").write_text(f'{{"id":"{ID}"}}')
    costs = repair(tmp_path / "ck", skip_batch=1).mends[0].costs
    assert costs == ('source 0 loses 5 records: t/0 3 to 8; source 1 loses what is between {"own":0} and {"own":3}; '
                     "the sink gets an empty batch with this number")


def test_the_command_passes_over_a_batch(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan_one_more(checkpoint)
    assert main(["repair", str(checkpoint), "--skip-batch", "6"]) == 0
    assert capsys.readouterr().out.startswith("mend   batch 6 is passed over")
    assert main(["repair", str(checkpoint), "--skip-batch", "5"]) == 1
