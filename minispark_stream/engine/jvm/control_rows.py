"""Catalyst's operators over rows of data and control rows, which must pass them all (extras/continuous/epoch_markers.py).

Models: nothing of Spark.

A control row has nulls, and something in its last column, `control`, which is null for data.

    for_data       if (isnull(control)) e else null
    filtered       isnotnull(control) OR condition
    generate       explode(if (isnull(control)) e else array(null))       one row for a control row
    join           an inner join becomes an outer one, and a filter drops the rows of data without a match
    observe        count(if (isnull(control)) 1 else null)                nulls do not count
    aggregate      the control column is one more key
    expand         each copy of a row has it
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, StructType

from minispark_stream.engine.jvm import expressions, plans, scala
from minispark_stream.engine.jvm.scala import JavaObject


def is_data(session: SparkSession, control: JavaObject) -> JavaObject:
    return scala.java_class(session, "IsNull")(control)


def for_data(session: SparkSession, computed: JavaObject, control: JavaObject, otherwise: JavaObject = None) -> JavaObject:
    """An expression that is computed for rows of data only; for others it is `otherwise`, or null."""
    null = scala.java_class(session, "Literal")(None, computed.dataType())
    return scala.java_class(session, "If")(is_data(session, control), computed, otherwise or null)


def filtered(session: SparkSession, condition: JavaObject, control: JavaObject, child: JavaObject) -> JavaObject:
    """The rows of data for which `condition` is true, and all others."""
    is_control = scala.java_class(session, "IsNotNull")(control)
    either = scala.java_class(session, "Or")(is_control, condition)
    return scala.java_class(session, "Filter")(either, child)


def generate(session: SparkSession, plan: JavaObject, control: JavaObject, child: JavaObject) -> JavaObject:
    """A Generate, whose generator makes at least one row of a control row."""
    generator = plan.generator()
    if scala.class_name(generator) in ("Explode", "PosExplode", "Inline"):
        one = _one_element(session, generator.child().dataType())
        arguments = [for_data(session, generator.child(), control, one)]
    else:
        arguments = [_of_data(session, argument, control) for argument in scala.items(generator.children())]
    nullable = scala.seq(session, [a.withNullability(True) for a in scala.items(plan.generatorOutput())])
    generator = generator.withNewChildren(scala.seq(session, arguments))
    changed = {"generator": generator, "generatorOutput": nullable, "child": child}
    return scala.call(plan.copy, **scala.fields(plan) | changed)


def _one_element(session: SparkSession, collection: JavaObject) -> JavaObject:
    """An array with a null, or a map with one key, whose value is null."""
    literal = scala.java_class(session, "Literal")
    if scala.class_name(collection) == "ArrayType":
        return scala.java_class(session, "CreateArray")(
            scala.seq(session, [literal(None, collection.elementType())]), True
        )
    key = scala.companion(session, "Literal").default(collection.keyType())
    pair = scala.seq(session, [key, literal(None, collection.valueType())])
    return scala.java_class(session, "CreateMap")(pair, True)


def join(session: SparkSession, plan: JavaObject, children: list[JavaObject], control: JavaObject) -> JavaObject:
    """A join of a stream with a table; `children` are its sides, of which the stream's has control rows."""
    at = 0 if plan.left().isStreaming() else 1
    stream, table, kind = children[at], children[1 - at], str(plan.joinType().toString())
    if kind in ("LeftOuter", "RightOuter"):
        return plans.with_children(session, plan, children)
    schema = expressions.java_schema(session, StructType().add("found", BooleanType(), False))
    found = expressions.new_attributes(session, schema).head()
    if kind in ("LeftSemi", "LeftAnti"):
        exists = scala.java_class(session, "ExistenceJoin")(found)
        joined = scala.call(plan.copy, **scala.fields(plan) | {"left": stream, "right": table, "joinType": exists})
        wanted = found if kind == "LeftSemi" else scala.java_class(session, "Not")(found)
        return filtered(session, wanted, control, joined)
    true = scala.companion(session, "Literal").TrueLiteral()
    matched = expressions.alias(session, true, found.name(), found.exprId())
    sides = [stream, plans.project(session, [*scala.items(table.output()), matched], table)]
    outer = scala.companion(session, "LeftOuter" if at == 0 else "RightOuter")
    left, right = sides if at == 0 else sides[::-1]
    joined = scala.call(plan.copy, **scala.fields(plan) | {"left": left, "right": right, "joinType": outer})
    wanted = scala.java_class(session, "IsNotNull")(found.withNullability(True))
    return filtered(session, wanted, control, joined)


def observe(session: SparkSession, plan: JavaObject, control: JavaObject, child: JavaObject) -> JavaObject:
    """CollectMetrics, whose aggregate functions get nulls for control rows."""
    metrics = scala.seq(session, [_aggregated(session, metric, control) for metric in scala.items(plan.metrics())])
    return scala.call(plan.copy, **scala.fields(plan) | {"metrics": metrics, "child": child})


def aggregate(session: SparkSession, plan: JavaObject, control: JavaObject, child: JavaObject) -> JavaObject:
    """An Aggregate, which computes nothing for control rows; the control column is the last one of its keys and its columns."""
    keys = scala.items(plan.groupingExpressions())
    computed = [key for key in keys if not expressions.is_column(key)]
    columns = [_aggregated(session, column, control, computed) for column in scala.items(plan.aggregateExpressions())]
    changed = {
        "groupingExpressions": scala.seq(session, [*(_aggregated(session, key, control, computed) for key in keys), control]),
        "aggregateExpressions": scala.seq(session, [*columns, control]), "child": child,
    }
    return scala.call(plan.copy, **scala.fields(plan) | changed)


def distinct(session: SparkSession, plan: JavaObject, control: JavaObject, child: JavaObject) -> JavaObject:
    """A Distinct, which the optimizer makes an Aggregate without functions, with the control column as one more key."""
    return aggregate(session, scala.companion(session, "ReplaceDistinctWithAggregate").apply(plan), control, child)


def expand(session: SparkSession, plan: JavaObject, control: JavaObject, child: JavaObject) -> JavaObject:
    """An Expand, in which each copy of a row has the control column as its last one."""
    copies = [scala.seq(session, [*scala.items(one), control]) for one in scala.items(plan.projections())]
    output = scala.seq(session, [*scala.items(plan.output()), control])
    return plan.copy(scala.seq(session, copies), output, child)


def _aggregated(
    session: SparkSession, expression: JavaObject, control: JavaObject, keys: Sequence[JavaObject] = ()
) -> JavaObject:
    """An expression, whose aggregate functions get nulls for control rows, as do those `keys` that are in it."""
    if any(key.semanticEquals(expression) for key in keys):
        return for_data(session, expression, control)
    children = scala.items(expression.children())
    if scala.class_name(expression) == "AggregateExpression":
        function = expression.aggregateFunction()
        arguments = scala.items(function.children())
        made = [_of_data(session, argument, control) for argument in arguments]
        if made and all(argument.foldable() for argument in arguments):  # count(1)
            made[0] = for_data(session, made[0], control)
        conditions = [for_data(session, condition, control) for condition in children[1:]]
        return expression.withNewChildren(
            scala.seq(session, [function.withNewChildren(scala.seq(session, made)), *conditions])
        )
    if not children:
        return expression
    return expression.withNewChildren(scala.seq(session, [_aggregated(session, child, control, keys) for child in children]))


def _of_data(session: SparkSession, expression: JavaObject, control: JavaObject) -> JavaObject:
    return expression if expression.foldable() else for_data(session, expression, control)
