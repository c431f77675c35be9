"""What differs between the versions of Spark, from 3.5 to 4.3, and between its classic sessions and Spark Connect.

    installed()                 (4, 1)            the version of the PySpark that this Python has; None if it has none
    spark_of("4.1.2").names_sources    False         in 4.1, a source is called by its number, and cannot be given a name

1. `MODEL` is the version that the model re-implements. The model runs with no older one.
2. The tools work with every version from `OLDEST` on. Where these differ, `Spark` has a field, and nothing else in the package
   asks for a version. A version that is newer than all of these is taken to be like the newest.
3. An object of Spark Connect is known by its module, without an import of Spark Connect, which needs packages of its own.

Models: nothing of Spark.
Differs from Spark: nothing.
Shown by tests/unit/engine/test_spark_versions.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MODEL = (4, 3)  # (1)
OLDEST = (3, 5)
_STREAMING = "org.apache.spark.sql.execution.streaming"


@dataclass(frozen=True)
class Spark:
    """(2) A version. The defaults are those of the newest one.

    `managers` is the Java package of the checkpoint file managers. `names_sources`: a source may have a name, and the call that
    starts a query takes one for the sink. `tells_watermarks`: a running query can be asked what its `withWatermark` operators
    have measured. `listens_in_client`: over Spark Connect, a listener runs where it was added, and not in a process of the
    server. `has_conditions`: PySpark's exceptions have conditions, and it has all types of today's schemas.
    `converts_rows`: PySpark converts rows to Arrow without a session.
    """

    managers: str = f"{_STREAMING}.checkpointing"
    names_sources: bool = True
    tells_watermarks: bool = True
    listens_in_client: bool = True
    has_conditions: bool = True
    converts_rows: bool = True


_OF = {
    (3, 5): Spark(_STREAMING, names_sources=False, tells_watermarks=False, listens_in_client=False, has_conditions=False,
                  converts_rows=False),
    (4, 0): Spark(_STREAMING, names_sources=False, converts_rows=False),
    (4, 1): Spark(names_sources=False, converts_rows=False),
    (4, 2): Spark(),
    MODEL: Spark(),
}


def parsed(version: str) -> tuple[int, int]:
    """`4.3.0.dev1` -> (4, 3)."""
    major, _, rest = version.partition(".")
    return int(major), int(rest.partition(".")[0])


@lru_cache(maxsize=8)
def spark_of(version: str) -> Spark:
    """What is true of a version: that of a session, `session.version`, or of PySpark."""
    own = parsed(version)
    return _OF[max((known for known in _OF if known <= own), default=OLDEST)]


@lru_cache(maxsize=1)
def pyspark_version() -> str | None:
    """The version of the PySpark that this Python would import, whoever has installed it; None if there is none."""
    try:
        spec = find_spec("pyspark")
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    try:
        text = Path(spec.origin).with_name("version.py").read_text()
    except OSError:
        text = ""
    found = re.search(r"__version__[^=]*= *['\"]([0-9]+\.[0-9]+[^'\"]*)", text)
    try:
        return found[1] if found else metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return None


def installed() -> tuple[int, int] | None:
    version = pyspark_version()
    return None if version is None else parsed(version)


def reads_with_pyspark() -> bool:
    """Whether files are read with PySpark's own types and exceptions; otherwise, the package has its own ones."""
    version = pyspark_version()
    return version is not None and spark_of(version).has_conditions


def condition_of(error: BaseException) -> str | None:
    """The condition of an exception of PySpark, which 3.5 calls its error class."""
    ask: Any = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    return ask() if ask is not None else None


def is_of_connect(value: object) -> bool:  # (3)
    """Whether this is a session, a DataFrame or a query of Spark Connect."""
    return type(value).__module__.startswith("pyspark.sql.connect.")


def refuse_connect(what: str, argument: str, value: object, instead: str = "") -> None:
    """Raises PySparkTypeError if a session or a query is one of Spark Connect, which keeps the JVM from Python.

    Args:
        what: the name of what does not work.
        argument: the name of the argument.
        value: the argument.
        instead: what works over Connect.
    """
    if not is_of_connect(value):
        return
    from pyspark.errors import PySparkTypeError

    needs = f"one of Spark Connect; {what} needs the JVM of the session, which Spark Connect does not give to Python"
    classic = 'a session of SparkSession.builder.master("local[*]").getOrCreate() has it'
    wanted = "a query of a classic SparkSession" if argument.startswith("query") else "a classic SparkSession"
    raise PySparkTypeError(
        errorClass="NOT_EXPECTED_TYPE",
        messageParameters={
            "arg_name": argument, "expected_type": wanted, "arg_type": "; ".join(filter(None, [needs, classic, instead])),
        },
    )
