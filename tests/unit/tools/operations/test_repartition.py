"""Rows of state get to the partitions that the hash of their keys says; what cannot be moved is refused, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from minispark_stream import inspect
from minispark_stream.engine.checkpointing.unsafe_row.codec import UnsafeRowCodec
from minispark_stream.tools.cli import main
from minispark_stream.tools.operations.partition_of import NoPartition, hash_of_key
from minispark_stream.tools.operations.repartition import RepartitionRefused, repartition
from tests.unit.hand_made import content, keys_of, state_files, values_of, windowed_count


def hashes(of_type: object, values: list[object]) -> list[int]:
    schema = StructType([StructField("x", of_type)])  # type: ignore[arg-type]
    rows = UnsafeRowCodec(schema).encode([pa.array(values, UnsafeRowCodec(schema).arrow_types[0])])
    return [hash_of_key(row, schema, 1) for row in rows]


def test_the_hash_is_that_of_spark() -> None:
    """The numbers are those of Spark's function `hash`."""
    assert hashes(StringType(), ["Spark", "", None]) == [228093765, 142593372, 42]


def test_a_key_with_an_array_has_no_partition_here() -> None:
    with pytest.raises(NoPartition, match="array"):
        hashes(ArrayType(LongType()), [[1]])


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = windowed_count(tmp_path / "checkpoint")
    rows = [(minutes, key, 1 + minutes) for key in "abcdefgh" for minutes in (0, 5, 10)]
    schema = inspect(str(path)).states[0].key_schema
    assert schema is not None
    for partition in (0, 1):
        some = [row for row in rows if hash_of_key(keys_of([row])[0], schema, 2) % 2 == partition]
        state_files(path, partition).write_snapshot(3, keys_of(some), values_of(some))
        state_files(path, partition).write_delta(3, [(keys_of(some), values_of(some))])
    return path


@pytest.mark.parametrize("partitions", [1, 3, 5])
def test_the_rows_are_all_there_and_a_batch_is_added(checkpoint: Path, partitions: int) -> None:
    before, copy = content(checkpoint), checkpoint.with_name("copy")
    answer = repartition(checkpoint, partitions, to=copy)
    assert content(checkpoint) == before and sum(answer.rows.values()) == 24
    old, new = inspect(str(checkpoint)), inspect(str(copy))
    assert sorted(map(str, ((r.key, r.value) for r in new.rows()))) == sorted(map(str, ((r.key, r.value) for r in old.rows())))
    assert (new.next.batch_id, new.operators[0].num_partitions) == (answer.batch + 1, partitions)
    assert new.batches[-1].conf["spark.sql.shuffle.partitions"] == str(partitions) and new.next.refused is None
    assert {row.partition for row in new.rows()} <= set(range(partitions))


def test_there_and_back(checkpoint: Path) -> None:
    names = [checkpoint.with_name(name) for name in ("three", "two")]
    repartition(checkpoint, 3, to=names[0])
    repartition(names[0], 2, to=names[1])
    assert inspect(str(names[1])).rows() == inspect(str(checkpoint)).rows()


def test_without_its_snapshot_a_version_of_an_old_partition_says_the_same(checkpoint: Path) -> None:
    copy = checkpoint.with_name("copy")
    repartition(checkpoint, 5, to=copy)
    rows = inspect(str(copy)).rows()
    (copy / "state/0/0/4.snapshot").unlink()
    assert inspect(str(copy)).rows() == rows


def test_what_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for number in (0, 2):
        with pytest.raises(RepartitionRefused, match="another number"):
            repartition(checkpoint, number, to=copy)
    for file in ("3.snapshot", "3.delta"):
        (checkpoint / f"state/0/0/{file}").rename(tmp_path / file)
        (checkpoint / f"state/0/1/{file}").rename(checkpoint / f"state/0/0/{file}")
        (tmp_path / file).rename(checkpoint / f"state/0/1/{file}")
    with pytest.raises(RepartitionRefused, match="distributed in another way"):
        repartition(checkpoint, 3, to=copy)
    newest = max(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdigit())
    (checkpoint / f"commits/{newest}").unlink()
    with pytest.raises(RepartitionRefused, match="not committed"):
        repartition(checkpoint, 3, to=copy)
    (checkpoint / "metadata").unlink()
    with pytest.raises(RepartitionRefused, match="`minispark_stream repair` comes first"):
        repartition(checkpoint, 3, to=copy)
    assert not copy.exists()


def test_the_command(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repartition", str(checkpoint), "3"]) == 0
    assert "2 partitions become 3" in capsys.readouterr().out
    assert main(["repartition", str(checkpoint), "3", "--to", f"{checkpoint}2", "--json"]) == 0
    assert '"after": 3' in capsys.readouterr().out
    assert main(["repartition", str(checkpoint), "2"]) == 1
    assert "another number" in capsys.readouterr().err
