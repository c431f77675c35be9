"""A parent process for the Python workers of an executor, which has imported what they need, so that they share its memory.

Models: pyspark.daemon, which Spark starts in each executor, and which forks a worker whenever there is no idle one.

1. Spark puts its own `pyspark.zip` before everything else on the path of its workers. Python compiles what it imports from a
   zip file in every process anew; what it imports from a folder, it has compiled once. If PySpark was installed by pip or
   conda, Spark's home *is* the folder of the package, which holds the same files, and the zip files are not needed.
2. The packages that a task of the model imports are imported before the first worker is forked. A worker starts at once, and
   shares the memory that it does not change with its parent and with the other workers.
3. A process with threads should not fork. NumPy's library ends its threads before a fork by itself; the background thread of
   an allocator that comes with pyarrow, which nobody uses, is not started.
4. At its first task, a worker forgets what Python knows about the folders that it imports from. For each zip file that is still
   on the path it would read the list of all files anew and keep it, which takes more than 20 MB in each worker. So the parent
   forgets these importers; a worker that needs one takes the parent's list.
5. Python's garbage collector leaves the imported objects alone, because it changes the objects that it looks at.
6. A worker begins with random numbers of its own, as one that imports numpy itself. Without that, all would go on with those of
   their parent and draw the same. (Python's own `random` does this after every fork.)
7. After that, this is PySpark's own daemon.

    import numpy, pandas, pyarrow, pyspark.worker      in each worker 0.5 s and 80 MB, or once

workers.py asks for it on a local Spark, unless the user has chosen a parent. On a cluster, where this package must then be
on every node, it is asked for when Spark starts:

    --conf spark.python.daemon.module=minispark_stream.worker_daemon      for all Python functions of that Spark

Shown by tests/spark/test_worker_python.py::test_the_workers_of_a_local_spark_share_what_their_parent_has_imported,
tests/spark/test_worker_python.py::test_no_two_workers_draw_the_same_random_numbers.
"""

from __future__ import annotations

import gc
import os
import sys
from zipimport import zipimporter


def prefer_the_folder_of_pyspark() -> None:  # (1)
    home = os.environ.get("SPARK_HOME", "")
    if os.path.realpath(home) in (os.path.realpath(os.path.join(folder, "pyspark")) for folder in sys.path):
        for path in [path for path in sys.path if path.startswith(home + os.sep) and path.endswith((".zip", ".jar"))]:
            sys.path.remove(path)
            sys.path_importer_cache.pop(path, None)


if __name__ == "__main__":
    prefer_the_folder_of_pyspark()
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")  # (3)
    import numpy as np
    import pandas as pd  # noqa: F401  (2) PySpark's worker imports it when a task reads Arrow
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    import minispark_stream.session  # noqa: F401

    for path, importer in list(sys.path_importer_cache.items()):  # (4)
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]
    gc.collect()
    gc.freeze()  # (5)
    os.register_at_fork(after_in_child=np.random.seed)  # (6)
    manager()  # (7)
