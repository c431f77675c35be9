"""What an engine did with a query (EngineRun) as JSON, and back.

    EngineRun(batches=(EngineBatch(0, {...}, rows=((1, Decimal("1.50")),), logs={...}),), files={"commits/0": ...})
    <->  {"batches": [{"batch_id": 0, "progress": {...}, "rows": [[1, {"Decimal": "1.50"}]], "logs": {...}}], "files": {...}}

A value that JSON has no form for is an object with the name of its type. A value of another type is an error: such a run is not recorded.
The trace is made anew, from the reports and the logs.
"""

from __future__ import annotations

import base64
import datetime
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from minispark_stream.tools.compare.checkpoint_files import FamilyChanges
from minispark_stream.tools.compare.engine_run import Cause, EngineBatch, EngineRun
from minispark_stream.tools.compare.spark_batch import SparkBatch
from minispark_stream.tools.compare.spark_trace import spark_trace


def run_to_json(run: EngineRun) -> dict[str, Any]:
    """Raises TypeError if a value has a type that is not known here."""
    batches = [
        {"batch_id": b.batch_id, "progress": b.progress, "rows": [[_plain(v) for v in row] for row in b.rows], "logs": b.logs}
        for b in run.batches
    ]
    cause = run.cause and [run.cause.name, run.cause.message]
    files = {name: _plain(content) for name, content in run.files.items()}
    return {"batches": batches, "files": files, "condition": run.condition, "cause": cause}


def run_from_json(value: Mapping[str, Any]) -> EngineRun:
    batches = tuple(
        EngineBatch(b["batch_id"], b["progress"], tuple(tuple(map(_value, row)) for row in b["rows"]), b["logs"])
        for b in value["batches"]
    )
    files = {name: _value(content) for name, content in value["files"].items()}
    cause = Cause(*value["cause"]) if value["cause"] else None
    trace = spark_trace([SparkBatch(b.progress, b.logs) for b in batches], error=None if cause is None else str(cause))
    return EngineRun(batches, trace, files, value["condition"], cause)


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return {"float": value.hex()}
        case bytes() | bytearray():
            try:
                return {"utf8": value.decode()}
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(value).decode()}
        case Counter():
            return {"Counter": [[_plain(key), count] for key, count in value.items()]}
        case FamilyChanges():
            return {"FamilyChanges": [[_plain(key), _plain(change)] for key, change in value.items()]}
        case dict():
            return {"dict": [[_plain(key), _plain(of_key)] for key, of_key in value.items()]}
        case tuple():  # also a Row, whose names no comparison looks at
            return {"tuple": [_plain(element) for element in value]}
        case list():
            return [_plain(element) for element in value]
        case Decimal():
            return {"Decimal": str(value)}
        case datetime.datetime() | datetime.date() | datetime.time():
            return {type(value).__name__: value.isoformat()}
        case datetime.timedelta():
            return {"timedelta": [value.days, value.seconds, value.microseconds]}
    raise TypeError(f"no JSON for a {type(value).__name__}")


_VALUES: Mapping[str, Any] = {
    "float": float.fromhex,
    "utf8": str.encode,
    "base64": base64.b64decode,
    "Counter": lambda pairs: Counter({_value(key): count for key, count in pairs}),
    "FamilyChanges": lambda pairs: FamilyChanges({_value(key): _value(change) for key, change in pairs}),
    "dict": lambda pairs: {_value(key): _value(of_key) for key, of_key in pairs},
    "tuple": lambda elements: tuple(map(_value, elements)),
    "Decimal": Decimal,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": lambda parts: datetime.timedelta(*parts),
}


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(element) for element in plain]
    if isinstance(plain, dict):
        ((kind, content),) = plain.items()
        return _VALUES[kind](content)
    return plain
