"""Writes the skeleton of something new, with its test: `make new KIND=operator NAME=every_nth`.

    python docs/new.py operator sample_rows own      ->  own/sample_rows.py, own/test_sample_rows.py
    python docs/new.py step countFiles               ->  the files of a step, and its lines in the tables of the package

1. The skeletons are the examples of docs/extending.md: the code in the section of a kind. Its first line is a comment with the
   file that it belongs to.
2. The name of the example becomes the new one, however it is written: every_nth, EveryNth, everyNth, EVERY_NTH.
3. A file is new. If it is there already, nothing is written; but for a step, the code for an existing file of the package goes
   into its table.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "extending.md"
EXAMPLES = {
    "operator": "every_nth", "source": "squares", "sink": "batch_files", "picture": "dropped_rows", "step": "check_disk",
}
BLOCK = re.compile(r"^```(?:python|text)\n# (\S+\.py)\n(.*?)^```$", re.M | re.S)
STEPS, RECORDED = "minispark_stream/lens/steps/__init__.py", "minispark_stream/lens/recording/recorded.py"
BEFORE = {STEPS: r"^        triggers\.RUN_BATCH,", RECORDED: r'^    "runBatch":'}  # the line before which an entry goes


def blocks(kind: str) -> dict[str, str]:
    """(1) The examples of a kind, by their files."""
    heading = f"## A{'n' if kind == 'operator' else ''} {kind}\n"
    section = PAGE.read_text(encoding="utf-8").split(heading)[1].split("\n## ")[0]
    return dict(BLOCK.findall(section))


def spellings(name: str) -> tuple[str, str, str, str]:
    """(2) every_nth, EveryNth, everyNth, EVERY_NTH; the name may be given in any of the first three forms."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
    pascal = "".join(word.capitalize() for word in words)
    return "_".join(words), pascal, pascal[:1].lower() + pascal[1:], "_".join(words).upper()


def renamed(text: str, kind: str, name: str) -> str:
    for old, new in zip(spellings(EXAMPLES[kind]), spellings(name)):
        text = re.sub(rf"(?<![A-Za-z]){old}(?![A-Za-z])", new, text)
    return text


def new(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the files, and return them.

    Raises:
        ValueError: there is no such kind, or the name is not one of Python.
        FileExistsError: one of the files is there already, or the step is.
    """
    if kind not in EXAMPLES:
        raise ValueError(f"KIND is one of {', '.join(EXAMPLES)}, not {kind!r}")
    if not name.isidentifier():
        raise ValueError(f"NAME is a name as Python has them, such as every_nth, not {name!r}")
    texts = {folder / renamed(file, kind, name): renamed(code, kind, name) for file, code in blocks(kind).items()}
    tables = {folder / file: before for file, before in BEFORE.items()} if kind == "step" else {}
    for path in texts:
        if path not in tables and path.exists():
            raise FileExistsError(f"{path} is there already")
    for path, text in texts.items():
        if path in tables:
            text = _with_entry(path.read_text(encoding="utf-8"), tables[path], text, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)


def _with_entry(table: str, before: str, entry: str, name: str) -> str:  # (3)
    """A table with a new entry; the list of the steps gets a line in its docstring and an import, too."""
    module, _, step, _ = spellings(name)
    table = table.replace("    ├─ runBatch\n", f"    ├─ {step}\n    ├─ runBatch\n", 1)
    if modules := re.search(r"^from minispark_stream\.lens\.steps import (.*)$", table, re.M):
        table = table.replace(modules[1], ", ".join(sorted([*modules[1].split(", "), module])), 1)
    return re.sub(before, lambda found: entry + found[0], table, count=1, flags=re.M)


if __name__ == "__main__":
    kind, name, *where = sys.argv[1:]
    try:
        written = new(kind, name, ROOT if kind == "step" else Path(*where[:1] or ["own"]))
    except (ValueError, FileExistsError) as e:
        sys.exit(f"make new: {e}")
    for path in written:
        print(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    test = next(path for path in written if path.name.startswith("test_"))
    print(f"Now: PYTHONPATH={'.' if kind == 'step' else test.parent} .venv/bin/pytest {test}")
