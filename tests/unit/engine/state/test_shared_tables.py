"""Stores that several workers have in common: two `LoadedProviders` are two workers, real processes where it matters."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

from minispark_stream.engine.checkpointing.unsafe_row.rows import Rows
from minispark_stream.engine.state.large import shared_tables
from minispark_stream.engine.state.large.row_table import RowTable
from minispark_stream.engine.state.large.shared_memory import SharedMemory
from minispark_stream.engine.state.loaded_providers import LoadedProviders
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_store import StateStore, StateStoreConf, StateStoreId

CONF = StateStoreConf(query_run_id="run")
KEYS = 10_000


def numbers(of: np.ndarray) -> Rows:
    return Rows(np.column_stack([np.zeros(len(of), np.int64), of]).view(np.uint8))


class Worker:
    """A process, as far as state goes. It counts the files that it reads."""

    def __init__(self, folder: Path, conf: StateStoreConf = CONF, tickets: str = "tickets"):
        self._id, self._conf = StateStoreId(str(folder / "state"), 0, 0), conf
        self.providers = LoadedProviders(1 << 30, str(folder / tickets))

    def open(self, version: int, conf: StateStoreConf | None = None) -> StateStore:
        conf = conf or self._conf
        return self.providers.provider(self._id, conf, version).get_store(version)

    def batch(self, version: int, keys: np.ndarray, value: int) -> None:
        store = self.open(version)
        store.put(numbers(keys), numbers(np.full(len(keys), value)))
        store.commit()
        store.abort()

    def contents(self, version: int) -> dict[int, int]:
        store = self.open(version)
        keys, values = (np.frombuffer(b"".join(rows), np.int64).reshape(-1, 2)[:, 1] for rows in store.rows())
        store.abort()
        return dict(zip(keys.tolist(), values.tolist()))

    def where(self) -> tuple[str, bool] | None:
        return self.providers.where(self._id)

    def hold(self, version: int) -> StateStore:
        """Like a task that hangs."""
        store = self.open(version)
        store.put(numbers(np.arange(5)), numbers(np.full(5, 99)))
        return store


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that have been read."""
    names: list[str] = []
    original = StateFiles._read

    def _read(self: StateFiles, name: str, kind: str) -> object:
        names.append(name)
        return original(self, name, kind)

    monkeypatch.setattr(StateFiles, "_read", _read)
    monkeypatch.setattr(shared_tables, "WAIT_S", 0.05)
    monkeypatch.setattr(shared_tables, "TIDY_EVERY_S", 0)
    return names


def expected(**changed: int) -> dict[int, int]:
    return dict.fromkeys(range(KEYS), 1) | {int(key[1:]): value for key, value in changed.items()}


def test_another_worker_goes_on_with_the_same_table(tmp_path: Path, read: list[str]) -> None:
    """Also where keys are added, so that the table moves to other memory, and where a batch runs again (an undo record)."""
    one, two = Worker(tmp_path), Worker(tmp_path)
    one.batch(0, np.arange(KEYS), 1)
    two.batch(1, np.array([3]), 2)
    one.batch(2, np.arange(KEYS, 4 * KEYS), 3)
    assert two.contents(3) == expected(_3=2) | dict.fromkeys(range(KEYS, 4 * KEYS), 3)
    one.batch(3, np.array([4]), 4)
    assert two.contents(3)[4] == 1  # undoes what the other one did
    two.batch(3, np.array([4]), 5)
    assert one.contents(4)[4] == 5
    assert read == []


def test_a_ticket_is_only_written_if_it_says_something_new(tmp_path: Path) -> None:
    def ticket() -> bytes:
        [path] = (tmp_path / "tickets").iterdir()
        return path.read_bytes()

    one, two = Worker(tmp_path), Worker(tmp_path)
    one.batch(0, np.arange(KEYS), 1)
    seen = [ticket()]
    for worker, version, is_new in (
        (one, 1, False),  # like a task that only reads
        (two, 1, True),  # from now on, it is this worker that has the memory
        (two, 1, False),
        (two, 0, True),  # undoes the batch
        (two, 0, False),
    ):
        worker.open(version).abort()
        assert (ticket() not in seen, ticket() == seen[-1]) == (is_new, not is_new)
        seen.append(ticket())


def test_a_worker_says_how_it_came_to_a_version(tmp_path: Path, read: list[str]) -> None:
    one, two = Worker(tmp_path), Worker(tmp_path)
    came = []
    for worker, version in ((one, 0), (one, 1), (two, 2), (two, 3)):
        store = worker.open(version)
        store.put(numbers(np.arange(KEYS)), numbers(np.full(KEYS, version)))
        store.commit()
        came.append(worker.where())
        store.abort()
    apart = Worker(tmp_path, tickets="others")  # a worker of another executor
    for version in (2, 4):
        apart.open(version).abort()
        came.append(apart.where())
    assert came == [("new", True), ("memory", True), ("taken over", True), ("memory", True), ("files", True), ("deltas", True)]
    assert read == ["1.delta", "2.delta", "3.delta", "4.delta"]


