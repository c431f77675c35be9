"""Commands: `demo`, `course`, `play`, `inspect`, `check`, `rollback`, `repair` and so on; each is one of the lines below.

    python -m minispark_stream demo --days 2       flights and word count on both engines
    python -m minispark_stream course FOLDER       the notebooks of this version, copied into a folder
    python -m minispark_stream play                rows to drag, in the browser
    python -m minispark_stream inspect CHECKPOINT  what is in a checkpoint, without PySpark and without a JVM
    python -m minispark_stream inspect OUT         which files the manifest of a file sink lists, and which are there
    python -m minispark_stream check CHECKPOINT --query module:function   whether new code fits a checkpoint, and is right
    python -m minispark_stream rules --changes     what each kind of change of a query means
    python -m minispark_stream rollback CHECKPOINT 7   back to batch 7, in a copy, or in place with a backup
    python -m minispark_stream repair CHECKPOINT   what keeps a query from starting is mended, in a copy
    python -m minispark_stream repartition CHECKPOINT 8   its state gets another number of partitions, in a copy
    python -m minispark_stream state CHECKPOINT --delete KEY   rows of its state go, change or come, in a copy
    python -m minispark_stream nulls PATH --schema S   which values in files a reader with this schema turns into null
    python -m minispark_stream metrics CHECKPOINT  its numbers, in the text format of Prometheus
    python -m minispark_stream rules               alert rules for Prometheus, or a dashboard for Grafana
    python -m minispark_stream why "MESSAGE"       what an error of Spark means, and what to do; or a log file, or -
    python -m minispark_stream why CHECKPOINT      why a query emits nothing
    python -m minispark_stream doctor              what is installed and what is missing
    python -m minispark_stream --version           the version of the package, and that of PySpark

What a command prints may come from the files of strangers, and from the rows in them. All of it goes through `Terminal`, so
that no character of it steers the terminal that it is shown in.

A command imports what it needs when it runs, so that `doctor`, `inspect` and `why` work without PySpark. If something that a
command needs is missing, one line on stderr names it, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from datetime import date
from pathlib import Path
from typing import Any, TextIO


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code."""
    with redirect_stdout(Terminal(sys.stdout)), redirect_stderr(Terminal(sys.stderr)):
        return _run(parsed(argv))


def _run(args: argparse.Namespace) -> int:
    try:
        code = run(args)
        sys.stdout.flush()
    except ModuleNotFoundError as e:
        from minispark_stream.tools import cause

        told = str(cause.of_import(e))
        print(f"{args.command}: {told if cause.ASK in told else f'{told}. {cause.ASK}'}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `inspect CHECKPOINT | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
        return 0
    return code


class Terminal:
    """An output to which only printable text is written. Everything else about it is as it was."""

    def __init__(self, output: TextIO):
        self._output = output

    def write(self, text: str) -> int:
        from minispark_stream.lens.view.words import printable

        return self._output.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)


def run(args: argparse.Namespace) -> int:
    if args.command == "doctor":
        from minispark_stream.tools.doctor import doctor

        return doctor(start_spark=not args.no_spark)
    if args.command == "inspect":
        from minispark_stream.tools.inspection import command

        return command.run(args)
    if args.command == "check" or args.command == "rules" and args.changes:
        from minispark_stream.tools.operations.check import command as checking

        return checking.run(args) if args.command == "check" else checking.show_rules(args.json)
    if args.command in ("rollback", "repair", "repartition", "state", "nulls"):
        from minispark_stream.tools.operations import command as operations

        of_command = {
            "rollback": operations.run, "repair": operations.run_repair, "repartition": operations.run_repartition,
            "state": operations.run_state, "nulls": operations.run_nulls,
        }
        return of_command[args.command](args)
    if args.command in ("metrics", "rules"):
        from minispark_stream.tools.monitoring import command as monitoring

        return monitoring.run_metrics(args) if args.command == "metrics" else monitoring.run_rules(args)
    if args.command == "why":
        from minispark_stream.tools.symptoms.command import run as run_why

        return run_why(args.message)
    if args.command == "course":
        from minispark_stream.tools.course import course

        return course(args.folder)
    if args.command == "play":
        from minispark_stream.tools.play import open_play

        return open_play(args.case, args.out)

    return run_demo(args)


