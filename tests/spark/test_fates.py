"""What the trace says of a row is what real Spark did with it: random queries over rows that have an id of their own.

1. A query is drawn: what it does, how far its watermark is behind, whether it is restarted, and some batches of rows, late ones
   among them.
2. It runs on both engines, which must agree. Of each row the trace of the model then says what became of it.
3. Real Spark is asked whether that is true, batch by batch: its sink, which rows came out, and with which partner; its metrics,
   how many were dropped, and how many are held.

`FATES=0-299` runs the queries of these numbers; without it, those of FEW run.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from minispark_stream import side_by_side
from minispark_stream.lens.trace.fates import DUPLICATE, KEPT, LATE, PASSED, UNKNOWN, Fate, Fates, fates
from minispark_stream.lens.view.event_timers import EVENT, timers
from minispark_stream.lens.view.world_changes import worlds
from minispark_stream.tools.compare.comparison import Comparison
from tests.conformance.recordings import Recordings

FEW = (2, 12, 16, 19, 20)  # sessions; windows above a left join, and above windows; a function with timers, and duplicates above it
FIRST, _, LAST = os.environ.get("FATES", "").partition("-")
NUMBERS = range(int(FIRST), int(LAST) + 1) if LAST else FEW
Query = Callable[[Any, str, int], DataFrame]


def rows(session: Any, folder: str, name: str, delay: int) -> DataFrame:
    """Lines `12,a,7` of a subfolder: minutes after noon, a key, an id."""
    lines = session.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(f"{folder}/{name}")
    parts = F.split("value", ",")
    time = F.timestamp_seconds(F.lit(1_704_110_400) + parts[0].cast("int") * 60)
    named = lines.select(time.alias(f"t{name}"), parts[1].alias(f"k{name}"), parts[2].cast("int").alias(f"id{name}"))
    return named.withWatermark(f"t{name}", f"{delay} minutes")


IDS = "collect_list(ida) AS ids"
ALL_IDS = "sum(aggregate(ids, 0L, (all, id) -> all + shiftleft(1L, id))) AS bits"  # the order of lists is nobody's promise


def windows(slide: int | None) -> Query:
    def build(session: Any, folder: str, delay: int) -> DataFrame:
        window = F.window("ta", "10 minutes", f"{slide} minutes") if slide else F.window("ta", "10 minutes")
        return rows(session, folder, "a", delay).groupBy(window, "ka").agg(F.expr(IDS))

    return build


def sessions(session: Any, folder: str, delay: int) -> DataFrame:
    return rows(session, folder, "a", delay).groupBy(F.session_window("ta", "4 minutes"), "ka").agg(F.expr(IDS))


def distinct(session: Any, folder: str, delay: int) -> DataFrame:
    return rows(session, folder, "a", delay).dropDuplicates(["ka", "ta"])


def distinct_within(session: Any, folder: str, delay: int) -> DataFrame:
    return rows(session, folder, "a", delay).dropDuplicatesWithinWatermark(["ka"])


def limited(session: Any, folder: str, delay: int) -> DataFrame:
    return rows(session, folder, "a", delay).limit(5)


def joined(how: str) -> Query:
    def build(session: Any, folder: str, delay: int) -> DataFrame:
        near = F.expr("ka = kb AND ida % 5 > 0 AND tb BETWEEN ta - INTERVAL 3 MINUTES AND ta + INTERVAL 5 MINUTES")
        return rows(session, folder, "a", delay).join(rows(session, folder, "b", delay), near, how)

    return build


def in_windows(below: Query, time: str = "ta", length: int = 10, ids: str = IDS) -> Query:
    return lambda *of: below(*of).groupBy(F.window(F.expr(time), f"{length} minutes")).agg(F.expr(ids))


def in_sessions(below: Query) -> Query:
    return lambda *of: below(*of).groupBy(F.session_window("ta", "4 minutes"), "ka").agg(F.expr(IDS))


def longer(below: Query, window: str = "window") -> Query:
    """Windows of half an hour above windows; a filter between them leaves some out."""
    return in_windows(lambda *of: below(*of).where("size(ids) < 3"), f"window_time({window})", 30, ALL_IDS)


def first_windows(session: Any, folder: str, delay: int) -> DataFrame:
    below = windows(None)(session, folder, delay)  # two windows of a key that leave together: no order says which is first
    return below.select(F.window_time("window").alias("t"), "ka", "ids").dropDuplicatesWithinWatermark(["ka"])


def keep_until(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
    """The ids of a key at once, and all of them once more when no row has come for five minutes."""
    import pandas as pd

    if state.hasTimedOut:
        yield pd.DataFrame({"ka": [key[0]], "ids": [[int(n) for n in state.get[0].split()]]})
        state.remove()
        return
    rows = pd.concat(frames)
    came = " ".join(map(str, rows["ida"]))
    state.update((f"{state.get[0]} {came}" if state.exists else came,))  # Spark's worker cannot read a state with an array
    state.setTimeoutTimestamp(max(int(rows["ta"].max().timestamp() * 1000) + 300_000, state.getCurrentWatermarkMs() + 1))
    yield pd.DataFrame({"ka": [key[0]], "ids": [rows["ida"].tolist()]})


def kept_until(session: Any, folder: str, delay: int) -> DataFrame:
    by_key = rows(session, folder, "a", delay).groupBy("ka")
    return by_key.applyInPandasWithState(keep_until, "ka string, ids array<int>", "ids string", "append", "EventTimeTimeout")


def distinct_lists(session: Any, folder: str, delay: int) -> DataFrame:
    """Without a projection between the two, Spark's operator above cannot read what comes out of Python."""
    return kept_until(session, folder, delay).withColumn("n", F.size("ids")).dropDuplicates(["ka", "ids"])


