"""readStream and writeStream: PySpark's own builders, leading to this engine.

Models: DataStreamReader and DataStreamWriter (the StructuredStreaming analysis: short names are looked up, then the source
or sink is created; Execution flow).

PySpark's classes do all that is API: signatures, checks of arguments, conversion of options. They forward to a Java
builder (`_jreader`, `_jwrite`); ours put a small Python recorder in its place, and `load` and `start` act on what was
recorded. A format that neither the model nor Spark knows fails with Spark's own error.

Differs from Spark: nothing in the API; formats that the model has no source or sink for are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamReader as SparkDataStreamReader
from pyspark.sql.streaming import DataStreamWriter as SparkDataStreamWriter
from pyspark.sql.types import StructType, _parse_datatype_json_string

from minispark_stream.jvm import plans, scala
from minispark_stream.jvm.errors import analysis_error
from minispark_stream.plan.streaming_relation import streaming_dataframe, streaming_sources
from minispark_stream.registry import (
    FILE_FORMATS,
    ONE_TIME_SINKS,
    SOURCES,
    TIMED_SOURCES,
    find_sink,
    find_source,
    unknown_format,
)
from minispark_stream.runtime.trigger_executor import ProcessingTimeTrigger, Trigger, from_java
from minispark_stream.sinks.base import Sink
from minispark_stream.sinks.console import ConsoleSink
from minispark_stream.sinks.delta import DeltaSink
from minispark_stream.sinks.file import FileStreamSink
from minispark_stream.sinks.foreach import ForeachSink
from minispark_stream.sinks.foreach_batch import ForeachBatchSink
from minispark_stream.sinks.kafka import KafkaSink
from minispark_stream.sinks.memory import MemorySink
from minispark_stream.sinks.noop import NoopSink
from minispark_stream.sinks.python_data_source import PythonDataSourceSink
from minispark_stream.sinks.table import table_location
from minispark_stream.sources.file import file_stream_relation
from minispark_stream.sources.python_data_source import created, find_data_source, python_relation
from minispark_stream.streaming_query import StreamingQuery

if TYPE_CHECKING:
    from minispark_stream.session import MiniSparkSession


class _Recorder:
    """Stands where PySpark expects a Java builder, and remembers what it is told. Option names ignore case, as in Spark."""

    def __init__(self, **state: Any):
        self.state: dict[str, Any] = {"options": {}, **state}

    def option(self, key: str, value: str | None) -> _Recorder:
        self.state["options"][key.lower()] = value
        return self

    def format(self, source: str) -> _Recorder:
        self.state["format"] = source
        return self


class _ReaderRecorder(_Recorder):
    def schema(self, schema: Any) -> _ReaderRecorder:
        """A DDL string or a Java StructType."""
        self.state["schema"] = schema
        return self

    def load(self, path: str | None = None) -> _ReaderRecorder:
        self.state["path"] = path
        return self

    def table(self, name: str) -> _ReaderRecorder:
        self.state["table"] = name
        return self


def _shorthand(name: str) -> Callable[[_ReaderRecorder, str], _Recorder]:
    """`reader.csv(path)` is `reader.format("csv").load(path)`."""
    return lambda reader, path: reader.format(name).load(path)  # type: ignore[attr-defined]


for _name in ("csv", "json", "text", "parquet", "orc", "xml"):
    setattr(_ReaderRecorder, _name, _shorthand(_name))


class DataStreamReader(SparkDataStreamReader):
    """`MiniSparkSession.readStream`."""

    def __init__(self, session: MiniSparkSession):
        self._mini = session
        self._spark = session.spark
        self._jreader = _ReaderRecorder(format=session.spark.conf.get("spark.sql.sources.default"))

    def schema(self, schema: StructType | str) -> DataStreamReader:
        super().schema(schema)
        parsed = self._jreader.state["schema"]
        if isinstance(parsed, str):
            parsed = self._spark._jvm.org.apache.spark.sql.types.StructType.fromDDL(parsed)  # type: ignore[union-attr]
        self._spark._jvm.org.apache.spark.sql.catalyst.util.CharVarcharUtils.failIfHasCharVarchar(parsed)  # type: ignore[union-attr]
        self._jreader.state["schema"] = _parse_datatype_json_string(parsed.json())
        return self

    def _df(self, jdf: _ReaderRecorder) -> DataFrame:
        state = jdf.state
        if "table" in state:
            return self._table(state["table"], state["options"])
        if (timed := TIMED_SOURCES.get(state["format"].lower())) is not None:
            relation = timed(self._spark, state.get("schema"), state["options"], self._mini.clock)
            return streaming_dataframe(self._mini, relation)
        create = SOURCES.get(state["format"].lower())
        options = state["options"] | ({"path": state["path"]} if state.get("path") else {})
        if create is None and (custom := find_source(state["format"])) is not None:
            return streaming_dataframe(self._mini, custom(self._spark, state.get("schema"), options))
        if create is None and (found := find_data_source(self._spark, state["format"])) is not None:
            return streaming_dataframe(self._mini, python_relation(self._spark, found, state.get("schema"), options))
        if create is None:
            self._spark.readStream.format(state["format"]).load()  # what Spark refuses too, it refuses in its own words
            raise unknown_format(self._spark, state["format"])
        options = dict(state["options"])
        path = state.get("path") or options.pop("path", None)
        return streaming_dataframe(
            self._mini, create(self._spark, state["format"].lower(), path, state.get("schema"), options)
        )

    def _table(self, name: str, options: Mapping[str, str]) -> DataFrame:
        """A view of a stream is that stream; a table of files is a file source over its folder. Spark finds both."""
        found = self._spark.readStream.options(**options).table(name)
        plan = plans.analyzed(found)
        if streaming_sources(self._spark, plan):
            return found
        relation = plan.collectLeaves().apply(0)
        file_format = relation.dataSource().className().lower() if scala.class_name(relation) == "StreamingRelation" else ""
        if file_format not in FILE_FORMATS:
            raise AnalysisException(message=f"minispark_stream cannot read {name} as a stream: it is no table of files.")
        stored = relation.dataSource().options()
        merged = {key: stored.apply(key) for key in scala.items(stored.keys().toSeq())}
        path = merged.pop("path")
        source = file_stream_relation(self._spark, file_format, path, found.schema, merged)
        return streaming_dataframe(self._mini, source).alias(name.split(".")[-1].strip("`"))


class _WriterRecorder(_Recorder):
    def outputMode(self, mode: str) -> _WriterRecorder:  # noqa: N802
        self.state["outputMode"] = mode
        return self

    def queryName(self, name: str) -> _WriterRecorder:  # noqa: N802
        self.state["queryName"] = name
        return self

    def trigger(self, trigger: Any) -> _WriterRecorder:
        self.state["trigger"] = trigger
        return self

    def partitionBy(self, columns: Any) -> _WriterRecorder:  # noqa: N802
        self.state["partitionBy"] = [columns.apply(i) for i in range(columns.size())]
        return self


class DataStreamWriter(SparkDataStreamWriter):
    """`DataFrame.writeStream` of a DataFrame that reads from one of our sources."""

    def __init__(self, df: DataFrame, session: MiniSparkSession):
        self._df = df
        self._mini = session
        self._spark = session.spark
        self._jwrite = _WriterRecorder(format=session.spark.conf.get("spark.sql.sources.default"), outputMode="append")

    def outputMode(self, outputMode: str) -> DataStreamWriter:  # noqa: N802, N803
        super().outputMode(outputMode)
        modes = self._spark._jvm.org.apache.spark.sql.catalyst.streaming.InternalOutputModes  # type: ignore[union-attr]
        self._jwrite.state["outputMode"] = modes.apply(outputMode).toString().lower()
        return self

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> DataStreamWriter:  # noqa: N802
        self._jwrite.state.update(format="foreachBatch", function=func)
        return self

    def foreach(self, f: Any) -> DataStreamWriter:  # a function, or an object with process and perhaps open and close
        self._jwrite.state.update(format="foreach", function=self._construct_foreach_function(f))
        return self

    def start(
        self,
        path: str | None = None,
        format: str | None = None,  # noqa: A002
        outputMode: str | None = None,  # noqa: N803
        partitionBy: str | list[str] | None = None,  # noqa: N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,
    ) -> StreamingQuery:
        """Start the query.

        Returns:
            the running query, with PySpark's StreamingQuery methods and `.trace`.

        Raises:
            AnalysisException: what Spark refuses before a query starts.
        """
        self._configure(format, outputMode, partitionBy, queryName, options)
        if path is not None:
            legacy = "spark.sql.legacy.pathOptionBehavior.enabled"
            if "path" in self._jwrite.state["options"] and self._spark.conf.get(legacy) == "false":
                raise analysis_error(self._spark, "_LEGACY_ERROR_TEMP_1188", method="start", config=legacy)
            return self._start({"path": path})
        return self._start({})

    def _configure(
        self, source: str | None, mode: str | None, partition_by: Any, name: str | None, options: dict[str, Any]
    ) -> None:
        self.options(**options)
        if mode is not None:
            self.outputMode(mode)
        if partition_by is not None:
            self.partitionBy(partition_by)
        if source is not None:
            self.format(source)
        if name is not None:
            self.queryName(name)

    def _start(self, path: dict[str, str]) -> StreamingQuery:
        state = self._jwrite.state
        options = state["options"] | path  # the path is of this start alone: a writer may be started again
        trigger = self._trigger()
        sink_format = state["format"] if state["format"] == "foreachBatch" else state["format"].lower()
        return self._mini.streams.start_query(
            self._df,
            self._sink(sink_format, options),
            name=state.get("queryName"),
            output_mode=state["outputMode"],
            trigger=trigger,
            options=options,
            temporary_checkpoint=sink_format in ONE_TIME_SINKS,
            recover_from_checkpoint=sink_format != "memory" or state["outputMode"] == "complete",
        )

    def _trigger(self) -> Trigger:
        given = self._jwrite.state.get("trigger")
        trigger = ProcessingTimeTrigger() if given is None else from_java(given)
        if trigger is None:
            raise AnalysisException(message=f"minispark_stream has no engine for the trigger {given.toString()}.")
        return trigger

    def _sink(self, sink_format: str, options: Mapping[str, str]) -> Sink:
        state = self._jwrite.state
        if sink_format in ("memory", "foreach", "foreachBatch") and "partitionBy" in state:
            raise analysis_error(self._spark, "_LEGACY_ERROR_TEMP_1197", operation=sink_format)
        match sink_format:
            case "memory":
                if not state.get("queryName"):
                    raise analysis_error(self._spark, "_LEGACY_ERROR_TEMP_1194")
                return MemorySink(self._spark, state["queryName"], self._df.schema, state["outputMode"])
            case "console":
                return ConsoleSink(options)
            case "noop":
                return NoopSink()
            case "kafka":
                return KafkaSink(self._spark, options)
            case "delta":
                return DeltaSink(self._spark, self._df, state.get("partitionBy", []), options, state["outputMode"])
            case "foreachBatch":
                return ForeachBatchSink(state["function"])
            case "foreach":
                return ForeachSink(state["function"])
            case _ if sink_format in FILE_FORMATS:
                columns = state.get("partitionBy", [])
                return FileStreamSink(self._spark, sink_format, self._df, columns, options, state["outputMode"])
            case _ if (custom := find_sink(sink_format)) is not None:
                return custom(self._spark, options, state.get("partitionBy", []), state["outputMode"])
            case _ if (found := find_data_source(self._spark, state["format"])) is not None:
                source = created(self._spark, found, options)
                return PythonDataSourceSink(self._spark, source, self._df.schema, state["outputMode"])
            case _:
                raise unknown_format(self._spark, state["format"])

    def toTable(  # noqa: N802
        self,
        tableName: str,  # noqa: N803
        format: str | None = None,  # noqa: A002
        outputMode: str | None = None,  # noqa: N803
        partitionBy: str | list[str] | None = None,  # noqa: N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,
    ) -> StreamingQuery:
        """Start the query with a table of files as its sink; the table is created if it does not exist.

        Raises:
            AnalysisException: what Spark refuses before a query starts.
        """
        self._configure(format, outputMode, partitionBy, queryName, options)
        state = self._jwrite.state
        columns = state.get("partitionBy", [])
        location = table_location(
            self._spark, self._df, tableName, state["format"], columns, state["options"]
        )
        return self._start({"path": location})
