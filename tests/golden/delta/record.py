"""What real Delta Lake writes and refuses: the recordings in this folder, and the queries of which they are.

    python -m tests.golden.delta.record FOLDER

recorded `append`, `append_partitioned`, `complete`, `complete_partitioned` (the tables of four queries over three batches: the
log's JSON files and the data files) and `refused.json` with PySpark 4.2.0 and io.delta:delta-spark_2.13:4.4.0, the newest there
is. It does not run on PySpark 4.3. tests/conformance/test_delta.py runs the same queries on the model.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

GOLDEN = Path(__file__).parent
STEPS = (["a,1", "b,2", "a,3"], ["c,4", ",5"], ["a,6"])


def put(folder: Path, number: int, lines: list[str]) -> None:
    """One more input file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{number:03}.csv"
    file.write_text("\n".join(lines) + "\n")
    os.utime(file, (1_700_000_000 + number,) * 2)


def rows_of(session: Any, folder: Path) -> DataFrame:
    df: DataFrame = session.readStream.schema("k string, v int").option("maxFilesPerTrigger", 1).csv(str(folder))
    return df


def sums(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(F.sum("v").alias("s"))


def write(
    df: DataFrame, checkpoint: Path, output: Path | None, mode: str = "append", partition_by: tuple[str, ...] = (), **options: str
) -> Any:
    """Run a query into a Delta table until all that is there is written."""
    writer = df.writeStream.format("delta").outputMode(mode).options(**options).option("checkpointLocation", str(checkpoint))
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    query = writer.trigger(availableNow=True).start(*([str(output)] if output else []))
    query.awaitTermination()
    return query


# name -> (query, output mode, partition columns); one task, so that there is one file for each partition
QUERIES: dict[str, tuple[Callable[[DataFrame], DataFrame], str, tuple[str, ...]]] = {
    "append": (lambda rows: rows.coalesce(1), "append", ()),
    "append_partitioned": (lambda rows: rows.coalesce(1), "append", ("k",)),
    "complete": (lambda rows: sums(rows).coalesce(1), "complete", ()),
    "complete_partitioned": (lambda rows: sums(rows).coalesce(1), "complete", ("k",)),
}

# `t` is a table with the columns k string, v int; `p` is the same, partitioned by k; `new` does not exist.
REFUSED: dict[str, Callable[[DataFrame, Path], Any]] = {
    "update": lambda rows, d: write(sums(rows), d / "c", d / "new", "update"),
    "no path": lambda rows, d: write(rows, d / "c", None),
    "unknown partition column": lambda rows, d: write(rows, d / "c", d / "new", partition_by=("z",)),
    "every column a partition column": lambda rows, d: write(rows, d / "c", d / "new", partition_by=("k", "v")),
    "a partition column twice": lambda rows, d: write(rows, d / "c", d / "new", partition_by=("k", "k")),
    "partitioned, the table is not": lambda rows, d: write(rows, d / "c", d / "t", partition_by=("k",)),
    "partitioned otherwise": lambda rows, d: write(rows, d / "c", d / "p", partition_by=("v",)),
    "a column more": lambda rows, d: write(rows.withColumn("z", F.lit(1)), d / "c", d / "t"),
    "a column more, and partitioned": lambda rows, d: write(rows.withColumn("z", F.lit(1)), d / "c", d / "t", partition_by=("k",)),
    "complete, with a column more": lambda rows, d: write(sums(rows), d / "c", d / "t", "complete"),
    "two columns of one name": lambda rows, d: write(rows.selectExpr("k", "v as K"), d / "c", d / "new"),
    "odd column name": lambda rows, d: write(rows.selectExpr("k", "v as `a b`"), d / "c", d / "new"),
    "no type": lambda rows, d: write(rows.selectExpr("k", "null as n"), d / "c", d / "new"),
    "interval": lambda rows, d: write(rows.selectExpr("k", "interval 1 day as n"), d / "c", d / "new"),
    "no partition column": lambda rows, d: write(rows.select("v"), d / "c", d / "p"),
    "text for a number": lambda rows, d: write(rows.selectExpr("k", "k as v"), d / "c", d / "t"),
    "a file where the table should be": lambda rows, d: write(rows, d / "c", d / "file"),
}

# What is let in, although it is not what the table has; the rows of table `t` (or `p`) after it.
ADAPTED: dict[str, Callable[[DataFrame, Path], Any]] = {
    "a column less": lambda rows, d: write(rows.select("v"), d / "c", d / "t"),
    "another type": lambda rows, d: write(rows.select("k", F.col("v").cast("long").alias("v")), d / "c", d / "t"),
    "another order, another case": lambda rows, d: write(rows.select(F.col("v").alias("V"), "k"), d / "c", d / "t"),
    "mergeSchema": lambda rows, d: write(rows.withColumn("z", F.lit(1)), d / "c", d / "t", mergeSchema="true"),
    "mergeSchema, complete": lambda rows, d: write(sums(rows), d / "c", d / "t", "complete", mergeSchema="true"),
    "no partitionBy for a partitioned table": lambda rows, d: write(rows, d / "c", d / "p"),
}


def prepare(session: Any, folder: Path) -> DataFrame:
    """The input, the tables `t` and `p`, and `file`."""
    put(folder / "first", 0, ["first,0"])
    write(rows_of(session, folder / "first"), folder / "c-t", folder / "t")
    write(rows_of(session, folder / "first"), folder / "c-p", folder / "p", partition_by=("k",))
    (folder / "file").write_text("not a folder")
    for i, lines in enumerate(STEPS):
        put(folder / "in", i, lines)
    return rows_of(session, folder / "in")


def said(error: Exception) -> list[str]:
    """The class and the text of an error, without what no two runs share."""
    found = re.search(r"terminated with exception: (.*?)\s*SQLSTATE: XXKST", str(error), re.S)
    text = (found[1] if found else str(error)).strip()
    return [type(error).__name__, re.sub(r"Table ID: [0-9a-f-]+", "Table ID: ...", text)]


def record(spark: SparkSession, folder: Path) -> None:
    for i, lines in enumerate(STEPS):
        put(folder / "in", i, lines)
    for name, (build, mode, partition_by) in QUERIES.items():
        write(build(rows_of(spark, folder / "in")), folder / f"c-{name}", folder / name, mode, partition_by)
        shutil.rmtree(GOLDEN / name, ignore_errors=True)
        for file in (folder / name).rglob("*"):
            if file.suffix in (".json", ".parquet"):
                target = GOLDEN / name / file.relative_to(folder / name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target)
    refused, adapted = {}, {}
    for i, (case, run) in enumerate(REFUSED.items()):
        rows = prepare(spark, folder / f"refused-{i}")
        try:
            run(rows, folder / f"refused-{i}")
        except Exception as e:
            refused[case] = said(e)
        else:
            raise AssertionError(f"{case}: not refused")
    for i, (case, run) in enumerate(ADAPTED.items()):
        run(prepare(spark, folder / f"adapted-{i}"), folder / f"adapted-{i}")
        df = spark.read.format("delta").load(str(folder / f"adapted-{i}" / ("p" if "partitioned" in case else "t")))
        adapted[case] = [df.columns, sorted(map(list, df.collect()), key=repr)]
    del refused["a file where the table should be"][1:], refused["text for a number"][1:]  # the stack of a task
    for name, found in (("refused", refused), ("adapted", adapted)):
        (GOLDEN / f"{name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars.packages", "io.delta:delta-spark_2.13:4.4.0")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    record(session, Path(sys.argv[1]))
