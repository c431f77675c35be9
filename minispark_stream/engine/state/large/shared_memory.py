"""Memory that several processes of a machine share, for large tables.

Models: nothing of Spark, whose tasks are threads of one process and share all of its memory.

1. The memory is a file without a name, which is on no disk (`memfd_create`), mapped into the process. Its *address* consists of
   a process that has it open, and the file's descriptor in that process.
2. Another process can open it by this address, as long as the process in it lives, and sees the same bytes.
3. When no process has the file open any more, the system takes the memory back. So a process that is killed leaves nothing
   behind.
4. Whoever moves a table to other memory frees the pages at once (`free`), even if others still have them mapped.

    process 11    SharedMemory.new(1 MB)            its address is (11, descriptor 5, file 3021)
    process 12    SharedMemory.at(the address)      opens /proc/11/fd/5, and checks that it is file 3021

If the system has no such files, or if too many are open, there is no shared memory (`new` and `at` return None), and a table is
in the memory of its own process.
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
    """(1) Where a process finds the memory. `file` is its inode: a later file could have the same process id and descriptor."""

    process: int
    descriptor: int
    file: int
    num_bytes: int


class SharedMemory:
    """A piece of memory; `bytes` is a numpy array over it."""

    def __init__(self, descriptor: int, num_bytes: int):
        weakref.finalize(self, os.close, descriptor)  # (3) The file is gone when nobody has it open.
        self._map = mmap.mmap(descriptor, num_bytes)
        self.bytes: Table = np.frombuffer(self._map, np.uint8)
        self.address = Address(os.getpid(), descriptor, os.fstat(descriptor).st_ino, num_bytes)

    @staticmethod
    def new(num_bytes: int) -> SharedMemory | None:  # (1)
        """This many bytes, all of them 0."""
        try:
            descriptor = os.memfd_create("minispark_stream")
            os.ftruncate(descriptor, num_bytes)
            return SharedMemory(descriptor, num_bytes)
        except (AttributeError, OSError):
            return None

    @staticmethod
    def at(address: Address) -> SharedMemory | None:
        """(2) The memory of another process; None if that process has ended, or no longer has it open."""
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
        """(4) Give the pages back; whoever still has them mapped sees zeros."""
        self._map.madvise(mmap.MADV_REMOVE)


def most_shared() -> int:
    """How many of these a process may have open. Each takes two file descriptors, and half of all descriptors are left free."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4
