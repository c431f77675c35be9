"""How the user's function of applyInPandasWithState is called: it receives pandas data, and returns pandas data.

Models: ApplyInPandasWithStatePythonRunner, and PySpark's worker for it (SIGMOD'18 paper, 4.3.2: stateful processing
operators).

1. The function is the one that the user wrote, as PySpark pickled it: `function(key, frames, state)`.
2. `key` is a tuple, and `frames` an iterator of pandas frames with all columns of the group's rows. If the group has timed out,
   it has a single empty frame.
3. The function must return an iterable of frames with as many columns as the output schema (or without any).
4. The returned frames of many groups are emitted together, as one Arrow batch for every
   `spark.sql.execution.arrow.maxRecordsPerBatch` rows. If their columns have names, they are matched by name.

    rows of ann     ann 12:00, ann 12:03              function(("ann",), <one frame of 2 rows>, state)
    returns         DataFrame(user=[ann], clicks=[2])
    emitted         ann, 2

Differs from Spark: nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, starmap
from typing import Any

import pyarrow as pa
from pyspark.broadcast import Broadcast
from pyspark.errors import PySparkRuntimeError, PySparkTypeError
from pyspark.serializers import CPickleSerializer
from pyspark.sql.conversion import ArrowBatchTransformer, PandasToArrowConversion
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import StructType
from pyspark.util import fail_on_stopiteration

from minispark_stream.engine.checkpointing.metadata_log import is_true
from minispark_stream.engine.operators.columns import record_batch

Function = Callable[[tuple[Any, ...], Iterable[Any], GroupState], Iterable[Any]]
Cut = Callable[[int, int], Any]  # returns a frame with the rows of a range


@dataclass(frozen=True)
class PandasConf:
    """How rows are converted to pandas and back: the confs of PySpark's worker."""

    timezone: str
    max_records_per_batch: int
    max_bytes_per_batch: int
    safe: bool
    by_name: bool
    integer_extension: bool
    int_to_decimal: bool

    @staticmethod
    def from_conf(conf_get: Callable[[str], str | None], conf_bytes: Callable[[str], int]) -> PandasConf:
        def flag(key: str) -> bool:
            return is_true(conf_get(key))

        at_most = int(conf_get("spark.sql.execution.arrow.maxRecordsPerBatch") or 10_000)
        return PandasConf(
            conf_get("spark.sql.session.timeZone") or "UTC",
            at_most if at_most > 0 else 2**31 - 1,
            conf_bytes("spark.sql.execution.arrow.maxBytesPerBatch"),
            flag("spark.sql.execution.pandas.convertToArrowArraySafely"),
            flag("spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName"),
            flag("spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype"),
            flag("spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled"),
        )


@dataclass
class Group:
    """One call of the function: the key as the state has it, the ranges of rows that are its frames, and its state.

    `num_given`: how many rows the function returned.
    """

    key: bytes
    chunks: list[tuple[int, int]]
    state: GroupState
    num_given: int = 0


