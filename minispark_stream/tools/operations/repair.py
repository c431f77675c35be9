"""A checkpoint on which no query can start: `minispark_stream repair CHECKPOINT` mends a copy of it.

1. Its files are linked, or copied, into a temporary folder. Temporary files of writers that died stay behind.
2. There, the reason why a restart fails is mended (mends.py), and the result is inspected, until no restart fails any more; or
   until a reason is left that nothing mends without a guess. If it is asked for, a batch that fails in each run is then passed
   over (skip_batch.py).
3. With `to`, the result is copied there: first the offsets, last `metadata`, so that no query starts on a part of it. Just
   before, the entries of batches that are taken back go from the manifest of a file sink.

    repair(ck)                     what would be mended, and what that costs; nothing is changed
    repair(ck, to="/data/copy")    the copy is a checkpoint on which the query can start

Models: nothing of Spark, which has no such tool.
Shown by tests/unit/tools/operations/test_repair.py, tests/spark/test_repair.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pyarrow import fs

from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.file_stream_sink_log import FOLDER
from minispark_stream.lens.view.words import one_line, plural
from minispark_stream.tools.inspection.checkpoint import inspect
from minispark_stream.tools.inspection.contents import NextBatch
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.inspection.restart.of_logs import is_uuid
from minispark_stream.tools.operations.mends import Decided, Mend, RepairRefused, mend, roll_back
from minispark_stream.tools.operations.rollback import NO_SINK, is_left_out, manifest_names, write_copy
from minispark_stream.tools.operations.rollback_plan import Checkpoint
from minispark_stream.tools.operations.scratch import left_behind, scratch_of
from minispark_stream.tools.operations.skip_batch import skip_batch as pass_over

_MOST_MENDS = 100


@dataclass(frozen=True)
class Repair:
    """What was mended, or, if `done` is None, what would be. `next`: what a restart on the mended checkpoint, `done`, does."""

    checkpoint: str
    mends: tuple[Mend, ...]
    left_behind: tuple[str, ...]
    next: NextBatch
    done: str | None = None

    def __str__(self) -> str:
        lines = [f"mend   {one.says}\n  cost {one.costs}" for one in self.mends] or ["nothing to mend: a restart does not fail"]
        if self.left_behind:
            lines.append(f"  left behind: {plural(len(self.left_behind), 'temporary file')} of writers that died")
        lines.append(f"then   {self.next.says}")
        lines.append(f"done: {self.done}" if self.done else "nothing was changed: --to COPY writes a mended copy")
        return "\n".join(one_line(line) for text in lines for line in text.split("\n"))

    __repr__ = __str__


def repair(
    checkpoint: str | Path, *, to: str | Path | None = None, sink: str | Path | None = None, query_id: str | None = None,
    rebuild_source_log: bool = False, skip_batch: int | None = None, filesystem: fs.FileSystem | None = None,
    max_bytes: int = 256 << 20,
) -> Repair:
    """Mend what keeps a query from starting, in a copy. Without `to`, nothing is changed: the answer says what would be mended.

    Args:
        to: where to write the mended checkpoint. It must not exist, or be what a killed call has left.
        sink: as for `rollback`; asked for only if batches have to be taken back.
        query_id: the id of the query, for `metadata` that is lost; if left out, a new one.
        rebuild_source_log: whether a missing entry of a file source's log is made again from the folder of its files; if not,
            the batches since then are taken back.
        skip_batch: the batch that a restart runs again, and that fails each time: its rows are passed over, and lost.
        filesystem, max_bytes: as for `inspect`.

    Raises:
        RepairRefused: the checkpoint cannot be mended without a guess; RollbackRefused: the sink must be named.
        FileNotFoundError, ValueError: as from `inspect`.
    """
    if query_id is not None and not is_uuid(query_id):
        raise ValueError(f"the id of a query is a UUID, which {query_id[:100]!r} is not")
    source = CheckpointFileManager(str(checkpoint), filesystem)
    files = ReadOnlyFiles(str(checkpoint), filesystem, Budget(max_bytes))
    before = inspect(str(checkpoint), filesystem, max_bytes=max_bytes)
    last = max((batch.batch_id for batch in before.batches), default=-1)
    asked = Decided(query_id, rebuild_source_log)
    mends: list[Mend] = []
    with scratch_of(files, source) as folder:  # (1)
        scratch = CheckpointFileManager(folder)
        report = inspect(folder, max_bytes=max_bytes)
        while (refused := report.next.refused) is not None:  # (2)
            if len(mends) == _MOST_MENDS:
                raise RepairRefused(f"{before.path}: {plural(len(mends), 'thing')} were mended, and a restart still fails")
            found = Checkpoint(report, ReadOnlyFiles(folder, None, Budget(max_bytes)))
            done = mend(found, refused, scratch, asked)
            if done is None:
                found.manifest = manifest_names(files, last, sink, filesystem)
                done = roll_back(found, refused, scratch)
            mends.append(done)
            report = inspect(folder, max_bytes=max_bytes)
        if report.next.unknown is not None:
            raise RepairRefused(f"{before.path}: whether a restart fails cannot be told: {report.next.unknown}")
        if skip_batch is not None:
            manifest_of_sink = manifest_names(files, last, sink, filesystem)
            found = Checkpoint(report, ReadOnlyFiles(folder, None, Budget(max_bytes)), manifest_of_sink)
            mends.append(pass_over(found, skip_batch, scratch))
            report = inspect(folder, max_bytes=max_bytes)
        answer = Repair(before.path, tuple(mends), left_behind(files), report.next)
        if to is None:
            return answer
        copy = CheckpointFileManager(str(to), filesystem)
        manifest = None if sink is None or str(sink) == NO_SINK else CheckpointFileManager(f"{sink}/{FOLDER}", filesystem)
        names = [name for name in ReadOnlyFiles(folder, None, Budget(max_bytes)).files if not is_left_out(name)]
        entries = [name for one in mends for name in one.manifest]
        kept_manifest = CheckpointFileManager(f"{copy.location}/{FOLDER}", filesystem)
        write_copy(scratch, copy, names, manifest, kept_manifest, entries)  # (3)
        return replace(answer, done=copy.root)
