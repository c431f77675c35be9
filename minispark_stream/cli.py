"""The commands: `demo` and `doctor`.

    python -m minispark_stream demo --days 2       flights and word count on both engines
    python -m minispark_stream doctor              what is there and what is missing

A command imports what it needs when it runs, so that `doctor` works where PySpark is what is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import date
from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code."""
    args = parser().parse_args(argv)
    if args.command == "doctor":
        from minispark_stream.doctor import doctor

        return doctor()

    from minispark_stream.demo import demo

    return demo(args.first_day, args.days, args.out)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="minispark_stream", description="Spark Structured Streaming, to learn from")
    commands = top.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="flights and word count on both engines, side by side")
    demo.add_argument("--first-day", type=date.fromisoformat, default=date(2013, 1, 9), help="YYYY-MM-DD, in 2013")
    demo.add_argument("--days", type=int, default=2, help="days of flights (2)")
    demo.add_argument("--out", type=Path, default=Path("build/demo"), help="where to write (build/demo)")
    commands.add_parser("doctor", help="what is there and what is missing")
    return top
