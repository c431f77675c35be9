"""The names for `format(...)`: the sources and sinks of the model, and those that you add; and the operators that you add.

Models: DataSource.lookupDataSource (Source and Sink documents: short names), StreamSourceProvider and StreamSinkProvider,
whose arguments the factories take.

A name is looked up in this order, whatever its case; but memory, foreach and foreachBatch have only this spelling:
1. the sources and sinks of the model;
2. those that were given to `register_source` and `register_sink`;
3. the entry points `minispark_stream.sources` and `minispark_stream.sinks` of the installed packages;
4. Python data sources (`spark.dataSource.register`), which are the better choice for what should also run on real Spark;
5. the data source of Spark that has a class of this name, if it is one of (1).

Here are a source that returns two more numbers in each batch, and a sink that keeps its rows, both used by `format("count")`:

    def at(offset):                                                # an offset is JSON text, or None at the very beginning
        return json.loads(offset)["n"] if offset else 0

    class Count(SupportsAdmissionControl):
        description = "Count"

        def __init__(self, session):
            self.session = session

        def latest_offset(self, start, limit):                     # how far may the next batch read?
            return json.dumps({"n": at(start) + 2})

        def get_batch(self, start, end):                           # a plan for the rows in (start, end]; reads nothing
            return self.session.range(at(start), at(end))

    def count(session, schema, options):                           # SourceFactory
        return StreamingRelation("count", session.range(0).schema, lambda query_session, metadata_path: Count(query_session))

    class Keep(Sink):
        description, rows = "Keep", {}

        def add_batch(self, batch_id, data):                       # the same id twice is the same data twice
            self.rows[batch_id] = data.collect()

    minispark_stream.register_source("count", count)
    minispark_stream.register_sink("count", lambda session, options, partition_columns, output_mode: Keep())

As an entry point, in the pyproject.toml of your package:   [project.entry-points."minispark_stream.sources"]
                                                            count = "my_package.counting:count"

`df.groupBy("k").operator("every_nth", n=3)` looks the name up in the same way, among what was given to `register_operator` and
the entry points `minispark_stream.operators`; docs/extending.md has an operator.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamReader as SparkDataStreamReader
from pyspark.sql.types import StructType

from minispark_stream import on_request
from minispark_stream.engine.jvm import files
from minispark_stream.engine.jvm.builders import short_name
from minispark_stream.engine.jvm.errors import analysis_error
from minispark_stream.engine.operators.join.symmetric_hash_join import register_join_state_format
from minispark_stream.engine.operators.operator_of_ones_own import Operator
from minispark_stream.engine.plan.streaming_relation import StreamingRelation
from minispark_stream.engine.runtime.template import register_stateful_operator
from minispark_stream.engine.sinks.base import Sink, SinkSpec
from minispark_stream.engine.sinks.console import ConsoleSink
from minispark_stream.engine.sinks.file import FileStreamSink
from minispark_stream.engine.sinks.foreach import ForeachSink
from minispark_stream.engine.sinks.foreach_batch import ForeachBatchSink
from minispark_stream.engine.sinks.memory import MemorySink
from minispark_stream.engine.sinks.noop import NoopSink
from minispark_stream.engine.sources.base import SourceSpec
from minispark_stream.engine.sources.file import FILE_FORMATS, file_stream_relation
from minispark_stream.engine.sources.rate_micro_batch import rate_micro_batch_relation
from minispark_stream.engine.state.state_store import ROCKS_DB_PROVIDER, register_state_store_provider

SourceFactory = Callable[[SparkSession, StructType | None, Mapping[str, str]], StreamingRelation]
SinkFactory = Callable[[SparkSession, Mapping[str, str], list[str], str], Sink]
OperatorFactory = Callable[..., Operator]

# (1)
SOURCES: dict[str, Callable[[SourceSpec], StreamingRelation]] = {
    **dict.fromkeys(
        FILE_FORMATS,
        lambda spec: file_stream_relation(
            spec.session, spec.format.lower(), spec.path, spec.schema, spec.options, spec.spelt_options
        ),
    ),
    "rate": on_request.rate_relation,
    "rate-micro-batch": lambda spec: rate_micro_batch_relation(spec.session, spec.schema, spec.options),
    "socket": on_request.socket_relation,
    "kafka": on_request.kafka_relation,
}
SINKS: dict[str, Callable[[SinkSpec], Sink]] = {
    "memory": lambda spec: MemorySink(spec.session, spec.query_name, spec.df.schema, spec.output_mode),
    "console": lambda spec: ConsoleSink(spec.session, spec.options),
    "noop": lambda spec: NoopSink(),
    "foreachBatch": lambda spec: ForeachBatchSink(spec.function),
    "foreach": lambda spec: ForeachSink(spec.function),
    **dict.fromkeys(FILE_FORMATS, FileStreamSink),
    "delta": on_request.delta_sink,
    "kafka": on_request.kafka_sink,
}
ONE_TIME_SINKS = ("memory", "console", "noop", "foreachBatch", "foreach")  # these may do without a lasting checkpoint

register_stateful_operator("TransformWithStateInPySpark", on_request.transform_with_state)
register_join_state_format("3", on_request.join_in_families)
register_join_state_format("4", on_request.join_by_time)
register_state_store_provider(ROCKS_DB_PROVIDER, on_request.rocks_db_files, on_request.rocks_db_files_with_ids)

# (2)
_registered: dict[str, dict[str, Any]] = {"sources": {}, "sinks": {}, "operators": {}}


def register_source(name: str, factory: SourceFactory) -> None:
    """Make `readStream.format(name)` call `factory(session, schema, options)`.

    Args:
        name: a name that the model does not use itself; a second registration replaces the first.
        factory: receives the session, the schema given to `readStream.schema` (or None) and the options (names in lower
            case; the argument of `load(path)` is the option `path`); returns a StreamingRelation.

    Raises:
        ValueError: the name is one of the model's own.
    """
    _register("sources", name, factory, tuple(SOURCES))


def register_sink(name: str, factory: SinkFactory) -> None:
    """Make `writeStream.format(name)` call `factory(session, options, partition_columns, output_mode)`.

    Args:
        name: a name that the model does not use itself; a second registration replaces the first.
        factory: receives the session, the options (names in lower case; the argument of `start(path)` is the option `path`),
            the names given to `partitionBy`, and "append", "update" or "complete"; returns a Sink.

    Raises:
        ValueError: the name is one of the model's own.
    """
    _register("sinks", name, factory, tuple(SINKS))


def register_operator(name: str, factory: OperatorFactory) -> None:
    """Make `df.groupBy(...).operator(name, **options)` call `factory(**options)`.

    Args:
        name: the operator's name, which is also that in progress reports and in the checkpoint; a second registration replaces
            the first.
        factory: receives the options by their names; returns an Operator. Mostly it is the class itself.
    """
    _register("operators", name, factory, ())


def create_operator(name: str, options: Mapping[str, Any]) -> Operator:
    """The operator that `operator(name, **options)` adds to a query.

    Raises:
        AnalysisException: no operator has this name, or its entry point cannot be loaded.
    """
    factory: OperatorFactory | None = find("operators", name)
    if factory is None:
        known = [*_registered["operators"], *(point.name for point in entry_points(group="minispark_stream.operators"))]
        raise AnalysisException(
            message=f"No operator is registered as '{name}'. Registered are: {', '.join(sorted(set(known))) or 'none'}."
        )
    return factory(**options)


def create_relation(spec: SourceSpec) -> StreamingRelation:
    """What `readStream.format(...).load()` reads from.

    Raises:
        AnalysisException: the format is unknown, its entry point cannot be loaded, or the source refuses its options.
    """
    if (create := SOURCES.get(spec.format.lower())) is not None:
        return create(spec)
    options = {**spec.options, **({"path": spec.path} if spec.path else {})}
    custom: SourceFactory | None = find("sources", spec.format)
    if custom is not None:
        return custom(spec.session, spec.schema, options)
    if (relation := on_request.python_relation(spec, options)) is not None:  # (4)
        return relation
    in_spark(spec, None)  # what Spark refuses too, it refuses in its own words
    if (name := short_name(spec.session, spec.format)) in SOURCES:  # (5)
        return create_relation(replace(spec, format=name))
    raise _unknown_format("source", spec.format, SOURCES)


def in_spark(spec: SourceSpec, name: str | None) -> DataFrame:
    """What Spark's own `readStream.format(...).load()` returns. Raises as Spark does."""
    reader = SparkDataStreamReader(spec.session).format(spec.format).options(**spec.spelt_options)
    reader = reader.schema(spec.schema) if spec.schema else reader
    return (reader.name(name) if name else reader).load(spec.path)


