"""Jars that PySpark does not bring: Spark's Kafka connector, a Kafka broker to test it with, and Spark's tests.

`download(coordinates)` takes them from Maven Central into ~/.cache/minispark_stream/jars, once. Without a network, and without
the jars, it says so in one line, and the tests that need them are skipped.
"""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CENTRAL = "https://repo1.maven.org/maven2"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minispark_stream" / "jars"
TIMEOUT_S = 5  # without an answer for so long, there is no network

# The newest of each that is published; there is no connector of Spark 4.3 yet.
KAFKA_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
# What a broker needs beside the jars of PySpark (Scala, Jackson, logging, compression).
KAFKA_BROKER = (
    *(
        f"org.apache.kafka:{name}:4.1.2"
        for name in (
            "kafka_2.13", "kafka-clients", "kafka-coordinator-common", "kafka-group-coordinator", "kafka-group-coordinator-api",
            "kafka-metadata", "kafka-raft", "kafka-server", "kafka-server-common", "kafka-share-coordinator", "kafka-storage",
            "kafka-storage-api", "kafka-tools-api", "kafka-transaction-coordinator",
        )
    ),
    "com.dynatrace.hash4j:hash4j:0.22.0",
    "com.fasterxml.jackson.dataformat:jackson-dataformat-csv:2.19.4",
    "com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.19.4",
    "com.github.ben-manes.caffeine:caffeine:3.2.0",
    "com.google.re2j:re2j:1.8",
    "com.typesafe.scala-logging:scala-logging_2.13:3.9.5",
    "com.yammer.metrics:metrics-core:2.2.0",
    "commons-validator:commons-validator:1.10.1",
    "net.sf.jopt-simple:jopt-simple:5.0.4",
    "net.sourceforge.argparse4j:argparse4j:0.7.0",
    "org.bitbucket.b_c:jose4j:0.9.6",
    "org.hdrhistogram:HdrHistogram:2.2.2",
    "org.pcollections:pcollections:4.0.2",
)

# Spark's own tests, with checkpoints that its older versions wrote (the newest that is published).
SPARK_TESTS = "org.apache.spark:spark-sql_2.13:4.2.0:tests"

# Hadoop's local file system starts a `chmod` process for every file and folder that it makes; this one does not.
LOCAL_FILES = ("com.globalmentor:hadoop-bare-naked-local-fs:0.1.0",)

_unreachable: list[str] = []  # why Maven Central cannot be read, once that is known: the next jar need not wait again


class JarsMissing(Exception):
    """The jars cannot be had; the message is the reason, in one line."""


def download(coordinates: Iterable[str]) -> list[str]:
    """The paths of the jars.

    Raises:
        JarsMissing: they are neither in the cache nor to be had from Maven Central.
    """
    return [_jar(one) for one in coordinates]


def kafka_connector() -> str:
    """The value of `spark.jars` for the Kafka connector; empty when it cannot be had."""
    try:
        return ",".join(download(KAFKA_CONNECTOR))
    except JarsMissing:
        return ""


def local_files() -> dict[str, Any]:
    """Confs for local files without processes, a third of the time of a test with Spark; none when the jar cannot be had.

    Files and checksums are the same, only their modes are not set. Spark's default for checkpoints cannot be told to use another
    local file system, its other file manager can.
    """
    try:
        [jar] = download(LOCAL_FILES)
    except JarsMissing:
        return {}
    return {
        "spark.driver.extraClassPath": jar,
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass":
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    }


def _jar(coordinate: str) -> str:
    group, artifact, version, *classifier = coordinate.split(":")
    name = "-".join([artifact, version, *classifier]) + ".jar"
    path = CACHE / name
    if not path.exists():
        url = f"{CENTRAL}/{group.replace('.', '/')}/{artifact}/{version}/{name}"
        if _unreachable:
            raise JarsMissing(_unreachable[0])
        try:
            content, sha1 = _get(url), _get(f"{url}.sha1").decode().split()[0]
        except OSError as e:
            _unreachable.append(f"{coordinate} is not in {CACHE}, and {url} cannot be read: {e}")
            raise JarsMissing(_unreachable[0]) from e
        if hashlib.sha1(content).hexdigest() != sha1:
            raise JarsMissing(f"{url} arrived damaged: its SHA-1 is not the published one")
        CACHE.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{name}.{os.getpid()}")
        part.write_bytes(content)
        part.replace(path)
    return str(path)


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        return bytes(answer.read())
