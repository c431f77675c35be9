"""What the extras use of Spark's internals, and of its Kafka connector: contract.txt of this folder (engine/jvm/contract.py).

    java_class(session, EXTRAS["TopicPartition"])

A class that the engine uses as well is in the list of the engine, too.
"""

from __future__ import annotations

from minispark_stream.engine.jvm.contract import Contract

EXTRAS = Contract("minispark_stream.extras.jvm")
