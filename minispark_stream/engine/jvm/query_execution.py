"""The phases of a query plan, as IncrementalExecution goes through them in each batch.

Models: QueryExecution and IncrementalExecution.optimizedPlan (From query to the plan).

    analyzed     the time of the batch is put in, and the plan is checked once more, because that time is not deterministic
    optimized    tables are read in their present versions, and parts that are cached now from the cache; Spark's optimizer
                 runs; then the time becomes a literal, and the random functions get new seeds
    planned      a piece of the plan becomes a physical plan
    prepared     shuffles and sorts are put in, subqueries planned, code is generated, and what occurs twice is run only once

Before that, once in a run, the columns of each deduplication's key get their order: that of the user's list, or of the rows. A
Spark before 4.3 took the order of a Scala set of the names, and a query that was begun by it keeps this order, because its
state has the keys in it.

`QueryExecution` itself refuses to optimise a plan with streams, so the phases are called one by one.

These are calls of Spark SQL's own methods.

Differs from Spark: nothing.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import of_batch, plans, scala, sessions
from minispark_stream.engine.jvm.scala import JavaObject

KEY_ORDER = "spark.sql.dropDuplicates.deterministicKeyOrder.enabled"


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
    execution = state.executePlan(of_batch.with_batch_time(session, plan, timestamp_ms), mode)
    with_cached_data = plans.with_cached_data(session, execution.normalized())
    found = of_batch.with_literals_and_seeds(session, state.optimizer().execute(with_cached_data))
    widen = scala.companion(session, "WidenStatefulOperatorAttributeNullability")
    return execution.analyzed(), widen.apply(found)


def of_new_data(session: SparkSession, plan: JavaObject) -> JavaObject:
    """The analysed plan of a source's new rows, optimised by itself."""
    return session._jsparkSession.sessionState().optimizer().execute(plan)


def planned(session: SparkSession, plan: JavaObject) -> JavaObject:
    """The physical plan of an optimised plan without streams (QueryExecution.sparkPlan)."""
    return session._jsparkSession.sessionState().planner().plan(plan.clone()).next()


def planned_as_answer(session: SparkSession, plan: JavaObject) -> JavaObject:
    """The same for the plan at the top of a query, whose limit Spark plans in another way (ReturnAnswer)."""
    planner = session._jsparkSession.sessionState().planner()
    return scala.java_class(session, "QueryExecution.createSparkPlan")(planner, plan.clone())


def prepared(session: SparkSession, plan: JavaObject) -> JavaObject:
    """A physical plan made executable (QueryExecution.executedPlan)."""
    prepare = scala.java_class(session, "QueryExecution.prepareExecutedPlan")
    executable = prepare(session._jsparkSession, plan)
    return scala.companion(session, "ReuseExchangeAndSubquery").apply(executable)
