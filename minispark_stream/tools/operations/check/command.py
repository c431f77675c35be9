"""`python -m minispark_stream check CHECKPOINT --query module:function`: does new code fit a checkpoint, and is it right?

    check CHECKPOINT --query jobs.visits:query                            what Spark would refuse, and what the files show
    check CHECKPOINT --query jobs.visits:query --before jobs.old:query    the same, and each difference of the two queries
    check CHECKPOINT --query jobs.visits:query --conf spark.sql.ansi.enabled=false --mode update
    rules --changes                                                       what each kind of difference means

The function gets a session, and returns a DataFrame or a DataStreamWriter. Modules are looked for in the current folder, too.

The exit code is 0 if the result is right or only new rows change, 2 if old state is carried on or the result would be wrong,
1 if Spark would refuse the query, and 3 if this cannot be told.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from dataclasses import asdict
from typing import Any

from minispark_stream.engine.checkpointing.errors import PySparkException
from minispark_stream.tools.inspection.command import key_and_value
from minispark_stream.tools.operations.check.answer import SAID
from minispark_stream.tools.operations.check.rules import rules


def run(args: argparse.Namespace) -> int:
    """Returns the exit code."""
    from minispark_stream.session import MiniSparkSession
    from minispark_stream.tools.operations.check.check import check

    try:
        build, before = function(args.query), function(args.before) if args.before else None
        confs = dict(key_and_value(text) for text in args.conf)
        spark = MiniSparkSession.builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        answer = check(
            spark, args.checkpoint, build, before, output_mode=args.mode, confs=confs, sink=args.sink, trial=args.trial,
            max_bytes=args.max_bytes,
        )
    except (ValueError, OSError, PySparkException) as e:
        print(f"check: {' '.join(str(e).split())}", file=sys.stderr)
        return 3
    print(answer.to_json(indent=2) if args.json else answer)
    return answer.exit_code


def function(name: str) -> Any:
    """`module:function`. Raises ValueError: there is no such function, or its module cannot be imported."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ValueError(f"{name!r} is not of the form module:function")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as e:
        raise ValueError(f"{name} cannot be imported: {e}") from e
    if not callable(found):
        raise ValueError(f"{name} is not a function")
    return found


def show_rules(as_json: bool) -> int:
    """Print the table of rules."""
    if as_json:
        print(json.dumps([asdict(rule) for rule in rules().values()], indent=2))
        return 0
    for rule in rules().values():
        print(f"{rule.id}: {SAID[rule.verdict]}: {rule.says}")
    return 0
