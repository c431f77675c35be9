"""The socket source without Spark: when it connects."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from minispark_stream.engine.clock import SystemClock
from minispark_stream.engine.jvm import plans
from minispark_stream.extras.socket.source import TextSocketStream

SESSION: Any = None


def test_a_batch_that_is_run_again_does_not_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "frame_of_slices", lambda session, slices, schema: "rows")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    stream = TextSocketStream(SESSION, "127.0.0.1", port, 1, False, SystemClock())
    assert stream.get_batch("-1", "1") == "rows"
    assert stream.get_offset() == "-1"
    with pytest.raises(ConnectionRefusedError):
        stream.get_batch("1", "-1")
