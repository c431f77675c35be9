"""What is in the folder that a file sink wrote: the files that its manifest lists, those that are there, and those in no entry.

1. `_spark_metadata` has an entry for each batch, and a compact file repeats all entries before it. Spark reads the newest
   compact file and every entry after it; how far compact files are apart follows from their names. Older entries are
   only named.
2. A file that is listed and not there fails a reader. A file in no entry is seen only by who goes around the manifest: it is
   from a batch that was killed, whose rows came again in other files, or from before the sink's `retention`.
3. A file that is listed in another folder shows that this folder was moved or copied: Spark looks for the file there or, if
   the output is not partitioned, reads nothing.
4. The sink skips a batch up to the newest one in the manifest. So it must be the last batch that the checkpoint has done, or
   the one that it runs again.

    out/_spark_metadata/ 0 1     out/ part-a part-b part-c     0 lists part-a, 1 lists part-b: part-c is in no entry
    next batch of the checkpoint: 1, a new one                 the sink skips batch 1, and its rows are lost

A file that is a link, or lies in a folder that cannot be listed, is not looked at.

Differs from Spark: Spark finds these problems one at a time, when it fails, and those that lose or double rows not at all.
Shown by tests/unit/tools/inspection/test_sink_folder.py,
tests/conformance/test_sinks.py::test_an_inspection_of_the_folder_says_what_a_reader_sees.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.engine.checkpointing.compactible_file_stream_log import (
    CompactionConf,
    batch_of_file,
    compact_interval,
    is_compact,
    names_of_batch,
)
from minispark_stream.engine.checkpointing.file_stream_sink_log import FOLDER, FileStreamSinkLog, SinkFileStatus
from minispark_stream.lens.view.words import plural
from minispark_stream.tools.inspection.checkpoint import in_order
from minispark_stream.tools.inspection.contents import Finding
from minispark_stream.tools.inspection.logs import Findings, attempt, read_logs
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles, is_unread
from minispark_stream.tools.inspection.sink_report import ManifestEntry, SinkReport
from minispark_stream.tools.inspection.sources import read_entry

OF_A_CHECKPOINT = {"metadata", "offsets", "commits"}
NOT_FOUND = "BATCH_METADATA_NOT_FOUND"
_SHOWN = 6  # names in a sentence


def is_sink_folder(path: str) -> bool:
    """Whether a folder has the manifest of a file sink, and is no checkpoint itself."""
    names = {name for name, _, _ in ReadOnlyFiles(path, None, Budget(0)).list()}
    return FOLDER in names and not names & OF_A_CHECKPOINT


def inspect_sink(
    path: str | Path, filesystem: fs.FileSystem | None = None, *, checkpoint: str | Path | None = None,
    max_bytes: int = 256 << 20,
) -> SinkReport:
    """What is in the folder of a file sink of Spark or of the model.

    Args:
        path, filesystem, max_bytes: as for `inspect`.
        checkpoint: that of the query which writes into the folder.

    Raises:
        FileNotFoundError, OSError: as from `inspect`.
        ValueError: the folder has no manifest, the checkpoint has no logs, or they need more than `max_bytes` (LimitExceeded).
    """
    files = ReadOnlyFiles(str(path), filesystem, Budget(max_bytes))
    names = [name.removeprefix(f"{FOLDER}/") for name in files.files if name.startswith(f"{FOLDER}/")]
    if not names and FOLDER not in files.folders:
        raise ValueError(f"{files.root} is not the folder of a file sink: it has no {FOLDER}")
    found = Findings()
    entries, statuses = _manifest(files, names, found)
    newest = entries[-1].batch_id if entries else -1
    base = _bases(files)
    here: dict[str, int] = {}
    others: dict[str, None] = {}
    for status in statuses:
        if (name := _below(base, status.path)) is None:
            others[status.path] = None
        else:
            here[name] = status.size
    not_seen = {name for name in here if name not in files.files and _left_out(files, name)}
    elsewhere = tuple(others)
    missing = tuple(name for name in here if name not in files.files and name not in not_seen)
    sizes = {name: (size, files.files[name]) for name, size in here.items() if files.files.get(name, size) != size}
    unlisted = tuple(name for name in files.files if name not in here and _is_data(files, name))
    twice = [path for path, times in Counter(status.path for status in statuses).items() if times > 1]
    deleted = [status.path for status in statuses if status.action == "delete"]
    found += _of_files(missing, sizes, elsewhere, unlisted, twice, deleted)
    if checkpoint is not None:
        found += _fits(ReadOnlyFiles(str(checkpoint), filesystem, files.budget), newest)
    unread = [where for where, error in found.errors.items() if is_unread(error)]
    not_known = (*unread, *not_seen, *(name for name in files.not_listed if name.split("/")[0] == FOLDER))
    found += [Finding("warning", name, f"left out, because {reason}") for name, reason in files.not_listed.items()]
    listed, findings = (*here, *elsewhere), in_order(files, found)
    return SinkReport(
        files.root, entries, listed, missing, other_size=sizes, elsewhere=elsewhere, unlisted=unlisted, findings=findings,
        not_known=not_known,
    )


# -- (1) the manifest ------------------------------------------------------------------------------------------


def _manifest(
    files: ReadOnlyFiles, names: Sequence[str], found: Findings
) -> tuple[tuple[ManifestEntry, ...], Sequence[SinkFileStatus]]:
    """The entries, oldest first, and what those that Spark reads list."""
    numbered = sorted((i, name) for name in names if (i := batch_of_file(name)) is not None)
    if not numbered:
        return (), ()
    log = FileStreamSinkLog(files.folder(FOLDER, text=True), CompactionConf(delete_expired=False))
    compact = [i for i, name in numbered if is_compact(name)]
    interval = compact_interval(0, compact) if len(compact) > 1 else log.interval  # before, it is a conf, which is not logged
    newest = numbered[-1][0]
    compacted = (newest + 1) // interval * interval - 1
    listed: list[SinkFileStatus] = []
    counts: dict[str, int] = {}
    for batch_id in range(max(0, compacted), newest + 1):
        name = names_of_batch(batch_id)[(batch_id + 1) % interval == 0]
        where = f"{FOLDER}/{name}"
        if where not in files.files and where not in files.not_listed:
            says = f"it is missing: a reader fails, and so does the next batch that compacts [{NOT_FOUND}]"
            found.append(Finding("error", where, says))
            if batch_id > compacted:
                break  # there may be many more
            continue
        one = attempt(lambda name=name: read_entry(log, name), where, found)  # type: ignore[misc]
        if one is not None:
            counts[name] = len(one)
            listed += [status for status in one if not status.is_dir]
    return tuple(ManifestEntry(i, name, counts.get(name)) for i, name in numbered), listed


# -- (2), (3) the files ----------------------------------------------------------------------------------------


def _bases(files: ReadOnlyFiles) -> set[str]:
    """The folder as the URIs in the manifest may begin: the path without the file system, and for a link, where it leads."""
    local = files.location.startswith("file:")
    path = files.location.removeprefix("file:") if local else unquote("".join(urlsplit(files.location)[1:3]))
    own = {path, os.path.realpath(path)} if local else {path, unquote(urlsplit(files.location).path)}
    return {one.strip("/") for one in own}


def _below(bases: set[str], uri: str) -> str | None:
    """The name of a file relative to the folder; None if it lies elsewhere."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    for whole in (unquote(parts.path).strip("/"), unquote(parts.netloc + parts.path).strip("/")):
        for base in bases:
            if whole.startswith(f"{base}/"):
                return whole[len(base) + 1:]
    return None


