"""Rows in arrays: what goes in and out is what a dict would say, and every change can be undone."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minispark_stream.engine.checkpointing import unsafe_row
from minispark_stream.engine.checkpointing.unsafe_row import Rows, Shape, are_among, as_arrow, chosen
from minispark_stream.engine.operators.columns import distinct
from minispark_stream.engine.state.hdfs_backed_state_store_map import Entries, HDFSBackedStateStoreMap
from minispark_stream.engine.state.large.columnar_map import ColumnarMap
from minispark_stream.engine.state.large.row_table import RowTable

LONG = Shape(8, differ=False)


def rows(*numbers: int) -> Rows:
    return Rows(np.array(numbers, ">u8").reshape(-1, 1).view(np.uint8))


def names(*numbers: int) -> Sequence[bytes]:
    """Rows that differ in size: behind the number are up to seven words of zeros, or of others."""
    return Rows.of([row + bytes([number % 2]) * (number % 29 // 4 * 8) for number, row in zip(numbers, rows(*numbers))])


def test_rows_of_one_size_are_a_sequence_of_bytes() -> None:
    some = Rows.of([b"ab", b"cd", b"ef"])
    assert isinstance(some, Rows) and some.shape.width == 2
    assert list(some) == [b"ab", b"cd", b"ef"] and some[1] == b"cd" and list(some[1:]) == [b"cd", b"ef"]
    assert list(chosen(some, np.array([True, False, True]))) == [b"ab", b"ef"] == list(chosen([*some], np.array([True, False, True])))


SIZES = st.one_of(st.integers(0, 40), st.sampled_from([8, 16, 255, 256, 257, 2_000]))


@settings(max_examples=200, deadline=None)
@given(st.lists(SIZES, max_size=8), st.sampled_from([1, 8]), st.randoms())
def test_rows_of_any_sizes_are_a_sequence_of_bytes(sizes: list[int], unit: int, random: Random) -> None:
    """As a table, if one size or at most 256 bytes, or as the list that they were; what is chosen of them, too."""
    as_list = [random.randbytes(size * unit) for size in sizes]
    some, mask = Rows.of(as_list), np.array([random.random() < 0.5 for _ in sizes], np.bool_)
    is_table = any(as_list) and (len(set(sizes)) == 1 or max(map(len, as_list)) <= 256)
    assert isinstance(some, Rows) == is_table and list(some) == as_list and as_arrow(some).to_pylist() == as_list
    assert [some[i] for i in range(len(some))] == as_list and list(some[1:3]) == as_list[1:3]
    for which in (mask, np.flatnonzero(mask)[::-1]):
        assert list(chosen(some, which)) == list(chosen(as_list, which))


def test_rows_are_compared_whatever_their_form() -> None:
    """As lines of one shape or of two, and as lists."""
    few, large = [b"a" * 8, b"b" * 8, b"a" * 8], [b"b" * 8, b"c" * 40, b"d" * 300]
    for others in (few[1:], large[:2], large):
        expected = [row in others for row in few]
        for rows in (few, Rows.of(few)):
            assert are_among(rows, Rows.of(others)).tolist() == expected == are_among(rows, others).tolist()
    for rows in (few, large, [*few, *large[:2]]):
        found = distinct(Rows.of(rows))
        assert list(found.rows) == list(dict.fromkeys(rows)) and [found.rows[i] for i in found.of_row] == rows
        assert [rows[i] for i in found.first] == list(found.rows)


def test_zeros_behind_a_row_are_part_of_it() -> None:
    """Three rows that are alike but for their sizes are three keys."""
    of = ColumnarMap()
    keys = Rows.of([b"a" + bytes(7), b"a" + bytes(15), b"a" + bytes(31)])
    of.put(keys, rows(1, 2, 3))
    assert len(of) == 3 and list(of.get(keys[1:])[1]) == list(rows(2, 3))
    assert of.get(Rows.of([b"a" + bytes(23)]))[0].tolist() == [False]


def test_keys_are_found_by_all_of_their_bytes() -> None:
    table = RowTable(Shape(16, differ=False), LONG)
    keys = Rows.of([b"same 8 B" + b"%08d" % i for i in range(100)])
    assert isinstance(keys, Rows)
    table.put(keys, rows(*range(100)))
    is_there, values = table.get(keys[40:43])
    assert is_there.all() and list(values) == list(rows(40, 41, 42))
    assert not table.get(Rows(keys.table[:, ::-1]))[0].any()


def test_numbers_that_differ_in_few_bits_have_slots_of_their_own() -> None:
    """Whole numbers as doubles: only their first bits differ."""
    keys = Rows(np.arange(10_000.0).reshape(-1, 1).view(np.uint8))
    table = RowTable(LONG, LONG)
    table.put(keys, keys)
    slots = table._hashes(keys) & np.uint64(len(table._slots) - 1)
    assert np.unique(slots).size > 7_000


class Sum:
    """An index: the sum of the values."""

    def __init__(self) -> None:
        self.total = 0

    def change(self, keys: Sequence[bytes], before: Sequence[bytes | None], after: Sequence[bytes | None]) -> None:
        self.total += sum(number(now) - number(was) for was, now in zip(before, after))


def number(row: bytes | None) -> int:
    return int.from_bytes(row or b"", "big")


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put or remove", "remove", "undo", "apply", "scan", "index", "get"]),
        st.sampled_from(["of one size", "names", "names and values", "lists"]),
        st.lists(st.tuples(st.integers(0, 30), st.one_of(st.none(), st.integers(0, 255))), max_size=12),
    ),
    max_size=15,
)


@settings(max_examples=150, deadline=None)
@given(CALLS)
def test_plain_and_fast_entries_are_the_same(calls: list[tuple[str, str, list[tuple[int, int | None]]]]) -> None:
    """Any calls of the seven methods, with rows of one size and of several, as tables and lists: a dict and columns answer alike."""
    both: list[Entries] = [HDFSBackedStateStoreMap(), ColumnarMap()]
    for what, how, pairs in calls:
        keys = (names if "names" in how else rows)(*(key for key, _ in pairs))
        some = (names if "values" in how else rows)(*(value or 0 for _, value in pairs))
        or_none = [None if value is None else row for row, (_, value) in zip(some, pairs)]
        if how == "lists":
            keys, some = [*keys], [row.lstrip(b"\0") for row in some]
        answers = [call(entries, what, keys, some, or_none) for entries in both]
        assert answers[0] == answers[1]
        assert sorted(zip(*both[0].rows())) == sorted(zip(*both[1].rows())) and len(both[0]) == len(both[1])


def call(of: Entries, what: str, keys: Sequence[bytes], values: Sequence[bytes], or_none: Sequence[bytes | None]) -> object:
    """One call, and what can be seen of its answer."""

    def prefixes_of(keys: Sequence[bytes]) -> Sequence[bytes]:
        return names(*(number(key[:8]) % 10 for key in keys))

    match what:
        case "put":
            of.put(keys, values)
        case "put or remove":
            there = dict(zip(*of.rows()))
            of.put(keys, [value if value is not None or key in there else b"" for key, value in zip(keys, or_none)])
        case "remove":
            removed, before = of.remove(keys)
            return sorted(zip(removed, before))
        case "undo":
            gone = of.remove(keys[:3])
            of.apply([*reversed(of.put(keys, values)), gone])
        case "apply":
            of.apply([(keys, values), (keys, or_none)])
        case "scan":
            prefixes = names(*dict.fromkeys(number(key[:8]) % 10 for key in keys))
            found = of.prefix_scan(prefixes, prefixes_of)
            return sorted(zip(map(int, found.positions), found.keys, found.values))
        case "index":
            index = of.index("sum", Sum)
            assert isinstance(index, Sum)
            return index.total
        case "get":
            is_there, found_values = of.get(keys)
            return is_there.tolist(), [*found_values]
    return None


CHANGES = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "undo"]), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 255)), max_size=20)),
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(CHANGES, st.booleans())
def test_it_says_what_a_dict_says(changes: list[tuple[str, list[tuple[int, int]]]], becomes_a_dict: bool) -> None:
    """Any changes, of keys that come twice, too; each may be undone. At the end, or in between, it may become a dict."""
    of, model = ColumnarMap(), dict[bytes, bytes]()
    for number, (what, pairs) in enumerate(changes):
        keys, values = rows(*(key for key, _ in pairs)), rows(*(value for _, value in pairs))
        before = dict(model)
        if what == "remove":
            undo = [of.remove(keys)]
            for key in keys:
                model.pop(key, None)
        else:
            undo = of.put(keys, values)
            model.update(zip(keys, values))
        if what == "undo":
            of.apply(reversed(undo))
            model = before
        if becomes_a_dict and number == 5:
            of.get([b"one"])
        is_there, found = of.get(keys)
        assert is_there.tolist() == [key in model for key in keys]
        assert list(found) == [model[key] for key in keys if key in model]
        assert len(of) == len(model)
    assert dict(zip(*of.rows())) == model


@settings(max_examples=200, deadline=None)
@given(CHANGES)
def test_keys_are_found_by_their_prefix(changes: list[tuple[str, list[tuple[int, int]]]]) -> None:
    """Key 27 has the prefix 7. It may be gone in between, and come back; the table moves when it grows."""

    def prefixes_of(keys: Sequence[bytes]) -> Rows:
        return rows(*(int.from_bytes(key, "big") % 10 for key in keys))

    of = ColumnarMap()
    for what, pairs in changes:
        keys = rows(*(key for key, _ in pairs))
        of.remove(keys) if what == "remove" else of.put(keys, keys)
        found = of.prefix_scan(rows(3, 7, 11), prefixes_of)
        expected = [sorted(key for key in of.rows()[0] if prefixes_of([key])[0] == prefix) for prefix in rows(3, 7, 11)]
        assert [sorted(chosen(found.keys, found.positions == i)) for i in range(3)] == expected
        assert list(found.values) == list(found.keys)


def test_rows_have_the_order_in_which_their_keys_came() -> None:
    """Whichever keys meet in a slot, which the number decides that each table draws."""
    for _ in range(20):
        table, model = RowTable(LONG, LONG), dict[bytes, bytes]()
        for start in range(0, 300, 60):
            keys = rows(*(number * 37 % 300 for number in range(start, start + 100)), *range(start, start + 20))
            table.put(keys, keys)
            model |= zip(keys, keys)
        assert list(table.rows()[0]) == list(model)


@pytest.mark.parametrize("cache", [3 * LONG.width, LONG.width - 1], ids=["three keys", "not even one key"])
def test_keys_that_are_looked_up_a_few_at_a_time_know_of_each_other(monkeypatch: pytest.MonkeyPatch, cache: int) -> None:
    monkeypatch.setattr(unsafe_row.rows, "CACHE", cache)
    table = RowTable(LONG, LONG)
    keys, values = rows(5, 6, 7, 8, 5, 9, 7), rows(*range(7))
    table.put(keys, values)
    assert dict(zip(*table.rows())) == dict(zip(keys, values)) and list(table.rows()[0]) == list(rows(5, 6, 7, 8, 9))
    is_there, found = table.get(rows(9, 4, 5, 5, 3))
    assert is_there.tolist() == [True, False, True, True, False] and list(found) == list(rows(5, 4, 4))


def test_it_grows_and_forgets_keys_that_are_gone() -> None:
    table = RowTable(LONG, LONG)
    for start in range(0, 10_000, 100):
        table.put(rows(*range(start, start + 100)), rows(*range(100)))
        table.remove(rows(*range(start, start + 90)))
    assert len(table) == 1_000
    assert table.memory_used_bytes < 1_000_000


def test_a_row_of_another_size_makes_the_lines_longer_and_a_large_one_makes_it_a_dict() -> None:
    of = ColumnarMap()
    for row, num_bytes in ((rows(2)[0], 8 + 8), (b"another size", 8 + 40), (b"x" * 33, 8 + 72)):
        of.put(rows(1, 3), [rows(1)[0], row])
        assert dict(zip(*of.rows())) == {rows(1)[0]: rows(1)[0], rows(3)[0]: row} and of.num_bytes(1) == num_bytes
        assert isinstance(of.rows()[0], Rows)
    of.put(rows(3), [b"x" * 257])
    assert dict(zip(*of.rows())) == {rows(1)[0]: rows(1)[0], rows(3)[0]: b"x" * 257} and not isinstance(of.rows()[0], Rows)


def test_nothing_that_is_asked_or_changed_leaves_a_table() -> None:
    of = ColumnarMap()
    of.put(rows(1), rows(2))
    assert of.put([], []) == [] and of.remove([]) == ([], [])
    assert len(of.get([])[0]) == 0 == len(of.prefix_scan([], lambda keys: keys).keys)
    assert isinstance(of.rows()[0], Rows)


def test_records_of_a_file_are_applied_in_order_whatever_their_sizes() -> None:
    of = ColumnarMap()
    one, two = rows(1, 2)
    of.apply([(rows(1, 2), rows(7, 8)), ([one, two, one], [None, one, two]), (rows(2), [None])])
    assert dict(zip(*of.rows())) == {one: two}
