"""The metadata of operators: which operator each directory of the state belongs to.

Models: OperatorStateMetadataV1 and OperatorStateMetadataV2 with their readers and writers, and the check of
IncrementalExecution against them (About state).

State files do not say which operator wrote them. A small file for each operator says it, so that a restart notices if the query
now has other stateful operators:

    state/<operator>/_metadata/metadata      v1
                                             {"operatorInfo":{"operatorId":0,"operatorName":"stateStoreSave"},
                                              "stateStoreInfo":[{"storeName":"default",...}]}     (in one line)

1. `check_operators` reads these files when a query restarts. Each operator id must have the same operator name as before, or
   that of the operator which real-time mode has in its place and whose state is the same.
2. If any operator of the checkpoint has no readable metadata, nothing is checked.
3. Missing files are written.

    checkpoint: 0 -> dedupe        query: 0 -> stateStoreSave, 1 -> dedupe        the restart is refused

4. An operator whose state is in column families has metadata of version 2, in `_metadata/v2/<batch>`. This also contains some
   properties of the operator, and says where the schemas are. Each run of the query writes a new file.

Differs from Spark: nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager, canonical_number
from minispark_stream.engine.checkpointing.metadata_log import json_object, to_json
from minispark_stream.engine.state.state_store import state_error

logger = logging.getLogger(__name__)

AGGREGATION, AGGREGATION_IN_REAL_TIME = "stateStoreSave", "StatefulStreamlineAggregate"  # both have the same state


@dataclass(frozen=True)
class StateStoreMetadata:
    """A store of an operator. `schema_paths` has the schema files of a store with column families, the newest last."""

    store_name: str
    num_cols_prefix_key: int
    num_partitions: int
    schema_paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperatorStateMetadata:
    """The operator that a directory of the state belongs to, and its stores. Only version 2 has `properties`."""

    operator_id: int
    operator_name: str
    stores: tuple[StateStoreMetadata, ...]
    properties: Mapping[str, Any] | None = None

    def to_text(self) -> str:
        stores: list[dict[str, Any]] = [
            {"storeName": s.store_name, "numColsPrefixKey": s.num_cols_prefix_key, "numPartitions": s.num_partitions}
            for s in self.stores
        ]
        operator = {"operatorId": self.operator_id, "operatorName": self.operator_name}
        if self.properties is None:
            return "v1\n" + to_json({"operatorInfo": operator, "stateStoreInfo": stores})
        stores = [{**store, "stateSchemaFilePaths": list(s.schema_paths)} for store, s in zip(stores, self.stores)]
        properties = to_json(dict(self.properties))
        return "v2\n" + to_json({"operatorInfo": operator, "stateStoreInfo": stores, "operatorPropertiesJson": properties})

    @staticmethod
    def from_text(text: str) -> OperatorStateMetadata:
        """Raises ValueError if `text` is not metadata."""
        version, _, body = text.partition("\n")
        if version.strip() not in ("v1", "v2"):
            raise ValueError(f"unsupported version {version[:20]!r} of operator metadata; versions 1 and 2 are supported")
        try:
            value = json.loads(body)
            operator = value["operatorInfo"]
            stores = tuple(
                StateStoreMetadata(
                    str(s["storeName"]), int(s["numColsPrefixKey"]), int(s["numPartitions"]),
                    tuple(map(str, s.get("stateSchemaFilePaths", ()))),
                )
                for s in value["stateStoreInfo"]
            )
            properties = json_object(value.get("operatorPropertiesJson") or "{}") if version.strip() == "v2" else None
            return OperatorStateMetadata(int(operator["operatorId"]), str(operator["operatorName"]), stores, properties)
        except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as e:
            raise ValueError(f"not operator metadata ({type(e).__name__}: {e})") from e


def variable_kinds(properties: Mapping[str, Any] | None) -> dict[str, str]:
    """The kind of each state variable, by its name, as the properties of an operator list them."""
    found = (properties or {}).get("stateVariables")
    return {
        str(one.get("stateName")): str(one.get("stateVariableType"))
        for one in (found if isinstance(found, list) else ()) if isinstance(one, dict)
    }


def read_operator_metadata(state_dir: str, operator_id: int) -> OperatorStateMetadata | None:
    """The newest metadata of an operator; None if there is none. Raises ValueError with the file's name if it is damaged."""
    manager = CheckpointFileManager(state_dir)
    file = _file(manager, operator_id)
    if file is None:
        return None
    try:
        return OperatorStateMetadata.from_text(manager.open(file).decode("utf-8"))
    except ValueError as e:
        raise ValueError(f"{manager.root}/{file}: {e}. Delete the file to have it written again.") from e


