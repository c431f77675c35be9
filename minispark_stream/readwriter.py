"""readStream and writeStream: PySpark's own builders, leading to this engine.

Models: DataStreamReader and DataStreamWriter (the StructuredStreaming analysis: short names are looked up, then the source
or sink is created; Execution flow).

1. PySpark's classes do everything that is API: signatures, checks of arguments, conversion of options. They forward to a
   Java builder (`_jreader`, `_jwrite`); the classes here use a small Python recorder instead.
2. `load` turns the record into a SourceSpec, from which the registry makes a relation, which becomes a streaming DataFrame.
3. `start` turns the record into a SinkSpec, from which the registry makes a sink, and the query manager starts the query.

    readStream.format("text").option("maxFilesPerTrigger", 1).load("in")   SourceSpec(format "text", path "in",
                                                                                      options {"maxfilespertrigger": "1"}, ...)

PySpark makes the trigger, so PySpark's own errors refuse arguments such as "-1 second".

Differs from Spark: formats for which the model has no source or sink, and tables without files, are refused with an error that
names what is missing.
Shown by tests/spark/test_differences.py::test_what_only_the_model_refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

from pyspark.errors import AnalysisException
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamReader as SparkDataStreamReader
from pyspark.sql.streaming import DataStreamWriter as SparkDataStreamWriter

from minispark_stream.engine.clock import Clock
from minispark_stream.engine.jvm import builders, scala, sessions
from minispark_stream.engine.jvm.errors import analysis_error
from minispark_stream.engine.jvm.queries import refuse
from minispark_stream.engine.plan.name_streaming_sources import named
from minispark_stream.engine.plan.streaming_relation import model_session_of, streaming_dataframe
from minispark_stream.engine.runtime.real_time_mode import check_confs as check_confs_of_real_time
from minispark_stream.engine.runtime.real_time_mode import check_sink_and_interval
from minispark_stream.engine.runtime.trigger_executor import (
    ContinuousTrigger,
    ProcessingTimeTrigger,
    RealTimeTrigger,
    from_java,
)
from minispark_stream.engine.runtime.unsupported_confs import check_sink_is_not_disabled
from minispark_stream.engine.sinks.base import SinkSpec
from minispark_stream.engine.sinks.memory import MemorySink
from minispark_stream.engine.sinks.table import table_location
from minispark_stream.engine.sources.base import SourceSpec
from minispark_stream.engine.sources.source_options import warn_of_misspelt
from minispark_stream.engine.sources.table import with_tables_of_files
from minispark_stream.registry import ONE_TIME_SINKS, create_relation, create_sink, in_spark, sink_name
from minispark_stream.streaming_query import StreamingQuery
from minispark_stream.streaming_query_manager import StreamingQueryManager


class _Recorder:  # (1)
    """Takes the place of PySpark's Java builder, and records the calls. Option names ignore case, as in Spark."""

    def __init__(self, session: SparkSession, **state: Any):
        self.session = session
        default = session.conf.get("spark.sql.sources.default")
        self.state: dict[str, Any] = {"options": {}, "spelling": {}, "format": default, **state}

    def option(self, key: str, value: str | None) -> _Recorder:
        if not isinstance(key, str):
            refuse(self.session, "readStream", "option", key, value)
        self.state["options"][key.lower()], self.state["spelling"][key.lower()] = value, key
        return self

    def format(self, source: str | None) -> _Recorder:
        if not isinstance(source, str | None):
            refuse(self.session, "readStream", "format", source)
        self.state["format"] = source
        return self

    def options_with(self, path: str | None, method: str) -> dict[str, Any]:
        """The options, with the path given to `load` or `start`, which is for this call only: the builder can be used again.

        Raises:
            AnalysisException: there is also an option `path`.
        """
        options: dict[str, Any] = dict(self.state["options"])
        if path is None:
            return options
        if not isinstance(path, str):
            refuse(self.session, "readStream", method, path)
        legacy = "spark.sql.legacy.pathOptionBehavior.enabled"
        if "path" in options and not sessions.flag(self.session, legacy):
            raise analysis_error(self.session, "_LEGACY_ERROR_TEMP_1188", method=method, config=legacy)
        return options | {"path": path}


