"""The large stores of a machine, which its workers have in common: at which version each is, and who may use it.

Models: nothing of Spark, whose executor has each store once, for all of its tasks.

1. A worker that is done with a store lays down its *ticket*, a small file: the version in memory, what undoes it, and where the
   memory of the table is (fast/shared_memory.py).
2. A worker that needs the store *takes* the ticket, by giving the file a name of its own, which only one can do. Until it lays
   the ticket down again, nobody else uses that memory. So nobody sees a table that is being changed.
3. A ticket that a living process has taken is waited for, at most WAIT_S seconds. A task that hangs, or outlives its query, may
   keep it longer, and one that was killed for ever. Then the store is loaded from its files, into other memory.
4. At most once in TIDY_EVERY_S seconds, a worker clears away what killed processes had taken, and the tables of its query that
   are too far behind to catch up by reading deltas, because their partitions are computed elsewhere.
5. All tables together may take `stateStore.maxSharedMemoryMB`; those that nobody has used for longest go first.

    worker 1     takes 0/3 at version 7, commits 8, lays it down
    worker 2     takes 0/3 at version 8: reads no file, and finds its rows in the same memory
    worker 2     is killed before it lays 0/3 down; worker 1 finds no ticket, and loads version 8 from the files

The folder of the tickets lies in the one that Spark makes for the blocks of an executor and deletes at its end. So the workers
of an executor have their tables in common. A store that is a dict (fast/columnar_map.py), or small, has no ticket: each worker
keeps what it met.

Shown by tests/unit/engine/state/test_shared_tables.py::test_another_worker_goes_on_with_the_same_table.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import secrets
import time
from contextlib import suppress
from typing import NamedTuple

from minispark_stream.engine.state.fast.row_table import TableInMemory
from minispark_stream.engine.state.fast.shared_memory import Address, SharedMemory
from minispark_stream.engine.state.hdfs_backed_state_store_map import Undo
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId

WAIT_S = 1.0
TIDY_EVERY_S = 1.0


class Ticket(NamedTuple):
    """(1) A store as a worker left it, in the words of HDFSBackedStateStoreProvider."""

    conf: StateStoreConf
    table: TableInMemory
    version: int
    undo_records: dict[int, Undo]
    identities: dict[int, object]


class Head(NamedTuple):
    """The beginning of a ticket. `tag` tells it from all others; the query is known by the root of its checkpoint."""

    tag: str
    address: Address
    checkpoint_root: str
    version: int


class SharedStore:
    """The ticket of one store, for one worker."""

    def __init__(self, folder: str, store_id: StateStoreId):
        self._folder, self._name = folder, hashlib.sha256(repr(store_id).encode()).hexdigest()[:32]
        self._path = f"{folder}/{self._name}"
        self._checkpoint_root = store_id.checkpoint_root
        self._taken: str | None = None  # its name while this worker has it
        self._last = ""  # the tag of the ticket that this worker laid down or read last

    def take(self) -> bool:
        """(2) Whether there is a ticket, which is this worker's from now on."""
        until = time.monotonic() + WAIT_S
        while not self._take_now():
            if time.monotonic() > until or not self._is_in_use():  # (3)
                return False
            time.sleep(0.002)
        return True

    def read(self) -> Ticket | None:
        """The ticket that was taken; None when this worker was the last to lay it down or to read it: it knows better."""
        assert self._taken is not None
        with open(self._taken, "rb") as file:
            head, before = pickle.load(file), self._last
            self._last = head.tag
            return None if head.tag == before else pickle.load(file)

    def lay_down(self, ticket: Ticket) -> None:
        """(1) Whoever needs the store next may take it."""
        path = self._taken or _own_name(self._path)
        self._taken, self._last = None, secrets.token_hex(8)
        try:
            with open(path, "wb") as file:
                pickle.dump(Head(self._last, ticket.table.address, self._checkpoint_root, ticket.version), file)
                pickle.dump(ticket, file, pickle.HIGHEST_PROTOCOL)
            os.rename(path, self._path)
        except OSError:  # a full disk: the next task loads the store from its files
            _delete(path)

    def let_go(self) -> None:
        """There is no ticket any more."""
        if self._taken is not None:
            _delete(self._taken)
        self._taken, self._last = None, ""

    def _take_now(self) -> bool:
        if self._taken is None:
            own_name = _own_name(self._path)
            try:
                os.rename(self._path, own_name)
            except FileNotFoundError:
                return False
            self._taken = own_name
        return True

    def _is_in_use(self) -> bool:
        """By another process, or laid down this moment."""
        return any(name.partition(".")[0] == self._name and not _is_of_the_dead(name) for name in _names(self._folder))


class SharedTables:
    """All tickets of a machine, in `folder`."""

    def __init__(self, folder: str):
        self._folder, self._looked = folder, 0.0
        os.makedirs(folder, exist_ok=True)

    def store(self, store_id: StateStoreId) -> SharedStore:
        return SharedStore(self._folder, store_id)

    def tidy(self, max_bytes: int, checkpoint_root: str, oldest: int) -> None:
        """`oldest`: the version of which a table of this query still is of use."""
        if time.monotonic() - self._looked < TIDY_EVERY_S:
            return
        self._looked = time.monotonic()
        tables: list[tuple[int, str, Head]] = []
        for name in _names(self._folder):
            path = f"{self._folder}/{name}"
            if _is_of_the_dead(name):  # (4)
                _delete(path)
                continue
            with suppress(OSError, EOFError, pickle.UnpicklingError), open(path, "rb") as file:  # it may change just now
                tables.append((os.fstat(file.fileno()).st_mtime_ns, path, pickle.load(file)))
        total = sum(head.address.num_bytes for *_, head in tables)
        for _, path, head in sorted(tables):
            is_behind = head.checkpoint_root == checkpoint_root and head.version < oldest
            if (is_behind or total > max_bytes) and self._drop(path, head):  # (4), (5)
                total -= head.address.num_bytes

    def _drop(self, path: str, head: Head) -> bool:
        """Whether the table is gone: not while somebody has the ticket."""
        taken = _own_name(path)
        with suppress(OSError, EOFError, pickle.UnpicklingError):
            if "." not in os.path.basename(path):
                os.rename(path, taken)
                with open(taken, "rb") as file:
                    is_same = pickle.load(file) == head
                if not is_same:  # laid down anew meanwhile
                    os.rename(taken, path)
                    return False
                free(head.address)
                _delete(taken)
                return True
        return False


def _own_name(path: str) -> str:
    """(2) What a ticket is called while this process has it."""
    return f"{path}.{os.getpid()}.{secrets.token_hex(4)}"


def free(address: Address) -> None:
    """Give the memory back to the system. Who calls this has taken the ticket."""
    memory = SharedMemory.at(address)
    if memory is not None:
        memory.free()


def _names(folder: str) -> list[str]:
    """There are no names when Spark, which ends, has deleted the folder."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _is_of_the_dead(name: str) -> bool:
    """Whether the process that has taken the ticket is gone."""
    _, _, rest = name.partition(".")
    return rest != "" and not os.path.exists(f"/proc/{rest.partition('.')[0]}")


def _delete(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
