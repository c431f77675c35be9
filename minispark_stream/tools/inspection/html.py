"""A report as HTML: one page that needs nothing else, or a fragment for Jupyter.

1. What a restart does, above a strip of both logs: a box for each batch, filled if the entry exists.
2. The findings, the worst first.
3. The batches: what each one read, its watermark and time, and its commit.
4. The state: for each store, its schema, the number of keys over the versions as a line, a strip of the versions on disk for
   each partition (a tall mark is a snapshot), and some rows.
5. On the page, a slider over the newest versions of each store (versions.py), with what each of them changed.
6. The confs, which can be unfolded.

Everything that comes from a file is escaped here. The page has a script of its own (page.js); a fragment in Jupyter has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from string import Template
from typing import Any

from minispark_stream.lens.view.style import CSS, card, file_beside, table
from minispark_stream.lens.view.words import clip, plain, plural, printable, short
from minispark_stream.tools.inspection.contents import (
    Contents,
    DecodedRow,
    Finding,
    LoggedBatch,
    StateChange,
    Store,
    StoredOperator,
)
from minispark_stream.tools.inspection.pictures import key_history, log_strip, version_strip
from minispark_stream.tools.inspection.text import (
    batch_cells,
    conf_changes,
    not_decoded,
    schema_words,
    size_words,
    span,
    store_words,
)
from minispark_stream.tools.inspection.versions import ReadVersion, VersionRows, read_versions

BATCHES = 60  # the newest ones, in the table
PARTITIONS = 24  # of a store
FILES = 6  # of a batch
LOOKS = {"+": "add", "~": "change", "-": "remove", "": "same"}
OWN_CSS = file_beside(__file__, "page.css")

VersionsByStore = Mapping[tuple[int, str], Sequence[VersionRows]]


def page(report: Contents, read: ReadVersion) -> str:
    """The report as a page that needs nothing else.

    Args:
        read: returns the rows of a version of a state, as `CheckpointReport.rows` does.
    """
    return Template(file_beside(__file__, "page.html")).substitute(
        title=say(f"Checkpoint {report.path.rstrip('/').rsplit('/', 1)[-1]}"),
        heading=f"Checkpoint <code>{say(report.path)}</code>",
        css=CSS + OWN_CSS,
        body=_parts(report, read_versions(report, read)),
        script=file_beside(__file__, "page.js"),
    )


def fragment(report: Contents) -> str:
    """The report as a part of a page, for Jupyter."""
    return (
        f"<div class='ms ck'><style>{CSS}{OWN_CSS}</style><h2>Checkpoint <code>{say(report.path)}</code></h2>"
        f"{_parts(report, {})}</div>"
    )


def _parts(report: Contents, versions: VersionsByStore) -> str:
    state = "".join(_operator(operator, versions) for operator in report.operators)
    return (
        f"<h2 class='note'>query {say(report.query_id or 'unknown')} · {plural(len(report.batches), 'batch')} in the logs</h2>"
        f"{_next(report)}{_findings(report.findings)}{_batches(report)}{state or card('State', NO_STATE)}"
        f"{_confs(report.batches)}"
    )


NO_STATE = "<p class='note'>None: no stateful operator has run.</p>"


def say(value: Any) -> str:
    """Any value as text, escaped."""
    return escape(printable(str(value)))


# -- (1) --------------------------------------------------------------------------------------------------------


def _next(report: Contents) -> str:
    upcoming = report.next
    look = "fails" if upcoming.batch_id is None else "again" if upcoming.rerun else "goes-on"
    words, _, more = upcoming.says.partition(": ")
    return card(
        "What a restart does",
        f"<p class='did'>{say(_sentence(words))}</p><p>{say(_sentence(more))}</p>{log_strip(report)}",
        look,
    )


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


# -- (2), (3) ---------------------------------------------------------------------------------------------------


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return card("Findings", "<p class='note'>None: every file that is needed is there and can be read.</p>")
    lines = "".join(
        f"<li><b class='{f.level}'>{f.level}</b> <code>{say(f.where)}</code> {say(f.says)}"
        + (f" <code>minispark_stream {say(f.command)}</code></li>" if f.command else "</li>") for f in findings
    )
    return card("Findings", f"<ul>{lines}</ul>")


def _batches(report: Contents) -> str:
    if not report.batches:
        return ""
    sources = "".join(
        f"<p class='note'>source {say(s.source_id)}: {say(s.kind)}"
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
    return card("Batches", f"{sources}<div class='scroll' tabindex='0'>{table(head, rows)}</div>{more}")


def _files(batch: LoggedBatch) -> str:
    names = [short(path) for of_source in batch.files.values() for path in of_source or ()]
    if not names:
        return ""
    more = f" and {len(names) - FILES} more" if len(names) > FILES else ""
    return f"<br><span class='note'>{plural(len(names), 'file')}: {say(', '.join(names[:FILES]) + more)}</span>"


# -- (4) --------------------------------------------------------------------------------------------------------


def _operator(operator: StoredOperator, versions: VersionsByStore) -> str:
    name = say(operator.name or "name not known")
    partitions = "" if operator.num_partitions is None else f" · {plural(operator.num_partitions, 'partition')}"
    properties = f"<p class='note'>{say(clip(plain(operator.properties), 400))}</p>" if operator.properties else ""
    heading = f"State of operator {operator.operator_id}: {name} <small>{operator.provider}{partitions}</small>"
    stores = (_store(store, versions.get((operator.operator_id, store.name), ())) for store in operator.stores)
    return card(heading, properties + "".join(stores))


def _store(store: Store, versions: Sequence[VersionRows]) -> str:
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
        f"<div class='scroll' tabindex='0'>{table(head, rows)}</div>{hidden}{reasons}"
        f"{_slider(versions) if versions else _sample(store)}"
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
    return f"<details open><summary>some rows</summary><div class='scroll' tabindex='0'>{table(head, lines)}</div></details>"


def _slider(versions: Sequence[VersionRows]) -> str:  # (5)
    """The rows of one version at a time; page.js shows the one that the slider is at."""
    tables = "".join(
        f"<div data-version='{say(v.says)}'{' hidden' if v is not versions[-1] else ''}>{_rows(v.rows)}</div>" for v in versions
    )
    last = len(versions) - 1
    return (
        f"<div class='store-versions'><div class='slide'><input type='range' min='0' max='{last}' value='{last}' "
        f"aria-label='version of the state'><output aria-live='polite'>{say(versions[-1].says)}</output></div>"
        f"<div class='scroll rows' tabindex='0' role='region' aria-label='rows of the state'>{tables}</div></div>"
    )


def _rows(rows: Sequence[StateChange]) -> str:
    if not rows:
        return "<p class='note'>No rows.</p>"
    lines = []
    for row in rows:
        before, after = ("" if value is None else say(clip(plain(value), 160)) for value in (row.before, row.after))
        cells = [row.mark, str(row.partition), say(clip(plain(row.key), 160)), before, after]
        lines.append((f" class='{LOOKS[row.mark]}'", cells))
    return table(("", "partition", "<span class='key'>key</span>", "before", "<span class='value'>value</span>"), lines)


def _columns(rows: Iterable[DecodedRow]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))[:30]


def _cells(row: DecodedRow, columns: Sequence[str]) -> list[str]:
    return [say(clip(plain(row.get(c)), 80)) for c in columns]


# -- (6) --------------------------------------------------------------------------------------------------------


def _confs(batches: Sequence[LoggedBatch]) -> str:
    last = next((b for b in reversed(batches) if b.conf), None)
    if last is None:
        return ""
    changes = "".join(f"<p class='bad'>changed in {say(change)}</p>" for change in conf_changes(batches)[-20:])
    rows = [("", (f"<code>{say(key)}</code>", say(value))) for key, value in last.conf.items()]
    summary = f"<summary>confs of batch {last.batch_id}: a restart continues with these, whatever the session says</summary>"
    return f"<section class='card'>{changes}<details>{summary}{table(('conf', 'value'), rows)}</details></section>"
