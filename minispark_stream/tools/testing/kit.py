"""What a test asks of a query, and what it expects.

    with stream_test(spark, build, schemas={"events": "time timestamp, k string"}) as t:
        t.add([("2026-03-01 12:04", "a")])                    a batch, and all that follows from it
        t.expect_watermark("2026-03-01 11:54"); t.expect_state(rows=1); t.expect([])
        t.add([("2026-03-01 12:30", "b")]); t.expect([...])   what was emitted since the last `expect`
        t.crash("commitOffsets"); t.add([...]); t.restart()   it dies in the next batch, and continues from its checkpoint

1. What is expected is expected of each engine.
2. An error of the query is kept for `expect_error`; any other expectation, and the end of the test, fail with it.
3. When an expectation fails, everything is repeated on the model, to find out why (explained.py).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, NoReturn

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType, TimestampType

from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.spark_versions import is_of_connect, refuse_connect
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.words import plural
from minispark_stream.tools.cause import need_model
from minispark_stream.tools.compare.engine_run import cause_of
from minispark_stream.tools.compare.mistakes import knows_camel_case
from minispark_stream.tools.testing.actions import Actions
from minispark_stream.tools.testing.connect_query import ConnectQuery, check_needs_no_clock
from minispark_stream.tools.testing.driven_query import DrivenQuery, OnBatch
from minispark_stream.tools.testing.expectations import difference_in_rows, error_names, late_rows, state_found, state_rows
from minispark_stream.tools.testing.explained import failed
from minispark_stream.tools.testing.inputs import Build, Inputs, listed, parsed
from minispark_stream.tools.testing.values import fitted

__tracebackhide__ = True  # pytest shows the line of the test, and not those of the kit
ENGINES = {"model": ("model",), "spark": ("spark",), "both": ("spark", "model")}
NOW = "2026-01-01 00:00:00"
ZONE = "spark.sql.session.timeZone"


@knows_camel_case
def stream_test(
    spark: SparkSession,
    build: Build,
    output_mode: str = "append",
    engine: str = "model",
    *,
    schemas: Mapping[str, StructType | str] | None = None,
    on_batch: OnBatch | None = None,
    now: str = NOW,
    seed: int | None = None,
    directory: str | Path | None = None,
    **confs: str,
) -> StreamTest:
    """A test of a streaming query; use it in a `with` statement.

    Args:
        spark: the session of both engines, PySpark's or the model's; for the engine "spark", also one of Spark Connect.
        build: `build(session, **inputs)`, which receives a streaming DataFrame for each input, or `build(session, folder)`.
        output_mode: "append", "update" or "complete".
        engine: "model", "spark", or "both", one after the other.
        schemas: the types of inputs by their names; inputs that are missing here have the types of their first rows.
        on_batch: is called with each batch and its id, like the function of foreachBatch, after the test has kept its rows.
        now: the time of the clock until `advance`, in UTC.
        seed: a number that decides the order of the rows of each `add`; None keeps their order.
        directory: an empty folder for inputs and checkpoints; by default a temporary one, which is deleted.
        confs: SQL confs of the query: `**{"spark.sql.shuffle.partitions": "5"}`.

    Raises:
        ValueError: there is no such engine.
        TypeError: an argument is unknown.
        ImportError: the model needs PySpark 4.3.
        PySparkTypeError: the model needs a classic session.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, not {engine!r}")
    if "model" in ENGINES[engine]:
        need_model(f"stream_test(engine={engine!r})", instead='engine="spark" works with any PySpark from 3.5 on')
        refuse_connect(f"stream_test(engine={engine!r})", "spark", spark, 'engine="spark" works over Connect, too')
    if unknown := [name for name in confs if "." not in name]:
        raise TypeError(f"stream_test() got an unexpected keyword argument {unknown[0]!r}")
    inputs = partial(Inputs, build, {name: parsed(spark, schema) for name, schema in (schemas or {}).items()})
    texts = {key: str(value) for key, value in confs.items()}
    now_ms = round(pd.Timestamp(now, tz="UTC").timestamp() * 1000)
    make: Any = DrivenQuery
    if is_of_connect(spark):
        check_needs_no_clock(on_batch, now != NOW)
        make = ConnectQuery
    else:
        spark = sessions.of_spark(spark)
    make = partial(make, spark=spark, output_mode=output_mode, confs=texts, now_ms=now_ms)
    return StreamTest(
        spark, build, ENGINES[engine], inputs, make, zone=texts.get(ZONE) or str(spark.conf.get(ZONE)), on_batch=on_batch,
        shuffled=None if seed is None else random.Random(seed), directory=directory,
    )


