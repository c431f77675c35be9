"""A report as text, for a terminal and for `print`.

    checkpoint file:/data/checkpoint
    query      5b2f6f2e-...
    next       batch 3 next, a new one: batch 2 is in both logs, so it is done. ...

    batches
      id  offsets      watermark            time                 commit
       2  logOffset 2  2024-01-01 12:04:00  2024-05-02 09:00:00  done, next watermark 2024-01-01 12:11:00
    ...

Times are in UTC. What comes from files is printed without control characters. Of long lists, the newest entries are shown; the
JSON has all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from minispark_stream.engine.checkpointing.checkpoint_file_manager import canonical_number
from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.lens.view.words import clip, offset_words, one_line, plural, row_words, short, time_words
from minispark_stream.tools.inspection.contents import (
    Contents,
    DecodedStateRow,
    LoggedBatch,
    SourceLog,
    StateChange,
    Store,
    StoredOperator,
    StorePartition,
)
from minispark_stream.tools.inspection.offset_meaning import meaning

SHOWN = 20  # batches, files and partitions
WIDTH = 100
CUT = "…"  # how `clip` ends what is longer


def to_text(report: Contents) -> str:
    """The whole report, without a newline at its end."""
    lines = [
        f"checkpoint {report.path}",
        f"query      {report.query_id or 'unknown'}",
        f"next       {report.next.says}",
    ]
    if report.findings:
        lines += ["", "findings", *(f"  {finding}" for finding in report.findings)]
    lines += ["", *_batches(report.batches), *_sources(report.sources, report.batches), *_confs(report.batches)]
    if any(CUT in line for line in lines):
        lines += ["", f"(What ends with {CUT} is cut: inspect --json and report.to_json() have all of it.)"]
    lines += ["", "state", *(line for operator in report.operators for line in _operator(operator))]
    if not report.operators:
        lines.append("  none: no stateful operator has run")
    return "\n".join(one_line(line.rstrip()) for line in lines)


def _batches(batches: Sequence[LoggedBatch]) -> Iterator[str]:
    yield plural(len(batches), "batch") if batches else "no batches"
    if len(batches) > SHOWN:
        yield f"  (the last {SHOWN})"
    rows = [("id", "offsets", "watermark", "time", "commit"), *map(batch_cells, batches[-SHOWN:])]
    if batches:
        yield from table(rows)


def batch_cells(batch: LoggedBatch) -> tuple[str, ...]:
    """id, offsets, watermark, time and commit of a batch, in words."""
    if batch.unreadable:
        offsets = f"{', '.join(batch.unreadable)} cannot be read"
    elif batch.offsets is None:
        offsets = "no entry"
    else:
        offsets = " | ".join(_offset_words(*of_source) for of_source in batch.offsets.items())
    commit = "missing" if not batch.committed else "done"
    if batch.next_watermark_ms:
        commit += f", next watermark {time_words(batch.next_watermark_ms)}"
    known = batch.offsets is not None
    return (
        str(batch.batch_id), clip(offsets, WIDTH), time_words(batch.watermark_ms) if known else "",
        time_words(batch.timestamp_ms) if known else "", commit,
    )


def _offset_words(source_id: str, offset: str | None) -> str:
    """`logOffset 6`, and for a named source, `clicks logOffset 6`."""
    words = "-" if offset is None else offset_words(offset)
    return words if canonical_number(source_id) is not None else f"{source_id} {words}"


def _sources(sources: Sequence[SourceLog], batches: Sequence[LoggedBatch]) -> Iterator[str]:
    yield ""
    yield "sources"
    for source in sources:
        files = "" if source.num_files is None else f", {plural(source.num_files, 'file')} in its log"
        yield f"  {source.source_id}  {source.kind}{files}"
        for name, entry in [] if source.kind == "files" else list(source.entries.items())[-SHOWN:]:
            yield f"     {name}: {clip(' '.join(entry.split()), WIDTH)}"
        for batch in batches[-SHOWN:]:
            if read := batch.files.get(source.source_id):
                names = ", ".join(short(path) for path in read[:SHOWN])
                yield f"     batch {batch.batch_id} read {plural(len(read), 'file')}: {clip(names, WIDTH)}"
        yield from _read(source, batches)


def _read(source: SourceLog, batches: Sequence[LoggedBatch]) -> Iterator[str]:
    """What the offsets of a source say of each batch; of batch 0, with the offsets where it began, if the source logs them."""
    ends = {batch.batch_id: (batch.offsets or {}).get(source.source_id) for batch in batches}
    ends[-1] = source.entries.get("0", "").partition("\n")[2] or None
    for batch in batches[-SHOWN:]:
        before, end = ends.get(batch.batch_id - 1), ends[batch.batch_id]
        if end is not None and end != before and (read := meaning(before, end)):
            yield f"     batch {batch.batch_id} read {clip(read, 2 * WIDTH)}"


def conf_changes(batches: Sequence[LoggedBatch]) -> list[str]:
    """`batch 3: spark.sql.shuffle.partitions 2 -> 4`, for every conf that differs between two successive batches."""
    return [
        f"batch {after.batch_id}: {key} {before.conf.get(key)} -> {after.conf.get(key)}"
        for before, after in pairwise(b for b in batches if b.conf)
        for key in sorted(before.conf.keys() | after.conf.keys()) if before.conf.get(key) != after.conf.get(key)
    ]


def _confs(batches: Sequence[LoggedBatch]) -> Iterator[str]:
    last = next((b for b in reversed(batches) if b.conf), None)
    if last is None:
        return
    yield ""
    yield f"confs of batch {last.batch_id} (a restart continues with these)"
    width = max(map(len, last.conf))
    yield from (f"  {key.ljust(width)}  {value}" for key, value in last.conf.items())
    yield from (f"  changed in {change}" for change in conf_changes(batches))


def _operator(operator: StoredOperator) -> Iterator[str]:
    partitions = "" if operator.num_partitions is None else f", {operator.num_partitions} partitions"
    yield f"  operator {operator.operator_id}  {operator.name or 'name not known'}{partitions}, {operator.provider}"
    for store in operator.stores:
        yield f"    store {store.name}: {store_words(store)}"
        for schemas in store.schemas:
            name = "" if schemas.name == store.name else f"{schemas.name} "
            yield f"      {name}key   {schema_words(schemas.key)}"
            yield f"      {name}value {schema_words(schemas.value)}"
        for partition in store.partitions[:SHOWN]:
            yield f"      partition {partition.partition}: {partition_words(partition)}"
            yield from (f"        {state_row_words(row)}" for row in partition.sample)
            if partition.num_keys and len(partition.sample) < partition.num_keys and partition.sample:
                yield f"        ... {partition.num_keys - len(partition.sample):,} more"
        if len(store.partitions) > SHOWN:
            yield f"      and {len(store.partitions) - SHOWN} more partitions"
        for reason, partitions_of in not_decoded(store).items():
            yield f"      partition {span(partitions_of)} not decoded: {reason}"


def not_decoded(store: Store) -> dict[str, list[int]]:
    """Reason why rows are not shown -> the partitions for which this is the reason."""
    reasons: dict[str, list[int]] = {}
    for partition in store.partitions:
        if partition.not_decoded:
            reasons.setdefault(partition.not_decoded, []).append(partition.partition)
    return reasons


def store_words(store: Store) -> str:
    """`5 keys, 2 partitions, 1.2 KiB of files`."""
    keys = "keys not known" if store.num_keys is None else plural(store.num_keys, "key")
    size = sum(p.file_bytes for p in store.partitions)
    return f"{keys}, {plural(len(store.partitions), 'partition')}, {size_words(size)} of files"


def partition_words(partition: StorePartition) -> str:
    """The versions on disk, and the size of the one that is shown."""
    versions = [v.version for v in partition.versions]
    kinds = Counter(kind for version in partition.versions for kind in version.files)
    on_disk = f"versions {span(versions)} ({', '.join(plural(n, kind) for kind, n in sorted(kinds.items()))}, " \
              f"{size_words(partition.file_bytes)})"
    if partition.version is None:
        return on_disk
    keys = "keys not known" if partition.num_keys is None else plural(partition.num_keys, "key")
    size = "" if partition.num_bytes is None else f", {size_words(partition.num_bytes)}"
    return f"{on_disk}; version {partition.version} has {keys}{size}"


def span(numbers: Sequence[int]) -> str:
    """`1-4, 6` for 1 2 3 4 6."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][1] + 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    words = [str(a) if a == b else f"{a}-{b}" for a, b in parts]
    return ", ".join(words if len(words) <= SHOWN else [*words[:SHOWN], f"and {len(words) - SHOWN} more"]) or "none"


