"""Messages from the tasks to the driver, and the answers (Spark: RpcEnv, ThreadSafeRpcEndpoint, RpcEndpointRef).

A Python worker cannot use Spark's own RPC, so this is `multiprocessing.connection`: an address of the driver, at which
whoever wants to speak must first prove by HMAC that it knows a secret. The secret travels to the tasks inside their function.

    endpoint = RpcEndpoint("127.0.0.1", receive)      # on the driver: a port that is free
    endpoint.ref.ask(message)                         # in a task: what receive(message) returns

1. `receive` is called for one message at a time, whichever task it comes from.
2. If `receive` raises an error, `on_error` is called with it, and the connection is closed. Without `on_error`, `ask` raises
   it, as a RuntimeError.
3. When the endpoint is stopped, every `ask` raises OSError or EOFError.
4. A long message is sent in two pieces, its length first. TCP would keep the second back until the first has been acknowledged,
   which takes 40 ms.
5. Nobody waits for ever for one who is there and says nothing: a handshake, and a message that has begun, may stand still for
   `PATIENCE_S`; then the connection is closed. (A task may wait longer for its answer.)
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

logger = logging.getLogger(__name__)

PATIENCE_S = 30
_LOOK_AGAIN_S = 0.05  # how long a thread waits for a connection or a message before it looks whether the endpoint was stopped


@dataclass(frozen=True)
class RpcFailure:
    """The answer of an endpoint that could not do what it was asked."""

    what: str


@dataclass
class RpcEndpointRef:
    """The way to an endpoint; it can be sent to a task. There, `connect` opens a connection, which threads may share."""

    address: Any
    secret: bytes = field(repr=False)
    _connection: Any = field(default=None, repr=False)
    _lock: Any = field(default=None, repr=False)

    def connect(self) -> RpcEndpointRef:
        """A ref with a connection of its own. Raises OSError, EOFError: the driver does not listen any more."""
        connection = Connection(socket.create_connection(self.address, PATIENCE_S).detach())
        try:
            _set_options(connection, PATIENCE_S)
            answer_challenge(connection, self.secret)
            deliver_challenge(connection, self.secret)
            _set_options(connection, 0)
        except BaseException:
            connection.close()
            raise
        return RpcEndpointRef(self.address, self.secret, connection, threading.Lock())

    def ask(self, message: Any) -> Any:
        """Send a message and wait for the answer. Raises OSError, EOFError: the endpoint was stopped; RuntimeError: (2)."""
        with self._lock:
            self._connection.send(message)
            answer = self._connection.recv()
        if isinstance(answer, RpcFailure):
            raise RuntimeError(answer.what)
        return answer

    def close(self) -> None:
        self._connection.close()


def _set_options(connection: Connection, patience_s: int) -> None:
    """(4) Send at once, and (5) let a read or write that stands still for so long (0: for ever) raise OSError."""
    limit = struct.pack("ll", patience_s, 0)
    os.set_blocking(connection.fileno(), True)
    with socket.socket(fileno=os.dup(connection.fileno())) as its_socket:
        its_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        its_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        its_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


class RpcEndpoint:
    """Listens until it is stopped.

    Args:
        host: the address at which the tasks find this machine.
        receive: answers a message.
        on_error: is called with an error of `receive`; if it is None, `ask` raises the error.
    """

    def __init__(self, host: str, receive: Callable[[Any], Any], on_error: Callable[[Exception], None] | None = None):
        self._receive, self._on_error = receive, on_error
        self._listener = socket.create_server((host, 0), backlog=128)
        self._listener.settimeout(_LOOK_AGAIN_S)
        self.ref = RpcEndpointRef(self._listener.getsockname(), os.urandom(32))
        self._one_at_a_time = threading.Lock()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._accepting = self._start(self._accept)

    def tell(self, message: Any) -> Any:
        """What `receive` answers to a message of the driver's own."""
        with self._one_at_a_time:
            return self._receive(message)

    def stop(self) -> None:  # (3)
        """Close the port and all connections, and wait a second for the threads."""
        self._stopped.set()
        until = time.monotonic() + 1
        for thread in (self._accepting, *self._threads):
            thread.join(max(0, until - time.monotonic()))
        self._listener.close()

    def _start(self, target: Callable[..., None], *args: Any) -> threading.Thread:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=target, args=args, name=f"rpc {self.ref.address}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                accepted, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:  # too many files are open, for a while; or the port has been closed
                self._stopped.wait(_LOOK_AGAIN_S)
                continue
            self._start(self._serve, Connection(accepted.detach()))

    def _serve(self, connection: Connection) -> None:
        try:
            _set_options(connection, PATIENCE_S)
            deliver_challenge(connection, self.ref.secret)  # not by the listener, which would wait for one stranger
            answer_challenge(connection, self.ref.secret)
            while not self._stopped.is_set():
                if connection.poll(_LOOK_AGAIN_S):
                    connection.send(self._answer(connection.recv()))  # (1)
        except (OSError, EOFError, AuthenticationError):
            pass  # the task has ended, or it was a stranger
        except Exception as e:  # (2)
            logger.error("A message could not be answered", exc_info=True)
            if self._on_error is not None:
                self._on_error(e)
        finally:
            connection.close()

    def _answer(self, message: Any) -> Any:
        try:
            return self.tell(message)
        except Exception as e:  # (2)
            if self._on_error is not None:
                raise
            return RpcFailure(str(e))
