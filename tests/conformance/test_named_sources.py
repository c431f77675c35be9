"""`readStream.name`: a query goes on from its checkpoint with other sources than it had, on both engines and in turns.

What a query reads is the number of its start: `build` is called again after each restart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkTypeError, PySparkValueError, StreamingQueryException
from pyspark.sql import SparkSession

from minispark_stream import MiniSparkSession
from minispark_stream.tools.compare.prepared import confs_set
from tests.conformance.conftest import Compare

EVOLVE = {"spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"}
ENGINES = {"spark": lambda spark: spark, "model": MiniSparkSession}
ERROR = "STREAMING_QUERY_EVOLUTION_ERROR"


def read(session: Any, folder: Any, *names: str) -> Any:
    """The union of the named sources, each over the folder that its first letter names."""
    streams = [session.readStream.name(name).text(f"{folder}/{name[0]}") for name in names]
    whole = streams[0]
    for stream in streams[1:]:
        whole = whole.union(stream)
    return whole


def starts_with(*starts: Sequence[str]) -> Callable[[Any, Any], Any]:
    """A query that reads the sources `starts[n]` at its start number n; before that start, folder a has got n files."""

    def build(session: Any, folder: Any) -> Any:
        return read(session, folder, *starts[len(list(Path(str(folder), "a").glob("step-*")))])

    return build


def step(n: int) -> dict[str, list[str]]:
    return {folder: [f"{folder}{n}", "x"] for folder in "abc"}


SEVEN = [step(n) for n in range(7)]
CHANGES = starts_with("ab", "ba", "bac", "c", "ca", ["a_renamed", "c"], "bc")  # b comes back when it is long forgotten: as a new one


@pytest.mark.parametrize("relay", [("model",), ("model", "spark"), ("spark", "model")], ids="-".join)
def test_sources_are_reordered_added_removed_renamed_and_come_back(compare: Compare, relay: tuple[str, ...]) -> None:
    comparison = compare(CHANGES, SEVEN, restart_after=range(6), relay=relay, confs=EVOLVE)
    read_by_batch = [sorted(row[0] for row in batch.rows if row[0] != "x") for batch in comparison.model.batches]
    assert read_by_batch == [
        ["a0", "b0"], ["a1", "b1"], ["c0", "c1"], ["a2", "b2", "c2"], ["c3"], ["a3"], ["a4", "c4"],
        ["a0", "a1", "a2", "a3", "a4"], ["a5", "c5"], ["b0", "b1", "b2", "b3", "b4", "b5"], ["b6", "c6"],
    ]


@pytest.mark.parametrize("relay", [("model",), ("model", "spark"), ("spark", "model")], ids="-".join)
def test_state_goes_on_whatever_the_sources_are(compare: Compare, relay: tuple[str, ...]) -> None:
    build = starts_with("ab", "ba", "bac", "c")

    def counts(session: Any, folder: Any) -> Any:
        return build(session, folder).groupBy("value").count()

    comparison = compare(counts, SEVEN[:4], output_mode="complete", restart_after=range(3), relay=relay, confs=EVOLVE)
    assert ("x", 2 + 2 + 5 + 1) in comparison.model.batches[-1].rows


@pytest.mark.parametrize("relay", [("model",), ("model", "model", "spark"), ("spark", "spark", "model")], ids="-".join)
def test_a_batch_that_was_only_planned_runs_again_with_the_sources_that_are_left(
    compare: Compare, relay: tuple[str, ...]
) -> None:
    def lose_last_commit(checkpoint: str) -> None:
        for name in ("1", ".1.crc"):
            Path(checkpoint, "commits", name).unlink(missing_ok=True)

    comparison = compare(
        starts_with("ab", "ab", "bc"), SEVEN[:3], restart_after={0: lambda _: None, 1: lose_last_commit}, relay=relay,
        confs=EVOLVE,
    )
    again, new, _ = ({row[0] for row in batch.rows} - {"x"} for batch in comparison.model.batches[2:])
    assert again == {"b1"} and new == {"c0", "c1"}


def test_without_names_version_2_knows_sources_by_their_numbers(compare: Compare) -> None:
    def build(session: Any, folder: Any) -> Any:
        one = session.readStream.text(f"{folder}/a")
        return one.union(session.readStream.text(f"{folder}/b")).union(one)

    relay = ("model", "spark")
    compare(build, SEVEN[:3], restart_after=(0, 1), relay=relay, confs={"spark.sql.streaming.offsetLog.formatVersion": "2"})


# -- what is refused, and when ----------------------------------------------------------------------------------------


@pytest.fixture(params=ENGINES)
def session(spark: SparkSession, request: pytest.FixtureRequest) -> Any:
    return ENGINES[request.param](spark)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.txt").write_text(f"{name}0\n")
    return tmp_path


def named(session: Any, folder: Path, *names: str) -> Any:
    with confs_set(session, EVOLVE):
        return read(session, folder, *names)


def run(df: Any, checkpoint: Path, **confs: str) -> None:
    writer = df.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    with confs_set(df.sparkSession, confs):
        query = writer.start()
    query.awaitTermination()


def test_load_wants_a_name_or_none_as_the_conf_says(session: Any, folder: Path) -> None:
    path = f"{folder}/a"
    with pytest.raises(AnalysisException, match="Source name 'clicks' was provided but the feature is disabled") as e:
        session.readStream.name("clicks").text(path)
    assert e.value.getCondition() == f"{ERROR}.SOURCE_NAMING_NOT_SUPPORTED"
    with confs_set(session, EVOLVE):
        for stream, says in [("text", f"Leaf position 0 - FileSource[{path}]"), ("rate", "Leaf position 0 - rate")]:
            with pytest.raises(AnalysisException) as e:
                session.readStream.format(stream).load(*[path] * (stream == "text"))
            assert e.value.getCondition() == f"{ERROR}.UNNAMED_STREAMING_SOURCES_WITH_ENFORCEMENT" and says in str(e.value)


def test_names_are_made_of_letters_digits_and_underscores(session: Any) -> None:
    with confs_set(session, EVOLVE):
        for name in ("mySource", "my_source", "MySource123", "_private", "source_123_test", "123source", "0"):
            assert session.readStream.name(name).format("rate").load().isStreaming
    for name in ("", "  ", "my-source", "my source", "my.source", "my@source", "my$source", "my#source", "my!source", "../x"):
        with pytest.raises(PySparkValueError, match="INVALID_STREAMING_SOURCE_NAME"):
            session.readStream.name(name)
    with pytest.raises(AnalysisException) as e:
        session.readStream.name("line\n")
    assert e.value.getCondition() == f"{ERROR}.INVALID_SOURCE_NAME"
    for no_text in (None, 123, 45.67, ["clicks"]):
        with pytest.raises(PySparkTypeError):
            session.readStream.name(no_text)


def test_the_name_may_stand_anywhere_before_load_and_is_kept_by_the_query(session: Any, folder: Path) -> None:
    with confs_set(session, EVOLVE):
        first = session.readStream.name("my_source").format("text").option("maxFilesPerTrigger", "1").load(f"{folder}/a")
        last = session.readStream.format("json").schema("id LONG").name("json_source").load(f"{folder}/b")
    for df, name in [(first, "my_source"), (last, "json_source")]:
        run(df, folder / name, **EVOLVE)
        assert [path.name for path in (folder / name / "sources").iterdir()] == [name]
        version, _, offset = (folder / name / "offsets/0").read_text().split("\n")
        assert (version, offset) == ("v2", f'{name}:{{"logOffset":0}}')


def test_start_wants_each_name_once(session: Any, folder: Path) -> None:
    one = named(session, folder, "a")
    for df, says in [(named(session, folder, "b", "a", "b", "a"), "'a', 'b'"), (one.union(one), "'a'"), (one.join(one, "value"), "'a'")]:
        with pytest.raises(AnalysisException, match=f"Duplicate streaming source names detected: {says}\\.") as e:
            run(df, folder / "checkpoint")
        assert e.value.getCondition() == f"{ERROR}.DUPLICATE_SOURCE_NAMES"


def test_a_checkpoint_that_began_without_names_ends_the_query(session: Any, folder: Path) -> None:
    run(session.readStream.text(f"{folder}/a"), folder / "checkpoint")
    with pytest.raises(StreamingQueryException, match=f"{ERROR}.CANNOT_ENABLE_ON_EXISTING_CHECKPOINT"):
        run(named(session, folder, "a"), folder / "checkpoint", **EVOLVE)
    with pytest.raises(StreamingQueryException, match=re.escape("There are [1] sources in the checkpoint offsets and now there are [2]")):
        run(named(session, folder, "a", "b"), folder / "checkpoint", **EVOLVE)


def test_a_checkpoint_that_began_with_names_goes_on_with_them_whatever_the_conf_says(session: Any, folder: Path) -> None:
    run(named(session, folder, "a", "b"), folder / "checkpoint", **EVOLVE)
    (folder / "a/1.txt").write_text("a1")
    run(named(session, folder, "b", "a"), folder / "checkpoint")
    assert sorted((folder / "checkpoint/offsets/1").read_text().split("\n")[2:]) == ['a:{"logOffset":1}', 'b:{"logOffset":0}']
    with pytest.raises(StreamingQueryException, match="All sources should be named at this point"):
        run(session.readStream.text(f"{folder}/a"), folder / "checkpoint")


def test_with_the_conf_off_names_are_those_of_the_folders_alone(session: Any, folder: Path) -> None:
    run(named(session, folder, "b").union(session.readStream.text(f"{folder}/a")), folder / "checkpoint")
    assert (folder / "checkpoint/offsets/0").read_text().startswith("v1")
    assert sorted(path.name for path in (folder / "checkpoint/sources").iterdir()) == ["0", "b"]


def test_a_table_has_a_name_too(session: Any, folder: Path) -> None:
    session.sql(f"CREATE TABLE of_a (value STRING) USING text LOCATION '{folder}/a'")
    try:
        with confs_set(session, EVOLVE):
            run(session.readStream.name("clicks").table("of_a"), folder / "named", **EVOLVE)
            unnamed = session.readStream.table("of_a")
        with pytest.raises(StreamingQueryException, match="All sources should be named at this point"):
            run(unnamed, folder / "unnamed", **EVOLVE)
    finally:
        session.sql("DROP TABLE of_a")
    assert [path.name for path in (folder / "named/sources").iterdir()] == ["clicks"]
