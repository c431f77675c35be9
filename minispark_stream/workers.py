"""What the workers of the executors need to run the model's tasks: a Python with the right packages, and this package itself.

Models: SparkContext (`pythonExec`, `addPyFile`). Spark's own operators are on every node with Spark itself.

1. On this machine, the workers run the driver's own Python, unless the user asked for another one.
2. The executors of a cluster receive this package as a zip, once for each SparkContext; Spark puts it on the path of every
   worker, including those of executors that start later.

       spark://host:7077   ->   /.../spark-files/minispark_stream.zip, which each worker imports from

3. On this machine, the first workers are started when the session is made, while the user still writes the query, and by a
   parent process that starts them faster (local_worker_daemon.py).

Differs from Spark: the Python workers of a local Spark run the driver's own Python unless the user asks for another one,
because the driver's Python has the packages that the tasks need; and a small job starts two of them ahead.
Shown by tests/unit/test_workers.py::test_on_this_machine_the_workers_run_the_drivers_python.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import sessions
from minispark_stream.tools.cause import of_workers

PACKAGE = Path(__file__).parent

logger = logging.getLogger(__name__)


def let_workers_run_this_python(context: SparkContext) -> None:
    """Make sure that the model's tasks find the packages that the driver has. (1)

    If the user sets nothing, PySpark starts its workers with the first `python3` in PATH. This is another Python when a
    virtual environment is used without being activated (`.venv/bin/python script.py`). The workers of a local master
    run on this machine, where the driver's Python has the same path and has the packages that the tasks need; so it is the
    right one. On a cluster, that path may not exist, so there is only a warning. PySpark looks the name up when it wraps a
    function for the workers: a UDF that was called before this session was created keeps the Python that it had.

    Raises:
        PySparkRuntimeError: on this machine, the workers cannot run with the Python that the user has asked for.
    """
    is_local = str(context.master).startswith("local")
    asked_for = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
    if asked_for:
        told = of_workers(context.pythonExec) if is_local and not _workers_run_this_python(context) else None
        if told is not None:
            raise PySparkRuntimeError(message=told)
    elif is_local:
        context.pythonExec = sys.executable
    elif not _workers_run_this_python(context):
        logger.warning(
            "The driver runs %s, the workers will run the %s of their PATH: set PYSPARK_PYTHON (or spark.pyspark.python) to a "
            "Python that has numpy, pandas, pyarrow and xxhash on every node.", sys.executable, context.pythonExec,
        )


def send_this_package(context: SparkContext) -> None:
    """Let the executors of a cluster import the package that the driver has. (2)"""
    if _is_in_this_process(context):  # the workers have the driver's path
        return
    name = PACKAGE.name
    if any(path.endswith(f"/{name}.zip") for path in context.listFiles):
        return
    folder = tempfile.mkdtemp(prefix=f"{name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors that come later are sent the same file
    context.addPyFile(shutil.make_archive(f"{folder}/{name}", "zip", PACKAGE.parent, name))


def start_workers_ahead(spark: SparkSession) -> None:
    """Let a local Spark start its Python workers quickly, and two of them at once, by a small job that nobody waits for. (3)

    If the workers run another Python than the driver, Spark starts them as ever: that Python may not have this package.
    """

    def import_packages(batches: Iterator[Any]) -> Iterator[Any]:
        import numpy  # noqa: F401, ICN001  which takes longest, beside pyarrow, which PySpark imports here

        return batches

    def run_job() -> None:
        with suppress(Exception):  # Spark has been stopped, or its workers do not start, which the first query will say
            spark.sparkContext.setJobDescription("start Python workers")
            spark.range(0, 2, numPartitions=2).mapInArrow(import_packages, "id long").collect()

    if _is_in_this_process(spark.sparkContext) and _workers_run_this_python(spark.sparkContext):
        sessions.use_worker_daemon(spark, f"{PACKAGE.name}.local_worker_daemon")
        Thread(target=run_job, name="start Python workers", daemon=True).start()


def _workers_run_this_python(context: SparkContext) -> bool:
    """Whether the workers run a Python of the same environment as the driver, if they are on a machine like this one."""
    return os.path.dirname(shutil.which(context.pythonExec) or "") == os.path.dirname(sys.executable)


def _is_in_this_process(context: SparkContext) -> bool:
    """Whether the executor is the driver itself."""
    return str(context.master) == "local" or str(context.master).startswith("local[")
