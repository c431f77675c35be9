"""Which tools run with the PySpark and the packages that are here; docs/install.md has the same for every version of Spark.

    runs     inspect, why, rollback, repair, metrics, and reports that were saved
    runs     trace_of, TraceListener, PrometheusListener, explain_output: queries of PySpark 4.1.4
    does not live (needs ipywidgets)
    runs     these over Spark Connect, but for crash and advance
    does not the model, side_by_side, what_if, check, the demo: PySpark 4.3 (2 missing, see above)
    runs     the diagrams of a flow and of a plan

Models: nothing of Spark.
Shown by tests/unit/tools/test_doctor.py::test_which_tools_run_with_which_pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from minispark_stream.engine import spark_versions

OF_INSPECT = ("numpy", "pyarrow", "xxhash")
OF_CONNECT = ("grpcio", "grpcio-status", "googleapis-common-protos", "pandas")


def what_runs(missing: int, installed: Callable[[str], str | None], draws: bool) -> Iterator[str]:
    """A line for each group of tools.

    Args:
        missing: how much of what the model needs is missing.
        installed: returns the version of an installed package.
        draws: whether the program `dot` is there.
    """
    found = spark_versions.pyspark_version()
    inspects = all(installed(name) for name in OF_INSPECT)
    yield _line("inspect, why, rollback, repair, metrics, and reports that were saved", inspects,
                f"needs {', '.join(OF_INSPECT)}")
    on_spark = inspects and found is not None and spark_versions.parsed(found) >= spark_versions.OLDEST
    oldest, newest = (f"{major}.{minor}" for major, minor in (spark_versions.OLDEST, spark_versions.MODEL))
    why_not = "there is no PySpark here" if found is None else f"needs PySpark {oldest} or newer"
    yield _line(f"trace_of, TraceListener, PrometheusListener, explain_output: queries of PySpark {found or ''}".rstrip(),
                on_spark, why_not)
    for what, package in (("live", "ipywidgets"), ('stream_test(engine="spark")', "pandas")):
        yield _line(what, on_spark and bool(installed(package)), f"needs {package}" if on_spark else why_not)
    refused = "crash and advance"
    if found is not None and not spark_versions.spark_of(found).listens_in_client:
        refused = f"the listeners, {refused}"
    lacks = [name for name in OF_CONNECT if not installed(name)]
    yield _line(f"these over Spark Connect, but for {refused}", on_spark and not lacks,
                f"needs {', '.join(lacks)}" if on_spark else why_not)
    yield _line(f"the model, side_by_side, what_if, check, the demo: PySpark {newest}", not missing,
                f"{missing} missing, see above")
    yield _line("the diagrams of a flow and of a plan", draws, "need dot")


def _line(what: str, ok: bool, why_not: str) -> str:
    return f"{'runs' if ok else 'does not':8} {what}{'' if ok else f' ({why_not})'}"
