"""From a seed to a case: a query, the rows of its two streams, its confs, when it is restarted and who then goes on."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.conformance.actions import ACTIONS
from tests.conformance.random_queries import row_wise, stateful
from tests.conformance.random_queries.row_wise import IN_ORDER, Step
from tests.conformance.random_queries.rows import DAYS, KEYS, NUMBERS, VALUES, Rows
from tests.conformance.random_queries.sources import BY_VALUE, FORMATS, Stream, fits
from tests.conformance.random_queries.stateful import STATEFUL
from tests.conformance.random_queries.tables import CHANGES, KINDS, Table

EVOLUTION = {"spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"}
CONFS: tuple[dict[str, str], ...] = (
    {"spark.sql.shuffle.partitions": "1"},
    {"spark.sql.shuffle.partitions": "3"},
    {"spark.sql.streaming.multipleWatermarkPolicy": "max"},
    {"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
    {"spark.sql.session.timeZone": "Asia/Kathmandu"},
    {"spark.sql.ansi.enabled": "false"},
    {"spark.sql.codegen.wholeStage": "false"},
    {"spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition": "true"},
    {"spark.sql.streaming.stateStore.compression.codec": "zstd"},
    {"spark.sql.streaming.statefulOperator.allowMultiple": "false"},
    {"spark.sql.streaming.offsetLog.formatVersion": "2"},
    {"spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.PushDownPredicates"},
)


@dataclass(frozen=True)
class Case:
    """A query and everything that decides how it runs; `of_right` are steps of the second stream only."""

    seed: int
    steps: tuple[Step, ...]
    of_right: tuple[Step, ...]
    mode: str
    left: Stream
    right: Stream
    table: Table
    length: int
    confs: dict[str, str]
    restarts: tuple[int, ...]
    relay: tuple[str, ...]
    actions: tuple[str, ...]

    @property
    def kinds(self) -> list[str]:
        return [step[0] for step in self.steps]

    @property
    def streams(self) -> list[Stream]:
        return [self.left, self.right] if {"join", "union"} & set(self.kinds) else [self.left]


def drawn(seed: int) -> Case:
    """The case of a seed."""
    r = random.Random(seed)
    before = [row_wise.draw(r) for _ in range(r.choice([0, 0, 1, 1, 2, 3]))]
    kept = [stateful.draw(r) for _ in range(r.choice([0, 1, 1, 1, 1, 2]))]
    after = [row_wise.draw(r) for _ in range(r.choice([0, 0, 1]))]
    last = [stateful.draw_last(r)] if r.random() < 0.25 else []
    delay, names = r.choice([0, 10, 10, 30, 30, 30, None]), r.random() < 0.1
    mode = r.choice(_modes([*kept, *last], delay) if r.random() < 0.95 else ["append", "update", "complete"])
    if mode == "complete" and r.random() < 0.5:
        last.append(("sort", "v"))
    types = r.choice(sorted(KEYS)), r.choice(sorted(NUMBERS)), r.choice([*sorted(VALUES), *BY_VALUE])
    nulls, day = r.choice([0, 0.2, 0.2, 0.7]), random.Random(f"day {seed}").choice(DAYS)
    left = _stream(r, "left", Rows(*types, nulls, r.randrange(2**32), day), delay, names)
    other_delay = delay if r.random() < 0.8 else r.choice([0, 20, None])
    right = _stream(r, "right", Rows(*types, nulls, r.randrange(2**32), day), other_delay, names)
    length = r.choice([2, 3, 3])
    changes = tuple((r.randrange(1, length), r.choice(sorted(CHANGES))) for _ in range(r.choice([0, 1, 1, 2])))
    confs = {**(r.choice(CONFS) if r.random() < 0.5 else {}), **(EVOLUTION if names else {})}
    restarts = tuple(r.sample(range(length), r.choice([0, 0, 0, 1, 1, 2])))
    relay = r.choice([("model",), ("model", "spark"), ("spark", "model")])
    actions = ("rows",) if r.random() < 0.8 else tuple(r.sample(sorted(ACTIONS), 2))
    chain = _comparable([*before, *kept, *after, *last], left)
    if "sort" in [step[0] for step in chain]:  # Spark 4.3.0 cannot read it from the cache (engine/sinks/foreach_batch.py)
        actions = tuple(action for action in actions if action != "cached")
    return Case(seed, chain, _of_right(seed, right), mode, left, right, Table(r.choice(KINDS), changes), length, confs, restarts, relay, actions)


def _of_right(seed: int, right: Stream) -> tuple[Step, ...]:
    r = random.Random(f"right {seed}")
    return _comparable([stateful.draw_below(r)] if r.random() < 0.2 else [], right)


def _modes(steps: list[Step], delay: int | None) -> list[str]:
    """The modes that Spark is likely to take."""
    kinds = {step[0] for step in steps}
    if "group" in kinds:
        return ["update", "complete"] if len(steps) == 1 else ["complete"]
    if len(steps) > 1 or any(step[0] == "join" and step[1] != "inner" for step in steps):
        return ["append"]
    if delay is None and kinds & {"window", "session"}:
        return ["update", "complete"]
    return ["append", "append", "update", "complete"] if kinds & {"window", "session"} else ["append", "append", "update"]


def _stream(r: random.Random, folder: str, rows: Rows, delay: int | None, named: bool) -> Stream:
    format = r.choice(FORMATS)
    return Stream(folder, format if fits(format, rows) else "json", rows, delay, named)


def _comparable(chain: list[Step], stream: Stream) -> tuple[Step, ...]:
    """The chain without what is not certain, or known to differ.

    Which rows a limit lets pass, and which row of a key is the first, is only certain while rows are in a file's order. Two branches
    above a state share its shuffle in Spark (engine/runtime/watermark_propagator.py).
    """
    found: list[Step] = []
    for step in chain:
        earlier = {kind for kind, *_ in found}
        if not stream.in_one_order or not earlier <= IN_ORDER:
            if step[0] == "limit":
                continue
            if step[0].startswith("distinct"):
                step = step[0], ["ts", "k", "v", "w"]
        if step[0] != "branches" or not earlier & STATEFUL:
            found.append(step)
    return tuple(found)