@dataclass(frozen=True)
class GroupedMapPandasWithState:
    """The function of one task. `grouping` has the positions of the keys among the columns that come in.

    `result` is the schema that the user gave; `output` has the Arrow types of the rows that leave the task.
    """

    function: Function
    grouping: tuple[int, ...]
    result: StructType
    output: pa.Schema
    conf: PandasConf

    def check_types(self, rows: pa.RecordBatch) -> None:
        """Raises PySpark's own error for a type that pandas cannot have, before such keys are looked for in the state."""
        if rows.num_rows:
            self._pandas(rows.slice(0, 1))

    def call(self, rows: pa.RecordBatch, groups: Sequence[Group]) -> Iterator[pa.RecordBatch]:
        """(4) Call the function for each group of the rows; yields what it returned as Arrow batches."""
        if not groups:
            return
        cut = self._frames(rows)
        frames: list[Any] = []
        size = finished = 0
        for group in groups:
            for frame in self._results(group, cut):
                if len(frame):
                    frames.append(frame)
                    size += len(frame)
                    group.num_given += len(frame)
                if size > self.conf.max_records_per_batch:
                    yield self._rows(frames, size, finished)
                    frames, size, finished = [], 0, 0
            finished += 1
        if size:
            yield self._rows(frames, size, finished)

    def _results(self, group: Group, cut: Cut) -> Iterator[Any]:
        """(2), (3) The frames that the function returns for one group, after a check."""
        import pandas as pd

        later = starmap(cut, group.chunks[1:])
        first = cut(*group.chunks[0])
        key = tuple(first.iat[0, i] for i in self.grouping)
        frames = [pd.DataFrame(columns=first.columns)] if group.state.hasTimedOut else chain([first], later)
        results = self.function(key, frames, group.state)
        if isinstance(results, pd.DataFrame):
            raise _wrong_type("iterable of pandas.DataFrame", type(results).__name__)
        try:
            iterator = iter(results)
        except TypeError:
            raise _wrong_type("iterable", type(results).__name__) from None
        for frame in iterator:
            if not isinstance(frame, pd.DataFrame):
                raise _wrong_type("iterator of pandas.DataFrame", f"iterator of {type(frame).__name__}")
            width = len(frame.columns)
            if width != len(self.result) and not (width == 0 and frame.empty):
                raise PySparkRuntimeError(
                    errorClass="RESULT_COLUMN_SCHEMA_MISMATCH",
                    messageParameters={"expected": str(len(self.result)), "actual": str(width)},
                )
            yield frame

    def _frames(self, rows: pa.RecordBatch) -> Cut:
        """A function that cuts frames out of the rows.

        The rows are converted all at once, because to convert them frame by frame takes four times as long. But if there are
        nulls in them, also within arrays, each frame is converted by itself: its own nulls decide which types it has.
        """
        if any(c.null_count or pa.types.is_nested(c.type) for c in rows.columns if not pa.types.is_null(c.type)):
            return lambda begin, end: self._pandas(rows.slice(begin, end - begin))
        whole = self._pandas(rows)
        return lambda begin, end: whole.iloc[begin:end].reset_index(drop=True)

    def _pandas(self, rows: pa.RecordBatch) -> Any:
        import pandas as pd

        series = ArrowBatchTransformer.to_pandas(
            rows, timezone=self.conf.timezone, struct_in_pandas="dict", ndarray_as_list=False,
            prefer_int_ext_dtype=self.conf.integer_extension, df_for_struct=False,
        )
        return pd.concat(series, axis=1)

    def _rows(self, frames: list[Any], size: int, finished: int) -> pa.RecordBatch:
        """The frames as a record batch.

        PySpark sends the rows and states of a batch side by side. If there are fewer rows than states, it adds rows of nulls.
        This can decide whether a column can be converted to the result type, because in pandas, a column of integers with nulls
        is no longer of integers. So the nulls are added here, too, and removed again afterwards.
        """
        import pandas as pd

        filling = pd.DataFrame(dict.fromkeys(self.result.names), index=range(max(finished - size, 0)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # pandas says that an empty frame will one day change the types
            filled = pd.concat([*frames, filling], ignore_index=True)
        batch = PandasToArrowConversion.convert(
            filled, self.result, timezone=self.conf.timezone, safecheck=self.conf.safe, arrow_cast=True,
            assign_cols_by_name=self.conf.by_name, int_to_decimal_coercion_enabled=self.conf.int_to_decimal,
        )
        return record_batch([column.slice(0, size).cast(kind) for column, kind in zip(batch.columns, self.output.types)], size)


def load_function(command: bytes) -> Function:
    """(1) The user's function from a pickled command, which the driver put into a broadcast if it was long."""
    return fail_on_stopiteration(load_command(command))


def load_command(command: bytes) -> Any:
    """The function that PySpark pickled, as it is."""
    serializer = CPickleSerializer()
    loaded = serializer.loads(command)
    function, _ = serializer.loads(loaded.value) if isinstance(loaded, Broadcast) else loaded
    return function


def _wrong_type(expected: str, actual: str) -> PySparkTypeError:
    return PySparkTypeError(errorClass="UDF_RETURN_TYPE", messageParameters={"expected": expected, "actual": actual})
