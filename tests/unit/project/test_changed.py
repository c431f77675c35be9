"""Which tests a change touches (tests/changed.py)."""

from __future__ import annotations

import pytest

from tests.changed import touched_tests


@pytest.mark.parametrize(
    ("changed", "touched", "not_touched"),
    [
        pytest.param(
            "minispark_stream/engine/runtime/watermark_tracker.py", "tests/unit/engine/runtime/test_watermark_tracker.py", "tests/unit/engine/checkpointing/test_lz4_block.py",
            id="a module: the tests that import it",
        ),
        pytest.param(
            "minispark_stream/engine/checkpointing/lz4_block.py", "tests/unit/engine/state/test_state_store.py", "tests/unit/engine/runtime/test_watermark_tracker.py",
            id="a module: the tests that import it by way of others",
        ),
        pytest.param(
            "minispark_stream/engine/runtime/query_planner.py", "tests/spark/test_differences.py::test_what_an_error_tells",
            "tests/unit/engine/checkpointing/test_lz4_block.py", id="a module: the tests with Spark that it names",
        ),
        pytest.param(
            "tests/conformance/test_limit.py", "tests/conformance/test_limit.py", "tests/conformance/test_sinks.py", id="a test itself",
        ),
    ],
)
def test_a_change_touches(changed, touched, not_touched):
    tests = touched_tests([changed])
    assert touched in tests
    assert not_touched not in tests


def test_a_page_touches_no_test():
    assert touched_tests(["README.md"]) == []
