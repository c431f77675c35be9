"""The tools need of PySpark only what its oldest version has, too; `make versions VERSIONS=3.5` plays them there."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import minispark_stream
from tests.import_graph import modules

LOADED = """
import sys, minispark_stream as ms, minispark_stream.testing, minispark_stream.lens.view.page
ms.TraceListener, ms.explain_output, ms.inspect, ms.live, ms.metrics, ms.play, ms.repair, ms.rollback, ms.trace_of
print(*sys.modules)
"""
OF_PYSPARK_3_5 = {
    "pyspark": {"SparkContext"},
    "pyspark.accumulators": {"Accumulator", "_accumulatorRegistry"},
    "pyspark.errors": {
        "AnalysisException", "IllegalArgumentException", "PySparkException", "PySparkRuntimeError", "PySparkTypeError",
        "SparkRuntimeException", "UnsupportedOperationException",
    },
    "pyspark.errors.exceptions": {"captured"},
    "pyspark.errors.exceptions.captured": {"CapturedException", "UnknownException", "convert_exception"},
    "pyspark.serializers": {"NoOpSerializer"},
    "pyspark.sql": {"DataFrame", "SparkSession"},
    "pyspark.sql.streaming": {"DataStreamWriter", "StreamingQuery"},
    "pyspark.sql.streaming.listener": {
        "QueryIdleEvent", "QueryProgressEvent", "QueryStartedEvent", "QueryTerminatedEvent", "StreamingQueryListener",
    },
    "pyspark.sql.types": {
        "ArrayType", "BinaryType", "BooleanType", "DataType", "DateType", "DecimalType", "FractionalType", "IntegralType", "MapType",
        "StringType", "StructType", "TimestampNTZType", "TimestampType",
    },
}


def test_the_tools_import_only_what_the_oldest_pyspark_has() -> None:
    package = Path(minispark_stream.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=package, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[2] for name in done.stdout.split() if name.startswith("minispark_stream.")}
    unknown = [
        f"{name}:{node.lineno}: {node.module}.{alias.name}"
        for name, tree in modules().items() if name in loaded
        for node in tree.body if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pyspark"
        for alias in node.names if alias.name not in OF_PYSPARK_3_5.get(node.module or "", ())
    ]
    assert "tools.testing.kit" in loaded and not unknown, "has PySpark 3.5 this?"