class _ReaderRecorder(_Recorder):
    def schema(self, schema: Any) -> _ReaderRecorder:
        """A DDL string or a Java StructType."""
        self.state["schema"] = builders.parse_schema(self.session, schema)
        return self

    def name(self, source_name: str) -> _ReaderRecorder:
        SparkDataStreamReader(self.session).name(source_name)  # the JVM refuses "x\n", which PySpark lets pass
        self.state["name"] = source_name
        return self

    def load(self, path: str | None = None) -> _ReaderRecorder:
        self.state["path"] = path
        self.state.pop("table", None)  # of an earlier `table(name)` of the same reader
        return self

    def table(self, name: str) -> _ReaderRecorder:
        self.state["table"] = name
        return self

    def changes(self, name: str) -> _ReaderRecorder:
        """Refused: by Spark, unless the catalog of the table records changes, and otherwise by the model."""
        SparkDataStreamReader(self.session).options(**self.state["options"]).changes(name)
        raise AnalysisException(message=f"minispark_stream cannot read the changes of {name} as a stream.")


def _shorthand(name: str) -> Callable[[_ReaderRecorder, str], _Recorder]:
    """`reader.csv(path)` is `reader.format("csv").load(path)`; json and xml also check the schema."""

    def load(reader: _ReaderRecorder, path: str) -> _Recorder:
        if name in ("json", "xml") and reader.state.get("schema") is not None:
            builders.check_keys_of_maps(reader.session, name, reader.state["schema"])
        return reader.format(name).load(path)  # type: ignore[attr-defined]

    return load


for _name in ("csv", "json", "text", "parquet", "orc", "xml"):
    setattr(_ReaderRecorder, _name, _shorthand(_name))


class DataStreamReader(SparkDataStreamReader):
    """`MiniSparkSession.readStream`; its sources use `clock`."""

    def __init__(self, session: SparkSession, clock: Clock):
        self._spark = session
        self._clock = clock
        self._jreader = _ReaderRecorder(session)

    def _df(self, jdf: _ReaderRecorder) -> DataFrame:
        state = jdf.state
        if "table" in state:
            return self._table(state["table"], state["options"], state.get("name"))
        options = jdf.options_with(state.get("path"), "load")  # (2)
        path = options.pop("path", None)
        warn_of_misspelt(options)
        spec = SourceSpec(self._spark, state["format"], path, state.get("schema"), options, self._clock, state["spelling"])
        relation = named(self._spark, create_relation(spec), state.get("name"))
        asked = {"format": spec.format, "path": path, **spec.options}
        in_its_engine = partial(in_spark, spec, state.get("name"))
        return streaming_dataframe(self._spark, replace(relation, in_spark=in_its_engine, asked=asked))

    def _table(self, name: str, options: Mapping[str, str], source_name: str | None) -> DataFrame:
        """A view of a stream is that stream; a table of files is a file source over its folder. Spark looks both up."""
        reader = SparkDataStreamReader(self._spark).options(**options)
        found = (reader if source_name is None else reader.name(source_name)).table(name)
        read = with_tables_of_files(self._spark, found)
        if read.isStreaming and model_session_of(read) is None:
            raise AnalysisException(message=f"minispark_stream cannot read {name} as a stream: it is not a file-based table.")
        return read


class _WriterRecorder(_Recorder):
    def outputMode(self, mode: str) -> _WriterRecorder:
        self.state["outputMode"] = builders.output_mode(self.session, mode)
        return self

    def queryName(self, name: str) -> _WriterRecorder:
        return self.option("queryName", name)  # type: ignore[return-value]

    def trigger(self, trigger: Any) -> _WriterRecorder:
        self.state["trigger"] = trigger
        return self

    def partitionBy(self, columns: Any) -> _WriterRecorder:
        return self._lay_out("partitionBy", columns)

    def clusterBy(self, columns: Any) -> _WriterRecorder:
        return self._lay_out("clusterBy", columns)

    def _lay_out(self, how: str, columns: Any) -> _WriterRecorder:
        self.state[how] = scala.items(columns)
        if {"partitionBy", "clusterBy"} <= self.state.keys():
            raise analysis_error(self.session, "SPECIFY_CLUSTER_BY_WITH_PARTITIONED_BY_IS_NOT_ALLOWED")
        return self