def write_operator_metadata(state_dir: str, metadata: OperatorStateMetadata, batch_id: int = 0) -> None:
    """Write the metadata of an operator: in version 1 if there is none yet, in version 2 always (4)."""
    manager = CheckpointFileManager(state_dir)
    folder = f"{metadata.operator_id}/_metadata"
    if metadata.properties is None:
        if not manager.exists(f"{folder}/metadata"):
            manager.create_atomic(f"{folder}/metadata", metadata.to_text().encode("utf-8"))
    else:
        manager.create_atomic(f"{folder}/v2/{batch_id}", metadata.to_text().encode("utf-8"), overwrite=True)


def _file(manager: CheckpointFileManager, operator_id: int) -> str | None:
    """The file with the newest metadata of an operator."""
    folder = f"{operator_id}/_metadata"
    names = [name for name, *_ in manager.list(folder)]
    if "v2" in names:
        names += [f"v2/{name}" for name, *_ in manager.list(f"{folder}/v2")]
    newest = newest_metadata(names)
    return None if newest is None else f"{folder}/{newest}"


def newest_metadata(names: Sequence[str]) -> str | None:
    """Of the files in the `_metadata` of an operator, the one with its newest metadata: `metadata`, or the last of `v2/`."""
    if "metadata" in names:
        return "metadata"
    batches = [b for name in names if name.startswith("v2/") and (b := canonical_number(name.removeprefix("v2/"))) is not None]
    return f"v2/{max(batches)}" if batches else None


def check_operators(state_dir: str, current: Sequence[OperatorStateMetadata], batch_id: int) -> None:
    """In a restart (`batch_id` > 0), compare the query's operators with the checkpoint's; then write missing metadata.

    Raises:
        SparkRuntimeException: the operators have changed, or there is no state (`_compare`).
    """
    if batch_id > 0:
        _compare(state_dir, {m.operator_id: m.operator_name for m in current})
    for metadata in current:
        write_operator_metadata(state_dir, metadata, batch_id)


def _compare(state_dir: str, now: dict[int, str]) -> None:
    """Compare the names of the query's operators, by their ids, with those of the checkpoint.

    Raises:
        SparkRuntimeException: an operator was added, removed or replaced
            (STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA), or there is no state at all
            (STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY).
    """
    after = _pairs(now)
    if now and not CheckpointFileManager(state_dir).list():
        condition = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
        text = (
            "Cannot restart streaming query with stateful operators because the state directory is empty or missing.\n"
            f"Stateful operators in current batch: [{after}].\nThis typically occurs when state files have been "
            "deleted or the streaming query was previously run without stateful operators but restarted with stateful "
            "operators.\nPlease remove the stateful operators, use a new checkpoint location, or restore the missing "
            "state files."
        )
        raise state_error(condition, text, "42K03", OpsInCurBatchSeq=after)
    stored = _stored_operators(state_dir)
    if stored and _in_micro_batches(stored) != _in_micro_batches(now):
        condition = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
        before = _pairs(stored)
        text = (
            "Streaming stateful operator name does not match with the operator in state metadata. This likely to "
            "happen when user adds/removes/changes stateful operator of existing streaming query.\n"
            f"Stateful operators in the metadata: [{before}]; Stateful operators in current batch: [{after}]."
        )
        raise state_error(condition, text, "42K03", OpsInMetadataSeq=before, OpsInCurBatchSeq=after)


def _in_micro_batches(operators: Mapping[int, str]) -> dict[int, str]:
    return {id_: AGGREGATION if name == AGGREGATION_IN_REAL_TIME else name for id_, name in operators.items()}


def _stored_operators(state_dir: str) -> dict[int, str]:
    """The names of the operators by their ids; empty if the directory of any operator lacks readable metadata."""
    manager = CheckpointFileManager(state_dir)
    names: dict[int, str] = {}
    while manager.exists(str(len(names))):  # ids are counted from 0
        try:
            metadata = read_operator_metadata(state_dir, len(names))
        except ValueError as e:
            logger.warning("Error reading metadata of a stateful operator: %s", e)
            return {}
        if metadata is None:
            return {}
        names[len(names)] = metadata.operator_name
    return names


def _pairs(operators: dict[int, str]) -> str:
    return ", ".join(f"(OperatorId: {i} -> OperatorName: {name})" for i, name in sorted(operators.items()))
