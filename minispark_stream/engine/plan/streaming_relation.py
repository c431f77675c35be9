"""A stream in a plan: a leaf without rows that remembers which source it stands for.

Models: StreamingRelation, StreamingExecutionRelation (From query to the plan).

    Aggregate [k#2], [k#2, count(1)]
      Project [value#1 % 10 AS k#2]
        LogicalRDD [timestamp#0, value#1], isStreaming=true      <- the leaf; its RDD leads to StreamingRelation("rate", ...)

1. `readStream.load()` makes a relation over an empty RDD. The JVM notes that this RDD has token 7, and Python notes that token
   7 stands for this source. For a source of files, it is a relation over no files instead of an RDD, because from such a
   relation a query may also select `_metadata`, the column in which Spark says where a row comes from.
2. The JVM only holds a weak reference to the RDD (or the relation over files): when no plan contains it any more, it is garbage
   collected, together with its token.
3. When the next leaf is made, Python forgets the tokens that the JVM no longer has.
4. When a query starts, each relation over files is replaced by an RDD with the columns that the query asks for: the optimizer
   would look into the relation and take it for an empty table. If the plan depends on the size of a stream, then in each batch
   each stream is replaced by an RDD whose statistics are those of the new rows.
5. If a query has several sources, those without new rows are empty relations in this batch (engine/runtime/template.py).
6. A leaf does not say what it reads. For `df.explain()` and `df.sameSemantics(other)`, each leaf is replaced by the one that
   Spark's own `readStream` makes.

The leaf is a relation of Spark SQL, because a plan can contain that without any class of Structured Streaming.

Differs from Spark: nothing.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import expressions, files, plans, scala
from minispark_stream.engine.jvm.errors import JavaError
from minispark_stream.engine.jvm.scala import JavaObject


@dataclass(frozen=True)
class StreamingRelation:
    """What a streaming leaf stands for: it can create the source when a query starts.

    `create(session, metadata_path)` is called once per query on the query's own thread, with the query's session and the
    source's folder in the checkpoint (`sources/<i>` or `sources/<name>`). A source of files has a `file_format`, and its
    `get_batch` returns Spark's own relation over the files. `create_continuous` makes a ContinuousStream from the same
    arguments, if the source has one. `name` is that of `readStream.name`. `in_spark` makes the stream of Spark. A relation
    that `is_one_source` remains one in a join with itself, which gives its columns new ids; of another relation, such a join
    makes two sources. `asked`: options of the reader, with `format` and `path`.
    """

    source_name: str
    schema: StructType
    create: Callable[[SparkSession, str], Any]
    file_format: str | None = None
    create_continuous: Callable[[SparkSession, str], Any] | None = None
    name: str | None = None
    in_spark: Callable[[], DataFrame] | None = None
    is_one_source: bool = False
    asked: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class StreamingLeaf:
    """The relation of a `load()`, and the model session that will run it. Every `load()` makes an object of its own."""

    relation: StreamingRelation
    session: SparkSession


class _Leaves:
    """What the leaves stand for, as long as a plan contains them. Streams may be loaded in several threads at once."""

    def __init__(self) -> None:
        self._by_token: dict[int, StreamingLeaf] = {}
        self._tokens = itertools.count()
        self._tokens_in_java: tuple[Any, JavaObject] = None, None
        self._lock = threading.Lock()

    def add(self, session: SparkSession, source: JavaObject, leaf: StreamingLeaf) -> None:  # (1)
        """Note what `source`, an RDD or a relation over files, stands for."""
        with self._lock:
            tokens, token = self._java_tokens(session), next(self._tokens)
            tokens.put(source, token)
            self._by_token[token] = leaf
            if tokens.size() < len(self._by_token):  # (3)
                alive = set(map(int, scala.texts(session, scala.as_scala(session, tokens).values())))
                self._by_token = {t: found for t, found in self._by_token.items() if t in alive}

    def get(self, session: SparkSession, source: JavaObject) -> StreamingLeaf | None:
        with self._lock:
            return self._by_token.get(self._java_tokens(session).get(source))

    def _java_tokens(self, session: SparkSession) -> JavaObject:  # (2)
        """The map from RDDs and relations to tokens, one for each JVM; the caller has the lock."""
        view = scala.jvm(session)
        if self._tokens_in_java[0] is not view:
            self._tokens_in_java = view, view.java.util.WeakHashMap()
        return self._tokens_in_java[1]

    def __len__(self) -> int:
        return len(self._by_token)


# Any call of PySpark may put a leaf into a new plan, so the whole process must be able to look it up here.
_leaves = _Leaves()


def streaming_dataframe(session: SparkSession, relation: StreamingRelation) -> DataFrame:
    """The streaming DataFrame of a source that has not been started yet; `session` is the model's."""
    if relation.file_format is not None:
        return plans.of_rows(session, leaf_over_files(session, relation))
    rdd = plans.empty_rows(session)
    _leaves.add(session, rdd, StreamingLeaf(relation, session))
    return plans.rdd_frame(session, rdd, expressions.java_schema(session, relation.schema), streaming=True)


