"""`python -m minispark_stream why MESSAGE`: what a message means, or why the query of a checkpoint emits nothing.

    why "MESSAGE or QUESTION"    the entry for it
    why driver.log               the entry for the last error in a file
    why -                        the same for what comes from the standard input
    why CHECKPOINT               what is in its state, and what it waits for

The exit code is 0 if an entry fits or the checkpoint could be read, and 1 otherwise; one line on stderr says why a path cannot
be read.
"""

from __future__ import annotations

import sys

from minispark_stream.tools.symptoms import Answer, answer, look_up


def run(asked: str) -> int:
    """Returns the exit code."""
    try:
        found = look_up(sys.stdin.read()) if asked == "-" else answer(asked)
    except (OSError, ValueError) as e:
        print(f"why: {' '.join(str(e).split())}", file=sys.stderr)
        return 1
    print(found)
    return 1 if isinstance(found, Answer) and not found.found else 0
