"""What a restart reads first: `metadata`, the last entries of both logs, and the confs that were logged.

Models: StreamMetadata.read, MicroBatchExecution.populateStartOffsets, OffsetSeqMetadata.setSessionConf, as far as they refuse.

1. start() reads `metadata`. It may be missing only if there is no log entry.
2. Without an entry in offsets/, the query is new, and offsets/, commits/ and state/ must be empty.
3. Of O, the last batch of the offset log, the entry, the entry before it, and the last entry of the commit log are read. A file
   whose name is a number in another spelling (`010`) counts as the entry 10, which does not exist.
4. Every entry has as many offsets as the query has sources. Its confs are set, and must have values that Spark knows.

    offsets/ 0 2   commits/ 0 1 2      batch 1 doesn't exist: batch 2 begins where it ends

Differs from Spark: nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeqBase
from minispark_stream.tools.inspection.contents import FIRST, START, Reasons, Refusal, Unknown
from minispark_stream.tools.inspection.logs import Logs
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles, is_unread

PARTITIONS = "spark.sql.shuffle.partitions"
JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
AGGREGATION_FORMAT = "spark.sql.streaming.aggregation.stateFormatVersion"
VALUES = {  # the values that Spark knows; of the others, any number above 0, or either truth
    JOIN_FORMAT: ("1", "2", "3", "4"),
    AGGREGATION_FORMAT: ("1", "2"),
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": ("1", "2"),
    "spark.sql.streaming.multipleWatermarkPolicy": ("min", "max"),
    "spark.sql.streaming.stateStore.encodingFormat": ("unsaferow", "avro"),
}
NUMBERS = (PARTITIONS, JOIN_FORMAT, AGGREGATION_FORMAT, "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion")
TRUTHS = (
    "spark.sql.streaming.stateStore.rowChecksum.enabled", "spark.sql.streaming.statefulOperator.useStrictDistribution",
    "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled",
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled",
)
_UUID = re.compile(r"(?=.{9,36}$)[0-9a-fA-F]+(-[0-9a-fA-F]+){4}")
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")  # what Java's Long.parseLong takes


def of_start(files: ReadOnlyFiles, logs: Logs) -> Reasons:  # (1)
    """Why start() itself fails."""
    if "metadata" in files.folders:
        yield Refusal(START, "metadata", "it is a folder", message="(Is a directory)")
    elif "metadata" not in files.files:
        if logs.offsets or logs.commits:
            says = "the file is missing, so nobody knows which query this is"
            yield Refusal(START, "metadata", says, "STREAMING_CHECKPOINT_MISSING_METADATA_FILE")
    elif "metadata" in logs.errors:
        yield unreadable(START, files, "metadata", logs.errors["metadata"])
    elif not is_uuid(logs.query_id or ""):
        yield Refusal(START, "metadata", "the id of the query must be a UUID", message=f"Invalid UUID string: {logs.query_id}")


def is_uuid(text: str) -> bool:
    """Whether Java reads a text as a UUID."""
    return _UUID.fullmatch(text) is not None


def of_logs(files: ReadOnlyFiles, logs: Logs) -> Reasons:
    """Why the last entries of the logs do not say where to begin."""
    yield from stray_numbers(files, "offsets", max(logs.offsets, default=-1))
    if not logs.offsets:
        yield from _not_new(files, logs)
        return
    last, committed = max(logs.offsets), max(logs.commits, default=None)
    yield from _entry(files, logs, f"offsets/{last}", logs.offsets[last])
    yield from stray_numbers(files, "commits", -1 if committed is None else committed)
    if committed is not None:
        yield from _entry(files, logs, f"commits/{committed}", logs.commits[committed])
    if is_continuous(logs):
        return
    if last > 0 and last - 1 not in logs.offsets:
        unfinished = committed is not None and committed < last
        message = f"Previous batch {last - 1} not found in offset log" if unfinished else f"batch {last - 1} doesn't exist"
        yield Refusal(FIRST, f"offsets/{last - 1}", f"it is missing: batch {last} begins where it ends", message=message)
    elif last > 0:
        yield from _entry(files, logs, f"offsets/{last - 1}", logs.offsets[last - 1])
    yield from _contents(logs, last, committed)


def is_continuous(logs: Logs) -> bool:
    """Whether the query had a continuous trigger, which logs no metadata."""
    entries = [entry for entry in logs.offsets.values() if entry is not None]
    return bool(entries) and all(entry.metadata is None for entry in entries)


def may_be_real_time(logs: Logs) -> bool:
    """Whether the query can have had a real-time trigger, which writes commits of checkpoint format 2."""
    return all(commit is None or commit.state_unique_ids is not None for commit in logs.commits.values())


def stray_numbers(files: ReadOnlyFiles, folder: str, last: int, suffix: str = "") -> Reasons:  # (3)
    """A file that Spark takes for a newer entry than `last`, under whose name there is none."""
    names = [name.removeprefix(f"{folder}/") for name in files.files if name.startswith(f"{folder}/")]
    for name in names:
        spelled = name.removesuffix(suffix)
        if _NUMBER.fullmatch(spelled) and str(int(spelled)) != spelled and int(spelled) > last:
            says = f"by its name, it is the newest entry, {int(spelled)}; but there is no file of this name"
            yield Refusal(FIRST, f"{folder}/{name}", says, message="does not exist")


def words(files: ReadOnlyFiles, where: str, error: BaseException) -> str:
    """The words of an error, without the path of the checkpoint."""
    return str(error).replace(f"{files.root}/{where}: ", "").replace(f"{files.root}/", "")


def unreadable(when: str, files: ReadOnlyFiles, where: str, error: Exception) -> Refusal | Unknown:
    """A file that the restart needs and that was not read, or cannot be read."""
    if is_unread(error):
        return Unknown(where, words(files, where, error))
    reason = words(files, where, error.__cause__ or error)
    condition = re.match(r"\[[A-Z_.]+\]", reason)
    message = condition[0] if condition else "Incomplete log file" if files.files.get(where) == 0 and when == FIRST else ""
    return Refusal(when, where, f"cannot be read: {reason}", message=message)


def _entry(files: ReadOnlyFiles, logs: Logs, where: str, entry: object) -> Reasons:
    if entry is None:
        yield unreadable(FIRST, files, where, logs.errors[where]) if where in logs.errors else Unknown(where, "it is gone")


def _not_new(files: ReadOnlyFiles, logs: Logs) -> Reasons:  # (2)
    if logs.commits:
        says = f"the folder has no entry, although commits/{max(logs.commits)} exists"
        yield Refusal(FIRST, "offsets", says, message="assertion failed")
    for folder in ("offsets", "state", "commits"):
        if any(name.startswith(f"{folder}/") for name in (*files.files, *files.folders)):
            says = f"{folder}/ is not empty, although no batch was logged"
            if folder == "state" and not logs.commits:
                says += ". A first batch in real-time mode that is cut off leaves this; with its trigger, batch 0 begins anew"
            yield Refusal(FIRST, folder, says, "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY")


def _contents(logs: Logs, last: int, committed: int | None) -> Reasons:  # (4)
    entry, before = logs.offsets[last], logs.offsets.get(last - 1)
    if entry is None:
        return
    usual = _usual_number(logs)
    for batch_id, one in ((last, entry), (last - 1, before)):
        if one is not None and one.version == 1 and usual is not None and len(one.by_id()) != usual:
            says = f"it has {len(one.by_id())} offsets, but the query has {usual} sources"
            message = f"There are [{len(one.by_id())}] sources in the checkpoint offsets and now there are [{usual}] sources"
            yield Refusal(FIRST, f"offsets/{batch_id}", says, message=message)
    if entry.metadata is None:
        says = "it has no metadata: it was run with a continuous trigger, and a query in micro-batches cannot continue from it"
        yield Refusal(FIRST, f"offsets/{last}", says, message="WatermarkTracker.currentWatermark()")
        return
    conf = entry.metadata.conf
    if before is not None and before.metadata is not None and committed is not None and committed < last:
        was, now = before.metadata.conf.get(PARTITIONS), conf.get(PARTITIONS)
        if was is not None and now is not None and was != now:
            says = f"the state was being repartitioned from {was} to {now} partitions, and this was not finished"
            yield Refusal(FIRST, f"offsets/{last}", says, "STREAMING_UNFINISHED_REPARTITION_DETECTED")
    yield from _confs(conf, f"offsets/{last}")


def _usual_number(logs: Logs) -> int | None:
    """The number of sources of most entries of version 1; of the older entries, if two numbers are as frequent."""
    counts = Counter(len(entry.by_id()) for entry in logs.offsets.values() if entry is not None and entry.version == 1)
    return counts.most_common(1)[0][0] if counts else None


def _confs(conf: Mapping[str, str], where: str) -> Reasons:
    for key, value in conf.items():
        is_number = re.fullmatch(r"\s*[+-]?[0-9]{1,9}\s*", value) is not None
        if key in NUMBERS and not is_number or key in TRUTHS and value.strip().lower() not in ("true", "false"):
            yield Refusal(FIRST, where, f"{key} cannot be {value[:80]}", "INVALID_CONF_VALUE.TYPE_MISMATCH")
        elif key in VALUES and value.strip().lower() not in VALUES[key] or key == PARTITIONS and int(value) <= 0:
            yield Refusal(FIRST, where, f"{key} cannot be {value[:80]}", "INVALID_CONF_VALUE.REQUIREMENT")


def confs_of(entry: OffsetSeqBase | None) -> Mapping[str, str]:
    """The confs of an entry."""
    return entry.metadata.conf if entry is not None and entry.metadata is not None else {}