def create_sink(spec: SinkSpec) -> Sink:
    """What `writeStream.format(...).start()` writes to. Raises as `create_relation` does."""
    if (create := SINKS.get(sink_name(spec.format))) is not None:
        return create(spec)
    custom: SinkFactory | None = find("sinks", spec.format)
    if custom is not None:
        return custom(spec.session, spec.options, spec.partition_by, spec.output_mode)
    if (sink := on_request.python_sink(spec)) is not None:  # (4)
        return sink
    if spec.format.lower() == "hive":
        raise analysis_error(spec.session, "_LEGACY_ERROR_TEMP_1187", operation="write")
    if (create := SINKS.get(short_name(spec.session, spec.format) or "")) is not None:  # (5)
        return create(spec)
    files.check_is_written_as_a_stream(spec.session, spec.format)
    raise _unknown_format("sink", spec.format, SINKS)


def sink_name(given: str) -> str:
    """A format as SINKS spells it. The sinks that are not data sources in Spark have only one spelling."""
    return given if given.lower() in ("memory", "foreach", "foreachbatch") else given.lower()


def _register(kind: str, name: str, factory: Any, taken: tuple[str, ...]) -> None:
    if name.lower() in (t.lower() for t in taken):
        raise ValueError(f"'{name}' is the name of one of minispark_stream's own {kind}; register yours under another name.")
    if not callable(factory):
        raise TypeError(f"The factory of '{name}' must be callable, not {type(factory).__name__}.")
    _registered[kind][name.lower()] = factory


def find(kind: str, name: str) -> Any:
    """The factory of a source, sink or operator that is not the model's, or None; `kind` is the plural of these words.

    Raises:
        AnalysisException: an entry point with that name cannot be loaded.
    """
    if (factory := _registered[kind].get(name.lower())) is not None:
        return factory
    for point in entry_points(group=f"minispark_stream.{kind}"):  # (3)
        if point.name.lower() == name.lower():
            try:
                return point.load()
            except Exception as e:
                package = f" of {point.dist.name} {point.dist.version}" if point.dist else ""
                raise AnalysisException(
                    message=f"The entry point '{point.name} = {point.value}' (minispark_stream.{kind}){package} cannot be "
                    f"loaded: {type(e).__name__}: {e}"
                ) from e
    return None


def _unknown_format(kind: str, name: str, known: Iterable[str]) -> Exception:
    """The error for a format that Spark knows and the model does not; it lists what the model has."""
    return AnalysisException(
        message=f"minispark_stream has no streaming {kind} for the format '{name}'. Its {kind}s: {', '.join(known)}."
    )
