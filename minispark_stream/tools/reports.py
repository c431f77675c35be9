"""Progress reports that somebody has saved or pasted, as plain data: the input of a trace and of an explanation.

    read_saved("progress.jsonl")        [Saved(query="counts", reports=[{...}, {...}], error=None)]

1. A text may be a report, several of them, a list, the lines of a file of a listener, an event log of the history server, or a
   log with `Streaming query made progress: {` (pasted_text.py finds the values in it). If it has no report, it may be a comment
   of a program, or a report of which only the beginning was pasted.
2. An object counts as a report if it has a batch id and the numbers of a batch. In an event log, the report is inside of an
   event; the event of a query's end has its error.
3. What is kept of a report has the types that Spark gives it. Whatever a file says, the rest of the package can rely on them.
   An offset is the text that the log has, whether the report has it as text or as a value.
4. Reports are grouped by query, and a report that comes twice is kept once.

The text may come from anybody. It is bounded in size, in depth, and in the memory that is taken for it, and nothing of it is
evaluated.

Models: nothing of Spark.
Shown by tests/unit/tools/test_reports.py.
"""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

import pyarrow as pa

from minispark_stream.engine.checkpointing.budget import BYTES_PER_VALUE, Budget, LimitExceeded
from minispark_stream.lens.trace.report import OperatorReport, ProgressReport, SourceReport
from minispark_stream.lens.trace.shapes import fits, fitting
from minispark_stream.tools.pasted_text import CUT_OFF, MOST_MEMORY, as_json, cut_off, objects, uncommented

MOST_BYTES = 256 << 20  # of a file, after it was decompressed
MOST_REPORTS = 10_000  # of a query; the newest are kept
BYTES_PER_QUERY = 2000  # besides its reports
COMPRESSED = {".zst": "zstd", ".zstd": "zstd", ".gz": "gzip", ".lz4": "lz4", ".bz2": "bz2"}


class ListenerEvent(TypedDict, total=False):
    """An event of a listener or of the history server."""

    Event: str
    event: str
    exception: str | None


@dataclass
class Saved:
    """The reports of a query, the oldest first, and the error that ended it, if the text has it."""

    id: str
    name: str | None = None
    reports: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_REPORTS))
    error: str | None = None

    @property
    def called(self) -> str:
        return self.name or self.id

    def keep(self, report: dict[str, Any], budget: Budget) -> None:
        if len(self.reports) == MOST_REPORTS:
            budget.take(-_weight(self.reports[0]))
        budget.take(_weight(report))
        self.reports.append(report)


