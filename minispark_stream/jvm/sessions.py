"""A session's confs, and the session that is active on a thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from minispark_stream.jvm import scala


def conf(session: SparkSession, key: str) -> str | None:
    """A conf or its registered default (`session.conf.get(key, None)` would hide the default)."""
    value = session._jsparkSession.conf().getOption(key)
    return str(value.get()) if value.isDefined() else None


def set_active_session(session: SparkSession) -> None:
    """Physical plans belong to the session that is active on the thread that makes them."""
    scala.java_class(session, "org.apache.spark.sql.classic.SparkSession").setActiveSession(session._jsparkSession)


@contextmanager
def active_session(session: SparkSession) -> Iterator[None]:
    """The same for a while, on a thread that is not ours."""
    sessions = scala.java_class(session, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


@contextmanager
def without_rule(session: SparkSession, rule: str) -> Iterator[None]:
    """Leave a rule of Spark's optimizer out for a while."""
    key = "spark.sql.optimizer.excludedRules"
    before = session.conf.get(key, None)
    session.conf.set(key, f"{before},{rule}" if before else rule)
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(key)
        else:
            session.conf.set(key, before)


def conf_ms(session: SparkSession, key: str) -> int:
    """A conf that is a time ("60s", "200ms"), in milliseconds."""
    times = scala.java_class(session, "org.apache.spark.network.util.JavaUtils")
    return int(times.timeStringAsMs(session.conf.get(key)))


def clone(session: SparkSession) -> SparkSession:
    """A session with the same confs, functions and views, whose changes nobody else sees."""
    return SparkSession(session.sparkContext, session._jsparkSession.cloneSession())