def _left_out(files: ReadOnlyFiles, name: str) -> bool:
    return any(name == one or name.startswith(f"{one}/") for one in files.not_listed)


def _is_data(files: ReadOnlyFiles, name: str) -> bool:
    """Whether a file is one that who lists the folder takes for data: not hidden, and not in a checkpoint below the folder."""
    parts = name.split("/")
    if any(part[:1] == "." or part[:1] == "_" and "=" not in part for part in parts):
        return False
    above = ["/".join(parts[:n]) for n in range(1, len(parts))]
    return not any(f"{folder}/metadata" in files.files and f"{folder}/offsets" in files.folders for folder in above)


def _of_files(
    missing: Sequence[str], sizes: Mapping[str, tuple[int, int]], elsewhere: Sequence[str], unlisted: Sequence[str],
    twice: Sequence[str], deleted: Sequence[str],
) -> Iterator[Finding]:
    if missing:
        says = f"{_files(missing)} listed and not there: a reader of the folder fails"
        yield Finding("error", "files", f"{says} [FAILED_READ_FILE.FILE_NOT_EXIST]: {_some(missing)}")
    if sizes:
        some = [f"{name} ({was:,} bytes in the manifest, {now:,} in the folder)" for name, (was, now) in sizes.items()]
        yield Finding("warning", "files", f"{_files(some)} not as long as the manifest says: {_some(some)}")
    if elsewhere:
        says = f"{_files(elsewhere)} listed in another folder: this one was moved or copied, and nothing in it is read"
        yield Finding("warning", "files", f"{says}: {_some(elsewhere)}")
    if twice:
        says = f"{_files(twice)} listed more than once: a reader sees the rows as often"
        yield Finding("warning", "files", f"{says}: {_some(twice)}")
    if deleted:
        says = f"{_files(deleted)} listed with the action delete. Older versions of Spark leave such a file out, 4.3 does not"
        yield Finding("warning", "files", f"{says}: {_some(deleted)}")
    if unlisted:
        says = (
            f"{_files(unlisted)} in no entry: a reader of the folder does not see them. Who lists the files, instead, sees the "
            "rows of a batch twice if it was killed and came again"
        )
        yield Finding("warning", "files", f"{says}: {_some(unlisted)}")


