"""All pictures of a trace, in the order in which a reader asks: what arrived, when, why, and from which files.

1. A picture has two halves: one decides, as data, what is drawn where, and one draws it. If the first finds nothing, there is
   no picture.
2. If a picture is asked for by its name and there is none, an error says why.

    [picture.heading for picture in pictures(trace, fates(trace))]
    ["Event time", "Watermarks", "State files", "Logs", "Files", "Durations"]

A trace of real Spark has fewer: it contains no rows, and not the watermarks of its operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from minispark_stream.lens.trace.events import Event
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
from minispark_stream.lens.view.state_contents import contents
from minispark_stream.lens.view.timeline import Picture
from minispark_stream.lens.view.words import perhaps


class NamedPicture(NamedTuple):
    """A picture as SVG, and what to write above it."""

    heading: str
    svg: str


class Kind(NamedTuple):
    """How a picture is drawn, and what the error says if there is nothing to draw."""

    heading: str
    draw: Callable[[Recording, Fates], str | None]  # (1)
    nothing: Callable[[Recording], str] = lambda _: ""  # `Trace` asks for two of them by functions of their own


def _rows_of(operator: str, called: str) -> Callable[[Recording], str]:
    """Why there are no rows of a kind of operator."""
    def why(recording: Recording) -> str:
        names = [str(name) for batch in recording.batches for name in _operators(batch.events)]
        if not recording.batches:
            return "the trace has no batch yet"
        if not any(name.startswith(operator) for name in names):
            return f"no batch of this query has run a {called}"
        if recording.engine == "spark":
            has = "side_by_side runs the query on the model, whose trace has them"
            return f"real Spark does not report the rows of a {called}; {has}"
        return f'the rows of the {called} were not recorded: MiniSparkSession(spark, trace="rows") records them'

    return why


def _operators(events: Sequence[Event]) -> Iterator[Any]:
    for event in events:
        if event.step == "stateOperator":
            yield event.inputs.get("operator")
        for one in event.outputs.get("progress", {}).get("stateOperators", ()):
            yield one.get("operatorName")


def _watermarks(recording: Recording) -> str:
    if recording.engine == "spark":
        return "real Spark does not report the watermarks of its operators"
    return "the trace has no plan with a watermark: the query has no withWatermark, or no batch has run yet"


KINDS: dict[str, Kind] = {
    "event_time": Kind(
        "Event time", lambda _, found: event_time.svg(found),
        lambda _: "the trace has no event times: the query needs a watermark, and a batch with rows",
    ),
    "join": Kind(
        "Join", lambda _, found: join_lanes.svg(join_buffers.buffers(found)),
        _rows_of("symmetricHashJoin", "stream-stream join"),
    ),
    "sessions": Kind(
        "Sessions", lambda _, found: session_lanes.svg(session_lanes.lanes(found)),
        _rows_of("sessionWindow", "session window"),
    ),
    "watermarks": Kind(
        "Watermarks", lambda recording, _: watermark_tree.svg(watermark_tree.tree(recording)),
        _watermarks,
    ),
    "state_files": Kind(
        "State files", lambda recording, _: state_chain.svg(state_files.chains(recording), contents(recording)),
        lambda _: "the trace has no state: no batch has written a version of a state store",
    ),
    "logs": Kind(
        "Logs", lambda recording, _: logs_tapes.svg(logs_tapes.runs(recording), len(recording.batches)),
        lambda _: "the trace has no logs: no batch has written an offset or a commit",
    ),
    "files": Kind(
        "Files", lambda recording, _: file_rows.svg(file_rows.files(recording)),
        lambda _: "the trace has no files: the query needs a file source or a file sink",
    ),
    "epochs": Kind("Epochs", lambda recording, _: epochs.of_epochs(recording)),
    "timeline": Kind("Durations", lambda recording, _: timeline.svg(recording.batches) if recording.batches else None),
}


BESIDE = ("Join", "Sessions", "Event time")  # the picture of a query: the first of these that it has


def register_picture(name: str, heading: str, draw: Callable[[Recording, Fates], str | None]) -> None:
    """Add a picture of one's own: `trace.picture(name)` shows it, and the page of a trace has it under its heading.

    Args:
        name: a name that no picture of this module has; a second registration replaces the first.
        heading: what is written above it.
        draw: receives the trace and the fates of its rows; returns SVG, or None if there is nothing to draw.
    """
    KINDS[name] = Kind(heading, draw, lambda _: f"the trace has nothing for the picture {name!r}")


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
        ValueError: there is no such picture, or the trace has nothing of this kind.
    """
    if name not in KINDS:
        raise ValueError(f"there is no picture {name!r}{perhaps(name, KINDS)}; pictures: {', '.join(KINDS)}")
    kind = KINDS[name]
    svg = kind.draw(recording, fates(recording))
    if svg is None:
        raise ValueError(kind.nothing(recording))  # (2)
    return Picture(svg)
