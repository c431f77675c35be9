"""What is left when a process dies, and what is lost: a disk, and what the driver had in its memory.

1. `look` takes the disk: each file with its time, and the folders that are empty. When maintenance has deleted a file meanwhile, it
   looks again, because the snapshot that was written for it may not be among the names.
2. `between` takes apart what happened between two such looks, one file after the other. Each is also half written, under the name that
   it has until it is complete; and the last one of the state is there without the others, because tasks wait for nobody. A version of
   the state is half written under its own name, too, as after a power cut on a disk that has kept the name and not the content: a
   batch that was not committed writes it again.
3. `what_counts` is the disk without times and without what a run draws by lot, such as the names of the files of a table.
   Hidden files are apart (`hidden`), by their kinds: whatever partition, store and version they were meant for.
4. `memory` is what the driver knows between two batches: all attributes of the query and of its objects, except for those of
   OF_NO_EFFECT. So an attribute that somebody adds counts, until somebody says here why it need not.

    offsets/1 written | .2.delta.tmp half written | 2.delta torn | 2.delta of partition 0 | 2.delta of partition 1 | out/1 | commits/1
"""

from __future__ import annotations

import io
import os
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

Disk = dict[str, tuple[bytes, int]]  # path -> content and time of its last change; an empty folder ends with "/"
Alike = frozenset[tuple[bytes, bytes]]  # what counts of a disk
STATE = "checkpoint/state/"
OF_ONE_RUN = re.compile(rb'"(batchTimestampMs|modificationTime|timestamp|createdTime|lastUpdated)":\d+')
TOPIC = rb"stages-\d{5}"  # crash_inputs.py
BY_LOT = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|" + TOPIC)
OF_THE_MODEL = "minispark_stream.engine.", "minispark_stream.extras.", "minispark_stream.lens."
OF_NO_EFFECT = {  # on what the query does
    "batch_timestamp_ms",  # the clock
    "reporter", "status", "num_output_rows", "event_time_stats", "latest_offsets", "_last_look", "written", "observer",  # what it says of itself
    "planner", "execution", "plan_text",  # plans follow from the rest
    "maintenance", "progress_lock",  # what other threads do meanwhile
}


def look(folder: Path, known: Disk) -> Disk:
    """(1) A file that is known and has not changed is not read again."""
    while True:
        try:
            return dict(sorted(_files(folder, known)))
        except FileNotFoundError:
            continue


def _files(folder: Path, known: Disk) -> Iterator[tuple[str, tuple[bytes, int]]]:
    for root, folders, files in os.walk(folder):
        above = "" if root == str(folder) else f"{os.path.relpath(root, folder)}/"
        if above and not folders and not files:
            yield above, (b"", 0)
        for name in files:
            path = Path(root, name)
            try:
                changed = path.stat().st_mtime_ns
                before = known.get(above + name)
                yield above + name, before if before and before[1] == changed else (path.read_bytes(), changed)
            except FileNotFoundError:
                if not name.startswith("."):  # a hidden file has got its name
                    raise


def put_back(disk: Disk, folder: Path) -> None:
    """Make a folder what it was."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, (content, changed) in disk.items():
        path = folder / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_bytes(content)
            os.utime(path, ns=(changed, changed))


def between(before: Disk, after: Disk) -> Iterator[tuple[str, Disk]]:
    """(2) What is new came in the order of its times, and what is gone went after that."""
    before = {name: file for name, file in before.items() if name in after or not name.endswith("/")}  # or it is not empty now
    disk = dict(before)
    new = sorted((name for name, file in after.items() if before.get(name) != file), key=lambda name: after[name][1])
    for name in new:
        content, changed = after[name]
        if not name.endswith("/"):
            folder, _, base = name.rpartition("/")
            half = content[: len(content) // 2], changed
            yield f"half of {name}", {**disk, f"{folder}/.{base}.0.tmp": half}
            if _is_version(name, after):
                yield f"torn {name}", {**disk, name: half}
        disk[name] = after[name]
        if disk != after:
            yield f"after {name}", dict(disk)
    if len(new) > 1 and new[-1].startswith(STATE):
        yield f"{new[-1]} before the others", {**before, new[-1]: after[new[-1]]}
    for name in before:
        if name not in after:
            del disk[name]
            if disk != after:
                yield f"without {name}", dict(disk)


def _is_version(name: str, disk: Disk) -> bool:
    """Whether a file is what a batch leaves of a store, and not a snapshot of what was committed before."""
    version, _, kind = name.rpartition(".")
    whole = kind == "zip" and f"{version}.changelog" not in disk
    return name.startswith(STATE) and (kind in ("delta", "changelog") or whole)


def what_counts(disk: Disk) -> Alike:
    """(3) What is drawn by lot is numbered, in each folder by the time of its first file."""
    number, counts = _Numbers(), set()
    for name in sorted(disk, key=lambda name: (BY_LOT.sub(b"", name.encode()), disk[name][1])):
        if not _is_hidden(name):
            content = OF_ONE_RUN.sub(b"", _unzipped(disk[name][0]) if name.endswith(".zip") else disk[name][0])
            counts.add((BY_LOT.sub(number, name.encode()), BY_LOT.sub(number, content)))
    return frozenset(counts)


def hidden(disk: Disk) -> set[str]:
    """(3) What a killed run has left half written, by kind."""
    return {re.sub(r"[0-9a-f-]{36}|\d+", "", name.rpartition("/")[2] if name.startswith(STATE) else name) for name in disk if _is_hidden(name)}


def _is_hidden(name: str) -> bool:
    return "/." in name


class _Numbers(dict[bytes, bytes]):
    """For what is drawn by lot, in the order in which it is met."""

    def __call__(self, drawn: re.Match[bytes]) -> bytes:
        return self.setdefault(drawn[0], b"#%d" % len(self))


def _unzipped(content: bytes) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as files:
            return b"".join(name.encode() + files.read(name) for name in sorted(files.namelist()))
    except zipfile.BadZipFile:  # a torn one
        return content


def memory(execution: Any) -> str:
    """(4) What a query knows, as text."""
    return BY_LOT.sub(_Numbers(), repr(_known(execution)).encode()).decode()


def _known(thing: Any) -> object:
    """What an object of the model knows; of one of Spark's, or of Python's, only what it is."""
    if isinstance(thing, str | bytes | int | float | None):
        return thing
    if isinstance(thing, Mapping):
        return [(key, _known(value)) for key, value in thing.items()]
    if isinstance(thing, Set):
        return sorted(map(repr, thing))
    if isinstance(thing, list | tuple):
        return [_known(one) for one in thing]
    if type(thing).__module__.startswith(OF_THE_MODEL):
        known = {name: _known(value) for name, value in vars(thing).items() if name not in OF_NO_EFFECT}
        if "state_operators" in known:  # how many keys the workers have in their memory counts
            known["state_operators"] = [operator["numRowsTotal"] for operator in thing.state_operators]
        return type(thing).__name__, known
    return type(thing).__name__
