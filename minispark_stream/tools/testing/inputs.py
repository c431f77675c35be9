"""The inputs of a query under test: what a test adds becomes a file, which appears in one rename.

1. `build(session, orders, payments)` has two inputs, each a folder of Parquet files with the types that the test declares, or
   those of its first rows. `build(session, folder)` reads a folder by itself: a text becomes lines, a dict becomes a line of
   JSON, and a tuple a line of CSV; named rows go to subfolders with these names.
2. All files of one `add` exist before the query lists the folder, so that they are one batch. They are a second younger than
   those of the `add` before, on every machine.

    Inputs(build, {"orders": schema}).put(folder, 0, {"orders": [{"id": 7}]}, "UTC")      folder/orders/0000.parquet
"""

from __future__ import annotations

import csv
import inspect
import io
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.spark_versions import pyspark_version, spark_of
from minispark_stream.tools.compare.prepared import made_visible
from minispark_stream.tools.testing.values import each, fitted_row, text_table

__tracebackhide__ = True
Build = Callable[..., DataFrame]  # as the runner of side_by_side has it, which needs the model
FOLDER = ("folder", "input_dir", "path")  # the names of a parameter that takes the folder


class Inputs:
    """The names of the inputs of a query, and their types.

    Args:
        build: the query function.
        schemas: types by name; types that are missing here are those of the first rows.
    """

    def __init__(self, build: Build, schemas: Mapping[str, StructType]):
        self.schemas = dict(schemas)
        rest = list(inspect.signature(build).parameters.values())[1:]
        self.takes_folder = bool(rest) and rest[0].name in FOLDER
        required = [p.name for p in rest if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        self.names = [] if self.takes_folder else required
        self._takes_any = any(p.kind is p.VAR_KEYWORD for p in rest)
        if self._takes_any:
            self.names += [name for name in self.schemas if name not in required]
        if unknown := [name for name in self.schemas if name not in self.names]:
            raise ValueError(f"the query has no input {', '.join(unknown)}, but {', '.join(self.names) or 'none'}")

    @property
    def are_known(self) -> bool:
        """Whether the query can be built: the types of all inputs are known."""
        return all(name in self.schemas for name in self.names) and (bool(self.names) or not self._takes_any)

    def named(self, rows: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The rows of an `add` by the name of their input; "" is the folder itself."""
        if len(rows) > 1 or rows and named:
            raise TypeError("add takes the rows of one input, or rows by the names of the inputs")
        if self._takes_any:
            self.names += [name for name in named if name not in self.names]
        if rows and not self.takes_folder and len(self.names) != 1:
            raise TypeError(f"say whose rows these are, as in add(name=rows): the inputs are {', '.join(self.names) or 'none'}")
        if unknown := [name for name in named if name not in self.names and not self.takes_folder]:
            raise ValueError(f"the query has no input {', '.join(unknown)}, but {', '.join(self.names) or 'none'}")
        return {("" if self.takes_folder else self.names[0]): rows[0]} if rows else dict(named)

    def learn(self, spark: SparkSession, rows: Mapping[str, Any]) -> None:
        """Take the types that are not known yet from the first rows."""
        for name, added in rows.items():
            if name not in self.schemas and not self.takes_folder:
                self.schemas[name] = added.schema if hasattr(added, "collect") else _inferred(spark, name, listed(added))
        if missing := [name for name in self.names if name not in self.schemas]:
            raise ValueError(f"the types of {', '.join(missing)} are not known: give schemas={{{missing[0]!r}: 'k string, …'}}")

    def frames(self, session: Any, folder: Path) -> dict[str, Any]:
        """The arguments of the query function, besides the session."""
        for name in self.names:
            (folder / name).mkdir(parents=True, exist_ok=True)
        return {name: session.readStream.schema(self.schemas[name]).parquet(str(folder / name)) for name in self.names}

    def put(self, folder: Path, number: int, rows: Mapping[str, Any], zone: str, spark: Any = None) -> None:
        """(2) Write the files of one `add`, and then make all of them visible.

        Args:
            spark: the session that writes rows if PySpark, before 4.2, cannot do it without one.
        """
        hidden = []
        alone = spark_of(pyspark_version() or "").converts_rows
        for name, added in rows.items():
            path = folder / name / f".{number:04d}.{'txt' if self.takes_folder else 'parquet'}"
            path.parent.mkdir(parents=True, exist_ok=True)
            if self.takes_folder:
                path.write_text("".join(f"{line}\n" for line in _lines(added)), encoding="utf-8")
            else:
                schema = self.schemas[name]
                try:
                    fitting = each(listed(added), partial(fitted_row, schema=schema, zone=zone))
                except ValueError as e:
                    raise ValueError(f"the rows of {name} do not fit: {e}") from None
                if alone:
                    pq.write_table(_table(fitting, schema), path)
                else:
                    _write(spark, fitting, schema, path)
            hidden.append(path)
        made_visible(hidden, number)


def listed(rows: Any) -> list[Any]:
    """A list of rows, which a test may write in several forms."""
    if hasattr(rows, "collect"):  # a DataFrame, of Spark Connect, too
        return rows.collect()
    if isinstance(rows, Mapping) or hasattr(rows, "asDict"):
        return [rows]  # a row, and not a list of its names
    return text_table(rows) if isinstance(rows, str) else list(rows)


def _lines(rows: Any) -> Iterable[str]:
    """(1) Rows as lines of a text file."""
    for row in rows.splitlines() if isinstance(rows, str) else listed(rows):
        if isinstance(row, (Mapping, tuple)):
            yield _line(row.asDict(recursive=True) if hasattr(row, "asDict") else row)
        else:
            yield str(row)


def _line(row: Mapping[str, Any] | tuple[Any, ...]) -> str:
    if isinstance(row, Mapping):
        return json.dumps({name: value for name, value in row.items() if value is not None}, ensure_ascii=False, default=str)
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(row)
    return line.getvalue()


def parsed(spark: SparkSession, schema: StructType | str) -> StructType:
    """The types of an input, which may be written as `k string, n int`."""
    return schema if isinstance(schema, StructType) else spark.createDataFrame([], schema).schema


def _inferred(spark: SparkSession, name: str, rows: list[Any]) -> StructType:
    if not rows:
        raise ValueError(f"the types of {name} are not known: add some rows first, or give schemas={{{name!r}: …}}")
    if not isinstance(rows[0], (Mapping, tuple, list)):
        rows = [{"value": row} for row in rows]
    return spark.createDataFrame(rows).schema


def _table(rows: list[Any], schema: StructType) -> pa.Table:
    from pyspark.sql.conversion import LocalDataToArrowConversion
    from pyspark.sql.pandas.types import to_arrow_schema

    if not rows:
        return to_arrow_schema(schema, timezone="UTC").empty_table()
    return LocalDataToArrowConversion.convert(rows, schema, use_large_var_types=False)


def _write(spark: SparkSession, rows: list[Any], schema: StructType, path: Path) -> None:
    """Let Spark write one file."""
    folder = path.with_suffix(".spark")
    spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(folder))
    (part,) = folder.glob("part-*.parquet")
    part.rename(path)
    shutil.rmtree(folder)
