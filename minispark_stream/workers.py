"""What the workers of the executors need to run the model's tasks: a Python with the right packages, and this package itself.

Models: SparkContext (`pythonExec`, `addPyFile`). Spark's own operators are on every node with Spark itself.

1. If the user asked for no Python, and the one that Spark would take is of another version or lacks a package that the tasks
   need, the workers on this machine run the driver's own Python.
2. Workers that do not find this package receive it as a zip, once for each SparkContext; Spark puts it on the path of every
   worker, including those of executors that start later. These are the executors of a cluster, and on this machine the
   workers of a driver that found the package where they do not look (`sys.path.insert(0, "clone")`).

       spark://host:7077   ->   /.../spark-files/minispark_stream.zip, which each worker imports from

3. On this machine, the first workers are started when the session is made, while the user still writes the query, and, if they
   find this package by themselves, by a parent process that has imported what they need (worker_daemon.py).

All Python functions of a Spark have the same settings, so nothing is set that could change or break those of the user.

Differs from Spark: where the Python that Spark would take on this machine cannot run the tasks, the workers run the driver's
own; and a small job starts two of them ahead.
Shown by tests/unit/test_workers.py::test_where_the_python_of_the_path_cannot_run_tasks_the_workers_run_the_drivers,
tests/spark/test_worker_python.py::test_a_package_that_only_the_driver_finds_breaks_no_function.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import subprocess
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

PACKAGE = Path(__file__).parent
FIND = f"from importlib.util import find_spec; found = find_spec('{PACKAGE.name}'); print(found.origin if found else '')"
ANSWERS_S = 30

logger = logging.getLogger(__name__)


def let_workers_run_tasks(spark: SparkSession) -> None:
    """Make sure that the workers have what the model's tasks need, and start the first of them."""
    let_workers_run_this_python(spark.sparkContext)
    if not workers_find_this_package(spark):
        send_this_package(spark.sparkContext)
    elif _is_in_this_process(spark.sparkContext):
        sessions.use_worker_daemon(spark, f"{PACKAGE.name}.worker_daemon")  # (3)
    start_workers_ahead(spark)


def let_workers_run_this_python(context: SparkContext) -> None:
    """Make sure that the model's tasks find the packages that the driver has. (1)

    If the user sets nothing, PySpark starts its workers with the first `python3` in PATH. This is another Python when a
    virtual environment is used without being activated (`.venv/bin/python script.py`). The workers of a local master
    run on this machine, where the driver's Python has the same path and has the packages that the tasks need; so it is the
    right one, unless that of PATH can run them, too. On a cluster, that path may not exist, so there is only a warning. PySpark
    looks the name up when it wraps a function for the workers: a UDF that was called before this session was created keeps the
    Python that it had.

    Raises:
        PySparkRuntimeError: on this machine, the workers cannot run with the Python that the user has asked for.
    """
    if _workers_run_this_python(context):
        return
    from minispark_stream.tools.cause import of_workers

    asked_for = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
    if str(context.master).startswith("local"):
        told = of_workers(context.pythonExec)
        if told is not None and asked_for:
            raise PySparkRuntimeError(message=told)
        if told is not None:
            context.pythonExec = sys.executable
    elif not asked_for:
        logger.warning(
            "The driver runs %s, the workers will run the %s of their PATH: set PYSPARK_PYTHON (or spark.pyspark.python) to a "
            "Python that has numpy, pandas, pyarrow and xxhash on every node.", sys.executable, context.pythonExec,
        )


def workers_find_this_package(spark: SparkSession) -> bool:
    """Whether the workers are on this machine and import the package that the driver has, and no other one of that name."""
    context = spark.sparkContext
    if not _is_in_this_process(context):
        return False
    folder, path = sessions.folder_and_python_path(spark)
    variables = {**os.environ, **context.environment}
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, [context.environment.get("PYTHONPATH"), path]))
    command = [context.pythonExec, "-c", FIND]
    try:
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=ANSWERS_S)
    except (OSError, subprocess.TimeoutExpired):  # no error yet: the user may have no Python function
        return False
    return bool(done.stdout.strip()) and os.path.realpath(done.stdout.strip()) == os.path.realpath(PACKAGE / "__init__.py")


def send_this_package(context: SparkContext) -> None:
    """Let the workers import the package that the driver has. (2)"""
    name = PACKAGE.name
    if any(path.endswith(f"/{name}.zip") for path in context.listFiles):
        return
    folder = tempfile.mkdtemp(prefix=f"{name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors that come later are sent the same file
    context.addPyFile(shutil.make_archive(f"{folder}/{name}", "zip", PACKAGE.parent, name))


def start_workers_ahead(spark: SparkSession) -> None:
    """Let a local Spark start two Python workers at once, by a small job that nobody waits for. (3)

    If the workers run another Python than the driver, Spark starts them as ever.
    """

    def import_packages(batches: Iterator[Any]) -> Iterator[Any]:
        import numpy  # noqa: F401  which takes longest, beside pyarrow, which PySpark imports here

        return batches

    def run_job() -> None:
        with suppress(Exception):  # Spark has been stopped, or its workers do not start, which the first query will say
            spark.sparkContext.setJobDescription("start Python workers")
            spark.range(0, 2, numPartitions=2).mapInArrow(import_packages, "id long").collect()

    if _is_in_this_process(spark.sparkContext) and _workers_run_this_python(spark.sparkContext):
        Thread(target=run_job, name="start Python workers", daemon=True).start()


def _workers_run_this_python(context: SparkContext) -> bool:
    """Whether the workers run a Python of the same environment as the driver, if they are on a machine like this one."""
    return os.path.dirname(shutil.which(context.pythonExec) or "") == os.path.dirname(sys.executable)


def _is_in_this_process(context: SparkContext) -> bool:
    """Whether the executor is the driver itself."""
    return str(context.master) == "local" or str(context.master).startswith("local[")
