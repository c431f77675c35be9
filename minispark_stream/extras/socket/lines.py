"""The connection of a socket source: a thread that reads lines of text as they arrive.

Models: the read thread of TextSocketMicroBatchStream and TextSocketContinuousStream (Source document).

    bytes "one\\ntw", later "o\\n"     ->   add(("one",)), add(("two",)); with the time: add(("one", 12:00:00)), ...

Lines end with \\n, \\r or \\r\\n; bytes that are not UTF-8 become U+FFFD.

Differs from Spark: nothing.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from minispark_stream.engine.clock import Clock

SocketRow = tuple[Any, ...]  # the text of a line, and perhaps a time
logger = logging.getLogger(__name__)


class SocketLines:
    """An open connection; `add` is called with each line as a row, with the time of its arrival if there is to be one.

    Raises:
        OSError: the connection cannot be opened.
    """

    def __init__(self, host: str, port: int, include_timestamp: bool, clock: Clock, add: Callable[[SocketRow], None]):
        self._host, self._port, self._clock, self._add = host, port, clock, add
        self._include_timestamp = include_timestamp
        try:
            self._connection = socket.create_connection((host, port))
        except OSError as e:
            raise type(e)(e.strerror) from e
        threading.Thread(target=self._read, name=f"TextSocketSource({host}, {port})", daemon=True).start()

    def stop(self) -> None:
        try:
            self._connection.shutdown(socket.SHUT_RDWR)  # ends the read of the other thread
        except OSError:
            pass  # the other side was quicker
        self._connection.close()

    def _read(self) -> None:
        try:
            with self._connection.makefile("r", encoding="utf-8", errors="replace") as text:
                for line in text:
                    self._add(self._row(line.removesuffix("\n")))
            logger.warning("Stream closed by %s:%s", self._host, self._port)
        except (OSError, ValueError):
            pass  # the query was stopped

    def _row(self, text: str) -> SocketRow:
        if not self._include_timestamp:
            return (text,)
        return text, datetime.fromtimestamp(self._clock.get_time_millis() / 1000, tz=UTC)
