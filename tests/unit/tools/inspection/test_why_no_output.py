"""Why nothing came out: of hand-made progress reports, and of a checkpoint that was written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StructType

import tests.unit.hand_made as hand_made
from minispark_stream import explain_output
from minispark_stream.tools.inspection import why_no_output
from minispark_stream.tools.inspection.asked import Asked, joins, shifts
from minispark_stream.tools.inspection.findings import ahead_of_the_clock, future
from minispark_stream.tools.inspection.held import Held
from minispark_stream.tools.inspection.in_and_out import FOREACH_BATCH
from minispark_stream.tools.inspection.inputs import named_inputs, planned_inputs, timers
from minispark_stream.tools.inspection.plan_text import folders, limit, removing
from minispark_stream.tools.inspection.unread_files import unread
from minispark_stream.tools.inspection.waits_for import POLICY
from minispark_stream.tools.inspection.why_no_output import explain
from tests.unit.hand_made import windowed_count


def report(batch_id: int, rows_in: int = 0, rows_out: int = 0, **more: Any) -> dict[str, Any]:
    """A progress report of a query with two sources, of which only the first delivers rows."""
    sources = [
        {"description": "FileStreamSource[file:/data/left]", "startOffset": 4, "endOffset": 4, "latestOffset": 4, "numInputRows": rows_in},
        {"description": "FileStreamSource[file:/data/right]", "startOffset": 2, "endOffset": 2, "latestOffset": 2, "numInputRows": 0},
    ]
    return {
        "batchId": batch_id, "numInputRows": rows_in, "durationMs": {"addBatch": 1}, "sink": {"numOutputRows": rows_out},
        "eventTime": {"watermark": "2024-01-01T12:04:00.000Z"}, "sources": sources, "stateOperators": [], **more,
    }


def test_a_checkpoint_says_what_it_holds_and_what_would_have_to_arrive(tmp_path: Path, monkeypatch: Any) -> None:
    """Version 3 holds the window [12:05, 12:10), the watermark is 12:05."""
    delayed = StructType().add("window", hand_made.WINDOW, metadata={"spark.watermarkDelayMs": 600_000}).add("k", "string")
    monkeypatch.setattr(hand_made, "KEY", delayed)
    answer = explain_output(windowed_count(tmp_path))
    assert answer.lines == (
        ("restart", "batch 3 next, a new one: batch 2 is in both logs, so it is done. It begins where offsets/2 ends"),
        ("batches", "3 batches committed, the last is 2"),
        ("held", "operator 0 (stateStoreSave): 1 key, the first to leave is window=[2024-01-01 12:05, 12:10) k=a"),
        ("watermark", "2024-01-01 12:05:00"),
        ("waits for", "the watermark 2024-01-01 12:10:00: window=[2024-01-01 12:05, 12:10) k=a ends then"),
        ("would help", "a row with an event time of 2024-01-01 12:20:00 or later: 12:10:00 and the delay of 10 min. "
                       "The batch after it emits in append mode, if nothing above the operator removes it"),
        ("not known", "how many rows came in and went out, the plan, and the output mode: a checkpoint does not have them; a query has"),
    )
    assert "waits for" in str(answer) and "<td><b>held</b></td>" in answer._repr_html_()


def test_state_without_an_event_time_waits_for_no_watermark(tmp_path: Path) -> None:
    held = dict(explain_output(windowed_count(tmp_path)).lines)["held"]
    assert held == "operator 0 (stateStoreSave): 1 key; it has no event time, so no watermark evicts it"


def test_the_input_that_holds_the_watermark_back_is_named() -> None:
    inputs: list[dict[str, Any]] = [{"node": "ta", "watermark": 1_704_110_640_000}, {"node": "tb", "watermark": None}]
    measured = explain(Asked(None, [report(3, 5)], "append", inputs))
    assert dict(measured.lines)["held back by"] == (
        "the input with the event time tb: it has seen no row since the query started, and the query's watermark is the smallest of all"
    )
    assert "held back by" not in dict(explain(Asked(None, [report(3, 5)], "append", [inputs[0], inputs[0]])).lines)
    null = explain(Asked(None, [report(3, 5)], "append", [inputs[0], {"node": "tb", "watermark": -600_000}]))
    assert "it has measured no event time so far (a null is measured as" in dict(null.lines)["held back by"]


def waiting(monkeypatch: Any, held: Held, **more: Any) -> dict[str, str]:
    """The answer for a checkpoint that holds this."""
    monkeypatch.setattr(why_no_output, "held_by", lambda _: [held])
    empty: Any = SimpleNamespace(batches=[], operators=[held.operator], sources=[])
    return dict(explain(Asked(empty, [report(3, 5)], "append", **more)).lines)


NOON = 1_704_110_400_000
INPUTS: list[dict[str, Any]] = [
    {"node": "ta", "watermark": NOON - 60_000, "delayMs": 600_000}, {"node": "tb", "watermark": None, "delayMs": 300_000},
]


@pytest.mark.parametrize(("policy", "is_held_back"), [("MIN", True), ("MAX", False)])
def test_the_policy_is_read_as_the_engine_reads_it(policy: str, is_held_back: bool) -> None:
    batch = SimpleNamespace(conf={POLICY: policy}, batch_id=3, committed=True, next_watermark_ms=NOON, timestamp_ms=NOON)
    known: Any = SimpleNamespace(batches=[batch], operators=[], sources=[])
    assert ("held back by" in dict(explain(Asked(known, [report(3, 5)], "append", INPUTS)).lines)) == is_held_back


def decided(watermark_ms: int, *decides: dict[str, Any]) -> list[Any]:
    """The events of a batch, of which operator after operator tells what it decides."""
    planned = SimpleNamespace(step="queryPlanning", inputs={"watermarkEviction": watermark_ms})
    return [planned, *(
        SimpleNamespace(step="stateOperator", inputs={"operatorId": number, "decides": one}) for number, one in enumerate(decides)
    )]


def test_an_outer_join_that_waits_says_which_watermark_the_range_of_its_condition_asks_for(monkeypatch: Any) -> None:
    """ta waits until tb may not come any more: BETWEEN ta AND ta + INTERVAL 5 MINUTES, so 5 minutes and 1 ms after it."""
    join: Any = SimpleNamespace(operator_id=0, name="symmetricHashJoin")
    trace = decided(0, {"join_type": "LeftOuter", "leaves_ms": [-300_001, None]})
    left = Held(join, 2, 600_000, NOON, "ta=12:00 ka=y", 0)
    found = waiting(monkeypatch, left, inputs=INPUTS, shifts=shifts(trace), joins=joins(trace))
    assert found["held"] == "operator 0 (symmetricHashJoin, left side): 2 rows, the first to leave is ta=12:00 ka=y"
    assert found["that is"].startswith("when the watermark of the query reaches 2024-01-01 12:05:00.001: the time range of the condition")
    assert found["would help"] == (
        "rows with an event time of 2024-01-01 12:15:00.001 or later on the input with the event time ta and of 2024-01-01 12:10:00.001 or later on the "
        "input with the event time tb: 12:05:00.001 and its delay. The batch after them emits, if nothing above the operator removes it"
    )
    assert "would help" not in waiting(monkeypatch, left, inputs=INPUTS)  # without a trace the shift is not known


def test_only_the_input_that_is_behind_has_to_deliver(monkeypatch: Any) -> None:
    window: Any = SimpleNamespace(operator_id=0, name="stateStoreSave")
    inputs = [{**INPUTS[0], "watermark": NOON + 420_000}, INPUTS[1]]
    found = waiting(monkeypatch, Held(window, 1, 600_000, NOON + 360_000, "window"), inputs=inputs)
    assert found["would help"].startswith("rows with an event time of 2024-01-01 12:11:00 or later on the input with the event time tb: 12:06:00 and its")


def test_where_every_row_was_too_late_it_is_said_which_would_not_be(tmp_path: Path) -> None:
    operators = [{"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": 3}]
    found = dict(explain(Asked(None, [report(3, 5, stateOperators=operators)], "append")).lines)
    assert found["watermark"] == "2024-01-01 12:04:00"
    assert found["would help"].startswith("rows that are not late: those of a window that ends after 2024-01-01 12:04:00")


def test_rows_that_were_dropped_are_counted_with_their_batches() -> None:
    operators = [{"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": 2}]
    reports = [report(1, 3, stateOperators=operators), report(2, 4), report(3, 1, stateOperators=operators)]
    found = dict(explain(Asked(None, reports)).lines)
    assert found["dropped"] == (
        "4 rows too late for stateStoreSave, in batch 1, 3: an aggregation counts the rows of a key in a batch as one"
    )
    assert found["batches"] == "batches 1 to 3: 8 rows in, rows out: 0"


def test_what_is_there_and_has_not_been_read_is_said() -> None:
    behind = report(1, 1)
    behind["sources"][0]["latestOffset"] = 9
    assert dict(explain(Asked(None, [behind])).lines)["not read yet"] == "FileStreamSource[left]: read up to 4, but there is data up to 9"
    assert dict(explain(Asked(None, [report(1)])).lines)["no input"] == "no row has arrived: no source had anything new"


def test_a_query_that_failed_says_so_first() -> None:
    assert explain(Asked(None, error="[DIVIDE_BY_ZERO] Division by zero.")).lines[0] == ("error", "the query ended: [DIVIDE_BY_ZERO] Division by zero.")


def test_inputs_of_one_column_are_known_by_their_sources(monkeypatch: Any) -> None:
    """A union with delays of 2 and 10 minutes: 12:27 is enough for the first input, and the second one needs 12:35."""
    window: Any = SimpleNamespace(operator_id=0, name="stateStoreSave")
    sides = [{"watermark": "ts", "delayMs": ms, "below": [{"source": f"{n}: FileStreamSource[file:/data/{name}]"}]}
             for n, (name, ms) in enumerate((("fast", 120_000), ("slow", 600_000)))]
    measured = [{"node": "ts", "delayMs": one["delayMs"], "watermark": NOON} for one in sides]
    inputs = list(named_inputs(measured, {"operatorId": 0, "below": [{"below": sides}]}))
    held = Held(window, 1, 120_000, NOON + 25 * 60_000, "window")
    assert waiting(monkeypatch, held, inputs=inputs)["would help"].startswith(
        "rows with an event time of 2024-01-01 12:27:00 or later on the input FileStreamSource[fast] and of 2024-01-01 12:35:00 or later "
        "on the input FileStreamSource[slow]: 12:25:00 and its delay"
    )
    told_by_reports = waiting(monkeypatch, held)["would help"]  # as real Spark's are: which delay is whose is not known
    assert told_by_reports.startswith("a row with an event time of 2024-01-01 12:25:00 and the delay of its withWatermark, or later, on each input")


PLAN = """WriteToMicroBatchDataSource MemorySink, 1b0a, Append, 0
+- Join LeftOuter, ((ka#1 = kb#3) AND (tb#2 >= ta#0))
   :- EventTimeWatermark 5f0e2c3a-1, ta#0: timestamp, 10 minutes
   :  +- StreamingExecutionRelation FileStreamSource[file:/data/a], [ta#0, ka#1], 0
   +- EventTimeWatermark 5f0e2c3a-2, tb#2: timestamp, 1 hours 30 minutes
      +- Union false, false
         :- StreamingRelation FileSource[/data/b], [tb#2, kb#3]
         +- StreamingRelation FileSource[/data/c], [tb#4, kb#5]"""


def test_a_plan_as_spark_prints_it_has_the_inputs_the_joins_and_the_timers() -> None:
    assert list(planned_inputs(PLAN)) == [
        {"node": "ta", "delayMs": 600_000, "sources": ["FileStreamSource[file:/data/a]"]},
        {"node": "tb", "delayMs": 5_400_000, "sources": ["FileStreamSource[/data/b]", "FileStreamSource[/data/c]"]},
    ]
    with_timers = "FlatMapGroupsInPandasWithState f(t#1), [k#2], [n#3], StructType(), Append, EventTimeTimeout"
    assert (timers(PLAN), timers(with_timers), timers("ProcessingTimeTimeout")) == (None, "event time", "processing time")


def test_a_row_of_an_inner_join_never_goes_out_alone(monkeypatch: Any) -> None:
    """Nor does one of the right side of a left join, even when its time comes first."""
    join: Any = SimpleNamespace(operator_id=0, name="symmetricHashJoin")
    left, right = (Held(join, 1, 600_000, NOON + n * 60_000, f"row {n}", side) for n, side in ((5, 0), (1, 1)))
    for more in ({"plan": PLAN.replace("LeftOuter", "Inner")}, {"joins": {0: "LeftSemi"}, "shifts": {(0, 0): 0}}):
        found = waiting(monkeypatch, left, inputs=INPUTS, **more)
        assert found["waits for"].startswith("a partner that fits the condition: a row without a partner is never") and "would help" not in found
    trace = decided(NOON, {"join_type": "LeftOuter", "leaves_ms": [NOON - 60_000, NOON]})
    known: dict[str, Any] = {"inputs": INPUTS, "shifts": shifts(trace), "joins": joins(trace)}
    assert "would help" in waiting(monkeypatch, left, **known) and "would help" not in waiting(monkeypatch, right, **known)


def test_where_an_operator_stands_above_another_its_own_watermark_counts(monkeypatch: Any) -> None:
    """A window above a join: its watermark is six minutes behind that of the query."""
    window: Any = SimpleNamespace(operator_id=0, name="stateStoreSave")
    trace = decided(NOON, {"leaves_ms": [NOON - 360_000]}, {"join_type": "LeftOuter", "leaves_ms": [NOON - 360_001, NOON]})
    held = Held(window, 1, 600_000, NOON + 300_000, "window")
    found = waiting(monkeypatch, held, inputs=[{**INPUTS[0], "sources": ["a"]}], shifts=shifts(trace), joins=joins(trace))
    assert found["would help"].startswith(
        "a row with an event time of 2024-01-01 12:21:00 or later on the input a: 12:11:00 and the delay of 10 min"
    )


def test_a_timer_is_waited_for_by_its_own_clock(monkeypatch: Any) -> None:
    group: Any = SimpleNamespace(operator_id=0, name="applyInPandasWithState")
    timer = Held(group, 1, None, NOON + 300_000, "user=ann", is_timer=True)
    one = [{"node": "t", "delayMs": 60_000, "watermark": NOON, "sources": ["a"]}]
    found = waiting(monkeypatch, timer, inputs=one, plan="EventTimeTimeout")
    assert found["held"] == "operator 0 (applyInPandasWithState): 1 key, the first timer is that of user=ann"
    assert found["waits for"] == "new rows, or the timer of user=ann, at 2024-01-01 12:05:00 of the event time"
    assert found["would help"].startswith("a row with an event time of 2024-01-01 12:06:00.001 or later")
    found = waiting(monkeypatch, timer, inputs=one, plan="ProcessingTimeTimeout")
    assert found["waits for"].endswith("of the processing time") and "would help" not in found
    assert "a checkpoint does not say which" in waiting(monkeypatch, timer)["waits for"]


def test_what_is_neither_a_query_nor_a_checkpoint_is_refused(tmp_path: Path) -> None:
    anything: Any = explain_output
    for wrong in (object(), None, ["checkpoint"]):  # a DataFrame has no reports, too
        with pytest.raises(TypeError, match="explain_output takes a query, as start\\(\\) returns it, progress reports, or the path of a checkpoint, not"):
            anything(wrong)
    with pytest.raises(ValueError, match="checkpoint"):
        explain_output(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        explain_output(tmp_path / "nowhere")


LIMITED = """~GlobalLimit 7
+- ~LocalLimit 7
   +- ~Filter (count#213L > cast(10 as bigint))
      +- ~Aggregate [window#217-T600000ms], [window#217-T600000ms, count(1) AS count#213L]
         +- ~Filter isnotnull(t#210-T600000ms)
            +- ~Join Inner, (k#211 = k#9)
               :- ~EventTimeWatermark f81ce710-5b77-4872-a0ed-5c011505ff29, t#210: timestamp, 10 minutes
               :  +- StreamingRelation FileSource[/data/[x]], [t#210, k#211], name=<Unassigned>
               +- Filter (k#9 = a)
                  +- LogicalRDD [k#9], false"""


def test_a_plan_says_what_may_remove_a_row_below_the_state_and_above_it() -> None:
    assert removing(LIMITED.split("\n", 2)[2]) == (["Filter (count > cast(10 as bigint))"], ["Filter isnotnull(t)", "Join Inner, (k = k)"])
    both_stream = "~Filter (b#1 > 0)\n+- ~Join Inner, (a#1 = a#2)\n   :- ~Filter (a#1 > 0)\n   :  +- StreamingRelation r, [a#1]\n   +- ~Project [a#2]\n      +- x"
    assert removing(both_stream) == (["Filter (b > 0)"], ["Filter (a > 0)"])
    assert removing("~Filter (k#1 = a)\n+- ~Filter true\n   +- StreamingRelation rate, [k#1]") == ([], ["Filter (k = a)"])
    assert (limit(LIMITED), limit("~Project"), folders(LIMITED), folders("FileSource[/a/[b]]")) == (7, None, ["/data/[x]"], ["/a/[b]"])


def test_a_filter_above_the_state_is_not_passed_over(monkeypatch: Any) -> None:
    window: Any = SimpleNamespace(operator_id=0, name="stateStoreSave")
    held = Held(window, 1, 600_000, NOON + 360_000, "window")
    without_limit = LIMITED.split("\n", 2)[2]
    found = waiting(monkeypatch, held, plan=without_limit, inputs=[{"node": "t", "watermark": NOON, "delayMs": 600_000}])
    assert found["would help"].endswith("The batch after it emits, but only what passes Filter (count > cast(10 as bigint))")
    assert found["above"] == "what leaves the state comes out only if it passes Filter (count > cast(10 as bigint))"


@pytest.mark.parametrize(("passed", "plan", "said"), [
    (7, LIMITED, "nothing: the limit of 7 is used up"), (5, LIMITED, "new rows: 2 of the limit of 7 may still come out"),
    (7, "", "nothing, if the limit is 7: then no row comes out any more. A checkpoint does not say what the limit is"),
])
def test_a_limit_counts_what_it_lets_through(monkeypatch: Any, passed: int, plan: str, said: str) -> None:
    operator: Any = SimpleNamespace(operator_id=0, name="globalLimit")
    found = waiting(monkeypatch, Held(operator, 1, None, None, "", passed=passed), plan=plan)
    assert found["held"] == f"operator 0 (globalLimit): {passed} rows let through so far"
    assert found["waits for"].startswith(said)


def test_rows_that_a_reader_leaves_out_have_not_failed_to_arrive() -> None:
    read = report(0)
    read["sources"][0]["startOffset"] = None
    read["sink"]["description"] = FOREACH_BATCH
    found = dict(explain(Asked(None, [read], plan="~Filter (k#1 = a)\n+- StreamingRelation r, [k#1]")).lines)
    assert found["no input"] == (
        "something was read, and no row of it was counted: what was read has no rows, or the reader has left out the rows that do not pass "
        "Filter (k = a), which Spark does not count, or the function of foreachBatch has not read its batch"
    )
    read["numInputRows"] = 15
    assert "15 rows in (each counts again whenever the function of foreachBatch reads its batch)" in str(explain(Asked(None, [read])))


def test_a_watermark_later_than_the_clock_is_said_to_be_wrong() -> None:
    in_the_future = {"watermark": "2926-01-01T12:11:00.000Z"}
    inputs = [{"node": "t", "delayMs": 0}]
    found = dict(explain(Asked(None, [report(1, 3, eventTime=in_the_future)], "append", inputs)).lines)
    assert found["too far"].startswith("the watermark, 2926-01-01 12:11:00, is later than the clock, 20")
    assert "would help" not in found
    assert ahead_of_the_clock(NOON) is None and ahead_of_the_clock(None) is None
    assert ahead_of_the_clock(99 * NOON, 99 * NOON) is None  # a test's own clock may be in the future, too
    batch: Any = SimpleNamespace(batch_id=3, next_watermark_ms=99 * NOON, watermark_ms=0, timestamp_ms=NOON)
    assert [finding.level for finding in future([batch])] == ["warning"] and not list(future([]))


@pytest.mark.parametrize(("times", "said"), [
    ({"max": "1970-01-01T00:00:00.000Z"}, "t is null in every row that was measured"), ({}, "no row has reached withWatermark"),
    ({"max": "2024-01-01T12:00:00.000Z"}, None),
])
def test_event_times_that_are_null_are_named(times: dict[str, str], said: str | None) -> None:
    none_yet = {"watermark": "1970-01-01T00:00:00.000Z", **times}
    found = dict(explain(Asked(None, [report(1, 3, eventTime=none_yet)], "append", [{"node": "t", "delayMs": 0}])).lines)
    assert said is None and "no event time" not in found or found["no event time"].startswith(str(said))


def test_state_whose_checkpoint_is_gone_was_there_all_the_same() -> None:
    operators = [{"operatorName": "stateStoreSave", "numRowsTotal": 4}]
    found = dict(explain(Asked(None, [report(1, 3, stateOperators=operators)], is_active=False)).lines)
    assert found["held"].endswith("the last report says 4 rows in stateStoreSave") and "has ended" in found["query"]
    assert dict(explain(Asked(None, is_active=True)).lines)["held"] == "nothing yet: no batch has ended"


def test_what_is_measured_is_known_by_the_id_in_the_plan() -> None:
    ids = {"f81ce710-5b77-4872-a0ed-5c011505ff29": NOON, "another": None}
    (own,) = planned_inputs(LIMITED, ids)
    assert own == {"node": "t", "delayMs": 600_000, "sources": ["FileStreamSource[/data/[x]]"], "watermark": NOON}


def test_state_that_cannot_be_read_is_not_said_to_have_no_event_time() -> None:
    operator: Any = SimpleNamespace(operator_id=0, name=None)
    assert Held(operator, 3, None, None, "", has_schema=False).words == (
        "operator 0 (of a kind that is not known): 3 keys; what it consists of, and what evicts it, cannot be read"
    )
    many = Held(operator, 6000, None, NOON, "window")
    assert many.words.endswith("the first to leave is window (of the first 5,000; the others were not looked at)")


def test_a_folder_says_which_files_were_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "in [x]"
    (folder / "day=1").mkdir(parents=True)
    (folder / "not a partition").mkdir()
    for name in ("a b.csv", ".hidden", "_hidden", "day=1/c.csv", "not a partition/d.csv"):
        (folder / name).touch()
    read = [f"file://{tmp_path}/in%20%5Bx%5D/a%20b.csv"]
    pattern = f"{tmp_path}/in*"
    assert str(unread(pattern, read)).startswith(f"1 file in {pattern} that no batch has read so far, such as c.csv")
    assert unread(pattern, [*read, f"file:{folder}/day=1/c.csv".replace(" ", "%20")]) is None
    assert unread(str(folder), []) == f"{folder} is a pattern, and no file fits it; there is a folder of exactly this name, for which one writes {tmp_path}/in \\[x\\]"
    assert unread(f"{folder}/*.json", []) == f"{folder}/*.json is a pattern, and no file fits it"
    assert unread(f"{tmp_path}/{{a,b}}", []) == f"{tmp_path}/{{a,b}} is a pattern; whether a file fits it was not checked"
    (tmp_path / "empty").mkdir()
    assert str(unread(f"file:{tmp_path}/empty", [])).startswith(f"there is no file in {tmp_path}/empty")
    assert unread("s3a://bucket/in", []) is None


REAL_TIME = {"operatorName": "StatefulStreamlineAggregate", "numRowsTotal": 2}


def test_five_minutes_are_no_latency() -> None:
    """What the trigger of real-time mode means, which batch is open, and which sinks wait for its end."""
    known: dict[str, Any] = {"mode": "update", "is_active": True, "real_time_ms": 300_000}
    found = dict(explain(Asked(None, [report(3, 5)], sink="ForeachWriterTable", **known)).lines)
    assert found["real time"].startswith("a batch lasts 5 min, and its rows are written while it runs. The length of a batch is not how old a row gets")
    assert found["open batch"].startswith("batch 4 runs, or is about to begin. No report and no log knows what it has read and written")
    assert found["held back"].startswith("Spark gives rows to a Python function of foreach in groups")
    assert found["watermark"].endswith("it stands still while a batch runs, and moves between two batches")
    first = dict(explain(Asked(None, sink="ConsoleTable$", **known)).lines)
    assert first["open batch"].startswith("batch 0 ") and first["held back"] == "the console prints the rows of a batch when the batch ends"
    assert "held back" not in dict(explain(Asked(None, sink="ForeachSink", **known)).lines)


def test_real_time_mode_is_known_by_its_operator() -> None:
    """Then the latest offset is from the beginning of the batch, and older than its end: nothing is left to be read."""
    sources = [{"description": "KafkaV2[Subscribe[t]]", "startOffset": {"t": {"0": 0}}, "endOffset": {"t": {"0": 9}}, "latestOffset": {"t": {"0": 4}}}]
    told = dict(explain(Asked(None, [report(3, 5, sources=sources, stateOperators=[REAL_TIME])])).lines)
    assert told["real time"].startswith("the rows are written while it runs") and "not read yet" not in told and "open batch" not in told
    other = dict(explain(Asked(None, [report(3, 5, sources=sources)])).lines)
    assert "real time" not in other and "not read yet" in other


def test_what_waits_for_new_rows_in_real_time_mode(monkeypatch: Any) -> None:
    count: Any = SimpleNamespace(operator_id=0, name="StatefulStreamlineAggregate")
    dedupe: Any = SimpleNamespace(operator_id=0, name="dedupe")
    monkeypatch.setattr(why_no_output, "held_by", lambda _: [Held(count, 1, None, NOON, "k=a")])
    empty: Any = SimpleNamespace(batches=[], operators=[count], sources=[])
    found = dict(explain(Asked(empty, [report(3, 5)], "update", real_time_ms=5000)).lines)
    assert found["waits for"].startswith("new rows: in update mode, each emits the new result of its group when it comes")
    monkeypatch.setattr(why_no_output, "held_by", lambda _: [Held(dedupe, 1, None, NOON, "k=a")])
    found = dict(explain(Asked(empty, [report(3, 5)], "update", real_time_ms=5000)).lines)
    assert found["waits for"].startswith("a row with a new key: it is emitted when it comes")


@pytest.mark.parametrize("as_text", [False, True])
def test_the_distance_to_the_newest_record_of_kafka_is_said(as_text: bool) -> None:
    end, latest = {"t": {"0": 9, "1": 4}}, {"t": {"0": 1009, "1": 4, "2": 5}}
    offsets = [json.dumps(one) if as_text else one for one in (end, latest)]
    source = {"description": "KafkaV2[Subscribe[t]]", "startOffset": None, "endOffset": offsets[0], "latestOffset": offsets[1]}
    said = dict(explain_output([report(3, 1, 1, sources=[source])]).lines)["not read yet"]
    assert said.endswith(", 1005 records more")
