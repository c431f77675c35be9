"""What `inspect` says about RocksDB state, whole or damaged. No JVM and no RocksDB: these checkpoints are made by hand."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

from minispark_stream import inspect
from minispark_stream.engine.checkpointing.commit_log import CommitLog
from minispark_stream.extras.rocksdb.changes import MERGE, PUT, Record
from minispark_stream.tools.inspection.contents import DecodedStateRow, StateChange
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.inspection.report import CheckpointReport
from minispark_stream.tools.inspection.rocksdb import stores
from tests.unit.hand_made import content
from tests.unit.rocksdb_files import (
    KEY,
    PREFIX,
    VALUE,
    changelog,
    element,
    rocksdb_checkpoint,
    rows,
    sst,
    varint,
    write_snapshot,
)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return rocksdb_checkpoint(tmp_path / "cp")


def findings(path: Path) -> list[str]:
    return [str(f).replace(f"file:{path}/", "") for f in inspect(str(path)).findings]


def key(minute: int, k: str) -> dict:
    return {"window": {"start": f"2024-01-01 12:{minute:02}:00", "end": f"2024-01-01 12:{minute + 5:02}:00"}, "k": k}


def shown(rows: tuple[DecodedStateRow, ...]) -> list[tuple[dict, dict]]:
    return [(dict(row.key), dict(row.value)) for row in rows]


def test_rows_come_from_changelogs_and_from_snapshots(checkpoint: Path) -> None:
    report = inspect(str(checkpoint))
    assert report.findings == () and [o.provider for o in report.operators] == ["RocksDB", "RocksDB"]
    count = {"count": 2, "sum": "20.00"}
    assert shown(report.rows(partition=0, version=2)) == [
        (key(0, "a"), count), (key(5, "a"), {"count": 1, "sum": "10.00"})
    ]
    for file in checkpoint.rglob("[13].changelog"):  # version 2 is in its zip, too
        file.unlink()
    assert shown(inspect(str(checkpoint)).find({"k": "a"}, partition=0, version=2))[0] == (key(0, "a"), count)


def test_the_history_of_the_keys_and_a_difference(checkpoint: Path) -> None:
    report = inspect(str(checkpoint))
    assert report.operators[0].stores[0].history == {1: 2, 2: 3, 3: 1}
    assert report.diff(2, 3, partition=1) == (StateChange("-", 1, key(0, "b"), {"count": 1, "sum": "10.00"}, None),)
    assert "version 2: 1 added, 1 changed" in report.to_html(checkpoint.parent / "page.html").read_text()


def test_each_column_family_is_a_store(checkpoint: Path) -> None:
    report = inspect(str(checkpoint))
    assert [(s.name, dict(s.history)) for s in report.operators[1].stores] == [("v", {1: 1, 2: 2, 3: 1}), ("l", {1: 1, 2: 1, 3: 1})]
    assert shown(report.rows(1, store="v")) == [({"k": "b"}, {"n": 2})]
    assert shown(report.rows(1, store="l")) == [({"k": "a"}, {"list": [{"n": 7}, {"n": 8}, {"n": 9}, {"n": 9}]})]
    assert shown(report.find("a", 1, store="l", version=2)) == [({"k": "a"}, {"list": [{"n": 7}, {"n": 8}]})]
    with pytest.raises(ValueError, match="operator 1 has the stores v, l: choose one"):
        report.rows(1)


@pytest.mark.parametrize("name", ["07", "5_x"])
def test_a_stray_file_beside_the_metadata_is_passed_over_as_by_a_restart(checkpoint: Path, name: str) -> None:
    before = inspect(str(checkpoint)).operators
    (checkpoint / "state/1/_metadata/v2" / name).write_text("no metadata")
    assert inspect(str(checkpoint)).operators == before and findings(checkpoint) == []


def test_nothing_is_written_and_no_folder_is_made(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(checkpoint.parent)
    monkeypatch.setattr(os, "mkdir", lambda *a, **k: pytest.fail("a folder"))
    report = inspect(str(checkpoint))
    str(report), report.to_json(), report.rows(), report.rows(1, store="l")
    assert content(checkpoint.parent) == before


def test_a_snapshot_that_is_not_what_the_changelogs_say_is_named(checkpoint: Path) -> None:
    folder = checkpoint / "state/1/0"
    write_snapshot(folder, "2", [sst([(1, Record(PUT, PREFIX["v"] + rows(KEY, ["z"])[0], rows(VALUE, [1])[0]))])], {"v": 2, "l": 3})
    assert findings(checkpoint) == ["warning: state/1/0: state/1/0/2.zip is not what the changelogs before it add up to"]


# --- checkpoint format 2 ---------------------------------------------------------------------------------------

A, B, C = (f"{i:08}-0000-4000-8000-000000000000" for i in range(3))


def of_format_2(checkpoint: Path, ids: dict[int, str]) -> Path:
    """Operator 1, whose commits name these ids; every version was written by A, and versions 2 and 3 by B, too."""
    folder = checkpoint / "state/1/0"
    for name in ("1.changelog", "2.changelog", "3.changelog", "2.zip"):
        stem, _, suffix = name.partition(".")
        (folder / name).rename(folder / f"{stem}_{A}.{suffix}")
    [nine] = rows(VALUE, [9])
    record = Record(PUT, PREFIX["v"] + rows(KEY, ["a"])[0], nine)
    (folder / f"2_{B}.changelog").write_bytes(changelog([record], 4, {1: A}))
    more = Record(MERGE, PREFIX["l"] + rows(KEY, ["a"])[0], element(8))
    (folder / f"3_{B}.changelog").write_bytes(changelog([more], 4, {1: A, 2: B}))
    for version, unique_id in ids.items():
        text = f'v2\n{{"nextBatchWatermarkMs":0,"stateUniqueIds":{{"1":[["{unique_id}"]]}}}}'
        (checkpoint / f"commits/{version - 1}").write_text(text)
    return checkpoint


def values(report: CheckpointReport, version: int = 3) -> list[int]:
    return [row.value["n"] for row in report.rows(1, store="v", version=version)]


def test_the_commit_log_says_which_file_of_a_version_counts(checkpoint: Path) -> None:
    report = inspect(str(of_format_2(checkpoint, {1: A, 2: B, 3: B})))
    assert (report.findings, values(report), values(report, 2)) == ((), [9], [9])


def test_where_the_commit_log_is_silent_the_lineage_of_a_later_changelog_says_it(checkpoint: Path) -> None:
    report = inspect(str(of_format_2(checkpoint, {3: B})))
    assert values(report) == [9]


def test_where_nothing_says_it_the_version_is_not_guessed(checkpoint: Path) -> None:
    of_format_2(checkpoint, {})
    (error, *_) = findings(checkpoint)
    assert error.startswith("error: state/1/0: a restart fails") and "version 3 is not on disk, 1 to 2 are" in error


def test_unique_ids_are_read_from_the_commit_log(tmp_path: Path) -> None:
    (tmp_path / "0").write_text('v2\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["x"],["y"]]}}')
    entry = CommitLog(str(tmp_path)).get(0)
    assert entry is not None and (entry.next_batch_watermark_ms, entry.state_unique_ids) == (7, {"0": [["x"], ["y"]]})


# --- files of strangers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../../../secret", "/etc/passwd", "SSTs/x.sst", "000001-../../x.sst", ""])
def test_a_zip_cannot_name_a_file_elsewhere(checkpoint: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = {"sstFiles": [{"localFileName": "1.sst", "dfsSstFileName": name, "sizeBytes": 8}], "numKeys": 1}
    with zipfile.ZipFile(checkpoint / "state/0/0/2.zip", "w") as archive:
        archive.writestr("metadata", "v1\n" + json.dumps(metadata))
        archive.writestr("../../evil", "x")
    before = content(checkpoint.parent)
    opened: list[str] = []
    real = ReadOnlyFiles.open
    monkeypatch.setattr(ReadOnlyFiles, "open", lambda self, name: opened.append(name) or real(self, name))  # type: ignore[func-returns-value]
    (warning,) = findings(checkpoint)
    assert "which is not the name of an SST file" in warning and not any("secret" in n or "passwd" in n for n in opened)
    assert content(checkpoint.parent) == before


def test_a_link_among_the_sst_files_is_not_followed(checkpoint: Path) -> None:
    (table, *_) = sorted((checkpoint / "state/0/0/SSTs").iterdir())
    table.rename(checkpoint.parent / "elsewhere")
    table.symlink_to(checkpoint.parent / "elsewhere")
    found = "\n".join(findings(checkpoint))
    assert "cannot be told: it is a symbolic link" in found and f"SSTs/{table.name}, which 2.zip names, is missing" in found


def test_a_table_of_another_size_is_named(checkpoint: Path) -> None:
    (table, *_) = sorted((checkpoint / "state/0/0/SSTs").iterdir())
    table.write_bytes(table.read_bytes() + b"x")
    (warning,) = findings(checkpoint)
    assert f"SSTs/{table.name} has" in warning and "2.zip says" in warning


def test_keys_that_grow_by_what_they_share_are_bounded(checkpoint: Path) -> None:
    """An entry of four bytes that shares a key of 60,000 bytes takes 60,000 bytes of memory."""
    from tests.unit.tools.inspection.test_fuzz_checkpoint import at_most

    size = 60_000
    long = varint(0) + varint(size + 8) + varint(0) + b"k" * size + bytes([1, *bytes(7)])
    body = long + (varint(size + 8) + varint(0) + varint(0)) * 20_000
    folder = checkpoint / "state/0/0"
    write_snapshot(folder, "2", [sst([], body + b"\0\0\0\0\1\0\0\0")])
    with at_most(60):
        report = inspect(str(checkpoint), max_bytes=4 << 20)
    assert "more than 4,194,304 bytes of memory" in str(report.findings)


def test_rows_in_avro_need_a_package(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the other packages alone are, the rows are counted."""
    monkeypatch.setattr(stores, "find_spec", lambda name: None)
    for entry in (checkpoint / "offsets").iterdir():
        conf = '"conf":{"spark.sql.streaming.stateStore.encodingFormat":"avro",'
        entry.write_text(entry.read_text().replace('"conf":{', conf))
    report = inspect(str(checkpoint))
    assert "not decoded: its rows are in Avro, which needs a package" in str(report) and report.operators[0].stores[0].num_keys == 1
    with pytest.raises(ValueError, match="Avro"):
        report.rows()
