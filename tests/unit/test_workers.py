"""Which Python the workers run (decided from what the user has said and from the master), and where they find this package."""

from __future__ import annotations

import gc
import io
import logging
import os
import socket
import sys
import weakref
import zipfile
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import PySparkRuntimeError

from minispark_stream import workers
from minispark_stream.engine.operators import worker_tuning
from minispark_stream.engine.operators.worker_tuning import THAWED, acknowledged, do_not_wait, spare_the_collector, written_out
from minispark_stream.workers import (
    let_workers_run_this_python,
    send_this_package,
    start_workers_ahead,
    workers_find_this_package,
)


def context(master: str, **confs: str) -> Any:
    """As much of a SparkContext as is asked for here."""
    files: list[str] = []
    return SimpleNamespace(
        master=master, pythonExec="python3", getConf=lambda: confs, listFiles=files, addPyFile=lambda path: files.append(f"file:{path}"),
        environment={"PYTHONHASHSEED": "0"},
    )


def session(master: str, **confs: str) -> Any:
    return SimpleNamespace(sparkContext=context(master, **confs))


@pytest.fixture(autouse=True)
def of_local_spark(monkeypatch):
    """Spark was started in this folder, with this PYTHONPATH."""
    monkeypatch.setattr(workers.sessions, "folder_and_python_path", lambda spark: (os.getcwd(), os.environ.get("PYTHONPATH")))


