"""All pictures of a trace, in the order in which a reader asks: what arrived, when, why, and from which files.

1. A picture has two halves: one decides, as data, what is drawn where, and one draws it. If the first finds nothing, there is
   no picture.
2. If a picture is asked for by its name and there is none, an error says why.

    [picture.heading for picture in pictures(trace, fates(trace))]
    ["Event time", "Watermarks", "State files", "Logs", "Files", "Durations"]

A trace of real Spark has fewer: it contains no rows, and not the watermarks of its operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from minispark_stream.lens.trace.fates import Fates, fates
from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.view import (
    epochs,
    event_time,
    file_rows,
    join_buffers,
    join_lanes,
    logs_tapes,
    session_lanes,
    state_chain,
    state_files,
    timeline,
    watermark_tree,
)
from minispark_stream.lens.view.timeline import Picture


class NamedPicture(NamedTuple):
    """A picture as SVG, and what to write above it."""

    heading: str
    svg: str


class Kind(NamedTuple):
    """How a picture is drawn, and what the error says if there is nothing to draw."""

    heading: str
    draw: Callable[[Recording, Fates], str | None]  # (1)
    nothing: str = ""  # `Trace` asks for two of them by functions of their own


KINDS: Mapping[str, Kind] = {
    "event_time": Kind(
        "Event time", lambda _, found: event_time.svg(found),
        "the trace has no event times: the query needs a watermark, and a batch with rows",
    ),
    "join": Kind(
        "Join", lambda _, found: join_lanes.svg(join_buffers.buffers(found)),
        'the trace has no rows of a stream-stream join: trace="rows" records them, and real Spark does not report rows',
    ),
    "sessions": Kind(
        "Sessions", lambda _, found: session_lanes.svg(session_lanes.lanes(found)),
        'the trace has no rows of session windows: trace="rows" records them, and real Spark does not report rows',
    ),
    "watermarks": Kind(
        "Watermarks", lambda recording, _: watermark_tree.svg(watermark_tree.tree(recording)),
        "the trace has no plan with a watermark; real Spark does not report the watermarks of its operators",
    ),
    "state_files": Kind(
        "State files", lambda recording, _: state_chain.svg(state_files.chains(recording)),
        "the trace has no state: no batch has written a version of a state store",
    ),
    "logs": Kind(
        "Logs", lambda recording, _: logs_tapes.svg(logs_tapes.runs(recording), len(recording.batches)),
        "the trace has no logs: no batch has written an offset or a commit",
    ),
    "files": Kind(
        "Files", lambda recording, _: file_rows.svg(file_rows.files(recording)),
        "the trace has no files: the query needs a file source or a file sink",
    ),
    "epochs": Kind("Epochs", lambda recording, _: epochs.of_epochs(recording)),
    "timeline": Kind("Durations", lambda recording, _: timeline.svg(recording.batches) if recording.batches else None),
}


def pictures(recording: Recording, found: Fates) -> tuple[NamedPicture, ...]:
    """The pictures for which the trace has the data; `found` are the fates of its rows.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    drawn = ((kind.heading, kind.draw(recording, found)) for kind in KINDS.values())
    return tuple(NamedPicture(heading, svg) for heading, svg in drawn if svg is not None)


def picture(recording: Recording, name: str) -> Picture:
    """One of `KINDS`.

    Raises:
        ValueError: the trace has nothing of this kind.
    """
    kind = KINDS[name]
    svg = kind.draw(recording, fates(recording))
    if svg is None:
        raise ValueError(kind.nothing)  # (2)
    return Picture(svg)
