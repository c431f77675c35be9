"""The report that an inspection gives: what is in the checkpoint, and answers about its state.

    report = inspect("/data/checkpoint")
    print(report); report.to_html("checkpoint.html"); report.to_json()
    report.next, report.batches, report.operators, report.findings      plain data (contents.py)
    report.rows(...), report.find(...), report.diff(...)                the state itself, read when asked for

Everything here was read before the report was made, but for the state, which the last three and `to_html` read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from minispark_stream.inspection.contents import Contents, StateChange, StateRow
from minispark_stream.inspection.html import fragment, page
from minispark_stream.inspection.state_reader import StateReader
from minispark_stream.inspection.text import to_text


@dataclass(frozen=True, repr=False)
class CheckpointReport(Contents):
    """The contents, and a reader for the state. Shows itself as text (`str`), and in Jupyter."""

    reader: StateReader = field(compare=False)

    def rows(
        self, operator: int = 0, *, store: str | None = None, partition: int | None = None, version: int | None = None,
        limit: int | None = None,
    ) -> tuple[StateRow, ...]:
        """The decoded rows of a state, sorted by key within a partition.

        Args:
            operator: id of the stateful operator.
            store: name of its store; may be left out when it has only one.
            partition: one partition; all of them when left out.
            version: version N is the state before batch N; when left out, the one that the next batch begins with.
            limit: the most rows to decode.

        Raises:
            ValueError: there is no such operator, store, partition or version, or a row does not fit the schema.
            SparkRuntimeException: a file is missing or damaged.
        """
        return self.reader.rows(operator, store, partition, version, limit)

    def find(
        self, key: Any, operator: int = 0, *, store: str | None = None, partition: int | None = None,
        version: int | None = None,
    ) -> tuple[StateRow, ...]:
        """The rows with this key.

        Args:
            key: a mapping from some or all key columns to values; or a list of all of them; or the value of the first.
                Values are written as the report shows them: `{"window": {"start": "2024-01-01 12:00:00"}, "k": "a"}`.

        Raises: as `rows` does.
        """
        return self.reader.find(key, operator, store, partition, version)

    def diff(
        self, before: int, after: int, operator: int = 0, *, store: str | None = None, partition: int | None = None
    ) -> tuple[StateChange, ...]:
        """What is different in version `after` from version `before`. Raises: as `rows` does."""
        return self.reader.diff(before, after, operator, store, partition)

    def to_json(self, indent: int | None = None) -> str:
        """The whole report as JSON text."""
        text = json.dumps(as_json(self), ensure_ascii=False, indent=indent)
        return text.encode("utf-8", "replace").decode("utf-8")

    def to_html(self, path: str | Path) -> Path:
        """Write one page that needs nothing else; returns its path."""
        target = Path(path)
        target.write_text(page(self, self.rows), encoding="utf-8", errors="replace")
        return target

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        return f"<CheckpointReport of {self.path}: {self.next.says}>"

    def _repr_html_(self) -> str:
        return fragment(self)


def as_json(value: Any) -> Any:
    """What JSON has in the place of `value`: dataclasses as dicts, schemas as Spark's JSON, everything else as it is."""
    if isinstance(value, StructType):
        return value.jsonValue()
    if is_dataclass(value):
        return {f.name: as_json(getattr(value, f.name)) for f in fields(value) if f.name != "reader"}
    if isinstance(value, Mapping):
        return {str(name): as_json(v) for name, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_json(v) for v in value]
    return value
