"""The large stores that the workers of an executor share: at which version each of them is, and who may use it.

Models: nothing of Spark, whose executor has each store once, for all of its tasks.

1. A worker that no longer needs a store lays down its *ticket*, a small file that says which version is in memory, what undoes
   the last versions, and where the memory of the table is (shared_memory.py).
2. A worker that needs the store *takes* the ticket, by giving the file a name of its own, which only one worker can do. Until
   it lays the ticket down again, nobody else uses that memory. So nobody sees a table while it is being changed.
3. If a living process has taken the ticket, others wait for it, but at most WAIT_S seconds. A task that hangs, or outlives its
   query, may keep it longer, and a task that was killed never lays it down. Then the store is loaded from its files, into other
   memory.
4. At most once in TIDY_EVERY_S seconds, a worker deletes the tickets that killed processes had taken, and the tables of its
   query that are too far behind to catch up by reading deltas, because their partitions are now computed elsewhere.
5. All tables together may take `stateStore.maxSharedMemoryMB`; if they need more, the ones that have not been used for longest
   are deleted.

    worker 1     takes 0/3 at version 7, commits 8, lays it down
    worker 2     takes 0/3 at version 8: it reads no file, and finds the rows in the same memory
    worker 2     is killed before it lays 0/3 down; worker 1 finds no ticket, and loads version 8 from the files

The folder of the tickets is inside the folder that Spark makes for the blocks of an executor and deletes at its end. So the
workers of one executor share their tables. A store that is a dict (columnar_map.py), or small, has no ticket: each worker
has its own copy.

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

from minispark_stream.engine.state.hdfs_backed_state_store_map import Undo
from minispark_stream.engine.state.large.row_table import TableInMemory
from minispark_stream.engine.state.large.shared_memory import Address, SharedMemory
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId

WAIT_S = 1.0
TIDY_EVERY_S = 1.0


class Ticket(NamedTuple):
    """(1) A store as a worker left it; the fields have the same meaning as in HDFSBackedStateStoreProvider."""

    conf: StateStoreConf
    table: TableInMemory
    version: int
    undo_records: dict[int, Undo]
    identities: dict[int, object]


class Head(NamedTuple):
    """The beginning of a ticket's file. Each ticket has its own `tag`; `checkpoint_root` says which query it belongs to."""

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
        self._taken: str | None = None  # the name of the ticket's file while this worker has it
        self._last = ""  # the tag of the ticket that this worker laid down or read last
        self._says: Ticket | None = None  # and what it says

    def take(self) -> bool:
        """(2) Take the ticket; returns False if there is none."""
        until = time.monotonic() + WAIT_S
        while not self._take_now():
            if time.monotonic() > until or not self._is_in_use():  # (3)
                return False
            time.sleep(0.002)
        return True

    def read(self) -> Ticket | None:
        """The ticket that was taken; None if this worker was the last to lay it down or read it, and so knows what it says."""
        assert self._taken is not None
        with open(self._taken, "rb") as file:
            head, before = pickle.load(file), self._last
            self._last = head.tag
            if head.tag == before:
                return None
            self._says = pickle.load(file)
            return self._says

    def lay_down(self, ticket: Ticket) -> None:
        """(1) Lay down the ticket, for whoever needs the store next. It may be large, so it is only written if it is new."""
        path, is_new = self._taken or _own_name(self._path), self._taken is None or ticket != self._says
        self._taken = None
        try:
            if is_new:
                self._last, self._says = secrets.token_hex(8), ticket
                with open(path, "wb") as file:
                    pickle.dump(Head(self._last, ticket.table.address, self._checkpoint_root, ticket.version), file)
                    pickle.dump(ticket, file, pickle.HIGHEST_PROTOCOL)
            os.rename(path, self._path)
        except OSError:  # a full disk: the next task loads the store from its files
            _delete(path)

    def let_go(self) -> None:
        """Delete the ticket that was taken, if any."""
        if self._taken is not None:
            _delete(self._taken)
        self._taken, self._last, self._says = None, "", None

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
        """Whether a living process has the ticket, or it has been laid down in this moment."""
        return any(name.partition(".")[0] == self._name and not _is_of_the_dead(name) for name in _names(self._folder))


class SharedTables:
    """All tickets of an executor, in `folder`."""

    def __init__(self, folder: str):
        self.folder, self._looked = folder, 0.0

    def store(self, store_id: StateStoreId) -> SharedStore:
        with suppress(OSError):  # then no ticket can be laid down
            os.makedirs(self.folder, exist_ok=True)
        return SharedStore(self.folder, store_id)

    def tidy(self, max_bytes: int, checkpoint_root: str, oldest: int) -> None:
        """Delete tickets and tables that are of no use any more.

        Args:
            max_bytes: (5) how much memory all tables together may take.
            checkpoint_root: identifies this worker's query.
            oldest: (4) tables of this query at older versions are deleted.
        """
        if time.monotonic() - self._looked < TIDY_EVERY_S:
            return
        self._looked = time.monotonic()
        tables: list[tuple[int, str, Head]] = []
        for name in _names(self.folder):
            path = f"{self.folder}/{name}"
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
        """Delete a table; returns False if somebody has its ticket."""
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
    """(2) The name of a ticket's file while this process has it."""
    return f"{path}.{os.getpid()}.{secrets.token_hex(4)}"


def free(address: Address) -> None:
    """Give the memory back to the system. The caller must have taken the ticket."""
    memory = SharedMemory.at(address)
    if memory is not None:
        memory.free()


def _names(folder: str) -> list[str]:
    """The names in a folder; none if Spark has deleted it, because the executor ends."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _is_of_the_dead(name: str) -> bool:
    """Whether a ticket was taken by a process that no longer lives."""
    _, _, rest = name.partition(".")
    return rest != "" and not os.path.exists(f"/proc/{rest.partition('.')[0]}")


def _delete(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
