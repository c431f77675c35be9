"""Keys are removed from the state of a copy, in its snapshot and in its delta; what cannot be changed is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minispark_stream import inspect
from minispark_stream.tools.cli import main
from minispark_stream.tools.operations.forget import ForgetRefused, forget
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
    assert len(forget(checkpoint, {"k": "a"}).rows) == 2
    assert forget(checkpoint, {"k": "a"}, to=copy).done == f"file:{copy}"
    assert content(checkpoint) == before
    assert rows(checkpoint) == [("a", 1), ("a", 2), ("b", 3), ("b", 1), ("c", 4)] and rows(copy) == [("b", 3), ("b", 1), ("c", 4)]
    changed = {name for name, data in content(copy).items() if before.get(name) != data}
    assert changed == {"state/0/0/3.delta", "state/0/0/3.snapshot"} and before.keys() <= content(copy).keys()


def test_the_snapshot_is_what_the_deltas_add_up_to(checkpoint: Path) -> None:
    copy = checkpoint.with_name("copy")
    forget(checkpoint, {"k": "a", "window": {"start": "2024-01-01 12:05:00"}}, to=copy)
    assert rows(copy) == [("a", 1), ("b", 3), ("b", 1), ("c", 4)]
    assert inspect(str(copy)).findings == inspect(str(checkpoint)).findings
    (copy / "state/0/0/3.snapshot").unlink()
    assert rows(copy) == [("a", 1), ("b", 3), ("b", 1), ("c", 4)]


def test_what_is_refused(checkpoint: Path) -> None:
    with pytest.raises(ForgetRefused, match="no row with this key"):
        forget(checkpoint, {"k": "z"})
    with pytest.raises(ValueError, match="no column"):
        forget(checkpoint, {"no": "z"})
    with pytest.raises(ForgetRefused, match="no stores"):
        forget(checkpoint, "a", operator=7)
    (checkpoint / "metadata").unlink()
    with pytest.raises(ForgetRefused, match="`minispark_stream repair` comes first"):
        forget(checkpoint, {"k": "a"})


def test_the_command(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", str(checkpoint), "--delete", '{"k": "a"}']) == 0
    assert "2 rows go" in (shown := capsys.readouterr().out) and "nothing was changed" in shown
    assert main(["state", str(checkpoint), "--delete", '{"k": "a"}', "--to", str(checkpoint.with_name("copy")), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 3
    assert main(["state", str(checkpoint), "--delete", '{"k": "z"}']) == 1 and "no row" in capsys.readouterr().err
