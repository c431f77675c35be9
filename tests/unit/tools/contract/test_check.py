"""What is said of a Spark that does not have what the lists say: all of it, the old signature beside the new ones."""

from __future__ import annotations

import pytest

from minispark_stream.engine.jvm.contract import ENGINE, ContractEntry, parsed
from minispark_stream.tools import doctor
from minispark_stream.tools.contract import check

LIST = """
# A comment.
class org.apache.spark.sql.LogicalRDD -- rows (plans)
class org.apache.spark.sql.execution.LogicalRDD -- rows (plans)
    new(Seq, RDD)
    rdd() RDD
    reader() Reader
object org.apache.spark.sql.catalyst.expressions.Cast -- casts (expressions)
    apply(Expression, DataType, Option, boolean) Cast
python pyspark.util -- sockets (scala)
    _load_from_socket(sock_info)
    gone
python pyspark.nowhere -- nothing (scala)
conf spark.sql.nowhere -- sessions
condition NOWHERE.TO_BE_FOUND -- errors
"""


@pytest.fixture(scope="module")
def spark() -> check.SparkInstallation:
    found = check.installed()
    assert found is not None
    return found


def test_everything_is_named_at_once(spark: check.SparkInstallation):
    said = {one.name.rpartition("org.apache.spark.sql.")[2]: one.says for one in check.differences(spark, parsed(LIST))}
    assert said.pop("execution.LogicalRDD.new").startswith("not new(Seq, RDD) any more, but new(Seq, RDD, Partitioning, Seq, ")
    assert said.pop("pyspark.util._load_from_socket").startswith("not _load_from_socket(sock_info) any more, but _load_from_socket(sock_info, ")
    assert said == {
        "LogicalRDD": "is gone, but there is org.apache.spark.sql.execution.LogicalRDD",
        "execution.LogicalRDD.reader": "reader() Reader is gone",
        "pyspark.util.gone": "gone is gone",
        "pyspark.nowhere": "there is no such module",
        "spark.sql.nowhere": "Spark has no such conf",
        "NOWHERE.TO_BE_FOUND": "Spark has no such condition",
    }


def test_a_new_parameter_with_a_default_is_no_difference(spark: check.SparkInstallation):
    entry = ContractEntry("python", "pyspark.sql.pandas.types", "types", ("to_arrow_schema(schema, timezone)",))
    assert list(check.differences(spark, [entry])) == []


def test_the_list_gives_full_names():
    assert ENGINE["LogicalRDD.rdd"] == "org.apache.spark.sql.execution.LogicalRDD.rdd"
    assert ENGINE["Cast$"] == "org.apache.spark.sql.catalyst.expressions.Cast$"
    assert ENGINE["FileFormatWriter$OutputSpec"].endswith(".datasources.FileFormatWriter$OutputSpec")
    assert ENGINE["java.util.HashMap"] == "java.util.HashMap"
    with pytest.raises(KeyError):
        ENGINE["LogicalRd"]


def test_the_doctor_lists_it(spark: check.SparkInstallation, monkeypatch: pytest.MonkeyPatch):
    (fine,) = doctor.check_contract({})
    assert str(fine).startswith("ok       Spark's internals: all of ")
    monkeypatch.setattr(check, "entries", lambda: tuple(parsed(LIST)))
    monkeypatch.setattr(check, "installed", lambda home: spark)
    (found,) = doctor.check_contract({})
    first, *lines = str(found).splitlines()
    assert first.startswith("missing  Spark's internals: 8 of ") and len(lines) == 8
    assert lines[0].strip() == (
        "org.apache.spark.sql.LogicalRDD: is gone, but there is org.apache.spark.sql.execution.LogicalRDD; used for rows (plans)"
    )


def test_without_a_spark_the_doctor_says_nothing_of_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(check, "installed", lambda home: None)
    assert list(doctor.check_contract({})) == []
