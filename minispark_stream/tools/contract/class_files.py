"""The classes in Spark's jars, as their class files describe them: no JVM is started.

    jars = Jars(folder)                                 the jars of an installed PySpark: pyspark/jars
    [*jars.members("org.apache.spark.sql.execution.LogicalRDD")]       [Method("rdd", (), "RDD"), ...]
    jars.texts("org.apache.spark.sql.internal.SQLConf$")    every text in the class, among them the names of confs

1. A jar is a zip archive. The list of its files says which classes it has; only the classes that are asked for are read.
2. A class file begins with its constant pool: the numbered texts, classes and names to which everything else in it refers.
3. After that come its superclass and interfaces, its fields and its methods. Each has a name and a descriptor, which says its
   types in short letters.

    rdd ()Lorg/apache/spark/rdd/RDD;                    ->  rdd() RDD
    <init> (Lscala/collection/immutable/Seq;ZI[B)V      ->  new(Seq, boolean, int, byte[])

4. A method may be inherited, so the superclasses and interfaces are read, too, as far as they are in these jars.

A type is given without its package, because a class that only moves to another package changes nothing for a caller in Python.

Models: nothing of Spark (chapter 4 of the JVM's specification).
Differs from Spark: nothing.
Shown by tests/unit/tools/contract/test_class_files.py.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

_OF_LETTER = {
    "B": "byte", "C": "char", "D": "double", "F": "float", "I": "int", "J": "long", "S": "short", "Z": "boolean", "V": "void",
}
_DESCRIPTOR = re.compile(r"(\[*)(?:([BCDFIJSZV])|L([^;]+);)")
_SIZE_OF_CONSTANT = {  # by its tag: what follows the tag
    3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2,
}
_TEXT, _CLASS, _WIDE = 1, 7, (5, 6)  # a long or a double takes two numbers
_STATIC = 0x0008
_PARTS_OF_SPARK = ("spark-*.jar", "hadoop-client-api-*.jar", "kafka-clients-*.jar", "avro-[0-9]*.jar", "metrics-core-*.jar")


class Method(NamedTuple):
    """A method, or a constructor, which is called `new`; or a field, which has no parameters (None)."""

    name: str
    parameters: tuple[str, ...] | None
    result: str
    is_static: bool = False

    def __str__(self) -> str:
        static = "static " if self.is_static else ""
        if self.parameters is None:
            return f"{static}field {self.name} {self.result}"
        called = f"{static}{self.name}({', '.join(self.parameters)})"
        return called if self.name == "new" else f"{called} {self.result}"


@dataclass(frozen=True)
class ClassFile:
    """A class: its name, what it inherits from (classes in these jars only), and its own members."""

    name: str
    parents: tuple[str, ...]
    members: tuple[Method, ...]


class Jars:
    """The jars of a folder that have Spark's classes in them, and those of what it shows of others.

    Args:
        folder: pyspark/jars.
        more: other jars, such as those of a connector.
    """

    def __init__(self, folder: Path, more: tuple[Path, ...] = ()):
        paths = [*(path for part in _PARTS_OF_SPARK for path in sorted(folder.glob(part))), *more]
        self._archives = [zipfile.ZipFile(path) for path in paths]
        self._read: dict[str, ClassFile | None] = {}

    @cached_property
    def _places(self) -> dict[str, zipfile.ZipFile]:  # (1)
        return {name: archive for archive in reversed(self._archives) for name in archive.NameToInfo}

    @property
    def files(self) -> Iterable[str]:
        """The names of all files in the jars."""
        return self._places

    def content(self, name: str) -> bytes | None:
        """A file of the jars; None if there is none of this name."""
        archive = self._places.get(name)
        return None if archive is None else archive.read(name)

    def find(self, name: str) -> ClassFile | None:
        """A class by its full name; None if it is in none of the jars."""
        if name not in self._read:
            content = self.content(f"{name.replace('.', '/')}.class")
            self._read[name] = None if content is None else parsed(content)
        return self._read[name]

    def members(self, name: str) -> Iterator[Method]:  # (4)
        """All members of a class, its own ones first; a constructor and a static method of a parent are not among them."""
        yield from self._members(name, set())

    def _members(self, name: str, seen: set[str]) -> Iterator[Method]:
        found = self.find(name)
        if found is None:
            return
        for member in found.members:
            if not seen or not (member.is_static or member.name == "new"):
                yield member
        seen.add(name)
        for parent in found.parents:
            if parent not in seen:
                yield from self._members(parent, seen)

    def texts(self, name: str) -> frozenset[str]:
        """All texts in the constant pool of a class."""
        content = self.content(f"{name.replace('.', '/')}.class")
        return frozenset() if content is None else frozenset(v for v in _constants(content)[0] if isinstance(v, str))

    def named_alike(self, name: str) -> list[str]:
        """The classes in other packages with the same simple name."""
        end = f"/{name.rpartition('.')[2]}.class"
        return sorted(class_of(file) for file in self._places if file.endswith(end))


def class_of(file: str) -> str:
    """`java/util/List.class` -> java.util.List"""
    return file.removesuffix(".class").replace("/", ".")


def parsed(content: bytes) -> ClassFile:
    """A class file. Raises ValueError if it is none."""
    constants, at = _constants(content)

    def class_at(number: int) -> str:
        return str(constants[constants[number]]).replace("/", ".") if number else ""

    _, own, parent, count = struct.unpack_from(">4H", content, at)
    at += 8
    interfaces = struct.unpack_from(f">{count}H", content, at)
    at += 2 * count
    members = list[Method]()
    for is_method in (False, True):  # (3)
        (count,) = struct.unpack_from(">H", content, at)
        at += 2
        for _ in range(count):
            flags, name, descriptor, attributes = struct.unpack_from(">4H", content, at)
            at += 8
            for _ in range(attributes):
                at += 6 + struct.unpack_from(">I", content, at + 2)[0]
            members.append(_member(flags, constants[name], constants[descriptor], is_method))
    return ClassFile(class_at(own), tuple(filter(None, map(class_at, (parent, *interfaces)))), tuple(members))


def _member(flags: int, name: str, descriptor: str, is_method: bool) -> Method:
    parameters, _, result = descriptor.rpartition(")")
    types = tuple(map(_simple, _DESCRIPTOR.finditer(parameters)))
    (returned,) = map(_simple, _DESCRIPTOR.finditer(result))
    return Method("new" if name == "<init>" else name, types if is_method else None, returned, bool(flags & _STATIC))


def _simple(found: re.Match[str]) -> str:
    """`Lscala/collection/immutable/Seq;` -> Seq"""
    arrays, letter, name = found.groups()
    return (_OF_LETTER[letter] if letter else name.rpartition("/")[2]) + "[]" * len(arrays)


def _constants(content: bytes) -> tuple[list[Any], int]:  # (2)
    """The constant pool: texts as texts, a class as the number of its name, everything else as None; and where it ends."""
    if content[:4] != b"\xca\xfe\xba\xbe":
        raise ValueError("Not a class file")
    (count,) = struct.unpack_from(">H", content, 8)
    constants: list[Any] = [None]
    at = 10
    while len(constants) < count:
        tag = content[at]
        if tag == _TEXT:
            size = int.from_bytes(content[at + 1:at + 3], "big")
            constants.append(content[at + 3:at + 3 + size].decode("utf-8", "replace"))
            at += 3 + size
            continue
        constants.append(int.from_bytes(content[at + 1:at + 3], "big") if tag == _CLASS else None)
        if tag in _WIDE:
            constants.append(None)
        at += 1 + _SIZE_OF_CONSTANT[tag]
    return constants, at
