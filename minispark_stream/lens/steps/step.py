"""What a step is: its name, what it does and why, what a trace keeps of it, and how that is said.

    WAL_COMMIT.sentence({"file": "offsets/4"}, {"text": ..})   offsets/4 written: read up to logOffset 4; watermark 12:04
    WAL_COMMIT.caption({"file": "offsets/4"}, {"text": ..})    offsets/4

`ins` and `outs` declare what goes in and what comes out, with types; lens/recording/recorded.py reads them off the arguments
and the result of the engine's function. A trace that is loaded is checked against them once (lens/trace/saved.py), and whatever
reads it may rely on them. Any entry may be missing: a trace may be older than the entry, or of real Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

LoggedOffset = Any  # as a log has it, as JSON text; or as a progress report has it, as a JSON value


class Nothing(TypedDict, total=False):
    """What a step has that needs nothing, or gives nothing."""


def _no_words(ins: Any, outs: Any) -> str:
    return ""


@dataclass(frozen=True)
class Step:
    """One phase of the engine, as the documents name it.

    name: also Spark's key in `durationMs` where Spark reports that phase.
    says, why: what the step does; what would go wrong without it.
    ins, outs: the entries of `Event.inputs` and `Event.outputs`.
    sentence: what the step did this time, without a full stop; "" if `says` is all that can be said.
    caption: the same in the few words below it in the flow diagram.
    lights: the panels of the page that are highlighted while the step is shown.
    within: the step under which the page lists it.
    frame: whether it does nothing by itself, so that any error in it is one of a step inside.
    continuous: whether only a continuous query has it.
    """

    name: str
    spark: str
    document: str
    says: str
    why: str
    ins: type = Nothing
    outs: type = Nothing
    sentence: Callable[[Any, Any], str] = _no_words
    caption: Callable[[Any, Any], str] = _no_words
    lights: tuple[str, ...] = ()
    within: str | None = None
    frame: bool = False
    continuous: bool = False