class StreamTest(Actions):
    """A query under test; `stream_test` makes it."""

    def __enter__(self) -> StreamTest:
        super().__enter__()
        self._late = dict.fromkeys(self._engines, 0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            if kind is None:
                self._check_no_error()
                if step := next((query.crash.step for query in self._queries if query.crash is not None), None):
                    raise AssertionError(f"the query should have been killed at {step}, but no batch has reached this step")
        finally:
            super().__exit__(kind, error, traceback)

    # -- what is expected -------------------------------------------------------------------------------------------

    def expect(self, rows: Any) -> None:  # (1)
        """These rows, in any order, were emitted since the last `expect`; in complete mode, they are the newest result.

        Args:
            rows: dicts with all columns, tuples, Rows, a DataFrame, or a table of text.
        """
        self._check_no_error()
        self._check_built()
        for query in self._queries:
            assert query.schema is not None
            if found := difference_in_rows(listed(rows), query.take(), query.schema, self._zone):
                self._fail(query, found)

    def expect_watermark(self, watermark: str | None) -> None:
        """The watermark of the next batch, in the session's time zone; None if there is none yet."""
        self._check_no_error()
        self._check_built()
        wanted = None if watermark is None else round(fitted(watermark, TimestampType(), self._zone).timestamp() * 1000)
        for query in self._queries:
            if (now := query.watermark_ms()) != wanted:
                self._fail(query, f"the watermark is {self._time(now)}, not {self._time(wanted)}")

    def expect_state(
        self, rows: int | None = None, *, key: Any = None, value: Any = None, operator: int | None = None,
        store: str | None = None,
    ) -> None:
        """What the state holds now.

        Args:
            rows: the number of its rows, according to the progress report.
            key: a key (a mapping, or the value of its first column) that must have a row.
            value: some columns of that row.
            operator: the number of the operator, if the query has several stateful operators.
            store: the store in which the key is looked up, if the operator has several stores.
        """
        self._check_no_error()
        self._check_built()
        for query in self._queries:
            if rows is not None and (held := state_rows(query, operator)) != rows:
                self._fail(query, f"the state has {plural(held, 'row')}, not {rows}")
            if key is not None and (found := state_found(query, key, value, operator or 0, store)):
                self._fail(query, found)

    def expect_late(self, rows: int) -> None:
        """This many rows were dropped since the last `expect_late`, because the watermark had passed them.

        They are counted as in Spark: all rows of a key that an aggregation drops in one batch and partition are one row.
        """
        self._check_no_error()
        self._check_built()
        for query in self._queries:
            dropped, before = late_rows(query), self._late[query.engine]
            self._late[query.engine] = dropped
            if dropped - before != rows:
                self._fail(query, f"{plural(dropped - before, 'row')} dropped as late, not {rows}")

    def expect_fate(self, row: Mapping[str, Any], words: str) -> None:
        """What became of a row: `words` are a part of its fate, as `trace.fate` says it.

        What was done so far is repeated on the model, with all rows recorded.

        Args:
            row: some of its columns. If several rows have them, the words need to be true of one.
        """
        self._check_no_error()
        self._check_built()
        answer = self.trace.fate(row)
        if not any(words in one.fate for one in answer.rows):
            self._fail(self._queries[-1], f"no row has a fate with the words {words!r}:\n{answer}")

    def expect_error(self, condition: str) -> None:
        """The query was refused, or has ended, with this condition or class of exception; then it may be restarted."""
        self._check_entered()
        for query in self._queries:
            error, query.error = query.error, None
            if error is None:
                self._fail(query, f"the query has not failed with {condition}")
            names = error_names(error)
            if not any(name == condition or name.startswith(f"{condition}.") for name in names):
                words = f"the query has failed with {' / '.join(names)}, not {condition}"
                cause = cause_of(str(error))
                self._fail(query, f"{words}: {cause.message if cause else error}")

    # -- what a test may look at ------------------------------------------------------------------------------------

    @property
    def progress(self) -> Mapping[str, Any]:
        """The report of the last batch (of the model, if it runs on both engines)."""
        return next((ran.progress for ran in reversed(self._queries[-1].batches) if ran.progress), {})

    @property
    def trace(self) -> Trace:
        """The trace of what was done so far, which is repeated on the model for it, with all rows recorded."""
        with TemporaryDirectory() as folder:
            return self.replay(Path(folder)).trace

    @property
    def batches(self) -> list[tuple[int, list[tuple[Any, ...]]]]:
        """(batch id, rows) of every batch that has run."""
        return [(ran.batch_id, list(ran.rows)) for ran in self._queries[-1].batches]

    def _time(self, ms: int | None) -> str:
        return "not there yet" if ms is None else str(pd.Timestamp(ms, unit="ms", tz=self._zone).tz_localize(None))

    def _check_no_error(self) -> None:  # (2)
        self._check_entered()
        for query in self._queries:
            if query.error is not None:
                error, query.error = query.error, None
                raise self._failure(query, f"the query has failed: {cause_of(str(error)) or error}") from error

    def _check_built(self) -> None:
        if any(query.schema is None for query in self._queries):
            raise RuntimeError("the query is not built yet: add rows first, or give the types of all inputs as schemas=")

    def _fail(self, query: DrivenQuery, words: str) -> NoReturn:
        raise self._failure(query, words)

    def _failure(self, query: DrivenQuery, words: str) -> AssertionError:
        return AssertionError(failed(query, words, self.replay))  # (3)
