"""What a session brings along: which Python the workers run (decided from what the user has said and from the master), and imports."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkTypeError

from minispark_stream.session import MiniSparkSession, _let_workers_run_this_python


def spark(master: str, python: str = "python3", **confs: str) -> Any:
    context = SimpleNamespace(master=master, pythonExec=python, getConf=lambda: confs)
    return SimpleNamespace(sparkContext=context)


@pytest.fixture(autouse=True)
def nothing_was_asked_for(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local-cluster[1,1,1024]"])
def test_on_this_machine_the_workers_run_the_drivers_python(master):
    session = spark(master)
    _let_workers_run_this_python(session)
    assert session.sparkContext.pythonExec == sys.executable


def test_what_the_user_asked_for_stays(monkeypatch):
    asked_by_conf = spark("local", **{"spark.pyspark.python": "/opt/python"})
    _let_workers_run_this_python(asked_by_conf)
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    asked_by_environment = spark("local")
    _let_workers_run_this_python(asked_by_environment)
    assert asked_by_conf.sparkContext.pythonExec == asked_by_environment.sparkContext.pythonExec == "python3"


def test_on_a_cluster_one_line_says_what_to_set(caplog, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    session = spark("spark://host:7077")
    with caplog.at_level(logging.WARNING):
        _let_workers_run_this_python(session)
    assert session.sparkContext.pythonExec == "python3"
    assert len(caplog.records) == 1 and "set PYSPARK_PYTHON" in caplog.text


def test_a_session_of_spark_connect_is_refused():
    class SparkSession:
        """As in pyspark.sql.connect.session, which is no subclass of the classic one."""

    with pytest.raises(PySparkTypeError, match="`spark` should be a classic SparkSession, got .*SparkSession"):
        MiniSparkSession(SparkSession())  # type: ignore[arg-type]


def test_everything_is_there_where_spark_itself_is_tested():
    """With SPARK_TESTING, PySpark lets a driver import no module of its workers."""
    program = (
        "import os, minispark_stream.session as _, minispark_stream.sources.python_data_source as source\n"
        "from pyspark.sql.types import StructType\n"
        "schema = StructType().add('a', 'integer')\n"
        "print([b.to_pylist() for b in source._Read(None, None, schema, []).to_arrow(iter([(1,), (2,)]))], os.environ['SPARK_TESTING'])"
    )
    ran = subprocess.run([sys.executable, "-c", program], env={**os.environ, "SPARK_TESTING": "1"}, capture_output=True, text=True)
    assert ran.stdout == "[[{'a': 1}, {'a': 2}]] 1\n", ran.stderr
