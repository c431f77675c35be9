"""A static side: a table (tk, x) that a query joins or asks, and that may change before a step of the input."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

NAME = "random_query_table"
ROWS = "('0', 0), ('1', 1), ('a', 2), ('a', 3), ('0.50', 4), (NULL, 5)"
KINDS = ("local", "files", "by key")
CHANGES = {
    "append": f"INSERT INTO {NAME} (tk, x) VALUES ('b', 6), ('1', 7)",
    "overwrite": f"INSERT OVERWRITE {NAME} (tk, x) VALUES ('b', 8), ('2', 9), ('0', 0)",
    "cache": f"CACHE TABLE {NAME}",
    "cache lazily": f"CACHE LAZY TABLE {NAME}",
    "uncache": f"UNCACHE TABLE IF EXISTS {NAME}",
    "refresh": f"REFRESH TABLE {NAME}",
}


@dataclass(frozen=True)
class Table:
    """Where the rows are, and what happens to them before which step."""

    kind: str
    changes: tuple[tuple[int, str], ...]

    def static(self, session: Any, inputs: str) -> Any:
        """The DataFrame of the table, which is made anew when its folder is not there."""
        if self.kind == "local":
            return session.sql(f"SELECT * FROM VALUES {ROWS} AS t(tk, x)")
        if not os.path.exists(f"{inputs}/table"):
            os.makedirs(f"{inputs}/table")
            partitioned = "PARTITIONED BY (tk)" if self.kind == "by key" else ""
            session.sql(f"DROP TABLE IF EXISTS {NAME}")
            session.sql(f"CREATE TABLE {NAME} (tk string, x int) USING parquet {partitioned} LOCATION '{inputs}/table'")
            session.sql(f"INSERT INTO {NAME} (tk, x) VALUES {ROWS}")
        return session.table(NAME).select("tk", "x")

    def change(self, spark: SparkSession, step: int) -> None:
        for at, change in self.changes:
            if at == step and self.kind != "local":
                spark.sql(CHANGES[change])
