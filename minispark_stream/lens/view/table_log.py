"""Which files of an output folder count? Its log, commit by commit, as text and as a picture.

Shows: what FileStreamSink and DeltaSink leave on disk (Sink document).

1. The log is `_delta_log` (a file of actions for each commit) or `_spark_metadata` (a file of added files for each batch).
2. Played from the first commit to the last one, it says which files are visible now. A file that is in the folder but in no
   commit was written by an attempt that did not reach its commit: nobody sees it.

    commit 0   batch 0   + A          A  removed by commit 1
    commit 1   batch 1   + B  - A     B  visible           C  in no commit

Files are called A, B, C ... in the order in which the log names them, because their names are random. A compacted manifest is
not taken apart: all its files are shown as added by its batch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from urllib.parse import unquote, urlsplit

import graphviz

_FILLS = {"visible": "#e3f4e6", "removed": "#fde4e1", "in no commit": "#f1f4f6"}


@dataclass(frozen=True)
class TableCommit:
    """One file of the log.

    Attributes:
        name: the name of the file.
        batch_id: the batch that wrote it; None for another writer.
        added, removed: paths of data files, relative to the folder.
    """

    name: str
    batch_id: int | None
    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def writer(self) -> str:
        """Who wrote it, in words."""
        return "another writer" if self.batch_id is None else f"batch {self.batch_id}"


def read_log(folder: str | Path) -> tuple[TableCommit, ...]:
    """(1) The commits of an output folder, oldest first."""
    root = Path(folder)
    if (root / "_delta_log").is_dir():
        return tuple(_delta_commit(path) for path in sorted((root / "_delta_log").glob("*.json")))
    manifests = [p for p in (root / "_spark_metadata").glob("*") if p.name.split(".")[0].isdigit()]
    return tuple(_manifest(path, root) for path in sorted(manifests, key=lambda p: int(p.name.split(".")[0])))


def log_to_text(folder: str | Path) -> str:
    """A line for each commit, and one for each kind of file."""
    commits, letters = read_log(folder), letters_of(folder)
    lines = []
    for i, commit in enumerate(commits):
        files = [f"+ {letters[f]}" for f in commit.added] + [f"- {letters[f]}" for f in commit.removed]
        lines.append(f"commit {i}   {commit.writer}   {'  '.join(files)}".rstrip())
    for fate in _FILLS:
        found = [letter for f, letter in letters.items() if _fate(commits, f) == fate]
        if found:
            lines.append(f"{fate + ':':13} {' '.join(found)}")
    return "\n".join(lines)


def draw_log(folder: str | Path) -> graphviz.Digraph:
    """Commits above, files below; an arrow adds, a dashed one removes."""
    commits, letters = read_log(folder), letters_of(folder)
    graph = graphviz.Digraph(node_attr={"fontname": "Helvetica", "fontsize": "11"})
    with graph.subgraph(name="log", graph_attr={"rank": "same"}) as log:
        for i, commit in enumerate(commits):
            label = f"{_short(commit.name)}\n{commit.writer}"
            log.node(f"commit {i}", label, shape="note", style="filled", fillcolor="#dbe8f5")
            if i:
                log.edge(f"commit {i - 1}", f"commit {i}", color="#98a2ad")
    for path, letter in letters.items():
        fate = _fate(commits, path)
        parent = f"{Path(path).parent}/\n" if "/" in path else ""
        graph.node(path, f"{parent}{letter}\n{fate}", shape="box", style="filled" if fate == "visible" else "filled,dashed",
                   fillcolor=_FILLS[fate])
    for i, commit in enumerate(commits):
        for path in commit.added:
            graph.edge(f"commit {i}", path, color="#2f7a45")
        for path in commit.removed:
            graph.edge(f"commit {i}", path, color="#b3261e", style="dashed")
    return graph


def letters_of(folder: str | Path) -> dict[str, str]:
    """Data file -> its letter: first those that the log names, in its order, then the others."""
    root = Path(folder)
    named = [path for commit in read_log(folder) for path in commit.added]
    there = sorted(
        path.relative_to(root).as_posix() for path in root.rglob("*")
        if path.is_file() and not any(part[0] in "._" for part in path.relative_to(root).parts)
    )
    files = dict.fromkeys([*named, *there])
    return {path: ascii_uppercase[i % 26] + (str(i // 26) if i >= 26 else "") for i, path in enumerate(files)}


def _fate(commits: tuple[TableCommit, ...], path: str) -> str:  # (2)
    fate = "in no commit"
    for commit in commits:
        if path in commit.removed:
            fate = "removed"
        if path in commit.added:
            fate = "visible"
    return fate


def _delta_commit(path: Path) -> TableCommit:
    actions = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    batches = [a["txn"]["version"] for a in actions if "txn" in a]

    def files(kind: str) -> tuple[str, ...]:
        return tuple(sorted((unquote(a[kind]["path"]) for a in actions if kind in a), key=_by_partition))

    return TableCommit(path.name, batches[0] if batches else None, files("add"), files("remove"))


def _manifest(path: Path, root: Path) -> TableCommit:
    entries = [json.loads(line) for line in path.read_text("utf-8").split("\n")[1:]]
    files = (Path(unquote(urlsplit(e["path"]).path)).relative_to(root.resolve()).as_posix() for e in entries)
    return TableCommit(path.name, int(path.name.split(".")[0]), tuple(sorted(files, key=_by_partition)), ())


def _by_partition(path: str) -> tuple[str, str]:
    """The number of the task is the same in each run; what follows it is random."""
    parent, _, name = path.rpartition("/")
    return parent, name[: len("part-00000")]


def _short(name: str) -> str:
    """00000000000000000007.json -> 0…07.json"""
    return f"0…{name[-7:]}" if name.endswith(".json") else name
