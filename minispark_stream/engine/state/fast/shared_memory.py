"""Memory that several processes of a machine have in common, for large tables.

Models: nothing of Spark, whose tasks are threads of one process and have all memory in common.

1. The memory is a file without a name and without a disk (`memfd_create`), mapped into the process. It has an *address*: a
   process that has it open, and what the file is called there.
2. Another process opens it by that address, as long as the one that is named lives, and sees the same bytes.
3. When no process has it open any more, however it ended, the system takes it back. So a kill leaves nothing behind.
4. Whoever moves to other memory frees the pages at once (`free`), also for those who still have it mapped.

    process 11    SharedMemory.new(1 MB)            its address is (11, descriptor 5, file 3021)
    process 12    SharedMemory.at(the address)      opens /proc/11/fd/5, and looks whether it is file 3021

Where the system has no such files, or too many are open, there is no shared memory (`new` and `at` give None): a table is in
the memory of its process.
"""

from __future__ import annotations

import mmap
import os
import resource
import weakref
from typing import NamedTuple

import numpy as np

from minispark_stream.engine.checkpointing.unsafe_row.rows import Table


class Address(NamedTuple):
    """(1) Where a process finds the memory: `file` tells it from another one that has the same process id and descriptor."""

    process: int
    descriptor: int
    file: int
    num_bytes: int


class SharedMemory:
    """`bytes`: the memory, for numpy."""

    def __init__(self, descriptor: int, num_bytes: int):
        weakref.finalize(self, os.close, descriptor)  # (3) What nobody has open is gone.
        self._map = mmap.mmap(descriptor, num_bytes)
        self.bytes: Table = np.frombuffer(self._map, np.uint8)
        self.address = Address(os.getpid(), descriptor, os.fstat(descriptor).st_ino, num_bytes)

    @staticmethod
    def new(num_bytes: int) -> SharedMemory | None:  # (1)
        """So many bytes, all of them 0."""
        try:
            descriptor = os.memfd_create("minispark_stream")
            os.ftruncate(descriptor, num_bytes)
            return SharedMemory(descriptor, num_bytes)
        except (AttributeError, OSError):
            return None

    @staticmethod
    def at(address: Address) -> SharedMemory | None:
        """(2) What another process has; None when it has ended, or does not have it any more."""
        try:
            descriptor = os.open(f"/proc/{address.process}/fd/{address.descriptor}", os.O_RDWR)
            found = os.fstat(descriptor)
            if (found.st_ino, found.st_size) == (address.file, address.num_bytes):
                return SharedMemory(descriptor, address.num_bytes)
            os.close(descriptor)
        except OSError:
            pass
        return None

    def free(self) -> None:
        """(4) The pages go; whoever still looks at them sees zeros."""
        self._map.madvise(mmap.MADV_REMOVE)


def most_shared() -> int:
    """How many a process may have open: a quarter of its files, because each takes two."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4