JOINS: Mapping[str, Query] = {
    how: joined(how) for how in ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
}
QUERIES: Mapping[str, Query] = {
    "tumbling": windows(None), "sliding": windows(5), "sessions": sessions, "distinct": distinct, "within": distinct_within,
    "limit": limited, **JOINS,
    "inner join, then windows": in_windows(joined("inner")), "left join, then windows": in_windows(joined("left_outer")),
    "semi join, then sessions": in_sessions(joined("left_semi")), "distinct, then windows": in_windows(distinct),
    "within, then sessions": in_sessions(distinct_within), "windows, then longer ones": longer(windows(None)),
    "sessions, then windows": longer(sessions, "session_window"), "windows, then within": first_windows,
    "state": kept_until, "state, then distinct": distinct_lists,
}


def drawn(seed: int) -> tuple[str, int, list[Any], list[int]]:
    """(1) Later batches have later rows, and some that are long past."""
    draw = random.Random(seed)
    name = list(QUERIES)[seed % len(QUERIES)]
    sides = ("a", "b") if name in JOINS or "join" in name else ("a",)
    number, feed = iter(range(1, 1000)), []
    step = draw.choice((6, 9, 12))
    for batch in range(draw.randint(4, 6)):
        feed.append({
            side: [f"{max(0, batch * step + draw.choice((-25, -12, -5, -1, 0, 1, 3)))},{draw.choice('xyz')},{next(number)}"
                   for _ in range(draw.randint(1, 4))]
            for side in sides
        })
    restarts = sorted(draw.sample(range(len(feed) - 1), draw.choice((0, 0, 1, 2))))
    return name, draw.choice((0, 4, 10)), feed, restarts


def number_of(fate: Fate) -> int:
    return int(str(fate.row["value"]).split(",")[2])


