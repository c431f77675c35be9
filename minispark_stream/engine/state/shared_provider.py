"""The provider of a store whose table all workers of a machine share: each continues where the last one stopped.

Models: HDFSBackedStateStoreProvider, which is in the executor once (About state).

1. Before a store is opened, its ticket is taken (shared_tables.py): the provider is now at the version that the last worker
   left, in the same memory, and opens the version that is asked for as if it had made that one itself.
2. When the store is done with, after `abort`, which every task calls at its end, the ticket is laid down.
3. Without a ticket, a table that is in common memory may be in use: it is forgotten, and the version loaded from the files.
4. Entries that are in the memory of this process only, because they are few or a dict, stay as they are. They have no ticket.
5. A ticket of another run of the query is of no use to anybody: the memory is freed.

    worker 1, worker 2     took version 7, laid down 8     takes 8, lays down 9     the first one's next turn: takes 9

Differs from Spark: nothing.
Shown by tests/unit/engine/state/test_shared_tables.py::test_another_worker_goes_on_with_the_same_table.
"""

from __future__ import annotations

from functools import partial

from minispark_stream.engine.state.fast.columnar_map import ColumnarMap
from minispark_stream.engine.state.fast.row_table import TableInMemory
from minispark_stream.engine.state.hdfs_backed_state_store_provider import HDFSBackedStateStore, HDFSBackedStateStoreProvider
from minispark_stream.engine.state.shared_tables import SharedStore, Ticket, free
from minispark_stream.engine.state.state_store import Came, StateStoreConf, StateStoreId


class SharedProvider(HDFSBackedStateStoreProvider):
    """`ticket` is that of the store."""

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
        if self._is_taken_over and self.came == Came.MEMORY:
            self.came = Came.TAKEN_OVER

    def is_near(self, version: int, unique_id: str | None = None) -> bool:
        with self.lock:
            self._take()
            try:
                return super().is_near(version, unique_id)
            finally:
                self.done()

    def done(self) -> None:  # (2)
        table = self.table()
        if table is None:  # (4)
            self._ticket.let_go()
            return
        self.open_store = None
        self._ticket.lay_down(Ticket(self.conf, table, self.version, self.undo_records, self.identities))

    def forget(self) -> None:
        """Nor does the ticket count, if it was taken: what is in the memory need not be what it says."""
        self._ticket.let_go()
        super().forget()

    def table(self) -> TableInMemory | None:
        """Where the entries are, if other workers have them, too."""
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
            self.version, self.undo_records, self.identities = left.version, left.undo_records, left.identities
            return
        if self.table() is not None and (left is not None or not is_taken):  # (3)
            self.forget()

    def _attach(self, table: TableInMemory) -> bool:
        assert isinstance(self.map, ColumnarMap)
        return self.map.attach(table)
