"""The parts of `extras/` that have a name in a query or in a conf. Each function imports its part when a query asks for it.

Models: nothing of Spark.

    readStream.format("kafka")     kafka_relation(spec)     only now are extras/kafka and what it needs imported

A query over files, with the state in Spark's HDFS-backed store, imports none of them. registry.py knows their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minispark_stream.engine.operators.base import StatefulOperator
    from minispark_stream.engine.operators.join.symmetric_hash_join import SymmetricHashJoin
    from minispark_stream.engine.plan.streaming_relation import StreamingRelation
    from minispark_stream.engine.sinks.base import Sink, SinkSpec
    from minispark_stream.engine.sources.base import SourceSpec
    from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId


def rate_relation(spec: SourceSpec) -> StreamingRelation:
    from minispark_stream.extras.continuous import rate_stream

    return rate_stream.rate_relation(spec.session, spec.schema, spec.options, spec.clock)


def socket_relation(spec: SourceSpec) -> StreamingRelation:
    from minispark_stream.extras.socket import source

    return source.socket_relation(spec.session, spec.schema, spec.options, spec.clock)


def kafka_relation(spec: SourceSpec) -> StreamingRelation:
    from minispark_stream.extras.kafka import source

    return source.kafka_relation(spec.session, spec.schema, spec.options, spec.clock)


def kafka_sink(spec: SinkSpec) -> Sink:
    from minispark_stream.extras.kafka.sink import KafkaSink

    return KafkaSink(spec.session, spec.options)


def delta_sink(spec: SinkSpec) -> Sink:
    from minispark_stream.extras.delta.sink import DeltaSink

    return DeltaSink(spec)


def python_relation(spec: SourceSpec, options: dict[str, str]) -> StreamingRelation | None:
    """A Python data source's relation; None if no Python data source has the name of the format."""
    from minispark_stream.extras.python_data_source import source

    found = source.find_data_source(spec.session, spec.format)
    return None if found is None else source.python_relation(spec.session, found, spec.schema, options)


def python_sink(spec: SinkSpec) -> Sink | None:
    """A Python data source's sink; None if no Python data source has the name of the format."""
    from minispark_stream.extras.python_data_source.sink import PythonDataSourceSink
    from minispark_stream.extras.python_data_source.source import find_data_source

    found = find_data_source(spec.session, spec.format)
    return None if found is None else PythonDataSourceSink(spec.session, found, spec.options, spec.df.schema, spec.output_mode)


def transform_with_state(*node: Any, **more: Any) -> StatefulOperator:
    from minispark_stream.extras.transform_with_state.transform_with_state import compile_transform_with_state

    return compile_transform_with_state(*node, **more)


def join_in_families(**fields: Any) -> SymmetricHashJoin:
    from minispark_stream.extras.join_in_families.join_in_families import JoinInFamilies

    return JoinInFamilies(**fields)


def join_by_time(**fields: Any) -> SymmetricHashJoin:
    from minispark_stream.extras.join_in_families.join_in_families import JoinByTime

    return JoinByTime(**fields)


def rocks_db_files(store_id: StateStoreId, conf: StateStoreConf) -> Any:
    from minispark_stream.extras.rocksdb.rocksdb_state_files import RocksDBStateFiles

    return RocksDBStateFiles(store_id, conf)


def rocks_db_files_with_ids(store_id: StateStoreId, conf: StateStoreConf) -> Any:
    from minispark_stream.extras.rocksdb.files_with_ids import RocksDBStateFilesWithIds

    return RocksDBStateFilesWithIds(store_id, conf)
