"""Whether a join has let rows go that had no partner: only then another kind of join would have written other rows before.

1. A row leaves the state when the watermark has passed it. It has a flag that says whether it has ever had a partner.
2. From version to version of the state, rows that are there no more were evicted. If one of them had not been marked, an outer
   join has written it with nulls, and an inner join has not.
3. If older versions are gone, or if rows can come too late to be stored at all, this cannot be told.

    version 1: (a, matched), (b, not matched)    version 2: nothing    ->    b was let go without a partner

Models: nothing of Spark.
Shown by tests/spark/test_check.py::test_foretold_is_what_spark_did.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from minispark_stream.engine.checkpointing.join_stores import SIDES, VALUES, store_name
from minispark_stream.engine.operators.join.symmetric_hash_join import SymmetricHashJoin
from minispark_stream.engine.runtime.template import Template
from minispark_stream.tools.inspection.report import CheckpointReport
from minispark_stream.tools.inspection.state_reader import StoreState
from minispark_stream.tools.inspection.store_versions import ReplayedState
from minispark_stream.tools.operations.check.answer import CheckDifference
from minispark_stream.tools.operations.check.rules import difference


def with_evicted(found: CheckDifference, template: Template, report: CheckpointReport) -> CheckDifference:
    """The difference between two kinds of a join, with what the state tells of the rows that were let go."""
    joins = (one for one in template.operators if isinstance(one, SymmetricHashJoin))
    operator = next(one for one in joins if found.where.startswith(f"operator {one.operator_id} "))
    if not _may_have_let_go(operator, report):
        return found
    return replace(difference("join.type-evicted", found.where), before=found.before, after=found.after)


def _may_have_let_go(operator: SymmetricHashJoin, report: CheckpointReport) -> bool:
    if any((shift or 0) > 0 for shift in operator.shifts_ms):  # (3)
        return True
    names = {store_name(side, VALUES) for side in range(len(SIDES))}
    stores = [one for one in report.states if one.operator_id == operator.operator_id and one.name in names]
    if len(stores) != len(names):
        return True
    return any(_lets_go(store, p, report.next_version) for store in stores for p in store.partitions)


def _lets_go(store: StoreState, partition: int, last: int) -> bool:  # (2)
    before: Counter[tuple[str, bool]] = Counter()
    expected = 1
    for step in store.partitions[partition].replay(last):
        if step.version > last:
            break
        if step.state is None or step.version != expected:  # (3)
            return True
        now = Counter(_rows(store, partition, step.state))
        there = Counter(row for row, _ in now.elements())
        if any(times > there[row] for (row, is_matched), times in before.items() if not is_matched):
            return True
        before, expected = now, expected + 1
    return expected <= last


def _rows(store: StoreState, partition: int, state: ReplayedState) -> Iterator[tuple[str, bool]]:
    """The rows of the state, each with whether it has had a partner. (1)"""
    for row in store.decode(partition, [*store.entries(partition, state).items()]):
        columns = {name: value for name, value in row.value.items() if name != "matched"}
        yield json.dumps(columns), bool(row.value.get("matched"))
