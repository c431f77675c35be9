"""Which operators a checkpoint's state belongs to.

Models: OperatorStateMetadataV1 and its reader and writer, and the check of IncrementalExecution against it (About state).

State files do not say which operator wrote them. One small file for each operator does, so that a restart notices a query
whose stateful operators are others:

    state/<operator>/_metadata/metadata      v1
                                             {"operatorInfo":{"operatorId":0,"operatorName":"stateStoreSave"},
                                              "stateStoreInfo":[{"storeName":"default",...}]}     (in one line)

1. `check_operators` reads the files when a query restarts. Each operator id must have the operator name that it had.
2. When any operator of the checkpoint has no readable metadata, nothing is checked.
3. Files that are missing are written.

    checkpoint: 0 -> dedupe        query: 0 -> stateStoreSave, 1 -> dedupe        the restart is refused

Metadata of version 2, which only RocksDB needs, is not read.

Differs from Spark: nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.state.state_store import state_error

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StateStoreMetadata:
    store_name: str
    num_cols_prefix_key: int
    num_partitions: int


@dataclass(frozen=True)
class OperatorStateMetadata:
    """Which operator a directory of the state belongs to, and its stores."""

    operator_id: int
    operator_name: str
    stores: tuple[StateStoreMetadata, ...]

    def to_text(self) -> str:
        stores = [
            {"storeName": s.store_name, "numColsPrefixKey": s.num_cols_prefix_key, "numPartitions": s.num_partitions}
            for s in self.stores
        ]
        operator = {"operatorId": self.operator_id, "operatorName": self.operator_name}
        return "v1\n" + json.dumps(
            {"operatorInfo": operator, "stateStoreInfo": stores}, separators=(",", ":"), ensure_ascii=False
        )

    @staticmethod
    def from_text(text: str) -> OperatorStateMetadata:
        """Raises ValueError when `text` is not metadata of version 1."""
        version, _, body = text.partition("\n")
        if version.strip() != "v1":
            raise ValueError(f"unsupported version {version[:20]!r} of operator metadata; version 1 is supported")
        try:
            value = json.loads(body)
            operator = value["operatorInfo"]
            stores = tuple(
                StateStoreMetadata(str(s["storeName"]), int(s["numColsPrefixKey"]), int(s["numPartitions"]))
                for s in value["stateStoreInfo"]
            )
            return OperatorStateMetadata(int(operator["operatorId"]), str(operator["operatorName"]), stores)
        except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as e:
            raise ValueError(f"not operator metadata ({type(e).__name__}: {e})") from e


def read_operator_metadata(state_dir: str, operator_id: int) -> OperatorStateMetadata | None:
    """The metadata of an operator, None when there is none. Raises ValueError, naming the file, when it is broken."""
    manager = CheckpointFileManager(state_dir)
    file = f"{operator_id}/_metadata/metadata"
    if not manager.exists(file):
        return None
    try:
        return OperatorStateMetadata.from_text(manager.open(file).decode("utf-8"))
    except ValueError as e:
        raise ValueError(f"{manager.root}/{file}: {e}. Delete the file to have it written again.") from e


def write_operator_metadata(state_dir: str, metadata: OperatorStateMetadata) -> None:
    """Write the metadata of an operator unless it is there."""
    manager = CheckpointFileManager(state_dir)
    file = f"{metadata.operator_id}/_metadata/metadata"
    if not manager.exists(file):
        manager.mkdirs(f"{metadata.operator_id}/_metadata")
        manager.create_atomic(file, metadata.to_text().encode("utf-8"))


def check_operators(state_dir: str, current: Sequence[OperatorStateMetadata], batch_id: int) -> None:
    """On restart (`batch_id` > 0) compare the query's operators with the checkpoint's; then write missing metadata.

    Raises SparkRuntimeException STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA when an operator was added,
    removed or replaced, and STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY when there is no state at all.
    """
    now = {m.operator_id: m.operator_name for m in current}
    after = _pairs(now)
    if batch_id > 0 and now and _is_empty(state_dir):
        condition = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
        text = (
            "Cannot restart streaming query with stateful operators because the state directory is empty or missing.\n"
            f"Stateful operators in current batch: [{after}].\nThis typically occurs when state files have been "
            "deleted or the streaming query was previously run without stateful operators but restarted with stateful "
            "operators.\nPlease remove the stateful operators, use a new checkpoint location, or restore the missing "
            "state files."
        )
        raise state_error(condition, text, "42K03", OpsInCurBatchSeq=after)
    stored = _stored_operators(state_dir) if batch_id > 0 else {}
    if stored and stored != now:
        condition = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
        before = _pairs(stored)
        text = (
            "Streaming stateful operator name does not match with the operator in state metadata. This likely to "
            "happen when user adds/removes/changes stateful operator of existing streaming query.\n"
            f"Stateful operators in the metadata: [{before}]; Stateful operators in current batch: [{after}]."
        )
        raise state_error(condition, text, "42K03", OpsInMetadataSeq=before, OpsInCurBatchSeq=after)
    for metadata in current:
        write_operator_metadata(state_dir, metadata)


def _is_empty(state_dir: str) -> bool:
    try:
        return not CheckpointFileManager(state_dir).list("")
    except FileNotFoundError:
        return True


def _stored_operators(state_dir: str) -> dict[int, str]:
    """Operator names by id; nothing when an operator's directory is there without readable metadata."""
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
