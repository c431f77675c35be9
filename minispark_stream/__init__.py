"""Spark Structured Streaming, re-implemented for learning: every step can be read, run and watched."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from minispark_stream.engine.spark_versions import MODEL, installed

if TYPE_CHECKING:
    from minispark_stream.lens.view.play import play
    from minispark_stream.low_latency_memory_stream import LowLatencyMemoryStream
    from minispark_stream.registry import register_operator, register_sink, register_source
    from minispark_stream.session import MiniSparkSession
    from minispark_stream.tools.compare.live import live
    from minispark_stream.tools.compare.side_by_side import side_by_side
    from minispark_stream.tools.compare.trace_listener import TraceListener
    from minispark_stream.tools.compare.trace_of import trace_of
    from minispark_stream.tools.compare.what_if import what_if
    from minispark_stream.tools.explanation import explain_output
    from minispark_stream.tools.inspection.checkpoint import inspect
    from minispark_stream.tools.monitoring.from_files import metrics
    from minispark_stream.tools.monitoring.listeners import OpenTelemetryListener, PrometheusListener
    from minispark_stream.tools.operations.became_null import became_null
    from minispark_stream.tools.operations.check.check import check
    from minispark_stream.tools.operations.repair import repair
    from minispark_stream.tools.operations.rollback import rollback

_HOME = {
    "LowLatencyMemoryStream": "low_latency_memory_stream",
    "MiniSparkSession": "session",
    "OpenTelemetryListener": "tools.monitoring.listeners",
    "PrometheusListener": "tools.monitoring.listeners",
    "TraceListener": "tools.compare.trace_listener",
    "became_null": "tools.operations.became_null",
    "check": "tools.operations.check.check",
    "explain_output": "tools.explanation",
    "inspect": "tools.inspection.checkpoint",
    "live": "tools.compare.live",
    "metrics": "tools.monitoring.from_files",
    "play": "lens.view.play",
    "register_operator": "registry",
    "register_sink": "registry",
    "register_source": "registry",
    "repair": "tools.operations.repair",
    "rollback": "tools.operations.rollback",
    "side_by_side": "tools.compare.side_by_side",
    "trace_of": "tools.compare.trace_of",
    "what_if": "tools.compare.what_if",
}
__all__ = [
    "LowLatencyMemoryStream",
    "MiniSparkSession",
    "OpenTelemetryListener",
    "PrometheusListener",
    "TraceListener",
    "became_null",
    "check",
    "explain_output",
    "inspect",
    "live",
    "metrics",
    "play",
    "register_operator",
    "register_sink",
    "register_source",
    "repair",
    "rollback",
    "side_by_side",
    "trace_of",
    "what_if",
]


_OF_THE_MODEL = (
    "LowLatencyMemoryStream", "MiniSparkSession", "check", "register_operator", "register_sink", "register_source",
    "side_by_side", "what_if",
)


def __getattr__(name: str) -> Any:
    """Import a name when it is used: only the model needs PySpark 4.3, and some of the tools need no PySpark at all."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _OF_THE_MODEL and (installed() or (0, 0)) < MODEL:
        from minispark_stream.tools.cause import need_model

        need_model(name)
    try:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    except ImportError as e:
        from minispark_stream.tools.cause import of_import

        raise of_import(e) from None
