"""The phases of a query plan, as IncrementalExecution goes through them in each batch.

Models: QueryExecution and IncrementalExecution.optimizedPlan; CurrentBatchTimestamp, which MicroBatchExecution.runBatch puts
into the plan (From query to the plan).

    analyzed     the time of the batch is put in, and the plan is checked once more, because that time is not deterministic
    optimized    tables are read in their present versions, and parts that are cached now from the cache; Spark's optimizer
                 runs; then the time becomes a literal, and the random functions get new seeds
    planned      a piece of the plan becomes a physical plan
    prepared     shuffles and sorts are put in, subqueries planned, code is generated, and what occurs twice is run only once

Before that, once in a run, the columns of each deduplication's key get their order: that of the user's list, or of the rows. A
Spark before 4.3 took the order of a Scala set of the names, and a query that was begun by it keeps this order, because its
state has the keys in it.

`QueryExecution` itself refuses to optimise a plan with streams, so the phases are called one by one. What is different in each
batch is the current time, and the seeds of random numbers:

    current_timestamp()       the timestamp of the batch, so that a batch that is run again sees the time of its first run
    rand(), rand(7), uuid()   a new seed, even if the query gives one: else the first row of each batch would get the same
                              number

1. Before the plan is optimised, the current time is replaced by the time of the batch, an expression that is not deterministic.
2. In the optimised plan, each such expression becomes a literal, and each random function gets a new seed, whichever node has
   it. Spark's own `transformAllExpressions` does this. Its rule is made of methods of the JVM, so it never calls Python.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import plans, scala, sessions
from minispark_stream.engine.jvm.scala import JavaObject

KEY_ORDER = "spark.sql.dropDuplicates.deterministicKeyOrder.enabled"
_WITHOUT_ZONE = ("CurrentTimestamp", "CurrentTimestampNanos")
_WITH_ZONE = ("LocalTimestamp", "LocalTimestampNanos", "CurrentDate")


def with_keys_in_order(session: SparkSession, plan: JavaObject) -> JavaObject:
    """An analysed plan, in which the keys of each deduplication have the order for which the session's conf asks."""
    if not plan.isStreaming():
        return plan
    if children := scala.items(plan.children()):
        plan = plans.with_children(session, plan, [with_keys_in_order(session, child) for child in children])
    if scala.class_name(plan) not in ("Deduplicate", "DeduplicateWithinWatermark") or plan.dedupSpec().isEmpty():
        return plan
    rule = scala.companion(session, "ResolveDeduplicate")
    resolver = session._jsparkSession.sessionState().conf().resolver()
    keys = rule.recomputeKeysPreservingMetadataBoundary(
        plan.keys(), plan.child(), plan.dedupSpec().get(), sessions.flag(session, KEY_ORDER), resolver
    )
    return plan.copy(keys, plan.child(), plan.dedupSpec())


def optimized(session: SparkSession, plan: JavaObject, timestamp_ms: int) -> tuple[JavaObject, JavaObject]:
    """The plan of a query, which was analysed when the query was built: analysed again for a batch; and optimised.

    Args:
        timestamp_ms: the time of the batch, which current_timestamp() and the like return.

    Raises:
        AnalysisException: Spark's analyzer or optimizer refuses the plan.
    """
    state, mode = session._jsparkSession.sessionState(), scala.constant(session, "CommandExecutionMode.ALL")
    execution = state.executePlan(with_batch_time(session, plan, timestamp_ms), mode)
    with_cached_data = plans.with_cached_data(session, execution.normalized())
    found = with_literals_and_seeds(session, state.optimizer().execute(with_cached_data))
    widen = scala.companion(session, "WidenStatefulOperatorAttributeNullability")
    return execution.analyzed(), widen.apply(found)


def of_new_data(session: SparkSession, plan: JavaObject) -> JavaObject:
    """The analysed plan of a source's new rows, optimised by itself."""
    return session._jsparkSession.sessionState().optimizer().execute(plan)


def planned(session: SparkSession, plan: JavaObject) -> JavaObject:
    """The physical plan of an optimised plan without streams (QueryExecution.sparkPlan)."""
    return session._jsparkSession.sessionState().planner().plan(plan.clone()).next()


def planned_as_answer(session: SparkSession, plan: JavaObject) -> JavaObject:
    """The physical plan of the plan at the top of a query, whose limit Spark plans in another way (ReturnAnswer)."""
    planner = session._jsparkSession.sessionState().planner()
    return scala.java_class(session, "QueryExecution.createSparkPlan")(planner, plan.clone())


