"""What an inspection says of sources: their kinds, their logs, what each batch read, and where a checkpoint may lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from minispark_stream import inspect
from minispark_stream.engine.checkpointing import checkpoint_file_manager
from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.engine.checkpointing.stream_metadata import read_or_create
from minispark_stream.tools.inspection.offset_meaning import meaning, records_behind
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.inspection.sources import DELTA, FILES, KAFKA, NUMBER, OTHER, RATE, RATE_MICRO_BATCH, kind_of
from tests.unit.hand_made import log_batch


@pytest.mark.parametrize(("offset", "log", "kind"), [
    ('{"logOffset":3}', None, FILES), ("3", 'v1\n{"path":"file:///a","timestamp":1,"batchId":0}', FILES), ("3", "v1\n1700000000000", RATE), ("3", None, NUMBER),
    ('{"offset":3,"timestamp":1}', None, RATE_MICRO_BATCH), ('{"orders":{"0":3}}', "v1\n{}", KAFKA), ("-", None, OTHER), ("[[[[", None, OTHER),
    ('{"sourceVersion":1,"reservoirId":"x","reservoirVersion":4,"index":-1,"isStartingVersion":false}', None, DELTA),
])
def test_the_kind_of_a_source(offset: str, log: str | None, kind: str) -> None:
    """A number is the offset of a file source of Spark 2.1 if its log has paths. Kafka and Event Hubs are not told apart."""
    assert kind_of([None, offset], log) == kind
    assert "Event Hubs" in KAFKA


def kafka(folder: Path, *offsets: str) -> str:
    """A checkpoint as Spark writes it: the log of the source begins with a zero byte."""
    read_or_create(str(folder), lambda key: None)
    for batch, offset in enumerate(offsets):
        log_batch(folder, batch, offset)
    (folder / "sources/0").mkdir(parents=True)
    (folder / "sources/0/0").write_bytes(b'\0v1\n{"orders":{"0":3,"1":0}}')
    return str(folder)


def test_kafka_is_shown_with_what_each_batch_read(tmp_path: Path) -> None:
    text = str(inspect(kafka(tmp_path, '{"orders":{"0":8,"1":2}}', '{"orders":{"0":1208,"1":2,"2":5}}', '{"orders":{"0":1200,"2":5}}')))
    assert "\\u0000" not in text and '     0: v1 {"orders":{"0":3,"1":0}}' in text and "0  offsets by partition: Kafka" in text
    assert "     batch 0 read 7 records: orders/0 3 to 8, orders/1 0 to 2\n" in text
    assert "     batch 1 read 1200 records: orders/0 8 to 1208; new: orders/2, from its beginning to 5\n" in text
    assert "     batch 2 read no records; goes back: orders/0 from 1208 to 1200; the records between come again; gone: orders/1" in text


def test_what_is_cut_can_be_seen_as_a_whole(tmp_path: Path) -> None:
    offsets = [json.dumps({"t": {str(p): n + p for p in range(200)}}, separators=(",", ":")) for n in (1, 2)]
    report = inspect(kafka(tmp_path, *offsets))
    assert "(What ends with … is cut: inspect --json and report.to_json() have all of it.)" in str(report)
    assert report.batches[1].offsets == {"0": offsets[1]} and "t/4 5 to 6 and 195 more" in str(report)


@pytest.mark.parametrize(("before", "offset", "said"), [
    (None, '{"orders":{"0":3}}', None), ('{"orders":{"0":3}}', '{"orders":{"0":3}}', "no records"), ('{"orders":"x"}', '{"orders":{"0":3}}', None),
    ('{"offset":3,"timestamp":1}', '{"offset":8,"timestamp":2}', "the rows 3 to 7"), (None, '{"offset":8,"timestamp":2}', None),
    ("[", '{"a":{"0":1}}', None), ("1", "2", None), ('{"logOffset":1}', '{"logOffset":2}', None),
])
def test_what_two_offsets_mean(before: str | None, offset: str, said: str | None) -> None:
    assert meaning(before, offset) == said


@pytest.mark.parametrize(("index", "is_start", "said"), [
    (-1, "false", "all of the versions before 4"), (-100, "false", "all of the versions before 4"), (7, "false", "version 4 up to its file 7"),
    (7, "true", "version 4, the table as it was when the query began, up to its file 7"), (-20, "false", "up to a change of the schema in version 4"),
    (-1, "true", "nothing yet of version 4, the table as it was when the query began"),
])
def test_what_an_offset_of_delta_means(index: int, is_start: str, said: str) -> None:
    offset = f'{{"sourceVersion":1,"reservoirId":"x","reservoirVersion":4,"index":{index},"isStartingVersion":{is_start}}}'
    assert meaning(None, offset) == said


def test_offsets_that_are_not_counted_have_no_lag() -> None:
    assert records_behind({"t": {"0": 5}}, {"t": {"0": 5, "1": 3}}) == 3  # a new partition
    assert records_behind({"seconds": 3}, {"seconds": 8}) is None
    assert records_behind(7, 9) is None
    assert records_behind({"t": {"0": 5}}, None) is None


def test_names_of_hadoop_and_databricks_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def from_uri(uri: str) -> tuple[fs.FileSystem, str]:
        asked.append(uri)
        return fs.LocalFileSystem(), "/nowhere"

    monkeypatch.setattr(checkpoint_file_manager, "_from_uri", from_uri)
    for uri in ("s3a://bucket/cp", "s3n://bucket/cp", "gs://bucket/cp"):
        ReadOnlyFiles(uri, None, Budget(1))
    assert asked == ["s3://bucket/cp", "s3://bucket/cp", "gs://bucket/cp"]
    assert ReadOnlyFiles("dbfs:/mnt/cp", None, Budget(1)).location == "file:/dbfs/mnt/cp"


def test_a_file_system_that_refuses_ends_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without credentials or a network."""

    class Refuses:
        type_name = "abfs"

        def get_file_info(self, what: Any) -> Any:
            raise pa.ArrowException("no credentials\nTraceback of C++\n  at x")

    monkeypatch.setattr(checkpoint_file_manager, "_from_uri", lambda uri: (Refuses(), "cp"))
    with pytest.raises(OSError, match=r"^abfss://\*\*\*@a.dfs.core.windows.net/cp cannot be read: no credentials$"):
        inspect("abfss://user:secret@a.dfs.core.windows.net/cp")
