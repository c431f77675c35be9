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

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from minispark_stream.inspection.contents import (
    Batch,
    Contents,
    Finding,
    Operator,
    Row,
    Store,
)
from minispark_stream.inspection.pictures import key_history, log_strip, version_strip
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
from minispark_stream.view.style import CSS, card, table
from minispark_stream.view.words import clip, plain, plural, short

BATCHES = 60  # the newest ones, in the table
PARTITIONS = 24  # of a store
FILES = 6  # of a batch


def page(report: Contents) -> str:
    """The report as a page that needs nothing else."""
    title = f"Checkpoint {report.path.rstrip('/').rsplit('/', 1)[-1]}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{say(title)}</title><style>'
        "body { margin:0 auto; padding:14px 22px 40px; max-width:1180px; }</style></head>"
        f"<body>{fragment(report)}</body></html>\n"
    )


def fragment(report: Contents) -> str:
    """The report as a part of a page, for Jupyter."""
    return (
        f"<div class='ms ck'><style>{CSS}{OWN_CSS}</style>"
        f"<h2>Checkpoint <code>{say(report.path)}</code></h2>"
        f"<p class='note'>query {say(report.query_id or 'unknown')} · {plural(len(report.batches), 'batch')} in the logs</p>"
        f"{_next(report)}{_findings(report.findings)}{_batches(report)}"
        f"{''.join(map(_operator, report.operators)) or card('State', NO_STATE)}{_confs(report.batches)}</div>"
    )


NO_STATE = "<p class='note'>None: no stateful operator has run.</p>"


def say(value: Any) -> str:
    """Any value, safe to show."""
    return escape(printable(str(value)))


# -- (1) --------------------------------------------------------------------------------------------------------


def _next(report: Contents) -> str:
    upcoming = report.next
    look = "fails" if upcoming.batch_id is None else "again" if upcoming.rerun else "goes-on"
    words, _, more = upcoming.says.partition(": ")
    return card(
        "What a restart does",
        f"<p class='did'>{say(words[:1].upper() + words[1:])}</p><p>{say(more)}.</p>{log_strip(report)}",
        look,
    )


# -- (2), (3) ---------------------------------------------------------------------------------------------------


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return card("Findings", "<p class='note'>None: every file that is needed is there and can be read.</p>")
    lines = "".join(
        f"<li><b class='{f.level}'>{f.level}</b> <code>{say(f.where)}</code> {say(f.says)}</li>" for f in findings
    )
    return card("Findings", f"<ul>{lines}</ul>")


def _batches(report: Contents) -> str:
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
        rows.append(("", (number, f"{offsets}{_files(batch)}", watermark, time, done)))
    earlier = len(report.batches) - BATCHES
    more = f"<p class='note'>and {plural(earlier, 'earlier batch')}</p>" if earlier > 0 else ""
    head = ("batch", "reads up to", "watermark (UTC)", "planned at (UTC)", "commit")
    return card("Batches", f"{sources}<div class='scroll'>{table(head, rows)}</div>{more}")


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
    return card(heading, properties + "".join(_store(store) for store in operator.stores))


def _store(store: Store) -> str:
    schemas = "".join(
        f"<p class='schema'><b>{say(s.name)}</b> <span class='key'>{say(schema_words(s.key))}</span> → "
        f"<span class='value'>{say(schema_words(s.value))}</span></p>" for s in store.schemas
    ) or f"<p class='schema'><b>{say(store.name)}</b> schema not known</p>"
    rows = [
        ("", (
            str(p.partition), version_strip(p), say(span([v.version for v in p.versions])), _number(p.version),
            _number(p.num_keys), "" if p.num_bytes is None else size_words(p.num_bytes), size_words(p.file_bytes),
        ))
        for p in store.partitions[:PARTITIONS]
    ]
    head = ("partition", "on disk", "versions", "shown", "keys", "bytes", "files")
    more = len(store.partitions) - PARTITIONS
    hidden = f"<p class='note'>and {plural(more, 'more partition')}</p>" if more > 0 else ""
    reasons = "".join(
        f"<p class='note'>partition {span(of)} is not decoded: {say(reason)}</p>" for reason, of in not_decoded(store).items()
    )
    return (
        f"{schemas}<p class='note'>{say(store_words(store))}</p>{key_history(store.history)}"
        f"<div class='scroll'>{table(head, rows)}</div>{hidden}{reasons}{_sample(store)}"
    )


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _sample(store: Store) -> str:
    rows = [(p.partition, row) for p in store.partitions[:PARTITIONS] for row in p.sample]
    if not rows:
        return ""
    keys, values = _columns(row.key for _, row in rows), _columns(row.value for _, row in rows)
    head = ["partition", *(f"<span class='key'>{say(c)}</span>" for c in keys)]
    head += [f"<span class='value'>{say(c)}</span>" for c in values]
    lines = [("", [str(p), *_cells(row.key, keys), *_cells(row.value, values)]) for p, row in rows]
    return f"<details open><summary>some rows</summary><div class='scroll'>{table(head, lines)}</div></details>"


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
    rows = [("", (f"<code>{say(key)}</code>", say(value))) for key, value in last.conf.items()]
    summary = f"<summary>confs of batch {last.batch_id}: a restart goes on with these, whatever the session says</summary>"
    return f"<section class='card'>{changes}<details>{summary}{table(('conf', 'value'), rows)}</details></section>"


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
