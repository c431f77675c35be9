"""The folder of a file sink, made by hand: what the manifest lists, what is there, and whether a checkpoint fits."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minispark_stream import inspect
from minispark_stream.engine.checkpointing.budget import LimitExceeded
from minispark_stream.engine.checkpointing.compactible_file_stream_log import CompactionConf
from minispark_stream.engine.checkpointing.file_stream_sink_log import FOLDER, FileStreamSinkLog, SinkFileStatus
from minispark_stream.tools.cli import main
from minispark_stream.tools.inspection.sink_folder import SinkReport, inspect_sink
from tests.unit.hand_made import content, log_batch, windowed_count


def status(path: Path, size: int = 3, action: str = "add") -> SinkFileStatus:
    return SinkFileStatus(path.as_uri(), size, False, 1, 1, 1, action)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Batches 0 to 12, and 9 is compacted. Batch n has the file `k=a b/part-n` of 3 bytes, but batch 11 has none."""
    out = tmp_path / "out"
    (out / "k=a b").mkdir(parents=True)
    log = FileStreamSinkLog(str(out / FOLDER), CompactionConf())
    for i in range(13):
        part = out / f"k=a b/part-{i}"
        if i != 11:
            part.write_text("abc")
        log.add(i, () if i == 11 else (status(part),))
    (out / "k=a b/.part-0.crc").touch()
    (out / "_staging-1/k=a").mkdir(parents=True)
    (out / "_staging-1/k=a/part-x").touch()
    return out


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Its newest batch is 12, which is committed."""
    path = tmp_path / "checkpoint"
    windowed_count(path)
    for batch in range(3, 13):
        log_batch(path, batch, f'{{"logOffset":{batch}}}')
    return path


def said(report: SinkReport, level: str) -> str:
    return "\n".join(str(finding) for finding in report.findings if finding.level == level)


def test_a_whole_folder(out: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = content(out)
    report = inspect_sink(out, checkpoint=checkpoint)
    assert report.findings == () and report.exit_code == 0 and content(out) == before
    assert [(e.name, e.files) for e in report.entries] == [
        *((str(i), None) for i in range(9)), ("9.compact", 10), ("10", 1), ("11", 0), ("12", 1),
    ]
    assert report.listed == tuple(f"k=a b/part-{i}" for i in range(13) if i != 11) and report.unlisted == ()
    for arguments in ([str(out), "--checkpoint", str(checkpoint)], [str(checkpoint), "--sink", str(out)], [str(out)]):
        assert main(["inspect", *arguments]) == 0
    assert capsys.readouterr().out == f"{report}\n" * 3
    assert report.reader == "sees 12 files; not those in no entry: 0"
    assert "12 listed: 0 of them missing" in str(report) and "9.compact   10 files of all batches so far" in str(report)


def test_each_file_is_named(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (out / "k=a b/part-1").unlink()
    assert inspect_sink(out).reader == "fails: see the findings"
    (out / "k=a b/part-2").write_text("abcd")
    (out / "k=a b/part-killed").touch()
    (out / "checkpoint/offsets").mkdir(parents=True)
    (out / "checkpoint/metadata").touch()
    assert main(["inspect", str(out), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["missing"] == ["k=a b/part-1"] and found["unlisted"] == ["k=a b/part-killed"]
    assert found["other_size"] == {"k=a b/part-2": [3, 4]}
    assert [(one["level"], one["says"].partition(":")[0]) for one in found["findings"]] == [
        ("error", "1 file is listed and not there"), ("warning", "1 file is not as long as the manifest says"),
        ("warning", "1 file is in no entry"),
    ]


DAMAGE: dict[str, tuple[Callable[[Path], Any], int, str, str]] = {
    "the compact file is missing": (
        lambda log: (log / "9.compact").unlink(), 1, "error", "_spark_metadata/9.compact: it is missing"),
    "an entry after it is missing": (
        lambda log: (log / "11").unlink(), 1, "error",
        "_spark_metadata/11: it is missing: a reader fails, and so does the next batch that compacts [BATCH_METADATA_NOT_FOUND]"),
    "an entry before it is missing": (lambda log: (log / "4").unlink(), 0, "error", ""),
    "an entry is empty": (lambda log: (log / "12").write_text(""), 1, "error", "_spark_metadata/12: Incomplete log file"),
    "an entry is cut": (lambda log: (log / "12").write_text('v1\n{"path":"f'), 1, "error", "_spark_metadata/12: Unterminated"),
    "an entry is a link": (
        lambda log: os.symlink((log / "12").rename(log.parent / "_12"), log / "12"), 3, "warning",
        "_spark_metadata/12: left out, because it is a symbolic link"),
    "a forged number": (
        lambda log: (log / f"{2**59 - 2}.compact").write_text("v1\n"), 1, "error", "it is missing: a reader fails"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_manifest(out: Path, name: str) -> None:
    damage, code, level, says = DAMAGE[name]
    if name == "the compact file is missing":
        for i in range(9):
            (out / FOLDER / str(i)).unlink()
    damage(out / FOLDER)
    report = inspect_sink(out)
    assert report.exit_code == code and says in said(report, level) and str(out) not in said(report, level)


@pytest.mark.parametrize(("interval", "newest"), [(3, 7), (7, 12), (100, 12)])
def test_another_interval(tmp_path: Path, interval: int, newest: int) -> None:
    log = FileStreamSinkLog(str(tmp_path / FOLDER), CompactionConf(interval=interval))
    for i in range(newest + 1):
        (tmp_path / f"part-{i}").write_text("abc")
        log.add(i, (status(tmp_path / f"part-{i}"),))
    report = inspect_sink(tmp_path)
    assert report.exit_code == 0 and len(report.listed) == newest + 1 and report.unlisted == ()


def test_what_is_listed_twice_deleted_or_elsewhere(out: Path, tmp_path: Path) -> None:
    log = FileStreamSinkLog(str(out / FOLDER), CompactionConf())
    log.add(13, (status(out / "k=a b/part-1"), status(out / "k=a b/part-2", action="delete")))
    assert said(inspect_sink(out), "warning") == (
        f"warning: files: 2 files are listed more than once: a reader sees the rows as often: {(out / 'k=a b/part-1').as_uri()}, "
        f"{(out / 'k=a b/part-2').as_uri()}\n"
        f"warning: files: 1 file is listed with the action delete. Older versions of Spark leave such a file out, 4.3 does not: "
        f"{(out / 'k=a b/part-2').as_uri()}"
    )
    shutil.copytree(out, tmp_path / "copy")
    moved = inspect_sink(tmp_path / "copy")
    assert len(moved.elsewhere) == 12 and len(moved.unlisted) == 12 and moved.missing == () and moved.exit_code == 2
    (tmp_path / "link").symlink_to(out)
    assert inspect_sink(tmp_path / "link").elsewhere == ()


@pytest.mark.parametrize(
    ("entries", "offsets", "commits", "level", "says"),
    [
        (13, 13, 13, "", ""),
        (13, 13, 12, "note", "batch 12 is in the manifest, and not committed: it runs again, and the sink skips it, as it should"),
        (12, 13, 12, "", ""),
        (13, 12, 12, "warning", "the newest batch is 12, and batch 12 comes next. The sink skips batch 12, whose rows are lost"),
        (13, 11, 11, "warning", "the newest batch is 12, and batch 11 comes next. The sink skips the batches 11 to 12, whose"),
        (12, 13, 13, "error", "the newest batch is 11, and batch 13 comes next. A reader does not see the rows of batch 12"),
    ],
    ids=["done", "planned and written", "planned", "ahead by one", "ahead", "behind"],
)
def test_does_it_fit_the_checkpoint(
    out: Path, checkpoint: Path, entries: int, offsets: int, commits: int, level: str, says: str
) -> None:
    for folder, first in ((out / FOLDER, entries), (checkpoint / "offsets", offsets), (checkpoint / "commits", commits)):
        for i in range(first, 13):
            (folder / str(i)).unlink()
    report = inspect_sink(out, checkpoint=checkpoint)
    found = [(f.level, f.says) for f in report.findings if f.where == FOLDER]
    assert [one for one, _ in found] == ([level] if level else []) and says in "".join(words for _, words in found)
    if entries == 13:  # otherwise, the file of batch 12 is in no entry
        assert report.exit_code == (2 if level == "warning" else 0)


def test_what_is_no_folder_of_a_sink(out: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="it has no _spark_metadata"):
        inspect_sink(checkpoint)
    with pytest.raises(ValueError, match="is not the checkpoint of a streaming query"):
        inspect_sink(out, checkpoint=out)
    with pytest.raises(ValueError, match="but _spark_metadata, .* minispark_stream inspect FOLDER says what a file sink wrote"):
        inspect(str(out))
    assert main(["inspect", str(out), "--html", "x.html"]) == main(["inspect", str(out), "--partition", "0"]) == 3
    assert "which has no state and no page" in capsys.readouterr().err


def test_a_stranger_wrote_it(out: Path) -> None:
    (out / FOLDER / "12").write_text('v1\n{"path":"file:///x\\u001b[31m\\u202e","size":1,"action":"add"}')
    (out / "k=a b/part-\x1b[31m").touch()
    assert str(inspect_sink(out)).replace("\n", "").isprintable()
    (out / FOLDER / "12").write_text("v1\n" + '{"path":"file:///x","size":1}\n' * 1000)
    with pytest.raises(LimitExceeded, match="12: more than 100,000 bytes"):
        inspect_sink(out, max_bytes=100_000)
