"""The demo says what it does while it runs, and opens a browser only where somebody sees it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from minispark_stream.tools.demo import BatchLines, has_screen


@pytest.mark.parametrize(
    ("env", "platform", "seen"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "linux", False),
        ({}, "darwin", True),
        ({"SSH_CONNECTION": "a b"}, "darwin", False),
        ({"SSH_CONNECTION": "a b", "DISPLAY": "localhost:10"}, "linux", True),
        ({"CI": "true", "DISPLAY": ":99"}, "linux", False),
    ],
)
def test_a_browser_opens_only_where_there_is_a_screen(env, platform, seen):
    assert has_screen(env, platform) is seen


def test_a_batch_is_a_line(capsys):
    batch = SimpleNamespace(batchId=3, numInputRows=1234, batchDuration=812)
    BatchLines("Spark").onQueryProgress(SimpleNamespace(progress=batch))  # type: ignore[arg-type]
    assert capsys.readouterr().out == "  Spark  batch 3   1,234 rows    0.8 s\n"
