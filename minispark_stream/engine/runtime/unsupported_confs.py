"""Confs of Spark that change something there and nothing here: whoever sets one is told so.

Models: the conf entries of SQLConf (in no document).

1. Where Spark refuses a query because of such a conf, it is refused here, too.
2. Otherwise, the query runs, and a warning names the conf and says what happens instead.

    spark.sql.streaming.commitProtocolClass = a.b.C    WARNING ... has no effect in minispark_stream: the file sink always ...

docs/confs.md lists all confs of streams.

Differs from Spark: (2).
Shown by tests/conformance/test_confs.py::test_a_conf_without_an_effect_is_named.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.jvm.contract import ENGINE
from minispark_stream.engine.jvm.errors import spark_error, spark_exception

logger = logging.getLogger(__name__)

_V2_ONLY = {"console": ENGINE["ConsoleSinkProvider"], "noop": ENGINE["NoopDataSource"]}
WITHOUT_EFFECT: Mapping[str, str] = {  # (2)
    "spark.sql.streaming.commitProtocolClass": "the file sink always commits with its manifest",
    "spark.sql.streaming.disabledV2MicroBatchReaders": "each source has one implementation only",
    "spark.sql.streaming.streamingQueryListeners": "add a listener with streams.addListener",
    "spark.sql.streaming.stateStore.unloadOnCommit": "stores stay loaded",
    "spark.sql.streaming.statefulOperator.incrementalCleanupFactor": "state is evicted at the end of each batch",
    "spark.sql.streaming.stateStore.maxVersionsToDeletePerMaintenance": "maintenance deletes all versions that are too old",
    "spark.sql.streaming.ratioExtraSpaceAllowedInCheckpoint": "maintenance deletes a version as soon as it is too old",
    "spark.sql.streaming.checkpoint.fileChecksum.skipCreationIfFileMissingChecksum": "what is written again gets a checksum",
    "spark.sql.streaming.transformWithState.stateSchemaVersion": "schemas are written in version 3",
    "spark.sql.streaming.useStreamlineAggregator": "an aggregation emits at the end of its batch",
    "spark.sql.streaming.triggerAvailableNowWrapper.enabled": "a source that does not know where to stop is run as one batch",
}


def check_confs(session: SparkSession) -> None:
    """Raises JavaError (SparkException) if every sink must have a name, for which PySpark has no method."""
    if sessions.flag(session, "spark.sql.streaming.queryEvolution.enableSinkEvolution"):  # (1)
        raise spark_exception(session, "STREAMING_QUERY_EVOLUTION_ERROR.UNNAMED_STREAMING_SINKS_WITH_ENFORCEMENT")
    for conf, instead in WITHOUT_EFFECT.items():
        if session.conf.get(conf, None) is not None:
            logger.warning("The conf %s has no effect in minispark_stream: %s.", conf, instead)


def check_sink_is_not_disabled(session: SparkSession, name: str) -> None:
    """Raises UnsupportedOperationException if `disabledV2Writers` has a sink which has no other version in Spark."""
    disabled = sessions.conf(session, "spark.sql.streaming.disabledV2Writers") or ""
    if _V2_ONLY.get(name) in disabled.split(","):
        raise spark_error(
            session, UnsupportedOperationException, "_LEGACY_ERROR_TEMP_2049", className=name, operator="writing"
        )