def came_out(found: Fates, fate: Fate) -> Iterator[tuple[int, Any]]:
    """(2) In which batches a row came out of the query, and of a join on top of it with which partner (None: nulls)."""
    operator = fate.operator
    if operator is None or fate.what not in (KEPT, PASSED):
        return
    is_on_top = operator.operator_id == 0
    if operator.keeps == "rows" and is_on_top:
        partner = ("idb", "ida")[fate.side]
        yield from ((b.batch_id, None if row is None else row.get(partner)) for b, _, row in found.emissions(fate) or ())
    elif operator.keeps == "values" and is_on_top:
        yield from ((one.batch.batch_id, None) for one in found.given(fate) or () if number_of(fate) in one.row.get("ids", ()))
    elif operator.keeps in ("keys", "count") and is_on_top:
        yield fate.batch.batch_id, None
    elif operator.keeps in ("groups", "sessions") and is_on_top:
        assert fate.holding is not None
        yield from ((found.batches[number].batch_id, None) for number in fate.holding.last.emitted)
    elif operator.keeps == "values":  # of the rows of a key, those that have the id of this one
        for given in found.given(fate) or ():
            if number_of(fate) in given.row.get("ids", ()):
                for above in found.emitted.get((operator.operator_id, given.batch.number, given.place or 0), ()):
                    yield from came_out(found, above)
    else:
        for place in found.places(fate):
            for one in found.emitted.get(place, ()):
                yield from came_out(found, one)


def sink(compared: Comparison) -> dict[int, Counter[Any]]:
    """(3) The same of real Spark's sink, by the ids in its rows."""
    came: dict[int, Counter[Any]] = {}
    for batch in compared.spark.batches:
        for row in batch.rows:
            values = dict(zip(compared.columns, row))
            for number in values.get("ids") or [n for n in range(63) if values.get("bits", 0) >> n & 1]:
                came.setdefault(number, Counter())[batch.batch_id, None] += 1
            for own, other in (("ida", "idb"), ("idb", "ida")):
                if values.get(own) is not None:
                    came.setdefault(values[own], Counter())[batch.batch_id, values.get(other)] += 1
    return came


def dropped(of_batch: list[Fate]) -> int:
    """How many rows an operator dropped as late: of an aggregation those that Spark had made of them by key."""
    late = [fate for fate in of_batch if fate.what == LATE]
    is_merged = bool(late) and late[0].operator is not None and late[0].operator.keeps in ("groups", "sessions")
    return len({str(fate.at["key"]) for fate in late}) if is_merged else len(late)


def wrong(compared: Comparison, name: str) -> list[str]:
    """What is said and is not so."""
    found, came, complaints = fates(compared.model.trace), sink(compared), []
    said: dict[int, Counter[Any]] = {}
    for fate in found.rows:
        said.setdefault(number_of(fate), Counter()).update(came_out(found, fate))
    for number, out in said.items():
        if name == "left_semi":  # the partner is not in the sink, and the right rows are not
            out = Counter(batch for batch, _ in out.elements())
            did = Counter(batch for batch, _ in came.get(number, Counter()).elements())
            if did != out and not (out and number not in came and _is_right(found, number)):
                complaints.append(f"{number} is said to come out in {dict(out)}, and did in {dict(did)}")
        elif out != came.get(number, Counter()) and not ("then" in name and _is_right(found, number)):
            complaints.append(f"{number} is said to come out in {dict(out)}, and did in {dict(came.get(number, {}))}")
    every = [*found.rows, *(fate for of_row in found.emitted.values() for fate in of_row)]
    complaints += [f"nothing is known of {fate}" for fate in every if fate.what == UNKNOWN]
    for batch, reported in zip(found.batches, compared.spark.batches):
        for operator_id, metrics in enumerate(reported.progress["stateOperators"]):
            here = [f for f in every if f.batch is batch and f.operator is not None and f.operator.operator_id == operator_id]
            held = [
                h for h in found.holdings if h.operator_id == operator_id and h.opened <= batch.number
                and (h.evicted is None or h.evicted > batch.number) and (h.merged is None or h.merged > batch.number)
            ]
            tells = {"dropped": dropped(here), "held": len(held), "duplicates": sum(f.what == DUPLICATE for f in here)}
            so = {"dropped": metrics["numRowsDroppedByWatermark"], "held": metrics["numRowsTotal"],
                  "duplicates": metrics["customMetrics"].get("numDroppedDuplicateRows", 0)}
            if metrics["operatorName"] in ("globalLimit", "applyInPandasWithState"):
                del tells["held"], so["held"]  # a number, no rows; what a function keeps is its own business
            if tells != so:
                complaints.append(f"batch {reported.batch_id}, operator {operator_id}: {tells} is said, and {so} was")
    return complaints


