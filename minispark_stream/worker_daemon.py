"""A parent process for the Python workers of an executor, which has imported what they need, so that they share its memory.

Models: pyspark.daemon, which Spark starts in each executor, and which forks a worker whenever there is no idle one.

1. The packages that a task of the model imports are imported before the first worker is forked. A worker shares the memory
   that it does not change with its parent and with the other workers.
2. At its first task, a worker forgets what Python knows about the folders that it imports from. For each package in PySpark's
   zip file and in Spark's jar, which is on the path too, it would read the list of all files anew and keep it, which takes
   more than 20 MB in each worker. So the parent forgets these importers; a worker that needs one takes the parent's list.
3. Python's garbage collector leaves the imported objects alone, because it changes the objects that it looks at.
4. A worker begins with random numbers of its own, as one that imports numpy itself. Without that, all would go on with those of
   their parent and draw the same. (Python's own `random` does this after every fork.)
5. After that, this is PySpark's own daemon.

    --conf spark.python.daemon.module=minispark_stream.worker_daemon      when Spark starts, for all its Python workers

It is not the default, because it needs this package installed on every node, and because Python functions that have nothing to
do with streams get the imports, too. A worker then starts at once; otherwise it imports packages for most of a second.

Shown by tests/spark/test_worker_python.py::test_the_workers_of_a_local_spark_run_the_drivers_python,
tests/spark/test_worker_python.py::test_no_two_workers_draw_the_same_random_numbers.
"""

from __future__ import annotations

import gc
import os
import sys
from zipimport import zipimporter

import numpy as np
import pandas as pd  # noqa: F401  PySpark's worker imports it when a task reads Arrow
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import minispark_stream.session  # noqa: F401  (1)

if __name__ == "__main__":
    for path, importer in list(sys.path_importer_cache.items()):  # (2)
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]
    gc.collect()
    gc.freeze()  # (3)
    os.register_at_fork(after_in_child=np.random.seed)  # (4)
    manager()  # (5)
