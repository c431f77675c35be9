"""The parts of the file source that need no Spark: memory of files, limits."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException

from minispark_stream.engine.checkpointing.compactible_file_stream_log import CompactionConf, FileEntry, FileStreamSourceLog
from minispark_stream.engine.sources import file_stream_source_cleaner
from minispark_stream.engine.sources.file import FileStreamSource, _how_many_fit, is_below
from minispark_stream.engine.sources.file_listing import File
from minispark_stream.engine.sources.file_stream_source_cleaner import FileStreamSourceCleaner
from minispark_stream.engine.sources.seen_files_map import SeenFilesMap


class TestSeenFilesMap:
    def test_a_file_is_new_once(self) -> None:
        seen = SeenFilesMap(max_age_ms=10, file_name_only=False)
        assert seen.is_new_file("file:///a", 100)
        seen.add("file:///a", 100)
        assert not seen.is_new_file("file:///a", 100)

    def test_age_is_relative_to_the_newest_file_and_counts_after_a_purge(self) -> None:
        seen = SeenFilesMap(max_age_ms=10, file_name_only=False)
        seen.add("a", 100)
        assert seen.is_new_file("old", 5), "nothing was forgotten yet"
        assert seen.purge() == 0
        assert not seen.is_new_file("old", 89)
        assert seen.is_new_file("edge", 90)

    def test_what_is_too_old_is_forgotten(self) -> None:
        seen = SeenFilesMap(max_age_ms=10, file_name_only=False)
        seen.add("a", 100)
        seen.add("b", 111)
        assert (seen.purge(), len(seen)) == (1, 1)

    def test_an_age_is_not_negative(self) -> None:
        with pytest.raises(IllegalArgumentException, match="requirement failed"):
            SeenFilesMap(max_age_ms=-1, file_name_only=False)

    def test_names_without_folders(self) -> None:
        seen = SeenFilesMap(max_age_ms=10, file_name_only=True)
        seen.add("file:///x/data.txt", 1)
        assert not seen.is_new_file("file:///y/data.txt", 1)


def test_at_least_one_file_fits() -> None:
    files = [File(str(i), size, i) for i, size in enumerate((10, 10, 1))]
    assert [_how_many_fit(files, most) for most in (1, 10, 19, 20, 21)] == [1, 1, 1, 2, 3]


def test_files_of_another_folder_are_told_apart() -> None:
    assert is_below("file:///data/a%20b/1.csv", "file:/data/a b") and is_below("s3a://x/in/k=1/f", "s3a://x/in/")
    assert not is_below("file:///data/input2/1.csv", "file:/data/input")


def test_a_batch_never_ends_before_it_begins(tmp_path: Path) -> None:
    source = FileStreamSource.__new__(FileStreamSource)
    source._log = FileStreamSourceLog(str(tmp_path), CompactionConf())
    for i in range(2):
        source._log.add(i, (FileEntry(f"file:///in/{i}", 1, i),))
    first, second = '{"logOffset":0}', '{"logOffset":1}'
    assert source.files_between(first, second) == ["file:///in/1"] and source.files_between(second, second) == []
    with pytest.raises(AssertionError, match="assertion failed"):
        source.files_between(second, first)


def test_the_end_of_a_query_does_not_wait_for_all_that_is_to_be_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_stream_source_cleaner, "STOP_TIMEOUT_S", 0.01)
    go_on = threading.Event()
    cleaned: list[str] = []

    def clean(path: str) -> None:
        cleaned.append(path)
        go_on.wait(10)

    cleaner = FileStreamSourceCleaner.__new__(FileStreamSourceCleaner)
    cleaner._pool = ThreadPoolExecutor(1)
    cleaner._clean = clean  # type: ignore[method-assign]
    cleaner.clean("a")
    cleaner.clean("b")
    cleaner.stop()
    go_on.set()
    cleaner._pool.shutdown()
    assert cleaned == ["a"]
