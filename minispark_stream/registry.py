"""The names behind `format(...)`: the sources and sinks of the model, and those that you bring.

Models: DataSource.lookupDataSource (Source and Sink documents: short names), StreamSourceProvider and StreamSinkProvider,
whose arguments the factories take.

A name is looked up, in any case, among
1. the sources and sinks of the model;
2. what `register_source` and `register_sink` were given;
3. the entry points `minispark_stream.sources` and `minispark_stream.sinks` of the packages that are installed;
4. Python data sources (`spark.dataSource.register`), the way to go for what runs on real Spark, too (readwriter.py).

A source that gives two numbers more in each batch, and a sink that keeps its rows; used by `format("count")`:

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

Differs from Spark: Spark knows a provider by the name of its class, too, and one class can be source and sink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.plan.streaming_relation import StreamingRelation
from minispark_stream.sinks.base import Sink
from minispark_stream.sources.file import file_stream_relation
from minispark_stream.sources.kafka import kafka_relation
from minispark_stream.sources.rate import rate_relation
from minispark_stream.sources.rate_micro_batch import rate_micro_batch_relation
from minispark_stream.sources.socket import socket_relation

CreateRelation = Callable[[SparkSession, str, str | None, StructType | None, Mapping[str, str]], StreamingRelation]
SourceFactory = Callable[[SparkSession, StructType | None, Mapping[str, str]], StreamingRelation]
SinkFactory = Callable[[SparkSession, Mapping[str, str], list[str], str], Sink]

# (1)
FILE_FORMATS = ("csv", "json", "text", "parquet", "orc")
SOURCES: dict[str, CreateRelation] = {
    **dict.fromkeys(FILE_FORMATS, file_stream_relation), "rate-micro-batch": rate_micro_batch_relation,
}
# Sources that look at the clock: they get the one of the engine.
TIMED_SOURCES = {"rate": rate_relation, "socket": socket_relation, "kafka": kafka_relation}
ONE_TIME_SINKS = ("memory", "console", "noop", "foreachBatch", "foreach")  # these may do without a lasting checkpoint
SINKS = (*ONE_TIME_SINKS, *FILE_FORMATS, "delta", "kafka")

# (2)
_registered: dict[str, dict[str, Any]] = {"sources": {}, "sinks": {}}


def register_source(name: str, factory: SourceFactory) -> None:
    """Make `readStream.format(name)` call `factory(session, schema, options)`.

    Args:
        name: a name that the model does not use itself; a second registration replaces the first.
        factory: gets the session, the schema that `readStream.schema` was given (or None) and the options (names in lower
            case; what `load(path)` was given is the option `path`); returns a StreamingRelation.

    Raises:
        ValueError: the name is one of the model's own.
    """
    _register("sources", name, factory, (*SOURCES, *TIMED_SOURCES))


def register_sink(name: str, factory: SinkFactory) -> None:
    """Make `writeStream.format(name)` call `factory(session, options, partition_columns, output_mode)`.

    Args:
        name: a name that the model does not use itself; a second registration replaces the first.
        factory: gets the session, the options (names in lower case; what `start(path)` was given is the option `path`), the
            names that `partitionBy` was given, and "append", "update" or "complete"; returns a Sink.

    Raises:
        ValueError: the name is one of the model's own.
    """
    _register("sinks", name, factory, SINKS)


def find_source(name: str) -> SourceFactory | None:
    """The factory of a source that is not the model's, or None.

    Raises:
        AnalysisException: there is an entry point of that name that cannot be loaded.
    """
    found: SourceFactory | None = _find("sources", name)
    return found


def find_sink(name: str) -> SinkFactory | None:
    """The factory of a sink that is not the model's, or None. Raises as `find_source` does."""
    found: SinkFactory | None = _find("sinks", name)
    return found


def _register(kind: str, name: str, factory: Any, taken: tuple[str, ...]) -> None:
    if name.lower() in (t.lower() for t in taken):
        raise ValueError(f"'{name}' is the name of one of minispark_stream's own {kind}; register yours under another name.")
    if not callable(factory):
        raise TypeError(f"The factory of '{name}' must be callable, not {type(factory).__name__}.")
    _registered[kind][name.lower()] = factory


def _find(kind: str, name: str) -> Any:
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


def unknown_format(spark: SparkSession, name: str) -> Exception:
    """Spark's own error for a format that it does not know either; else a word on what the model has."""
    sources = spark._jvm.org.apache.spark.sql.execution.datasources.DataSource  # type: ignore[union-attr]
    try:
        sources.lookupDataSource(name, spark._jsparkSession.sessionState().conf())
    except Exception as e:
        return e
    return AnalysisException(
        message=f"minispark_stream has no streaming source or sink for the format '{name}'. "
        f"Sources: {', '.join((*SOURCES, *TIMED_SOURCES))}. Sinks: {', '.join(SINKS)}."
    )
