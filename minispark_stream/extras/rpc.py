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
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from typing import Any

logger = logging.getLogger(__name__)

_LOOK_AGAIN_S = 0.05  # how long a connection waits for a message before it looks whether the endpoint was stopped


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
        connection = Client(self.address, authkey=self.secret)
        _send_at_once(connection)
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


def _send_at_once(connection: Connection) -> None:  # (4)
    with socket.socket(fileno=os.dup(connection.fileno())) as its_socket:
        its_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class RpcEndpoint:
    """Listens until it is stopped.

    Args:
        host: the address at which the tasks find this machine.
        receive: answers a message.
        on_error: is called with an error of `receive`; if it is None, `ask` raises the error.
    """

    def __init__(self, host: str, receive: Callable[[Any], Any], on_error: Callable[[Exception], None] | None = None):
        self._receive, self._on_error = receive, on_error
        self._listener = Listener((host, 0), backlog=128)
        self.ref = RpcEndpointRef(self._listener.address, os.urandom(32))
        self._one_at_a_time = threading.Lock()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._accepting = self._start(self._accept)

    def tell(self, message: Any) -> Any:
        """What `receive` answers to a message of the driver's own."""
        with self._one_at_a_time:
            return self._receive(message)

    def stop(self) -> None:  # (3)
        """Close the port and all connections, and wait for the threads."""
        self._stopped.set()
        with suppress(OSError):
            socket.create_connection(self.ref.address, timeout=1).close()  # ends the wait for a connection
        self._accepting.join()
        self._listener.close()
        for thread in self._threads:
            thread.join(1)

    def _start(self, target: Callable[..., None], *args: Any) -> threading.Thread:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=target, args=args, name=f"rpc {self.ref.address}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self) -> None:
        while not self._stopped.is_set():
            self._start(self._serve, self._listener.accept())

    def _serve(self, connection: Connection) -> None:
        try:
            _send_at_once(connection)
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