def prepared(session: SparkSession, plan: JavaObject) -> JavaObject:
    """A physical plan made executable (QueryExecution.executedPlan)."""
    prepare = scala.java_class(session, "QueryExecution.prepareExecutedPlan")
    executable = prepare(session._jsparkSession, plan)
    return scala.companion(session, "ReuseExchangeAndSubquery").apply(executable)


def asks_for_current_time(session: SparkSession, plan: JavaObject) -> bool:
    """Whether a plan or an expression contains current_timestamp(), current_date() or localtimestamp()."""
    return _contains(session, plan, "CURRENT_LIKE")


def changes_with_batch(session: SparkSession, plan: JavaObject) -> bool:
    """Whether a plan or an expression contains anything that changes from batch to batch."""
    return asks_for_current_time(session, plan) or _contains(session, plan, "EXPRESSION_WITH_RANDOM_SEED")


def has_subquery(session: SparkSession, plan: JavaObject) -> bool:
    """Whether an expression of a plan has a plan of its own."""
    return _contains(session, plan, "PLAN_EXPRESSION")


def has_limit(session: SparkSession, plan: JavaObject) -> bool:
    """Whether a plan limits the number of rows."""
    return _contains(session, plan, "LIMIT")


def depends_on_size(session: SparkSession, plan: JavaObject) -> bool:
    """Whether the size of a stream can change what the optimizer makes of a plan.

    The optimizer moves a semi or an anti join below an aggregation if the other side is small enough to be broadcast
    (PushDownLeftSemiAntiJoin).
    """
    has_aggregation = _contains(session, plan, "AGGREGATE") or _contains(session, plan, "DISTINCT_LIKE")
    return has_aggregation and _contains(session, plan, "LEFT_SEMI_OR_ANTI_JOIN")


def with_batch_time(session: SparkSession, plan: JavaObject, timestamp_ms: int) -> JavaObject:  # (1)
    """An analysed plan in which the current time is that of a batch."""
    if not asks_for_current_time(session, plan):
        return plan
    batch_time = scala.java_class(session, "CurrentBatchTimestamp")
    found = scala.java_class(session, "java.util.HashMap")()
    for time in _current_times(session, plan):
        # A timestamp needs no time zone, but CurrentBatchTimestamp counts as resolved only if it has one, so it gets any text.
        zone = scala.some(session, "none") if scala.class_name(time) in _WITHOUT_ZONE else time.timeZoneId()
        found.put(time, batch_time(timestamp_ms, time.dataType(), zone))
    return plan.transformAllExpressions(scala.java_class(session, "PythonUtils").toScalaMap(found))


def with_literals_and_seeds(session: SparkSession, plan: JavaObject) -> JavaObject:  # (2)
    """An optimised plan in which the time of the batch is a literal, and every random function has a new seed."""
    return plan.transformAllExpressions(_rule(scala.jvm(session)))


def _current_times(session: SparkSession, plan: JavaObject) -> Iterator[JavaObject]:
    """The expressions in a plan that stand for the current time."""
    if asks_for_current_time(session, plan):
        for expression in scala.items(plan.expressions()):
            yield from _times_in(session, expression)
        for child in scala.items(plan.children()):
            yield from _current_times(session, child)


def _times_in(session: SparkSession, expression: JavaObject) -> Iterator[JavaObject]:
    if asks_for_current_time(session, expression):
        if scala.class_name(expression) in _WITHOUT_ZONE + _WITH_ZONE:
            yield expression
        for child in scala.items(expression.children()):
            yield from _times_in(session, child)


@lru_cache(maxsize=1)
def _rule(view: Any) -> JavaObject:
    """What each expression becomes, as a partial function that is defined for all expressions and never calls Python:

        e: ExpressionWithRandomSeed -> e.withNewSeed(random.nextLong())
        e: CurrentBatchTimestamp    -> e.toLiteral
        e                           -> e
    """
    seed = scala.method_handle(view, "java.util.Random.nextLong").bindTo(view.java.util.Random())
    renewed = scala.method_handle(view, "ExpressionWithRandomSeed.withNewSeed", view.java.lang.Long.TYPE)
    literal = scala.method_handle(view, "CurrentBatchTimestamp.toLiteral")
    cases = {
        "ExpressionWithRandomSeed": view.java.lang.invoke.MethodHandles.collectArguments(renewed, 1, seed),
        "CurrentBatchTimestamp": literal,
    }
    return view.scala.PartialFunction.fromFunction(scala.by_class(view, cases))


def _contains(session: SparkSession, plan: JavaObject, pattern: str) -> bool:
    return bool(plan.containsPattern(scala.constant(session, f"TreePattern.{pattern}")))
