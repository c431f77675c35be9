"""What a query that somebody holds tells of itself: one of the model, of a classic session of Spark, or of Spark Connect.

    look(query)             Known(checkpoint="file:/data/checkpoint", output_mode="append", plan="Aggregate ...")
    reports(query)          its newest progress reports, as plain data

1. A query of the model is known by its module, so that no tool imports the model, which needs PySpark 4.3.
2. The JVM of a classic session says where the checkpoint is, and more (engine/jvm/queries.py).
3. Spark Connect keeps the JVM from Python. There, the text of `query.explain` has the location of the state of a stateful
   query, and so of its checkpoint; of other queries, the caller must say where the checkpoint is.

Models: nothing of Spark.
Shown by tests/unit/tools/test_held_query.py.
"""

from __future__ import annotations

import re
import sys
import threading
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from minispark_stream.engine.spark_versions import is_of_connect
from minispark_stream.tools.inspection.asked import Known
from minispark_stream.tools.reports import plain

if TYPE_CHECKING:
    from minispark_stream.streaming_query import StreamingQuery as ModelQuery

_ONE_AT_A_TIME = threading.Lock()
_STATE_OF = re.compile(r"state info \[ checkpoint = (.*?)/state, runId = ")


def as_model_query(query: Any) -> ModelQuery | None:  # (1)
    """The query, if it is one of the model."""
    return query if any(kind.__module__.startswith("minispark_stream.") for kind in type(query).__mro__) else None


def is_query(value: object) -> bool:
    """Whether this is a query that `start()` has returned, on whichever engine."""
    return hasattr(value, "recentProgress")


def look(query: Any, checkpoint: str | None = None) -> Known:
    """Ask a query of Spark, which may be running or have ended.

    Args:
        checkpoint: where it is, if the caller knows.
    """
    if is_of_connect(query):
        return Known(checkpoint or _in_its_plan(query))  # (3)
    from minispark_stream.engine.jvm.queries import look_at

    seen = Known(*look_at(query))  # (2)
    return seen if checkpoint is None else seen._replace(checkpoint=checkpoint)


def reports(query: Any) -> list[dict[str, Any]]:
    """The newest progress reports of a query, the oldest first."""
    return [plain(report) for report in query.recentProgress]


def error_of(query: Any) -> str | None:
    """What ended the query."""
    error = query.exception()
    return None if error is None else str(error)


def _in_its_plan(query: Any) -> str | None:
    found = _STATE_OF.search(_printed_by(query.explain))
    return found[1] if found else None


def _printed_by(function: Any) -> str:
    """What a function prints on this thread. What others print in the meantime is not held back."""
    own: list[str] = []
    thread = threading.get_ident()
    with _ONE_AT_A_TIME:  # two that end in another order than they began would leave the output with one of them
        output = sys.stdout

        class Divided:
            def write(self, text: str) -> int:
                if threading.get_ident() == thread:
                    own.append(text)
                    return len(text)
                return output.write(text)

            def __getattr__(self, name: str) -> Any:
                return getattr(output, name)

        with redirect_stdout(Divided()):
            function()
    return "".join(own)
