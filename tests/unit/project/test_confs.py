"""docs/confs.md has every conf of streams of the Spark that is installed, and every test that it names exists."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from minispark_stream.engine.runtime.unsupported_confs import WITHOUT_EFFECT

ROOT = Path(__file__).parents[3]
ROW = re.compile(r"^\| `(spark\.[\w.]+)` \| ([\w ]+) \| (.*) \| \[(\w+)\]\(\.\./(tests/[\w/]+\.py)\) \|$", re.M)
CONFS = {  # where Spark declares its confs
    "catalyst": ("org/apache/spark/sql/internal/SQLConf$.class", "org/apache/spark/sql/internal/StaticSQLConf$.class"),
    "core": ("org/apache/spark/internal/config/package$.class",),
}
OF_SHUFFLES = re.compile(r"shuffle\.streaming\.|pipelined|\.incremental$")
ROWS = ROW.findall((ROOT / "docs" / "confs.md").read_text(encoding="utf-8"))


def confs_of_spark() -> set[str]:
    """The confs that have to do with streams: names in Spark's classes of confs, read from its jars."""
    of_sql = {name for name in _constants("catalyst") if "stream" in name.lower() and not name.startswith("spark.sql.execution.")}
    return of_sql | {name for name in _constants("core") if OF_SHUFFLES.search(name)}


def _constants(module: str) -> Iterator[str]:
    """A constant of a class file is a text after its length in two bytes."""
    (jar,) = Path(pyspark.__file__).parent.glob(f"jars/spark-{module}_*.jar")
    with zipfile.ZipFile(jar) as classes:
        for name in CONFS[module]:
            data = classes.read(name)
            for found in re.finditer(rb"spark\.[\w.]+", data):
                yield found[0][: int.from_bytes(data[found.start() - 2 : found.start()], "big")].decode()


def test_every_conf_has_a_row():
    names = [name for name, *_ in ROWS]
    assert names == sorted(set(names))
    assert len(names) > 100
    assert set(names) - {"spark.sql.shuffle.partitions"} == confs_of_spark()  # which decides how many stores there are


def test_every_verdict_is_one_of_three_and_says_why():
    assert {verdict for _, verdict, *_ in ROWS} == {"honoured", "no effect", "refused"}
    assert [name for name, verdict, why, *_ in ROWS if verdict != "honoured" and not why.strip()] == []


@pytest.mark.parametrize("name, test, file", [(name, test, file) for name, _, _, test, file in ROWS])
def test_every_test_exists(name, test, file):
    text = (ROOT / file).read_text(encoding="utf-8")
    assert Path(file).stem == test or f"def {test}(" in text


def test_what_a_warning_names_is_in_the_table_without_an_effect():
    verdicts = {name: verdict for name, verdict, *_ in ROWS}
    assert {verdicts[name] for name in WITHOUT_EFFECT} == {"no effect"}
    read = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "minispark_stream").rglob("*.py"))
    silent = [name for name, verdict in verdicts.items() if verdict == "refused" and name.removeprefix("spark.sql.streaming.") not in read]
    assert silent == [], "nothing reads the conf, so nothing can refuse it"
