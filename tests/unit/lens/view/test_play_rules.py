"""The rules in the page to play with come to what real Spark came to on recorded random cases (tests/golden/play_cases.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from minispark_stream.lens.view.play import play
from tests.golden.play_cases import CASES, OPERATORS, recorded
from tests.unit.browser import browser, opened  # noqa: F401

IN_PAGE = """texts => texts.map(text => {
  const given = caseOf(text), batches = batchesOf(given), { operator } = given;
  const say = out => out.key + ("ad" in out ? `${clock(out.ad)}-${out.click === null ? "null" : clock(out.click)}`
    : "count" in out ? `${clock(out.start)}-${clock(out.end)}=${out.count}` : clock(out.time));
  return {
    batches: batches.map(b => [b.number, b.watermark === NONE ? null : clock(b.watermark), b.held.size, b.dropped.length]),
    sink: deliveries(batches, given.crash).map(({ number, out }) => [number, out.map(say).sort()]),
    text: textOf(given),
  };
})"""


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_page_comes_to_what_spark_came_to(browser: Browser, tmp_path: Path, operator: str) -> None:  # noqa: F811
    found = {text: right for text, right in recorded().items() if text.startswith(operator)}
    assert len(found) >= CASES
    for text, said in zip(found, opened(browser, play().page(), tmp_path).evaluate(IN_PAGE, list(found))):
        assert said.pop("text") == text, "a link carries the whole case"
        # Spark counts what windows and sessions drop after it has counted rows together, a task at a time.
        count = 4 if operator in ("dedup", "join") else 3
        for one in (said, found[text]):
            one["batches"] = [batch[:count] for batch in one["batches"]]
        assert said == found[text], text