def timers_wrong(compared: Comparison) -> list[str]:
    """Where `kept_until` is on top, ids that Spark's sink got before come because of a timeout; each state has a timeout."""
    drawn, seen, did = timers(fates(compared.model.trace), 0).get(EVENT, ()), set[int](), Counter[Any]()
    for batch in compared.spark.batches:
        did.update((batch.batch_id, row[0]) for row in batch.rows if seen.issuperset(row[1]))
        seen.update(number for row in batch.rows for number in row[1])
    said = Counter((compared.spark.batches[one.last].batch_id, *re.findall("ka=(.)", one.title)) for one in drawn if one.fired and one.last is not None)
    complaints = [] if said == did else [f"timers are said to fire in {said}, and did in {did}"]
    for number, batch in enumerate(compared.spark.batches):
        held = sum(one.first <= number and (one.last is None or one.last > number) for one in drawn)
        if held != batch.progress["stateOperators"][0]["numRowsTotal"]:
            complaints.append(f"batch {batch.batch_id}: {held} timers are drawn")
    return complaints


def _is_right(found: Fates, number: int) -> bool:
    return any(number_of(fate) == number and fate.side == 1 for fate in found.rows)


def in_new_york(session: Any, folder: str, delay: int) -> DataFrame:
    near = F.expr("ka = kb AND tb BETWEEN ta - INTERVAL 3 MINUTES AND ta + INTERVAL 5 MINUTES")
    return rows(session, folder, "a", delay).join(rows(session, folder, "b", delay), near, "left_outer")


def test_a_fate_says_all_times_in_utc_and_the_names_of_columns(spark: SparkSession) -> None:
    """Also in a session of another time zone, and in the panel of the state."""
    feed = [{"a": ["1,x,1"], "b": ["2,x,2"]}, {"a": ["30,y,3"], "b": ["31,z,4"]}]
    query = lambda session, folder: in_new_york(session, folder, 4).withColumn("hour", F.hour("ta"))  # noqa: E731
    compared = side_by_side(spark, query, feed, progress=False, confs={"spark.sql.session.timeZone": "America/New_York"})
    assert compared.differences == ()
    found = fates(compared.model.trace)
    (first,) = compared.model.trace.fate({"ta": "2024-01-01 12:01:00", "ka": "x"}).rows
    stations = dict(first.stations)
    assert "partition" in stations["operator 0"] and stations["operator 0"].endswith("key ka=x"), stations
    assert stations["event time"].startswith("12:01:00 UTC") and "with tb=2024-01-01 12:02:00 kb=x idb=2" in first.fate, stations
    assert {tuple(fate.at["key"]) for fate in found.rows} == {("ka",), ("kb",)}
    spark_rows, model_rows = ([e.outputs["rows"] for e in one.events if e.step == "addBatch"] for one in compared.traces.values())
    assert spark_rows == model_rows and model_rows[0][0]["ta"] == "2024-01-01 12:01:00" and model_rows[0][0]["hour"] == 7
    panels = [row for w in worlds(compared.model.trace.events) for shown in w.operators for row in shown.rows or ()]
    assert panels and all({"ka", "kb"} & row.key.keys() for row in panels)


@pytest.mark.parametrize("seed", NUMBERS)
def test_what_is_said_of_a_row_is_what_spark_did_with_it(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, seed: int) -> None:
    name, delay, feed, restarts = drawn(seed)

    def query(session: Any, folder: str) -> DataFrame:
        return QUERIES[name](session, folder, delay)

    play = partial(side_by_side, spark, query, feed, restart_after=restarts, directory=str(tmp_path), progress=False)
    compared = Recordings(request.node, tmp_path).compare(play)
    assert compared.model.error is None and compared.differences == (), name
    assert wrong(compared, name) == [], (name, delay, feed, restarts)
    assert name != "state" or timers_wrong(compared) == [], (delay, feed, restarts)
