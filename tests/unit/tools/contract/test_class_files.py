"""What class files say of a class, on jars of Spark and on a class that is made here."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from minispark_stream.tools.contract.check import installed
from minispark_stream.tools.contract.class_files import Jars, class_of, parsed

LEAF = "org.apache.spark.sql.execution.LogicalRDD"


def text(value: str) -> bytes:
    return struct.pack(">BH", 1, len(value)) + value.encode()


def class_file(name: str, parent: str, *members: tuple[int, str, str]) -> bytes:
    """A class with methods (flags, name, descriptor) without code. A long in the pool takes two numbers."""
    pool = [text(name), struct.pack(">BH", 7, 1), text(parent), struct.pack(">BH", 7, 3), struct.pack(">Bq", 5, 42)]
    number, methods = 7, b""  # the first number after the long
    for flags, called, descriptor in members:
        pool += [text(called), text(descriptor)]
        methods += struct.pack(">4H", flags, number, number + 1, 0)
        number += 2
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 61, number) + b"".join(pool)
    return head + struct.pack(">4H", 1, 2, 4, 0) + struct.pack(">HH", 0, len(members)) + methods


def test_types_are_read_out_of_descriptors():
    made = parsed(class_file("a/B", "a/A", (0, "<init>", "(Lscala/collection/immutable/Seq;ZI[[BJ)V"), (8, "of", "()Ljava/lang/String;")))
    assert (made.name, made.parents) == ("a.B", ("a.A",))
    assert list(map(str, made.members)) == ["new(Seq, boolean, int, byte[][], long)", "static of() String"]


def test_a_method_may_be_inherited_but_not_a_constructor(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "spark-x.jar", "w") as jar:
        jar.writestr("a/A.class", class_file("a/A", "java/lang/Object", (0, "<init>", "()V"), (8, "of", "()V"), (0, "get", "()I")))
        jar.writestr("a/B.class", class_file("a/B", "a/A"))
    jars = Jars(tmp_path)
    assert list(map(str, jars.members("a.B"))) == ["get() int"]
    assert jars.find("a.C") is None
    assert jars.named_alike("b.A") == ["a.A"]


def test_a_class_of_spark():
    spark = installed()
    assert spark is not None
    members = set(map(str, spark.jars.members(LEAF)))
    assert {"rdd() RDD", "output() Seq", "isStreaming() boolean", "stats() Statistics"} <= members  # its own, and those of its parents


def test_what_is_no_class_file_is_refused():
    assert class_of("java/util/List.class") == "java.util.List"
    with pytest.raises(ValueError, match="Not a class file"):
        parsed(b"PK\3\4")
