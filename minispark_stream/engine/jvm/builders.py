"""What Spark's own builders use when they read or write a stream: names of data sources, options, schemas, output modes.

Models: DataStreamReader, DataStreamWriter, DataSource.lookupDataSource, CaseInsensitiveStringMap.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from py4j.java_gateway import is_instance_of
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import expressions, scala
from minispark_stream.engine.jvm.contract import ENGINE
from minispark_stream.engine.jvm.errors import analysis_error
from minispark_stream.engine.jvm.scala import JavaObject


def parse_schema(session: SparkSession, schema: JavaObject | str) -> StructType:
    """The argument of `readStream.schema`, a DDL text or a Java StructType, as PySpark's type.

    Raises:
        ParseException: the text is not a schema.
        AnalysisException: a column is of type char or varchar.
    """
    if isinstance(schema, str):
        schema = scala.java_class(session, "StructType").fromDDL(schema)
    scala.java_class(session, "CharVarcharUtils").failIfHasCharVarchar(schema)
    return expressions.python_schema(schema)


def parse_struct(session: SparkSession, text: str) -> StructType:
    """A struct in SQL's words: "a int, b string" or "struct<a: int, b: string>".

    Raises:
        ParseException: the text is no type.
        AnalysisException: the type is no struct.
    """
    found = scala.companion(session, "DataType").fromDDL(text)
    if scala.class_name(found) != "StructType":
        raise analysis_error(session, "INVALID_SCHEMA.NON_STRUCT_TYPE", inputSchema=text, dataType=f'"{found.sql()}"')
    return expressions.python_schema(found)


def check_keys_of_maps(session: SparkSession, name: str, schema: StructType) -> None:
    """Raises AnalysisException if a map in the schema has keys that are not strings.

    Args:
        name: the format, "json" or "xml", which cannot hold other keys.
    """
    java_schema = expressions.java_schema(session, schema)
    if name == "json":
        scala.java_class(session, "JsonUtils").checkJsonSchema(java_schema)
    else:
        scala.java_class(session, "XmlUtils").checkXmlSchema(java_schema)


def output_mode(session: SparkSession, name: str) -> str:
    """The output mode that `name`, in capital or small letters, stands for: "append", "update" or "complete".

    Raises:
        IllegalArgumentException: there is no such output mode.
    """
    modes = scala.java_class(session, "InternalOutputModes")
    return str(modes.apply(name).toString()).lower()


def case_insensitive(session: SparkSession, options: Mapping[str, str]) -> JavaObject:
    """`options` as Spark's own map, whose methods `getLong`, `getInt` and `getBoolean` take a default."""
    texts = {name: value for name, value in options.items() if value is not None}
    made = scala.java_class(session, "java.util.HashMap")(texts)
    return scala.java_class(session, "CaseInsensitiveStringMap")(made)


def short_name(session: SparkSession, name: str) -> str | None:
    """The short name of the data source that is meant by a name, which may also be that of its class; None if it has none.

    Raises:
        JavaError, AnalysisException: there is no such data source.
    """
    sources = scala.java_class(session, "DataSource")
    found = sources.lookupDataSource(name, session._jsparkSession.sessionState().conf())
    source = scala.java_class(session, found.getName())()
    has_one = is_instance_of(scala.gateway(session), source, ENGINE["DataSourceRegister"])
    return str(source.shortName()).lower() if has_one else None


def check_state_store_provider(session: SparkSession, name: str) -> None:
    """Raises Spark's own exception unless there is a class of this name, and it is a state store provider."""
    scala.companion(session, "StateStoreProvider").create(name)


def check_codec(session: SparkSession, name: str) -> None:
    """Raises Spark's own exception unless Spark has a compression codec of this name."""
    spark_conf = session.sparkContext._jsc.sc().conf()
    scala.companion(session, "CompressionCodec").createCodec(spark_conf, name)


def pickled_data_source(session: SparkSession, name: str) -> bytes | None:
    """The Python data source that was registered under a name, as PySpark pickled its class; None if there is none."""
    manager = session._jsparkSession.sessionState().dataSourceManager()
    if not manager.dataSourceExists(name):
        return None
    return bytes(manager.lookupDataSource(name).dataSourceCls().command().unsafeArray())
