"""A case on both engines: the differences, or the refusal on which they agree.

Compared are rows, schema, offsets, watermark and metrics of each batch, the logs, and at the end the records of the state
(minispark_stream/tools/compare/differences.py). What Spark refuses, the model must refuse with the same condition at the same step.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType

from minispark_stream import MiniSparkSession, side_by_side
from minispark_stream.tools.compare.differences import Difference, row_key
from minispark_stream.tools.compare.prepared import confs_set
from tests.conformance.actions import ACTIONS
from tests.conformance.random_queries import row_wise, stateful
from tests.conformance.random_queries.drawing import Case
from tests.conformance.random_queries.row_wise import IN_ORDER
from tests.conformance.random_queries.stateful import STATEFUL
from tests.conformance.random_queries.tables import NAME

Refusal = tuple[str, str]  # the step at which a query was refused, and the condition


def differences(spark: SparkSession, case: Case) -> tuple[Refusal | None, list[str]]:
    """How Spark refuses the case, if it does; and on what the engines disagree."""
    # Of "rate", one more batch is always there; the files of "by value" appear one by one, and no trigger may come between them.
    each_step = any(stream.format in ("rate", "by value") for stream in case.streams)
    feed = [partial(put, spark, case, i) for i in range(case.length)]
    try:
        comparison = side_by_side(
            spark, partial(build, case), feed, output_mode=case.mode, confs=case.confs, restart_after=case.restarts, relay=case.relay,
            collect=partial(collect, case), trace="steps", progress=False, trigger={"availableNow": True} if each_step else None,
        )
    except PySparkException:
        theirs, ours = (refusal(session, case) for session in (spark, MiniSparkSession(spark)))
        return theirs, [] if theirs == ours and theirs is not None else [f"refused: Spark says {theirs}, the model {ours}"]
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {NAME}")
    return None, [str(found) for found in comparison.differences if not excused(case, found)]


def build(case: Case, session: Any, input_dir: str, reached: Callable[[str], object] = lambda step: None) -> Any:
    """The query; `reached` is told of each step before it is added."""
    df, in_common = case.left.read(session, input_dir), 0
    while in_common < len(case.steps) and case.steps[in_common][0] in IN_ORDER:
        in_common += 1

    def other() -> Any:
        """The second stream, with the steps that both have in common, and its own."""
        right = case.right.read(session, input_dir)
        for step in case.steps[:in_common]:
            right = row_wise.apply(right, step, other, table)
        for step in case.of_right:
            right = stateful.apply(right, step, other, case.mode)
        return right

    table = partial(case.table.static, session, input_dir)
    for step in case.steps:
        reached(str(step))
        df = stateful.apply(df, step, other, case.mode) if step[0] in STATEFUL else row_wise.apply(df, step, other, table)
    return df


def put(spark: SparkSession, case: Case, step: int, inputs: str) -> None:
    if step and {"table", "ask"} & set(case.kinds):
        case.table.change(spark, step)
    staged = [paths for stream in case.streams for paths in stream.staged(spark, inputs, step)]
    for hidden, path in staged:  # in one batch: a query of several inputs looks seldom, one of several files is started afterwards
        hidden.rename(path)


def collect(case: Case, batch: DataFrame) -> Iterator[tuple[Any, ...]]:
    """What the sink gets of a batch: its schema, its rows as text (but fractions as they are), what it does with it."""
    yield "schema", batch.schema.json()
    if case.actions == ("rows",):
        fractions = (DoubleType, FloatType)
        cells = [F.col(f.name) if isinstance(f.dataType, fractions) else F.col(f.name).cast("string") for f in batch.schema]
        yield from batch.select(*cells).collect()
    else:
        for name in case.actions:
            yield name, row_key(ACTIONS[name](batch))


def refusal(session: Any, case: Case) -> Refusal | None:
    """At which step and with which condition an engine refuses to build or to start the query."""
    reached = ["the source"]
    with tempfile.TemporaryDirectory() as folder, confs_set(session, case.confs):
        for stream in case.streams:
            os.makedirs(f"{folder}/{stream.folder}")
        try:
            df = build(case, session, folder, reached.append)
            reached.append("start")
            writer = df.writeStream.outputMode(case.mode).foreachBatch(lambda batch, _: None).option("checkpointLocation", f"{folder}/checkpoint")
            writer.start().stop()
        except PySparkException as e:
            condition, message = e.getCondition() or type(e).__name__, str(e).split("\n")[0]
            return reached[-1], message if condition.startswith("_LEGACY") else condition
    return None


def excused(case: Case, found: Difference) -> bool:
    """Whether a difference is one of those that cannot be compared, or that the engine's docstrings name."""
    # A join numbers the rows of a key as they come, and an array collects them so; after another operator, that is in no certain order.
    kinds = case.kinds
    joins = [i for i, kind in enumerate(kinds) if kind == "join"]
    of_right = [step[0] for step in case.of_right]
    below_joins = {*kinds[: joins[-1]], *of_right} if joins else set()
    in_order = case.left.in_one_order and case.right.in_one_order and below_joins <= IN_ORDER
    # A mode counts maps by their identity, since they have no hash code; its state has them in another order in each run of Spark.
    if found.what.endswith(".delta"):
        return not in_order or any(function in str(step) for step in (*case.steps, *case.of_right) for function in ("collect_", "mode("))
    # How often and how far a batch is evaluated that a function does not read once is up to each engine's plan (engine/operators/metrics.py).
    if found.what.startswith("operator ") or found.what == "event time avg":
        return case.actions != ("rows",)
    # Without state, Spark's plan is adaptive: what turns out to have no rows while the batch runs is not read (streaming_query_manager.py).
    adaptive = {"repartition", "repartition by", "table", "ask"} & set(kinds) and not STATEFUL & {*kinds, *of_right}
    # A semi join over a union becomes two joins; both read the other side, which Spark shuffles once (incremental_execution.py). A small
    # batch that is joined with itself may be broadcast by Spark, which then reads it twice (engine/sinks/foreach_batch.py).
    reads_twice = {"union", "branches"} & set(kinds) and ("join", "left_semi") in [step[:2] for step in case.steps]
    return found.what in ("rows in", "sources") and bool(adaptive or reads_twice or "join with itself" in case.actions)
