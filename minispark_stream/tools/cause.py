"""One line on why nothing runs, for whoever has not asked `doctor` yet.

What failed decides what is looked at:

1. an import: Python, and the packages that are needed, in their versions;
2. the start of Spark: Java, the Spark that SPARK_HOME names, and what Java said of ports and of the name of this machine;
3. the workers of Spark: the Python that PYSPARK_PYTHON names.

    from minispark_stream import MiniSparkSession      with PySpark 4.1 in this environment
    ImportError: pyspark 4.1.4: not in the range <4.4,>=4.3. Get it: pip install 'pyspark<4.4,>=4.3', in an environment of ...

If none of it is the cause, the error itself is shown. doctor.py knows what is needed; here is nothing but the choice.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

from minispark_stream.engine import spark_versions
from minispark_stream.tools import doctor
from minispark_stream.tools.doctor import Diagnosis

ASK = "(`python -m minispark_stream doctor` looks at everything.)"

_SAID_BY_JAVA = {
    r"(?<=BindException: )[^\n]*": "",  # which port, and which conf has it
    r"(?:UnknownHost|UnresolvedAddress)Exception[^\n]*": ": the name of this machine has no address. "
    "Get one: export SPARK_LOCAL_IP=127.0.0.1",
    r"Error while sending or receiving|Answer from Java side is empty": ": Java has ended. If its last ERROR line above says "
    "'Address already in use', set spark.ui.port to a free port, or spark.ui.enabled to false",
}


def need_model(what: str, instead: str = "") -> None:
    """Raises ImportError if there is no PySpark, or one that is older than the one that the model re-implements.

    Args:
        what: the name of what needs the model.
        instead: a sentence on what works without it.
    """
    found = spark_versions.pyspark_version()
    if found is not None and spark_versions.parsed(found) >= spark_versions.MODEL:
        return
    asked = doctor.dotted(spark_versions.MODEL)
    here = "there is no PySpark here" if found is None else f"this is PySpark {found}"
    get = f"pip install 'pyspark=={asked}.*', in an environment of its own"
    told = [f"{what} needs PySpark {asked}, and {here}", f"Get it: {get}", *filter(None, [instead])]
    raise ImportError(f"{'. '.join(told)}. {ASK}", name="pyspark")


def of_import(error: ImportError) -> ImportError:  # (1)
    """The error to raise for one that an import of this package has raised."""
    package = (error.name or "").partition(".")[0]
    findings = [doctor.check_python(sys.version_info[:3]), *doctor.installed_packages()]
    told = _first_missing(sorted(findings, key=lambda found: not re.match(rf"{package}\b", found.says)))
    return ImportError(told, name=error.name) if told else error


def of_start(error: Exception) -> str | None:  # (2)
    """Why Spark has not started; None if it is for another reason than those above."""
    told = _first_missing([doctor.check_java(os.environ, doctor.run_quietly), *doctor.check_spark_home(os.environ)])
    for pattern, advice in _SAID_BY_JAVA.items():
        if not told and (found := re.search(pattern, str(error))):
            told = f"Spark has not started: {found[0].strip()}{advice} {ASK}"
    return told


def of_workers(python: str) -> str | None:  # (3)
    """Why Spark's workers cannot run with this Python; None if they can."""
    return _first_missing([doctor.check_worker_python({"PYSPARK_PYTHON": python}, doctor.run_quietly)])


def before_a_run() -> str | None:
    """What of all this is missing on this machine."""
    worker_python = os.environ.get("PYSPARK_PYTHON")
    return (
        _first_missing([doctor.check_python(sys.version_info[:3]), *doctor.installed_packages()])
        or _first_missing([doctor.check_java(os.environ, doctor.run_quietly), *doctor.check_spark_home(os.environ)])
        or (of_workers(worker_python) if worker_python else None)
    )


def _first_missing(findings: Iterable[Diagnosis]) -> str | None:
    return next((f"{found.says}. Get it: {found.get}. {ASK}" for found in findings if found.needed and not found.ok), None)
