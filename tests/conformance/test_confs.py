"""Confs that are not honoured: what Spark refuses because of one is refused, and what has no effect changes no result."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from minispark_stream.engine.runtime.unsupported_confs import WITHOUT_EFFECT
from minispark_stream.tools.compare.prepared import confs_set
from tests.conformance.conftest import Compare
from tests.conformance.inputs import at

S = "spark.sql.streaming"
STORE = f"{S}.stateStore"
CHANGED = {  # each of them has another value than Spark's default
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    "spark.sql.connect.streaming.foreachBatch.useClonedSession": "false",
    "spark.sql.join.splitStreamedSideJoinCondition": "true",
    "spark.sql.pipelines.execution.streamstate.pollingInterval": "2000",
    f"{S}.asyncLogPurge.enabled": "false",
    f"{S}.metricsEnabled": "true",
    f"{S}.checkpoint.renamedFileCheck.enabled": "true",
    f"{S}.continuous.executorPollIntervalMs": "50",
    f"{S}.flatMapGroupsWithState.skipEmittingInitialStateKeys": "true",
    f"{S}.kafka.useDeprecatedOffsetFetching": "true",
    f"{S}.metadataCache.enabled": "false",
    f"{S}.noDataProgressEventInterval": "5000",
    f"{S}.optimizeOneRowPlan.enabled": "true",
    f"{S}.pollingDelay": "5ms",
    f"{S}.realTimeMode.transformWithState.ttlEvictionIntervalMs": "500",
    f"{STORE}.coordinatorReportSnapshotUploadLag": "false",
    f"{STORE}.fileChecksumThreadPoolSize": "2",
    f"{STORE}.forceSnapshotUploadOnLag": "false",
    f"{STORE}.maintenanceForceShutdownTimeout": "50000",
    f"{STORE}.maintenanceProcessingTimeout": "20000",
    f"{STORE}.maintenanceShutdownTimeout": "200000",
    f"{STORE}.maxLaggingStoresToReport": "2",
    f"{STORE}.maxNumStateSchemaFiles": "64",
    f"{STORE}.multiplierForMinTimeDiffToLog": "20",
    f"{STORE}.multiplierForMinVersionDiffToLog": "9",
    f"{STORE}.numStateStoreMaintenanceThreads": "3",
    f"{STORE}.rowChecksum.readVerificationRatio": "2",
    f"{STORE}.snapshotLagReportInterval": "100000",
    f"{STORE}.snapshotToCleanupThreadRatio": "0.4",
    f"{STORE}.valueStateSchemaEvolutionThreshold": "8",
}
WARNED = {  # the same, for those that a warning names
    f"{S}.checkpoint.fileChecksum.skipCreationIfFileMissingChecksum": "false",
    f"{S}.commitProtocolClass": "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol",
    f"{S}.disabledV2MicroBatchReaders": "a.b.C",
    f"{S}.ratioExtraSpaceAllowedInCheckpoint": "0.7",
    f"{STORE}.maxVersionsToDeletePerMaintenance": "3",
    f"{STORE}.unloadOnCommit": "true",
    f"{S}.statefulOperator.incrementalCleanupFactor": "2",
    f"{S}.triggerAvailableNowWrapper.enabled": "true",
    f"{S}.transformWithState.stateSchemaVersion": "2",
    f"{S}.useStreamlineAggregator": "true",
}
OF_ANOTHER_OPERATOR = (f"{S}.useStreamlineAggregator",)  # with which Spark's state has another layout
WHEN_SPARK_STARTS = (
    "spark.sql.defaultUrlStreamHandlerFactory.enabled", f"{S}.streamingQueryListeners", f"{S}.ui.enabled",
    f"{S}.ui.enabledCustomMetricList", f"{S}.ui.retainedProgressUpdates", f"{S}.ui.retainedQueries",
)
FEED = [at("12:02", "12:07"), at("12:14"), at("12:21", "12:04"), at("12:40"), at("12:05", "12:41")]


def windowed(session: Any, input_dir: str) -> Any:
    times = session.readStream.schema("ts timestamp, k string").json(input_dir)
    return times.withWatermark("ts", "10 minutes").groupBy(F.window("ts", "5 minutes")).count()


def test_confs_that_change_no_result(compare: Compare, spark: Any) -> None:
    """All at once: whatever one of them does in Spark, the batches, the logs and the state are those of the model."""
    with confs_set(spark, {conf: value for conf, value in (CHANGED | WARNED).items() if conf not in OF_ANOTHER_OPERATOR}):
        comparison = compare(windowed, FEED, restart_after=(2,))
    assert [len(batch.rows) for batch in comparison.model.batches if batch.rows]


def test_what_can_be_set_only_when_spark_starts(spark: Any) -> None:
    for conf in WHEN_SPARK_STARTS:
        with pytest.raises(AnalysisException) as e:
            spark.conf.set(conf, "x")
        assert str(e.value.getCondition()).startswith("CANNOT_MODIFY_"), conf


def test_what_has_one_value_only(spark: Any) -> None:
    with pytest.raises(IllegalArgumentException), confs_set(spark, {f"{S}.sessionWindow.stateFormatVersion": "2"}):
        pass


@pytest.fixture
def rows(tmp_path: Path) -> str:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a\n")
    return str(tmp_path / "in")


def refusal(session: Any, rows: str, checkpoint: Path, sink: str) -> tuple[str, str]:
    writer = session.readStream.text(rows).writeStream.format(sink).option("checkpointLocation", str(checkpoint))
    try:
        query = writer.start()
    except Exception as e:
        return type(e).__name__, str(e).partition(": ")[2].split("\n")[0] if "Py4J" in type(e).__name__ else str(e).split("\n")[0]
    query.stop()
    return "", ""


@pytest.mark.parametrize(
    ("confs", "sink", "told"),
    [
        ({f"{S}.queryEvolution.enableSinkEvolution": "true"}, "noop", "Streaming sink must be named"),
        ({f"{S}.queryEvolution.enableSinkEvolution": "true"}, "console", "Streaming sink must be named"),
        ({f"{S}.disabledV2Writers": "org.apache.spark.sql.execution.datasources.noop.NoopDataSource"}, "noop", "does not support streamed writing"),
        ({f"{S}.disabledV2Writers": "a.B,org.apache.spark.sql.execution.streaming.ConsoleSinkProvider"}, "console", "does not support streamed writing"),
        ({f"{S}.disabledV2Writers": "org.apache.spark.sql.execution.streaming.ConsoleSinkProvider"}, "noop", ""),
    ],
)
def test_what_spark_refuses_because_of_a_conf(spark: Any, tmp_path: Path, rows: str, confs: dict[str, str], sink: str, told: str) -> None:
    with confs_set(spark, confs):
        of_spark, of_model = (refusal(session, rows, tmp_path / name, sink) for name, session in (("s", spark), ("m", MiniSparkSession(spark))))
    assert of_model[0] == of_spark[0] and told in of_spark[1] and told in of_model[1], (of_spark, of_model)


def test_a_conf_without_an_effect_is_named(spark: Any, tmp_path: Path, rows: str, caplog: pytest.LogCaptureFixture) -> None:
    assert WITHOUT_EFFECT.keys() - WHEN_SPARK_STARTS == WARNED.keys()
    session = MiniSparkSession(spark)
    with confs_set(spark, WARNED), caplog.at_level(logging.WARNING, "minispark_stream"):
        assert refusal(session, rows, tmp_path / "with", "noop") == ("", "")
    said = [record.getMessage() for record in caplog.records if "has no effect" in record.getMessage()]
    assert sorted(line.split()[2] for line in said) == sorted(WARNED)
    caplog.clear()
    assert refusal(session, rows, tmp_path / "without", "noop") == ("", "")
    assert not [record for record in caplog.records if "has no effect" in record.getMessage()]
