"""Settings of a Python worker process that make small tasks fast, and do not change what a task does.

Models: nothing of Spark, whose tasks run in its own process.

1. *Garbage collection.* After each task, PySpark's worker collects garbage. With all the objects that pandas, pyarrow and Spark
   have loaded, half of them during the first task, this takes 30 ms of CPU, more than a small task. So imported objects are
   frozen: the collector skips them. While a task runs, Python would look for garbage after every 700 new objects, even among
   the rows of the state; with a threshold of 200,000, a task over many rows takes a tenth less time.
2. *TCP acknowledgement.* Over TCP, Spark holds the end of a message back until the worker has acknowledged its beginning, and
   Linux delays this acknowledgement by 40 ms unless it is asked not to. PySpark does not say which socket is the worker's, so
   this is asked for all of them; a Unix socket refuses, which does no harm.

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
    """Apply the settings; called at the beginning of each task."""
    freeze_imports(len(sys.modules))
    acknowledge_at_once()


@lru_cache(maxsize=1)
def freeze_imports(modules: int) -> None:
    """(1) Freeze what has been imported, unless the number of `modules` is still the same."""
    gc.freeze()
    gc.set_threshold(200_000)


def acknowledge_at_once() -> None:
    """(2) Ask for quick acknowledgement on every open socket of the process, if the system supports it."""
    if not hasattr(socket, "TCP_QUICKACK") or not os.path.isdir(_OPEN_FILES):
        return
    for descriptor in map(int, os.listdir(_OPEN_FILES)):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                with socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as connection:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
