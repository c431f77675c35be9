"""Files of strangers: whatever is in them, reading ends in rows or in one clear error, within bounded memory and time.

A checkpoint that has every kind of file is damaged in one place, and then opened and asked everything. Allowed are
ValueError and Spark's own exceptions; anything else (IndexError, MemoryError, a hang) fails the test.
"""

from __future__ import annotations

import io
import json
import random
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, BinaryType, DecimalType, LongType, MapType, StringType, StructType

from minispark_stream import inspect
from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.engine.checkpointing.commit_log import CommitLog
from minispark_stream.engine.checkpointing.compactible_file_stream_log import CompactionConf, FileStreamSourceLog
from minispark_stream.engine.checkpointing.file_stream_sink_log import FileStreamSinkLog
from minispark_stream.engine.checkpointing.lz4_block import compress, decompress
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeqLog
from minispark_stream.engine.checkpointing.stream_metadata import read_id
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.checkpointing.unsafe_row.plain import decode_rows
from minispark_stream.engine.state.operator_state_metadata import OperatorStateMetadata
from minispark_stream.engine.state.schema_files import decode_schemas
from minispark_stream.engine.state.state_records import decode_records, encode_records
from minispark_stream.extras.rocksdb.changelog import read_changelog
from minispark_stream.extras.rocksdb.changes import DELETE, PUT, Record
from minispark_stream.extras.rocksdb.column_family_schemas import decode_column_families
from minispark_stream.extras.rocksdb.snapshot_zip import read_zip_metadata
from minispark_stream.tools.inspection.rocksdb.sst_file import read_sst
from tests.unit.hand_made import content, encode, keys_of, log_batch, state_files, values_of, windowed_count
from tests.unit.rocksdb_files import METADATA_V2, changelog, rocksdb_checkpoint, schema_file, sst, write_families

QUICK = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
CLEAR = (ValueError, PySparkException)
MB = 1 << 20


@contextmanager
def at_most(megabytes: int) -> Iterator[None]:
    """Of memory, allocated by Python and numpy while this runs."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * MB
    finally:
        tracemalloc.stop()


# --- damage ----------------------------------------------------------------------------------------------------

NESTED = b"[" * 100_000
HUGE = [struct.pack(">i", n) for n in (2**31 - 1, -(2**31), -2, 2**24)] + [struct.pack("<q", 2**62), b"9" * 4000]


@st.composite
def damage(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """A way to damage a file."""
    where = draw(st.floats(0, 1, exclude_max=True))
    kind = draw(st.sampled_from(["truncate", "flip", "huge", "garbage", "empty", "nested", "twice", "digits", "insert"]))
    n = draw(st.integers(0, 2**16))
    garbage = draw(st.binary(max_size=40))

    def apply(data: bytes) -> bytes:
        at = int(where * len(data))
        match kind:
            case "truncate":
                return data[:at]
            case "flip":
                return data[:at] + bytes([data[at] ^ (1 << n % 8)]) + data[at + 1 :] if data else data
            case "huge":
                value = HUGE[n % len(HUGE)]
                return data[:at] + value + data[at + len(value) :]
            case "garbage":
                return garbage
            case "empty":
                return b""
            case "nested":
                return data[:at] + NESTED + data[at:]
            case "twice":
                return data + data
            case "digits":  # a number becomes a large one
                return b"".join(bytes([c]) * (12 if chr(c).isdigit() and i == at else 1) for i, c in enumerate(data))
            case _:
                return data[:at] + garbage + data[at:]

    return apply


# --- a whole checkpoint ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Name -> bytes of a checkpoint with every kind of file."""
    path = windowed_count(tmp_path_factory.mktemp("healthy"))
    log_batch(path, 3, '{"logOffset":1}', next_watermark=None)
    state_files(path, 0).write_snapshot(2, keys_of([(0, "a", 2), (5, "a", 1)]), values_of([(0, "a", 2), (5, "a", 1)]))
    (path / "sources/0/9.compact").write_bytes(b"v1")
    (path / "sources/1").mkdir()
    (path / "sources/1/0").write_text("v1\n1700000000000")
    write_families(path / "state/1")
    return content(path)


