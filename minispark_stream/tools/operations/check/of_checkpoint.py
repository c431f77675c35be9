"""What the checkpoint itself shows of a change, without the old code: names, windows, confs, the manifest of the sink.

1. Names of keys and values in the schema files. Spark compares types alone, so another order of keys of one type passes.
2. The windows in the state: their length is one of the numbers in the expression of the new window, or it is another window.
3. Confs: the log keeps some of them, whatever the session says; of the others, the table says what they do.
4. The next batch: whether it is one that the sink gets for the second time, or that its manifest has already.

    key of the state: window, rows of 5 minutes      the new query: window(ts, 10 minutes)      wrong [window.changed]

Models: nothing of Spark.
Shown by tests/spark/test_check.py::test_foretold_is_what_spark_did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

from minispark_stream.engine.checkpointing.offset_seq_log import RELEVANT_CONFS
from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.operators.base import StatefulOperator
from minispark_stream.engine.sinks.file import FileStreamSink
from minispark_stream.engine.state.row_format import fault
from minispark_stream.engine.state.state_schema_compatibility_checker import compatible
from minispark_stream.tools.inspection.contents import DecodedRow
from minispark_stream.tools.inspection.contents import StoredOperator as OnDisk
from minispark_stream.tools.inspection.report import CheckpointReport
from minispark_stream.tools.inspection.sink_folder import inspect_sink, is_sink_folder
from minispark_stream.tools.operations.check.answer import FIRST, CheckDifference, Refused
from minispark_stream.tools.operations.check.dry_run import Planned
from minispark_stream.tools.operations.check.of_plans import of_functions, of_keys, of_variables
from minispark_stream.tools.operations.check.plan import Description
from minispark_stream.tools.operations.check.rules import difference

AGGREGATIONS = ("stateStoreSave", "sessionWindowStateStoreSaveExec")
GETS_ROWS_TWICE = ("ForeachBatchSink", "ForeachSink", "ConsoleSink", "KafkaSink")
FREE_CONFS = {  # what they change is how, when or for how long something is written, and not what
    f"spark.sql.streaming.{name}" for name in (
        "noDataMicroBatches.enabled", "minBatchesToRetain", "stateStore.rocksdb.changelogCheckpointing.enabled",
        "stateStore.checkpointFormatVersion", "stateStore.minDeltasForSnapshot", "stateStore.maintenanceInterval",
        "pollingDelay", "metricsEnabled", "numRecentProgressUpdates", "noDataProgressEventInterval", "stopTimeout",
        "stateStore.stateSchemaCheck", "stateStore.formatValidation.enabled", "fileSource.log.compactInterval",
        "fileSink.log.compactInterval", "schemaInference", "stopActiveRunOnRestart", "ratioExtraSpaceAllowedInCheckpoint",
        "checkpoint.fileChecksum.enabled", "statefulOperator.checkCorrectness.enabled", "unsupportedOperationCheck",
        "checkpoint.escapedPathCheck.enabled", "forceDeleteTempCheckpointLocation",
    )
} | {"spark.sql.ansi.enabled", "spark.sql.caseSensitive", "spark.sql.adaptive.enabled", "spark.sql.sources.default",
     "spark.sql.files.maxPartitionBytes", "spark.sql.autoBroadcastJoinThreshold",
     "spark.sql.execution.arrow.maxRecordsPerBatch"}


def of_names(planned: Planned, report: CheckpointReport) -> Iterator[CheckDifference]:  # (1)
    """Keys and values by their names, where the old code is not known."""
    on_disk = {operator.operator_id: operator for operator in report.operators}
    for operator in planned.template.operators if planned.template else ():
        old = on_disk.get(operator.operator_id)
        if old is None:
            continue
        where = f"operator {operator.operator_id} ({operator.operator_name})"
        if operator.operator_id in planned.variables:
            kinds = (f"{v.get('stateName')} {v.get('stateVariableType')}" for v in old.properties.get("stateVariables", ()))
            new = planned.variables[operator.operator_id].properties.get("stateVariables", ())
            yield from of_variables(where, sorted(kinds), sorted(f"{v['stateName']} {v['stateVariableType']}" for v in new))
            continue
        for name, keys, values in operator.schemas():
            store = next((one for one in old.stores if one.name == name and one.schemas), None)
            if store is not None:
                was = store.schemas[0]
                yield from _of_key_names(f"{where}, keys", was.key.names, keys.names)
                if operator.operator_name in AGGREGATIONS:
                    yield from _of_value_names(f"{where}, values", was.value.names, values.names)
                elif sorted(was.value.names) == sorted(values.names) and was.value.names != values.names:
                    yield difference("join.columns", f"{where}, {name}", ", ".join(was.value.names), ", ".join(values.names))


def _of_key_names(where: str, was: list[str], now: list[str]) -> Iterator[CheckDifference]:
    if was == now:
        return
    if sorted(was) == sorted(now):
        yield from of_keys(where, was, now)
    else:
        yield difference("key.name", where, ", ".join(was), ", ".join(now))


def _of_value_names(where: str, was: list[str], now: list[str]) -> Iterator[CheckDifference]:
    """Aggregate functions by the names of their values: sum, count, max, first and valueSet."""
    if sorted(was) == sorted(now):
        yield from of_functions(where, was, now) if was != now else ()
        return
    known = {"sum", "count", "max", "min", "first", "last", "avg", "buf"}
    for old, new in zip(was, now):
        if old != new:
            is_known = {old, new} <= known
            yield from of_functions(where, [old], [new]) if is_known else [difference("function.name", where, old, new)]


def of_missing_metadata(planned: Planned, report: CheckpointReport) -> Iterator[CheckDifference]:
    """An operator whose metadata was lost is compared with no other one, but its values have the names of its functions."""
    for operator in planned.template.operators if planned.template else ():
        old = next((one for one in report.operators if one.operator_id == operator.operator_id and one.name is None), None)
        names = {name: values.names for name, _, values in operator.schemas()}
        for store in old.stores if old is not None else ():
            if store.schemas and names.get(store.name, []) != store.schemas[0].value.names:
                where = f"operator {operator.operator_id} ({operator.operator_name})"
                was = ", ".join(store.schemas[0].value.names)
                yield difference("operator.not-named", where, was, ", ".join(names.get(store.name, [])) or "nothing")


def of_windows(described: Description, report: CheckpointReport) -> Iterator[CheckDifference]:  # (2)
    """The length of windows in the state against the expression of the new window."""
    for operator in described.operators:
        keys = [key for key in operator.facts.get("keys", ()) if "preciseTimestampConversion(" in key]
        old = next((one for one in report.operators if one.operator_id == operator.operator_id), None)
        if len(keys) == 1 and old is not None and operator.kind == "stateStoreSave":
            lengths = {_length(row.key) for store in old.stores for p in store.partitions for row in p.sample} - {None}
            for length in sorted(one for one in lengths if one is not None and str(one) not in re.findall(r"\d+", keys[0])):
                before = f"windows of {length / 60_000_000:g} minutes"
                yield difference("window.changed", f"operator {operator.operator_id} ({operator.kind}), keys", before, keys[0])


def _length(key: DecodedRow) -> int | None:
    """The length of the window in a key, in microseconds."""
    for value in key.values():
        if isinstance(value, Mapping) and {"start", "end"} <= set(value):
            try:
                start, end = (datetime.fromisoformat(str(value[name])) for name in ("start", "end"))
            except ValueError:
                return None
            return round((end - start).total_seconds() * 1_000_000)
    return None


def of_confs(confs: Mapping[str, str], report: CheckpointReport, has_state: bool) -> Iterator[CheckDifference]:  # (3)
    """The confs of the deployment."""
    logged = report.batches[-1].conf if report.batches else {}
    for key, value in sorted(confs.items()):
        if key in RELEVANT_CONFS and logged:
            kept = logged.get(key, RELEVANT_CONFS[key])
            if kept is not None and kept != value:
                yield difference("conf.pinned", f"conf {key}", kept, value)
        elif key not in RELEVANT_CONFS:
            rule = "conf.free" if key in FREE_CONFS else "conf.not-known" if has_state else "conf.stateless"
            yield difference(rule, f"conf {key}", None, value)


def of_rows_unchecked(planned: Planned, report: CheckpointReport) -> tuple[Refused | None, list[CheckDifference]]:
    """If the check of the schemas is off: whether the first row that is read has the form of the new schema."""
    on_disk = {operator.operator_id: operator for operator in report.operators}
    for operator in planned.template.operators if planned.template else ():
        for what, row, new in _rows_that_do_not_fit(operator, on_disk.get(operator.operator_id), report):
            where = f"operator {operator.operator_id} ({operator.operator_name})"
            if (reason := fault(row, new)) is not None:
                condition = f"CANNOT_LOAD_STATE_STORE.{what}_ROW_FORMAT_VALIDATION_FAILURE"
                return Refused(FIRST, condition, f"{where}: {reason}"), []
            return None, [difference("conf.check-off", where)]
    return None, []


def _rows_that_do_not_fit(
    operator: StatefulOperator, old: OnDisk | None, report: CheckpointReport
) -> Iterator[tuple[str, bytes, StructType]]:
    for name, keys, values in operator.schemas():
        store = next((one for one in (old.stores if old else ()) if one.name == name and one.schemas), None)
        state = next((s for s in report.states if s.operator_id == operator.operator_id and s.name == name), None)
        if store is None or state is None:
            continue
        fits = {"KEY": compatible(keys, store.schemas[0].key),
                "VALUE": not operator.checks_values or compatible(values, store.schemas[0].value)}
        for versions in state.partitions.values():
            for key, value in list(versions.load(report.next_version).entries.items())[:1]:
                if not fits["KEY"]:
                    yield "KEY", key, keys
                if not fits["VALUE"]:
                    yield "VALUE", value, values


def of_next_batch(planned: Planned, report: CheckpointReport) -> Iterator[CheckDifference]:  # (4)
    """What the sink of the query knows of the batch that comes next."""
    assert planned.write is not None
    sink, batch = planned.write.sink, report.next.batch_id
    if isinstance(sink, FileStreamSink):
        folder = str(planned.write.options.get("path", ""))
        newest = _newest(folder)
        if batch is not None and not report.next.rerun and batch <= newest:
            yield difference("sink.skips", f"sink {folder}", f"batch {newest} written", f"batch {batch} next")
    elif report.next.rerun and type(sink).__name__ in GETS_ROWS_TWICE:
        yield difference("restart.again", f"batch {batch}", "planned, not committed", "runs again")


def _newest(folder: str) -> int:
    try:
        entries = inspect_sink(folder).entries if is_sink_folder(folder) else ()
    except (OSError, ValueError):
        return -1
    return entries[-1].batch_id if entries else -1