def run_demo(args: argparse.Namespace) -> int:
    from minispark_stream.tools import cause

    missing = cause.before_a_run()
    if missing:
        print(f"demo: {missing}", file=sys.stderr)
        return 1
    from pyspark.errors import PySparkRuntimeError

    from minispark_stream.tools.demo import demo

    try:
        return demo(args.first_day, args.days, args.out)
    except OSError as e:
        print(f"demo: {e}: write elsewhere, --out FOLDER {cause.ASK}", file=sys.stderr)
        return 1
    except PySparkRuntimeError as e:
        print(f"demo: {e}", file=sys.stderr)
        return 1


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments; what would be passed over beside another one is refused."""
    top = parser()
    args = top.parse_args(argv)
    parts = ("operator", "store", "partition", "version", "key", "diff")
    if args.command == "inspect" and args.html and any(getattr(args, name) is not None for name in parts):
        top.error(f"inspect: --html writes the whole report; it goes with none of {', '.join(f'--{name}' for name in parts)}")
    if args.command == "inspect" and args.sink is not None and args.of_sink is not None:
        top.error("inspect: CHECKPOINT --sink OUT or OUT --checkpoint CHECKPOINT; both options together name two checkpoints")
    return args


class Version(argparse.Action):
    """Prints both versions; they are looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from minispark_stream.tools.requirements import installed_version, own_version

        print(f"minispark_stream {own_version()} (PySpark {installed_version('pyspark') or 'is not installed'})")
        parser.exit()


def at_least(least: int) -> Callable[[str], int]:
    """The type of an argument that is a number, and not less than `least`."""

    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return int(text)

    number.__name__ = "number"  # argparse says: invalid number value
    return number


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="minispark_stream", description="An engine to learn Spark Structured Streaming from")
    top.add_argument("--version", action=Version, nargs=0, help="print the versions of the package and of PySpark")
    commands = top.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="flights and word count on both engines, side by side")
    demo.add_argument("--first-day", type=date.fromisoformat, default=date(2013, 1, 9), help="YYYY-MM-DD, in 2013")
    demo.add_argument("--days", type=at_least(1), default=2, help="days of flights (2)")
    demo.add_argument("--out", type=Path, default=Path("build/demo"), help="where to write (build/demo)")
    add_inspect_arguments(commands.add_parser("inspect", help="what is in a checkpoint, or in the folder of a file sink"))
    add_check_arguments(commands.add_parser("check", help="whether new code fits a checkpoint, and what it does to the result"))
    add_rollback_arguments(commands.add_parser("rollback", help="take the last batches back"))
    add_repair_arguments(commands.add_parser("repair", help="mend a checkpoint on which no query can start, in a copy"))
    add_repartition_arguments(commands.add_parser("repartition", help="give the state another number of partitions, in a copy"))
    add_state_arguments(commands.add_parser("state", help="remove, change or add rows of the state of a checkpoint, in a copy"))
    add_nulls_arguments(commands.add_parser("nulls", help="which values in files a reader turns into null without an error"))
    add_metrics_arguments(commands.add_parser("metrics", help="the numbers of checkpoints, for Prometheus"))
    rules = commands.add_parser("rules", help="alert rules for Prometheus")
    rules.add_argument("--changes", action="store_true", help="the rules of `check` instead: what changes of a query mean")
    rules.add_argument("--json", action="store_true", help="those as JSON")
    rules.add_argument("--dashboard", action="store_true", help="a dashboard for Grafana instead")
    why = commands.add_parser("why", help="what an error message means, or why the query of a checkpoint emits nothing")
    why.add_argument("message", help="a message, a condition, a question, a log file (- for stdin), or a checkpoint")
    course = commands.add_parser("course", help="copy the notebooks of this version into a folder")
    course.add_argument("folder", type=Path, help="where to copy them; files that already exist are not changed")
    play = commands.add_parser("play", help="rows to drag, sliders and a crash, in the browser; no Spark is needed")
    cases = "windows (as if not given), dedup, join, sessions, or a case that the page has copied"
    play.add_argument("case", nargs="?", default="windows", help=cases)
    play.add_argument("--out", type=Path, help="write the page there, and open nothing")
    doctor = commands.add_parser("doctor", help="what is installed and what is missing")
    doctor.add_argument("--no-spark", action="store_true", help="do not start Spark to test it, which takes up to a minute")
    return top


