"""transformWithState needs a state store with column families; on the default store both engines refuse it alike."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from minispark_stream import MiniSparkSession, inspect
from minispark_stream.tools.compare.prepared import confs_set
from tests.conformance.conftest import Compare

Build = Callable[[Any, str], DataFrame]
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Count(StatefulProcessor):
    """How many rows a user has had."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", "total long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N803
        yield pd.DataFrame({"user": [key[0]], "total": [sum(len(frame) for frame in rows)]})

    def close(self) -> None:
        pass


class CountRows(Count):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N803
        yield Row(user=key[0], total=sum(1 for _ in rows))


def in_pandas(session: Any, input_dir: str) -> DataFrame:
    users = session.readStream.schema("user string").json(input_dir).groupBy("user")
    return users.transformWithStateInPandas(Count(), "user string, total long", "update", "none")


def in_rows(session: Any, input_dir: str) -> DataFrame:
    users = session.readStream.schema("user string").json(input_dir).groupBy("user")
    return users.transformWithState(CountRows(), "user string, total long", "update", "none")


def refusal(session: Any, build: Build, folder: Path) -> tuple[str | None, str, bool]:
    """Condition, cause, and whether the batch was in the offset log when the query failed."""
    source, checkpoint = folder / "in", folder / type(session).__name__
    source.mkdir(exist_ok=True)
    (source / "0.json").write_text('{"user": "ann"}\n')
    writer = build(session, str(source)).writeStream.outputMode("update").format("noop")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException) as error:
        query.awaitTermination()
    cause = str(error.value).split("terminated with exception: ")[1].split("=== Streaming Query ===")[0]
    return error.value.getCondition(), cause.strip(), (checkpoint / "offsets" / "0").exists()


@pytest.mark.parametrize("build", [in_pandas, in_rows])
def test_the_default_state_store_is_refused(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, build: Build):
    pytest.importorskip("google.protobuf", reason="Spark's own workers for transformWithState want it")
    theirs, ours = (refusal(session, build, tmp_path) for session in (spark, mini))
    assert ours == theirs
    assert ours[0] == "STREAM_FAILED" and "[UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS]" in ours[1] and ours[2]


@pytest.mark.parametrize("build", [in_pandas, in_rows])
def test_the_model_refuses_the_default_state_store_as_spark_words_it(mini: MiniSparkSession, tmp_path: Path, build: Build):
    _, cause, logged = refusal(mini, build, tmp_path)
    assert "HDFSBackedStateStoreProvider is not supported by TransformWithState operator" in cause and logged
    assert not (tmp_path / "MiniSparkSession" / "state").exists()


class CountOnly(Count):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N803
        yield pd.DataFrame({"total": [sum(len(frame) for frame in rows)]})


class Keep(Count):
    """Has a variable of another type."""

    def __init__(self, schema: str):
        self.schema = schema

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", self.schema)


@pytest.mark.parametrize(("key", "schema", "cause"), [
    ("make_dt_interval(1)", "total long", "Unexpected type DayTimeIntervalType(0,3)"),
    ("user", "total interval year to month", "Unexpected type YearMonthIntervalType(0,1)"),
    ("struct(user, user)", "total long", "Duplicate field user in record"),
])
def test_what_avro_has_no_type_for_is_refused(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, key: str, schema: str, cause: str):
    pytest.importorskip("google.protobuf", reason="Spark's own workers for transformWithState want it")

    def build(session: Any, input_dir: str) -> DataFrame:
        users = session.readStream.schema("user string").json(input_dir).withColumn("key", F.expr(key)).groupBy("key")
        return users.transformWithStateInPandas(Keep(schema), "user string, total long", "update", "none")

    with confs_set(spark, {PROVIDER: ROCKS_DB}):
        theirs, ours = (refusal(session, build, tmp_path) for session in (spark, mini))
    assert ours == theirs and cause in ours[1]


def test_a_key_may_have_an_array_in_it(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path):
    """On the model alone: a worker of Spark 4.3.0 cannot read the schema of such a key."""
    pytest.importorskip("google.protobuf", reason="Spark's own workers for transformWithState want it")

    def build(session: Any, input_dir: str) -> DataFrame:
        users = session.readStream.schema("user string").json(input_dir).withColumn("key", F.array("user", F.lit(None))).groupBy("key")
        return users.transformWithStateInPandas(CountOnly(), "total long", "update", "none")

    with confs_set(spark, {PROVIDER: ROCKS_DB}):
        assert "KeyError: 'elementType'" in refusal(spark, build, tmp_path)[1]
        writer = build(mini, str(tmp_path / "in")).writeStream.outputMode("update").format("memory").queryName("totals")
        writer.trigger(availableNow=True).start().awaitTermination()
    assert [row.total for row in mini.table("totals").collect()] == [1]


def test_an_operator_beside_it_has_its_state_in_rocksdb(compare: Compare, tmp_path: Path):
    pytest.importorskip("google.protobuf", reason="Spark's own workers for transformWithState want it")

    def build(session: Any, input_dir: str) -> DataFrame:
        users = session.readStream.schema("user string").json(input_dir).groupBy("user")
        return users.transformWithStateInPandas(Count(), "user string, total long", "append", "none").dropDuplicates(["user"])

    feed = [[json.dumps({"user": user}) for user in users] for users in ("ab", "bc")]
    confs = {PROVIDER: ROCKS_DB, "spark.sql.shuffle.partitions": "2"}
    found = compare(build, feed, confs=confs, restart_after=[0], relay=("model", "spark"))
    assert len(found.model.batches) >= 2
    operators = {operator.name: operator.provider for operator in inspect(str(tmp_path / "checkpoint-model")).operators}
    assert operators == {"transformWithStateInPandasExec": "RocksDB", "dedupe": "RocksDB"}


