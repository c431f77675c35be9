"""The archive of Spark's classes is read where it is, and named once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import class_archive


def test_the_archive_is_read_if_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xmn256m")
    monkeypatch.setattr(class_archive, "ARCHIVE", tmp_path / "a folder" / "spark.jsa")
    class_archive.use()
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Xmn256m", "without its file, a JVM would use no archive at all"
    class_archive.ARCHIVE.parent.mkdir()
    class_archive.ARCHIVE.touch()
    for _ in range(2):  # a process of xdist has the environment of the one that started it
        class_archive.use()
    assert os.environ["SPARK_SUBMIT_OPTS"] == f'-Xmn256m "-XX:SharedArchiveFile={tmp_path}/a folder/spark.jsa" -Xlog:disable'
