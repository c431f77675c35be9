"""The measurements that are exported, by name: Spark's own six gauges, and what they lack.

Each has labels: those of its query, and at most two of a source, an operator, a phase or a condition. None of them is a value
from the data, so the number of time series does not grow with it.

    inputRate-total         spark.streaming.inputRate-total (OpenTelemetry)    spark_streaming_inputRate_total (Prometheus)
    watermark_lag_seconds   spark.streaming.watermark_lag_seconds              spark_streaming_watermark_lag_seconds

Models: MetricsReporter, for the names and the values of the first six.

Differs from Spark: nothing in these six, except that they end with the query, and that each is one family with a label, where
Spark has one gauge for each name of a query.
Shown by tests/spark/test_monitoring.py::test_the_six_gauges_are_those_of_spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PREFIX = "spark.streaming."
OF_QUERY = ("query", "query_id")
OF_CHECKPOINT = ("checkpoint",)


@dataclass(frozen=True)
class MetricFamily:
    """A measurement. A counter never goes down; its name in Prometheus ends with `_total`."""

    name: str
    says: str
    labels: tuple[str, ...] = ()
    is_counter: bool = False

    @property
    def in_prometheus(self) -> str:
        """The name as Spark's own PrometheusServlet would spell it, without the `_total` of a counter."""
        return re.sub("[^a-zA-Z0-9_]", "_", PREFIX + self.name)


@dataclass(frozen=True)
class Sample:
    """A number of a family, with the values of its labels."""

    name: str
    value: float
    labels: tuple[str, ...] = ()


def _by_name(families: Sequence[MetricFamily]) -> Mapping[str, MetricFamily]:
    return {family.name: family for family in families}


SPARKS_OWN = (
    "inputRate-total", "processingRate-total", "latency", "eventTime-watermark", "states-rowsTotal", "states-usedBytes",
)
FAMILIES = _by_name([  # of a running query, from its reports; each has the labels OF_QUERY before its own
    MetricFamily("inputRate-total", "Rows per second that arrived, in the last trigger"),
    MetricFamily("processingRate-total", "Rows per second that were processed, in the last trigger"),
    MetricFamily("latency", "Milliseconds that the last trigger took"),
    MetricFamily("eventTime-watermark", "The watermark, in milliseconds since 1970; 0 if there is none"),
    MetricFamily("states-rowsTotal", "Rows in the state of all operators"),
    MetricFamily("states-usedBytes", "Memory of the state of all operators, in bytes"),
    MetricFamily("active", "1 while the query runs, 0 when it has ended"),
    MetricFamily("ended", "1 if the query has ended, with the condition of its error; none if it was stopped", ("condition",)),
    MetricFamily("batch_id", "The number of the last batch"),
    MetricFamily("last_report_timestamp_seconds", "When the query was last heard of, in seconds since 1970"),
    MetricFamily("last_commit_timestamp_seconds", "When a batch was last committed, in seconds since 1970"),
    MetricFamily("watermark_lag_seconds", "How far the watermark is behind the time of the trigger"),
    MetricFamily("phase_seconds", "How long a phase of the last trigger took", ("phase",)),
    MetricFamily("source_lag", "Records between what was read and the newest, as of the last report", ("source",)),
    MetricFamily("source_metric", "What a source says about itself", ("source", "metric")),
    MetricFamily("state_rows", "Rows in the state of an operator", ("operator", "name")),
    MetricFamily("state_memory_bytes", "Memory of the state of an operator, in bytes", ("operator", "name")),
    MetricFamily("batches", "Batches that were run", is_counter=True),
    MetricFamily("source_rows", "Rows that were read from a source", ("source",), is_counter=True),
    MetricFamily("sink_rows", "Rows that the sink has written, if it counts them", is_counter=True),
    MetricFamily("state_rows_updated", "Rows of the state that were added or changed", ("operator", "name"), is_counter=True),
    MetricFamily("state_rows_removed", "Rows of the state that were removed", ("operator", "name"), is_counter=True),
    MetricFamily("rows_dropped_by_watermark", "Rows that came too late for an operator", ("operator", "name"), is_counter=True),
    MetricFamily("terminations", "Ends of the query, by the condition of the error", ("condition",), is_counter=True),
])
OF_FILES = _by_name([  # of a checkpoint, from its files alone; each has the label OF_CHECKPOINT before its own
    MetricFamily("checkpoint_restart", "The exit code of inspect: 0 fine, 1 a restart fails, 2 look at it, 3 cannot be told"),
    MetricFamily("checkpoint_findings", "What inspect finds", ("level",)),
    MetricFamily("checkpoint_planned_batch", "The last batch in the offset log"),
    MetricFamily("checkpoint_committed_batch", "The last batch in the commit log"),
    MetricFamily("checkpoint_last_plan_timestamp_seconds", "When the last batch was planned, in seconds since 1970"),
    MetricFamily("checkpoint_last_commit_timestamp_seconds", "When the last batch was committed, in seconds since 1970"),
    MetricFamily("checkpoint_watermark_timestamp_seconds", "The watermark of the next batch, in seconds since 1970"),
    MetricFamily("checkpoint_watermark_lag_seconds", "How far the watermark is behind the time of the last batch"),
    MetricFamily("checkpoint_files_read", "Files that a file source has in its log", ("source",)),
    MetricFamily("checkpoint_files_waiting", "Files beside them, on this machine, that no batch has read", ("source",)),
    MetricFamily("checkpoint_state_rows", "Rows in the state with which the next batch begins", ("operator", "store")),
    MetricFamily("checkpoint_state_file_bytes", "Size of all files of a store", ("operator", "store")),
])
