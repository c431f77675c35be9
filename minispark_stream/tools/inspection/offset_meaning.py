"""What a batch has read from a source, as its offset and the one before it say: of Kafka and the like, Delta, and rate.

    {"t":{"0":3}}  ->  {"t":{"0":8,"1":2}}                   7 records: t/0 3 to 8; new: t/1, from its beginning to 2
    {"reservoirVersion":4,"index":-1,...}                    all of the versions before 4
    {"reservoirVersion":4,"index":7,...}                     version 4 up to its file 7

1. An offset of Kafka is the next record of each partition. A partition that is new is read from its beginning. What an offset
   that goes back leaves out is not read, and comes again later, without a word of Spark.
2. An offset of Delta names the version that comes next, and the last file of it that has been read. Before the first file, and
   around a change of the schema, the number is below 0. `isStartingVersion` says that the version is the table as it was when
   the query began, whose files all count as new.
3. How far a batch is behind: the records between its end and the newest offset of each partition, which a report has.

Models: nothing of Spark.
Shown by tests/unit/tools/inspection/test_inspect_sources.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from minispark_stream.lens.view.words import plural

_SHOWN = 5  # partitions


def meaning(before: str | None, offset: str) -> str | None:
    """What was read between two offsets; None if they are of another form. `before`: None if it is not known."""
    try:
        end = json.loads(offset)
        start = None if before is None else json.loads(before)
    except (ValueError, RecursionError):
        return None
    match end:
        case {"reservoirVersion": int(version), "index": int(index)}:
            return _of_delta(version, index, end.get("isStartingVersion") is True)
        case {"offset": int(last), "timestamp": int()}:
            first = start.get("offset") if isinstance(start, dict) else None
            return f"the rows {first} to {last - 1}" if isinstance(first, int) and first < last else None
        case dict() if isinstance(start, dict) and _is_of_partitions(end) and _is_of_partitions(start):
            return _of_partitions(dict(_partitions(start)), dict(_partitions(end)))
    return None


def _is_of_partitions(value: Mapping[str, Any]) -> bool:
    return bool(value) and all(
        isinstance(one, dict) and all(isinstance(offset, int) for offset in one.values()) for one in value.values()
    )


def _partitions(value: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, int]]:
    return ((f"{topic}/{partition}", offset) for topic, of in value.items() for partition, offset in of.items())


def _of_partitions(start: Mapping[str, int], end: Mapping[str, int]) -> str:  # (1)
    moved = {name: (start[name], last) for name, last in end.items() if name in start and start[name] != last}
    forward = {name: span for name, span in moved.items() if span[0] < span[1]}
    records = sum(last - first for first, last in forward.values())
    told = [plural(records, "record")]
    if forward:
        told[0] += f": {_some(f'{name} {first} to {last}' for name, (first, last) in forward.items())}"
    back = [f"{name} from {first} to {last}" for name, (first, last) in moved.items() if first > last]
    if back:
        told.append(f"goes back: {_some(back)}; the records between come again")
    if new := [f"{name}, from its beginning to {last}" for name, last in end.items() if name not in start]:
        told.append(f"new: {_some(new)}")
    if gone := [name for name in start if name not in end]:
        told.append(f"gone: {_some(gone)}")
    return "; ".join(told)


def _some(parts: Iterable[str]) -> str:
    found = list(parts)
    return ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else "")


def _of_delta(version: int, index: int, is_start: bool) -> str:  # (2)
    whose = f"version {version}" + (", the table as it was when the query began," if is_start else "")
    if index >= 0:
        return f"{whose} up to its file {index}"
    if index in (-20, -19):
        return f"up to a change of the schema in version {version}"
    return f"nothing yet of {whose}".rstrip(",") if is_start else f"all of the versions before {version}"


def records_behind(end: Any, latest: Any) -> int | None:  # (3)
    """How many records are after the end of a batch; None if the offsets are of another form."""
    if not isinstance(end, Mapping) or not isinstance(latest, Mapping):
        return None
    read, newest = _numbers(end), _numbers(latest)
    return sum(max(0, offset - read.get(name, 0)) for name, offset in newest.items()) if newest else None


def _numbers(offset: Mapping[str, Any]) -> dict[str, int]:
    found = _partitions({topic: of for topic, of in offset.items() if isinstance(of, Mapping)})
    return {name: last for name, last in found if isinstance(last, int)}