def test_a_table_that_another_worker_uses_is_let_alone(tmp_path: Path, read: list[str]) -> None:
    """A task hangs in the middle of its changes. The second attempt does not see them, and the first one loses."""
    one, two = Worker(tmp_path), Worker(tmp_path)
    one.batch(0, np.arange(KEYS), 1)
    two.batch(1, np.array([7]), 2)
    hangs = one.hold(2)
    assert two.contents(2) == expected(_7=2)
    assert read == ["1.delta", "2.delta"]
    two.batch(2, np.array([8]), 3)
    with pytest.raises(Exception, match="another task has written other changes"):
        hangs.commit()
    hangs.abort()
    for worker in (one, two):
        assert worker.contents(3) == expected(_7=2, _8=3)


def test_a_ticket_is_waited_for_while_its_worker_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: list[str]) -> None:
    one, two = Worker(tmp_path), Worker(tmp_path)
    one.batch(0, np.arange(KEYS), 1)
    hangs = one.open(1)
    monkeypatch.setattr(time, "sleep", lambda _: hangs.abort())
    assert two.contents(1) == expected()
    assert read == []


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_shared_tables import KEYS, Worker
import numpy as np
worker = Worker(Path(sys.argv[1]))
worker.batch(1, np.array([7]), 2)
if sys.argv[3] == "hold":
    worker.hold(2)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["hold", "idle"])
def test_a_worker_that_is_killed_leaves_nothing_wrong(tmp_path: Path, read: list[str], how: str) -> None:
    """In the middle of its changes; and between two tasks, when the others still have the memory that it laid down."""
    one = Worker(tmp_path)
    one.batch(0, np.arange(KEYS), 1)
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(Path(__file__).parent), how]
    assert subprocess.run(command, timeout=60).returncode == -signal.SIGKILL
    assert one.contents(2) == expected(_7=2)
    assert read == (["1.delta", "2.delta"] if how == "hold" else [])
    assert Worker(tmp_path).contents(2) == expected(_7=2)
    assert len(os.listdir(tmp_path / "tickets")) == 1


def test_what_a_failed_change_has_left_is_used_by_nobody(tmp_path: Path, read: list[str]) -> None:
    one, two = Worker(tmp_path), Worker(tmp_path)
    one.batch(0, np.arange(KEYS), 1)
    store = one.hold(1)
    with pytest.raises(AttributeError), pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowTable, "_write", lambda self, lines, values: self.gone)
        store.put(numbers(np.array([1, KEYS + 1])), numbers(np.full(2, 98)))
    store.abort()
    assert one.contents(1) == two.contents(1) == expected()
    assert read == ["1.delta"]  # once, for both


