"""When the code of a Python data source fails: where the query learns of it, and in which words, on both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)

from minispark_stream import MiniSparkSession
from tests.conformance.endings import failed

OF_READER = ["reader", "partitions", "read", "commit", "no reader"]
OF_SIMPLE_READER = ["simpleStreamReader", "simple read"]
OF_WRITER = ["source", "streamWriter", "no writer", "write", "no message", "commit of writer", "abort"]


class MyError(Exception):
    pass


def source_that_fails(where: str) -> type[DataSource]:
    def at(place: str) -> None:
        if place == where:
            raise MyError(f"in {place}")

    class Reader(DataSourceStreamReader):
        def __init__(self) -> None:
            at("reader")
            self.newest = 0

        def initialOffset(self) -> dict:
            return {"n": 0}

        def latestOffset(self) -> dict:  # type: ignore[override]
            self.newest += 1
            return {"n": self.newest}

        def partitions(self, start: dict, end: dict) -> list[InputPartition]:
            at("partitions")
            return [InputPartition(i) for i in range(start["n"], end["n"])]

        def read(self, partition: Any) -> Any:
            at("read")
            yield (partition.value,)

        def commit(self, end: dict) -> None:
            at("commit")

    class SimpleReader(SimpleDataSourceStreamReader):
        def initialOffset(self) -> dict:
            return {"n": 0}

        def read(self, start: dict) -> Any:
            at("simple read")
            return iter([(start["n"],)]), {"n": start["n"] + 1}

        def commit(self, end: dict) -> None:
            pass

    class Writer(DataSourceStreamWriter):
        def write(self, iterator: Any) -> Any:
            at("write")
            return None if where == "no message" else WriterCommitMessage()

        def commit(self, messages: Any, batchId: int) -> None:
            at("commit of writer")
            at("abort")

        def abort(self, messages: Any, batchId: int) -> None:
            at("abort")

    class Failing(DataSource):
        def __init__(self, options: Any):
            at("source")
            super().__init__(options)

        @classmethod
        def name(cls) -> str:
            return "failing"

        def schema(self) -> str:
            return "i int"

        def streamReader(self, schema: Any) -> Any:
            at("streamReader")
            if where in OF_SIMPLE_READER:
                return super().streamReader(schema)
            return 7 if where == "no reader" else Reader()

        def simpleStreamReader(self, schema: Any) -> Any:
            at("simpleStreamReader")
            return SimpleReader()

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            at("streamWriter")
            return 7 if where == "no writer" else Writer()

    return Failing


@pytest.mark.parametrize("where", [*OF_READER, *OF_SIMPLE_READER, *OF_WRITER])
def test_users_code_that_fails(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, where: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("x\n")
    spark.dataSource.register(source_that_fails(where))
    told = []
    engines: dict[str, Any] = {"spark": spark, "model": mini}
    for name, session in engines.items():
        if where in OF_WRITER:
            writer = session.readStream.text(str(tmp_path / "in")).writeStream.format("failing")
        else:
            writer = session.readStream.format("failing").load().writeStream.format("noop")
        query = writer.option("checkpointLocation", str(tmp_path / name)).start()
        told.append({**failed(query, __file__), "ends": None})  # Spark's runner of readers adds errors of its own to the user's
        told[-1]["logged"] = sorted(path.name for path in (tmp_path / name / "offsets").glob("[0-9]*"))
    assert told[1] == told[0]
    assert told[1]["conditions"] or where == "abort"
