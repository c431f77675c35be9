"""What is a path, what is a message, and what the command does with each."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from minispark_stream.tools.cli import main
from minispark_stream.tools.symptoms.asked import is_path

PATHS = (
    "/data/cp", "file:/data/cp", "file:///data/cp", "s3a://b/cp", "abfss://c@a.dfs.core.windows.net/cp", "dbfs:/cp", "hdfs://nn/cp", "gs://b/cp",
    "~/cp", "~", "./cp", "../cp", ".", "cp/visits", "C:\\cp", "C:/cp", "\\\\server\\cp", "cp\\visits",
)
MESSAGES = ("Connection refused", "batch 3 doesn't exist", "STREAM_FAILED", "what: is this", "a\nb/c", "")


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_a_path(path: str) -> None:
    assert is_path(path)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_no_path(message: str) -> None:
    assert not is_path(message)


@pytest.mark.parametrize("path", ["/no/such/folder", "file:///no/such/folder", "cp/nowhere", "~/no such folder"])
def test_a_path_that_is_not_there_is_said_to_be_not_there(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", path]) == 3
    assert capsys.readouterr() == ("", f"why: there is nothing at {path}\n")


def test_a_message_that_begins_with_a_path_is_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "/cp/sources/0/3 doesn't exist (latestId: 4, compactInterval: 10)"]) == 0
    assert capsys.readouterr().out.startswith("An entry of a log is missing")


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(tmp_path)]) == 3
    assert "is not the checkpoint of a streaming query" in capsys.readouterr().err


def test_of_a_log_file_the_last_error_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "driver log.txt"
    log.write_text("x\n" * 2_000_000 + "Caused by: [DIVIDE_BY_ZERO] Division by zero.\n" + "\tat a.b.C.d(C.scala:1)\n" * 50)
    assert main(["why", str(log)]) == 0
    assert main(["why", f"file://{str(log).replace(' ', '%20')}"]) == 0
    assert capsys.readouterr().out.count("A division by zero ends the query") == 2


def test_the_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Caused by: [DIVIDE_BY_ZERO] Division by zero."))
    assert main(["why", "-"]) == 0
    assert capsys.readouterr().out.startswith("A division by zero ends the query")


def test_nothing_that_fits_has_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "frobnicator overrun"]) == 1
    assert capsys.readouterr().out.startswith("No entry fits.")


def test_the_command_prints_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "[EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE] The event time `k` has the invalid type"]) == 0
    assert "Cast before: F.to_timestamp" in capsys.readouterr().out
