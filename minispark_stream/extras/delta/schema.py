"""What a batch must look like to be written into a Delta table.

Models: ImplicitMetadataOperation and DeltaSink.castDataIfNeeded of Delta Lake.

1. Delta has its own rules for columns: no two that differ only in case, no special characters, no column without a type.
2. A new table gets the columns of the batch, all nullable, and the partition columns that the writer was given.
3. A column of the batch belongs to the column of the table of the same name, in any case, and is cast to its type. Columns
   that the batch lacks are null in its rows.
4. A column that the table lacks is an error; with `mergeSchema` it becomes a new column of the table.

    table k string, v int     batch V bigint             ->  cast to int as v; k is null
                              batch k string, z double   ->  DELTA_METADATA_MISMATCH, or a third column

Differs from Delta: tables with constraints, with generated, identity or not-null columns, or with column mapping are refused,
because nothing here would check or compute their values.
Shown by tests/conformance/test_delta.py::test_a_table_with_constraints_is_refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import expressions, tables

if TYPE_CHECKING:
    from deltalake import DeltaTable

_ODD_CHARACTERS = " ,;{}()\n\t="
_REFUSED_PROPERTIES = ("delta.constraints.", "delta.columnMapping.mode")
_REFUSED_METADATA = ("delta.generationExpression", "delta.identity.", "delta.invariants", "delta.columnMapping.")


@dataclass(frozen=True)
class WritePlan:
    """The rows as the table requires them.

    Attributes:
        data: the rows, with the names and types of the table's columns.
        schema: the schema of the table after the batch, as JSON.
        partition_columns: those of the table.
        new_fields: the columns that the table does not have yet, each as JSON; empty for a new table.
    """

    data: DataFrame
    schema: str
    partition_columns: list[str]
    new_fields: list[str]


def plan_write(
    data: DataFrame, table: DeltaTable | None, partition_by: list[str], merge_schema: bool, complete: bool
) -> WritePlan:
    """How a batch is to be written.

    Args:
        table: None if it is to be created.
        partition_by: the columns that the writer was given; if there are none, those of the table.

    Raises:
        AnalysisException: the batch does not fit; the error has Delta's own condition.
    """
    _check_columns(data)  # (1)
    batch = json.loads(_nullable(data))
    if table is None:  # (2)
        _check_partitioning(data, partition_by)
        return WritePlan(data, json.dumps(batch), partition_by, [])
    _refuse_what_is_not_modelled(table)
    known = json.loads(table.schema().to_json())
    names = {field["name"].lower(): field["name"] for field in known["fields"]}
    new = [field for field in batch["fields"] if field["name"].lower() not in names]
    after = {**known, "fields": known["fields"] + new}
    columns = list(table.metadata().partition_columns)
    problems = []
    if new and not merge_schema:  # (4)
        problems.append(_schema_mismatch(data.sparkSession, str(table.metadata().id), known, after))
    if partition_by and [c.lower() for c in partition_by] != [c.lower() for c in columns]:
        problems.append(
            "- Partition columns do not match the partition columns of the table.\n"
            f"Given: {_quoted(partition_by)}\nTable: {_quoted(columns)}\n"
        )
    if problems:
        problems += [_OVERWRITE_SCHEMA] if complete else []
        raise delta_error(
            "DELTA_METADATA_MISMATCH",
            "A metadata mismatch was detected when writing to the Delta table.\n" + "\n".join(problems),
        )
    missing = [c for c in columns if c.lower() not in {field["name"].lower() for field in batch["fields"]}]
    if missing:
        raise delta_error(
            "DELTA_PARTITION_COLUMN_NOT_FOUND",
            f"Partition column `{missing[0]}` not found in schema [{', '.join(data.columns)}]",
        )
    return WritePlan(_aligned(data, known), json.dumps(after), columns, [json.dumps(field) for field in new])


def delta_error(condition: str, text: str) -> AnalysisException:
    """One of Delta's own errors: Spark's catalogue of error conditions does not have them."""
    return AnalysisException(message=text, errorClass=condition, messageParameters={})


def _nullable(data: DataFrame) -> str:
    """The schema as JSON, with all columns nullable, and without the note on the event time that withWatermark has added."""
    schema = expressions.as_nullable(data.sparkSession, data.schema)
    for field in schema.fields:
        field.metadata = {k: v for k, v in field.metadata.items() if k != expressions.EVENT_TIME}
    return schema.json()


def _check_columns(data: DataFrame) -> None:
    names = [c.lower() for c in data.columns]
    if twice := sorted({c for c in names if names.count(c) > 1}):
        raise delta_error(
            "DELTA_DUPLICATE_COLUMNS_FOUND.DATA",
            f"Found duplicate column(s): {', '.join(twice)}. The duplicate was found in the data being saved.",
        )
    if '"void"' in data.schema.json():
        raise delta_error(
            "DELTA_NULL_SCHEMA_IN_STREAMING_WRITE", "Delta doesn't accept NullTypes in the schema for streaming writes."
        )
    if odd := [c for c in data.columns if set(c) & set(_ODD_CHARACTERS)]:
        raise delta_error(
            "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
            f"Found invalid character(s) among ' ,;{{}}()\\n\\t=' in the column names of your schema.\n"
            f"Invalid column names: {', '.join(odd)}.\nPlease use other characters and try again.",
        )
    for field in data.schema.fields:
        if "interval" in json.dumps(field.dataType.jsonValue()):
            kind = expressions.type_name(data.sparkSession, field.dataType)
            raise delta_error(
                "DELTA_UNSUPPORTED_DATA_TYPES", f"Found columns using unsupported data types: [{field.name}: {kind}]"
            )


def _check_partitioning(data: DataFrame, partition_by: list[str]) -> None:
    if twice := [c for c in partition_by if partition_by.count(c) > 1]:
        raise delta_error(
            "DELTA_DUPLICATE_COLUMNS_FOUND.PARTITION_COLUMNS",
            f"Found duplicate column(s): `{twice[0]}`. The duplicate was found in the partition columns.",
        )
    if len(partition_by) == len(data.columns):
        raise delta_error("DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION", "Cannot use all columns for partition columns")


def _refuse_what_is_not_modelled(table: DeltaTable) -> None:
    fields = json.loads(table.schema().to_json())["fields"]
    found = [key for key in table.metadata().configuration if key.startswith(_REFUSED_PROPERTIES)]
    found += [f"{f['name']}: {key}" for f in fields for key in f["metadata"] if key.startswith(_REFUSED_METADATA)]
    found += [f"{f['name']}: not null" for f in fields if not f["nullable"]]
    if found:
        raise AnalysisException(message=f"minispark_stream cannot write to this Delta table, which has {', '.join(found)}.")


def _aligned(data: DataFrame, known: dict[str, Any]) -> DataFrame:  # (3)
    table = {field.name.lower(): field for field in StructType.fromJson(known).fields}
    columns = []
    for field in data.schema.fields:
        column = F.col(tables.quoted(field.name))
        target = table.get(field.name.lower())
        columns.append(column if target is None else column.cast(target.dataType).alias(target.name))
    return data.select(*columns)


_OVERWRITE_SCHEMA = (
    "- To overwrite your schema or change partitioning, please set: '.option(\"overwriteSchema\", \"true\")'.\n"
    "Note that the schema can't be overwritten when using 'replaceWhere'."
)


def _schema_mismatch(session: SparkSession, table_id: str, known: dict[str, Any], after: dict[str, Any]) -> str:
    def tree(schema: dict[str, Any]) -> str:
        return expressions.tree_string(session, StructType.fromJson(schema))

    return (
        f"- A schema mismatch detected when writing to the Delta table (Table ID: {table_id}).\n"
        "To enable schema migration using DataFrameWriter or DataStreamWriter, please set: "
        "'.option(\"mergeSchema\", \"true\")'.\nFor other operations, set the session configuration "
        'spark.databricks.delta.schema.autoMerge.enabled to "true". See the documentation specific to the operation for '
        f"details.\n\nTable schema:\n{tree(known)}\n\nData schema:\n{tree(after)}\n"
    )


def _quoted(names: list[str]) -> str:
    return "[" + ", ".join(f"`{name}`" for name in names) + "]"
