"""Aggregate functions, kept incrementally: how two partial results become one.

Models: Catalyst's DeclarativeAggregate (aggregation buffers, mergeExpressions, evaluateExpression) as Spark uses it
for a streaming aggregation (SIGMOD'18 paper, section 5.2; AggUtils.planStreamingAggregation).

An aggregate function is three things: *buffers* (what must be remembered), a *merge* (how two sets of buffers become
one) and an *evaluation* (what the user sees). The buffers of `avg(x)` are a sum and a count:

    batch 0   partial (sum  6.0, count 3)   state (none)              merged (sum  6.0, count 3)   avg 2.0
    batch 1   partial (sum 10.0, count 1)   state (sum 6.0, count 3)  merged (sum 16.0, count 4)   avg 4.0

1. Spark computes the partial buffers of a batch (its own physical partial aggregation, so the buffers are Spark's).
2. The merge is ours, one function per aggregate in `MERGES`, on whole Arrow columns: left is what was there before,
   right is what is new, row i of both belongs to the same key, and both are complete (no missing keys).
3. Spark evaluates: `evaluateExpression` of its function over the merged buffers.

Differs from Spark: approx_count_distinct, percentiles and other functions whose buffer is an opaque sketch are refused
when the query starts; collect_list and collect_set are evaluated by the task, because their buffer is a serialised
array (as in Spark, where they are TypedImperativeAggregates).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from minispark_stream.operators.columns import Columns

Merge = Callable[[Columns, Columns], Columns]


def _both(both: Callable[[Any, Any], Any]) -> Merge:
    """One buffer: combine where both sides have a value, else keep the one that has."""

    def merge(left: Columns, right: Columns) -> Columns:
        combined = both(left[0], right[0])
        return [pc.coalesce(combined, left[0], right[0])]

    return merge


def _add(left: pa.Array, right: pa.Array) -> pa.Array:
    """left + right in the type of the buffer. Integers raise on overflow; a decimal that no longer fits becomes null."""
    kind = left.type
    if pa.types.is_decimal(kind):
        wide = pc.add(left.cast(pa.decimal256(40, kind.scale)), right.cast(pa.decimal256(40, kind.scale)))
        limit = pa.scalar(Decimal(10) ** (kind.precision - kind.scale), wide.type)
        return pc.if_else(pc.less(pc.abs(wide), limit), wide, pa.scalar(None, wide.type)).cast(kind)
    try:
        return pc.add_checked(left, right)
    except pa.ArrowInvalid as e:
        raise ArithmeticError(
            "[ARITHMETIC_OVERFLOW] long overflow. Use 'try_add' to tolerate overflow and return NULL instead. "
            'If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error. SQLSTATE: 22003'
        ) from e


def _count(left: Columns, right: Columns) -> Columns:
    return [pc.add(left[0], right[0])]


def _sum(left: Columns, right: Columns) -> Columns:
    """[sum], or [sum, isEmpty] where an overflow must be told from "no value yet" (decimals, try_sum)."""
    if len(left) == 1:
        return _both(_add)(left, right)
    lost = pc.or_(
        pc.and_(pc.invert(left[1]), pc.is_null(left[0])), pc.and_(pc.invert(right[1]), pc.is_null(right[0]))
    )
    total = _both(_add)([_zero_if_null(left[0])], [_zero_if_null(right[0])])[0]
    overflow = pc.is_null(_add(_zero_if_null(left[0]), _zero_if_null(right[0])))
    null = pa.scalar(None, total.type)
    return [pc.if_else(pc.or_(lost, overflow), null, total), pc.and_(left[1], right[1])]


def _zero_if_null(column: pa.Array) -> pa.Array:
    return pc.fill_null(column, pa.scalar(Decimal(0) if pa.types.is_decimal(column.type) else 0, column.type))


def _average(left: Columns, right: Columns) -> Columns:
    """[sum, count]; a null sum is an overflow and stays one."""
    return [_add(left[0], right[0]), pc.add(left[1], right[1])]


def _extremum(greatest: bool) -> Merge:
    def merge(left: Columns, right: Columns) -> Columns:
        return [_choose(_is_before(left[0], right[0]) if greatest else _is_before(right[0], left[0]), right[0], left[0])]

    return _null_skipping(merge)


def _null_skipping(merge: Merge) -> Merge:
    """Apply `merge` as if no value were null, then let a side that is null give way to the other."""

    def skipping(left: Columns, right: Columns) -> Columns:
        merged = merge(left, right)[0]
        return [_choose(pc.is_null(left[0]), right[0], _choose(pc.is_null(right[0]), left[0], merged))]

    return skipping


def _choose(condition: Any, yes: pa.Array, no: pa.Array) -> pa.Array:
    """if_else for every type, nested ones included: pick rows from the two columns laid end to end."""
    picked = np.asarray(pc.fill_null(condition, False))
    rows = np.arange(len(picked))
    return pa.concat_arrays([no, yes]).take(pa.array(np.where(picked, rows + len(picked), rows)))


def _is_before(left: pa.Array, right: pa.Array) -> Any:
    """left < right in Spark's ordering: NaN is the greatest number, strings compare as UTF-8 bytes."""
    if pa.types.is_floating(left.type):
        return pc.or_(pc.less(left, right), pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left))))
    if pa.types.is_string(left.type):
        return pc.less(left.cast(pa.binary()), right.cast(pa.binary()))
    if pa.types.is_nested(left.type):
        return pa.array([_sort_key(a) < _sort_key(b) for a, b in zip(left.to_pylist(), right.to_pylist())], pa.bool_())
    return pc.less(left, right)


