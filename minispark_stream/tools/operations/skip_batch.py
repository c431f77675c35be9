"""A batch that fails each time it is run is passed over: `minispark_stream repair CHECKPOINT --skip-batch N`, in a copy.

1. It must be the one that the next restart runs again: the last entry of the offset log, without its commit. Batch 0 has none
   before it, and a file sink that has the batch in its manifest has written its rows, so both are refused.
2. The entry before it gets the offsets at which the batch ends, beside its own metadata. So the batch runs again, between two
   offsets that are equal: without rows. It evicts what its watermark says, its commit follows, and the next batch has new rows.
3. Files of versions that the batch has tried to write go. A snapshot among them would be loaded with the rows that are lost.

    offsets/6  {"logOffset":6}    offsets/7  {"logOffset":7}, not committed    ->    offsets/6  {"logOffset":7}

No file of the state is written, so this works for any kind of store. A sink that knows batches by their numbers stays right.

Models: nothing of Spark, which has no such tool.
Shown by tests/unit/tools/operations/test_repair.py::test_a_batch_is_passed_over,
tests/spark/test_repair.py::test_a_batch_that_always_fails_is_passed_over.
"""

from __future__ import annotations

from collections.abc import Iterator

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.lens.view.words import plural, short
from minispark_stream.tools.inspection.offset_meaning import meaning
from minispark_stream.tools.operations.mends import Mend, RepairRefused
from minispark_stream.tools.operations.rollback_plan import Checkpoint, of_state

_SHOWN = 20  # files that are named
_MOST = 300  # characters of an offset


def skip_batch(found: Checkpoint, batch: int, copy: CheckpointFileManager) -> Mend:
    """Pass over a batch, in a copy that nobody else knows yet. Raises RepairRefused."""
    reason = _why_not(found, batch)  # (1)
    if reason is not None:
        raise RepairRefused(f"batch {batch} cannot be passed over: {reason}")
    before, own = (copy.open(f"offsets/{i}").decode().split("\n") for i in (batch - 1, batch))
    copy.create_atomic(f"offsets/{batch - 1}", "\n".join(before[:2] + own[2:]).encode(), overwrite=True)  # (2)
    tried = list(of_state(found.files.files, batch))
    for name in tried:  # (3)
        copy.delete(name)
    says = f"batch {batch} is passed over: offsets/{batch - 1} gets its offsets, so that it runs without rows"
    if tried:
        says += f"; {plural(len(tried), 'file')} of the state that it has tried to write go"
    return Mend(says, "; ".join([*_lost(found, batch), "the sink gets an empty batch with this number"]))


def _why_not(found: Checkpoint, batch: int) -> str | None:
    next_batch = found.report.next
    if not next_batch.rerun or next_batch.batch_id != batch:
        again = f"only batch {next_batch.batch_id} is run again" if next_batch.rerun else "no batch is run again"
        return f"{again} by a restart ({next_batch.says})"
    if batch == 0:
        return "nothing was committed before it. Begin with a new checkpoint, and say in the source's options where"
    if found.batches[batch].timestamp_ms is None:
        return "it was planned with a continuous trigger"
    if any(name.partition(".")[0] == str(batch) for name in found.manifest or ()):
        return "the manifest of the sink has it, so its rows are written: a restart only adds its commit"
    return None


def _lost(found: Checkpoint, batch: int) -> Iterator[str]:
    """The rows that are never read, as far as the logs say it."""
    of_batch, of_before = found.batches[batch], found.batches[batch - 1]
    for source_id, end in (of_batch.offsets or {}).items():
        start = (of_before.offsets or {}).get(source_id)
        if end is None or end == start:
            continue
        files = of_batch.files.get(source_id)
        if files is not None:
            some = ", ".join(map(short, files[:_SHOWN])) + (" ..." if len(files) > _SHOWN else "")
            yield f"source {source_id} loses {plural(len(files), 'file')}: {some}"
        else:
            yield f"source {source_id} loses {meaning(start, end) or f'what is between {_text(start)} and {_text(end)}'}"


def _text(offset: str | None) -> str:
    return "its beginning" if offset is None else offset[:_MOST]
