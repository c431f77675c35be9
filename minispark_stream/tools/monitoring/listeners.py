"""Listeners that show the numbers of all queries of a session to Prometheus, or to OpenTelemetry.

    spark.streams.addListener(PrometheusListener(port=9400))        # curl localhost:9400/metrics
    spark.streams.addListener(OpenTelemetryListener())              # with the meter provider that the program has set

They only note what they hear (ledger.py); the numbers are put together when somebody asks for them. They work with real Spark,
classic and, from 4.0 on, Connect, and with the model. Add them before the queries start.

Prometheus needs the package prometheus-client, OpenTelemetry the package opentelemetry-sdk: both are in the extra `monitoring`.

Shown by tests/spark/test_monitoring.py, tests/unit/tools/monitoring/test_listeners.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from minispark_stream.tools.monitoring.families import FAMILIES, OF_QUERY, PREFIX
from minispark_stream.tools.monitoring.ledger import Ledger
from minispark_stream.tools.monitoring.text import families_of

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation
    from prometheus_client import CollectorRegistry, Metric


class _LedgerListener(StreamingQueryListener):
    """Notes what it hears in a ledger."""

    def __init__(self) -> None:
        self._ledger = Ledger()

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{type(self).__name__} cannot be sent to another process: Spark Connect 3.5 runs listeners in one of the server; "
            "from 4.0 on, it runs them here. metrics() tells a query's numbers from its checkpoint"
        )

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._ledger.started(str(event.id), event.name, event.timestamp)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._ledger.reported(json.loads(event.progress.json))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        self._ledger.idle(str(event.id), event.timestamp)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._ledger.ended(str(event.id), event.exception is not None, event.errorClassOnException)


class PrometheusListener(_LedgerListener):
    """A collector of prometheus_client.

    Args:
        port: where to serve the numbers, at `/metrics`; if left out, the program itself serves, or pushes, the registry.
        address: the address to serve at; other machines reach only one that is not of this machine alone, such as "0.0.0.0".
        registry: the registry to register with; if left out, that of the process.

    Raises:
        ModuleNotFoundError: prometheus_client is not installed.
        OSError: the port is taken.
    """

    def __init__(self, port: int | None = None, address: str = "127.0.0.1", registry: CollectorRegistry | None = None):
        from prometheus_client import REGISTRY, start_http_server

        super().__init__()
        self._registry = registry or REGISTRY
        self._server = start_http_server(port, address, self._registry) if port is not None else None
        self._registry.register(self)

    @property
    def port(self) -> int | None:
        """Where it serves; None if it does not."""
        return self._server[0].server_port if self._server else None

    def describe(self) -> Iterable[Metric]:
        """Asked at registration, when there is no number yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Asked whenever somebody scrapes."""
        return families_of(self._ledger.samples(), FAMILIES, OF_QUERY)

    def close(self) -> None:
        """Leave the registry, and stop to serve."""
        self._registry.unregister(self)
        if self._server:
            server, thread = self._server
            server.shutdown()
            server.server_close()
            thread.join()


class OpenTelemetryListener(_LedgerListener):
    """Instruments of an OpenTelemetry meter, which the readers of its provider ask for numbers.

    Args:
        meter: if left out, a meter of the global provider.

    Raises:
        ModuleNotFoundError: opentelemetry-api is not installed.
    """

    def __init__(self, meter: Meter | None = None):
        from opentelemetry.metrics import get_meter

        super().__init__()
        meter = meter or get_meter("minispark_stream")
        for name, family in FAMILIES.items():
            create = meter.create_observable_counter if family.is_counter else meter.create_observable_gauge
            create(PREFIX + name, [self._callback(name)], description=family.says)

    def _callback(self, name: str) -> Callable[[CallbackOptions], Sequence[Observation]]:
        from opentelemetry.metrics import Observation

        labels = (*OF_QUERY, *FAMILIES[name].labels)

        def observe(_: Any) -> Sequence[Observation]:
            return [
                Observation(one.value, dict(zip(labels, one.labels))) for one in self._ledger.samples() if one.name == name
            ]

        return observe
