"""The entry point: a Spark session whose streams run on this engine.

Models: SparkSession (`readStream`, `streams`).

    mini = MiniSparkSession(spark)
    mini.readStream ... .writeStream ... .start()      # this engine
    mini.read ... , mini.table("counts"), mini.sql     # the wrapped session

Differs from Spark: the Python workers of a local Spark run the driver's own Python unless another one is asked for.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from typing import Any

from pyspark.errors import PySparkValueError
from pyspark.sql import DataFrame, SparkSession

from minispark_stream.clock import Clock, SystemClock
from minispark_stream.dataframe import let_data_frames_choose_their_engine
from minispark_stream.readwriter import DataStreamReader
from minispark_stream.streaming_query_manager import StreamingQueryManager

logger = logging.getLogger(__name__)


class MiniSparkSession:
    """`readStream` and `streams` are the model's; every other attribute is the wrapped session's.

    Args:
        spark: a classic (not Connect) SparkSession.
        trace: what queries record: "steps" (default), "rows" (with previews of rows and state; costs extra jobs) or "off".
        clock: the clock of the engine; tests hand in a ManualClock.

    Raises:
        PySparkValueError: an unknown trace level.
    """

    def __init__(self, spark: SparkSession, trace: str = "steps", clock: Clock | None = None):
        if trace not in ("off", "steps", "rows"):
            raise PySparkValueError(
                errorClass="VALUE_NOT_ALLOWED",
                messageParameters={"arg_name": "trace", "allowed_values": "['off', 'steps', 'rows']"},
            )
        self.spark = spark
        self.clock = clock or SystemClock()
        self._streams = StreamingQueryManager(spark, trace, self.clock)
        let_data_frames_choose_their_engine()
        _let_workers_run_this_python(spark)

    @property
    def readStream(self) -> DataStreamReader:  # noqa: N802
        """A new DataStreamReader with PySpark's methods; what it loads is read by this engine."""
        return DataStreamReader(self)

    @property
    def streams(self) -> StreamingQueryManager:
        """The queries that this session has started."""
        return self._streams

    def table(self, name: str) -> DataFrame:
        """A table or view of the wrapped session; of a stream, it is that stream."""
        return self.spark.table(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.spark, name)


def _let_workers_run_this_python(spark: SparkSession) -> None:
    """See to it that the model's tasks find the packages that the driver has.

    Without a word from the user PySpark starts its workers with whatever `python3` is first in PATH, and that is another
    Python when a virtual environment is used without being activated (`.venv/bin/python script.py`). A local master's workers
    run on this machine, where the driver's Python is there under the same path and has what the tasks need; so it is the
    right one. On a cluster that path may mean nothing, so there is only a warning. PySpark looks the name up when it wraps a
    function for the workers: a UDF that was already called before this session was made keeps the Python that it had.
    """
    context = spark.sparkContext
    asked_for = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
    if asked_for:
        return
    if str(context.master).startswith("local"):
        context.pythonExec = sys.executable
    elif os.path.dirname(shutil.which(context.pythonExec) or "") != os.path.dirname(sys.executable):
        logger.warning(
            "The driver runs %s, the workers will run the %s of their PATH: set PYSPARK_PYTHON (or spark.pyspark.python) to a "
            "Python that has numpy, pandas and pyarrow on every node.", sys.executable, context.pythonExec,
        )
