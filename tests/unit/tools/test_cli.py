"""What the commands do with their arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from minispark_stream.tools import doctor
from minispark_stream.tools.cli import main


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The last line of what is said about wrong arguments, which end with exit code 2."""
    with pytest.raises(SystemExit) as e:
        main(argv)
    assert e.value.code == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_the_version(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as e:
        main(["--version"])
    assert e.value.code == 0
    assert capsys.readouterr().out == f"minispark_stream {doctor.own_version()} (PySpark {doctor.installed_version('pyspark')})\n"
    monkeypatch.setattr(doctor, "installed_version", lambda name: None)  # a clone on the path, without PySpark
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == "minispark_stream 0.1.0 (PySpark is not installed)\n"


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["inspect", "x", "--rows", "-5"], "argument --rows: -5 is less than 0"),
        (["inspect", "x", "--max-bytes", "0"], "argument --max-bytes: 0 is less than 1"),
        (["inspect", "x", "--partition", "-1"], "argument --partition: -1 is less than 0"),
        (["inspect", "x", "--operator", "-1"], "argument --operator: -1 is less than 0"),
        (["inspect", "x", "--version", "-1"], "argument --version: -1 is less than 0"),
        (["inspect", "x", "--diff", "3", "-1"], "argument --diff: -1 is less than 0"),
        (["inspect", "x", "--rows", "many"], "argument --rows: invalid number value: 'many'"),
        (["demo", "--days", "0"], "argument --days: 0 is less than 1"),
    ],
)
def test_a_number_that_cannot_be(capsys: pytest.CaptureFixture[str], argv: list[str], told: str) -> None:
    assert refused(capsys, *argv).endswith(told)


@pytest.mark.parametrize("other", [["--json"], ["--key", "a"], ["--diff", "1", "2"], ["--partition", "0"], ["--version", "0"]])
def test_a_page_is_asked_for_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path, other: list[str]) -> None:
    """Otherwise one of the two answers would be dropped without a word."""
    told = refused(capsys, "inspect", "x", "--html", str(tmp_path / "page.html"), *other)
    assert "--html" in told and other[0] in told
    assert list(tmp_path.iterdir()) == []


def test_the_course_does_not_write_through_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "lessons"
    folder.mkdir()
    (folder / "00_start_here.ipynb").symlink_to(tmp_path / "elsewhere.ipynb")
    assert main(["course", str(folder)]) == 0
    assert "1 existed already" in capsys.readouterr().out
    assert not (tmp_path / "elsewhere.ipynb").exists()
