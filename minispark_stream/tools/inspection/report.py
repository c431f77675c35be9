"""The report of an inspection: what is in the checkpoint, and answers about its state.

    report = inspect("/data/checkpoint")
    print(report); report.to_html("checkpoint.html"); report.to_json()
    report.next, report.batches, report.operators, report.findings      plain data (contents.py)
    report.rows(...), report.find(...), report.diff(...)                the state itself, read when asked for

Everything was read before the report was made, except for the state, which `rows`, `find`, `diff` and `to_html` read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.lens.view.words import one_line
from minispark_stream.tools.inspection.contents import Contents
from minispark_stream.tools.inspection.html import fragment, page
from minispark_stream.tools.inspection.state_reader import StateReader
from minispark_stream.tools.inspection.text import to_text


@dataclass(frozen=True, repr=False)
class CheckpointReport(Contents, StateReader):
    """The contents of a checkpoint, and questions about its state. It is shown as text (`str`), and in Jupyter."""

    def to_json(self, indent: int | None = None) -> str:
        """The whole report as JSON text."""
        text = json.dumps(as_json(self), ensure_ascii=False, indent=indent)
        return text.encode("utf-8", "replace").decode("utf-8")

    def to_html(self, path: str | Path) -> Path:
        """Write a page that needs no other file; returns its path."""
        target = Path(path)
        target.write_text(page(self, self.rows), encoding="utf-8", errors="replace")
        return target

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        return one_line(f"<CheckpointReport of {self.path}: {self.next.says}>")

    def _repr_html_(self) -> str:
        return fragment(self)


def as_json(value: Any) -> Any:
    """`value` as JSON: schemas as Spark writes them, and dataclasses as dicts of the fields that are compared."""
    if isinstance(value, StructType):
        return value.jsonValue()
    if is_dataclass(value):
        return {f.name: as_json(getattr(value, f.name)) for f in fields(value) if f.compare}
    if isinstance(value, Mapping):
        return {str(name): as_json(v) for name, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_json(v) for v in value]
    return value
