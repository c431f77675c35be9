"""The commands: `demo`, `course`, `inspect`, `why` and `doctor`.

    python -m minispark_stream demo --days 2       flights and word count on both engines
    python -m minispark_stream course FOLDER       the notebooks of this version, copied into a folder
    python -m minispark_stream inspect CHECKPOINT  what is in a checkpoint, without PySpark and without a JVM
    python -m minispark_stream why "MESSAGE"       what an error of Spark means, and what to do
    python -m minispark_stream why CHECKPOINT      why a query emits nothing
    python -m minispark_stream doctor              what is installed and what is missing

A command imports what it needs when it runs, so that `doctor`, `inspect` and `why` work without PySpark.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code."""
    try:
        code = run(parser().parse_args(argv))
        sys.stdout.flush()
    except BrokenPipeError:  # `inspect CHECKPOINT | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
        return 0
    return code


def run(args: argparse.Namespace) -> int:
    if args.command == "doctor":
        from minispark_stream.tools.doctor import doctor

        return doctor(start_spark=not args.no_spark)
    if args.command == "inspect":
        from minispark_stream.tools.inspection import command

        return command.run(args)
    if args.command == "why":
        from minispark_stream.tools.symptoms import why

        try:
            print(why(args.message))
        except ValueError as e:
            print(e, file=sys.stderr)
            return 1
        return 0
    if args.command == "course":
        from minispark_stream.tools.course import course

        return course(args.folder)

    try:
        from minispark_stream.tools.demo import demo
    except ModuleNotFoundError as e:
        print(f"demo needs {e.name}: pip install 'minispark_stream[demo]'", file=sys.stderr)
        return 1
    return demo(args.first_day, args.days, args.out)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="minispark_stream", description="An engine to learn Spark Structured Streaming from")
    commands = top.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="flights and word count on both engines, side by side")
    demo.add_argument("--first-day", type=date.fromisoformat, default=date(2013, 1, 9), help="YYYY-MM-DD, in 2013")
    demo.add_argument("--days", type=int, default=2, help="days of flights (2)")
    demo.add_argument("--out", type=Path, default=Path("build/demo"), help="where to write (build/demo)")
    add_inspect_arguments(commands.add_parser("inspect", help="what is in a checkpoint"))
    why = commands.add_parser("why", help="what an error message means, or why the query of a checkpoint emits nothing")
    why.add_argument("message", help="an error message, an error condition, a few words, or the folder of a checkpoint")
    course = commands.add_parser("course", help="copy the notebooks of this version into a folder")
    course.add_argument("folder", type=Path, help="where to copy them; files that already exist are not changed")
    doctor = commands.add_parser("doctor", help="what is installed and what is missing")
    doctor.add_argument("--no-spark", action="store_true", help="do not start Spark to test it, which takes up to a minute")
    return top


def add_inspect_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", help="directory or URI")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--html", metavar="OUT", help="write a page")
    parser.add_argument("--operator", type=int, metavar="N", help="the stateful operator whose rows are printed (0)")
    parser.add_argument("--store", help="one of its stores, if it has several")
    parser.add_argument("--partition", type=int, metavar="P", help="one partition (all)")
    parser.add_argument("--version", type=int, metavar="V", help="state before batch V (that of the next batch)")
    parser.add_argument("--rows", type=int, default=1000, help="rows to print at most (1000)")
    parser.add_argument("--key", metavar="K", help='rows with this key: {"word": "be"}, or be')
    parser.add_argument("--diff", type=int, nargs=2, metavar=("V1", "V2"), help="what has changed from version V1 to V2")
    parser.add_argument("--max-bytes", type=int, default=256 << 20, help="largest file and state to read (268435456)")
