"""A report as HTML: one page that needs nothing else, or a fragment for Jupyter.

1. What a restart does, over a strip of both logs: a box for each batch, filled where the entry is there.
2. Findings, worst first.
3. Batches: what each one read, its watermark and time, its commit.
4. State: for each store its schema, the number of keys over the versions as a line, a strip of the versions on disk for
   each partition (a tall mark is a snapshot), and some rows.
5. The confs, folded away.

Everything that comes from a file is escaped here, and there is no script in the page.

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from minispark_stream.inspection.report import (
    Batch,
    CheckpointReport,
    Finding,
    Operator,
    Partition,
    Row,
    Store,
)
from minispark_stream.inspection.text import (
    batch_cells,
    conf_changes,
    not_decoded,
    schema_words,
    size_words,
    span,
    store_words,
)
from minispark_stream.inspection.values import printable
from minispark_stream.view.panels import CSS
from minispark_stream.view.words import clip, plain, plural, short

BATCHES = 60  # the newest ones, in the table
STRIP = 24  # the newest ones, in the strip of the logs
PARTITIONS = 24  # of a store
FILES = 6  # of a batch


def page(report: CheckpointReport) -> str:
    title = f"Checkpoint {report.path.rstrip('/').rsplit('/', 1)[-1]}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{say(title)}</title><style>'
        "body { margin:0 auto; padding:14px 22px 40px; max-width:1180px; }</style></head>"
        f"<body>{fragment(report)}</body></html>\n"
    )


def fragment(report: CheckpointReport) -> str:
    return (
        f"<div class='ms ck'><style>{CSS}{OWN_CSS}</style>"
        f"<h2>Checkpoint <code>{say(report.path)}</code></h2>"
        f"<p class='note'>query {say(report.query_id or 'unknown')} · {plural(len(report.batches), 'batch')} in the logs</p>"
        f"{_next(report)}{_findings(report.findings)}{_batches(report)}"
        f"{''.join(map(_operator, report.operators)) or _card('State', NO_STATE)}{_confs(report.batches)}</div>"
    )


NO_STATE = "<p class='note'>None: no stateful operator has run.</p>"


def say(value: Any) -> str:
    """Any value, safe to show."""
    return escape(printable(str(value)))


def _card(heading: str, body: str, look: str = "") -> str:
    return f"<section class='card {look}'><h3>{heading}</h3>{body}</section>"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], look: str = "") -> str:
    """A table; the cells are HTML."""
    heads = "".join(f"<th>{cell}</th>" for cell in head)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>" for cells in rows)
    return f"<table class='{look}'><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


# -- (1) --------------------------------------------------------------------------------------------------------


def _next(report: CheckpointReport) -> str:
    upcoming = report.next
    look = "fails" if upcoming.batch_id is None else "again" if upcoming.rerun else "goes-on"
    words, _, more = upcoming.says.partition(": ")
    return _card(
        "What a restart does",
        f"<p class='did'>{say(words[:1].upper() + words[1:])}</p><p>{say(more)}.</p>{_strip(report)}",
        look,
    )


def _strip(report: CheckpointReport) -> str:
    """Both logs as two rows of boxes, one column for each batch."""
    shown = report.batches[-STRIP:]
    if not shown:
        return ""
    upcoming = report.next.batch_id
    ids = [b.batch_id for b in shown] + ([upcoming] if upcoming is not None and upcoming > shown[-1].batch_id else [])
    step, left = 42, 74
    boxes = [f"<text x='0' y='{y}'>{name}/</text>" for name, y in (("offsets", 19), ("commits", 47))]
    by_id = {b.batch_id: b for b in shown}
    for i, batch_id in enumerate(ids):
        batch = by_id.get(batch_id)
        x = left + i * step
        for name, y in (("offsets", 4), ("commits", 32)):
            there = batch is not None and (batch.offsets is not None if name == "offsets" else batch.committed)
            broken = batch is not None and f"{name}/{batch_id}" in batch.unreadable
            look = "broken" if broken else "there" if there else "lacks"
            label = batch_id if there or broken else ""
            boxes.append(f"<rect class='{look}' x='{x}' y='{y}' width='{step - 6}' height='22' rx='4'/>"
                         f"<text class='{look}' x='{x + step / 2 - 3}' y='{y + 15}' text-anchor='middle'>{label}</text>")
        if batch_id == upcoming:
            boxes.append(f"<text class='next' x='{x + step / 2 - 3}' y='72' text-anchor='middle'>▲ next</text>")
    width = left + len(ids) * step + 4
    return f"<svg class='strip' viewBox='0 0 {width} 78' width='{width}' height='78' role='img'>{''.join(boxes)}</svg>"


# -- (2), (3) ---------------------------------------------------------------------------------------------------


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return _card("Findings", "<p class='note'>None: every file that is needed is there and can be read.</p>")
    lines = "".join(
        f"<li><b class='{f.level}'>{f.level}</b> <code>{say(f.where)}</code> {say(f.says)}</li>" for f in findings
    )
    return _card("Findings", f"<ul>{lines}</ul>")


def _batches(report: CheckpointReport) -> str:
    if not report.batches:
        return ""
    sources = "".join(
        f"<p class='note'>source {s.ordinal}: {say(s.kind)}"
        f"{'' if s.num_files is None else ', ' + plural(s.num_files, 'file') + ' in its log'}"
        f"{'' if s.latest_offset is None else ', now at <code>' + say(clip(s.latest_offset, 120)) + '</code>'}</p>"
        for s in report.sources
    )
    rows = []
    for batch in reversed(report.batches[-BATCHES:]):
        number, offsets, watermark, time, commit = map(say, batch_cells(batch))
        done = f"<span class='ok'>{commit}</span>" if batch.committed else f"<span class='bad'>{commit}</span>"
        rows.append((number, f"{offsets}{_files(batch)}", watermark, time, done))
    earlier = len(report.batches) - BATCHES
    more = f"<p class='note'>and {plural(earlier, 'earlier batch')}</p>" if earlier > 0 else ""
    head = ("batch", "reads up to", "watermark (UTC)", "planned at (UTC)", "commit")
    return _card("Batches", f"{sources}<div class='scroll'>{_table(head, rows)}</div>{more}")


def _files(batch: Batch) -> str:
    names = [short(path) for of_source in batch.files for path in of_source or ()]
    if not names:
        return ""
    more = f" and {len(names) - FILES} more" if len(names) > FILES else ""
    return f"<br><span class='note'>{plural(len(names), 'file')}: {say(', '.join(names[:FILES]) + more)}</span>"


# -- (4) --------------------------------------------------------------------------------------------------------


def _operator(operator: Operator) -> str:
    name = say(operator.name or "name not known")
    partitions = "" if operator.num_partitions is None else f" · {plural(operator.num_partitions, 'partition')}"
    properties = f"<p class='note'>{say(clip(plain(operator.properties), 400))}</p>" if operator.properties else ""
    heading = f"State of operator {operator.operator_id}: {name} <small>{operator.provider}{partitions}</small>"
    return _card(heading, properties + "".join(_store(store) for store in operator.stores))


def _store(store: Store) -> str:
    schemas = "".join(
        f"<p class='schema'><b>{say(s.name)}</b> <span class='key'>{say(schema_words(s.key))}</span> → "
        f"<span class='value'>{say(schema_words(s.value))}</span></p>" for s in store.schemas
    ) or f"<p class='schema'><b>{say(store.name)}</b> schema not known</p>"
    rows = [
        (
            str(p.partition), _version_strip(p), say(span([v.version for v in p.versions])), _number(p.version),
            _number(p.num_keys), "" if p.num_bytes is None else size_words(p.num_bytes), size_words(p.file_bytes),
        )
        for p in store.partitions[:PARTITIONS]
    ]
    head = ("partition", "on disk", "versions", "shown", "keys", "bytes", "files")
    more = len(store.partitions) - PARTITIONS
    hidden = f"<p class='note'>and {plural(more, 'more partition')}</p>" if more > 0 else ""
    reasons = "".join(
        f"<p class='note'>partition {span(of)} is not decoded: {say(reason)}</p>" for reason, of in not_decoded(store).items()
    )
    return (
        f"{schemas}<p class='note'>{say(store_words(store))}</p>{_history(store.history)}"
        f"<div class='scroll'>{_table(head, rows, 'numbers')}</div>{hidden}{reasons}{_sample(store)}"
    )


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _version_strip(partition: Partition) -> str:
    """A mark for each of the newest versions: short for a delta, tall for a snapshot."""
    shown = partition.versions[-60:]
    first = shown[0].version if shown else 0
    marks = []
    for version in shown:
        x = (version.version - first) * 5
        if x > 1500:
            break
        tall = any(kind in version.files for kind in ("snapshot", "zip"))
        unknown = version.num_keys is None and any(kind in version.files for kind in ("delta", "snapshot"))
        look = "unknown" if unknown else "tall" if tall else ""
        title = f"version {version.version}: {', '.join(f'{kind} {size:,} bytes' for kind, size in version.files.items())}"
        y, height = (1, 15) if tall else (6, 10)
        marks.append(f"<rect class='{look}' x='{x}' y='{y}' width='4' height='{height}'><title>{say(title)}</title></rect>")
    width = max([5, *(min(v.version - first, 300) * 5 + 5 for v in shown)])
    return f"<svg class='versions' width='{width}' height='17'>{''.join(marks)}</svg>"


def _history(history: Mapping[int, int]) -> str:
    """The number of keys over the versions, as a line."""
    if len(history) < 2:
        return ""
    versions, keys = list(history), list(history.values())
    width, height, top = 520, 64, max(max(keys), 1)
    span_of = max(versions[-1] - versions[0], 1)
    points = [(44 + (v - versions[0]) / span_of * width, 6 + height - k / top * height) for v, k in history.items()]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{points[0][0]:.1f},{6 + height} {line} {points[-1][0]:.1f},{6 + height}"
    return (
        f"<svg class='history' viewBox='0 0 {width + 60} {height + 26}' width='{width + 60}' height='{height + 26}' role='img'>"
        f"<polygon points='{area}'/><polyline points='{line}'/>"
        f"<text x='38' y='14' text-anchor='end'>{top:,}</text><text x='38' y='{height + 6}' text-anchor='end'>0</text>"
        f"<text x='44' y='{height + 22}'>version {versions[0]}</text>"
        f"<text x='{44 + width}' y='{height + 22}' text-anchor='end'>{versions[-1]}</text>"
        f"<text class='label' x='{44 + width / 2}' y='{height + 22}' text-anchor='middle'>keys in all partitions</text></svg>"
    )


def _sample(store: Store) -> str:
    rows = [(p.partition, row) for p in store.partitions[:PARTITIONS] for row in p.sample]
    if not rows:
        return ""
    keys, values = _columns(row.key for _, row in rows), _columns(row.value for _, row in rows)
    head = ["partition", *(f"<span class='key'>{say(c)}</span>" for c in keys)]
    head += [f"<span class='value'>{say(c)}</span>" for c in values]
    lines = [[str(p), *_cells(row.key, keys), *_cells(row.value, values)] for p, row in rows]
    return f"<details open><summary>some rows</summary><div class='scroll'>{_table(head, lines)}</div></details>"


def _columns(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))[:30]


def _cells(row: Row, columns: Sequence[str]) -> list[str]:
    return [say(clip(plain(row.get(c)) if row.get(c) is not None else "null", 80)) for c in columns]


# -- (5) --------------------------------------------------------------------------------------------------------


def _confs(batches: Sequence[Batch]) -> str:
    last = next((b for b in reversed(batches) if b.conf), None)
    if last is None:
        return ""
    changes = "".join(f"<p class='bad'>changed in {say(change)}</p>" for change in conf_changes(batches)[-20:])
    rows = [(f"<code>{say(key)}</code>", say(value)) for key, value in last.conf.items()]
    summary = f"<summary>confs of batch {last.batch_id}: a restart goes on with these, whatever the session says</summary>"
    return f"<section class='card'>{changes}<details>{summary}{_table(('conf', 'value'), rows)}</details></section>"


OWN_CSS = """
.ck h2 { font-size:18px; overflow-wrap:anywhere; } .ck h2 code { font-size:15px; } .ck .card { margin-top:10px; }
.ck table { table-layout:auto !important; }
.ck .card h3 small { color:#5b6875; } .ck .goes-on { border-left:6px solid #4d8a5f; background:#f4faf5; }
.ck .again { border-left:6px solid #e6a817; background:#fff8e6; }
.ck .fails { border-left:6px solid #b3261e; background:#fff0ef; }
.ck ul { margin:0; padding-left:2px; list-style:none; } .ck li { padding:2px 0; overflow-wrap:anywhere; }
.ck li b { display:inline-block; min-width:62px; text-align:center; border-radius:9px; padding:0 8px; margin-right:6px;
  font-size:12px; font-weight:600; background:#edf0f3; }
.ck li b.error { background:#b3261e; color:#fff; } .ck li b.warning { background:#ffe09a; }
.ck .ok { color:#2f7a45; } .ck .bad { color:#b3261e; font-weight:600; } .ck .scroll { max-height:430px; overflow:auto; }
.ck .schema { margin-top:8px; overflow-wrap:anywhere; } .ck .key { color:#245482; } .ck .value { color:#8a5a00; }
.ck svg text { font:12px system-ui,sans-serif; fill:#5b6875; } .ck svg.strip { max-width:100%; height:auto; margin-top:6px; }
.ck svg.strip rect.there { fill:#dcefe1; stroke:#4d8a5f; } .ck svg.strip text.there { fill:#1d2733; }
.ck svg.strip rect.lacks { fill:none; stroke:#c3ccd6; stroke-dasharray:4 3; }
.ck svg.strip rect.broken { fill:#ffd9d6; stroke:#b3261e; } .ck svg.strip text.next { fill:#a86a00; font-weight:600; }
.ck svg.history { max-width:100%; height:auto; display:block; margin:4px 0; }
.ck svg.history polygon { fill:#e4eef8; } .ck svg.history polyline { fill:none; stroke:#245482; stroke-width:2; }
.ck svg.versions { display:block; max-width:340px; } .ck svg.versions rect { fill:#9bb8d3; }
.ck svg.versions rect.tall { fill:#245482; } .ck svg.versions rect.unknown { fill:#dd6b62; }
"""
