"""The state of transformWithState in readable form: it is shown as one store for each variable, and one for the timers.

Models: nothing of Spark; its `statestore` source shows one variable at a time.

1. The newest zip of a store gives the names of the families, and the schema files give their schemas. The engine's own families
   are not shown, except for the timers.
2. Each element of a list is a row, with its index in the key. In a map, the user's key is part of the key.
3. A timer has its time in the key, and no value. The name of its store says which time it refers to.

    total: ann -> 3                                  store total     user=ann               count=3
    $eventTimers_keyToTimestamp: ann | 12:05         store event timers    user=ann timer=12:05
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.checkpointing.unsafe_row.plain import decode_rows
from minispark_stream.engine.state.operator_state_metadata import OperatorStateMetadata, read_operator_metadata
from minispark_stream.engine.state.state_store import StateStoreId
from minispark_stream.engine.times import shown_time
from minispark_stream.extras.rocksdb.avro_state_encoder import AvroStateEncoder, UnsafeRowDataEncoder
from minispark_stream.extras.rocksdb.column_family_schemas import Family, read_column_families
from minispark_stream.extras.rocksdb.family_numbers import SIZE
from minispark_stream.extras.rocksdb.key_encoding import rows_of, unsafe_row
from minispark_stream.extras.rocksdb.snapshot_zip import INTERNAL, read_zip_metadata
from minispark_stream.extras.transform_with_state.list_variable import elements_of
from minispark_stream.extras.transform_with_state.state_variables import long_of

TIMERS = {"$eventTimers_keyToTimestamp": "event timers", "$procTimers_keyToTimestamp": "clock timers"}


class ReadableVariables:
    """The variables of an operator, as the checkpoint describes them now."""

    def __init__(self, state_dir: str, operator_id: int, delimiter: bytes, in_avro: bool = False):
        self.state_dir, self.operator_id, self.delimiter, self.in_avro = state_dir, operator_id, delimiter, in_avro

    def of_variables(self, rows: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """The rows of a store that belong to a variable or a timer."""
        return {key: value for key, value in rows.items() if self._names.get(key[:SIZE])}

    def rows(self, rows: Sequence[tuple[bytes, bytes]]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for key, value in rows:
            if name := self._names.get(key[:SIZE]):
                key, value = self._encoder.of_key(name, key[SIZE:]), self._encoder.of_value(name, value)
                found += self._row(self._families[name], key, value)
        return found

    def _row(self, family: Family, key: bytes, value: bytes) -> Iterator[dict[str, Any]]:
        if family.name in TIMERS:  # (3)
            of_timer = {**self._key(family, key), "timer": shown_time(long_of(rows_of(key)[1]))}
            yield {"store": TIMERS[family.name], "key": of_timer, "value": {}}
        elif f"$rowCounter_{family.name}" in self._families:  # (2)
            for i, row in enumerate(elements_of(value, self.delimiter)):
                yield {"store": family.name, "key": {**self._key(family, key), "index": i}, "value": _value(family, row)}
        else:
            yield {"store": family.name, "key": self._key(family, key), "value": _value(family, unsafe_row(value))}

    def _key(self, family: Family, key: bytes) -> dict[str, Any]:
        if "numColsPrefixKey" not in family.encoder:
            return _decoded(family.key, unsafe_row(key))
        first, others = (StructType([field]) for field in family.key.fields)
        of_key, of_user = rows_of(key)
        shown: dict[str, Any] = dict(_decoded(first, of_key)["key"])
        return shown if family.user_key is None else {**shown, **_decoded(others, of_user)["userKey"]}

    @cached_property
    def _names(self) -> dict[bytes, str]:  # (1)
        manager = CheckpointFileManager(StateStoreId(self.state_dir, self.operator_id, 0).location)
        zips = {int(name[:-4]): name for name, *_ in manager.list() if name.endswith(".zip") and name[:-4].isdigit()}
        families = read_zip_metadata(manager.open(zips[max(zips)])).families
        shown = ((number, name) for number, name in families.items() if name in self._families)
        return {n.to_bytes(SIZE, "little"): name for n, name in shown if not name.startswith(INTERNAL) or name in TIMERS}

    @cached_property
    def _files(self) -> list[Sequence[Family]]:
        metadata: OperatorStateMetadata | None = read_operator_metadata(self.state_dir, self.operator_id)
        assert metadata is not None
        return [read_column_families(self.state_dir, path) for path in metadata.stores[0].schema_paths]

    @cached_property
    def _families(self) -> dict[str, Family]:
        return {family.name: family for file in self._files for family in file}

    @cached_property
    def _encoder(self) -> UnsafeRowDataEncoder:
        return AvroStateEncoder(self._files, self.delimiter) if self.in_avro else UnsafeRowDataEncoder()


def _value(family: Family, row: bytes) -> dict[str, Any]:
    shown = _decoded(family.value, row)
    if family.value.names != ["value", "ttlExpirationMs"]:
        return shown
    return {**shown["value"], "expires": shown_time(shown["ttlExpirationMs"])}


def _decoded(schema: StructType, row: bytes) -> dict[str, Any]:
    [found] = decode_rows(UnsafeRowCodec(schema), [row])
    return found
