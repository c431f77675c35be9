"""Where the many new rows of a join wait while Spark filters their pairs, so that they need not go through Spark themselves.

Models: nothing of Spark, whose join is one operator, in one process.

1. `Probe` writes the new rows into a file, and emits a single row with the number of that file instead of them.
2. `Build` takes the rows back by the number, and deletes the file; it reads the rows from the file's pages, without a copy.

    Probe    puts 400,000 rows aside under 71, emits (ASIDE, 71) and the pairs     Build    is given (ASIDE, 71): 400,000 rows

Both tasks belong to one task of Spark, so they run on the same executor, though perhaps in different workers. The file is
inside the folder that Spark makes for the blocks of an executor and deletes at its end, so a file whose `Build` never ran goes
with it. Each run of `Probe` draws a number of its own, and no two runs can take each other's rows. If Spark encrypts what it
writes there, no rows are put aside.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress

import pyarrow as pa

from minispark_stream.engine.state.loaded_providers import folder_of_executor


def put_aside(rows: pa.RecordBatch) -> int | None:
    """(1) Put the rows aside; returns their number, or None if there is no place for them: they go through Spark then."""
    folder, number = folder_of_executor(), secrets.randbits(62)
    if folder is None:
        return None
    try:
        descriptor = os.open(_path(folder, number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file, pa.ipc.new_file(file, rows.schema) as out:
            out.write_batch(rows)
    except OSError:  # a full disk
        with suppress(FileNotFoundError):
            os.unlink(_path(folder, number))
        return None
    return number


def take_back(number: int) -> pa.RecordBatch:
    """(2) The rows that were put aside under this number. They can be taken back once."""
    path = _path(str(folder_of_executor()), number)
    with pa.memory_map(path) as file:
        rows = pa.ipc.open_file(file).get_batch(0)
    os.unlink(path)
    return rows


def _path(folder: str, number: int) -> str:
    return f"{folder}/minispark_stream-join-{number:x}"