def _files(names: Sequence[str]) -> str:
    return f"{plural(len(names), 'file')} {'is' if len(names) == 1 else 'are'}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")


# -- (4) the checkpoint ----------------------------------------------------------------------------------------


def _fits(checkpoint: ReadOnlyFiles, newest: int) -> Iterator[Finding]:
    """Whether the newest batch of the manifest fits what the checkpoint does next, from the names of its entries."""
    if not {name.split("/")[0] for name in checkpoint.files} & OF_A_CHECKPOINT:
        raise ValueError(f"{checkpoint.root} is not the checkpoint of a streaming query")
    restart = read_logs(checkpoint).restart
    upcoming, batches = restart.batch_id, f"the newest batch is {newest}" if newest >= 0 else "it has no entry"
    if newest == upcoming and restart.again:
        says = f"batch {newest} is in the manifest, and not committed: it runs again, and the sink skips it, as it should"
        yield Finding("note", FOLDER, says)
    elif newest >= upcoming:
        lost = _range(upcoming, newest)
        yield Finding(
            "warning", FOLDER, f"the manifest is ahead of the checkpoint: {batches}, and batch {upcoming} comes next. The sink "
            f"skips {lost}, whose rows are lost. Another query has written the folder, or the checkpoint has gone back "
            "without it"
        )
    elif newest < upcoming - 1:
        yield Finding(
            "error", FOLDER, f"the manifest is behind the checkpoint: {batches}, and batch {upcoming} comes next. A reader "
            f"does not see the rows of {_range(newest + 1, upcoming - 1)}, and the next batch that compacts fails "
            f"[{NOT_FOUND}]. Another query has written the folder, or it has gone back without the checkpoint",
            f"rollback CHECKPOINT {newest} --sink OUT" if newest >= 0 else ""
        )


def _range(first: int, last: int) -> str:
    return f"batch {first}" if first == last else f"the batches {first} to {last}"
