"""A large store that the workers of an executor share: each continues where the last one stopped.

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

from minispark_stream.engine.state.hdfs_backed_state_store_provider import HDFSBackedStateStoreProvider, Sharing
from minispark_stream.engine.state.large.columnar_map import ColumnarMap
from minispark_stream.engine.state.large.row_table import TableInMemory
from minispark_stream.engine.state.large.shared_tables import SharedStore, Ticket, free


class SharingByTicket(Sharing):
    """Takes and lays down the `ticket` of a store."""

    def __init__(self, ticket: SharedStore):
        self._ticket = ticket
        self.is_taken_over = False

    def take(self, provider: HDFSBackedStateStoreProvider) -> None:  # (1)
        is_taken = self._ticket.take()
        left = self._ticket.read() if is_taken else None
        self.is_taken_over = left is not None
        if left is not None and left.conf != provider.conf:  # (5)
            free(left.table.address)
        elif left is not None and _attach(provider, left.table):
            provider.version, provider.undo_records, provider.identities = (
                left.version, dict(left.undo_records), dict(left.identities)
            )
            return
        if self.is_shared(provider) and (left is not None or not is_taken):  # (3)
            provider.forget()

    def lay_down(self, provider: HDFSBackedStateStoreProvider) -> None:  # (2)
        table = _table(provider)
        if table is None:  # (4)
            self._ticket.let_go()
            return
        undo_records, identities = dict(provider.undo_records), dict(provider.identities)
        self._ticket.lay_down(Ticket(provider.conf, table, provider.version, undo_records, identities))

    def let_go(self) -> None:
        self._ticket.let_go()

    def is_shared(self, provider: HDFSBackedStateStoreProvider) -> bool:
        return _table(provider) is not None


def _table(provider: HDFSBackedStateStoreProvider) -> TableInMemory | None:
    """The table with the entries, if it is in shared memory."""
    return provider.map.in_memory() if isinstance(provider.map, ColumnarMap) else None


def _attach(provider: HDFSBackedStateStoreProvider, table: TableInMemory) -> bool:
    if not isinstance(provider.map, ColumnarMap):
        provider.map = ColumnarMap(shared=True)
    return provider.map.attach(table)