def add_inspect_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", help="directory or URI: a checkpoint, or the folder that a file sink wrote")
    parser.add_argument("--checkpoint", dest="of_sink", metavar="CP", help="whether a sink's folder fits this one")
    parser.add_argument("--sink", metavar="OUT", help="the folder that the query of this checkpoint writes: what is in it")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--html", metavar="OUT", help="write a page")
    parser.add_argument("--operator", type=at_least(0), metavar="N", help="the stateful operator whose rows are printed (0)")
    parser.add_argument("--store", help="one of its stores, if it has several")
    parser.add_argument("--partition", type=at_least(0), metavar="P", help="one partition (all)")
    parser.add_argument("--version", type=at_least(0), metavar="V", help="state before batch V (that of the next batch)")
    parser.add_argument("--rows", type=at_least(0), default=1000, help="rows to print at most (1000)")
    parser.add_argument("--key", metavar="K", help='rows with this key: {"word": "be"}, or be')
    parser.add_argument("--diff", type=at_least(0), nargs=2, metavar=("V1", "V2"), help="what changed from version V1 to V2")
    parser.add_argument("--max-bytes", type=at_least(1), default=256 << 20, help="largest file and state to read (268435456)")


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", help="directory or URI")
    parser.add_argument("--query", required=True, metavar="M:F", help="module:function that makes the new query from a session")
    parser.add_argument("--before", metavar="M:F", help="module:function that makes the old query, for a comparison of both")
    parser.add_argument("--mode", choices=("append", "update", "complete"), help="output mode, if the function does not set it")
    parser.add_argument("--conf", action="append", default=[], metavar="K=V", help="a conf of the deployment; may be repeated")
    parser.add_argument("--sink", metavar="S", help="the name of a format, or the folder of a file sink")
    parser.add_argument("--trial", action="store_true", help="also run one small batch into nothing, on a copy")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--max-bytes", type=at_least(1), default=256 << 20, help="memory for what is in the files (268435456)")


def add_rollback_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", help="directory or URI")
    parser.add_argument("batch", type=at_least(0), metavar="N", help="the last batch that stays; batch N + 1 comes next")
    parser.add_argument("--sink", metavar="PATH", help="the folder that the query writes files into, or none")
    parser.add_argument("--to", metavar="COPY", help="write a checkpoint that has gone back there")
    parser.add_argument("--in-place", action="store_true", help="this checkpoint goes back; needs --backup")
    parser.add_argument("--backup", metavar="DIR", help="where a copy of this checkpoint is kept")
    parser.add_argument("--new-id", action="store_true", help="another query id, for a Delta table that was restored")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--max-bytes", type=at_least(1), default=256 << 20, help="memory for what is in the files (268435456)")


def add_repair_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", help="directory or URI")
    parser.add_argument("--to", metavar="COPY", help="write the mended checkpoint there")
    parser.add_argument("--sink", metavar="PATH", help="the folder that the query writes files into, or none")
    parser.add_argument("--query-id", metavar="ID", help="the id of the query, if metadata is lost (a new one)")
    parser.add_argument("--rebuild-source-log", action="store_true", help="a missing entry gets the files without one")
    parser.add_argument("--skip-batch", type=at_least(0), metavar="N", help="pass over batch N, which fails in each run")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--max-bytes", type=at_least(1), default=256 << 20, help="memory for what is in the files (268435456)")


def add_repartition_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", help="directory or URI")
    parser.add_argument("partitions", type=at_least(1), metavar="N", help="the new number of partitions")
    parser.add_argument("--to", metavar="COPY", help="write the checkpoint with the new partitions there")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--max-bytes", type=at_least(1), default=256 << 20, help="memory for what is in the files (268435456)")


def add_state_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", help="directory or URI")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--delete", nargs="?", const="{}", metavar="K", help='rows with this key go: {"word": "be"}, or be')
    what.add_argument("--set", metavar="VALUES", help='columns of their values get these: {"count": 0}')
    what.add_argument("--add", metavar="FILE", help="rows come, of which each is a line of JSON")
    parser.add_argument("--key", default="{}", metavar="K", help="with --set: the rows with this key (all)")
    parser.add_argument("--where", action="append", default=[], metavar="C", help="only where this holds: count > 100")
    parser.add_argument("--operator", type=at_least(0), default=0, metavar="N", help="the stateful operator (0)")
    parser.add_argument("--to", metavar="COPY", help="write the changed checkpoint there")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--max-bytes", type=at_least(1), default=256 << 20, help="memory for what is in the files (268435456)")


def add_nulls_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="files, or their folder, as the stream reads them")
    parser.add_argument("--schema", required=True, metavar="S", help="that of the query: id long, at timestamp")
    parser.add_argument("--format", default="json", metavar="F", help="json (as if not given), csv, parquet or another one")
    parser.add_argument("--option", action="append", default=[], metavar="K=V", help="an option of the reader; may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_metrics_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", nargs="+", help="directories or URIs")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write a file, as a whole, instead of printing")
    parser.add_argument("--max-bytes", type=at_least(1), default=256 << 20, help="memory for what is in the files (268435456)")
