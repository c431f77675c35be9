"""Queries that nobody wrote: both engines must agree on each of them, or refuse it alike (tests/conformance/random_queries).

    pytest tests/conformance/test_random_queries.py                                    the queries of CI: forty, and four in RocksDB
    MINISPARK_QUERIES=1000-1499 pytest tests/conformance/test_random_queries.py        those of other seeds: a long run
    MINISPARK_QUERIES=1017-1017 pytest tests/conformance/test_random_queries.py        one of them again
    MINISPARK_PROVIDER=rocksdb  pytest tests/conformance/test_random_queries.py        their state in RocksDB

In RocksDB, the seed also says whether there are changelogs (every other query has them), and the checkpoint format (of four queries
one after the other, two have format 1, and two have format 2). A query that fails is printed whole, with its seed.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from tests.conformance.random_queries.comparing import differences
from tests.conformance.random_queries.drawing import Case, drawn

STORE = "spark.sql.streaming.stateStore"
IN_ROCKSDB = os.environ.get("MINISPARK_PROVIDER") == "rocksdb"
FIRST, LAST = map(int, os.environ.get("MINISPARK_QUERIES", "0-39").split("-"))
OF_CI = () if IN_ROCKSDB or "MINISPARK_QUERIES" in os.environ else (30, 33, 37, 42)  # distinct, window, state, and state after a join


@pytest.mark.parametrize("seed", OF_CI)
def test_both_engines_agree_in_rocksdb(spark: SparkSession, seed: int) -> None:
    _, found = differences(spark, in_rocksdb(seed))
    assert not found, "\n".join(["MINISPARK_PROVIDER=rocksdb", str(drawn(seed)), *found])


@pytest.mark.parametrize("seed", range(FIRST, LAST + 1))
def test_both_engines_agree(spark: SparkSession, seed: int) -> None:
    case = in_rocksdb(seed) if IN_ROCKSDB else drawn(seed)
    _, found = differences(spark, case)
    assert not found, "\n".join([f"MINISPARK_QUERIES={seed}-{seed} pytest tests/conformance/test_random_queries.py", str(case), *found])


def in_rocksdb(seed: int) -> Case:
    case, provider = drawn(seed), "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    more = {
        f"{STORE}.providerClass": provider,
        f"{STORE}.rocksdb.changelogCheckpointing.enabled": str(seed % 2 == 1).lower(),
        f"{STORE}.checkpointFormatVersion": str(1 + seed // 2 % 2),
    }
    return replace(case, confs={**case.confs, **more})