@pytest.fixture(scope="module")
def rocksdb(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of the state of a checkpoint in RocksDB; the others are as in `healthy`."""
    return content(rocksdb_checkpoint(tmp_path_factory.mktemp("rocksdb")))


def rocksdb_zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata", 'v1\n{"sstFiles":[],"numKeys":7}')
    return out.getvalue()


def ask_everything(path: Path) -> None:
    """Open it, show it in every form, and ask about the state. The report always comes; a question may be refused."""
    report = inspect(str(path), max_bytes=48 * MB)
    str(report), report.to_json(), report._repr_html_()
    for operator in report.operators:
        for store in operator.stores:
            where: dict[str, Any] = {"operator": operator.operator_id, "store": store.name}
            for question in (
                partial(report.rows, **where, limit=100),
                partial(report.rows, **where, version=1),
                partial(report.find, {"k": "a"}, **where, version=2),
                partial(report.diff, 1, 3, **where),
            ):
                try:
                    question()
                except CLEAR as e:
                    assert str(e)


def damaged_in(
    healthy: dict[str, bytes], names: list[str], which: int, harm: Callable[[bytes], bytes], also: int
) -> dict[str, bytes]:
    """With one or two of the files damaged."""
    damaged = {**healthy}
    for i in {which % len(names), also % len(names)} if also % 3 == 0 else {which % len(names)}:
        damaged[names[i]] = harm(healthy[names[i]])
    return damaged


def write(path: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)


@settings(QUICK, max_examples=300)
@given(which=st.integers(0, 2**16), harm=damage(), also=st.integers(0, 2**16))
def test_a_checkpoint_with_one_damaged_file(
    healthy: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, which: int, harm: Callable[[bytes], bytes], also: int
) -> None:
    path = tmp_path_factory.mktemp("cp")
    damaged = damaged_in(healthy, sorted(healthy), which, harm, also)
    write(path, damaged)
    ask_everything(path)
    assert content(path) == damaged


@settings(QUICK, max_examples=200)
@given(which=st.integers(0, 2**16), harm=damage(), also=st.integers(0, 2**16))
def test_a_checkpoint_with_a_damaged_file_of_rocksdb(
    rocksdb: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, which: int, harm: Callable[[bytes], bytes], also: int
) -> None:
    path = tmp_path_factory.mktemp("cp")
    damaged = damaged_in(rocksdb, sorted(name for name in rocksdb if name.startswith("state/")), which, harm, also)
    write(path, damaged)
    ask_everything(path)
    assert content(path) == damaged


def test_a_healthy_checkpoint_is_what_the_damage_begins_with(healthy: dict[str, bytes], tmp_path: Path) -> None:
    write(tmp_path, healthy)
    report = inspect(str(tmp_path))
    assert [str(f) for f in report.findings] == ["warning: logs: batch 3 was planned but is not committed: it runs again"]
    assert [o.provider for o in report.operators] == ["HDFS-backed", "RocksDB"]
    assert [(s.name, s.schemas[0].name, s.num_keys) for s in report.operators[1].stores] == [("v", "v", 1), ("l", "l", 1)]


@pytest.mark.parametrize("name", [
    "metadata", "offsets/3", "commits/2", "sources/0/1", "state/0/_metadata/metadata", "state/0/0/_metadata/schema",
    "state/0/0/3.delta", "state/0/0/2.snapshot", "state/1/0/2.zip", "state/1/0/3.changelog", "state/1/_metadata/v2/0", "state/1/_stateSchema/default/0_x",
])
@pytest.mark.parametrize("data", [b"", b"\xff\xfe", NESTED, b"v1\n" + NESTED, b"v1\n{}\n" + NESTED, b"\0" * 100], ids=repr)
def test_a_file_of_nonsense_is_named(healthy: dict[str, bytes], tmp_path: Path, name: str, data: bytes) -> None:
    write(tmp_path, {**healthy, name: data})
    ask_everything(tmp_path)
    report = inspect(str(tmp_path))
    named = [f for f in report.findings if name in f.where or name in f.says]
    harmless = name == "commits/2" and data == b"v1\n{}\n" + NESTED or name == "offsets/3" and data.startswith(b"v1\n{}")
    assert named or harmless


# --- one decoder at a time -------------------------------------------------------------------------------------

SCHEMA = (
    StructType().add("s", StringType()).add("d", DecimalType(30, 2)).add("a", ArrayType(LongType()))
    .add("m", MapType(StringType(), BinaryType())).add("n", StructType().add("x", LongType()).add("y", StringType()))
)
CODEC = UnsafeRowCodec(SCHEMA)
ROW = encode(
    SCHEMA, ["abc"], [12], [[1, None, 3]], [[("k", b"v")]], [{"x": 1, "y": "z"}],
)[0]
RECORDS = encode_records([([b"k" * 16, b"l" * 16], [b"v" * 24, b"w" * 24]), ([b"k" * 16], [None])])


def in_log(log: Any, data: bytes) -> Any:
    """As `get` reads it, which names the file."""
    try:
        return log.deserialize(data)
    except RecursionError as e:
        raise ValueError("nested too deeply") from e


LOGS = {
    "offsets": (OffsetSeqLog("/nowhere"), b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"a":"b"}}\n{"logOffset":1}\n-'),
    "offsets v2": (OffsetSeqLog("/nowhere"), b'v2\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n0:{"logOffset":1}\n1:-'),
    "commits": (CommitLog("/nowhere"), b'v2\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["a"],["b"]]}}'),
    "source": (FileStreamSourceLog("/nowhere", CompactionConf()), b'v1\n{"path":"file:///a","timestamp":1,"batchId":0}'),
    "sink": (FileStreamSinkLog("/nowhere", CompactionConf()), b'v1\n{"path":"file:///a","size":1,"isDir":false,"modificationTime":1,'
             b'"blockReplication":1,"blockSize":3,"action":"add"}'),
}
SOME = [Record(PUT, b"key", b"value"), Record(DELETE, b"other", None), Record(PUT, b"key", b"v" * 300)]
TABLE = sst(enumerate(SOME, 1))
DECODERS: dict[str, tuple[bytes, Callable[[bytes], Any]]] = {
    **{name: (data, lambda d, log=log: in_log(log, d)) for name, (log, data) in LOGS.items()},  # type: ignore[misc]
    "operator metadata": (
        b'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"x"},"stateStoreInfo":[{"storeName":"d","numColsPrefixKey":0,"numPartitions":2}]}',
        lambda d: OperatorStateMetadata.from_text(d.decode("utf-8")),
    ),
    "operator metadata v2": (METADATA_V2.encode(), lambda d: OperatorStateMetadata.from_text(d.decode("utf-8"))),
    "column families": (schema_file("v", "l"), decode_column_families),
    "zip": (rocksdb_zip(), read_zip_metadata),
    "sst": (TABLE, lambda d: read_sst(d, Budget(MB))),
    "changelog": (decompress(changelog(SOME)), lambda d: read_changelog(d, False, Budget(MB))),
    "changelog with families": (decompress(changelog(SOME, 4, {1: "x"})), lambda d: read_changelog(d, True, Budget(MB))),
    "records": (RECORDS, decode_records),
    "records with checksums": (RECORDS, lambda d: decode_records(d, checksum=True)),
    "lz4": (compress(RECORDS * 40), lambda d: decompress(d, "lz4", Budget(MB))),
    "zstd": (compress(RECORDS * 40, "zstd"), lambda d: decompress(d, "zstd", Budget(MB))),
    "snappy": (compress(RECORDS * 40, "snappy"), lambda d: decompress(d, "snappy", Budget(MB))),
    "row": (ROW, lambda d: decode_rows(CODEC, [d])),
    "rows": (ROW, lambda d: decode_rows(CODEC, [ROW, d, ROW])),
}


@settings(QUICK, max_examples=200)
@pytest.mark.parametrize("name", DECODERS)
@given(harms=st.lists(damage(), min_size=1, max_size=3))
def test_a_decoder_gives_a_value_or_a_clear_error(name: str, harms: list[Callable[[bytes], bytes]]) -> None:
    data, decode = DECODERS[name]
    for harm in harms:
        data = harm(data)
    try:
        decode(data)
    except CLEAR as e:
        assert str(e)
    except RecursionError:
        assert name.startswith("operator metadata")  # who reads these files catches it


# --- bombs: small files that would like to be large ------------------------------------------------------------


def test_a_small_file_cannot_fill_the_memory(tmp_path: Path) -> None:
    windowed_count(tmp_path)
    (tmp_path / "state/0/0/3.delta").write_bytes(compress(b"\0" * 200 * MB))
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata", b"v1\n" + b" " * 100 * MB)
    bomb = (tmp_path / "bomb.zip").read_bytes()
    with at_most(60):
        report = inspect(str(tmp_path), max_bytes=4 * MB)
        assert "3.delta: more than 4,194,304 bytes of memory" in report.findings[0].says
        with pytest.raises(ValueError, match="too large"):
            read_zip_metadata(bomb)


def test_numbers_that_a_file_claims_are_not_believed(tmp_path: Path) -> None:
    windowed_count(tmp_path)
    log_batch(tmp_path, 10**15, '{"logOffset":1' + "0" * 17 + "}", watermark=2**62, next_watermark=2**62)
    log_batch(tmp_path, 10**15 + 1, *["-"] * 5000, next_watermark=None)
    metadata = json.loads((tmp_path / "state/0/_metadata/metadata").read_text().split("\n")[1])
    metadata["stateStoreInfo"][0]["numPartitions"] = 10**18
    (tmp_path / "state/0/_metadata/metadata").write_text("v1\n" + json.dumps(metadata))
    (tmp_path / "sources/0/999999999999").write_text("v1")
    (tmp_path / "state/0/0/999999999999.delta").write_bytes(compress(encode_records([])))
    with at_most(40):
        ask_everything(tmp_path)


def test_an_array_that_claims_to_be_long_costs_nothing() -> None:
    schema = StructType().add("a", ArrayType(LongType()))
    (row,) = encode(schema, [[1, 2]])
    for count in (2**31, 2**60, -1, 2**63 - 1):
        longer = row[:16] + struct.pack("<q", count) + row[24:]
        with at_most(5), pytest.raises(ValueError, match="row 0 is not an UnsafeRow"):
            UnsafeRowCodec(schema).decode([longer])


def test_arrays_that_share_their_bytes_are_refused() -> None:
    """Otherwise n slots that all point at the same large value would make n copies of it."""
    schema = StructType([s for i in range(200) for s in StructType().add(f"s{i}", StringType()).fields])
    fixed = 32 + 8 * 200
    word = struct.pack("<q", fixed << 32 | 100_000)
    row = bytes(32) + word * 200 + bytes(100_000)
    with at_most(120), pytest.raises(ValueError, match="the values overlap"):
        UnsafeRowCodec(schema).decode([row] * 50)


def test_a_map_with_a_null_key_is_refused() -> None:
    """Arrow aborts the whole process when it is given one."""
    schema = StructType().add("m", MapType(LongType(), LongType()))
    (row,) = encode(schema, [[(1, 2)]])
    null_key = row[:32] + b"\1" + row[33:]
    with pytest.raises(ValueError, match="a map with a key that is null"):
        UnsafeRowCodec(schema).decode([row, null_key])


def test_random_bytes_as_rows_of_random_schemas() -> None:
    """Many rows at once, as a state has them."""
    rng = random.Random(7)
    types = [StringType(), LongType(), BinaryType(), DecimalType(38, 10), ArrayType(StringType()), MapType(LongType(), StringType()), SCHEMA]
    for _ in range(150):
        schema = StructType()
        for i in range(rng.randrange(1, 5)):
            schema = schema.add(f"c{i}", rng.choice(types))
        rows = [rng.randbytes(8 * rng.randrange(0, 30)) for _ in range(rng.randrange(1, 20))]
        try:
            decode_rows(UnsafeRowCodec(schema), rows)
        except ValueError as e:
            assert str(e)


def test_a_schema_nested_to_the_limit(tmp_path: Path) -> None:
    """What the JSON parser still takes may be too deep for others: it must not be a crash."""
    windowed_count(tmp_path)
    for depth in (20, 100, 150, 200, 250, 300, 400, 600, 900):
        text = '{"type":"struct","fields":[{"name":"a","type":' * depth + '"long"' + ',"nullable":true,"metadata":{}}]}' * depth
        chunks = [text[i : i + 60_000] for i in range(0, len(text), 60_000)]
        one = struct.pack(">i", len(chunks)) + b"".join(struct.pack(">H", len(c)) + c.encode() for c in chunks)
        data = b"\0\x02v2" + one + one
        (tmp_path / "state/0/0/_metadata/schema").write_bytes(data)
        ask_everything(tmp_path)
    with pytest.raises(ValueError, match="byte 4|JSON"):
        decode_schemas(b"\0\x02v2" + struct.pack(">i", 1) + struct.pack(">H", 60_000) + NESTED[:60_000])


def test_the_id_of_a_query_may_be_anything_but_a_crash(tmp_path: Path) -> None:
    for data in (b"", b"{}", b"[]", b'{"id":1}', b'{"id":"' + b"x" * 9 + b'"}', NESTED, b"\xff"):
        (tmp_path / "metadata").write_bytes(data)
        try:
            read_id(str(tmp_path))
        except CLEAR as e:
            assert "metadata" in str(e)
