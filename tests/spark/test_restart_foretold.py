"""What `inspect` says of a restart is what Spark does: whole and damaged checkpoints, and those of older versions of Spark."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from minispark_stream import inspect
from minispark_stream.tools.compare.prepared import confs_set
from minispark_stream.tools.inspection.contents import START, NextBatch
from tests.spark.checkpoint_damages import CANNOT_BE_TOLD, CASES, QUERIES, Query, put_file

Bases = Callable[[str], Path]


@dataclass(frozen=True)
class Seen:
    """What Spark did: the batches that it ran, and, if it was refused, when, with which condition and which message."""

    ran: list[int]
    refused: bool = False
    at_start: bool = False
    condition: str | None = None
    message: str = ""


def start(spark: SparkSession, query: Query, home: Path, confs: Mapping[str, str]) -> Any:
    writer = query.build(spark, home.parent / "in").writeStream.outputMode(query.mode).format(query.sink)
    trigger: dict[str, Any] = {"processingTime": "0 seconds"} if is_endless(query) else {"availableNow": True}
    return writer.option("checkpointLocation", str(home / "cp")).trigger(**trigger).start(str(home / "out") if query.sink == "json" else None)


def is_endless(query: Query) -> bool:
    """A source that has data at any time, and that does not support availableNow."""
    return query is QUERIES["rate"]


def seen(spark: SparkSession, query: Query, home: Path) -> Seen:
    """Restart the query, and let it run until it has read all or fails."""
    with confs_set(spark, query.confs):
        try:
            run = start(spark, query, home, query.confs)
        except Exception as e:  # Py4JJavaError, too
            condition = e.getCondition() if hasattr(e, "getCondition") else None
            return Seen([], True, True, condition, str(e))
        error = None
        try:
            if is_endless(query):
                wait_until(lambda: not run.isActive or batches(run) != [])
                run.stop()
                error = run.exception()
            else:
                assert run.awaitTermination(60), "it does not end"
        except Exception as e:
            error = e
    if error is None:
        return Seen(batches(run))
    said = re.search(r"terminated with exception: (?:\[([A-Z_.0-9]+)\])?", str(error))
    return Seen(batches(run), True, False, said[1] if said else None, str(error))


def batches(run: Any) -> list[int]:
    return [progress["batchId"] for p in run.recentProgress if "addBatch" in (progress := json.loads(p.json))["durationMs"]]


def wait_until(happens: Callable[[], bool]) -> None:
    import time

    end = time.monotonic() + 30
    while not happens() and time.monotonic() < end:
        time.sleep(0.02)


@pytest.fixture(scope="module")
def bases(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bases]:
    """Checkpoints of real Spark, each made when it is asked for first, with one more file to read since then."""
    made: dict[str, Path] = {}

    def base(kind: str) -> Path:
        if kind not in made:
            home = made[kind] = tmp_path_factory.mktemp(kind.replace(" ", "_")) / "base"
            query = QUERIES[kind]
            for i in range(query.batches):
                put_file(home.parent / "in", i)
            with confs_set(spark, query.confs):
                run = start(spark, query, home, query.confs)
                if is_endless(query):
                    wait_until(lambda: (home / f"cp/commits/{query.batches - 1}").exists())
                    run.stop()
                    for path in [*(home / "cp").glob("offsets/*"), *(home / "cp").glob("commits/*"), *(home / "cp").glob("*/.*.crc")]:
                        if int(re.sub(r"\D", "", path.name) or 0) >= query.batches:
                            path.unlink(missing_ok=True)  # Spark removes its own meanwhile
                else:
                    assert run.awaitTermination(60)
            put_file(home.parent / "in", query.batches)
        return made[kind]

    yield base


@contextmanager
def damaged(base: Path, kind: str, case: str, tmp_path: Path) -> Iterator[Path]:
    """A copy with a damage, beside the base, because the log of the source names its input."""
    home = base.parent / "damaged"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(base, home, symlinks=True)
    CASES[kind][case](home / "cp")
    yield home
    shutil.rmtree(home)


@pytest.mark.parametrize(("kind", "case"), [(kind, case) for kind, cases in CASES.items() for case in cases])
@pytest.mark.usefixtures("spark_files")
def test_foretold_is_what_spark_does(kind: str, case: str, spark: SparkSession, bases: Bases, tmp_path: Path) -> None:
    spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()  # type: ignore[union-attr]  # nothing is in memory
    with damaged(bases(kind), kind, case, tmp_path) as home:
        report = inspect(str(home / "cp"))
        by_spark = seen(spark, QUERIES[kind], home)
    if (kind, case) in CANNOT_BE_TOLD:
        assert report.next.unknown is not None and report.exit_code == 3
        return
    assert told(report.next, by_spark) == by_spark
    assert (report.exit_code == 1) is by_spark.refused


def told(upcoming: NextBatch, by_spark: Seen) -> Seen:
    """What was told, in the form of what was seen; where nothing was told about words, they are those that were seen."""
    refused = upcoming.refused
    assert upcoming.unknown is None
    if refused is None:
        assert by_spark.ran[:1] == [upcoming.batch_id], "another batch, or none"
        return Seen(by_spark.ran)
    knows_words = bool(refused.condition or refused.message)
    condition = refused.condition if knows_words else by_spark.condition
    message = by_spark.message if refused.message in by_spark.message else refused.message
    return Seen(by_spark.ran, True, refused.when == START, condition, message)
