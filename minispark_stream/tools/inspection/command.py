"""`python -m minispark_stream inspect CHECKPOINT`: the report, or an answer about its state; or the folder of a file sink.

    inspect CHECKPOINT                                   the whole report as text
    inspect CHECKPOINT --json                            the same as JSON
    inspect CHECKPOINT --html out.html                   the same as a page
    inspect CHECKPOINT --partition 1 --version 7         the rows of a version of the state
    inspect CHECKPOINT --key '{"word": "be"}'            the rows with a key (or --key be: the first key column)
    inspect CHECKPOINT --diff 6 7                        what batch 6 changed
    inspect OUT --checkpoint CHECKPOINT                  the folder that a file sink wrote, and whether the two fit
    inspect CHECKPOINT --sink OUT                        the same

The exit code of a report, and of `why CHECKPOINT`, is 0 if nothing is wrong, 1 if a restart fails, 2 if there is something to
look at, and 3 if this cannot be told. Of the folder of a file sink, it is 1 if a reader or the query fails. It is also 3 if the
checkpoint, or the state that was asked for, cannot be read; one line on stderr then says why.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from typing import Any

from minispark_stream.engine.checkpointing.errors import PySparkException
from minispark_stream.tools.inspection.checkpoint import inspect
from minispark_stream.tools.inspection.report import CheckpointReport, as_json
from minispark_stream.tools.inspection.sink_folder import inspect_sink, is_sink_folder
from minispark_stream.tools.inspection.text import changes_to_text, rows_to_text


def run(args: argparse.Namespace) -> int:
    """Returns the exit code."""
    try:
        if args.sink is not None:
            args.checkpoint, args.of_sink = args.sink, args.checkpoint
        if args.of_sink is not None or is_sink_folder(args.checkpoint):
            return _sink(args)
        report = inspect(args.checkpoint, max_bytes=args.max_bytes)
        answer = f"wrote {report.to_html(args.html)}" if args.html else _answer(report, args)
    except (ValueError, OSError, PySparkException) as e:
        print(f"inspect: {' '.join(str(e).split())}", file=sys.stderr)
        return 3
    print(answer)
    if report.next.refused is not None and not (args.json or args.html or _asks_for_rows(args)):
        print(f"\nTo see what would mend it, and what that costs: minispark_stream repair {shlex.quote(args.checkpoint)}")
    return 0 if _asks_for_rows(args) and not args.html else report.exit_code


def _sink(args: argparse.Namespace) -> int:
    if args.html or _asks_for_rows(args):
        raise ValueError(f"{args.checkpoint} is taken for the folder of a file sink, which has no state and no page")
    report = inspect_sink(args.checkpoint, checkpoint=args.of_sink, max_bytes=args.max_bytes)
    print(report.to_json(indent=2) if args.json else report)
    return report.exit_code


def _answer(report: CheckpointReport, args: argparse.Namespace) -> str:
    where: dict[str, Any] = {"operator": args.operator or 0, "store": args.store, "partition": args.partition}
    if args.diff:
        changes = report.diff(*args.diff, **where)
        return _json(changes) if args.json else changes_to_text(changes)
    if not _asks_for_rows(args):
        return report.to_json(indent=2) if args.json else str(report)
    if args.key is not None:
        rows = report.find(parsed_key(args.key), **where, version=args.version)
    else:
        rows = report.rows(**where, version=args.version, limit=args.rows)
    return _json(rows) if args.json else rows_to_text(rows)


def _asks_for_rows(args: argparse.Namespace) -> bool:
    return any(asked is not None for asked in (args.diff, args.key, args.operator, args.store, args.partition, args.version))


def _json(value: Any) -> str:
    return json.dumps(as_json(value), ensure_ascii=False, indent=2)


def key_and_value(text: str) -> tuple[str, str]:
    """Of an option such as `--conf KEY=VALUE`. Raises ValueError: it has another form."""
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not of the form KEY=VALUE")
    return key, value


def parsed_key(text: str) -> Any:
    """The value of the text if it is JSON, and otherwise the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
