"""kafka: each row becomes a record of a Kafka topic.

Models: KafkaWrite, KafkaStreamingWrite, KafkaWriteTask (Sink document, "Kafka").

1. The columns have fixed names: `value` (string or binary) is required; `key`, `headers`, `partition` are optional. The topic
   is the option `topic`, or else the column `topic`.
2. The tasks send their rows and wait for the answers. Nothing marks a batch as written: a batch that is run again is sent
   again, so the guarantee is *at least once*.

    key  value  topic                      option topic not set
    a    1      counts     ->   counts     record (a, 1)
    b    2      other      ->   other      record (b, 2)

In every output mode rows are only added: update sends the changed rows, complete sends all rows again in each batch.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from minispark_stream.jvm.builders import look_up_data_source
from minispark_stream.jvm.kafka import append, kafka_table
from minispark_stream.sinks.base import Sink


class KafkaSink(Sink):
    """`writeStream.format("kafka").options(options)`; names in lower case.

    Raises:
        AnalysisException: Spark runs without the Kafka connector.
        PySparkException: (from `add_batch`) an option or the columns are not what Spark wants, or Kafka does not take a row.
    """

    def __init__(self, session: SparkSession, options: Mapping[str, str]):
        look_up_data_source(session, "kafka")
        self._options = dict(options)
        self.description = str(kafka_table(session, options).table().toString())

    def add_batch(self, batch_id: int, data: DataFrame) -> int:
        return append(data.sparkSession, kafka_table(data.sparkSession, self._options), data)
