"""Settings of a Python worker process that make small tasks fast, and do not change what a task does.

Models: nothing of Spark, whose tasks run in its own process.

1. *Garbage collection.* After each task, PySpark's worker collects garbage. With all the objects that pandas, pyarrow and Spark
   have loaded, this takes 30 ms of CPU, more than a small task, and longer with each store that the worker keeps. But what is
   still there when the next task begins is in use. So it is frozen: the collector skips it, and looks only at what the task
   adds. A frozen object is freed as usual when nobody refers to it any more, unless it refers to itself in a circle; so that
   these are found as well, nothing is frozen during every thousandth task. While a task runs, Python would look for garbage
   after every 700 new objects; with a threshold of 200,000, a task over many rows takes a tenth less time.
2. *TCP.* Each side holds the end of a message back until the other has acknowledged its beginning, and Linux delays the
   acknowledgement by 40 ms. A worker can be told, once, not to hold anything back, and to acknowledge at once what it receives,
   for each task anew, and in a task that runs for long, for each piece. PySpark does not say which socket is the worker's, so
   this is done for all that are open when the first task begins (later, shared tables are open by the hundred). A Unix socket
   refuses, which does no harm.
3. *The end of an Arrow batch* are some bytes that fill it up to a multiple of eight. They may stay in the buffer of the worker,
   even in one of four bytes, until the task emits something else. In a task that runs for long, an empty batch follows.

    second task    what the first one has imported and loaded is frozen       third task    and what the second one has added
"""

from __future__ import annotations

import gc
import os
import socket
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import count
from typing import TypeVar

import pyarrow as pa

THAWED = 1000  # so many tasks
T = TypeVar("T")
_OPEN_FILES = "/proc/self/fd"
_tasks = count(1)


def tune_worker() -> None:
    """Apply the settings; called at the beginning of each task."""
    spare_the_collector(next(_tasks))
    do_not_wait()


def spare_the_collector(task: int) -> None:
    """(1) Freeze all objects, or, before every thousandth `task` of the process, none."""
    gc.set_threshold(200_000)
    if task % THAWED == 0:
        gc.unfreeze()
    else:
        gc.freeze()


def do_not_wait() -> None:
    """(2) Send and acknowledge at once on the sockets of the process, if the system supports it."""
    if not hasattr(socket, "TCP_QUICKACK") or not os.path.isdir(_OPEN_FILES):
        return
    for descriptor in _sockets():
        with suppress(OSError), socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def acknowledged(batches: Iterable[T]) -> Iterator[T]:
    """(2) What a long task is given; as soon as a piece has come, Spark may send the next one."""
    for batch in batches:
        do_not_wait()
        yield batch


def written_out(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """(3) What a long task emits before it waits; the worker writes all of it at once."""
    for batch in batches:
        yield batch
        yield batch.slice(0, 0)


@cache
def _sockets() -> list[int]:
    """The sockets that the process has open in its first task, the one that connects it with Spark among them."""
    found = []
    for descriptor in map(int, os.listdir(_OPEN_FILES)):
        with suppress(OSError):  # that of the list itself is closed by now
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                found.append(descriptor)
    return found
