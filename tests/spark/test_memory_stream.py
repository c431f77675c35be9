"""Memory: two queries on one stream, of which one ends when it has read what was there; and a sink that takes a batch once."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream import MiniSparkSession
from minispark_stream.engine.sinks.memory import MemorySink
from minispark_stream.engine.sources.memory import MemoryStream


def test_each_query_reads_every_row(mini: MiniSparkSession) -> None:
    numbers = MemoryStream(mini, "value int")
    writers = [numbers.to_df().writeStream.format("memory").queryName(name) for name in ("whole_stream", "what_was_there")]
    numbers.add_data([(1,), (2,)])
    first = writers[0].start()
    try:
        first.processAllAvailable()
        numbers.add_data([(3,)])
        first.processAllAvailable()  # block 0 is committed now
        writers[1].trigger(availableNow=True).start().awaitTermination()
        numbers.add_data([(4,)])
        first.processAllAvailable()
    finally:
        first.stop()
    rows = {name: sorted(row.value for row in mini.table(name).collect()) for name in ("whole_stream", "what_was_there")}
    assert rows == {"whole_stream": [1, 2, 3, 4], "what_was_there": [1, 2, 3]}


def test_the_sink_has_a_batch_once(spark: SparkSession) -> None:
    sink = MemorySink(spark, "once", StructType().add("id", "long"), "append")
    sink.publish()
    for batch_id in (0, 0, 1):
        sink.add_batch(batch_id, spark.range(2))
    assert spark.table("once").count() == 4
