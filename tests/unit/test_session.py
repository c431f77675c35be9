"""What a session is made around, and what it imports."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any

import pytest
from pyspark.errors import PySparkTypeError

import minispark_stream
from minispark_stream.engine.sources.source_options import warn_of_misspelt
from minispark_stream.session import MiniSparkSession
from minispark_stream.testing import stream_test
from minispark_stream.tools.compare import live


def of_connect(name: str) -> Any:
    """As in pyspark.sql.connect, whose classes are no subclasses of the classic ones."""
    return type(name, (), {"__module__": "pyspark.sql.connect.streaming.query", "recentProgress": [], "name": "counts"})()


@pytest.mark.parametrize(("use", "what"), [
    (MiniSparkSession, "MiniSparkSession"),
    (lambda it: minispark_stream.side_by_side(it, lambda session: session, []), "side_by_side"),
    (lambda it: minispark_stream.what_if(it, lambda session: session, []), "what_if"),
    (lambda it: stream_test(it, lambda session, a: a), r"stream_test\(engine='model'\)"),
], ids=lambda one: one if isinstance(one, str) else "")
def test_a_session_of_spark_connect_is_refused(use, what):
    with pytest.raises(PySparkTypeError, match=f"classic SparkSession, got one of Spark Connect; {what} needs the JVM of the session"):
        use(of_connect("SparkSession"))


def test_a_query_of_spark_connect_can_be_watched(monkeypatch):
    monkeypatch.setattr("minispark_stream.lens.view.live_view.LiveView", lambda look, every_s: look)
    assert callable(live.live(of_connect("StreamingQuery")))
    with pytest.raises(TypeError, match="live takes the StreamingQuery that start"):
        live.live("counts")  # type: ignore[arg-type]


def test_what_is_no_session_is_refused():
    with pytest.raises(PySparkTypeError, match="`spark` should be a classic SparkSession, got str"):
        MiniSparkSession("spark")  # type: ignore[arg-type]


def test_everything_is_there_where_spark_itself_is_tested():
    """With SPARK_TESTING, PySpark lets a driver import no module of its workers."""
    program = (
        "import os, minispark_stream.session as _, minispark_stream.extras.python_data_source.source as source\n"
        "from pyspark.sql.types import StructType\n"
        "schema = StructType().add('a', 'integer')\n"
        "print([b.to_pylist() for b in source._to_arrow(iter([(1,), (2,)]), schema, None)], os.environ['SPARK_TESTING'])"
    )
    ran = subprocess.run([sys.executable, "-c", program], env={**os.environ, "SPARK_TESTING": "1"}, capture_output=True, text=True)
    assert ran.stdout == "[[{'a': 1}, {'a': 2}]] 1\n", ran.stderr


def test_a_session_brings_no_module_that_only_other_features_need():
    """What a first reader may skip is imported when it is asked for: extras, traces and pictures, tools, arrays for large state."""
    program = (
        "import sys, minispark_stream.session\n"
        "others = ('pandas', 'matplotlib', 'IPython', *(f'minispark_stream.{r}.' for r in ('extras', 'lens', 'tools', 'engine.state.large')))\n"
        "print([name for name in sys.modules if f'{name}.'.startswith(others)])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "[]\n", ran.stderr


def test_an_option_that_is_misspelt_is_warned_of():
    with pytest.warns(UserWarning, match=r"no source has an option maxfilepertrigger: is it maxFilesPerTrigger\?"):
        warn_of_misspelt({"maxfilepertrigger": "1"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_misspelt(["header", "maxfilespertrigger", "maxcolumns", "maxcharspercolumn", "multiline", "recursivefilelookup", "sep"])
