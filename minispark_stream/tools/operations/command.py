"""`python -m minispark_stream rollback CHECKPOINT N`: the plan, or with `--to` or `--in-place` the rollback itself.

    rollback CHECKPOINT 3                               what would be removed and kept; nothing is changed
    rollback CHECKPOINT 3 --sink OUT --to COPY          a checkpoint that has gone back, beside this one
    rollback CHECKPOINT 3 --in-place --backup DIR       this checkpoint goes back
    rollback CHECKPOINT 3 --json                        the same as JSON

The exit code is 0; it is 1 if the batch cannot be reached, or the checkpoint cannot be read, and one line on stderr says why.
"""

from __future__ import annotations

import argparse
import json
import sys

from minispark_stream.engine.checkpointing.errors import PySparkException
from minispark_stream.tools.inspection.report import as_json
from minispark_stream.tools.operations.rollback import Rollback, rollback


def run(args: argparse.Namespace) -> int:
    """Returns the exit code."""
    try:
        answer = rollback(
            args.checkpoint, args.batch, to=args.to, sink=args.sink, in_place=args.in_place, backup=args.backup,
            max_bytes=args.max_bytes,
        )
    except (ValueError, OSError, PySparkException) as e:
        print(f"rollback: {' '.join(str(e).split())}", file=sys.stderr)
        return 1
    print(_json(answer) if args.json else answer)
    return 0


def _json(answer: Rollback) -> str:
    plan = as_json(answer.plan)
    shown = {"checkpoint": answer.checkpoint, "sink": answer.sink, "next_batch": answer.next_batch, "done": answer.done, **plan}
    return json.dumps(shown, ensure_ascii=False, indent=2)
