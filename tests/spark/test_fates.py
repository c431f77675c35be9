"""What the trace says of a row is what real Spark did with it: random queries over rows that have an id of their own.

1. A query is drawn: what it does, how far its watermark is behind, and some batches of rows, late ones among them.
2. It runs on both engines, which must agree. Of each row the trace of the model then says what became of it.
3. Real Spark's sink, its metrics and its state are asked whether that is true.

`FATES=300` runs so many queries; without it, those of FEW run.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from minispark_stream import side_by_side
from minispark_stream.lens.trace.fates import KEPT, LATE, PASSED, Fate, Fates, fates
from minispark_stream.tools.compare.comparison import Comparison

MANY = int(os.environ.get("FATES", "3"))
FEW = (2, 7, 11)  # sessions, a left join, and windows above one


def rows(session: Any, folder: str, name: str, delay: int) -> DataFrame:
    """Lines `12,a,7` of a subfolder: minutes after noon, a key, an id."""
    lines = session.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(f"{folder}/{name}")
    parts = F.split("value", ",")
    time = F.timestamp_seconds(F.lit(1_704_110_400) + parts[0].cast("int") * 60)
    named = lines.select(time.alias(f"t{name}"), parts[1].alias(f"k{name}"), parts[2].cast("int").alias(f"id{name}"))
    return named.withWatermark(f"t{name}", f"{delay} minutes")


def windows(slide: int | None) -> Callable[..., DataFrame]:
    def build(session: Any, folder: str, delay: int) -> DataFrame:
        window = F.window("ta", "10 minutes", f"{slide} minutes") if slide else F.window("ta", "10 minutes")
        return rows(session, folder, "a", delay).groupBy(window, "ka").agg(F.collect_list("ida").alias("ids"))

    return build


def sessions(session: Any, folder: str, delay: int) -> DataFrame:
    return rows(session, folder, "a", delay).groupBy(F.session_window("ta", "4 minutes"), "ka").agg(F.collect_list("ida").alias("ids"))


def distinct(session: Any, folder: str, delay: int) -> DataFrame:
    return rows(session, folder, "a", delay).dropDuplicates(["ka", "ta"])


def distinct_within(session: Any, folder: str, delay: int) -> DataFrame:
    return rows(session, folder, "a", delay).dropDuplicatesWithinWatermark(["ka"])


def limited(session: Any, folder: str, delay: int) -> DataFrame:
    return rows(session, folder, "a", delay).limit(5)


def joined(how: str) -> Callable[..., DataFrame]:
    def build(session: Any, folder: str, delay: int) -> DataFrame:
        near = F.expr("ka = kb AND tb BETWEEN ta - INTERVAL 3 MINUTES AND ta + INTERVAL 5 MINUTES")
        return rows(session, folder, "a", delay).join(rows(session, folder, "b", delay), near, how)

    return build


def joined_and_counted(session: Any, folder: str, delay: int) -> DataFrame:
    both = joined("left_outer")(session, folder, delay)
    return both.groupBy(F.window("ta", "10 minutes")).agg(F.collect_list("ida").alias("ids"))


QUERIES: Mapping[str, Callable[..., DataFrame]] = {
    "tumbling": windows(None), "sliding": windows(5), "sessions": sessions, "distinct": distinct, "within": distinct_within,
    "limit": limited, **{how: joined(how) for how in ("inner", "left_outer", "right_outer", "full_outer", "left_semi")},
    "join, then windows": joined_and_counted,
}


def drawn(seed: int) -> tuple[str, int, list[dict[str, list[str]]]]:
    """(1) Later batches have later rows, and some that are long past."""
    draw = random.Random(seed)
    name = list(QUERIES)[seed % len(QUERIES)]
    sides = ("a", "b") if QUERIES[name] in map(QUERIES.get, ("inner", "left_outer", "right_outer", "full_outer", "left_semi",
                                                               "join, then windows")) else ("a",)
    number, feed = iter(range(1, 1000)), []
    for batch in range(draw.randint(4, 6)):
        now = batch * draw.choice((6, 9, 12))
        feed.append({
            side: [f"{max(0, now + draw.choice((-25, -12, -5, -1, 0, 1, 3)))},{draw.choice('xyz')},{next(number)}"
                   for _ in range(draw.randint(1, 4))]
            for side in sides
        })
    return name, draw.choice((0, 4, 10)), feed


def said(found: Fates, of_row: list[Fate]) -> tuple[Counter[int], bool]:
    """In which batches a row came out, as often as it did, and whether all that became of it is that it was late."""
    out: Counter[int] = Counter()
    for fate in of_row:
        if fate.operator is not None and fate.operator.keeps == "rows":
            out.update(batch.batch_id for batch, _ in found.emissions(fate) or ())
        elif fate.what == PASSED or fate.what == KEPT and fate.operator and fate.operator.keeps == "keys":
            out[fate.batch.batch_id] += 1
        elif fate.what == KEPT and fate.holding is not None:
            out.update(found.batches[number].batch_id for number in fate.holding.last.emitted)
    return out, all(fate.what == LATE for fate in of_row)


def wrong(compared: Comparison) -> list[str]:
    """(3) What is said of a row and is not so."""
    found, came, complaints = fates(compared.model.trace), dict[int, Counter[int]](), []
    for batch in compared.spark.batches:
        for row in batch.rows:
            values = dict(zip(compared.columns, row))
            for number in [*values.get("ids", ()), values.get("ida"), values.get("idb")]:
                if number is not None:
                    came.setdefault(number, Counter())[batch.batch_id] += 1
    by_number: dict[int, list[Fate]] = {}
    for fate in found.rows:
        by_number.setdefault(int(str(fate.row["value"]).split(",")[2]), []).append(fate)
    is_chain = any(batch.above for batch in found.batches)
    for number, of_row in by_number.items():
        out, is_late = said(found, of_row)
        if is_late and number in came:
            complaints.append(f"{number} is said to be late, and came out in {came[number]}")
        if not is_chain and out != came.get(number, Counter()) and not (out and number not in came and _is_semi(of_row)):
            complaints.append(f"{number} is said to come out in {dict(out)}, and did in {dict(came.get(number, {}))}")
    dropped = sum(o["numRowsDroppedByWatermark"] for b in compared.spark.batches for o in b.progress["stateOperators"])
    late = [fate for fate in found.rows if fate.what == LATE]
    merged = {(f.batch.number, str(f.at.get("key"))) if f.operator and f.operator.keeps in ("groups",) else (f.number, "") for f in late}
    if not is_chain and dropped != len(merged) and not any(f.operator and f.operator.keeps == "sessions" for f in late):
        complaints.append(f"{len(merged)} are said to be dropped, and {dropped} were")
    return complaints


def _is_semi(of_row: list[Fate]) -> bool:
    return any(fate.operator is not None and fate.operator.join_type == "LeftSemi" for fate in of_row)


@pytest.mark.parametrize("seed", range(MANY))
def test_what_is_said_of_a_row_is_what_spark_did_with_it(spark: SparkSession, seed: int) -> None:
    name, delay, feed = drawn(seed if MANY > len(FEW) else FEW[seed])
    plain = feed if len(feed[0]) > 1 else [{"a": batch["a"]} for batch in feed]
    compared = side_by_side(spark, lambda session, folder: QUERIES[name](session, folder, delay), plain, progress=False)
    assert compared.differences == (), name
    assert wrong(compared) == [], (name, delay, feed)
