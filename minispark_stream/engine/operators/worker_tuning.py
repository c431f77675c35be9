"""Settings of a Python worker process that make small tasks fast. They change nothing that a task does.

Models: nothing of Spark, whose tasks run in its own process.

1. *Garbage collection.* After each task, PySpark's worker collects garbage. Among all that pandas, pyarrow and Spark have
   brought, half of it while the first task ran, that takes 30 ms of CPU, more than a small task. So imported objects are
   frozen: the collector skips them. While a task runs, Python would look for garbage after each 700 new objects, among the
   rows of the state, too; with 200,000, a task over many rows takes a tenth less.
2. *TCP acknowledgement.* Over TCP, Spark keeps the end of what it sends until the worker has acknowledged the beginning, and
   Linux waits 40 ms with that unless it is asked not to. PySpark does not tell which socket is the worker's, so all of them are
   asked; a Unix socket refuses, which is fine.

    first task     100,000 imported objects are frozen       second task     nothing to freeze
"""

from __future__ import annotations

import gc
import os
import socket
import stat
import sys
from contextlib import suppress
from functools import lru_cache

_OPEN_FILES = "/proc/self/fd"


def tune_worker() -> None:
    """To be called at the beginning of each task."""
    freeze_imports(len(sys.modules))
    acknowledge_at_once()


@lru_cache(maxsize=1)
def freeze_imports(modules: int) -> None:
    """(1) Once for each number of `modules` that are there."""
    gc.freeze()
    gc.set_threshold(200_000)


def acknowledge_at_once() -> None:
    """(2) On every open socket of the process, where the system can do it."""
    if not hasattr(socket, "TCP_QUICKACK") or not os.path.isdir(_OPEN_FILES):
        return
    for descriptor in map(int, os.listdir(_OPEN_FILES)):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                with socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as connection:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
