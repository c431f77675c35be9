"""A hundred cases of Spark's own suites, played by the testing kit on the Spark of the Python that runs this.

    /tmp/env-3.5/bin/python tests/versions/suites.py classic /tmp/out       each of them; with a number n behind it, each nth
    {"case": "null_is_a_group_like_any_other", "verdict": "ok"}
    {"case": "a_session_goes_on_after_a_crash", "verdict": "refused: crash cannot be had over Spark Connect, ..."}

The cases are those of tests/conformance/test_spark_suites.py, where the same tests pass on Spark 4.3 and on the model. A case in
which an older Spark does something else is in `CHANGED`: it must fail there, with these words. So the list stays true.
"""

from __future__ import annotations

import json
import sys
import warnings
from functools import partial
from pathlib import Path

from minispark_stream.engine.spark_versions import parsed
from minispark_stream.testing import stream_test
from tests.conformance.spark_suites.cases import CASES
from tests.versions.play import session

# case -> the first version that does it as 4.3 does, and what an older one does instead, as the kit says it
WITHOUT_CONDITIONS = ((4, 0), "not STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION: ")
CHANGED: dict[str, tuple[tuple[int, int], str]] = {
    "append_mode_without_a_watermark_is_refused": WITHOUT_CONDITIONS,
    "a_query_without_state_cannot_be_complete": WITHOUT_CONDITIONS,
    "windows_without_a_watermark_cannot_be_appended": WITHOUT_CONDITIONS,
    "a_session_cannot_be_updated": WITHOUT_CONDITIONS,
    "a_batch_that_fails_in_the_middle_leaves_the_state_as_it_was": ((4, 0), "not USER_RAISED_EXCEPTION: nine"),
    "another_type_of_key_is_refused_after_a_restart": ((4, 0), "InvalidUnsafeRowException"),
    "another_type_of_value_is_refused_after_a_restart": ((4, 0), "not STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"),
    "a_better_query_goes_on_where_the_other_one_failed": ((4, 0), "the query has not failed with DIVIDE_BY_ZERO"),  # ANSI mode
}


def play(kind: str, folder: Path, every: int) -> None:
    spark = session(kind, folder / "events")
    spark.conf.set("spark.sql.codegen.wholeStage", "false")  # for a few rows, Spark spends most of its time on compiling
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    version = parsed(spark.version)
    for one in CASES[::every]:
        try:
            one(partial(stream_test, spark, engine="spark"))
            verdict = "ok"
        except ValueError as e:
            verdict = f"refused: {e}"
        except Exception as e:
            verdict = f"FAILED: {type(e).__name__}: {' '.join(str(e).split())[:400]}"
        if kind == "connect" and version < (4, 0) and "the query has failed with" in verdict and ", not " in verdict:
            verdict = "as known"  # it has failed as it should, but exceptions of Spark Connect 3.5 have no conditions
        since, instead = CHANGED.get(one.__name__, ((0, 0), ""))
        if version < since and verdict != "as known" and not verdict.startswith("refused"):
            verdict = "as known" if instead in verdict else f"FAILED: not as in CHANGED: {verdict}"
        print(json.dumps({"case": one.__name__, "verdict": verdict}), flush=True)
    spark.stop()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    play(sys.argv[1], Path(sys.argv[2]), int((*sys.argv, "1")[3]))
