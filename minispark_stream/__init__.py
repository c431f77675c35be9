"""Spark Structured Streaming, re-implemented for learning: every step can be read, run and watched."""

from minispark_stream.session import MiniSparkSession

__all__ = ["MiniSparkSession"]
