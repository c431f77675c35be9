"""A parent for the Python workers of an executor that has imported what all of them need, so that they share its memory.

Models: pyspark.daemon, which Spark starts in each executor, and which forks a worker whenever no idle one is there.

1. What a task of the model imports is imported before the first worker is forked. What a worker does not change, it has in
   common with its parent and with the others.
2. Python's collector leaves the imported objects alone, as those that it looks at are changed.
3. Then it is PySpark's own daemon.

    --conf spark.python.daemon.module=minispark_stream.worker_daemon      when Spark starts, for all of its Python workers

It has to be asked for: it needs this package installed on every node, and Python functions that have nothing to do with streams
find the packages imported, too. A worker is there at once then, where it otherwise imports for most of a second.

Shown by tests/spark/test_worker_python.py::test_the_workers_of_a_local_spark_run_the_drivers_python.
"""

from __future__ import annotations

import gc

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import minispark_stream  # noqa: F401  (1)

if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # (2)
    manager()  # (3)
