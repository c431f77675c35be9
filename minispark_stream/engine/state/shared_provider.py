"""The provider of a store whose table the workers of an executor share: each continues where the last one stopped.

Models: HDFSBackedStateStoreProvider, of which an executor has one for each store (About state).

1. Before a store is opened, its ticket is taken (shared_tables.py). The provider is then at the version where the last worker
   left the table, in the same memory, and can load the requested version from there as if it had made that version itself.
2. At its end, every task calls `abort`; then the store is no longer needed, and the ticket is laid down.
3. Without a ticket, a table in shared memory may be in use by another worker. So it is forgotten, and the version is loaded
   from the files.
4. Entries that are in the memory of this process only, because they are few or a dict, stay as they are. They have no ticket.
5. A ticket of another run of the query is of no use to anybody, and its memory is freed.

    worker 1     takes the table at version 7, lays it down at 8
    worker 2                                       takes it at 8, lays it down at 9
    worker 1                                                                      takes it at 9, ...

Differs from Spark: nothing.
Shown by tests/unit/engine/state/test_shared_tables.py::test_another_worker_goes_on_with_the_same_table.
"""

from __future__ import annotations

from functools import partial

from minispark_stream.engine.state.fast.columnar_map import ColumnarMap
from minispark_stream.engine.state.fast.row_table import TableInMemory
from minispark_stream.engine.state.hdfs_backed_state_store_provider import HDFSBackedStateStore, HDFSBackedStateStoreProvider
from minispark_stream.engine.state.shared_tables import SharedStore, Ticket, free
from minispark_stream.engine.state.state_store import LoadedFrom, StateStoreConf, StateStoreId


class SharedProvider(HDFSBackedStateStoreProvider):
    """A provider that takes and lays down the `ticket` of its store."""

    def __init__(self, store_id: StateStoreId, conf: StateStoreConf, ticket: SharedStore):
        self._ticket = ticket
        self._is_taken_over = False
        super().__init__(store_id, conf, partial(ColumnarMap, shared=True))

    def get_store(self, version: int, unique_id: str | None = None) -> HDFSBackedStateStore:
        with self.lock:
            self._take()
            try:
                return super().get_store(version, unique_id)
            except BaseException:
                self.done()
                raise

    def load(self, version: int) -> None:
        super().load(version)
        if self._is_taken_over and self.loaded_from == LoadedFrom.MEMORY:
            self.loaded_from = LoadedFrom.TAKEN_OVER

    def is_near(self, version: int, unique_id: str | None = None) -> bool:
        with self.lock:
            self._take()
            try:
                return super().is_near(version, unique_id)
            finally:
                self.done()

    def done(self) -> None:  # (2)
        super().done()
        table = self.table()
        if table is None:  # (4)
            self._ticket.let_go()
            return
        self._ticket.lay_down(Ticket(self.conf, table, self.version, dict(self.undo_records), dict(self.identities)))

    def forget(self) -> None:
        """Forget the memory, and also the ticket, if it was taken: it may no longer be true of the memory."""
        self._ticket.let_go()
        super().forget()

    def table(self) -> TableInMemory | None:
        """The table with the entries, if it is in shared memory."""
        assert isinstance(self.map, ColumnarMap)
        return self.map.in_memory()

    def _take(self) -> None:  # (1)
        if self.open_store is not None:
            self.open_store.abort()
        is_taken = self._ticket.take()
        left = self._ticket.read() if is_taken else None
        self._is_taken_over = left is not None
        if left is not None and left.conf != self.conf:  # (5)
            free(left.table.address)
        elif left is not None and self._attach(left.table):
            self.version, self.undo_records, self.identities = left.version, dict(left.undo_records), dict(left.identities)
            return
        if self.table() is not None and (left is not None or not is_taken):  # (3)
            self.forget()

    def _attach(self, table: TableInMemory) -> bool:
        assert isinstance(self.map, ColumnarMap)
        return self.map.attach(table)