@pytest.fixture(autouse=True)
def nothing_was_asked_for(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local-cluster[1,1,1024]"])
def test_where_the_python_of_the_path_cannot_run_tasks_the_workers_run_the_drivers(master, monkeypatch, tmp_path):
    def asked(script: str) -> str:
        """Which Python the workers run if this script is the first `python3` of the path."""
        spark, other = session(master), tmp_path / "python3"
        other.write_text(f"#!/bin/sh\n{script}\n")
        other.chmod(0o755)
        let_workers_run_this_python(spark.sparkContext)
        return spark.sparkContext.pythonExec

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    version = "{} {}".format(*sys.version_info[:2])
    assert asked(f'exec {sys.executable} "$@"') == "python3", "it has all packages, and stays"
    assert asked(f"echo {version}") == "python3"
    assert asked("echo 3 1") == asked(f"echo {version} pandas") == asked("exit 1") == sys.executable
    (tmp_path / "python3").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    nothing = session(master)
    let_workers_run_this_python(nothing.sparkContext)
    assert nothing.sparkContext.pythonExec == sys.executable, "there is none"


def test_what_the_user_asked_for_stays(monkeypatch):
    monkeypatch.setattr("minispark_stream.tools.cause.of_workers", lambda python: None)
    asked_by_conf = session("local", **{"spark.pyspark.python": "/opt/python"})
    let_workers_run_this_python(asked_by_conf.sparkContext)
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    asked_by_environment = session("local")
    let_workers_run_this_python(asked_by_environment.sparkContext)
    assert asked_by_conf.sparkContext.pythonExec == asked_by_environment.sparkContext.pythonExec == "python3"


def test_a_python_that_cannot_run_the_workers_is_refused_on_this_machine(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/nope")
    for master in ("local", "local[2]"):
        asked = context(master)
        asked.pythonExec = "/nope"
        with pytest.raises(PySparkRuntimeError, match="PYSPARK_PYTHON=/nope.*does not run.*doctor"):
            let_workers_run_this_python(asked)
    let_workers_run_this_python(context("spark://host:7077"))  # what is on its nodes, nobody knows here


def test_on_a_cluster_one_line_says_what_to_set(caplog, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    spark = session("spark://host:7077")
    with caplog.at_level(logging.WARNING):
        let_workers_run_this_python(spark.sparkContext)
    assert spark.sparkContext.pythonExec == "python3"
    assert len(caplog.records) == 1 and "set PYSPARK_PYTHON" in caplog.text


def test_the_executors_of_a_cluster_are_sent_this_package_once():
    spark = context("spark://host:7077")
    send_this_package(spark)
    send_this_package(spark)
    (path,) = spark.listFiles
    with zipfile.ZipFile(path.removeprefix("file:")) as archive:
        assert "minispark_stream/engine/operators/aggregation/state_store_save.py" in archive.namelist()


def test_workers_find_the_package_of_the_driver_or_are_sent_it(monkeypatch, tmp_path):
    def finds(master: str = "local[2]", **variables: str) -> bool:
        spark = session(master)
        spark.sparkContext.pythonExec = sys.executable
        spark.sparkContext.environment |= variables
        return workers_find_this_package(spark)

    there, another, elsewhere = str(workers.PACKAGE.parent), tmp_path / "minispark_stream", tmp_path / "folder of Spark"
    elsewhere.mkdir()
    another.mkdir()
    (another / "__init__.py").touch()
    monkeypatch.setattr(workers.sessions, "folder_and_python_path", lambda spark: (elsewhere, there))
    assert finds() and not finds("local-cluster[1,1,1024]") and not finds("spark://host:7077")
    assert not finds(PYTHONPATH=str(tmp_path)), "another package of that name comes first"
    (tmp_path / "link").symlink_to(there)
    assert finds(PYTHONPATH=f"{tmp_path / 'link'}")
    spark = session("local[2]")
    spark.sparkContext.pythonExec = "/nowhere/python"
    assert not workers_find_this_package(spark)


def test_workers_on_other_machines_or_with_another_python_start_as_spark_starts_them(tmp_path):
    other = tmp_path / "python3"
    other.touch(mode=0o755)
    another_python = context("local[2]")
    another_python.pythonExec = str(other)
    for spark in (another_python, context("spark://host:7077"), context("local-cluster[1,1,1024]")):
        session: Any = SimpleNamespace(sparkContext=spark)  # without a JVM, it could start nothing
        start_workers_ahead(session)


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="Linux alone has it")
def test_nothing_waits_for_an_acknowledgement_over_tcp():
    acknowledges, sends = (socket.IPPROTO_TCP, socket.TCP_QUICKACK), (socket.IPPROTO_TCP, socket.TCP_NODELAY)
    worker_tuning._sockets.cache_clear()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        before = set(os.listdir("/proc/self/fd"))
        for _ in range(2):  # tasks
            connection.setsockopt(*acknowledges, 0)
            do_not_wait()
            assert connection.getsockopt(*acknowledges) == 1
            assert connection.getsockopt(*sends) == 1
        assert set(os.listdir("/proc/self/fd")) == before, "nothing is left open"
    do_not_wait()  # the socket is closed
    worker_tuning._sockets.cache_clear()


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="Linux alone has it")
def test_a_long_task_acknowledges_each_piece():
    acknowledges = (socket.IPPROTO_TCP, socket.TCP_QUICKACK)
    worker_tuning._sockets.cache_clear()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        for _ in acknowledged(range(3)):
            assert connection.getsockopt(*acknowledges) == 1
            connection.setsockopt(*acknowledges, 0)  # as Linux does after a while
    worker_tuning._sockets.cache_clear()


@pytest.mark.parametrize("length", range(8))
def test_no_byte_of_a_batch_waits_for_the_next_one(length):
    written = io.BytesIO()
    written.close = lambda: None  # type: ignore[method-assign]
    [batch] = pa.table({"text": ["x" * length]}).to_batches()
    worker = io.BufferedWriter(cast("io.RawIOBase", written), buffer_size=4)  # as spark.sql.execution.pandas.udf.buffer.size says
    stream = pa.ipc.new_stream(worker, batch.schema)
    for one in written_out([batch]):
        stream.write_batch(one)
    assert pa.ipc.open_stream(written.getvalue()).read_next_batch() == batch


def test_what_is_there_when_a_task_begins_is_spared_by_the_collector():
    class Circle:
        """Refers to itself, so that only the collector can free it."""

        def __init__(self) -> None:
            self.me = self

    left = weakref.ref(Circle())
    try:
        spare_the_collector(task=1)
        gc.collect()
        assert left() is not None
        spare_the_collector(task=THAWED)
        gc.collect()
        assert left() is None
    finally:
        gc.unfreeze()