def leaf_over_files(session: SparkSession, relation: StreamingRelation, output: JavaObject | None = None) -> JavaObject:
    """The leaf of a source of files. If it replaces a leaf in a plan, `output` has the attributes of that one (a Scala Seq)."""
    assert relation.file_format is not None
    leaf = files.stream_of_files(session, relation.file_format, relation.schema, identity=str(uuid.uuid4()))
    _leaves.add(session, leaf.relation(), StreamingLeaf(relation, session))
    return leaf if output is None else scala.call(leaf.copy, **scala.fields(leaf) | {"output": output})


def streaming_leaf(session: SparkSession, node: JavaObject) -> StreamingLeaf | None:
    """What a plan node stands for; None if it is not one of our leaves."""
    name = scala.class_name(node)
    if name not in ("LogicalRDD", "LogicalRelation"):
        return None
    return _leaves.get(session, node.rdd() if name == "LogicalRDD" else node.relation())


def streaming_sources(session: SparkSession, plan: JavaObject) -> list[tuple[tuple[Any, ...], StreamingRelation]]:
    """The streaming leaves of an analysed plan, in order: for each, the key of its source, and what it stands for.

    A stream that is used twice (`df.union(df)`) is one source with two leaves, and two lines in the offset log.
    """
    leaves = [(leaf, streaming_leaf(session, leaf)) for leaf in scala.items(plan.collectLeaves())]
    return [(leaf_key(leaf, stream), stream.relation) for leaf, stream in leaves if stream is not None]


def leaf_key(leaf: JavaObject, stream: StreamingLeaf) -> tuple[Any, ...]:
    """The key of a leaf's source: the `load()`, and the ids of the columns, which Spark makes new in a join with itself."""
    if stream.relation.is_one_source:
        return (stream,)
    return (stream, *(a.exprId().id() for a in scala.items(leaf.output())))


@dataclass(frozen=True)
class SourceKeys:
    """The sources of a query: their keys (`leaf_key`) in its analysed plan, in order."""

    keys: tuple[tuple[Any, ...], ...]

    @staticmethod
    def of_plan(session: SparkSession, analyzed: JavaObject) -> SourceKeys:
        return SourceKeys(tuple(dict(streaming_sources(session, analyzed))))

    def of(self, leaf: JavaObject, stream: StreamingLeaf) -> int:
        """The number of the source that a leaf of the optimised plan belongs to.

        The optimizer copies a common table expression to each of its uses, and the columns of a copy get new ids. A leaf with
        unknown columns is therefore a copy of the leaf with the same `load()`.
        """
        key = leaf_key(leaf, stream)
        return self.keys.index(key if key in self.keys else next(k for k in self.keys if k[0] is stream))

    def asks_for_metadata(self, ordinal: int) -> bool:
        """Whether the query uses `_metadata`, a column that only sources of files have."""
        stream, *columns = self.keys[ordinal]
        return len(columns) > len(stream.relation.schema)


def as_in_spark(df: DataFrame) -> DataFrame:  # (6)
    """`df`, to be looked at, and not to be run. A leaf that Spark cannot make (its folder is gone) stays as it is."""
    if model_session_of(df) is None:
        return df
    session, plan = df.sparkSession, plans.parsed(df)
    if (whole := _in_spark(session, plan)) is not None:
        return whole

    def of_spark(leaf: JavaObject) -> JavaObject:
        if (found := _in_spark(session, leaf)) is None:
            return leaf
        made = plans.analyzed(found)
        return scala.call(made.copy, **scala.fields(made) | {"output": leaf.output()})

    return plans.of_rows(session, plans.with_leaves(session, plan, of_spark))


def _in_spark(session: SparkSession, node: JavaObject) -> DataFrame | None:
    stream = streaming_leaf(session, node)
    if stream is None or stream.relation.in_spark is None:
        return None
    try:
        return stream.relation.in_spark()
    except (PySparkException, JavaError):
        return None


