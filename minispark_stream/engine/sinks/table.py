"""toTable: a query that writes into a table of the catalog.

Models: DataStreamWriter.toTable for tables of files in Spark's session catalog.

1. If there is no table of that name, create it with the columns of the query (all nullable), its format, and its partition
   or clustering columns; if the option `path` is given, at this place.
2. Refuse a view, and a table of another format.
3. The query then has a file sink that writes to the location of the table. After each batch, the sink lets Spark forget which
   files the table had, so that `spark.table("t")` finds the new ones, too.

    df.writeStream.format("parquet").toTable("t")   ->   create table t using parquet;  FileSink[.../t]

Differs from Spark: tables of other catalogs, which are not folders of files, are refused.
Shown by tests/spark/test_differences.py::test_what_only_the_model_refuses.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from minispark_stream.engine.jvm import expressions, tables
from minispark_stream.engine.jvm.errors import analysis_error
from minispark_stream.engine.sinks.file import normalized_columns

_SESSION_CATALOG = "spark_catalog"


def table_location(
    session: SparkSession, df: DataFrame, table: str, source: str, layout: Mapping[str, list[str]], options: Mapping[str, str]
) -> tuple[str, str]:
    """The folder of a table, which is created if it does not exist, and the full name of the table.

    Args:
        layout: the arguments of `partitionBy` and `clusterBy`, under these names.

    Raises:
        ParseException: `table` is not a name.
        AnalysisException: it is a view, a table of another format, or a table of another catalog.
    """
    names = tables.name_parts(session, table)
    if tables.is_temp_view(session, names):
        raise analysis_error(session, "_LEGACY_ERROR_TEMP_1190", viewName=table)
    if tables.catalog_of(session, names) != _SESSION_CATALOG:
        raise AnalysisException(message=f"minispark_stream writes to tables of {_SESSION_CATALOG} only, not to {table}.")
    if len(names) == 3 and names[0] == _SESSION_CATALOG:  # which knows its tables without its own name
        names = names[1:]
    quoted = ".".join(map(tables.quoted, names))
    if not session.catalog.tableExists(quoted):  # (1)
        session.sql(_create_table(session, df, quoted, source, layout, options.get("path")))
    found = tables.table(session, quoted)
    if found.is_view:  # (2)
        raise analysis_error(session, "_LEGACY_ERROR_TEMP_1191", viewName=table)
    if found.provider != source:
        raise analysis_error(session, "_LEGACY_ERROR_TEMP_1192", source=source, tableName=table, provider=found.provider)
    named = session.catalog.getTable(quoted)
    whole = filter(None, [named.catalog, *(named.namespace or ()), named.name])  # (3)
    return found.location, ".".join(map(tables.quoted, whole))


def _create_table(
    session: SparkSession, df: DataFrame, quoted: str, source: str, layout: Mapping[str, list[str]], path: str | None
) -> str:
    columns = expressions.as_nullable(session, df.schema).toDDL()
    partitions = layout["partitionBy"]
    clusters = normalized_columns(session, df, layout["clusterBy"], "Clustering")
    return (
        f"CREATE TABLE {quoted} ({columns}) USING {tables.quoted(source)}"
        + (f" PARTITIONED BY ({', '.join(map(tables.quoted, partitions))})" if partitions else "")
        + (f" CLUSTER BY ({', '.join(map(tables.quoted, clusters))})" if clusters else "")
        + (f" LOCATION '{_escaped(path)}'" if path else "")
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