def is_saved(value: object) -> bool:
    """Whether this is the text of a report, or a list of reports, or the path of a file."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        return True
    if isinstance(value, (list, tuple)):
        return all(isinstance(one, Mapping) for one in value)
    return isinstance(value, Mapping) or isinstance(value, (str, os.PathLike)) and os.path.isfile(value)


def read_saved(source: Any, max_bytes: int = MOST_BYTES) -> list[Saved]:
    """The queries that are reported, in the order of their first reports.

    Args:
        source: the path of a file, the text itself, a report, or a list of reports.
        max_bytes: the longest text that is read.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it contains no report, is too long, or would take more than a gigabyte of memory.
    """
    if isinstance(source, Mapping):
        found, where = saved_in([source], Budget(sys.maxsize)), "the mapping"
    elif isinstance(source, (list, tuple)):
        found, where = saved_in(source, Budget(sys.maxsize)), "the list"
    elif isinstance(source, str) and source.lstrip()[:1] in ("{", "["):
        if len(source) > max_bytes:
            raise ValueError(f"the text has more than {max_bytes} characters")
        found, where = _saved_in(source, "the text"), "the text"
    else:
        found, where = _saved_in(_text_of(os.fspath(source), max_bytes), str(source)), str(source)
    if not any(saved.reports for saved in found):
        wanted = "reports of streaming queries, as query.lastProgress, a listener, a log or an event log has them"
        raise ValueError(f"{where} has no {wanted}")
    return found


def the_one(found: list[Saved], name: str | None) -> Saved:
    """The query that is asked for by its name or id; the only one, if none is asked for.

    Raises:
        ValueError: there is no such query, or there are several.
    """
    chosen = [one for one in found if name in (None, one.name, one.id)]
    if len(chosen) == 1:
        return chosen[0]
    known = ", ".join(one.called for one in found[:10])
    if name is None:
        raise ValueError(f"these are reports of {len(found)} queries; choose one by its name or id, as name=…: {known}")
    raise ValueError(f"{'no query is' if not chosen else 'several queries are'} called {name}: {known}")


def _saved_in(text: str, where: str) -> list[Saved]:
    try:
        return saved_in_text(text)
    except LimitExceeded:
        wants = f"more than {MOST_MEMORY >> 20:,} MB of memory"
        raise ValueError(f"{where} takes {wants}: save the part of it that has the reports in a file") from None


def saved_in_text(text: str) -> list[Saved]:  # (1)
    """Raises ValueError: an object is nested too deeply, or what is found takes too much memory (LimitExceeded)."""
    budget = Budget(MOST_MEMORY)
    budget.take(2 * sys.getsizeof(text))  # `uncommented` makes another one
    for values in (
        objects(text, budget), objects(uncommented(text), budget), cut_off(uncommented(text), before="batchId"),
    ):
        with budget.lent():
            found = saved_in(values, budget)
        if any(saved.reports for saved in found):
            return found
    return found


def saved_in(values: Iterable[Any], budget: Budget) -> list[Saved]:  # (4)
    queries: dict[str, Saved] = {}
    known: set[tuple[Any, ...]] = set()

    def of(query: str) -> Saved:
        if query not in queries:
            budget.take(BYTES_PER_QUERY)
            queries[query] = Saved(query)
        return queries[query]

    for value in values:
        if not fits(value, ListenerEvent):
            continue
        if str(value.get("Event", value.get("event", ""))).endswith("QueryTerminatedEvent"):  # (2)
            if value.get("exception") is not None:
                budget.take(len(value["exception"]))
                of(str(value.get("id"))).error = value["exception"]
            continue
        report = _report(value, budget) or _report(value.get("progress"), budget)
        if report is None:
            continue
        one = of(report["id"])
        one.name = one.name or report["name"]
        key = (report["id"], report["runId"], report["batchId"], report["timestamp"])
        if key not in known:
            known.add(key)
            one.keep(report, budget)
    return list(queries.values())


def _weight(value: Any) -> int:
    """About how many bytes a value of JSON takes."""
    size, inside = 0, [value]
    while inside:
        one = inside.pop()
        size += BYTES_PER_VALUE
        if type(one) is dict:  # an event log has millions of values, and they are those of Python's decoder
            size += len("".join(one))
            inside += one.values()
        elif type(one) is list:
            inside += one
        elif type(one) is str:
            size += len(one)
    return size


# -- files ---------------------------------------------------------------------------------------------------------


def _text_of(path: str, max_bytes: int) -> str:
    """The text of a file, which may be compressed as Spark's event logs are.

    Raises:
        ValueError: it is longer than `max_bytes`, or cannot be decompressed.
    """
    codec = COMPRESSED.get(os.path.splitext(path)[1])
    with open(path, "rb") as file:
        try:
            content = pa.CompressedInputStream(file, codec).read(max_bytes + 1) if codec else file.read(max_bytes + 1)
        except (OSError, ValueError) as e:
            raise ValueError(f"{path} cannot be decompressed ({e}): spark.eventLog.compress=false writes plain text") from None
    if len(content) > max_bytes:
        raise ValueError(f"{path} has more than {max_bytes} bytes: save the part of it that has the reports in a file")
    return bytes(content).decode("utf-8", "replace")


# -- (2) (3) a report ------------------------------------------------------------------------------------------------


def plain(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report of a running query as plain data: ids and times are text, and so are offsets."""
    values = json.loads(json.dumps(report, default=str))
    typed = fitting(values, ProgressReport)
    return {**values, "sources": [*map(_source, typed.get("sources", ()))], "numInputRows": _rows_in(typed)}


def _report(value: Any, budget: Budget) -> dict[str, Any] | None:
    if not isinstance(value, Mapping) or not isinstance(value.get("durationMs"), Mapping):
        return None
    if not fits(value.get("batchId"), int) or value["batchId"] < 0:
        return None
    if not isinstance(value.get("sources"), list) and CUT_OFF not in value:
        return None
    with budget.lent():
        budget.take(_weight(value))  # what follows copies it
    typed = fitting(value, ProgressReport)  # (3)
    return {
        **typed,
        "id": str(value.get("id")),
        "runId": str(value.get("runId")),
        "name": typed.get("name"),
        "timestamp": str(value.get("timestamp")),
        "durationMs": {name: ms for name, ms in typed["durationMs"].items() if 0 <= ms < 2**53},
        "eventTime": typed.get("eventTime", {}),
        "numInputRows": _rows_in(typed),
        "stateOperators": [*map(_operator, typed.get("stateOperators", ()))],
        "sources": [*map(_source, typed.get("sources", ()))],
        "sink": {"description": "unknown", "numOutputRows": None, **typed.get("sink", {})},
    }


def _rows_in(report: ProgressReport) -> int:
    """The number of input rows. Reports over Spark Connect, and events, have only those of the sources."""
    rows = report.get("numInputRows")
    return sum(source.get("numInputRows", 0) for source in report.get("sources", ())) if rows is None else rows


def _source(source: SourceReport) -> dict[str, Any]:
    offsets = {key: _offset(value) for key, value in source.items() if key in ("startOffset", "endOffset", "latestOffset")}
    return {"description": "unknown", "startOffset": None, "endOffset": None, **source, **offsets}


def _offset(value: Any) -> str | None:
    if value in (None, "null", "None"):
        return None
    if isinstance(value, str) and value.startswith("{'"):  # before 4.2, PySpark made the text of a value by itself
        value = as_json(value, 0)[0] or value
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _operator(operator: OperatorReport) -> dict[str, Any]:
    return {
        "operatorName": "an unnamed operator", "customMetrics": {},
        "numRowsTotal": 0, "numRowsUpdated": 0, "numRowsDroppedByWatermark": 0, "numShufflePartitions": 0, **operator,
    }
