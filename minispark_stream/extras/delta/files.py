"""The `add` action of a file: where the file is, which partition it belongs to, and what is known about its values.

Models: DelayedCommitProtocol and StatisticsCollection of Delta Lake.

1. The partition values are in the names of the folders, in which special characters are written as %XX.
2. The statistics are what the parquet writer has left in the footer: rows, nulls, smallest and largest values. Readers use them
   to skip files, so a bound must never be wrong; where it might be, there is none.

    k=a%2Fb/part-00000-….parquet  ->  partitionValues {"k":"a/b"}
                                      stats {"numRecords":2,"minValues":{"v":1},"maxValues":{"v":3},"nullCount":{"v":0}}

Differs from Delta: there are no bounds for timestamps and decimals, for dates outside the years 1 to 9999, for texts of more
than 32 characters, and inside structs: a missing bound is never wrong.
Shown by tests/conformance/test_delta.py::test_a_bound_is_never_wrong,
tests/unit/engine/test_times.py::test_far_times_have_no_bounds_in_a_delta_table.
"""

from __future__ import annotations

import datetime
import json
import math
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
from pyarrow import fs

from minispark_stream.engine.checkpointing.file_stream_sink_log import SinkFileStatus
from minispark_stream.engine.checkpointing.metadata_log import to_json

if TYPE_CHECKING:
    from deltalake.transaction import AddAction

_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_LONGEST_TEXT = 32


def add_action(status: SinkFileStatus, root: str, partition_columns: list[str]) -> AddAction:
    """The action that makes a file part of the table.

    Args:
        status: the file; its path is a URI.
        root: the folder of the table, a URI.
        partition_columns: those of the table; the path has a folder for each of them, in this order.
    """
    from deltalake.transaction import AddAction

    below = unquote(status.path.removeprefix(root.rstrip("/") + "/"))  # deltalake quotes it again
    values = [_partition_value(folder) for folder in below.split("/")[:-1]]
    return AddAction(
        below, status.size, dict(zip(partition_columns, values)), status.modification_time, True,
        to_json(_statistics(_footer(status.path))),
    )


def number_of_rows(add: AddAction) -> int:
    rows: int = json.loads(add.stats)["numRecords"]
    return rows


def _partition_value(folder: str) -> str | None:  # (1)
    value = unquote(folder.split("=", 1)[1])
    return None if value == _NULL_FOLDER else value


def _footer(uri: str) -> pq.FileMetaData:
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        return pq.read_metadata(unquote(parts.path))
    system, path = fs.FileSystem.from_uri(uri)
    return pq.read_metadata(path, filesystem=system)


def _statistics(footer: pq.FileMetaData) -> dict[str, Any]:  # (2)
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for i in range(footer.num_columns):
        column = footer.schema.column(i)
        if column.path != column.name or column.max_repetition_level > 0:
            continue  # a part of a struct, an array or a map
        groups = [footer.row_group(g).column(i) for g in range(footer.num_row_groups)]
        found = [g.statistics for g in groups if g.is_stats_set]
        if len(found) < len(groups):
            continue
        if all(s.has_null_count for s in found):
            nulls[column.name] = sum(s.null_count for s in found)
        bounds = [s for s, g in zip(found, groups) if s.null_count is None or s.null_count < g.num_values]
        if bounds and all(s.has_min_max for s in bounds):
            try:
                low, high = _bound(min(s.min for s in bounds)), _bound(max(s.max for s in bounds))
            except (OverflowError, UnicodeDecodeError):  # a date that Python's own cannot hold; a string that is not UTF-8
                continue
            if low is not None and high is not None:
                least[column.name], most[column.name] = low, high
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _bound(value: Any) -> Any:
    """A value as the statistics have it; None if it must not be there."""
    if isinstance(value, bool) or isinstance(value, datetime.datetime):
        return None
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int) else None
