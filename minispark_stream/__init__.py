"""Spark Structured Streaming, re-implemented for learning: every step can be read, run and watched."""

from minispark_stream.session import MiniSparkSession
from minispark_stream.trace.side_by_side import side_by_side

__all__ = ["MiniSparkSession", "side_by_side"]
