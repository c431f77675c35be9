"""What a step did, in a sentence, and in the few words below it in the flow diagram; lens/steps/ has both for each step.

    populateStartOffsets   offsetLog 4, commitLog 3   -> "the offset log ends at batch 4, the commit log at 3: batch 4
                                                          was planned but not finished, run it again ..."
                                                      -> "batch 4 again"
    updateWatermark        12:04 -> 12:11             -> "12:21 - 10 min = 12:11; the watermark goes from 12:04 to 12:11"
                                                      -> "12:04 → 12:11"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minispark_stream.lens.steps import STEPS
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.view.walk import failed
from minispark_stream.lens.view.words import short


def narrate(event: Event) -> str:
    """What this step did, as a sentence without a full stop."""
    if failed(event):
        return f"failed: {short(str(event.error))}"
    step = STEPS[event.step]
    sentence = step.sentence(event.inputs, event.outputs) or step.says
    if event.error is None:
        return sentence
    # Real Spark does not say in which step of the batch this was, so the batch itself has the words.
    words = f": {short(event.error)}" if event.engine == "spark" and event.step == "runBatch" else ""
    return f"{sentence}; it ends with an error{words}"


def caption(event: Event) -> str:
    """What this step did, in a few words."""
    return "failed" if failed(event) else STEPS[event.step].caption(event.inputs, event.outputs)


def captions_of(events: Iterable[Event]) -> dict[str, str]:
    """Step -> caption, for the steps that happened; several events of one step (two sources) share a caption."""
    found: dict[str, list[str]] = {}
    for event in events:
        found.setdefault(event.step, []).append(caption(event))
    return {step: " | ".join(dict.fromkeys(words)) for step, words in found.items()}


def caption_lines(step: str, captions: Mapping[str, Mapping[str, str]]) -> list[str]:
    """One line if the engines agree (or one says nothing), else one per engine; none if the step did not happen."""
    said = {engine: words[step] for engine, words in captions.items() if step in words}
    if len({words for words in said.values() if words}) > 1:
        return [f"{engine}: {words}" for engine, words in said.items()]
    return [max(said.values(), key=len)] if said else []
