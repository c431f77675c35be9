"""The oracle: every test here runs a query on real Structured Streaming and on the model, and wants no difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from minispark_stream import side_by_side
from minispark_stream.tools.compare.comparison import Comparison
from tests.conformance.kafka_broker import Broker, Kafka
from tests.conformance.recordings import Recordings
from tests.connectors import KAFKA_BROKER, KAFKA_CONNECTOR, JarsMissing, download

Compare = Callable[..., Comparison]


@pytest.fixture
def compare(spark: SparkSession, tmp_path: Any, request: pytest.FixtureRequest) -> Compare:
    """`side_by_side` with a temporary folder, and no difference allowed (nor a comparison of nothing).

    Spark's half may be a recording.
    """
    recordings = Recordings(request.node, tmp_path)

    def run(
        build: Callable[..., Any], feed: Any, *, state_bytes: bool = True, keeps_checkpoint: bool = False, **arguments: Any
    ) -> Comparison:
        """`state_bytes=False`: the order of elements in a collected array is up to the shuffle, on either engine.

        `keeps_checkpoint=True`: the test reads the checkpoint that Spark has left, which no recording leaves.
        """
        if isinstance(arguments.get("restart_after"), dict):  # something is done to the checkpoint, so that a batch may run again
            request.getfixturevalue("spark_files")
        play = partial(side_by_side, spark, build, feed, directory=str(tmp_path), trace="steps", progress=False, **arguments)
        comparison = play() if keeps_checkpoint else recordings.compare(play)
        found = [d for d in comparison.differences if state_bytes or not d.what.endswith(".delta")]
        assert not found, "\n".join(map(str, found))
        assert comparison.model.batches or comparison.model.error
        return comparison

    return run


@pytest.fixture(scope="session")
def kafka(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A running Kafka broker."""
    try:
        download(KAFKA_CONNECTOR)
        jars = download(KAFKA_BROKER)
    except JarsMissing as e:
        pytest.skip(f"no Kafka: {e}")
    broker = Broker(tmp_path_factory.mktemp("kafka"), jars)
    broker.start()
    client = Kafka(spark, broker)
    yield client
    client.close()
    broker.stop()
