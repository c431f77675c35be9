"""Rows of the state of a copy go, change and come, in its snapshot and in its delta; what cannot be changed is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

import tests.unit.hand_made as hand_made
from minispark_stream import inspect
from minispark_stream.tools.cli import main
from minispark_stream.tools.operations.edit_state import add_rows, delete_rows, set_values
from minispark_stream.tools.operations.given_values import EditRefused, as_columns
from minispark_stream.tools.operations.partition_of import hash_of_key
from tests.unit.hand_made import content, keys_of, state_files, values_of, windowed_count


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The state before batch 3 has two windows of a and one of b in partition 0, and b and c in partition 1."""
    path = windowed_count(tmp_path / "checkpoint")
    rows = {0: [(0, "a", 1), (5, "a", 2), (10, "b", 3)], 1: [(0, "c", 4)]}
    for partition, of_partition in rows.items():
        state_files(path, partition).write_delta(3, [(keys_of(of_partition), values_of(of_partition))])
    return path


def rows(checkpoint: Path) -> list[tuple[str, int]]:
    return [(row.key["k"], row.value["count"]) for row in inspect(str(checkpoint)).rows()]


def test_the_rows_of_a_key_go_and_all_others_stay(checkpoint: Path) -> None:
    before, copy = content(checkpoint), checkpoint.with_name("copy")
    assert len(delete_rows(checkpoint, {"k": "a"}).before) == 2
    assert delete_rows(checkpoint, {"k": "a"}, to=copy).done == f"file:{copy}"
    assert content(checkpoint) == before
    assert rows(checkpoint) == [("a", 1), ("a", 2), ("b", 3), ("b", 1), ("c", 4)] and rows(copy) == [("b", 3), ("b", 1), ("c", 4)]
    changed = {name for name, data in content(copy).items() if before.get(name) != data}
    assert changed == {"state/0/0/3.delta", "state/0/0/3.snapshot"} and before.keys() <= content(copy).keys()


def test_the_snapshot_is_what_the_deltas_add_up_to(checkpoint: Path) -> None:
    copy = checkpoint.with_name("copy")
    delete_rows(checkpoint, {"k": "a", "window": {"start": "2024-01-01 12:05:00"}}, to=copy)
    assert rows(copy) == [("a", 1), ("b", 3), ("b", 1), ("c", 4)]
    assert inspect(str(copy)).findings == inspect(str(checkpoint)).findings
    (copy / "state/0/0/3.snapshot").unlink()
    assert rows(copy) == [("a", 1), ("b", 3), ("b", 1), ("c", 4)]


def test_what_is_refused(checkpoint: Path) -> None:
    with pytest.raises(EditRefused, match="no such row"):
        delete_rows(checkpoint, {"k": "z"})
    with pytest.raises(ValueError, match="no column"):
        delete_rows(checkpoint, {"no": "z"})
    with pytest.raises(EditRefused, match="no stores"):
        delete_rows(checkpoint, "a", operator=7)
    (checkpoint / "metadata").unlink()
    with pytest.raises(EditRefused, match="`minispark_stream repair` comes first"):
        delete_rows(checkpoint, {"k": "a"})


