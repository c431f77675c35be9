"""What `check` foretells of a changed query is what real Spark does: outcome, condition, moment, and what the result is worth.

What Spark did with the pairs is in check_recorded.json. For a part of them, chosen by the commit, the old query runs on the model, and the
answer of `check` is compared with the recording.

    MINISPARK_CHECK=all pytest tests/spark/test_check.py      all pairs; Spark does not play
    MINISPARK_CHECK=play pytest tests/spark/test_check.py     all pairs are played on Spark, and recorded
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession, check
from minispark_stream.tools.cli import main
from minispark_stream.tools.compare.runner import confs_set
from minispark_stream.tools.operations.check.answer import Check
from tests.commit import chosen_by_commit
from tests.spark.check_cases import OF_ONE
from tests.spark.check_cases_of_two import OF_TWO
from tests.spark.check_pairs import Pair, feed, windows

RECORDED = Path(__file__).with_name("check_recorded.json")
PAIRS = [*OF_ONE, *OF_TWO]
ONE_IN = 8  # pairs that are compared if nothing else is said
HOW = os.environ.get("MINISPARK_CHECK", "")
SEEN: dict[str, Any] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
COMPARED = PAIRS if HOW == "play" else [one for one in PAIRS if one.name in SEEN and (HOW == "all" or chosen_by_commit(one.name, ONE_IN))]
OTHER_ROWS = {  # of these, the result is right, although a run from scratch has other rows
    "limit/less": "the old limit was reached",
    "source/rate-rows": "the rows are numbers of a clock, in as many batches as it takes",
    "source/rate-start": "the rows are numbers of a clock, in as many batches as it takes",
    "sink/to-memory-complete": "the rows are in a table, which is not looked at",
    "two/memory-and-projection": "the rows are in a table, which is not looked at",
}
COMMON = {"spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC"}


def prepare(home: Path) -> None:
    home.mkdir(exist_ok=True)
    for folder in ("in", "in2"):
        for batch in range(2):
            feed(home / folder, batch)
    for table, n in (("table", 1), ("table2", 2)):
        (home / table).mkdir()
        (home / table / "a.json").write_text("\n".join(json.dumps({"k": k, "n": n}) for k in "abc"))


def more(home: Path) -> None:
    for folder in ("in", "in2", "moved"):
        if (home / folder).exists():
            for batch in range(2, 4):
                feed(home / folder, batch)


def writer(built: Any, pair: Pair, sink: str, mode: str, home: Path, checkpoint: Path, found: list[list[str]]) -> Any:
    def keep(data: Any, batch_id: int) -> None:
        found.append(sorted(str(tuple(row)) for row in data.collect()))

    write = built.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    if sink == "foreachBatch":
        return write.foreachBatch(keep)
    return write.format(sink).queryName("t") if sink == "memory" else write.format(sink).option("path", str(home / "out"))


def run_old(session: Any, pair: Pair, home: Path) -> list[list[str]]:
    found: list[list[str]] = []
    with confs_set(session, {**COMMON, **pair.confs}):
        query = writer(pair.old(session, home), pair, pair.sink, pair.mode, home, home / "checkpoint", found).start()
        query.awaitTermination()
    if pair.damage is not None:
        pair.damage(home)
    return found


def run_new(session: SparkSession, pair: Pair, home: Path, checkpoint: Path) -> tuple[dict[str, Any], list[list[str]]]:
    """What Spark does with the new query: the outcome as `check` words it, and the rows of each batch."""
    found: list[list[str]] = []
    seen: dict[str, Any] = {"outcome": "runs", "condition": None, "when": None}
    with confs_set(session, {**COMMON, **pair.confs, **pair.new_confs}):
        try:
            built = pair.new(session, home)
            query = writer(built, pair, pair.new_sink or pair.sink, pair.new_mode or pair.mode, home, checkpoint, found).start()
            query.awaitTermination(60)
            query.stop()
        except StreamingQueryException as e:
            seen = {"outcome": "refused", "condition": inner_condition(str(e)), "when": "first batch", "message": str(e)[:400]}
        except PySparkException as e:
            seen = {"outcome": "refused", "condition": e.getCondition(), "when": "start"}
    return seen, found


def inner_condition(text: str) -> str | None:
    """Of what ended a query; if a task failed, the function that ran its job wraps it in an exception of its own."""
    found = re.findall(r"(exception|\w*Exception): \[([\w.]+)\]", text)
    if not found or found[0][0] != "exception":
        return None
    return next((condition for _, condition in found if condition != "FOREACH_BATCH_USER_FUNCTION_ERROR"), None)


def foretold(session: SparkSession, pair: Pair, home: Path) -> Check:
    """The answer of `check`, with the old code; neither a byte nor a time of the checkpoint changes."""
    before = tree(home / "checkpoint")

    def old(s: Any) -> Any:
        return writer(pair.old(s, home), pair, pair.sink, pair.mode, home, home / "unused", [])

    def new(s: Any) -> Any:
        return writer(pair.new(s, home), pair, pair.new_sink or pair.sink, pair.new_mode or pair.mode, home, home / "unused", [])

    with confs_set(session, {**COMMON, **pair.confs}):
        answer = check(session, home / "checkpoint", new, old, confs=pair.new_confs)
    assert tree(home / "checkpoint") == before
    return answer


def tree(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else None) for p in sorted(folder.rglob("*"))}


def played(spark: SparkSession, pair: Pair, home: Path) -> tuple[dict[str, Any], Check]:
    """Play a pair on Spark: the old query, `check`, and the new query; and the new query from scratch, to compare the rows."""
    prepare(home)
    first = run_old(spark, pair, home)
    answer = foretold(spark, pair, home)
    more(home)
    seen, rows = run_new(spark, pair, home, home / "checkpoint")
    shutil.rmtree(home / "out", ignore_errors=True)
    _, scratch = run_new(spark, pair, home, home / "scratch")
    if seen["outcome"] == "runs":
        seen["as from scratch"] = final(first + rows, pair) == final(scratch, pair)
    return seen, answer


def final(batches: list[list[str]], pair: Pair) -> Any:
    mode = pair.new_mode or pair.mode
    if mode == "complete":
        return batches[-1] if batches else []
    every = [row for batch in batches for row in batch]
    return sorted({row.rpartition(", ")[0]: row for row in every}.values()) if mode == "update" else sorted(every)



@pytest.mark.parametrize("pair", COMPARED, ids=lambda pair: pair.name)
def test_foretold_is_what_spark_did(spark: SparkSession, pair: Pair, tmp_path: Path) -> None:
    home = tmp_path / "home"
    if HOW == "play":
        seen, answer = played(spark, pair, home)
        SEEN[pair.name] = {name: value for name, value in seen.items() if name != "message"}
        RECORDED.write_text(json.dumps(SEEN, indent=1, sort_keys=True) + "\n")
    else:
        seen = SEEN[pair.name]
        prepare(home)
        run_old(MiniSparkSession(spark), pair, home)
        answer = foretold(spark, pair, home)
    if (answer.outcome, answer.verdict) == ("runs", "right"):
        assert seen["as from scratch"] != (pair.name in OTHER_ROWS)
    told = {"outcome": answer.outcome, "condition": answer.condition, "when": answer.when}
    assert (told, answer.verdict) == ({name: seen[name] for name in told}, pair.verdict), f"{seen}\n{answer}"


@pytest.fixture
def counted(spark: SparkSession, tmp_path: Path) -> Path:
    """A folder with input, and the checkpoint of windows that were counted over it."""
    prepare(tmp_path)
    run_old(MiniSparkSession(spark), next(pair for pair in PAIRS if pair.name == "window/size"), tmp_path)
    return tmp_path


@pytest.mark.parametrize(("query", "ids", "code"), [
    (windows(), ["not-compared"], 3),
    (windows("10 minutes"), ["window.changed", "not-compared"], 2),
])
def test_without_the_old_code_the_files_alone_tell(
    spark: SparkSession, counted: Path, query: Any, ids: list[str], code: int
) -> None:
    answer = check(spark, counted / "checkpoint", lambda s: query(s, counted), output_mode="update")
    assert (answer.outcome, [one.id for one in answer.differences], answer.exit_code) == ("runs", ids, code)


def test_a_query_of_real_spark_is_checked_as_well(spark: SparkSession, counted: Path) -> None:
    """A function may read with a session of its own, and not with the one that it is given."""
    new, old = (lambda s, size=size: windows(size)(spark, counted) for size in ("10 minutes", "5 minutes"))
    answer = check(spark, counted / "checkpoint", new, old, output_mode="update")
    assert (answer.verdict, [one.id for one in answer.differences]) == ("wrong", ["window.changed"])


def test_a_trial_calls_the_functions(spark: SparkSession, counted: Path) -> None:
    @F.udf("string")
    def broken(k: str) -> str:
        raise ValueError(f"no {k}")

    def new(s: Any) -> Any:
        return windows()(s, counted).withColumn("k", broken(F.col("count").cast("string")))

    before = tree(counted / "checkpoint")
    assert check(spark, counted / "checkpoint", new, output_mode="update").outcome == "runs"
    feed(counted / "in", 2)
    answer = check(spark, counted / "checkpoint", new, output_mode="update", trial=True)
    assert answer.refused is not None and answer.outcome == "refused" and "ValueError: no " in answer.refused.message
    assert tree(counted / "checkpoint") == before


def test_the_folder_of_a_new_sink_is_not_made(spark: SparkSession, counted: Path) -> None:
    """With a manifest, even an empty one, the files that lie there already would not be seen any more."""
    answer = check(spark, counted / "checkpoint", lambda s: windows()(s, counted), output_mode="append", sink=str(counted / "out"))
    assert answer.outcome == "runs" and not (counted / "out").exists()


def test_a_function_that_makes_no_query_is_not_planned(spark: SparkSession, counted: Path) -> None:
    for build, why in ((lambda s: None, "NoneType"), (lambda s: s.range(3), "not a stream")):
        answer = check(spark, counted / "checkpoint", build)
        assert (answer.outcome, answer.exit_code) == ("unknown", 3) and why in answer.not_planned


def test_the_command(
    spark: SparkSession, counted: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (counted / "jobs.py").write_text(
        "from pathlib import Path\nfrom tests.spark.check_pairs import windows\n"
        f"def old(s): return windows()(s, Path({str(counted)!r}))\n"
        f"def new(s): return windows('10 minutes')(s, Path({str(counted)!r}))\n"
    )
    monkeypatch.chdir(counted)
    command = ["check", str(counted / "checkpoint"), "--query", "jobs:new", "--before", "jobs:old", "--mode", "update", "--json"]
    assert main(command) == 2
    assert json.loads(capsys.readouterr().out)["differences"][0]["id"] == "window.changed"
    assert main(["check", str(counted / "checkpoint"), "--query", "jobs:nothing"]) == 3
    assert "cannot be imported" in capsys.readouterr().err
