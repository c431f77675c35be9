"""What an inspection finds in the folder of a file sink, as plain data, text and JSON.

    report = inspect_sink("/data/out", checkpoint="/data/checkpoint")
    print(report); report.to_json(); report.missing, report.unlisted, report.findings, report.exit_code
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from minispark_stream.engine.checkpointing.compactible_file_stream_log import is_compact
from minispark_stream.engine.checkpointing.file_stream_sink_log import FOLDER
from minispark_stream.lens.view.words import one_line, plural
from minispark_stream.tools.inspection.contents import Finding
from minispark_stream.tools.inspection.report import as_json

_ROWS = 20  # entries in a text


@dataclass(frozen=True)
class ManifestEntry:
    """A file of the manifest. `files`: how many it lists; None if it is not read, or cannot be."""

    batch_id: int
    name: str
    files: int | None = None


@dataclass(frozen=True, repr=False)
class SinkReport:
    """The folder at one moment. Names are relative to it; those of files in other folders are URIs.

    `listed`: every file that the manifest lists. `missing`: those of them that are not there. `other_size`: those that are,
    with the sizes in the manifest and in the folder. `elsewhere`: those in other folders. `unlisted`: the files in no entry.
    """

    path: str
    entries: tuple[ManifestEntry, ...]
    listed: tuple[str, ...]
    missing: tuple[str, ...]
    other_size: Mapping[str, tuple[int, int]]
    elsewhere: tuple[str, ...]
    unlisted: tuple[str, ...]
    findings: tuple[Finding, ...]
    not_known: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: nothing is wrong; 1: a reader or the query fails; 2: there is something to look at; 3: this cannot be told."""
        levels = {finding.level for finding in self.findings}
        return 1 if "error" in levels else 3 if self.not_known else 2 if "warning" in levels else 0

    @property
    def reader(self) -> str:
        """What whoever reads the folder as Spark does gets to see."""
        if any(one.level == "error" and one.where != FOLDER for one in self.findings):  # that of FOLDER is the query's
            return "fails: see the findings"
        if self.elsewhere:
            return f"looks for {plural(len(self.elsewhere), 'file')} in another folder"
        return f"sees {plural(len(self.listed), 'file')}; not those in no entry: {len(self.unlisted):,}"

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(as_json(self), ensure_ascii=False, indent=indent).encode("utf-8", "replace").decode("utf-8")

    def __str__(self) -> str:
        newest = self.entries[-1].batch_id if self.entries else None
        lines = [
            f"sink       {self.path}",
            f"manifest   {'no entry' if newest is None else f'the newest batch is {newest}'}",
            f"reader     {self.reader}",
            f"files      {len(self.listed):,} listed: {len(self.missing):,} of them missing, {len(self.other_size):,} with "
            f"another size, {len(self.elsewhere):,} in other folders; {len(self.unlisted):,} in no entry",
        ]
        if self.findings:
            lines += ["", "findings", *(f"  {finding}" for finding in self.findings)]
        lines += ["", plural(len(self.entries), "entry")]
        if len(self.entries) > _ROWS:
            lines.append(f"  (the last {_ROWS})")
        lines += [f"  {one.name:<12}{_count(one)}" for one in self.entries[-_ROWS:]]
        return "\n".join(one_line(line.rstrip()) for line in lines)

    __repr__ = __str__


def _count(entry: ManifestEntry) -> str:
    if entry.files is None:
        return "not read"
    return f"{plural(entry.files, 'file')}{' of all batches so far' if is_compact(entry.name) else ''}"