def described(session: SparkSession, plan: JavaObject) -> str:
    """A plan as Spark prints it; each streaming leaf shows its source, as in `StreamingRelation FileSource[/in], [k#0]`."""
    return _with_leaves(session, plan, str(plan.toString()), _shown)


def with_sources(session: SparkSession, plan: JavaObject, text: str) -> str:
    """The text of an error that shows a plan, in which each streaming leaf is shown as Spark shows a source of files.

    Below other nodes, that is the kind of the source, its columns and the user's name for it; a leaf alone has only the kind.
    """

    def shown(relation: StreamingRelation, columns: str) -> str:
        name = f'"{relation.name}"' if relation.name else "<Unassigned>"
        return f"{_shown(relation, columns)}, name={name}"

    is_alone = streaming_leaf(session, plan) is not None
    if not is_alone:
        return _with_leaves(session, plan, text, shown)
    return _with_leaves(session, plan, text, lambda relation, _: relation.source_name).removesuffix("\n")  # as Spark's has none


def with_leaves_alone(df: DataFrame, text: str) -> str:
    """The text of an error that Spark raised when it analysed `df`, in which one of the leaves of `df` may be shown."""
    for leaf in scala.items(plans.analyzed(df).collectLeaves()):
        text = with_sources(df.sparkSession, leaf, text)
    return text


def _shown(relation: StreamingRelation, columns: str) -> str:
    return f"StreamingRelation {relation.source_name}, [{columns}]"


def _with_leaves(session: SparkSession, plan: JavaObject, text: str, shown: Callable[[StreamingRelation, str], str]) -> str:
    for leaf in scala.items(plan.collectLeaves()):
        if (stream := streaming_leaf(session, leaf)) is not None:
            text = text.replace(leaf.toString().strip(), shown(stream.relation, leaf.output().mkString(", ")))
    return text


def over_rdds(
    session: SparkSession, plan: JavaObject, statistics: Callable[[JavaObject, StreamingLeaf], JavaObject | None] | None = None
) -> JavaObject:  # (4)
    """An analysed plan in which every streaming leaf is over an RDD; leaves of the same `load()` have the same RDD.

    If `statistics` is given, every RDD is a new one, and `statistics` says how large a leaf is (None: nobody knows).
    """
    rdds: dict[StreamingLeaf, JavaObject] = {}

    def over_rdd(leaf: JavaObject, stream: StreamingLeaf) -> JavaObject:
        if statistics is None and scala.class_name(leaf) == "LogicalRDD":
            return leaf
        if stream not in rdds:
            rdds[stream] = plans.empty_rows(session)
            _leaves.add(session, rdds[stream], stream)
        size = None if statistics is None else statistics(leaf, stream)
        return plans.leaf_over(session, rdds[stream], _columns(session, leaf, stream.relation), streaming=True, statistics=size)

    return _replaced(session, plan, over_rdd)


def without_rows(session: SparkSession, plan: JavaObject, sources: SourceKeys, ordinals: Collection[int]) -> JavaObject:  # (5)
    """A plan in which each leaf of these sources is a relation that the optimizer knows to be empty."""

    def empty(leaf: JavaObject, stream: StreamingLeaf) -> JavaObject:
        return plans.empty_stream(session, leaf.output()) if sources.of(leaf, stream) in ordinals else leaf

    return _replaced(session, plan, empty) if ordinals else plan


def _replaced(session: SparkSession, plan: JavaObject, by: Callable[[JavaObject, StreamingLeaf], JavaObject]) -> JavaObject:
    """A plan with other streaming leaves: `by` is called with each leaf and with what it stands for."""

    def replaced(leaf: JavaObject) -> JavaObject:
        return leaf if (stream := streaming_leaf(session, leaf)) is None else by(leaf, stream)

    return plans.with_leaves(session, plan, replaced)


def _columns(session: SparkSession, leaf: JavaObject, relation: StreamingRelation) -> JavaObject:
    """The columns of a leaf as its rows have them: what is in a file may be null, whatever the schema of the stream says."""
    if relation.file_format is None or all(field.nullable for field in relation.schema):
        return leaf.output()
    own = len(relation.schema)
    return scala.seq(session, (a.withNullability(True) if i < own else a for i, a in enumerate(scala.items(leaf.output()))))


def model_session_of(df: DataFrame) -> SparkSession | None:
    """The model session that runs this DataFrame's stream; None if it has no leaf of ours."""
    if not df.isStreaming:
        return None
    leaves = (streaming_leaf(df.sparkSession, leaf) for leaf in scala.items(plans.analyzed(df).collectLeaves()))
    return next((leaf.session for leaf in leaves if leaf is not None), None)
