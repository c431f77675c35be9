"""foreachBatch: pass each batch to a user's function.

Models: ForeachBatchSink (Sink document). The function receives the batch as a DataFrame, and the batch id. It is called at
least once per batch. A restart may run the last batch again with the same id, so the id makes it possible to write
idempotently. Every action on the DataFrame runs the batch's job again (cache it if there are several actions). Every partition
must be read, because a partition that is not read does not write the next version of its state.

    batch 7   function(df, 7) -> the user overwrites the folder out/7 -> crash    restart   function(df, 7) overwrites it again

Differs from Spark: the DataFrame has no sort order or partitioning that Spark knows of, because it is made of the rows of the
batch without their plan. So a batch that is grouped once more by the keys of its state is shuffled once more, and a batch that
is sorted by a key of an aggregation can be cached; in Spark 4.3.0, its sort order names a column that the batch does not have,
and using the cache ends the query with a NoSuchElementException. If the function raises what is no Exception, as `sys.exit()`
does, the query fails; Spark waits for the function for ever, and so does `stop()`.
Shown by tests/spark/test_differences.py::test_a_batch_in_a_foreach_batch_function_has_no_partitioning,
tests/spark/test_differences.py::test_a_batch_that_is_sorted_by_a_key_can_be_cached,
tests/spark/test_differences.py::test_a_foreach_batch_function_that_exits.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from minispark_stream.engine.sinks.base import Sink

_CONDITION = "FOREACH_BATCH_USER_FUNCTION_ERROR"
_WORDS = "An error occurred in the user provided function in foreach batch sink. Reason: {} SQLSTATE: 39000"


class ForeachBatchUserFunctionError(PySparkException):
    """The user's function has raised `error`.

    In Spark, `error` comes to the sink through py4j, which makes a text of it and of its traceback: the `reason`. The exception
    as a text, which is for the log and the trace, has only the error itself, because the log shows the traceback anyway.
    """

    def __init__(self, error: BaseException):
        told = "".join(traceback.format_exception(error))
        self.reason = f"An exception was raised by the Python Proxy. Return Message: {told}"
        self._in_short = "".join(traceback.format_exception_only(error)).strip()
        super().__init__(_WORDS.format(self.reason), _CONDITION, {"reason": self.reason})

    def __str__(self) -> str:
        return f"[{_CONDITION}] {_WORDS.format(self._in_short)}"


class ForeachBatchSink(Sink):
    description = "ForeachBatchSink"
    is_v1 = True
    calls_function = True

    def __init__(self, function: Callable[[DataFrame, int], object]):
        self.function = function

    def add_batch(self, batch_id: int, data: DataFrame) -> None:
        try:
            self.function(data, batch_id)
        except BaseException as e:
            raise ForeachBatchUserFunctionError(e) from e
