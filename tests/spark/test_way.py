"""How much of the package a first reader meets: the lines that run for four small queries, and in how many files."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from minispark_stream import MiniSparkSession
from minispark_stream.tools.compare.prepared import confs_set
from tests.way import QUERIES, way_of

# The most lines and files. These numbers may only fall: lower them when the way has become shorter. There is room for some 50 lines.
# The windowed count has two batches: if another worker gets a partition in the second one, it reads the state from its files, which are
# some 150 lines more.
MOST = {
    "windowed count": (2700, 88),
    "deduplication": (2425, 82),
    "limit": (2275, 81),
    "filter": (1480, 54),
}


@pytest.mark.parametrize("name", QUERIES)
def test_the_way_does_not_become_longer(mini: MiniSparkSession, spark: SparkSession, name: str) -> None:
    with confs_set(spark, {"spark.sql.streaming.stateStore.maxSharedMemoryMB": "0"}):  # large states of other tests change nothing
        lines = way_of(mini, QUERIES[name])
    most_lines, most_files = MOST[name]
    assert len(lines) <= most_lines
    assert len({file for file, _ in lines}) <= most_files
