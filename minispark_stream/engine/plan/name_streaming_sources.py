"""Names of sources: they say which source a logged offset belongs to, even after the query has been changed.

Models: NameStreamingSources and StreamingSourceIdentifyingName; of MicroBatchExecution, the map from ids to sources (From query
to the plan).

1. `load` requires a name if `spark.sql.streaming.queryEvolution.enableSourceEvolution` is on, and refuses one if it is off.
2. `start` refuses a query in which a name occurs twice, even if that is one stream which the query uses twice.
3. A source has its own folder, `sources/<name>`; for sources without a name it is `sources/0`, `sources/1`, ...
4. In the offset log, a source is identified by its name if the checkpoint was begun with named sources, or if it is new and the
   conf is on; otherwise by the number of its leaf in the query's plan.

    name("clicks"), name("views")    sources/clicks  sources/views    clicks:{"logOffset":3}   views:{"logOffset":1}
    the same, with the conf off      sources/clicks  sources/views    {"logOffset":3}          {"logOffset":1}
    without names                    sources/0       sources/1        {"logOffset":3}          {"logOffset":1}

Differs from Spark: nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.jvm.errors import analysis_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.plan.streaming_relation import StreamingRelation, streaming_sources

SOURCE_EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


def named(session: SparkSession, relation: StreamingRelation, name: str | None) -> StreamingRelation:  # (1)
    """The relation that `load` puts into the plan, with the name that `readStream.name` was given.

    Raises:
        AnalysisException: STREAMING_QUERY_EVOLUTION_ERROR.
    """
    error, evolves = "STREAMING_QUERY_EVOLUTION_ERROR", sessions.flag(session, SOURCE_EVOLUTION)
    if evolves and name is None:
        info = f"Leaf position 0 - {relation.source_name}"
        raise analysis_error(session, f"{error}.UNNAMED_STREAMING_SOURCES_WITH_ENFORCEMENT", sourceInfo=info)
    if not evolves and name is not None:
        raise analysis_error(session, f"{error}.SOURCE_NAMING_NOT_SUPPORTED", name=name)
    return replace(relation, name=name)


def check_names_are_unique(session: SparkSession, analyzed: JavaObject) -> None:  # (2)
    """Raises AnalysisException (STREAMING_QUERY_EVOLUTION_ERROR.DUPLICATE_SOURCE_NAMES) if a name occurs twice."""
    names = [relation.name for _, relation in streaming_sources(session, analyzed) if relation.name is not None]
    if twice := [f"'{name}'" for name in sorted(set(names)) if names.count(name) > 1]:
        condition = "STREAMING_QUERY_EVOLUTION_ERROR.DUPLICATE_SOURCE_NAMES"
        raise analysis_error(session, condition, names=", ".join(twice))


def folder_names(relations: Iterable[StreamingRelation]) -> list[str]:  # (3)
    """The folder below `sources/` of each source of a query."""
    numbers = itertools.count()
    return [str(next(numbers)) if relation.name is None else relation.name for relation in relations]


def source_ids(leaves: Sequence[tuple[StreamingRelation, int]], evolves: bool) -> dict[str, int]:  # (4)
    """The number of each source by its id in the offset log.

    Args:
        leaves: for each streaming leaf of the plan, the relation that it stands for and the number of its source.
        evolves: whether the ids are names.

    Raises:
        AssertionError: a source has no name.
    """
    if not evolves:
        return {str(i): source for i, (_, source) in enumerate(leaves)}
    if any(relation.name is None for relation, _ in leaves):
        raise AssertionError(
            "assertion failed: All sources should be named at this point - validation should have happened in analysis. Give "
            "each source its name with readStream.name(...), or start the query with a new checkpoint location and "
            f"{SOURCE_EVOLUTION} off."
        )
    return {str(relation.name): source for relation, source in leaves}
