"""How much processor time other programs take while something is measured.

    with Others() as others: ...
    others.cores      0.4: as much as two fifths of a core

What all programs took, less what this one and all that it has started took.
"""

from __future__ import annotations

import time

import psutil


class Others:
    """`cores` is there when the block has ended."""

    cores: float

    def __enter__(self) -> Others:
        self._began, self._busy, self._own = time.perf_counter(), _busy(), _own()
        return self

    def __exit__(self, *error: object) -> None:
        taken = _busy() - self._busy - (_own() - self._own)
        self.cores = max(0.0, taken) / (time.perf_counter() - self._began)


def _busy() -> float:
    now = psutil.cpu_times()
    return float(now.user + now.nice + now.system + now.irq + now.softirq + now.steal)


def _own() -> float:
    """Of this process and its descendants; what those that have ended took is with their parents."""
    me, total = psutil.Process(), 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
