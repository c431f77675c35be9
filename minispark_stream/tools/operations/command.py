"""The commands `rollback`, `repair`, `repartition` and `state`: what would be done to a checkpoint, or the deed; and `nulls`.

    rollback CHECKPOINT 3                               what would be removed and kept; nothing is changed
    rollback CHECKPOINT 3 --sink OUT --to COPY          a checkpoint that has gone back, beside this one
    rollback CHECKPOINT 3 --in-place --backup DIR       this checkpoint goes back
    rollback CHECKPOINT 3 --json                        the same as JSON
    repair CHECKPOINT                                   what keeps a query from starting, and what would mend it
    repair CHECKPOINT --to COPY                         a checkpoint beside this one on which the query can start
    repair CHECKPOINT --skip-batch 7 --to COPY          the same without the rows of batch 7, which fails in each run
    repartition CHECKPOINT 8                            how many rows each of 8 partitions of the state would have
    repartition CHECKPOINT 8 --to COPY                  a checkpoint beside this one whose state has 8 partitions
    state CHECKPOINT --delete KEY                       the rows that would go from the state; nothing is changed
    state CHECKPOINT --delete KEY --to COPY             a checkpoint beside this one without them
    state CHECKPOINT --delete --where "count > 100"     the same for all rows for which this holds
    state CHECKPOINT --set '{"count": 0}' --key KEY     other values for the rows with this key
    state CHECKPOINT --add rows.jsonl                   new rows, each a line of JSON with the columns of key and value
    nulls PATH --schema "id long"                       which values in these files the reader turns into null

The exit code is 0; it is 1 if it cannot be done, or the checkpoint cannot be read, and one line on stderr says why. That of
`nulls` is 2 if there is something to look at, and 3 if this cannot be told.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from minispark_stream.engine.checkpointing.errors import PySparkException
from minispark_stream.tools.inspection.command import key_and_value, parsed_key
from minispark_stream.tools.inspection.report import as_json
from minispark_stream.tools.operations.became_null import became_null
from minispark_stream.tools.operations.edit_state import StateEdit, add_rows, delete_rows, set_values
from minispark_stream.tools.operations.repair import repair
from minispark_stream.tools.operations.repartition import repartition
from minispark_stream.tools.operations.rollback import Rollback, rollback


def run(args: argparse.Namespace) -> int:
    """Returns the exit code."""
    try:
        answer = rollback(
            args.checkpoint, args.batch, to=args.to, sink=args.sink, in_place=args.in_place, backup=args.backup,
            new_id=args.new_id, max_bytes=args.max_bytes,
        )
    except (ValueError, OSError, PySparkException) as e:
        print(f"rollback: {' '.join(str(e).split())}", file=sys.stderr)
        return 1
    print(_json(answer) if args.json else answer)
    return 0


def run_repair(args: argparse.Namespace) -> int:
    """Returns the exit code."""
    try:
        answer = repair(
            args.checkpoint, to=args.to, sink=args.sink, query_id=args.query_id, rebuild_source_log=args.rebuild_source_log,
            skip_batch=args.skip_batch, max_bytes=args.max_bytes,
        )
    except (ValueError, OSError, PySparkException) as e:
        print(f"repair: {' '.join(str(e).split())}", file=sys.stderr)
        return 1
    print(json.dumps(as_json(answer), ensure_ascii=False, indent=2) if args.json else answer)
    return 0


def run_repartition(args: argparse.Namespace) -> int:
    """Returns the exit code."""
    try:
        answer = repartition(args.checkpoint, args.partitions, max_bytes=args.max_bytes)
        if args.to:
            spark = _session() if answer.by_spark else None
            answer = repartition(args.checkpoint, args.partitions, to=args.to, spark=spark, max_bytes=args.max_bytes)
    except (ValueError, OSError, PySparkException) as e:
        print(f"repartition: {' '.join(str(e).split())}", file=sys.stderr)
        return 1
    print(json.dumps(as_json(answer), ensure_ascii=False, indent=2) if args.json else answer)
    return 0


def _session() -> Any:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def run_state(args: argparse.Namespace) -> int:
    """Returns the exit code."""
    try:
        answer = _edited(args)
    except (ValueError, OSError, PySparkException) as e:
        print(f"state: {' '.join(str(e).split())}", file=sys.stderr)
        return 1
    print(json.dumps(as_json(answer), ensure_ascii=False, indent=2) if args.json else answer)
    return 0


def run_nulls(args: argparse.Namespace) -> int:
    """Returns the exit code."""
    try:
        options = dict(key_and_value(text) for text in args.option)
        answer = became_null(_session(), args.path, args.schema, args.format, **options)
    except (ValueError, OSError, PySparkException) as e:
        print(f"nulls: {' '.join(str(e).split())}", file=sys.stderr)
        return 3
    print(json.dumps(as_json(answer), ensure_ascii=False, indent=2) if args.json else answer)
    return answer.exit_code


def _edited(args: argparse.Namespace) -> StateEdit:
    more: dict[str, Any] = {"operator": args.operator, "to": args.to, "max_bytes": args.max_bytes}
    if args.add is not None:
        with open(args.add, encoding="utf-8") as file:
            return add_rows(args.checkpoint, [json.loads(line) for line in file if line.strip()], **more)
    if args.set is not None:
        return set_values(args.checkpoint, json.loads(args.set), parsed_key(args.key), args.where, **more)
    return delete_rows(args.checkpoint, parsed_key(args.delete), args.where, **more)


def _json(answer: Rollback) -> str:
    plan = as_json(answer.plan)
    shown = {"checkpoint": answer.checkpoint, "sink": answer.sink, "next_batch": answer.next_batch, "done": answer.done, **plan}
    return json.dumps(shown, ensure_ascii=False, indent=2)
