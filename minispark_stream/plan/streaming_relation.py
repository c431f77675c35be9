"""A stream in a plan: a leaf without rows that remembers which source it stands for.

Models: StreamingRelation (From query to the plan).

    LogicalRDD [value#0], isStreaming=true      <- the leaf; its RDD leads to StreamingRelation("text", ...)
    Project [explode(split(value#0, ' ')) AS word#1]
    Aggregate [word#1], [word#1, count(1)]

1. `readStream.load()` makes a relation over an empty RDD, and notes in the JVM that this RDD has token 7, and in Python that
   token 7 stands for this source.
2. The JVM holds the RDD weakly: when no plan has it any more, it is collected, and its token with it.
3. When the next leaf is made, Python forgets the tokens that the JVM does not have any more.

Differs from Spark: Spark's leaf is a StreamingRelation node that carries its source; ours is Spark SQL's relation
over an (empty) RDD, because that is a node that a plan may hold without any class of Structured Streaming. Each `load()` makes
an RDD of its own, so that two loads of one folder are not `sameSemantics`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.jvm import expressions, plans, scala
from minispark_stream.jvm.scala import JavaObject


@dataclass(frozen=True)
class StreamingRelation:
    """What `readStream.load()` leaves in the plan: enough to create the source when a query starts.

    `create(session, metadata_path)` is called once per query on the query's own thread, with the query's session
    and the source's own folder in the checkpoint (`sources/<i>`).
    """

    source_name: str
    schema: StructType
    create: Callable[[SparkSession, str], Any]


@dataclass(frozen=True)
class StreamingLeaf:
    """What a streaming leaf stands for, and the model session that is to run it."""

    relation: StreamingRelation
    session: SparkSession


class _Leaves:
    """What the leaves stand for, for as long as a plan has them (see above)."""

    def __init__(self) -> None:
        self._by_token: dict[int, StreamingLeaf] = {}
        self._tokens = itertools.count()
        self._lock = threading.Lock()

    def add(self, session: SparkSession, rdd: JavaObject, leaf: StreamingLeaf) -> None:  # (1)
        tokens = _tokens_of_rdds(scala.jvm(session))
        with self._lock:
            token = next(self._tokens)
            tokens.put(rdd, token)
            self._by_token[token] = leaf
            if tokens.size() < len(self._by_token):  # (3)
                alive = set(map(int, scala.texts(session, scala.as_scala(session, tokens).values())))
                self._by_token = {t: found for t, found in self._by_token.items() if t in alive}

    def get(self, session: SparkSession, rdd: JavaObject) -> StreamingLeaf | None:
        with self._lock:
            return self._by_token.get(_tokens_of_rdds(scala.jvm(session)).get(rdd))

    def __len__(self) -> int:
        return len(self._by_token)


@lru_cache(maxsize=1)
def _tokens_of_rdds(view: Any) -> JavaObject:  # (2)
    """The map from RDDs to tokens, one for each JVM."""
    return view.java.util.WeakHashMap()


# Any PySpark call may put a leaf into a new plan, so who a leaf belongs to must be known to the whole process.
_leaves = _Leaves()


def streaming_dataframe(session: SparkSession, relation: StreamingRelation) -> DataFrame:
    """The streaming DataFrame of a source that has not been started yet; `session` is the model's."""
    rdd = plans.empty_rows(session)
    _leaves.add(session, rdd, StreamingLeaf(relation, session))
    return plans.rdd_frame(session, rdd, expressions.java_schema(session, relation.schema), streaming=True)


def streaming_leaf(session: SparkSession, node: JavaObject) -> StreamingLeaf | None:
    """What a plan node stands for, or None when it is no leaf of ours."""
    return _leaves.get(session, node.rdd()) if scala.class_name(node) == "LogicalRDD" else None


def streaming_sources(session: SparkSession, plan: JavaObject) -> list[tuple[tuple[int, ...], StreamingRelation]]:
    """The streaming leaves of an analysed plan, in order: what identifies the source, and what it stands for.

    A stream that is used twice (`df.union(df)`) is one source with two leaves, and two lines in the offset log.
    """
    found = []
    for leaf in scala.items(plan.collectLeaves()):
        stream = streaming_leaf(session, leaf)
        if stream is not None:
            found.append((leaf_key(leaf), stream.relation))
    return found


def leaf_key(leaf: JavaObject) -> tuple[int, ...]:
    """What tells one streaming leaf from another."""
    return (leaf.rdd().id(), *(a.exprId().id() for a in scala.items(leaf.output())))


def model_session_of(df: DataFrame) -> SparkSession | None:
    """The model session that runs this DataFrame's stream; None when it reads from no source of ours."""
    if not df.isStreaming:
        return None
    leaves = (streaming_leaf(df.sparkSession, leaf) for leaf in scala.items(plans.analyzed(df).collectLeaves()))
    return next((leaf.session for leaf in leaves if leaf is not None), None)
