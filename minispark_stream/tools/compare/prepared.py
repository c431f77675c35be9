"""What is prepared for a run of a query: the files that it reads, and the confs that it is started with.

    put_files(folder, 0, ["a b a", "b c"])      folder/step-0000.txt
    with confs_set(spark, {"spark.sql.shuffle.partitions": "2"}): ...

1. A step of a feed is put into the folder.
2. A file appears in one rename, and with a modification time that is the same in every run.

The session may be of the model, of a classic Spark or of Spark Connect.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Step = Sequence[str] | Mapping[str, Sequence[str]] | Callable[[str], object]

FIRST_FILE_TIME = 1_700_000_000  # seconds: the modification time of the first step's file; each step adds one second


def put_files(inputs: Path, i: int, step: Step) -> list[Path]:
    """(1) Put the files of step `i`; returns their paths, but not those of a function, which puts its files there itself."""
    if callable(step):
        step(str(inputs))
        return []
    hidden = []
    for name, lines in ({"": step} if not isinstance(step, Mapping) else step).items():
        hidden.append(inputs / name / f".step-{i:04d}.txt")
        hidden[-1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return made_visible(hidden, i)


def made_visible(hidden: Sequence[Path], i: int) -> list[Path]:
    """(2) Files lose the dot before their names, each in one rename; all have the fixed modification time of step `i`."""
    for path in hidden:
        os.utime(path, (FIRST_FILE_TIME + i, FIRST_FILE_TIME + i))
    return [path.rename(path.with_name(path.name.removeprefix("."))) for path in hidden]


@contextmanager
def confs_set(spark: Any, confs: Mapping[str, str]) -> Iterator[None]:
    """Set confs, and restore their old values afterwards."""
    before = {key: spark.conf.get(key, None) for key in confs}
    for key, value in confs.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
