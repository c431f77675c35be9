"""limit(n) in append mode: n rows in the life of a query, restarts included; in complete mode, n rows of each answer."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from tests.conformance.conftest import Compare
from tests.conformance.inputs import rows_of

FEED = [rows_of(*({"k": k} for k in keys)) for keys in ("aab", "bcc", "dd", "e")]


def read(session, input_dir):
    return session.readStream.schema("k string").json(input_dir)


@pytest.mark.parametrize("n", [0, 1, 3, 5, 100])
def test_limit_of_appended_rows(compare: Compare, n: int) -> None:
    compare(lambda s, d: read(s, d).limit(n), FEED)


@pytest.mark.parametrize("relay", [("model",), ("model", "spark"), ("spark", "model")], ids="-".join)
def test_restarts_remember_how_many_rows_have_passed(compare: Compare, relay: tuple[str, ...]) -> None:
    compare(lambda s, d: read(s, d).select(F.upper("k").alias("K")).limit(4), FEED, restart_after=range(3), relay=relay)


def test_limit_above_and_below_a_filter(compare: Compare) -> None:
    compare(lambda s, d: read(s, d).where("k > 'a'").limit(3), FEED)


def test_limit_of_the_whole_answer(compare: Compare) -> None:
    compare(lambda s, d: read(s, d).groupBy("k").count().orderBy(F.desc("count"), "k").limit(2), FEED, output_mode="complete")


def test_limit_of_the_whole_answer_in_no_order(compare: Compare) -> None:
    compare(lambda s, d: read(s, d).groupBy("k").count().select("count").where("count < 0").limit(2), FEED, output_mode="complete")


def test_state_is_kept_below_a_filter_that_no_row_can_pass(compare: Compare) -> None:
    compare(lambda s, d: read(s, d).groupBy("k").count().where("1 = 0"), FEED, output_mode="complete")
