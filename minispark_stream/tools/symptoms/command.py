"""`python -m minispark_stream why MESSAGE`: what a message means, or why the query of a checkpoint emits nothing.

    why "MESSAGE or QUESTION"    the entry for it
    why driver.log               the entry for the last error in a file
    why progress.jsonl           what the progress reports in a file say, if it has no error that is known
    why -                        the same for what comes from the standard input
    why CHECKPOINT               what is in its state, and what it waits for

The exit code of a message is 0 if an entry fits, and 1 otherwise. That of a checkpoint is 0 if nothing is wrong, 1 if a restart
fails, 2 if there is something to look at, and 3 if this cannot be told. It is also 3 if a path cannot be read, and one line on
stderr says why.
"""

from __future__ import annotations

import sys

from minispark_stream.tools.symptoms import Answer, answer, look_up_text


def run(asked: str) -> int:
    """Returns the exit code."""
    try:
        found = look_up_text(sys.stdin.read()) if asked == "-" else answer(asked)
    except (OSError, ValueError) as e:
        print(f"why: {' '.join(str(e).split())}", file=sys.stderr)
        return 3
    print(found)
    return int(not found.found) if isinstance(found, Answer) else found.exit_code
