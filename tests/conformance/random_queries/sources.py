"""One input stream: rows in one of several formats, and how a query reads them."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from minispark_stream.tools.compare.prepared import FIRST_FILE_TIME
from tests.conformance.inputs import rows_of
from tests.conformance.random_queries.rows import FLAT, INTERVALS, Rows

FORMATS = ("json", "csv", "text", "parquet", "by value", "rate")
BY_VALUE = ("int", "string", "date", "boolean")  # types of `w` that may be the name of a folder
NEW_YEAR = 1_704_067_200_000  # milliseconds: where the times of `Rows` begin


@dataclass(frozen=True)
class Stream:
    """A stream: its folder and its format, its rows, its lateness in minutes, and whether it has a name that outlives a restart."""

    folder: str
    format: str
    rows: Rows
    delay: int | None
    named: bool

    @property
    def in_one_order(self) -> bool:
        """Whether the rows of a batch come from one task."""
        return self.format != "by value"

    def read(self, session: Any, inputs: str) -> Any:
        reader = session.readStream.name(self.folder) if self.named else session.readStream
        df = self._load(reader, f"{inputs}/{self.folder}")
        return df if self.delay is None else df.withWatermark("ts", f"{self.delay} minutes")

    def _load(self, reader: Any, folder: str) -> Any:
        rows = self.rows
        if self.format == "rate":
            options = {"rowsPerBatch": 5, "startTimestamp": NEW_YEAR, "advanceMillisPerBatch": 900_000, "numPartitions": 1}
            v = f"CAST(value - 3 AS {rows.v}) AS v"
            return reader.format("rate-micro-batch").options(**options).load().selectExpr(
                "timestamp AS ts", "value % 3 AS k", v, "IF(value % 4 > 0, CAST(value AS STRING), NULL) AS w")
        os.makedirs(folder, exist_ok=True)
        if self.format == "text":
            return reader.text(folder).select(F.from_json("value", rows.schema).alias("row")).select("row.*")
        format = {"by value": "json"}.get(self.format, self.format)
        return reader.schema(rows.schema).format(format).load(folder).select("ts", "k", "v", "w")

    def staged(self, spark: SparkSession, inputs: str, step: int) -> Iterator[tuple[Path, Path]]:
        """The file of a step, or one for each value of `w`: where it lies, hidden, and where it is to appear."""
        for place, data in self._files(spark, step).items():
            path = Path(inputs, self.folder, place, f"step-{step:04d}.{self.format[:4]}")
            path.parent.mkdir(parents=True, exist_ok=True)
            hidden = path.with_name(f".{path.name}")
            hidden.write_bytes(data)
            os.utime(hidden, (FIRST_FILE_TIME + step, FIRST_FILE_TIME + step))
            yield hidden, path

    def _files(self, spark: SparkSession, step: int) -> dict[str, bytes]:
        """The folder below the stream's own -> what is in the file."""
        rows = self.rows.step(step)
        match self.format:
            case "rate":
                return {}
            case "csv":
                text = io.StringIO()
                csv.writer(text, lineterminator="\n").writerows([row[name] for name in self.rows.types] for row in rows)
                return {"": text.getvalue().encode()}
            case "parquet":
                return {"": parquet(spark, self.rows.schema, "\n".join(rows_of(*rows)))}
            case "by value":
                places = defaultdict(list)
                for row in rows:
                    w = row.pop("w")
                    places[f"w={'__HIVE_DEFAULT_PARTITION__' if w in (None, '') else w}"].append(row)
                return {place: "\n".join(rows_of(*some)).encode() for place, some in places.items()}
        return {"": "\n".join(rows_of(*rows)).encode()}


def fits(format: str, rows: Rows) -> bool:
    """Whether a format has these types."""
    kinds = set(rows.types.values())
    match format:
        case "csv":
            return kinds <= {*FLAT, *INTERVALS}
        case "parquet":
            return not kinds & set(INTERVALS)
        case "by value":
            return rows.w in BY_VALUE
    return True


@cache
def parquet(spark: SparkSession, schema: str, lines: str) -> bytes:
    """A Parquet file of these rows; the same bytes for both engines."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "rows.json").write_text(lines)
        pq.write_table(spark.read.schema(schema).json(folder).toArrow(), f"{folder}/rows.parquet")
        return Path(folder, "rows.parquet").read_bytes()
