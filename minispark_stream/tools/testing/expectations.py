"""What is compared when a test expects something, and how a difference is described.

    difference_in_rows([("a", 3)], [("a", 2)], schema, "UTC")

    the rows are not those that were expected:
      missing    k=a count=3
      came       k=a count=2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StructType

from minispark_stream.engine.spark_versions import condition_of
from minispark_stream.lens.view.words import plural, row_words
from minispark_stream.tools.compare.engine_run import cause_of
from minispark_stream.tools.compare.shown_rows import shown_row
from minispark_stream.tools.inspection.checkpoint import inspect
from minispark_stream.tools.inspection.state_reader import is_same
from minispark_stream.tools.testing.driven_query import DrivenQuery, SinkRow
from minispark_stream.tools.testing.values import comparable, each, fitted_row

__tracebackhide__ = True
MOST = 20  # how many rows of each kind are shown


def difference_in_rows(expected: Sequence[Any], came: Sequence[SinkRow], schema: StructType, zone: str) -> str | None:
    """How two bags of rows differ, in words; None if they do not."""
    try:
        wanted = each(expected, lambda row: _complete(row, schema, zone))
    except ValueError as e:
        rows = _listed("came", [row_words(shown_row(row, schema, zone)) for row in came])
        return f"an expected row does not fit the columns of the query: {e}\n{rows}"
    got = [fitted_row(row, schema, zone) for row in came]
    keys = {True: Counter(comparable(row, schema) for row in wanted), False: Counter(comparable(row, schema) for row in got)}
    if keys[True] == keys[False]:
        return None
    missing = _words(wanted, keys[True] - keys[False], schema, zone)
    too_much = _words(got, keys[False] - keys[True], schema, zone)
    same = len(got) - len(too_much)
    parts = ["the rows are not those that were expected:", _listed("missing", missing), _listed("came", too_much)]
    if same:
        parts.append(f"  {plural(same, 'row')} as expected")
    return "\n".join(filter(None, parts))


def _complete(row: Any, schema: StructType, zone: str) -> SinkRow:
    """An expected row, which names every column."""
    left_out = [name for name in schema.names if name not in row] if isinstance(row, dict) else []
    if left_out and all(name in schema.names for name in row):
        raise ValueError(f"{row!r} does not say what {', '.join(left_out)} is")
    return fitted_row(row, schema, zone)


def _words(rows: Sequence[SinkRow], chosen: Counter[Any], schema: StructType, zone: str) -> list[str]:
    words = []
    left = chosen.copy()
    for row in rows:
        if left[key := comparable(row, schema)] > 0:
            left[key] -= 1
            words.append(row_words(shown_row(row, schema, zone)))
    return sorted(words)


def _listed(title: str, words: Sequence[str]) -> str:
    lines = [f"  {title if i == 0 else '':9}  {row}" for i, row in enumerate(words[:MOST])]
    return "\n".join([*lines, *([f"             and {len(words) - MOST} more"] if len(words) > MOST else [])])


def state_rows(query: DrivenQuery, operator: int | None) -> int:
    """How many rows the state has, as the last progress report says."""
    last = next((ran.progress for ran in reversed(query.batches) if ran.progress), {})
    operators = enumerate(last.get("stateOperators", ()))
    return sum(int(one["numRowsTotal"]) for i, one in operators if operator in (None, i))


def state_found(query: DrivenQuery, key: Any, value: Any, operator: int, store: str | None) -> str | None:
    """What is wrong with the row of a key in the state; None if it exists and has these values."""
    rows = inspect(str(query.checkpoint)).find(key, operator, store=store)
    if not rows:
        return f"the state has no row with the key {key!r}"
    if value is None or any(is_same(row.value, value) for row in rows):
        return None
    return f"the state of the key {key!r} is {' / '.join(row_words(row.value) for row in rows)}, not {value!r}"


def late_rows(query: DrivenQuery) -> int:
    """How many rows the query has dropped so far, because the watermark had passed them."""
    operators = [operator for ran in query.batches for operator in ran.progress.get("stateOperators", [])]
    return sum(int(operator["numRowsDroppedByWatermark"]) for operator in operators)


def error_names(error: BaseException) -> list[str]:
    """The names with which a test may expect an error: its condition, that of its cause, and its class."""
    cause = cause_of(str(error))
    condition = condition_of(error)
    return list(dict.fromkeys(name for name in (cause and cause.name, condition, type(error).__name__) if name))
