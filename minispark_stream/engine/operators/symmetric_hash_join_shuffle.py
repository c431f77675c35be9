"""The rows of both sides of a join, on their way to the partitions of their keys (step 3 of symmetric_hash_join.py).

Models: requiredChildDistribution of StreamingSymmetricHashJoinExec (About state: SymmetricHashJoin).

The probe reads rows of one shape, whatever the side: tags, keys, left row, right row. Of the two rows, one is null.

1. Each side gets its keys as columns, is shuffled by them, and gets its tags. The shuffle is below what tells the sides
   apart: where the sides are the same rows by the same keys, Spark shuffles them once.
2. All of this is planned once, over no rows; each batch brings its rows.

    Union
      Project 0, passes, k, l1, l2, null       <- shuffle by k <- Project l1, l2, k       <- left rows
      Project 1, passes, k, null, null, r1     <- shuffle by k <- Project r1, k           <- right rows

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream.engine.jvm import expressions, physical, plans, scala
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.symmetric_hash_join_rows import LEFT, RIGHT, TAGS


class RowsByKey:
    """For each side: `empty` is a plan over no rows, `columns` its attributes, `keys` the expressions of its keys, and `passes`
    what the join condition asks of a row by itself, if anything."""

    def __init__(
        self, empty: Sequence[JavaObject], columns: Sequence[Sequence[JavaObject]], keys: Sequence[Sequence[JavaObject]],
        passes: Sequence[JavaObject | None],
    ):
        self._empty, self._columns, self._keys, self._passes = empty, columns, keys, passes
        self._unions: dict[int, JavaObject] = {}  # by the number of partitions

    def over(self, session: SparkSession, children: Sequence[JavaObject], num_partitions: int) -> JavaObject:
        """The logical plan over the rows of a batch; `children` are the plans of the two sides."""
        if num_partitions not in self._unions:
            left, right = (self._by_key(session, side, num_partitions) for side in (LEFT, RIGHT))
            self._unions[num_partitions] = plans.analyzed(left.unionAll(right))
        union = self._unions[num_partitions]
        sides = zip(scala.items(union.children()), children)
        return plans.with_children(session, union, [self._with_rows(session, side, rows) for side, rows in sides])

    def _with_rows(self, session: SparkSession, side: JavaObject, rows: JavaObject) -> JavaObject:  # (2)
        tagged, shuffled, keyed, *_ = physical.chain(side)
        return reduce(lambda below, node: plans.with_children(session, node, [below]), (keyed, shuffled, tagged), rows)

    def _by_key(self, session: SparkSession, side: int, num_partitions: int) -> DataFrame:  # (1)
        rows = plans.of_rows(session, self._empty[side])
        keyed = rows.select("*", *(expressions.column(session, key).alias(f"key{i}") for i, key in enumerate(self._keys[side])))
        keys = [expressions.column(session, a) for a in scala.items(plans.analyzed(keyed).output())[len(rows.columns) :]]
        condition = self._passes[side]
        passes = F.lit(True) if condition is None else F.coalesce(expressions.column(session, condition), F.lit(False))
        tags = [F.lit(side), passes, F.lit(None), F.lit(None)]
        own = [expressions.column(session, attribute) for attribute in self._columns[side]]
        nothing = [F.lit(None).cast(f.dataType) for f in expressions.struct_type(self._columns[1 - side]).fields]
        both = (own, nothing) if side == LEFT else (nothing, own)
        values = [column.alias(f"row{i}") for i, column in enumerate([*both[0], *both[1]])]
        shuffled = keyed.repartition(num_partitions, *keys)
        return shuffled.select(*(tag.cast(f.dataType).alias(f.name) for tag, f in zip(tags, TAGS)), *keys, *values)
