"""Which line of a query belongs to which step. The queries are texts here, so that their lines can be counted."""

from __future__ import annotations

import pytest

from minispark_stream.lens.trace.query_lines import calls_of_a_query, lines_of

QUERY = """\
def sums(session, folder):
    rows = (
        session.readStream.schema("time timestamp, word string")
        .option("maxFilesPerTrigger", 1)
        .csv(folder)
    )
    named = ", ".join(["a", "b"])
    return (
        rows.where("word IS NOT NULL")
        .withWatermark(
            "time", "10 minutes")
        .groupBy(F.window("time", "5 minutes"), "word")
        .agg(F.count("*"))
        .groupBy("window")
        .count()
    )


query = (
    sums(mini, "in").writeStream.outputMode("append")
    .option("checkpointLocation", "cp")
    .trigger(availableNow=True)
    .start()
)"""


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("latestOffset", ["session.readStream.schema", '.option("maxFiles', ".csv("]), ("getBatch", ["session.readStream.schema", ".csv("]),
        ("constructNextBatch", ['.option("maxFiles']), ("updateWatermark", [".withWatermark("]),
        ("addBatch", ["rows.where(", "writeStream"]), ("walCommit", ['.option("checkpoint']), ("commitOffsets", ['.option("checkpoint']),
        ("trigger", [".trigger("]), ("startQuery", [".start("]), ("finishTrigger", []),
    ],
)
def test_a_step_belongs_to_the_lines_that_ask_for_it(step: str, words: list[str]) -> None:
    lines = QUERY.split("\n")
    assert [next(word for word in words if word in lines[n]) for n in lines_of(QUERY, step)] == words


def test_of_two_aggregations_in_a_chain_each_has_its_own_lines() -> None:
    lower, upper = (lines_of(QUERY, "stateOperator", "stateStoreSave", (number, 2)) for number in (0, 1))
    mode = [19]  # outputMode("append") says of all of them what they emit
    assert (lower, upper) == ([11, 12, *mode], [13, 14, *mode])
    assert lines_of(QUERY, "stateOperator", "stateStoreSave", (0, 3)) == [11, 12, 13, 14, *mode], "not known which is whose"


@pytest.mark.parametrize(
    ("method", "operator"),
    [("dropDuplicates()", "dedupe"), ('dropDuplicatesWithinWatermark(["k"])', "dedupeWithinWatermark"), ("limit(5)", "globalLimit"),
     ('join(other, "k")', "symmetricHashJoin"), ('groupBy(F.session_window("t", "5 s")).count()', "sessionWindowStateStoreSaveExec"),
     ('groupBy("k").applyInPandasWithState(f, a, b, "update", c)', "applyInPandasWithState"),
     ('groupBy("k").transformWithStateInPandas(p, s, "update", "none")', "transformWithStateInPySpark")],
)
def test_every_stateful_operator_has_a_line(method: str, operator: str) -> None:
    query = f"rows = session.readStream.json(folder)\nrows.{method}"
    assert lines_of(query, "stateOperator", operator) == [1]
    assert lines_of(query, "stateOperator", "another") == []


def test_each_side_of_a_join_has_its_aggregation_and_which_is_whose_is_not_guessed() -> None:
    query = 'a = x.groupBy("k").count()\nb = y.groupBy("k").count()\na.join(b, "k")'
    assert lines_of(query, "stateOperator", "stateStoreSave", (0, 2)) == [0, 1]


def test_a_reader_or_a_writer_may_have_a_name() -> None:
    query = (
        'reader = session.readStream.format("json").option("maxFilesPerTrigger", 1)\nrows = reader.load(folder)\n\n\n'
        'writer = rows.distinct().writeStream.outputMode("update")\nwriter = writer.option("checkpointLocation", "cp")\n'
        'query = writer.trigger(once=True).start()\nquery.stop()'
    )
    found = {step: lines_of(query, step) for step in ("getBatch", "latestOffset", "walCommit", "trigger", "startQuery")}
    assert found == {"getBatch": [0, 1], "latestOffset": [0, 1], "walCommit": [5], "trigger": [6], "startQuery": [6]}
    assert lines_of(query, "stateOperator", "dedupe") == [4]


@pytest.mark.parametrize("text", ["", "not python (", "x" * 100_000, "(" * 10_000, "\n\n\n", "\0", "def f(): pass"])
def test_any_other_text_has_no_lines(text: str) -> None:
    assert calls_of_a_query(text) == ()


def test_a_lambda_over_several_lines_is_read() -> None:
    assert lines_of("lambda session, folder: session.readStream.text(folder)\n    .distinct()", "stateOperator", "dedupe") == [1]


def test_a_chain_without_an_end_is_no_query() -> None:
    assert isinstance(calls_of_a_query("rows" + ".distinct()" * 3000), tuple)
