"""Before a deployment: does the new query fit the checkpoint, and is its result right? Nothing is changed, and nothing is read.

1. The checkpoint is inspected, and its small files are copied (shadow.py).
2. The new query is planned on the copy, with all of Spark's checks (dry_run.py). If none of them refuses, the inspection says
   whether the state can be loaded.
3. Its sources, confs, names and windows are compared with what the files show (of_sources.py, of_checkpoint.py).
4. With the old code, both plans are compared operator by operator (plan.py, of_plans.py, of_writers.py). Without it, what a
   query with state computes is not known, and the answer says so.
5. The table of rules says what each difference means (rules.toml). The worst one is the verdict.

    check(spark, "/checkpoint", new_query, before=old_query, output_mode="update")

Models: nothing of Spark, which finds out by running the query.
Shown by tests/spark/test_check.py::test_foretold_is_what_spark_did.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pyarrow import fs
from pyspark.sql import SparkSession

from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.engine.spark_versions import refuse_connect
from minispark_stream.tools.inspection.checkpoint import inspect
from minispark_stream.tools.inspection.contents import START as AT_START
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.inspection.report import CheckpointReport
from minispark_stream.tools.operations.check import of_checkpoint, of_sources, of_writers
from minispark_stream.tools.operations.check.answer import FIRST, RIGHT, START, VERDICTS, Check, CheckDifference, Refused
from minispark_stream.tools.operations.check.dry_run import Builder, CannotPlan, Deployment, Planned, planned
from minispark_stream.tools.operations.check.of_joins import with_evicted
from minispark_stream.tools.operations.check.of_plans import of_plans
from minispark_stream.tools.operations.check.plan import Description, describe
from minispark_stream.tools.operations.check.rules import difference, rules
from minispark_stream.tools.operations.check.shadow import copy_small_files
from minispark_stream.tools.operations.check.trial import try_a_batch

REFUSED_WAYS = (
    "keep the old query on this checkpoint: where Spark has refused new code, the old code goes on",
    "a new checkpoint, which reads the sources from their beginning",
)


def check(
    spark: SparkSession, checkpoint: str | Path, build: Builder, before: Builder | None = None, *,
    output_mode: str | None = None, confs: Mapping[str, str] | None = None, sink: str | None = None, trial: bool = False,
    filesystem: fs.FileSystem | None = None, max_bytes: int = 256 << 20,
) -> Check:
    """Whether a query fits a checkpoint, and what it would do to the result. Neither is changed.

    Args:
        spark: a session of Spark or of the model, whose confs are those of the deployment.
        build: makes the new query. It is called with a session of the model, and returns a DataFrame or a DataStreamWriter.
        before: makes the old query, which wrote the checkpoint.
        output_mode: the mode of the new query, if its writer does not have it.
        confs: confs of the deployment that the session does not have.
        sink: if the query is a DataFrame, the format of its sink, or the folder of a file sink; without it, foreachBatch.
        trial: also run one small batch into nothing, on a copy of the whole checkpoint.
        filesystem, max_bytes: as for `inspect`.

    Raises:
        PySparkTypeError: the session is one of Spark Connect.
        FileNotFoundError, OSError, ValueError: the checkpoint cannot be read, as from `inspect`.
    """
    refuse_connect("check", "spark", spark, "the checkpoint may be one of a query over Connect")
    report = inspect(str(checkpoint), filesystem, max_bytes=max_bytes)
    files = ReadOnlyFiles(str(checkpoint), filesystem, Budget(max_bytes))
    how = Deployment(dict(confs or {}), output_mode, None, sink)
    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        shadows = [Path(folder, name) for name in ("after", "before")]
        for shadow in shadows:
            copy_small_files(files, shadow)  # (1)
        answer = Check(report.path, report.next.says)
        try:
            new = planned(spark, build, shadows[0], how)  # (2)
        except CannotPlan as e:
            return replace(answer, not_planned=str(e))
        refused = new.refused or _of_state(report)
        found: list[CheckDifference] = []
        if refused is None:
            refused, found = of_checkpoint.of_rows_unchecked(new, report)
        if new.template is not None:
            found += _differences(spark, report, new, before, shadows[1], how, refused is not None)
        if refused is None and report.next.unknown is not None:
            answer = replace(answer, not_planned=str(report.next.unknown))
        if refused is None and trial:
            refused = try_a_batch(spark, files, build, how, Path(folder, "trial"))
    return replace(answer, refused=refused, differences=tuple(found), ways_out=_ways_out(refused, found))  # (5)


def _of_state(report: CheckpointReport) -> Refused | None:
    """Why a restart of any query fails: the state, or another file that is read after the plan has been made."""
    reason = report.next.refused
    if reason is None:
        return None
    says = reason.message or f"{reason.where}: {reason.says}"
    return Refused(START if reason.when == AT_START else FIRST, reason.condition, says)


def _differences(
    spark: SparkSession, report: CheckpointReport, new: Planned, before: Builder | None, shadow: Path, how: Deployment,
    is_refused: bool,
) -> list[CheckDifference]:
    assert new.template is not None and new.write is not None
    has_state = bool(new.template.operators)
    found = [
        *of_sources.of_logs(new, report.sources, has_state),  # (3)
        *of_checkpoint.of_confs(how.confs, report, has_state),
        *of_checkpoint.of_missing_metadata(new, report),
        *of_checkpoint.of_next_batch(new, report),
    ]
    if before is None:
        found += of_checkpoint.of_names(new, report) if not is_refused else ()
        found += of_checkpoint.of_windows(_described(new), report)
        unseen = difference("not-compared" if has_state else "not-compared.stateless", "the query")
        return found if is_refused else [*found, unseen]
    old = _old(spark, before, shadow, replace(how, output_mode=None, mode_of_frame=new.write.output_mode))
    if isinstance(old, str):
        return [*found, difference("before.does-not-fit", "the old query", old, None)]
    return [*found, *_compared(old, new, report, is_refused)]


def _old(spark: SparkSession, before: Builder, shadow: Path, how: Deployment) -> Planned | str:
    """The old query on its own shadow; or why it cannot be planned."""
    try:
        old = planned(spark, before, shadow, replace(how, confs={}))
    except CannotPlan as e:
        return str(e)
    return old if old.template is not None else str(old.refused)


def _compared(old: Planned, new: Planned, report: CheckpointReport, is_refused: bool) -> Iterator[CheckDifference]:  # (4)
    assert old.template and old.write and old.execution and new.template and new.write and new.execution
    if old.refused is not None and not is_refused:
        yield difference("before.does-not-fit", "the old query", f"{old.refused.condition}: {old.refused.message}", None)
    not_in_both = {*old.execution.sources.names} ^ {*new.execution.sources.names}
    for one in of_plans(_described(old, not_in_both), _described(new, not_in_both), new.write.output_mode == "complete"):
        yield with_evicted(one, new.template, report) if one.id == "join.type" else one
    yield from of_sources.of_options(old, new)
    yield from of_writers.of_modes(old.write, new.write, new.template)
    yield from of_writers.of_sinks(old.write, new.write)


def _described(one: Planned, without: Collection[str] = ()) -> Description:
    assert one.template is not None and one.execution is not None
    return describe(one.template, one.execution.planner.sources, one.execution.sources.names, one.variables, without)


def _ways_out(refused: Refused | None, found: list[CheckDifference]) -> tuple[str, ...]:
    worst = sorted((d for d in found if d.verdict != RIGHT), key=lambda d: -VERDICTS.index(d.verdict))
    ways = [rules()[one.id].way for one in worst]
    if refused is not None:
        ways = [*REFUSED_WAYS, f'python -m minispark_stream why "{refused.condition or refused.message[:80]}"', *ways]
    return tuple(way for way in dict.fromkeys(ways) if way)