def test_a_store_that_cannot_be_opened_is_there_for_the_others(tmp_path: Path, read: list[str]) -> None:
    """It has come half of the way: it is at version 2."""
    one, two, elsewhere = Worker(tmp_path), Worker(tmp_path), Worker(tmp_path, tickets="elsewhere")
    one.batch(0, np.arange(KEYS), 1)
    for version in (1, 2):
        elsewhere.batch(version, np.array([7]), version)
    read_whole = StateFiles._read

    def _read(self: StateFiles, name: str, kind: str) -> object:
        if name == "3.delta":
            raise OSError("the disk is away")
        return read_whole(self, name, kind)

    with pytest.raises(OSError, match="away"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(StateFiles, "_read", _read)
        two.open(3)
    read.clear()
    assert one.contents(2) == expected(_7=1)
    assert two.contents(3) == one.contents(3) == expected(_7=2)
    assert read == ["3.delta"]


def test_another_run_of_the_query_trusts_the_files_only(tmp_path: Path, read: list[str]) -> None:
    one, two = Worker(tmp_path), Worker(tmp_path, StateStoreConf(query_run_id="next"))
    one.batch(0, np.arange(KEYS), 1)
    assert two.contents(1) == expected()
    assert read == ["1.delta"]


def test_the_memory_is_bounded(tmp_path: Path, read: list[str]) -> None:
    one, two = Worker(tmp_path, StateStoreConf(max_shared_memory_mb=1)), Worker(tmp_path, StateStoreConf(max_shared_memory_mb=1))
    one.batch(0, np.arange(4 * KEYS), 1)  # more than 2 MB
    table = next(iter(one.providers._providers.values())).map.in_memory()  # type: ignore[attr-defined]
    memory = SharedMemory.at(table.address)
    assert memory is not None and memory.bytes.any()
    two.batch(1, np.array([7]), 2)
    assert not memory.bytes.any()  # given back
    assert read == ["1.delta"]
    assert one.contents(2) == dict.fromkeys(range(4 * KEYS), 1) | {7: 2}


def test_what_is_too_far_behind_is_given_back(tmp_path: Path, read: list[str]) -> None:
    """The partition is computed on another machine, here one with other tickets; and then here again."""
    one, elsewhere = Worker(tmp_path), Worker(tmp_path, tickets="elsewhere")
    one.batch(0, np.arange(KEYS), 1)
    for version in range(1, 12):
        elsewhere.batch(version, np.array([7]), version)
    table = next(iter(one.providers._providers.values())).map.in_memory()  # type: ignore[attr-defined]
    memory = SharedMemory.at(table.address)
    for version, is_there in ((11, True), (12, False)):
        one.providers.provider(StateStoreId(str(tmp_path / "state"), 0, 1), CONF, version)  # another partition
        assert memory is not None and memory.bytes.any() == is_there
    read.clear()
    assert one.contents(12) == expected(_7=11)
    assert read[0] == "1.delta" and len(read) == 12


def test_none_in_common(tmp_path: Path, read: list[str]) -> None:
    one, two = (Worker(tmp_path, StateStoreConf(max_shared_memory_mb=0)) for _ in range(2))
    one.batch(0, np.arange(KEYS), 1)
    assert two.contents(1) == expected()
    assert read == ["1.delta"] and not (tmp_path / "tickets").exists()


def test_a_store_is_shared_from_the_batch_on_in_which_it_becomes_large(tmp_path: Path, read: list[str]) -> None:
    """Before, each worker has a dict of its own and reads the deltas of the others."""
    one, two = Worker(tmp_path), Worker(tmp_path)
    one.batch(0, np.arange(600), 1)
    assert two.contents(1) == dict.fromkeys(range(600), 1)
    assert one.where() == ("new", False) and two.where() == ("files", False) and not (tmp_path / "tickets").exists()
    one.batch(1, np.arange(600, KEYS), 1)
    read.clear()
    for worker in (two, one):
        assert worker.contents(2) == expected()
        assert worker.where() == ("taken over", True)
    two.batch(1, np.arange(10), 5)  # undoes the batch in which it became large, which was another worker's
    assert one.contents(2) == dict.fromkeys(range(600), 1) | dict.fromkeys(range(10), 5)
    assert read == []


def test_a_query_that_has_nothing_in_common_leaves_the_tables_of_others(tmp_path: Path, read: list[str]) -> None:
    one, two = Worker(tmp_path), Worker(tmp_path)
    one.batch(0, np.arange(KEYS), 1)
    alone = StateStoreConf(max_shared_memory_mb=0)
    two.providers.provider(StateStoreId(str(tmp_path / "other"), 0, 0), alone, 0)
    assert two.contents(1) == expected()
    assert read == []


def test_a_row_of_another_size_leaves_it_in_common(tmp_path: Path, read: list[str]) -> None:
    """Its lines get longer, in other memory, which the other worker finds."""
    one, two = Worker(tmp_path), Worker(tmp_path)
    one.batch(0, np.arange(KEYS), 1)
    two.contents(1)
    store = one.open(1)
    store.put([b"long key" * 3], [b"value"])
    store.commit()
    store.abort()
    for worker in (two, one):
        store = worker.open(2)
        assert store.num_keys == KEYS + 1
        assert list(store.get(Rows.of([b"long key" * 3]))[1]) == [b"value"]
        store.abort()
    assert read == []


def test_a_large_row_makes_it_a_store_of_each_worker(tmp_path: Path, read: list[str]) -> None:
    one, two = Worker(tmp_path), Worker(tmp_path)
    one.batch(0, np.arange(KEYS), 1)
    two.contents(1)
    store = one.open(1)
    store.put([b"long key" * 33], [b"value"])
    store.commit()
    store.abort()
    assert os.listdir(tmp_path / "tickets") == []
    store = two.open(2)
    assert store.num_keys == KEYS + 1
    store.abort()
    assert read == ["1.delta", "2.delta"]


def test_what_a_worker_drops_is_freed_without_the_collector(tmp_path: Path) -> None:
    """A worker spares what it keeps from the collector (engine/operators/worker_tuning.py)."""
    worker = Worker(tmp_path)
    worker.batch(0, np.arange(KEYS), 1)
    left = weakref.ref(worker.providers.provider(worker._id, CONF, 1))
    gc.disable()
    try:
        worker.providers.clear()
        assert left() is None
    finally:
        gc.enable()
