"""What a test does to a query, on each of its engines, and how it can be repeated.

1. Everything is done on each engine, first on Spark, then on the model.
2. The query is built as soon as the types of its inputs are known: at once, or with the first `add`.
3. What is added while the query is not running waits for `restart`.
4. Everything that was done is noted, so that it can be repeated on the model with rows recorded (explained.py).

    add({"k": "a"})      input/events/0000.parquet appears, and triggers fire until one finds nothing to do
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

from minispark_stream.engine.spark_versions import refuse_connect
from minispark_stream.tools.cause import need_model
from minispark_stream.tools.testing.driven_query import DrivenQuery, OnBatch
from minispark_stream.tools.testing.inputs import Build, Inputs, listed

__tracebackhide__ = True

class Actions:
    """The half of a test that does something; kit.py has the other half, which expects something."""

    def __init__(
        self, spark: SparkSession, build: Build, engines: Sequence[str], inputs: Callable[[], Inputs],
        make: Callable[..., DrivenQuery], *, zone: str, on_batch: OnBatch | None, shuffled: random.Random | None,
        directory: str | Path | None,
    ):
        self._spark, self._build, self._first_build = spark, build, build
        self._new_inputs, self._inputs = inputs, inputs()
        self._make, self._shuffled = make, shuffled
        self._zone = zone
        self._temporary = directory is None
        self._folder = Path(tempfile.mkdtemp(prefix="stream_test-") if directory is None else directory)
        self._on_batch = on_batch
        self._engines = engines
        self._queries: list[DrivenQuery] = []
        self._started = self._stopped = False
        self._added = 0
        self._waiting: list[tuple[int, dict[str, Any]]] = []
        self._done: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []  # what was done, to do it again

    def __enter__(self) -> Actions:
        self._queries = [self._make(engine, folder=self._folder / engine, on_batch=self._on_batch) for engine in self._engines]
        try:
            if self._inputs.are_known:
                self._start()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._clean_up()

    # -- what is done -----------------------------------------------------------------------------------------------

    def add(self, *rows: Any, **named: Any) -> None:
        """Add rows, and let the query run until it has nothing left to do.

        Args:
            rows: those of the only input: dicts, tuples, Rows, a DataFrame, or a table of text. Without rows, the query has one
                trigger.
            named: rows by the names of their inputs, which arrive at the same time.
        """
        self._note("add", *rows, **named)
        added = self._inputs.named(rows, named)
        if self._shuffled is not None:
            added = {name: self._shuffled.sample(every := listed(some), len(every)) for name, some in added.items()}
        if not self._started:
            self._inputs.learn(self._spark, added)
            self._start()
        self._waiting.append((self._added, added))
        self._added += 1
        self._put_what_waits()

    def advance(self, duration: str | timedelta) -> None:
        """Let time pass ("5 minutes"), so that groups and timers time out; then the query has its triggers."""
        self._note("advance", duration)
        for query in self._queries:
            query.advance(round(pd.Timedelta(duration).total_seconds() * 1000))

    def stop(self) -> None:
        """Stop the query, as `query.stop()` does."""
        self._note("stop")
        self._stopped = True
        for query in self._queries:
            query.stop()

    def restart(self, build: Build | None = None) -> None:
        """Start the query again from its checkpoint, after `stop`, a crash or an error; a running query is stopped first.

        Args:
            build: the function of another query on the same inputs.
        """
        self._note("restart", build)
        self._build = build or self._build
        self._inputs.learn(self._spark, {})
        self._stopped, self._started = False, True
        for query in self._queries:
            query.stop()
            query.start(self._build, self._inputs)
            query.settle()
        self._put_what_waits()

    def crash(self, step: str) -> None:
        """Let the query die at a step of the next batch: "walCommit", "addBatch", "commitOffsets", … (crashes.py)."""
        self._note("crash", step)
        for query in self._queries:
            query.die_at(step)

    # -- how --------------------------------------------------------------------------------------------------------

    def _clean_up(self) -> None:
        for query in self._queries:
            query.stop()
        if self._temporary:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:  # (2)
        self._started = True
        for query in self._queries:
            query.start(self._build, self._inputs)

    def _put_what_waits(self) -> None:  # (3)
        if self._stopped or not any(query.is_active for query in self._queries):
            return
        waiting, self._waiting = self._waiting, []
        for query in self._queries:  # (1)
            for number, rows in waiting:
                self._inputs.put(query.input, number, rows, self._zone, self._spark)
            query.settle()

    def _note(self, what: str, *arguments: Any, **named: Any) -> None:
        self._check_entered()
        self._done.append((what, arguments, named))

    def _check_entered(self) -> None:
        if not self._queries:
            raise RuntimeError("there is no query yet: use it as in `with stream_test(...) as t:`")

    def replay(self, folder: Path) -> DrivenQuery:  # (4)
        """Repeat on the model, with rows recorded, what was done so far.

        Raises:
            ImportError: there is no PySpark with which the model runs.
            PySparkTypeError: the session is one of Spark Connect.
        """
        need_model("the model")
        refuse_connect("the model", "spark", self._spark)
        make = partial(self._make, trace="rows")
        again = Actions(
            self._spark, self._first_build, ("model",), self._new_inputs, make, zone=self._zone, on_batch=None, shuffled=None,
            directory=folder,
        )
        with again:
            try:
                for what, arguments, named in self._done:
                    getattr(again, what)(*arguments, **named)
            finally:
                query = again._queries[0]
                query.error = query.crash = None
        return query
