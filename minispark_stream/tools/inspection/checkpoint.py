"""Open a checkpoint and say what is in it, without a JVM and without writing anything.

1. List all files, once.
2. Read `metadata` and both logs, to find the batches.
3. Read the sources' own logs, to find the files of each batch.
4. Read the state, one partition after the other, with the confs of the last batch (codec, checksums).
5. Decide what a restart would do (restart/foretold.py), and check all of it for what is missing or unusual.

    report = inspect("s3://bucket/checkpoint")
    print(report); report.to_html("checkpoint.html"); report.find({"word": "be"})

Damaged files do not stop the inspection: each is a finding that names the file and what is wrong with it.

Differs from Spark: Spark reads the state of a checkpoint with jobs (`format("statestore")`), and does not show its logs at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyarrow import fs

from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.engine.checkpointing.file_stream_sink_log import FOLDER
from minispark_stream.lens.view.words import one_line
from minispark_stream.tools.inspection.contents import Finding
from minispark_stream.tools.inspection.findings import REPAIR, check
from minispark_stream.tools.inspection.logs import batches, read_logs
from minispark_stream.tools.inspection.operators import read_operators
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.inspection.report import CheckpointReport
from minispark_stream.tools.inspection.restart.foretold import foretell
from minispark_stream.tools.inspection.sources import read_sources

LEVELS = ("error", "warning", "note")


def inspect(path: str, filesystem: fs.FileSystem | None = None, *, max_bytes: int = 256 << 20) -> CheckpointReport:
    """What is in the checkpoint of a streaming query of Spark or of the model.

    Args:
        path: a local path, or a URI that pyarrow.fs knows (`file:///`, `s3://`, `gs://`, `hdfs://`, `abfs://`); `s3a://` and
            `dbfs:/`, which is mounted at /dbfs, too.
        filesystem: where `path` is, for a file system that no URI describes.
        max_bytes: the memory that may be taken for what is in the files, whatever their format; a process takes a few times as
            much. What needs more is an error, or, if it is the state of one partition, a finding.

    Raises:
        FileNotFoundError: there is no such directory.
        OSError: the file system cannot be reached, or wants other credentials.
        ValueError: the directory is not a checkpoint, nothing is known about such a URI, or the logs need more than `max_bytes`
            (LimitExceeded).
    """
    files = ReadOnlyFiles(str(path), filesystem, Budget(max_bytes))
    _check_is_checkpoint(files)  # (1)
    logs = read_logs(files)  # (2)
    sources, found, of_sources = read_sources(files, batches(logs))  # (3)
    version = logs.restart.batch_id if logs.offsets else max(logs.commits, default=-1) + 1
    state = read_operators(files, logs, version)  # (4)
    upcoming = foretell(files, logs, sources, state)  # (5)
    checks = check(files, logs, found, upcoming, state.operators)
    read = (*logs.findings, *of_sources, *state.findings)
    if (reason := upcoming.refused or upcoming.unknown) is not None:  # the check `restart` says it
        read = tuple(f for f in read if f.where != reason.where or f.level == "warning")
    if upcoming.refused is not None:
        read = tuple(replace(f, command=REPAIR) if f.level == "error" else f for f in read)
    findings = in_order(files, (*read, *checks))
    return CheckpointReport(
        files.root, logs.query_id, upcoming, found, sources, state.operators, findings,
        states=state.stores, next_version=version, budget=files.budget,
    )


def in_order(files: ReadOnlyFiles, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The worst first, each once, and none with the path of the folder, which is in the head of the report."""
    short = [replace(f, says=f.says.replace(f"{files.root}/", "").removeprefix(f"{f.where}: ")) for f in findings]
    return tuple(dict.fromkeys(sorted(short, key=lambda f: LEVELS.index(f.level))))


def _check_is_checkpoint(files: ReadOnlyFiles) -> None:
    names = {name.split("/")[0] for name in files.files}
    if not names & {"metadata", "offsets", "commits"}:
        inside = one_line(", ".join(sorted(names)[:5])) or "nothing"
        inside += "; minispark_stream inspect FOLDER says what a file sink wrote" if FOLDER in names else ""
        raise ValueError(
            f"{files.root} is not the checkpoint of a streaming query: it has no metadata, offsets/ or commits/, but {inside}"
        )

