"""What a query that fails tells of its error."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

JAVA = "org.apache.spark.SparkException"  # for which PySpark has no class


def failed(query: Any, file: str) -> dict[str, Any]:
    """Wait for a query that fails. What is new in each run is left out, and so are lines of a traceback outside `file`."""
    with pytest.raises(StreamingQueryException) as e:
        query.awaitTermination()
    error: Any = e.value
    kept = query.exception()
    message = error.getMessageParameters()["message"]
    return {
        "conditions": re.findall(r"\[([A-Z_.]+)\]", message),
        "states": re.findall(r"SQLSTATE: \w+", str(error).split("\n=== Streaming Query")[0]),
        "begins": message.split("\n")[0].split(" file ")[0],
        "lines": re.findall(rf'File "{file}", line \d+, in \w+', message),
        "ends": [line.split(" file ")[0] for line in message.split("\n") if line.strip() and "SQLSTATE: 3" not in line[:18]][-1],
        "cause": (type(error._cause).__name__, str(error._cause).split("\n")[0].split(": ")[0].replace("PySparkException", JAVA)),
        "kept": (type(kept._cause).__name__, str(kept).split("\n")[0].split(" file ")[0]),
    }
