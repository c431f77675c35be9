"""One small query on both engines shows whether everything works together. `doctor` runs it in a process of its own.

    $ python -m minispark_stream.tools.preflight
    ok Spark 4.3.0 and the model counted the same words, 14 s with the start of Java

The JVM may print lines before; the last line is the answer.
"""

from __future__ import annotations

import sys
import time

from minispark_stream.tools.compare.side_by_side import side_by_side
from minispark_stream.tools.demo import quiet_session
from minispark_stream.tools.flights import word_count


def preflight() -> str:
    """Count words in two batches on both engines. The answer begins with `ok` if they agree."""
    begin = time.perf_counter()
    spark = quiet_session()
    try:
        comparison = side_by_side(spark, word_count, [["to be"], ["or not to be"]], output_mode="update", progress=False)
        version = spark.version
    finally:
        spark.stop()
    if comparison.differences:
        return f"Spark {version} and the model differ: {comparison.differences[0]}"
    seconds = f"{time.perf_counter() - begin:.0f} s with the start of Java"
    return f"ok Spark {version} and the model counted the same words, {seconds}"


if __name__ == "__main__":
    try:
        print(preflight())
    except Exception as e:
        print(f"{type(e).__name__}: {' '.join(str(e).split())[:300]}", file=sys.stderr)
