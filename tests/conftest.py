"""Fixtures that every test may ask for (a test that asks for none of them starts no JVM), and how a run is divided.

    pytest tests/conformance/test_limit.py      every case of these tests, in this process
    pytest -n 2 --sample                        a sample of all tests, by two processes with a Spark each
    pytest -n 2 --cases=3                       all tests; of one with many cases that needs Spark, a third of them
    pytest -n 2 --sample @tests/quick.txt       the tests of `make quick`

With `--sample`, the tests without Spark (tests/unit) and the golden scripts run in full. Of the tests in a file of tests/conformance or
tests/spark, at most three run, each with its first case; they are spread over the file, and the files of NOT_SAMPLED are left out. Of
the notebooks, those numbered 00, 07, 14 and 21 run.

With `--cases=3`, a test of tests/conformance or tests/spark runs its first case and a third of the others, which the commit chooses: each
commit plays other ones. The weekly job plays all.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.commit import chosen_by_commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from minispark_stream import MiniSparkSession

# Workers run this Python, and collect() gives timestamps in UTC on every machine.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ["TZ"] = "UTC"
time.tzset()

# A test runs a query once, so that compiling it well (C2) costs more than it gains, and so do a garbage collector's own threads.
# The small processes that Hadoop starts for a file cost a third less with VFORK.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xmn256m -Djdk.lang.Process.launchMechanism=VFORK")

# Hadoop's newer interface, by which Spark writes its logs and state, starts some fifty processes in each trigger of a small query
# where Hadoop's native library is missing. The older one starts next to none. But it does not replace a file that is there, so
# tests in which a batch runs again ask for the fixture `spark_files`.
FILES = "spark.sql.streaming.checkpointFileManagerClass"
CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"

NOT_SAMPLED = ("test_kafka.py", "test_cluster.py", "test_delta.py", "test_random_queries.py")  # a broker, a cluster, recordings, many queries
IN_ONE_PROCESS = (".ipynb", "test_kafka.py", "test_real_time_chains.py", "test_budget.py")  # they share a kernel, a broker, a run of half a minute
SAMPLED_NOTEBOOKS = 7  # of the notebooks, one in so many
SAMPLED_TESTS = 3  # of the tests of a file that need Spark, at most so many


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", action="store_true", help="of the tests that need Spark, only some, with their first case")
    parser.addoption("--cases", type=int, default=1, metavar="N", help="of the cases of a test that needs Spark, the first, and one in N of the others")


def pytest_sessionstart() -> None:
    from tests import class_archive
    from tests.recorded_events import check_recorded_events

    class_archive.use()
    check_recorded_events()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A process that is free takes the next test; those of a file that share what takes long to make go to one process."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if file.endswith(IN_ONE_PROCESS) else nodeid

    return Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = _sample(items) if config.getoption("sample") else _cases(items, config.getoption("cases"))
    config.hook.pytest_deselected(items=[item for item, kept in zip(items, chosen) if not kept])
    items[:] = [item for item, kept in zip(items, chosen) if kept]


def _cases(items: Sequence[pytest.Item], one_in: int) -> list[bool]:
    """Which items are left if of the cases of a test the first one is run, and of the others one in so many."""
    tests: set[str] = set()
    chosen = []
    for item in items:
        test = item.nodeid.partition("[")[0]
        chosen.append(not _needs_spark(item) or test not in tests or chosen_by_commit(item.nodeid, one_in))
        tests.add(test)
    return chosen


def _sample(items: Sequence[pytest.Item]) -> list[bool]:
    """Which items a sample keeps."""
    with_spark: dict[Path, dict[str, pytest.Item]] = {}  # of each file, the first case of each test
    for item in filter(_needs_spark, items):
        if item.path.name not in NOT_SAMPLED:
            with_spark.setdefault(item.path, {}).setdefault(item.nodeid.partition("[")[0], item)
    chosen = {item for tests in with_spark.values() for item in list(tests.values())[:: -(-len(tests) // SAMPLED_TESTS)]}
    return [
        int(item.path.stem[:2]) % SAMPLED_NOTEBOOKS == 0 if item.path.suffix == ".ipynb" else item in chosen or not _needs_spark(item)
        for item in items
    ]


def _needs_spark(item: pytest.Item) -> bool:
    return item.path.parent.name in ("conformance", "spark")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark for all tests of a process: 2 cores, 2 shuffle partitions, UTC, no UI; with the Kafka connector if it can be had."""
    from pyspark.sql import SparkSession

    from tests.connectors import kafka_connector, local_files

    session = (
        SparkSession.builder.master("local[2]")
        .appName("minispark_stream tests")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.ui.enabled", "false")
        .config(FILES, f"{CHECKPOINTING}.FileSystemBasedCheckpointFileManager")
        .config("spark.jars", kafka_connector())
        .config(map=local_files())
        .config("spark.python.unix.domain.socket.enabled", "true")  # a small Python task takes half the time (docs/performance.md)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    _forget_where_values_are_from(session)
    yield session
    session.stop()


def _forget_where_values_are_from(session: SparkSession) -> None:
    """Of each of its thousand values, Hadoop's configuration knows the file that it is from.

    The names of these files are compressed, one by one, whenever a configuration is sent to a task. Without them, tests take 6 %
    less of the processors' time.
    """
    configuration = session.sparkContext._jsc.hadoopConfiguration()
    field = configuration.getClass().getDeclaredField("updatingResource")
    field.setAccessible(True)
    field.set(configuration, session._jvm.java.util.concurrent.ConcurrentHashMap())  # type: ignore[union-attr]


@pytest.fixture
def spark_files(spark: SparkSession) -> Iterator[None]:
    """Spark writes its logs and state as it does by default."""
    from minispark_stream.tools.compare.prepared import confs_set

    with confs_set(spark, {FILES: f"{CHECKPOINTING}.FileContextBasedCheckpointFileManager"}):
        yield


@pytest.fixture
def fresh_process() -> Iterator[None]:
    """As in a worker that has just begun: no state store is loaded."""
    from minispark_stream.engine.state.loaded_providers import unload_stores

    unload_stores()
    yield
    unload_stores()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """A server in this process that speaks S3's protocol: its address."""
    moto = pytest.importorskip("moto.server", reason="moto is not installed")
    server = moto.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"{host}:{port}"
    server.stop()


@pytest.fixture
def object_store(s3_server: str) -> str:
    """The URI of a folder in an empty bucket."""
    from pyarrow import fs

    options = f"scheme=http&endpoint_override={s3_server}&region=us-east-1"
    bucket = f"bucket-{uuid.uuid4()}"
    fs.FileSystem.from_uri(f"s3://KEY:SECRET@{bucket}?{options}&allow_bucket_creation=true")[0].create_dir(bucket)
    return f"s3://KEY:SECRET@{bucket}/checkpoint?{options}"


@pytest.fixture(scope="session")
def mini(spark: SparkSession) -> MiniSparkSession:
    """The model, around the same Spark."""
    from minispark_stream import MiniSparkSession

    return MiniSparkSession(spark)