def in_event_time(session: Any, input_dir: str) -> DataFrame:
    users = session.readStream.schema("user string, ts timestamp").json(input_dir).withWatermark("ts", "1 minute").groupBy("user")
    return users.transformWithStateInPandas(Count(), "user string, total long", "update", "eventtime")


def test_the_time_mode_of_a_checkpoint_cannot_change(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path):
    pytest.importorskip("google.protobuf", reason="Spark's own workers for transformWithState want it")
    (tmp_path / "in").mkdir()

    def run_both(session: Any) -> str:
        for i, build in enumerate((in_pandas, in_event_time)):
            (tmp_path / "in" / f"{type(session).__name__}{i}.json").write_text('{"user": "ann"}\n')
            writer = build(session, str(tmp_path / "in")).writeStream.outputMode("update").format("noop")
            query = writer.option("checkpointLocation", str(tmp_path / type(session).__name__)).trigger(availableNow=True).start()
            try:
                query.awaitTermination()
            except StreamingQueryException as e:
                return re.sub(r"(?s).*(\[STATE_STORE_INVALID_CONFIG_AFTER_RESTART\].*?SQLSTATE: \w+).*", r"\1", str(e))
        return "it goes on"

    with confs_set(spark, {PROVIDER: ROCKS_DB}):
        theirs, ours = run_both(spark), run_both(mini)
    assert ours == theirs and ours.startswith("[STATE_STORE_INVALID_CONFIG_AFTER_RESTART]")


class Misuses(Count):
    """Does what it should not do with its variable or its handle, catches the error, and asks for the variable again."""

    def __init__(self, misuse: Callable[[Any, Any], Any]):
        self.misuse = misuse

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.listed = handle.getListState("total", "total long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N803
        told = [name_of_error(lambda: self.misuse(self.handle, self.listed)), name_of_error(lambda: list(self.listed.get()))]
        yield pd.DataFrame({"user": [key[0]], "told": [" ".join(told)]})


def name_of_error(action: Callable[[], Any]) -> str:
    try:
        action()
    except Exception as e:
        return type(e).__name__
    return "fine"


MISUSES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "a row of two numbers": (lambda handle, total: total.appendValue((1, 2)), "BrokenPipeError: [Errno 32] Broken pipe"),
    "no rows": (lambda handle, total: total.put([]), "BrokenPipeError: [Errno 32] Broken pipe"),
    "a timer without a time mode": (lambda handle, total: handle.registerTimer(1), "BrokenPipeError: [Errno 32] Broken pipe"),
    "timers without a time mode": (lambda handle, total: list(handle.listTimers()), "BrokenPipeError: [Errno 32] Broken pipe"),
    "a variable after init": (lambda handle, total: handle.getValueState("late", "n long"), "BrokenPipeError: [Errno 32] Broken pipe"),
    "the variable once more": (lambda handle, total: handle.getListState("total", "total long"), "PySparkRuntimeError fine"),
    "a number for a row": (lambda handle, total: total.appendValue(3), "TypeError fine"),
    "a text for a time": (lambda handle, total: handle.registerTimer("soon"), "TypeError fine"),
    "a truth for a time to live": (lambda handle, total: handle.getValueState("late", "n long", True), "TypeError fine"),
    "no name for a variable": (lambda handle, total: handle.getValueState(None, "n long"), "TypeError fine"),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_a_processor_that_catches_what_went_wrong(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, misuse: str):
    """An error of the JVM ends its conversation with the processor; what Python refuses has never been sent."""
    pytest.importorskip("google.protobuf", reason="Spark's own workers for transformWithState want it")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text('{"user": "ann"}\n')
    action, outcome = MISUSES[misuse]

    def run(session: Any) -> str:
        users = session.readStream.schema("user string").json(f"{tmp_path}/in").groupBy("user")
        told = users.transformWithStateInPandas(Misuses(action), "user string, told string", "update", "none")
        query = told.writeStream.outputMode("update").format("memory").queryName(type(session).__name__).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as e:
            return str(e)
        return str(session.table(type(session).__name__).collect())

    with confs_set(spark, {PROVIDER: ROCKS_DB}):
        for session in (spark, mini):
            assert outcome in run(session)


def test_the_names_of_the_metrics(compare: Compare):
    """Of those that are not the store's; Spark's operator for Python has two times that it never measures."""
    pytest.importorskip("google.protobuf", reason="Spark's own workers for transformWithState want it")
    found = compare(in_pandas, [['{"user": "ann"}']], output_mode="update", confs={PROVIDER: ROCKS_DB})
    theirs, ours = (
        {name: n for name, n in run.batches[0].progress["stateOperators"][0]["customMetrics"].items() if not name.startswith(("rocksdb", "Snapshot"))}
        for run in (found.spark, found.model)
    )
    assert ours == theirs and {name for name in theirs if name.endswith("Ms")} == {"initialStateProcessingTimeMs", "timerProcessingTimeMs"}
