"""`python -m minispark_stream metrics` and `rules`: numbers of checkpoints for Prometheus, and what to make of them.

    metrics CHECKPOINT ...                in Prometheus' text format, from the files alone
    metrics CHECKPOINT --out FILE.prom    into a file that appears as a whole, for node-exporter's textfile collector
    rules > alerts.yml                    alert rules for Prometheus
    rules --dashboard > dashboard.json    a dashboard for Grafana

`metrics` returns 0; or 3 if a checkpoint cannot be read, and one line on stderr says why. The others are written then, too.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from minispark_stream.engine.checkpointing.errors import PySparkException
from minispark_stream.tools.monitoring.families import OF_CHECKPOINT, OF_FILES, Sample
from minispark_stream.tools.monitoring.from_files import metrics
from minispark_stream.tools.monitoring.text import as_text

ALERTS = Path(__file__).with_name("alerts.yml")
DASHBOARD = Path(__file__).with_name("dashboard.json")


def run_metrics(args: argparse.Namespace) -> int:
    """Returns the exit code."""
    samples: list[Sample] = []
    code = 0
    for checkpoint in args.checkpoint:
        try:
            samples += metrics(checkpoint, max_bytes=args.max_bytes)
        except (ValueError, OSError, PySparkException) as e:
            print(f"metrics: {checkpoint}: {' '.join(str(e).split())}", file=sys.stderr)
            code = 3
    text = as_text(samples, OF_FILES, OF_CHECKPOINT)
    if args.out is None:
        print(text, end="")
        return code
    partial = args.out.with_name(f"{args.out.name}.{os.getpid()}")  # the collector reads files named *.prom
    partial.write_text(text, encoding="utf-8")
    partial.replace(args.out)
    return code


def run_rules(args: argparse.Namespace) -> int:
    """Returns the exit code."""
    print((DASHBOARD if args.dashboard else ALERTS).read_text(encoding="utf-8"), end="")
    return 0
