"""Run one query on real Structured Streaming and on the model, with the same input, and compare.

    def word_count(session, input_dir):
        lines = session.readStream.schema("value string").format("text").load(input_dir)
        return lines.select(F.explode(F.split("value", " ")).alias("word")).groupBy("word").count()

    side_by_side(spark, word_count, feed=[["a b a"], ["b c"]], output_mode="update")

Each engine begins with an empty input folder and an empty checkpoint, and receives the steps of `feed` one after the other
(runner.py). Spark runs first, and then the model, so that neither slows the other down.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tqdm.auto import tqdm

from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.spark_versions import refuse_connect
from minispark_stream.session import MiniSparkSession
from minispark_stream.tools.compare.comparison import Comparison
from minispark_stream.tools.compare.engine_run import EngineRun
from minispark_stream.tools.compare.mistakes import (
    add_hints,
    check_build,
    check_confs,
    check_feed,
    check_relay,
    check_trigger,
    knows_camel_case,
    with_an_end,
)
from minispark_stream.tools.compare.prepared import Step, confs_set
from minispark_stream.tools.compare.runner import COLLECT, Build, Runner


@knows_camel_case
def side_by_side(
    spark: SparkSession,
    build: Build,
    feed: Sequence[Step],
    *,
    output_mode: str = "append",
    trigger: Mapping[str, Any] | None = None,
    confs: Mapping[str, str] | None = None,
    restart_after: Collection[int] | Mapping[int, Callable[[str], object]] = (),
    relay: Sequence[str] = ("model",),
    input_dir: str | None = None,
    directory: str | None = None,
    collect: Callable[[DataFrame], Iterable[Any]] = COLLECT,
    trace: str = "rows",
    progress: bool = True,
) -> Comparison:
    """Run a query on both engines.

    Args:
        spark: the session that both engines use, PySpark's or the model's.
        build: `build(session)` or `build(session, input_dir)`; returns the streaming DataFrame.
        feed: the steps of the input. A step is a list of text lines (a new file in the input folder), a mapping from a
            subfolder to lines (for several inputs), or a function that is called with the folder. Steps run once per engine.
        output_mode: "append", "update" or "complete".
        trigger: the arguments of `DataStreamWriter.trigger`; with `once` or `availableNow` each step is a run of its own.
        confs: SQL confs to set while the queries run.
        restart_after: steps (from 0) after which the query is stopped and restarted; a mapping also gives a function that
            is called with the checkpoint's path in between, to do damage.
        relay: the engines that run the query the second time. ("model", "spark") take turns on one checkpoint: after each
            restart the other one continues, and the result must be the same as if Structured Streaming had run everything.
        input_dir: the input folder. By default `input` below `directory`, which is emptied before each engine runs; in a folder
            of your own, only the files of steps that are lines are removed.
        directory: where checkpoints go; a temporary folder by default, which is deleted.
        collect: what the sink does with a batch to get the rows that are compared.
        trace: what the model records: "steps", or "rows" with row previews.
        progress: show a progress bar.

    Returns:
        a Comparison; its `differences` are empty when both engines agree.

    Raises:
        FileExistsError: `directory` has a folder `input` with files that no comparison has put there.
        TypeError: an argument has the wrong type, or the function does not return a query of the session that it receives.
        ValueError: Spark does not know a conf, an engine does not exist, or timers in processing time make batches for ever.
        AnalysisException: Spark refuses the query; the advice of the model is below the error.
    """
    refuse_connect("side_by_side", "spark", spark)
    check_trigger(trigger)
    check_feed(feed)
    check_build(build)
    if "once" not in (trigger or {}):
        build = with_an_end(build)
    check_relay(relay)
    check_confs(spark, confs or {})
    base = directory or tempfile.mkdtemp(prefix="side_by_side-")
    inputs = input_dir or os.path.join(base, "input")
    if input_dir is None:
        _check_may_be_emptied(inputs, os.path.join(base, "checkpoint-spark"))
    actions = restart_after if isinstance(restart_after, Mapping) else dict.fromkeys(restart_after)
    runs: dict[str, EngineRun] = {}
    spark = sessions.of_spark(spark)
    wanted = dict(confs or {})
    try:
        mini = MiniSparkSession(spark, trace=trace)
        engines: dict[str, list[Any]] = {"spark": [spark], "model": [spark if name == "spark" else mini for name in relay]}
        with confs_set(spark, wanted), tqdm(total=2 * len(feed), unit="step", disable=not progress, leave=False) as bar:
            for engine, in_turn in engines.items():
                bar.set_description(engine)
                checkpoint = os.path.join(base, f"checkpoint-{engine}")
                if input_dir is None:
                    shutil.rmtree(inputs, ignore_errors=True)
                runner = Runner(in_turn, build, inputs, checkpoint, output_mode, trigger, wanted, collect)
                runs[engine] = runner.run(feed, actions, bar.update)
                columns, ordered = runner.columns, runner.ordered
    except PySparkException as error:  # refused; Spark goes first, and the model has hints
        on_model = Runner([mini], build, inputs, os.path.join(base, "checkpoint-model"), output_mode, trigger, wanted, collect)
        add_hints(error, lambda: on_model.run([[]], {}, lambda: None))
        raise
    finally:
        if directory is None:
            shutil.rmtree(base, ignore_errors=True)
    return Comparison(runs["spark"], runs["model"], columns, ordered, in_words(build), trace)


def in_words(build: Build) -> str:
    """The name of the function that builds the query, in words: "Word count" for `word_count`; nothing for a lambda."""
    name = getattr(build, "__name__", "<lambda>")
    return "" if name == "<lambda>" else name.strip("_").replace("_", " ").capitalize()


def _check_may_be_emptied(inputs: str, own_checkpoint: str) -> None:
    """Raises FileExistsError, unless the input folder is empty, or is beside the checkpoint of an earlier comparison."""
    if os.path.exists(inputs) and os.listdir(inputs) and not os.path.exists(own_checkpoint):
        raise FileExistsError(
            f"{inputs} is not empty, and side_by_side would empty it: give another directory=, or input_dir= for your own files"
        )
