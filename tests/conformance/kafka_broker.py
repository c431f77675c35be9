"""A Kafka broker for the tests: one process on 127.0.0.1, broker and controller in one (KRaft)."""

from __future__ import annotations

import glob
import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaMember
from py4j.protocol import STATIC_PREFIX, Py4JJavaError
from pyspark.sql import SparkSession

from minispark_stream.engine.jvm.scala import jvm

STARTED_MS = 1_700_000_000_000  # the time of records, unless a test gives another one


class Broker:
    """The process. `folder` keeps its data, so it can be stopped and started again.

    Args:
        jars: of Kafka; what Kafka shares with Spark is taken from PySpark.
    """

    def __init__(self, folder: Path, jars: list[str]):
        self._folder = folder
        self._classpath = os.pathsep.join([*jars, *glob.glob(os.path.join(os.path.dirname(pyspark.__file__), "jars", "*.jar"))])
        self._properties = folder / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        port, controller = _free_port(), _free_port()
        self.address = f"127.0.0.1:{port}"
        self._port = port
        folder.mkdir(parents=True, exist_ok=True)
        self._properties.write_text(
            f"""process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder / "data"}
log.retention.ms=-1
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
        )
        self._run("kafka.tools.StorageTool", "format", "-t", "minispark-stream-tests", "-c", str(self._properties)).check_returncode()

    def start(self) -> None:
        """Start, and wait until clients can connect."""
        log = (self._folder / "broker.log").open("ab")
        self._process = subprocess.Popen(
            self._command("kafka.Kafka", str(self._properties)), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        for _ in _attempts(60):
            if self._process.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
        self.stop()
        raise RuntimeError(f"The Kafka broker does not start; see {self._folder}/broker.log")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _command(self, *arguments: str) -> list[str]:
        java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"
        return [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", self._classpath, *arguments]

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(self._command(*arguments), capture_output=True, stdin=subprocess.DEVNULL, timeout=120)


class Kafka:
    """What the tests do with a broker, by the clients that the connector brings into Spark's JVM."""

    def __init__(self, spark: SparkSession, broker: Broker):
        self.broker = broker
        self.address = broker.address
        self._java: Any = jvm(spark)
        admin = self._java.org.apache.kafka.clients.admin.Admin
        self._admin = admin.create(self._java.java.util.HashMap({"bootstrap.servers": self.address}))
        strings = self._java.org.apache.kafka.common.serialization.StringSerializer()
        # One request at a time keeps the order even where the leader of a new partition is not ready for the first one.
        settings = {"bootstrap.servers": self.address, "acks": "all", "max.in.flight.requests.per.connection": "1"}
        self._producer = self._java.org.apache.kafka.clients.producer.KafkaProducer(
            self._java.java.util.HashMap(settings), strings, strings
        )

    def close(self) -> None:
        self._producer.close()
        self._admin.close()

    def create(self, topics: Mapping[str, int]) -> None:
        """Empty topics with so many partitions; what they had is gone."""
        self.delete(*topics)
        new = self._java.org.apache.kafka.clients.admin.NewTopic
        self._admin.createTopics([new(name, partitions, 1) for name, partitions in topics.items()]).all().get()
        self._wait_for(lambda: all(self._can_be_read(name, n) for name, n in topics.items()))

    def delete(self, *topics: str) -> None:
        there = [name for name in topics if self._partitions(name)]
        if there:
            self._admin.deleteTopics(there).all().get()
            self._wait_for(lambda: not any(self._partitions(name) for name in there))

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic, so that it has so many."""
        new = self._java.org.apache.kafka.clients.admin.NewPartitions.increaseTo(partitions)
        self._admin.createPartitions({topic: new}).all().get()
        self._wait_for(lambda: self._can_be_read(topic, partitions))

    def forget(self, topic: str, partition: int, before: int) -> None:
        """Delete the records of a partition before an offset, as retention does."""
        # There is an instance method of this name, too, and py4j may find that one first: the static one is named here.
        name = "org.apache.kafka.clients.admin.RecordsToDelete"
        before_offset = JavaMember("beforeOffset", None, STATIC_PREFIX + name, self._java._gateway_client)
        there = self._java.org.apache.kafka.common.TopicPartition(topic, partition)
        self._admin.deleteRecords({there: before_offset(before)}).all().get()

    def send(self, topic: str, partition: int, *values: str | None, time_ms: int = STARTED_MS) -> None:
        """Append records to a partition, with their numbers as keys; returns when Kafka has them."""
        record = self._java.org.apache.kafka.clients.producer.ProducerRecord
        made = [record(topic, partition, time_ms, f"k{i}", value) for i, value in enumerate(values)]
        sent = [self._producer.send(one) for one in made]
        for one in sent:
            one.get()

    def _partitions(self, topic: str) -> int:
        try:
            return int(self._admin.describeTopics([topic]).allTopicNames().get().get(topic).partitions().size())
        except Py4JJavaError:
            return 0

    def _can_be_read(self, topic: str, partitions: int) -> bool:
        latest = self._java.org.apache.kafka.clients.admin.OffsetSpec.latest()
        asked = {self._java.org.apache.kafka.common.TopicPartition(topic, p): latest for p in range(partitions)}
        return self._partitions(topic) == partitions and self._admin.listOffsets(asked).all().get().size() == partitions

    def _wait_for(self, done: Callable[[], bool]) -> None:
        for _ in _attempts(30):
            if done():
                return
        raise TimeoutError("Kafka does not get done")


def _attempts(seconds: float) -> Any:
    """Something to count for so long, in steps of 50 ms."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
