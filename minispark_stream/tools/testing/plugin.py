"""The kit in pytest: a fixture, and options for the engine and for the order of rows.

    def test_counts(stream_test):
        with stream_test(counts, output_mode="update") as t:
            t.add([{"word": "a"}]); t.expect([{"word": "a", "count": 1}])

    pytest                                   on the model
    pytest --stream-engine both              on the model and on real Structured Streaming; `spark` means only on the latter
    pytest --stream-seed 7                   7 decides the order of the rows of each `add`: no test may depend on the order

pytest finds the plugin by its entry point. The session is that of the fixture `spark`; a test suite may define its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from minispark_stream.tools.testing.kit import StreamTest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("minispark_stream")
    group.addoption("--stream-engine", choices=("model", "spark", "both"), default="model", help="where tests of streams run")
    group.addoption("--stream-seed", type=int, help="a number that decides the order of the rows of each add")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small local Spark, for a test suite that does not define a fixture `spark`."""
    from pyspark.sql import SparkSession

    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")  # it would be in the midst of what pytest prints
    session = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.warehouse.dir", warehouse).getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def stream_test(spark: SparkSession, request: pytest.FixtureRequest) -> Callable[..., StreamTest]:
    """`stream_test` without its session, on the engine of `--stream-engine`."""
    from minispark_stream.tools.testing.kit import stream_test

    option = request.config.getoption
    return partial(stream_test, spark, engine=option("--stream-engine"), seed=option("--stream-seed"))
