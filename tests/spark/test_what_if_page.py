"""The model of watermark and windows in the page of a trace comes to what runs of the engine come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from minispark_stream.lens.trace.fates import LATE, fates
from minispark_stream.lens.view.page import page
from minispark_stream.lens.view.played import played
from minispark_stream.tools.compare.experiment import Experiment
from minispark_stream.tools.compare.outcome import Outcome
from tests.golden.play_cases import as_json, parsed, query
from tests.unit.browser import browser, opened  # noqa: F401

FEED = [
    ["12:01,a,1", "12:03,b,2", "12:07,b,3"], ["12:21,a,4"], ["12:04,a,6", "12:14,b,7", "12:16,b,8"],
    ["12:26,a,9"], ["12:12,a,10", "12:20,b,11", "12:58,a,12"],
]


def sums(session: Any, folder: str, delay: str, size: str) -> DataFrame:
    parts = F.split("value", ",")
    time = F.to_timestamp(F.concat(F.lit("2024-01-01 "), parts[0]))
    lines = session.readStream.option("maxFilesPerTrigger", 1).text(folder)
    rows = lines.select(time.alias("t"), parts[1].alias("k"), parts[2].cast("int").alias("n")).withWatermark("t", delay)
    return rows.groupBy(F.window("t", size), "k").agg(F.count("*").alias("rows"), F.sum("n"))


def engine_says(run: Outcome) -> dict[str, Any]:
    """Late rows as (batch, event time), and what came out as (batch, start of the window, key, rows)."""
    found = fates(run.trace)
    return {
        "late": sorted((fate.batch.batch_id, fate.event_ms) for fate in found.rows if fate.what == LATE),
        "emitted": sorted((r.batch_id, r.row["window"]["start"], r.row["k"], r.row["rows"]) for r in run.results),
        "batches": len(run.trace.batches), "watermark": run.watermark_ms,
    }


IN_PAGE = """([delay, size]) => {
  const said = whatIf(data.what_if, delay * 60000, size * 60000);
  const time = ms => new Date(ms).toISOString().slice(0, 19).replace("T", " ");
  return { late: said.late.map(row => [row.batch, row.time]), batches: said.batches, watermark: said.watermark,
           emitted: said.emitted.map(one => [one.batch, time(one.start), one.key.replace("k=", ""), one.count]) };
}"""


@pytest.mark.parametrize(("at_once", "others"), [(False, [(0, 5), (5, 20)]), (True, [(20, 10)])], ids=["file by file", "all at once"])
def test_other_delays_and_windows_come_to_the_same_in_the_page_and_in_the_engine(
    spark: SparkSession, browser: Browser, tmp_path: Path, at_once: bool, others: list[tuple[int, int]]  # noqa: F811
) -> None:
    experiment = Experiment(spark, sums)

    def ran(delay: int, size: int) -> Outcome:
        return experiment.run({"delay": f"{delay} minutes", "size": f"{size} minutes"}, FEED, at_once=at_once)

    recorded = ran(2, 10)
    tab = opened(browser, page({"model": recorded.trace}), tmp_path)
    for knobs in [(2, 10), *others]:
        said = {name: sorted(map(tuple, v)) if isinstance(v, list) else v for name, v in tab.evaluate(IN_PAGE, list(knobs)).items()}
        assert said == engine_says(ran(*knobs)), knobs


@pytest.mark.parametrize(("case", "at_once"), [
    ("windows;delay=10;size=10;slide=5;mode=update;n=1;rows=a12:02,a12:04|b12:24|a12:05,a12:12", True),
    ("dedup;delay=10;n=1;rows=a12:02,a12:08|b12:24|a12:10,a12:15", False),
    ("join;delay=5;within=10;how=left;n=1;rows=ad a12:00,ad b12:02|click a12:06|ad c12:30,click c12:31|ad a12:01,click b12:09", True),
    ("sessions;delay=5;gap=5;n=1;rows=a12:00,a12:08|a12:04|b12:30|a12:06", False),
], ids=lambda value: value.split(";")[0] if isinstance(value, str) else "all at once" if value else "file by file")
def test_the_page_to_play_with_comes_to_what_the_query_did(
    spark: SparkSession, browser: Browser, tmp_path: Path, case: str, at_once: bool  # noqa: F811
) -> None:
    """It has the rows and the knobs of the query; and where the query is given another fact, it says so."""
    given = parsed(case)
    run = Experiment(spark, lambda session, folder: query(session, folder, given)).run(
        {}, [list(map(as_json, rows)) for rows in given["files"]], output_mode=given.get("mode", "append"), at_once=at_once
    )
    page_of_query = played(run.trace)
    tab = opened(browser, page_of_query.page(), tmp_path, at=0)
    tab.evaluate("begin(given.case)")
    assert tab.evaluate("textOf({ ...shown, scale: USUAL, waits: false, sides: [], files: shown.files.map(rows => rows.map(row => "
                        "({ ...row, time: row.time - shown.scale.zero }))) })") == case
    assert tab.evaluate("differs()") == "" and tab.evaluate("batches.length") == len(run.trace.batches)
