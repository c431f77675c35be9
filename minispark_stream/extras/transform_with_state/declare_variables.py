"""Which state variables does a StatefulProcessor have? The engine finds this out before the first batch of a run.

Models: TransformWithStateInPySparkPythonPreInitRunner and DriverStatefulProcessorHandleImpl (About state).

One task calls `init` with a handle that notes what it is asked for, and then `close`. There is no state yet. The answer goes to
the driver as JSON. The driver parses the schemas (transform_with_state.py), because a task has no JVM that could parse DDL.

    handle.getValueState("total", "n long")      ["value", "total", [[true, "n long"]], null]

Differs from Spark: nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import ListState, MapState, StatefulProcessorHandle, ValueState
from pyspark.sql.types import StructType

from minispark_stream.extras.transform_with_state.keyed_families import number_of, text_of
from minispark_stream.extras.transform_with_state.transform_with_state_task import load_processor


@dataclass(frozen=True)
class DeclareVariables:
    """A task that calls `init` and returns what it declared: one row of JSON."""

    command: bytes

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        processor, handle = load_processor(self.command), DeclaringHandle()
        for _ in batches:
            pass
        processor.init(handle)
        processor.close()
        yield pa.RecordBatch.from_arrays([pa.array([json.dumps(handle.declared)])], names=["variables"])


class DeclaringHandle(StatefulProcessorHandle):
    """Notes what it is asked for: kind, name, schemas (whether it is DDL, and the text), time to live in ms."""

    def __init__(self) -> None:
        self.declared: list[tuple[str, str, list[tuple[bool, str]], int | None]] = []

    def getValueState(self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None) -> ValueState:
        self._add("value", stateName, [schema], ttlDurationMs)
        return ValueState(None, stateName)  # type: ignore[arg-type]

    def getListState(self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None) -> ListState:
        self._add("list", stateName, [schema], ttlDurationMs)
        return ListState(None, stateName)  # type: ignore[arg-type]

    def getMapState(
        self, stateName: str, userKeySchema: StructType | str, valueSchema: StructType | str, ttlDurationMs: int | None = None
    ) -> MapState:
        self._add("map", stateName, [userKeySchema, valueSchema], ttlDurationMs)
        return MapState(None, stateName)  # type: ignore[arg-type]

    def deleteIfExists(self, stateName: str) -> None:
        pass

    def _add(self, kind: str, name: str, schemas: list[StructType | str], ttl_ms: int | None) -> None:
        name, ttl_ms = text_of(name), None if ttl_ms is None else number_of(ttl_ms)
        texts = [(True, s) if isinstance(s, str) else (False, s.json()) for s in schemas]
        self.declared.append((kind, name, texts, ttl_ms))
