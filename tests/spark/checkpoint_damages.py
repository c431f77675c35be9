"""What can happen to the files of a checkpoint: `CASES[kind]` has, for each kind of query, damages by their names.

A damage is a function that changes the files in a folder. Each belongs to the query of `QUERIES[kind]`, which ran for a number of
batches, from 0 to n - 1.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_records import records
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId

Damage = Callable[[Path], object]

STATE = "spark.sql.streaming.stateStore"
ROCKSDB = {f"{STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
CHANGELOGS = {**ROCKSDB, f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true"}
FORMAT_2 = {**CHANGELOGS, f"{STATE}.checkpointFormatVersion": "2"}
COMPACTED = {f"spark.sql.streaming.{log}.log.compactInterval": "2" for log in ("fileSource", "fileSink")}


@dataclass(frozen=True)
class Query:
    """A query over the files of a folder (`build` takes a session and the folder), which has run `batches` batches."""

    build: Callable[[Any, Path], Any]
    mode: str = "update"
    confs: Mapping[str, str] = field(default_factory=dict)
    batches: int = 4
    sink: str = "noop"


def lines(session: Any, folder: Path) -> Any:
    return session.readStream.option("maxFilesPerTrigger", 1).text(str(folder))


def count(session: Any, folder: Path) -> Any:
    return lines(session, folder).groupBy("value").count()


def join(session: Any, folder: Path) -> Any:
    other = lines(session, folder).withColumnRenamed("value", "other")
    return lines(session, folder).join(other, F.expr("value = other"))


def windows(session: Any, folder: Path) -> Any:
    seconds = F.lit(1_700_000_000) + F.crc32("value") % 100_000
    events = lines(session, folder).select(F.timestamp_seconds(seconds).alias("ts"))
    return events.withWatermark("ts", "10 seconds").groupBy(F.window("ts", "1 minute")).count()


def rate(session: Any, folder: Path) -> Any:
    stream = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 2)
    return stream.option("startTimestamp", 1_700_000_000_000).load()


QUERIES = {
    "count": Query(count),
    "zips": Query(count, confs=ROCKSDB),
    "changelogs": Query(count, confs=CHANGELOGS),
    "format 2": Query(count, confs=FORMAT_2),
    "join": Query(join, "append", batches=3),
    "join in families": Query(join, "append", {**CHANGELOGS, "spark.sql.streaming.join.stateFormatVersion": "3"}, 3),
    "total": Query(lambda session, folder: lines(session, folder).groupBy().count(), batches=3),
    "limit": Query(lambda session, folder: lines(session, folder).limit(4), "append", batches=3),
    "windows": Query(windows, "append", batches=3),
    "compacted": Query(lines, "append", COMPACTED, 6),
    "file sink": Query(lines, "append", COMPACTED, 5, "json"),
    "rate": Query(rate, "append", batches=3),
}


def put_file(folder: Path, i: int) -> None:
    """The i-th input file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{i}.txt").write_text(f"k{i % 3}\nall\nx{i}")
    os.utime(folder / f"{i}.txt", (1_700_000_000 + i,) * 2)


# -- damages ---------------------------------------------------------------------------------------------------


def gone(*names: str) -> Damage:
    """Files, with their checksums, or folders were deleted."""

    def damage(checkpoint: Path) -> None:
        for name in names:
            path = checkpoint / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
                (path.parent / f".{path.name}.crc").unlink(missing_ok=True)

    return damage


def changed(name: str, change: Callable[[bytes], bytes]) -> Damage:
    """A file has another content, without a checksum."""

    def damage(checkpoint: Path) -> None:
        path = checkpoint / name
        before = path.read_bytes() if path.exists() else b""
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(change(before))

    return damage


