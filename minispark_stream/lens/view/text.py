"""A trace as text: a line for each step, with what it did, and rows and state below it.

1. First the query, a note on what its trace lacks, and its plan.
2. Then each batch: its steps in the order of the walk (walk.py), indented by depth.
3. Below a step: rows in, rows out, and state rows that changed (+ added, ~ changed, - removed) or stayed.

    batch 2
      latestOffset          FileStreamSource[in]: from logOffset 1 up to logOffset 2, 1 file: 2.csv
      constructNextBatch    there is new data: run a batch
      walCommit             offsets/2 written: read up to logOffset 2; watermark 2024-01-01 12:04:00

The same run gives the same text on every machine: rows and names are sorted, and ids, wall-clock times, folders and
expression ids are left out, and so are durations, unless they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.view.sentences import narrate
from minispark_stream.lens.view.words import clip, duration_words, one_line, plain, row_words, short, without_ids
from minispark_stream.lens.view.world import StateRow, World
from minispark_stream.lens.view.world_changes import worlds

WIDTH = 22


def to_text(recording: Recording, durations: bool = False) -> str:
    """The whole trace; ends with a newline."""
    lines = [f"{'query ' + recording.name if recording.name else 'a query without a name'} on {recording.engine}"]  # (1)
    if recording.note:
        lines.append(recording.note)
    if recording.plan:
        lines += ["plan", *(f"  {clip(line, 160)}" for line in short(without_ids(recording.plan)).splitlines())]
    for _, of_trigger in groupby(worlds(recording.events), key=lambda w: w.moment.event.trigger):  # (2)
        group = list(of_trigger)
        lines.append(_heading(group[0]))
        for world in group:
            lines += _step(world, durations)
    return "\n".join(one_line(line.rstrip()) for line in lines) + "\n"


def _heading(world: World) -> str:
    """`batch 3`, with the run if the query was restarted."""
    moment = world.moment
    name = "outside of any batch" if moment.batch_id is None else f"batch {moment.batch_id}"
    return name if moment.run == 1 else f"{name} (run {moment.run})"


def _step(world: World, durations: bool) -> Iterator[str]:
    event = world.moment.event
    indent = "  " * (1 + len(world.moment.within))
    took = f" [{duration_words(event.duration_ms)}]" if durations else ""
    yield f"{indent}{event.step.ljust(WIDTH)}{narrate(event)}{took}"
    for line in _details(world):
        yield f"{indent}    {line}"


def _details(world: World) -> Iterator[str]:  # (3)
    """Rows and state, one line each, under the step that dealt with them."""
    event = world.moment.event
    match event.step:
        case "getBatch":
            for source in world.sources:
                if source.changed:
                    yield from sorted(row_words(row) for row in source.rows or ())
        case "addBatch":
            yield from sorted(row_words(row) for row in world.rows_out or ())
        case "stateOperator":
            for operator in world.operators:
                if operator.changed:
                    yield from (_state_line(row) for row in operator.rows or ())


def _state_line(row: StateRow) -> str:
    where = f"{row.partition}" if row.store == "default" else f"{row.partition}/{row.store}"
    values = {
        "+": plain(row.after), "-": plain(row.before), "": plain(row.after),
        "~": f"{plain(row.before)} -> {plain(row.after)}",
        "+-": f"{plain(row.between)}, then removed", "~-": f"{plain(row.before)} -> {plain(row.between)}, then removed",
    }
    return f"{row.mark or ' '} {where}  {plain(row.key)}: {values[row.mark]}"
