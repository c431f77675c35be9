"""How the rows of both sides of a join are shuffled to the partitions of their keys (line 3 of symmetric_hash_join.py).

Models: requiredChildDistribution of StreamingSymmetricHashJoinExec (About state: SymmetricHashJoin).

The rows of both sides have the same columns when they come to the probe: tags, keys, left row, right row. One of the two rows
is null.

1. To the rows of each side, columns with the keys are added; they are shuffled by these; and then the tags are added. The tags
   come after the shuffle, so if both sides are the same rows with the same keys, Spark shuffles them only once.
2. These columns are computed in the same way in every batch, so they are resolved once; each batch brings its rows.

    Union
      Project 0, passes, k, l1, l2, null       <- shuffle by k <- Project l1, l2, k       <- left rows
      Project 1, passes, k, null, null, r1     <- shuffle by k <- Project r1, k           <- right rows

Differs from Spark: if a common table expression is joined with itself, its two uses are shuffled only once. In Spark, the
second one has other column names before the shuffle, so the stream is read twice, and numInputRows counts it twice.
Shown by tests/spark/test_differences.py::test_a_common_table_expression_joined_with_itself_is_read_once.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from minispark_stream.engine.checkpointing.join_stores import LEFT, RIGHT
from minispark_stream.engine.jvm import expressions, physical, plans, scala
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.join.symmetric_hash_join_rows import TAGS


class RowsByKey:
    """Plans the rows of both sides up to the probe.

    Args:
        columns: the attributes of each side.
        keys: the expressions of the keys, for each side.
        passes: what the join condition requires of a row of each side alone, if anything.
    """

    def __init__(
        self, session: SparkSession, columns: Sequence[Sequence[JavaObject]], keys: Sequence[Sequence[JavaObject]],
        passes: Sequence[JavaObject | None],
    ):
        self._num_keys = len(keys[LEFT])
        self._sides = [_columns(session, side, columns, keys[side], passes[side]) for side in (LEFT, RIGHT)]

    def over(self, session: SparkSession, children: Sequence[JavaObject], num_partitions: int) -> JavaObject:
        """The physical plan over the rows of a batch; `children` are the physical plans of the two sides."""
        sides = []  # (2)
        for (with_keys, tagged), rows in zip(self._sides, children):
            keyed = physical.projected(session, rows, with_keys)
            keys = scala.items(keyed.output().takeRight(self._num_keys))
            by_key = physical.shuffled(session, keyed, keys, num_partitions)
            sides.append(physical.projected(session, by_key, tagged))
        return scala.java_class(session, "UnionExec")(scala.seq(session, sides))


def _columns(
    session: SparkSession, side: int, columns: Sequence[Sequence[JavaObject]], keys: Sequence[JavaObject],
    condition: JavaObject | None,
) -> tuple[JavaObject, JavaObject]:
    """(1) The columns that are computed for a side's rows before the shuffle, and after it: two Scala Seqs."""
    rows = plans.of_rows(session, plans.no_rows(session, scala.seq(session, columns[side])))
    keyed = rows.select("*", *(expressions.column(session, key).alias(f"key{i}") for i, key in enumerate(keys)))
    keys_of_row = scala.items(plans.analyzed(keyed).output().takeRight(len(keys)))
    passes = F.lit(True) if condition is None else F.coalesce(expressions.column(session, condition), F.lit(False))
    tags = [F.lit(side), passes, F.lit(None), F.lit(None)]
    own = [expressions.column(session, attribute) for attribute in columns[side]]
    nothing = [F.lit(None).cast(f.dataType) for f in expressions.struct_type(columns[1 - side]).fields]
    both = (own, nothing) if side == LEFT else (nothing, own)
    values = [column.alias(f"row{i}") for i, column in enumerate([*both[0], *both[1]])]
    tagged = plans.analyzed(keyed.select(
        *(tag.cast(f.dataType).alias(f.name) for tag, f in zip(tags, TAGS)),
        *(expressions.column(session, key) for key in keys_of_row), *values,
    ))
    return tagged.child().projectList(), tagged.projectList()
