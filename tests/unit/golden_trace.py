"""The trace of a windowed count that tests/spark/test_trace_windows.py has recorded: what the tests of the lens look at."""

from pathlib import Path

from minispark_stream.lens.trace.trace import Trace

GOLDEN = Path(__file__).parents[1] / "golden"
TRACE = Trace.load(GOLDEN / "trace_windows.json")


def loaded(trace: Trace) -> Trace | None:
    """A trace as it is after it was saved and loaded; None if it is refused, because a step cannot have such values."""
    try:
        return Trace.from_json(trace.to_json())
    except ValueError:
        return None
