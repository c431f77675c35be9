"""A parent process for the Python workers of a local Spark, which imports PySpark from its folder instead of from a zip file.

Models: pyspark.daemon, which Spark starts when the first Python function runs, and which forks a worker whenever none is idle.

1. Spark puts its own `pyspark.zip` before everything else on the path of its workers. Python compiles what it imports from a
   zip file in every process anew; what it imports from a folder, it has compiled once. If PySpark was installed by pip or
   conda, Spark's home *is* the folder of the package, which holds the same files, and the zip files are not needed.
2. PySpark's worker is imported before the first fork, not after each. It starts no thread: pandas and pyarrow, which would,
   are still imported by each worker.
3. After that, this is PySpark's own daemon.

    import pyspark.worker      from the zip file 0.6 s, in each worker      from the folder 0.13 s, once

workers.py asks for it. On a cluster, PySpark may be on the executors in Spark's zip files only.

Shown by tests/spark/test_worker_python.py::test_local_workers_import_pyspark_from_its_folder.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    home = os.environ.get("SPARK_HOME", "")
    if os.path.realpath(home) in (os.path.realpath(os.path.join(folder, "pyspark")) for folder in sys.path):  # (1)
        for path in [path for path in sys.path if path.startswith(home + os.sep) and path.endswith((".zip", ".jar"))]:
            sys.path.remove(path)
            sys.path_importer_cache.pop(path, None)

    import pyspark.worker  # noqa: F401  (2)
    from pyspark.daemon import manager

    manager()  # (3)