def cut(name: str) -> Damage:
    return changed(name, lambda data: data[: len(data) // 2])


def cut_beside_its_checksum(name: str) -> Damage:
    def damage(checkpoint: Path) -> None:
        path = checkpoint / name
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return damage


def flipped(name: str) -> Damage:
    def flip(data: bytes) -> bytes:
        middle = len(data) // 2
        return data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]

    return changed(name, flip)


def written(name: str, text: str = "") -> Damage:
    return changed(name, lambda data: text.encode())


def replaced(name: str, old: str, new: str) -> Damage:
    return changed(name, lambda data: re.sub(old.encode(), new.encode(), data))


def offset(batch_id: int, text: str, *more: str) -> Damage:
    """Other offsets of the sources."""
    return changed(f"offsets/{batch_id}", lambda data: "\n".join([*data.decode().split("\n")[:2], text, *more]).encode())


def folder(name: str) -> Damage:
    """A folder is in the place of a file."""

    def damage(checkpoint: Path) -> None:
        if (checkpoint / name).exists():
            gone(name)(checkpoint)
        (checkpoint / name).mkdir(parents=True)

    return damage


def file(name: str) -> Damage:
    """A file is in the place of a folder."""

    def damage(checkpoint: Path) -> None:
        gone(name)(checkpoint)
        (checkpoint / name).write_text("x")

    return damage


def linked(name: str) -> Damage:
    def damage(checkpoint: Path) -> None:
        elsewhere = checkpoint.parent / f"elsewhere-{Path(name).name}"
        (checkpoint / name).rename(elsewhere)
        (checkpoint / name).symlink_to(elsewhere)

    return damage


def copied(name: str, to: str) -> Damage:
    return lambda checkpoint: shutil.copy(checkpoint / name, checkpoint / to)


def each(pattern: str, damage_of: Callable[..., Damage]) -> Damage:
    """The damage of every file of a pattern."""

    def damage(checkpoint: Path) -> None:
        names = [p.relative_to(checkpoint).as_posix() for p in sorted(checkpoint.glob(pattern)) if not p.name.startswith(".")]
        assert names, pattern
        for name in names:
            damage_of(name)(checkpoint)

    return damage


def both(*damages: Damage) -> Damage:
    return lambda checkpoint: [damage(checkpoint) for damage in damages]


def snapshot_of(version: int) -> Damage:
    """Maintenance has written a snapshot of partition 0."""

    def damage(checkpoint: Path) -> None:
        files = StateFiles(StateStoreId(str(checkpoint / "state"), 0, 0, "default"), StateStoreConf())
        rows: dict[bytes, bytes | None] = {}
        for one in range(1, version + 1):
            rows |= dict(records(files.read_delta(one)))
        files.write_snapshot(version, list(rows), [value or b"" for value in rows.values()])

    return damage


def nothing(checkpoint: Path) -> None:
    """The checkpoint is as Spark left it."""


FILE_OFFSET = '{{"logOffset":{}}}'
PARTITIONS = '"spark.sql.shuffle.partitions":"2"'

OF_LOGS: dict[str, Damage] = {
    "nothing": nothing,
    "metadata gone": gone("metadata"),
    "metadata empty": written("metadata"),
    "metadata without an id": written("metadata", '{"x":1}'),
    "metadata with another id": written("metadata", '{"id":"5b2f6f2e-0000-0000-0000-000000000000"}'),
    "metadata with an id that is no UUID": written("metadata", '{"id":"5"}'),
    "metadata is no JSON": written("metadata", "abc"),
    "metadata is a folder": folder("metadata"),
    "newest commit gone": gone("commits/3"),
    "newest offset gone": gone("offsets/3"),
    "newest offset and commit gone": gone("offsets/3", "commits/3"),
    "offset before gone": gone("offsets/2"),
    "offset before and newest commit gone": gone("offsets/2", "commits/3"),
    "offset before and all commits gone": gone("offsets/2", "commits"),
    "older offset gone": gone("offsets/1"),
    "older commit gone": gone("commits/2"),
    "two commits gone": gone("commits/2", "commits/3"),
    "commits gone": gone("commits"),
    "offsets gone": gone("offsets"),
    "both logs gone": gone("offsets", "commits"),
    "all but metadata gone": gone("offsets", "commits", "sources", "state"),
    "offset cut": cut("offsets/3"),
    "offset cut, checksum kept": cut_beside_its_checksum("offsets/3"),
    "offset empty": written("offsets/3"),
    "offset before empty": written("offsets/2"),
    "older offset empty": written("offsets/1"),
    "offset of a newer version": replaced("offsets/3", "v1", "v3"),
    "offset without a version": replaced("offsets/3", "v1\n", ""),
    "offset of a version alone": written("offsets/3", "v1"),
    "offset without sources": changed("offsets/3", lambda data: b"\n".join(data.split(b"\n")[:2])),
    "offset of two sources": offset(3, FILE_OFFSET.format(3), FILE_OFFSET.format(3)),
    "offset without metadata": changed("offsets/3", lambda data: b"v1\n\n" + data.split(b"\n")[-1]),
    "no offset of the source": offset(3, "-"),
    "offset is no JSON": offset(3, "[[[["),
    "offset is no JSON, run again": both(offset(3, "[[[["), gone("commits/3")),
    "offset before is no JSON": offset(2, "[[[["),
    "older offset is no JSON": offset(1, "[[[["),
    "offset of 6,000 digits": offset(3, "9" * 6000),
    "offset is a number": offset(3, "3"),
    "offset is a text": offset(3, '{"logOffset":"3"}'),
    "offset is a float": offset(3, '{"logOffset":3.0}'),
    "offset is null": offset(3, "null"),
    "offset is Kafka's": offset(3, '{"t":{"0":3}}'),
    "offset beyond the log": offset(3, FILE_OFFSET.format(9)),
    "offset goes back": offset(3, FILE_OFFSET.format(1)),
    "offset is that of the batch before": offset(3, FILE_OFFSET.format(2)),
    "offset is negative": offset(3, FILE_OFFSET.format(-1)),
    "offset ends with a line": changed("offsets/3", lambda data: data + b"\n"),
    "offset with CRLF": changed("offsets/3", lambda data: data.replace(b"\n", b"\r\n")),
    "offset with a mark of its byte order": changed("offsets/3", lambda data: b"\xef\xbb\xbf" + data),
    "offset is not UTF-8": changed("offsets/3", lambda data: data + b"\xff"),
    "offset is a folder": folder("offsets/3"),
    "next offset is a folder": folder("offsets/4"),
    "commit is a folder": folder("commits/3"),
    "next commit is a folder": folder("commits/4"),
    "commit empty": written("commits/3"),
    "commit cut": cut("commits/3"),
    "commit of a version alone": written("commits/3", "v1"),
    "commit of a newer version": replaced("commits/3", "v1", "v9"),
    "commit with text behind it": changed("commits/3", lambda data: data + b" garbage"),
    "commit of format 2": replaced("commits/3", "v1", "v2"),
    "older commit empty": written("commits/2"),
    "commit ahead": copied("commits/3", "commits/5"),
    "offset 010": copied("offsets/3", "offsets/010"),
    "commit 007": copied("commits/3", "commits/007"),
    "offset 02": copied("offsets/2", "offsets/02"),
    "offset 3.bak": copied("offsets/3", "offsets/3.bak"),
    "temporary file": written("offsets/.4.1b.tmp"),
    "offset without its commit": copied("offsets/3", "offsets/4"),
    "offset ahead": copied("offsets/3", "offsets/5"),
    "offsets linked": linked("offsets"),
    "offsets is a file": file("offsets"),
    "commits is a file": file("commits"),
    "watermark is a text": replaced("offsets/3", '"batchWatermarkMs":0', '"batchWatermarkMs":"x"'),
    "no confs": replaced("offsets/3", '"conf":{.*}', '"conf":{}'),
    "more partitions": replaced("offsets/3", PARTITIONS, PARTITIONS.replace("2", "4")),
    "more partitions, run again": both(replaced("offsets/3", PARTITIONS, PARTITIONS.replace("2", "4")), gone("commits/3")),
    "fewer partitions": replaced("offsets/3", PARTITIONS, PARTITIONS.replace("2", "1")),
    "partitions are a text": replaced("offsets/3", PARTITIONS, PARTITIONS.replace("2", "x")),
    "no partitions": replaced("offsets/3", PARTITIONS, PARTITIONS.replace("2", "0")),
    "another aggregation": replaced("offsets/3", 'aggregation.stateFormatVersion":"2', 'aggregation.stateFormatVersion":"1'),
    "unknown aggregation": replaced("offsets/3", 'aggregation.stateFormatVersion":"2', 'aggregation.stateFormatVersion":"3'),
    "unknown policy": replaced("offsets/3", 'Policy":"min"', 'Policy":"x"'),
    "checksums are a text": replaced("offsets/3", 'rowChecksum.enabled":"false"', 'rowChecksum.enabled":"x"'),
    "another provider": replaced("offsets/3", "HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"),
    "another codec": replaced("offsets/3", 'codec":"lz4"', 'codec":"zstd"'),
    "sources gone": gone("sources"),
    "newest source entry gone": gone("sources/0/3"),
    "newest source entry gone, run again": gone("sources/0/3", "commits/3"),
    "older source entry gone": gone("sources/0/1"),
    "oldest source entry gone": gone("sources/0/0"),
    "source entry empty": written("sources/0/3"),
    "source entry is no JSON": written("sources/0/1", "v1\n["),
    "source entry of a newer version": replaced("sources/0/3", "v1", "v2"),
    "source entry without a path": written("sources/0/3", 'v1\n{"x":1}'),
    "source entry without its batch": replaced("sources/0/3", ',"batchId":[0-9]+', ""),
    "source entry of a version alone": written("sources/0/3", "v1"),
    "source entry is a folder": folder("sources/0/3"),
    "next source entry is a folder": folder("sources/0/4"),
    "source entry +9": copied("sources/0/3", "sources/0/+9"),
}
OF_STATE: dict[str, Damage] = {
    "state/0 gone": gone("state/0"),
    "state is a file": file("state"),
    "partition 0 gone": gone("state/0/0"),
    "partition 1 gone": gone("state/0/1"),
    "another partition": lambda checkpoint: shutil.copytree(checkpoint / "state/0/1", checkpoint / "state/0/2"),
    "another operator": lambda checkpoint: shutil.copytree(checkpoint / "state/0", checkpoint / "state/1"),
    "operator 1 alone": lambda checkpoint: (checkpoint / "state/0").rename(checkpoint / "state/1"),
    "operator metadata gone": gone("state/0/_metadata"),
    "operator metadata cut": cut("state/0/_metadata/metadata"),
    "schema gone": gone("state/0/0/_metadata"),
    "schema cut": cut("state/0/0/_metadata/schema"),
    "schema of a newer version": replaced("state/0/0/_metadata/schema", "v2", "v9"),
    "schema is a folder": folder("state/0/0/_metadata/schema"),
    "newest delta gone": gone("state/0/0/4.delta"),
    "older delta gone": gone("state/0/1/2.delta"),
    "newest delta gone, run again": gone("state/0/0/4.delta", "commits/3"),
    "older delta gone, run again": gone("state/0/0/3.delta", "commits/3"),
    "newest delta cut": cut("state/0/0/4.delta"),
    "newest delta cut, checksum kept": cut_beside_its_checksum("state/0/0/4.delta"),
    "newest delta flipped": flipped("state/0/0/4.delta"),
    "newest delta empty": written("state/0/0/4.delta"),
    "delta is a folder": folder("state/0/0/4.delta"),
    "delta ahead": copied("state/0/0/4.delta", "state/0/0/5.delta"),
    "snapshot is garbage": written("state/0/0/3.snapshot", "x"),
    "snapshot, and no delta before it": both(snapshot_of(3), gone("state/0/0/1.delta", "state/0/0/2.delta")),
    "snapshot cut, and no delta before it": both(snapshot_of(3), cut("state/0/0/3.snapshot"), gone("state/0/0/1.delta")),
}
OF_ZIPS: dict[str, Damage] = {
    "nothing": nothing,
    "newest commit gone": gone("commits/3"),
    "newest zip gone": gone("state/0/0/4.zip"),
    "older zip gone": gone("state/0/0/2.zip"),
    "newest zip cut": cut("state/0/0/4.zip"),
    "newest zip empty": written("state/0/0/4.zip"),
    "all zips gone": each("state/0/0/*.zip", gone),
    "tables gone": gone("state/0/0/SSTs"),
    "tables cut": each("state/0/0/SSTs/*.sst", cut),
    "tables flipped": each("state/0/0/SSTs/*.sst", flipped),
    "partition 1 gone": gone("state/0/1"),
    "operator metadata gone": gone("state/0/_metadata"),
    "schema gone": gone("state/0/0/_metadata"),
}
OF_CHANGELOGS: dict[str, Damage] = {
    "nothing": nothing,
    "newest commit gone": gone("commits/3"),
    "newest changelog gone": gone("state/0/0/4.changelog"),
    "middle changelog gone": gone("state/0/0/3.changelog"),
    "newest changelog cut": cut("state/0/0/4.changelog"),
    "newest changelog empty": written("state/0/0/4.changelog"),
    "newest changelog is garbage": written("state/0/0/4.changelog", "garbage"),
    "partition 1 gone": gone("state/0/1"),
}
OF_FORMAT_2: dict[str, Damage] = {
    "nothing": nothing,
    "newest commit gone": gone("commits/3"),
    "commits gone": gone("commits"),
    "two commits gone": gone("commits/2", "commits/3"),
    "newest offset and commit gone": gone("offsets/3", "commits/3"),
    "newest changelog gone": each("state/0/0/4_*.changelog", gone),
    "middle changelog gone": each("state/0/0/3_*.changelog", gone),
    "newest changelog cut": each("state/0/0/4_*.changelog", cut),
    "commit names other files": replaced("commits/3", "[0-9a-f]{8}-", "00000000-"),
    "commit names no files": written("commits/3", 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}'),
    "commit of format 1": written("commits/3", 'v1\n{"nextBatchWatermarkMs":0}'),
    "state gone": gone("state"),
    "partition 1 gone": gone("state/0/1"),
}
JOIN_FORMAT = 'join.stateFormatVersion":"2"'
CASES: dict[str, dict[str, Damage]] = {
    "count": {**OF_LOGS, **OF_STATE},
    "zips": OF_ZIPS,
    "changelogs": OF_CHANGELOGS,
    "format 2": OF_FORMAT_2,
    "join": {
        "nothing": nothing,
        "newest commit gone": gone("commits/2"),
        "a store of a partition gone": gone("state/0/0/left-keyToNumValues"),
        "newest delta of a store gone": gone("state/0/1/right-keyWithIndexToValue/3.delta"),
        "log of a source gone": gone("sources/1"),
        "offset of one source": offset(2, FILE_OFFSET.format(2)),
        "no offset of one source": offset(2, FILE_OFFSET.format(2), "-"),
        "another format": replaced("offsets/2", JOIN_FORMAT, JOIN_FORMAT.replace("2", "1")),
        "unknown format": replaced("offsets/2", JOIN_FORMAT, JOIN_FORMAT.replace("2", "7")),
    },
    "join in families": {
        "nothing": nothing,
        "newest commit gone": gone("commits/2"),
        "newest changelog gone": gone("state/0/0/3.changelog"),
        "operator metadata gone": gone("state/0/_metadata"),
        "operator metadata cut": each("state/0/_metadata/v2/*", cut),
        "partition 1 gone": gone("state/0/1"),
    },
    "total": {"nothing": nothing, "partition 0 gone": gone("state/0/0"), "newest delta gone": gone("state/0/0/3.delta"),
              "schema and metadata gone": gone("state/0/_metadata", "state/0/0/_metadata")},
    "limit": {"nothing": nothing, "partition 0 gone": gone("state/0/0")},
    "windows": {"nothing": nothing, "newest commit gone": gone("commits/3"), "state gone": gone("state")},
    "compacted": {
        "nothing": nothing,
        "newest commit gone": gone("commits/5"),
        "newest compact file gone": gone("sources/0/5.compact"),
        "newest compact file gone, run again": gone("sources/0/5.compact", "commits/5"),
        "compact file before gone": gone("sources/0/3.compact"),
        "oldest compact file gone": gone("sources/0/1.compact"),
        "plain files gone": gone("sources/0/2", "sources/0/4"),
        "newest compact file cut": cut("sources/0/5.compact"),
        "older compact file cut": cut("sources/0/3.compact"),
        "sources gone": gone("sources"),
    },
    "file sink": {"nothing": nothing, "newest commit gone": gone("commits/4")},
    "rate": {
        "nothing": nothing,
        "newest commit gone": gone("commits/2"),
        "offset is no JSON": offset(2, "[[["),
        "offset is that of files": offset(2, FILE_OFFSET.format(2)),
        "offset is a number": offset(2, "2"),
        "offset before is no JSON": offset(1, "[[["),
        "offset before is no JSON, run again": both(offset(1, "[[["), gone("commits/2")),
    },
}
# Spark goes on, or not; `inspect` follows no links.
CANNOT_BE_TOLD = {("count", "offsets linked")}
