"""What `side_by_side` refuses before it starts an engine."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException

from minispark_stream import side_by_side, what_if
from minispark_stream.tools.compare.mistakes import add_hints, check_built, check_confs, hint_at_inputs
from minispark_stream.tools.compare.side_by_side import in_words


def test_a_trigger_that_is_no_mapping_is_refused_with_an_example() -> None:
    spark: Any = None
    wrong: Any = "availableNow"
    with pytest.raises(TypeError, match=r"such as \{'availableNow': True\}, not 'availableNow'"):
        side_by_side(spark, lambda session: session, [["a"]], trigger=wrong)


def test_an_argument_in_camel_case_is_refused_with_its_name() -> None:
    anything: Any = side_by_side
    with pytest.raises(TypeError, match="unexpected keyword argument 'outputMode'") as refused:
        anything(None, lambda session: session, [["a"]], outputMode="complete")
    assert refused.value.__notes__ == ["Hint: the argument is called output_mode."]
    with pytest.raises(TypeError, match="unexpected keyword argument 'speed'"):
        anything(None, lambda session: session, [["a"]], speed=1)


def test_files_of_the_user_are_not_deleted(tmp_path: Path) -> None:
    spark: Any = None
    (tmp_path / "input").mkdir()
    (tmp_path / "input/thesis.txt").touch()
    with pytest.raises(FileExistsError, match="input is not empty, and side_by_side would empty it"):
        side_by_side(spark, lambda session: session, [["a"]], directory=str(tmp_path))
    assert (tmp_path / "input/thesis.txt").exists()


def test_usual_mistakes_are_told_before_an_engine_starts() -> None:
    anything: Any = side_by_side
    turned: Any = what_if
    spark: Any = None
    for feed in (["to be", "or not"], [{"in": "to be"}], "to be"):
        with pytest.raises(TypeError, match=r"a step of the feed is a list of lines, \['to be'\], and not the text 'to be'"):
            anything(None, lambda session: session, feed)
    for function in ("a DataFrame", None):
        for tool in (anything, turned):
            with pytest.raises(TypeError, match="the query must be built by a function of a session"):
                tool(None, function, [["a"]])
    with pytest.raises(TypeError, match="a step of the feed is a list of lines"):
        turned(spark, lambda session: session, ["to be"])
    with pytest.raises(TypeError, match="must return the streaming DataFrame that it builds, but it returned None"):
        check_built(None, None)


def test_what_is_misspelt_is_told_with_what_may_have_been_meant() -> None:
    conf = SimpleNamespace(isModifiable=lambda name: name == "spark.sql.shuffle.partitions")
    known = [SimpleNamespace(key="spark.sql.shuffle.partitions")]
    spark: Any = SimpleNamespace(conf=conf, sql=lambda _: SimpleNamespace(collect=lambda: known))
    check_confs(spark, {"spark.sql.shuffle.partitions": "2", "spark.executor.cores": "1", "spark.sql.catalog.mine": "Mine"})
    with pytest.raises(ValueError, match=r"Spark has no conf spark.sql.shuffle.partition that .*: is it spark.sql.shuffle.partitions\?"):
        check_confs(spark, {"spark.sql.shuffle.partition": "2"})
    with pytest.raises(ValueError, match="while it runs$"):
        check_confs(spark, {"spark.sql.speed": "2"})

    turned: Any = what_if

    def build(session: Any, folder: str, delay: str = "1 minute") -> Any: ...

    for knob, told in (("delays", ": is it delay?"), ("outputMode", ": is it output_mode?"), ("speed", "")):
        with pytest.raises(TypeError, match=f"{knob} is not a parameter of the function{re.escape(told)}$"):
            turned(spark, build, [["a"]], **{knob: ["1"]})
    for relay, told in ((("models",), "relay takes model and spark, not 'models'"), (("spark",), "compares Spark with itself")):
        with pytest.raises(ValueError, match=told):
            side_by_side(spark, build, [["a"]], relay=relay)


def test_what_the_model_advises_stands_below_the_error_of_spark() -> None:
    def refuse() -> None:
        own = AnalysisException("no")
        own.add_note("Hint: put withWatermark before groupBy.")
        raise own

    error = PySparkException("no")
    for _ in range(2):
        add_hints(error, refuse)
    add_hints(error, lambda: None)
    assert error.__notes__ == ["Hint: put withWatermark before groupBy."]


def test_a_folder_that_is_not_there_may_want_a_feed_for_several_inputs() -> None:
    error = AnalysisException("[PATH_NOT_FOUND] no", errorClass="PATH_NOT_FOUND", messageParameters={"path": "left"})
    hint_at_inputs(error)
    assert error.__notes__ == ['Hint: a query with several inputs takes steps that name them: {"left": ["a"], "right": ["b"]}.']


def test_a_comparison_calls_a_query_by_the_name_of_its_function() -> None:
    def flights_per_carrier(session: Any, folder: str) -> Any: ...

    assert in_words(flights_per_carrier) == "Flights per carrier"
    assert in_words(lambda session, folder: flights_per_carrier(session, folder)) == ""
