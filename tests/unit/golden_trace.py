"""The trace of a windowed count that tests/spark/test_trace_windows.py has recorded: what the tests of the lens look at."""

from pathlib import Path

from minispark_stream.lens.trace.trace import Trace

GOLDEN = Path(__file__).parents[1] / "golden"
TRACE = Trace.load(GOLDEN / "trace_windows.json")
