"""What this package uses of Spark's internals, in two lists: contract.txt of this folder, and that of extras/jvm.

Spark promises that its public API stays. The engine also calls classes that no document promises: it builds its plans with
Catalyst's own. Such a class may be renamed, or get one more parameter, in any version of Spark. So each is declared in a list,
with the members that are used, what for, and by which module. Nothing else in the package writes the full name of a class of
Spark: a module gives the simple name, and the list has the package in which the class is.

    class org.apache.spark.sql.execution.LogicalRDD -- the rows of a batch as a leaf (plans)
        new(Seq, RDD, Partitioning, Seq, boolean, Option, SparkSession, Option, Option, boolean)
        rdd() RDD

    ENGINE["LogicalRDD"]                 "org.apache.spark.sql.execution.LogicalRDD"
    ENGINE["LogicalRDD.rdd"]             "org.apache.spark.sql.execution.LogicalRDD.rdd"
    ENGINE["Cast$"]                      "org.apache.spark.sql.catalyst.expressions.Cast$", the class of a Scala object
    ENGINE["java.util.HashMap"]          "java.util.HashMap", because classes of Java and of Scala are not in the lists

1. A line without indentation is an entry: `class`, `object` (of Scala), `python` (a module of PySpark), `conf` or `condition`
   (of an error), with a name. What follows after `--` says what it is used for and, in brackets, by whom.
2. The indented lines below an entry are the members that are used. Those of a class have the types of their parameters and of
   the result, without packages; those of a module may have the names of their parameters.

`python -m minispark_stream doctor` compares both lists with the Spark that is installed (tools/contract/check.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from importlib.resources import files
from typing import NamedTuple


class ContractEntry(NamedTuple):
    """`kind` is the first word of its line."""

    kind: str
    name: str
    use: str
    members: tuple[str, ...]


class Contract:
    """A list.

    Args:
        folder: the Python package in which its contract.txt is.
    """

    def __init__(self, folder: str):
        self._folder = folder

    @cached_property
    def entries(self) -> tuple[ContractEntry, ...]:
        return tuple(parsed(files(self._folder).joinpath("contract.txt").read_text(encoding="utf-8")))

    @cached_property
    def _names(self) -> dict[str, str]:
        classes = (entry.name for entry in self.entries if entry.kind in ("class", "object"))
        return {name.rpartition(".")[2]: name for name in classes}

    def __getitem__(self, name: str) -> str:
        """The full name of a class, which is given by its simple name, or of a member of it.

        Raises:
            KeyError: the class is not in the list.
        """
        own, dot, member = name.partition(".")
        if not own[:1].isupper():
            return name
        return f"{self._names[own.removesuffix('$')]}{'$' * own.endswith('$')}{dot}{member}"


def parsed(text: str) -> Iterator[ContractEntry]:
    """The entries of a list. Lines that begin with # say something to the reader only."""
    entry: tuple[str, str, str] | None = None
    members: list[str] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line[0] == " ":  # (2)
            members.append(line.strip())
            continue
        if entry is not None:
            yield ContractEntry(*entry, tuple(members))
        what, _, use = line.partition(" -- ")  # (1)
        kind, name = what.split()
        entry, members = (kind, name, use), []
    if entry is not None:
        yield ContractEntry(*entry, tuple(members))


ENGINE = Contract("minispark_stream.engine.jvm")