def schema_words(schema: StructType) -> str:
    """`window struct<start:timestamp,end:timestamp>, k string`."""
    return clip(", ".join(f"{f.name} {f.dataType.simpleString()}" for f in schema.fields) or "(no columns)", 4 * WIDTH)


def size_words(size: int) -> str:
    """Bytes: 1234 -> "1.2 KiB"."""
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:,.1f} {unit}"
        size /= 1024  # type: ignore[assignment]
    return f"{size:,.1f} GiB"


def value_words(row: Any) -> str:
    """A decoded key or value in one line: `window=[2024-01-01 12:00, 12:05) k=a`."""
    return row_words(row) or "()"


def state_row_words(row: DecodedStateRow) -> str:
    """`word=be -> count=6`."""
    return f"{clip(value_words(row.key), WIDTH)} -> {clip(value_words(row.value), WIDTH)}"


def rows_to_text(rows: Sequence[DecodedStateRow]) -> str:
    """The rows of a state, one on each line."""
    return "\n".join(one_line(f"partition {row.partition}  {state_row_words(row)}") for row in rows) or "no rows"


def changes_to_text(changes: Sequence[StateChange]) -> str:
    """The differences between two versions, one on each line: `+` added, `~` changed, `-` removed."""
    lines = []
    for c in changes:
        values = " => ".join(clip(value_words(v), WIDTH) for v in (c.before, c.after) if v is not None)
        lines.append(one_line(f"{c.mark} partition {c.partition}  {clip(value_words(c.key), WIDTH)} -> {values}"))
    return "\n".join(lines) or "no difference"


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as lines, every column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths))
