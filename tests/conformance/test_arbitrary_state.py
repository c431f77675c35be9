"""applyInPandasWithState: a function with a state of its own for each key does the same on both engines.

Times are minutes after 12:00; `at("ann", 3)` is a click of Ann at 12:03. The watermark runs 10 minutes behind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

SCHEMA = "ts timestamp, user string, n int, price decimal(8,2), tags array<string>, day date, page struct<site:string,id:int>"
Function = Callable[[Any, Iterable[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]


def at(user: str | None, minute: float | None = 0, **columns: Any) -> str:
    """A click of a user, as a line of JSON."""
    click: dict[str, Any] = {"user": user, "n": 1, **columns}
    if minute is not None:
        click["ts"] = str(datetime(2024, 1, 1, 12) + timedelta(seconds=round(minute * 60)))
    return json.dumps({name: value for name, value in click.items() if value is not None})


def clicks(session: Any, input_dir: str, watermark: bool = True) -> DataFrame:
    stream = session.readStream.schema(SCHEMA).json(input_dir)
    return stream.withWatermark("ts", "10 minutes") if watermark else stream


def with_state(
    function: Function, output: str, state: str, *keys: str, mode: str = "update", timeout: str = GroupStateTimeout.NoTimeout,
    watermark: bool = True,
) -> Callable[[Any, str], DataFrame]:
    def build(session: Any, input_dir: str) -> DataFrame:
        grouped = clicks(session, input_dir, watermark).groupBy(*(keys or ["user"]))
        return grouped.applyInPandasWithState(function, output, state, mode, timeout)

    return build


def rows(comparison: Any) -> list[list[tuple[Any, ...]]]:
    """The rows of each batch."""
    return [sorted(batch.rows, key=repr) for batch in comparison.model.batches]


def state_operators(comparison: Any, name: str) -> list[int]:
    return [batch.progress["stateOperators"][0][name] for batch in comparison.model.batches]


def count(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """How many rows a key has had."""
    total = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
    state.update((total,))
    yield pd.DataFrame({"user": [key[0]], "total": [total]})


COUNTS = (count, "user string, total long", "total long")


def test_a_state_is_kept_from_batch_to_batch(compare):
    result = compare(
        with_state(*COUNTS), feed=[[at("ann"), at("bob"), at("ann")], [at("ann")], [at("eve"), at("bob")]], output_mode="update"
    )
    assert rows(result) == [[("ann", 2), ("bob", 1)], [("ann", 3)], [("bob", 2), ("eve", 1)]]