def _sort_key(value: Any) -> Any:
    """A Python value as something that sorts as Spark sorts it: nulls first, fields in order."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, tuple(_sort_key(v) for v in value.values()))
    if isinstance(value, list):
        return (1, tuple(_sort_key(v) for v in value))
    if isinstance(value, str):
        return (1, value.encode())
    return (1, value != value, value)


def _by(greatest: bool) -> Merge:
    """[value, ordering] of max_by and min_by: of two equal orderings the newer row wins."""

    def merge(left: Columns, right: Columns) -> Columns:
        keep = _is_before(right[1], left[1]) if greatest else _is_before(left[1], right[1])
        keep = pc.or_(pc.is_null(right[1]), pc.and_(pc.fill_null(keep, False), pc.is_valid(left[1])))
        return [_choose(keep, left[0], right[0]), _choose(keep, left[1], right[1])]

    return merge


def _first(left: Columns, right: Columns) -> Columns:
    """[value, valueSet]"""
    return [_choose(left[1], left[0], right[0]), pc.or_(left[1], right[1])]


def _last(left: Columns, right: Columns) -> Columns:
    return [_choose(right[1], right[0], left[0]), pc.or_(left[1], right[1])]


def _numpy(columns: Columns) -> list[Any]:
    return [c.to_numpy(zero_copy_only=False) for c in columns]


def _ratio(x: Any, n: Any) -> Any:
    """x / n, and 0 where n is 0."""
    return np.divide(x, n, out=np.zeros_like(x), where=n != 0)


def _central_moments(left: Columns, right: Columns) -> Columns:
    """[n, avg, m2, m3, m4] up to the order that the function keeps (stddev and variance: m2)."""
    n1, avg1, *m1 = _numpy(left)
    n2, avg2, *m2 = _numpy(right)
    n = n1 + n2
    delta = avg2 - avg1
    delta_n = _ratio(delta, n)
    merged = [n, avg1 + delta_n * n2, m1[0] + m2[0] + delta * delta_n * n1 * n2]
    if len(m1) > 1:
        merged.append(
            m1[1] + m2[1] + delta_n * delta_n * delta * n1 * n2 * (n1 - n2) + 3.0 * delta_n * (n1 * m2[0] - n2 * m1[0])
        )
    if len(m1) > 2:
        merged.append(
            m1[2] + m2[2] + delta_n * delta_n * delta_n * delta * n1 * n2 * (n1 * n1 - n1 * n2 + n2 * n2)
            + 6.0 * delta_n * delta_n * (n1 * n1 * m2[0] + n2 * n2 * m1[0]) + 4.0 * delta_n * (n1 * m2[1] - n2 * m1[1])
        )
    return [pa.array(m, pa.float64()) for m in merged]


def _covariance(left: Columns, right: Columns) -> Columns:
    """[n, xAvg, yAvg, ck], and [xMk, yMk] for corr."""
    n1, x1, y1, ck1, *mk1 = _numpy(left)
    n2, x2, y2, ck2, *mk2 = _numpy(right)
    n = n1 + n2
    dx, dy = x2 - x1, y2 - y1
    dx_n, dy_n = _ratio(dx, n), _ratio(dy, n)
    merged = [n, x1 + dx_n * n2, y1 + dy_n * n2, ck1 + ck2 + dx * dy_n * n1 * n2]
    if mk1:
        merged += [mk1[0] + mk2[0] + dx * dx_n * n1 * n2, mk1[1] + mk2[1] + dy * dy_n * n1 * n2]
    return [pa.array(m, pa.float64()) for m in merged]


def _regression(left: Columns, right: Columns) -> Columns:
    """regr_slope, regr_intercept: the buffers of a covariance, then those of a variance."""
    return _covariance(left[:4], right[:4]) + _central_moments(left[4:], right[4:])


MERGES: dict[str, Merge] = {
    "Count": _count,
    "Sum": _sum,
    "Average": _average,
    "Min": _extremum(greatest=False),
    "Max": _extremum(greatest=True),
    "MinBy": _by(greatest=False),
    "MaxBy": _by(greatest=True),
    "First": _first,
    "Last": _last,
    "BitAndAgg": _both(pc.bit_wise_and),
    "BitOrAgg": _both(pc.bit_wise_or),
    "BitXorAgg": _both(pc.bit_wise_xor),
    "Product": _both(pc.multiply),
    "StddevPop": _central_moments,
    "StddevSamp": _central_moments,
    "VariancePop": _central_moments,
    "VarianceSamp": _central_moments,
    "Skewness": _central_moments,
    "Kurtosis": _central_moments,
    "RegrReplacement": _central_moments,
    "CovPopulation": _covariance,
    "CovSample": _covariance,
    "RegrSXY": _covariance,
    "Corr": _covariance,
    "RegrR2": _covariance,
    "RegrSlope": _regression,
    "RegrIntercept": _regression,
}

# Their buffer is a serialised array (BinaryType); operators/state_store_save.py merges and evaluates it.
COLLECTIONS = ("CollectList", "CollectSet")


@dataclass(frozen=True)
class AggregateFunction:
    """One aggregate function of a streaming aggregation, as a task needs to know it.

    `name` is Spark's class ("Average"), `width` the number of its buffers, `result` the type of the collected array for
    collect_list and collect_set, as a one-column schema.
    """

    name: str
    width: int
    result: StructType | None = None