class DataStreamWriter(SparkDataStreamWriter):
    """`DataFrame.writeStream` of a DataFrame that reads from one of our sources."""

    def __init__(self, df: DataFrame, session: SparkSession):
        self._df = df
        self._spark = session
        self._jwrite = _WriterRecorder(session, outputMode="append")

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> DataStreamWriter:
        self._jwrite.state.update(format="foreachBatch", function=func)
        return self

    def foreach(self, f: Any) -> DataStreamWriter:  # a function, or an object with process and perhaps open and close
        self._jwrite.state.update(format="foreach", function=self._construct_foreach_function(f))
        CloudPickleSerializer().dumps(self._jwrite.state["function"])  # what cannot be sent to the tasks is refused here
        return self

    def start(
        self, path: str | None = None, format: str | None = None, outputMode: str | None = None,
        partitionBy: str | list[str] | None = None, queryName: str | None = None, **options: Any,
    ) -> StreamingQuery:
        """Start the query.

        Returns:
            the running query, with PySpark's StreamingQuery methods and `.trace`.

        Raises:
            AnalysisException: what Spark refuses before a query starts.
        """
        self._configure(format, outputMode, partitionBy, queryName, options)
        if self._jwrite.state["format"] is None:
            SparkDataStreamWriter(self._df).format(None).start(path)  # type: ignore[arg-type]  # raises
        return self._start(self._jwrite.options_with(path, "start"))

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

    def _start(self, options: dict[str, str], table: str | None = None) -> StreamingQuery:
        state = self._jwrite.state
        name = sink_name(state["format"])
        spec = SinkSpec(  # (3)
            session=self._spark,
            df=self._df,
            format=state["format"],
            options=options,
            partition_by=state.get("partitionBy", []),
            cluster_by=state.get("clusterBy", []),
            output_mode=state["outputMode"],
            query_name=options.get("queryname"),
            function=state.get("function"),
            table=table,
        )
        given = state.get("trigger")
        trigger = ProcessingTimeTrigger() if given is None else from_java(given)
        if name in ("memory", "foreach", "foreachBatch") and "partitionBy" in state:
            raise analysis_error(self._spark, "_LEGACY_ERROR_TEMP_1197", operation=name)
        if name == "foreachBatch" and isinstance(trigger, ContinuousTrigger):
            raise analysis_error(self._spark, "_LEGACY_ERROR_TEMP_1195", source=name)
        check_sink_is_not_disabled(self._spark, name)
        sink = create_sink(spec)
        if isinstance(trigger, RealTimeTrigger):
            check_sink_and_interval(self._spark, trigger, sink)
            check_confs_of_real_time(self._spark)
        manager = cast(StreamingQueryManager, self._spark.streams)
        query = manager._start_query(
            self._df,
            sink,
            name=spec.query_name,
            output_mode=spec.output_mode,
            trigger=trigger,
            options=spec.options,
            spelling=self._jwrite.state["spelling"],
            temporary_checkpoint=spec.format in ONE_TIME_SINKS,  # other spellings of them need a checkpoint, as in Spark
            recover_from_checkpoint=name != "memory" or spec.output_mode == "complete",
        )
        if isinstance(sink, MemorySink):  # not before the query is known to run: its name may be that of a view of the user
            sink.publish()
        return query

    def toTable(
        self, tableName: str, format: str | None = None, outputMode: str | None = None,
        partitionBy: str | list[str] | None = None, queryName: str | None = None, **options: Any,
    ) -> StreamingQuery:
        """Start the query with a table of files as its sink; the table is created if it does not exist.

        Raises:
            AnalysisException: what Spark refuses before a query starts.
        """
        self._configure(format, outputMode, partitionBy, queryName, options)
        state = self._jwrite.state
        layout = {how: state.get(how, []) for how in ("partitionBy", "clusterBy")}
        location, name = table_location(self._spark, self._df, tableName, state["format"], layout, state["options"])
        return self._start(state["options"] | {"path": location}, name)
