"""How a local Spark starts the Python workers of its tasks.

These are calls of Spark's own methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark import SparkContext
from pyspark.core.rdd import _wrap_function

DAEMON = "spark.python.daemon.module"


def use_daemon(context: SparkContext, module: str) -> None:
    """Let `module` be the parent of workers that start from now on, unless the user has chosen a parent.

    It is a setting of Spark's, which is read each time that a task needs a worker, and applies to all Python functions.
    """
    confs = context._jsc.sc().conf()
    if not confs.contains(DAEMON):
        confs.set(DAEMON, module)


def start_job(context: SparkContext, description: str, task: Callable[[int, Iterator[Any]], Iterator[Any]], tasks: int) -> None:
    """Start a job that runs `task` in workers which Spark SQL will use as well, and do not wait for it.

    Args:
        context: Spark.
        description: what Spark's web pages call the job.
        task: a function of the number of a partition and its rows.
        tasks: how many partitions there are, each with one row.
    """
    rows = context.parallelize([0] * tasks, tasks)
    function = _wrap_function(context, task, rows._jrdd_deserializer, rows._jrdd_deserializer)
    # Spark keeps workers apart by their environment. Those of Spark SQL have this variable, those of an RDD do not.
    function.envVars().put("SPARK_SIMPLIFIED_TRACEBACK", "1")
    jvm: Any = context._jvm
    context.setJobDescription(description)
    jvm.PythonRDD(rows._jrdd.rdd(), function, False, False).asJavaRDD().countAsync()
    context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
