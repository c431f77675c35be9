"""What every notebook of the course begins with: a small local Spark, and the checks of the exercises.

    from course import F, check, hint, side_by_side, spark

`spark` is started when this module is imported: two cores, two shuffle partitions, times in UTC. Its web UI is on: show
`spark` in a cell, and follow the link.

    check("00-2", 8)    -> 00-2: right. ...
    hint("06-1")        -> 06-1: The late filter looks at the end of a window, not at the row.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import exercises
import score
from exercises import judged
from IPython.core.getipython import get_ipython
from IPython.display import HTML, display
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession, side_by_side
from minispark_stream.engine.jvm import plans
from minispark_stream.engine.plan.streaming_relation import SourceKeys, over_rdds
from minispark_stream.engine.runtime.template import Template, compile_template

__all__ = ["F", "MiniSparkSession", "at_once", "check", "compiled", "hint", "side_by_side", "spark"]

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers run it, too, if its environment is not activated
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.sql.shuffle.partitions", 2)
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")  # a notebook is over before the JVM has optimised much
    .config("spark.executorEnv.PYTHONWARNINGS", "ignore::FutureWarning")  # of pandas, in PySpark's own workers
    .getOrCreate()
)
# Some queries fail on purpose, and both engines would log each failure at length.
spark.sparkContext.setLogLevel("OFF")
logging.getLogger("minispark_stream").setLevel(logging.CRITICAL)

# A long line of an output goes on in the next one after a word, and not within it, as JupyterLab has it otherwise.
if get_ipython() is not None:
    display(HTML("<style>.jp-OutputArea-output pre { word-break: normal; overflow-wrap: anywhere; }</style>"))


def compiled(df: DataFrame) -> Template:
    """What the first batch of a query would make of its plan."""
    analyzed = plans.analyzed(df)
    sources = SourceKeys.of_plan(spark, analyzed)
    return compile_template(spark, over_rdds(spark, analyzed), sources, timestamp_ms=0, output_mode="append")


def check(exercise: str, answer: Any = ...) -> None:
    """Say whether an answer to an exercise is right, and why; of a wrong one its type, or the case in which it fails.

    `python score.py` beside the notebooks counts the answers.

    Args:
        exercise: its number, "06-1" for the first one of notebook 06.
        answer: what the exercise asks for; `...` is no answer yet.
    """
    verdict = judged(exercise, answer)
    with suppress(OSError):  # a folder in which nobody may write keeps no score
        score.record(exercise, verdict, score.ANSWERS)
    print(verdict)


def hint(exercise: str) -> None:
    """Print where to look."""
    print(f"{exercise}: {exercises.exercise(exercise).hint}")


def at_once(files: Sequence[Sequence[str]]) -> Callable[[str], None]:
    """A step of a feed: all these files are there together, and the file source reads them in this order.

    Args:
        files: of each file the lines.
    """

    def write(folder: str) -> None:
        for i, lines in enumerate(files):
            path = Path(folder, f"{i}.json")
            path.write_text("\n".join(lines))
            os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))

    return write
