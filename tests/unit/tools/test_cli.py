"""What the commands do with their arguments."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from docs import room
from minispark_stream.tools import requirements
from minispark_stream.tools.cli import main
from minispark_stream.tools.course import LESSONS, copy_pages

ROOT = Path(__file__).parents[3]


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
    assert capsys.readouterr().out == f"minispark_stream {requirements.own_version()} (PySpark {requirements.installed_version('pyspark')})\n"
    monkeypatch.setattr(requirements, "installed_version", lambda name: None)  # a clone on the path, without PySpark
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


def test_the_checkpoint_of_a_sink_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise one of the two would be passed over without a word."""
    assert "name two checkpoints" in refused(capsys, "inspect", "cp", "--sink", "out", "--checkpoint", "other")


def test_play_writes_a_page_that_needs_nothing_else_and_opens_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_it(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr("webbrowser.open", open_it)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    assert main(["play", "join;delay=5"]) == 0
    page = tmp_path / "minispark_stream_play.html"
    assert opened == [page.as_uri()] and capsys.readouterr().out == f"opened: {page}\n"
    assert '{"case": "join;delay=5"}' in page.read_text(encoding="utf-8") and "http" not in page.read_text(encoding="utf-8").partition("<script")[0]
    assert main(["play", "--out", str(tmp_path / "p.html")]) == 0 and len(opened) == 1
    assert main(["play", "word count"]) == 1
    assert capsys.readouterr().err == (
        "play: a case begins with one of windows, dedup, join, sessions, not 'word count'; trace.play() plays the rows of a query\n"
    )


CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#|attachment:)([^)#\s]+)")


@pytest.mark.parametrize("layout", ["the repository", "course FOLDER", "the student copy"])
def test_every_link_and_picture_of_the_course_is_there_in_each_place(layout: str, tmp_path: Path) -> None:
    """JupyterLab serves what lies below its root: the repository with `make lab`, otherwise the folder of the notebooks."""
    root, notebooks = tmp_path, tmp_path
    if layout == "the repository":
        root, notebooks = ROOT, ROOT / "notebooks"
    elif layout == "course FOLDER":
        assert main(["course", str(tmp_path)]) == 0
    else:
        for path in (ROOT / "notebooks").glob(LESSONS):
            nbformat.write(room.for_students(nbformat.read(path, as_version=4)), tmp_path / path.name)
        copy_pages(tmp_path)
    texts = {
        path: "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
        for path in notebooks.glob(LESSONS)
    }
    texts |= {path: path.read_text(encoding="utf-8") for path in (root / "docs").glob("*.md")}
    found = {(path, link) for path, text in texts.items() for link in LINK.findall(CODE.sub("", text))}
    assert len(found) > 100
    dead = [(path.name, link) for path, link in found if not (file := (path.parent / link).resolve()).exists() or root not in file.parents]
    assert dead == []


def test_the_course_does_not_write_through_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "lessons"
    folder.mkdir()
    (folder / "00_start_here.ipynb").symlink_to(tmp_path / "elsewhere.ipynb")
    assert main(["course", str(folder)]) == 0
    assert "1 existed already" in capsys.readouterr().out
    assert not (tmp_path / "elsewhere.ipynb").exists()
