"""How long the phases took (engine/runtime/progress_reporter.py)."""

from __future__ import annotations

from minispark_stream.engine.runtime.progress_reporter import ProgressReporter


def test_time_goes_to_the_phase_that_it_belongs_to() -> None:
    reporter = ProgressReporter(keep=100)
    reporter.start_trigger(0)
    with reporter.timed("other"):
        reporter.move(3, "queryPlanning", "addBatch")
    assert reporter.durations().items() >= {"queryPlanning": -3, "addBatch": 3}.items()
    with reporter.timed("queryPlanning"):
        reporter.move(0, "queryPlanning", "addBatch")
    after = reporter.durations()
    assert after["queryPlanning"] >= -3 and after["addBatch"] == 3 and "other" not in after
