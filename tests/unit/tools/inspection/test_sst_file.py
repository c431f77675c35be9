"""SST files: what RocksDB itself wrote is read, and a damaged file is one clear error."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from rocksdict import BlockBasedOptions, DBCompressionType, Options, Rdict

from minispark_stream.engine.checkpointing.budget import Budget, LimitExceeded
from minispark_stream.extras.rocksdb.changes import DELETE, MERGE, PUT, Record, folded
from minispark_stream.tools.inspection.rocksdb.sst_file import read_sst
from tests.unit.rocksdb_files import block, sst

MB = 1 << 20
COMPRESSIONS = {"none": DBCompressionType.none, "snappy": DBCompressionType.snappy, "zlib": DBCompressionType.zlib,
                "lz4": DBCompressionType.lz4, "lz4hc": DBCompressionType.lz4hc, "zstd": DBCompressionType.zstd}


def database(path: Path, compression: str = "lz4", version: int = 5) -> Rdict:
    options, table = Options(raw_mode=True), BlockBasedOptions()
    options.set_compression_type(COMPRESSIONS[compression]())
    options.set_disable_auto_compactions(True)
    table.set_format_version(version)
    options.set_block_based_table_factory(table)
    return Rdict(str(path), options)


def state_of(path: Path) -> dict[bytes, object]:
    """The keys and values in all tables of a database."""
    entries = [entry for file in path.glob("*.sst") for entry in read_sst(file.read_bytes(), Budget(64 * MB))]
    changes = folded((e.record for e in sorted(entries, key=lambda e: e.sequence)), b"")
    return {key: value for key, value in changes.items() if value is not None}


@pytest.mark.parametrize("compression, version", [*((name, 5) for name in COMPRESSIONS), ("lz4", 2), ("lz4", 4)])
def test_what_rocksdb_wrote_is_read(tmp_path: Path, compression: str, version: int) -> None:
    """Four tables one over the other, with keys that are changed and deleted, and then one of all of them."""
    db, rng = database(tmp_path / "db", compression, version), random.Random(1)
    expected = {}
    for _ in range(4):
        for _ in range(1500):
            key = b"key %d" % rng.randrange(3000) + b"." * rng.randrange(0, 200, 50)
            expected[key] = db[key] = rng.randbytes(rng.randrange(100)) + b"x" * 50
        for key in rng.sample(sorted(expected), 100):
            del db[key], expected[key]
        db.flush()
    assert len(list((tmp_path / "db").glob("*.sst"))) == 4
    assert state_of(tmp_path / "db") == expected
    db.compact_range(None, None)
    db.close()
    assert state_of(tmp_path / "db") == expected


def test_a_table_of_a_newer_format_is_named(tmp_path: Path) -> None:
    with_six = database(tmp_path / "db", version=6)
    with_six[b"a"] = b"1"
    with_six.flush()
    with_six.close()
    [file] = (tmp_path / "db").glob("*.sst")
    with pytest.raises(ValueError, match="a table of format version 6; versions 2 to 5 can be read"):
        read_sst(file.read_bytes(), Budget(MB))


def test_what_is_appended_comes_in_its_order() -> None:
    tables = [
        [(1, Record(PUT, b"a", b"1")), (2, Record(MERGE, b"b", b"x"))],
        [(5, Record(MERGE, b"b", b"y")), (6, Record(MERGE, b"a", b"2")), (7, Record(PUT, b"c", b"3"))],
        [(8, Record(DELETE, b"c", None)), (9, Record(MERGE, b"c", b"4")), (10, Record(DELETE, b"b", None))],
    ]
    entries = sorted((e for table in reversed(tables) for e in read_sst(sst(table), Budget(MB))), key=lambda e: e.sequence)
    assert folded((e.record for e in entries), b",") == {b"a": b"1,2", b"b": None, b"c": b"4"}


def test_a_damaged_table_is_a_clear_error(tmp_path: Path) -> None:
    db = database(tmp_path / "db")
    for i in range(300):
        db[b"key %03d" % i] = b"value" * 9
    db.flush()
    db.close()
    [file] = (tmp_path / "db").glob("*.sst")
    data, rng = file.read_bytes(), random.Random(2)
    whole = read_sst(data, Budget(MB))
    for _ in range(600):
        at, harmed = rng.randrange(len(data)), bytearray(data)
        match rng.randrange(3):
            case 0:
                harmed[at] ^= 1 << rng.randrange(8)
            case 1:
                del harmed[at:]
            case _:
                harmed[at : at + 9] = rng.randbytes(9)
        try:
            assert read_sst(bytes(harmed), Budget(MB)) == whole  # in a part that is not read, the filter
        except ValueError as e:
            assert str(e)


def test_a_damaged_block_under_a_checksum_that_fits_is_a_clear_error() -> None:
    """As somebody would make it who wants the reader to fall."""
    rng = random.Random(3)
    whole = block([(b"key %d" % i + bytes([1, i, *bytes(6)]), b"value" * i) for i in range(1, 40)])
    for _ in range(1500):
        at, harmed = rng.randrange(len(whole)), bytearray(whole)
        harmed[at : at + rng.randrange(6)] = rng.choice([rng.randbytes(rng.randrange(8)), b"\xff" * 9, b"\x80" * 12])
        try:
            read_sst(sst([], bytes(harmed)), Budget(MB))
        except ValueError as e:
            assert str(e)


def test_what_a_table_takes_is_bounded() -> None:
    data = sst((i, Record(PUT, b"%d" % i, b"v" * 100)) for i in range(1000))
    assert len(read_sst(data, Budget(MB))) == 1000
    with pytest.raises(LimitExceeded, match="more than 100,000 bytes of memory"):
        read_sst(data, Budget(100_000))
