"""What `side_by_side` refuses before it starts an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minispark_stream import side_by_side
from minispark_stream.tools.compare.mistakes import check_built


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
    for feed in (["to be", "or not"], [{"in": "to be"}], "to be"):
        with pytest.raises(TypeError, match=r"a step of the feed is a list of lines, \['to be'\], and not the text 'to be'"):
            anything(None, lambda session: session, feed)
    with pytest.raises(TypeError, match="takes a function of a session"):
        anything(None, "a DataFrame", [["a"]])
    with pytest.raises(TypeError, match="must return the streaming DataFrame that it builds, and it returned None"):
        check_built(None, None)