def test_the_command(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", str(checkpoint), "--delete", '{"k": "a"}']) == 0
    assert "2 rows go" in (shown := capsys.readouterr().out) and "nothing was changed" in shown
    assert main(["state", str(checkpoint), "--delete", '{"k": "a"}', "--to", str(checkpoint.with_name("copy")), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 3
    assert main(["state", str(checkpoint), "--delete", '{"k": "z"}']) == 1 and "no such row" in capsys.readouterr().err


def test_rows_are_chosen_by_conditions(checkpoint: Path) -> None:
    def chosen(*where: str) -> list[int]:
        return [row.value["count"] for row in delete_rows(checkpoint, {}, where).before]

    assert chosen() == [1, 2, 3, 1, 4] and chosen("count > 1") == [2, 3, 4] and chosen("count>=2", "k = b") == [3]
    assert chosen('k != "a"', "sum <= 30") == [3, 1] and chosen("k < b") == [1, 2]
    for wrong in ("count", "no = 1", "count > many", "window = 1", "count > 1.5"):
        with pytest.raises(EditRefused, match="no condition such as|do not fit"):
            chosen(wrong)
    with pytest.raises(EditRefused, match="no such row"):
        chosen("count > 9")


def test_values_are_set(checkpoint: Path) -> None:
    before, copy = content(checkpoint), checkpoint.with_name("copy")
    edit = set_values(checkpoint, {"count": 70, "sum": "1.50"}, {"k": "a"}, ["count > 1"], to=copy)
    assert [row.value for row in edit.before] == [{"count": 2, "sum": "20.00"}]
    assert [row.value for row in edit.after] == [{"count": 70, "sum": "1.50"}] and content(checkpoint) == before
    assert rows(copy) == [("a", 1), ("a", 70), ("b", 3), ("b", 1), ("c", 4)]
    (copy / "state/0/0/3.snapshot").unlink()
    assert rows(copy) == [("a", 1), ("a", 70), ("b", 3), ("b", 1), ("c", 4)]


@pytest.mark.parametrize(("values", "says"), [
    ({"count": 1.5}, "do not fit the types of the state"), ({"count": "1"}, "do not fit"), ({"count": True}, "do not fit"),
    ({"count": 2**63}, "do not fit"), ({"sum": "1.555"}, "do not fit"), ({"k": "z"}, "no column k, but count, sum"), ({"count": [1]}, "do not fit"),
])
def test_a_value_of_another_type_is_refused(checkpoint: Path, values: dict[str, object], says: str) -> None:
    with pytest.raises(EditRefused, match=says):
        set_values(checkpoint, values, {})


def test_no_null_where_the_schema_has_none() -> None:
    with pytest.raises(EditRefused, match="n cannot be null"):
        as_columns([{"n": 1}, {"n": None}], StructType().add("n", "long", nullable=False))


@pytest.fixture
def distributed(tmp_path: Path) -> Path:
    """Each row is where the hash of its key puts it."""
    path = windowed_count(tmp_path / "distributed")
    schema = StructType.fromJson(json.loads(hand_made.KEY.json()))
    of_partition: dict[int, list[tuple[int, str, int]]] = {0: [], 1: []}
    for one in [(0, "a", 1), (5, "a", 2), (10, "b", 3), (0, "c", 4)]:
        of_partition[hash_of_key(keys_of([one])[0], schema, 2) % 2].append(one)
    for partition, found in of_partition.items():
        for delta in (path / f"state/0/{partition}").glob("[123].delta"):
            delta.unlink()
        for version in (1, 2, 3):
            state_files(path, partition).write_delta(version, [(keys_of(found), values_of(found))])
    return path


def a_row(minute: int, k: str, count: int) -> dict[str, object]:
    times = {"start": f"2024-01-01 12:{minute:02}:00", "end": f"2024-01-01 12:{minute + 5:02}:00"}
    return {"window": times, "k": k, "count": count, "sum": f"{10 * count}.00"}


def test_rows_are_added_where_the_hash_of_their_keys_puts_them(distributed: Path) -> None:
    copy = distributed.with_name("copy")
    new = [(minute, k, 9) for minute in (20, 25, 30) for k in "abcdef"]
    edit = add_rows(distributed, [a_row(*one) for one in new], to=copy)
    assert len(edit.after) == 18 and edit.before == () and {row.partition for row in edit.after} == {0, 1}
    found = {(row.partition, row.key["window"]["start"], row.key["k"], row.value["count"], row.value["sum"]) for row in inspect(str(copy)).rows()}
    for one in new:
        place = hash_of_key(keys_of([one])[0], hand_made.KEY, 2) % 2
        assert (place, f"2024-01-01 12:{one[0]}:00", one[1], 9, "90.00") in found
    assert len(found) == 22 and inspect(str(copy)).exit_code == 0


def test_which_rows_cannot_be_added(distributed: Path, checkpoint: Path) -> None:
    for new, says in (
        ([a_row(0, "a", 7)], "is there already"), ([a_row(20, "z", 7)] * 2, "two of the rows have one key"),
        ([{"k": "z", "count": 1}], "lacks window, sum"), ([a_row(20, "z", 7) | {"more": 1}], "do not fit"), ([], "no row to add"),
    ):
        with pytest.raises(EditRefused, match=says):
            add_rows(distributed, new)
    with pytest.raises(EditRefused, match="puts into another one"):
        add_rows(checkpoint, [a_row(20, "z", 7)])


def test_the_other_commands(distributed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", str(distributed), "--set", '{"count": 0}', "--key", '{"k": "b"}']) == 0
    assert "1 row go" in (shown := capsys.readouterr().out) and "1 row come" in shown
    (tmp_path / "rows.jsonl").write_text(json.dumps(a_row(20, "z", 7)) + "\n\n")
    assert main(["state", str(distributed), "--add", str(tmp_path / "rows.jsonl")]) == 0 and "1 row come" in capsys.readouterr().out
    assert main(["state", str(distributed), "--delete", "--where", "count > 2", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["before"]) == 2
    assert main(["state", str(distributed), "--set", "no json"]) == 1 and capsys.readouterr().err.startswith("state: ")
