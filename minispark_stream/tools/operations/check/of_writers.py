"""The differences between two writers: output mode and sink.

1. A change of mode matters for aggregations: what the old mode has written, and what it has kept back or evicted.
2. Another sink gets the rows of new batches, or in complete mode the whole result.

    windows, append -> update      a window that was not final yet is evicted without being written      wrong [mode.unwritten]

Models: nothing of Spark.
Shown by tests/spark/test_check.py::test_foretold_is_what_spark_did.
"""

from __future__ import annotations

from collections.abc import Iterator

from minispark_stream.engine.runtime.template import Template
from minispark_stream.engine.runtime.write_to_stream import WriteToStream
from minispark_stream.engine.sinks.file import FileStreamSink
from minispark_stream.tools.operations.check.answer import CheckDifference
from minispark_stream.tools.operations.check.functions import words
from minispark_stream.tools.operations.check.of_checkpoint import AGGREGATIONS
from minispark_stream.tools.operations.check.rules import difference


def of_modes(before: WriteToStream, after: WriteToStream, template: Template) -> Iterator[CheckDifference]:  # (1)
    was, now = before.output_mode, after.output_mode
    if was != now:
        aggregations = [op for op in template.operators if op.operator_name in AGGREGATIONS]
        evicts = any(op.lateness is not None for op in aggregations)
        yield difference(_of_mode(was, now, bool(aggregations), evicts), "output mode", was, now)


def _of_mode(was: str, now: str, aggregates: bool, evicts: bool) -> str:
    if not aggregates:
        return "mode.same-rows"
    if now == "complete":
        return "mode.evicted" if evicts else "mode.same-rows"
    if now == "append":
        return "mode.written-again"
    return "mode.unwritten" if was == "append" else "mode.same-rows"


def of_sinks(before: WriteToStream, after: WriteToStream) -> Iterator[CheckDifference]:  # (2)
    complete = after.output_mode == "complete"
    was, now = before.sink, after.sink
    if type(was) is not type(now) or was.description != now.description:
        yield difference("sink.complete" if complete else "sink.changed", "sink", was.description, now.description)
    elif isinstance(was, FileStreamSink) and isinstance(now, FileStreamSink):
        if was.layout != now.layout:
            yield difference("sink.layout", "sink", *(", ".join(one.layout) for one in (was, now)))
    elif was.calls_function and words(vars(was), set()) != words(vars(now), set()):
        yield difference("sink.complete" if complete else "sink.code", "sink", was.description, now.description)
