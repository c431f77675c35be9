"""The state of transformWithState for a person: a store for each variable, and one for the timers.

Models: nothing of Spark; its `statestore` source shows one variable at a time.

1. A row of the store has the name of its family before the grouping key, and an element after it (column_families.py).
2. A family with a name of its own is a variable, whose schemas lie beside the state. Its element is nothing for a value, the
   index for a list, and the user's key for a map.
3. The element of a timer is its time, and it has no value.

    ("clicks", ann, null) -> 3              store clicks    user=ann               count=3
    ("$eventTimers", ann, 12:05) -> nothing store timers    user=ann timer=12:05
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType, TimestampType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.checkpointing.unsafe_row.plain import decode_rows, plain
from minispark_stream.engine.operators.base import nullable
from minispark_stream.engine.operators.group_state_rows import state_row_schema
from minispark_stream.extras.transform_with_state.column_families import INTERNAL, KEY_SCHEMA, VALUE_SCHEMA
from minispark_stream.extras.transform_with_state.state_variables import index_of
from minispark_stream.extras.transform_with_state.stateful_processor_handle import time_of

Schemas = tuple[StructType, StructType]


def readable_variables(
    rows: Sequence[tuple[bytes, bytes]], keys: StructType, schemas: Callable[[str], Schemas]
) -> list[dict[str, Any]]:
    """The rows of a store; `schemas` gives key and value schema of a variable as they lie in the checkpoint."""
    if not rows:
        return []
    known: dict[str, Schemas] = {}
    families, groups, elements = (c.to_pylist() for c in UnsafeRowCodec(KEY_SCHEMA).decode([key for key, _ in rows]))
    [values] = (c.to_pylist() for c in UnsafeRowCodec(VALUE_SCHEMA).decode([value for _, value in rows]))
    found = []
    for family, group, element, value in zip(families, groups, elements, values):  # (1)
        key = _plain(group, keys)
        if family.startswith(INTERNAL):  # (3)
            found.append({"store": "timers", "key": {**key, "timer": _time(element)}, "value": {}})
            continue
        if family not in known:
            known[family] = schemas(family)
        key_schema, value_schema = known[family]
        shown = _plain(value, value_schema["value"].dataType, has_ttl=len(value_schema) > 1)
        found.append({"store": family, "key": {**key, **dict(_element(element, key_schema))}, "value": shown})
    return found


def _element(element: bytes | None, key_schema: StructType) -> Iterator[tuple[str, Any]]:  # (2)
    if element is not None and "map" in key_schema.names:
        yield from _plain(element, key_schema["map"].dataType).items()
    elif element is not None:
        yield "index", index_of(element)


def _plain(row: bytes, schema: Any, has_ttl: bool = False) -> dict[str, Any]:
    [found] = decode_rows(UnsafeRowCodec(state_row_schema(nullable(schema), has_ttl)), [row])
    expires = {"expires": _ms(found["timeoutTimestamp"])} if has_ttl else {}
    return {**(found["groupState"] or {}), **expires}


def _time(element: bytes) -> str:
    return _ms(time_of(element))


def _ms(ms: int) -> str:
    return str(plain(pa.array([ms * 1000], pa.timestamp("us")), TimestampType())[0])
