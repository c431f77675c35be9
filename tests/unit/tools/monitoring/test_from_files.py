"""The numbers of a checkpoint, from its files alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from minispark_stream import metrics
from minispark_stream.tools.cli import main
from minispark_stream.tools.monitoring.families import OF_CHECKPOINT, OF_FILES
from tests.unit.hand_made import content, windowed_count

parser = pytest.importorskip("prometheus_client.parser")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / 'a "check"\npoint'
    windowed_count(path)
    return path


def values(checkpoint: Path) -> dict[str, float]:
    found = metrics(checkpoint)
    assert {one.labels[0] for one in found} == {f"file:{checkpoint}"}
    assert all(len(one.labels) == len((*OF_CHECKPOINT, *OF_FILES[one.name].labels)) for one in found)
    return {",".join([one.name.removeprefix("checkpoint_"), *one.labels[1:]]): one.value for one in found}


def test_batches_state_and_times(checkpoint: Path):
    before = content(checkpoint)
    found = values(checkpoint)
    assert content(checkpoint) == before
    assert (found["planned_batch"], found["committed_batch"]) == (2, 2)
    assert found["last_commit_timestamp_seconds"] == pytest.approx((checkpoint / "commits/2").stat().st_mtime, abs=0.01)
    assert found["state_rows,0,default"] > 0 and found["state_file_bytes,0,default"] > 0
    assert found["restart"] in (0, 2) and found["findings,error"] == 0


def test_a_batch_that_is_not_committed(checkpoint: Path):
    (checkpoint / "commits/2").unlink()
    found = values(checkpoint)
    assert (found["planned_batch"], found["committed_batch"]) == (2, 1)


def test_a_checkpoint_on_which_no_query_starts(checkpoint: Path):
    (checkpoint / "metadata").unlink()
    found = values(checkpoint)
    assert found["restart"] == 1 and found["findings,error"] > 0


def test_the_files_that_wait(tmp_path: Path, checkpoint: Path):
    from minispark_stream.engine.checkpointing.compactible_file_stream_log import CompactionConf, FileEntry, FileStreamSourceLog

    for name in ("a.json", "b.json", "c.json", "_hidden"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).touch()
    for old in (checkpoint / "sources/0").iterdir():
        old.unlink()
    FileStreamSourceLog(str(checkpoint / "sources/0"), CompactionConf()).add(0, (FileEntry((tmp_path / "in/a.json").as_uri(), 1, 0),))
    found = values(checkpoint)
    assert (found["files_read,0"], found["files_waiting,0"]) == (1, 2)


def test_the_command_writes_what_prometheus_reads(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["metrics", str(checkpoint)]) == 0
    printed = capsys.readouterr().out
    families = list(parser.text_string_to_metric_families(printed))
    assert {one.labels["checkpoint"] for family in families for one in family.samples} == {f"file:{checkpoint}"}
    target = tmp_path / "checkpoint.prom"
    assert main(["metrics", str(checkpoint), str(tmp_path / "none"), "--out", str(target)]) == 3
    assert "none" in capsys.readouterr().err and "planned_batch" in target.read_text()
    assert [p.name for p in tmp_path.glob("*.prom*")] == ["checkpoint.prom"]
