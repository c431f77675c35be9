"""Compares the two lists of what the package uses of Spark's internals with a Spark: all that is missing or has changed.

    python -m minispark_stream.tools.contract.check              the PySpark that is installed
    python -m minispark_stream.tools.contract.check FOLDER       another one: its folder, or that of its unpacked archive

1. A class must be there. Otherwise, classes of the same simple name in other packages are named.
2. A member must have the very signature of the list, or it must be inherited. Otherwise, its present signatures are named.
3. A name of a Python module must be there. If it is a function, it has the parameters of the list, and all others are optional.
4. A conf must be among the texts of the classes in which Spark defines confs, and a condition in Spark's list of them.
5. The classes of the Kafka connector are looked at only if its jars are given or were downloaded before, because PySpark comes
   without them.

    LogicalRDD.new: not new(Seq, RDD, boolean) any more, but new(Seq, RDD, boolean, Option)        the rows of a batch (plans)

Models: nothing of Spark.
Differs from Spark: nothing.
Shown by tests/unit/tools/contract/test_check.py.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from minispark_stream.engine.jvm.contract import ENGINE, ContractEntry
from minispark_stream.extras.jvm.contract import EXTRAS
from minispark_stream.tools.contract.class_files import Jars, Method, class_of
from minispark_stream.tools.contract.python_files import PythonSources

_CONFS = re.compile(r"org/apache/spark/(sql/internal/(SQLConf|StaticSQLConf|SqlApiConfHelper)|internal/config/\w+)\$\.class")
_CONDITIONS = ("error/error-conditions.json", "error/error-classes.json")
_OF_CONNECTOR = ("org.apache.spark.sql.kafka010.", "org.apache.kafka.")
_MANY = 3  # signatures that are named


class Breach(NamedTuple):
    """Something that a Spark does not have as the list says. `use` says what it is used for, and by whom."""

    name: str
    says: str
    use: str

    def __str__(self) -> str:
        return f"{self.name}: {self.says}; used for {self.use}" if self.use else f"{self.name}: {self.says}"


class SparkInstallation:
    """What is looked at: the jars and the Python source of a Spark.

    Args:
        jars: the folder of its jars.
        python: the folder of its Python package.
        more: the jars of the Kafka connector, if there are any.
    """

    def __init__(self, jars: Path, python: Path, more: Iterable[Path] = ()):
        self.jars, self.sources = Jars(jars, tuple(more)), PythonSources(python)
        of_confs = (name for name in self.jars.files if _CONFS.fullmatch(name))
        self.confs = frozenset[str]().union(*map(self.jars.texts, map(class_of, of_confs)))
        self.conditions = frozenset(_conditions(self.jars))
        self.has_connector = self.jars.find("org.apache.spark.sql.kafka010.KafkaSourceProvider") is not None


def installed(spark_home: str | None = None) -> SparkInstallation | None:
    """The Spark that a session would run, and the PySpark that this Python would import; None if there is none of them."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    python = Path(spec.origin).parent
    jars = Path(spark_home or python, "jars")
    return SparkInstallation(jars, python, downloaded()) if jars.is_dir() else None


def downloaded() -> list[Path]:
    """The jars of the connector that have been downloaded for the course."""
    folder = Path.home() / ".cache" / "minispark_stream" / "jars"
    return [path for pattern in ("spark-sql-kafka-*.jar", "kafka-clients-*.jar") for path in sorted(folder.glob(pattern))]


def entries() -> tuple[ContractEntry, ...]:
    return ENGINE.entries + EXTRAS.entries


def differences(spark: SparkInstallation, wanted: Iterable[ContractEntry]) -> Iterator[Breach]:
    """All differences of a Spark from what is wanted of it, in the order of the lists."""
    for entry in wanted:
        match entry.kind:
            case "class" | "object":
                if spark.has_connector or not entry.name.startswith(_OF_CONNECTOR):  # (5)
                    yield from _of_class(spark.jars, entry)
            case "python":
                yield from _of_module(spark.sources, entry)
            case "conf" if entry.name not in spark.confs:  # (4)
                yield Breach(entry.name, "Spark has no such conf", entry.use)
            case "condition" if entry.name not in spark.conditions:
                yield Breach(entry.name, "Spark has no such condition", entry.use)


def _of_class(jars: Jars, entry: ContractEntry) -> Iterator[Breach]:
    name = f"{entry.name}$" if entry.kind == "object" else entry.name
    if jars.find(name) is None:  # (1)
        others = jars.named_alike(name)
        yield Breach(name, f"is gone, but there is {' and '.join(others)}" if others else "is gone", entry.use)
        return
    there = list(dict.fromkeys(jars.members(name)))
    found = set(map(str, there))
    for member in entry.members:  # (2)
        if member not in found:
            own = _name_of(member)
            alike = [one for one in there if one.name == own]
            yield Breach(f"{name}.{own}", _changed(member, alike), entry.use)


def _changed(member: str, alike: Collection[Method]) -> str:
    now = list(dict.fromkeys(map(str, alike)))
    if not now:
        return f"{member} is gone"
    rest = f" or {len(now) - _MANY} others" if len(now) > _MANY else ""
    return f"not {member} any more, but {' or '.join(now[:_MANY])}{rest}"


def _of_module(sources: PythonSources, entry: ContractEntry) -> Iterator[Breach]:
    names = sources.names(entry.name)
    if names is None:
        yield Breach(entry.name, "there is no such module", entry.use)
        return
    for member in entry.members:  # (3)
        own, has_parameters, parameters = member.partition("(")
        if own not in names:
            yield Breach(f"{entry.name}.{own}", f"{member} is gone", entry.use)
        elif has_parameters and not _accepts(str(names[own]), parameters.removesuffix(")")):
            yield Breach(f"{entry.name}.{own}", f"not {member} any more, but {own}({names[own]})", entry.use)


def _accepts(now: str, wanted: str) -> bool:
    """Whether a function can be called with the parameters that are wanted; a parameter with a default ends in `=`."""
    there, asked = ([p for p in text.split(", ") if p] for text in (now, wanted))
    names = {p.rstrip("=") for p in asked}
    return names <= {p.rstrip("=") for p in there} and all(p.endswith("=") or p.startswith("*") or p in names for p in there)


def _name_of(member: str) -> str:
    """`static get(long) Option` -> get, `field registry MetricRegistry` -> registry"""
    words = member.removeprefix("static ").removeprefix("field ")
    return re.split(r"[( ]", words, maxsplit=1)[0]


def _conditions(jars: Jars) -> Iterator[str]:
    content = next(filter(None, map(jars.content, _CONDITIONS)), b"{}")
    for name, what in json.loads(content).items():
        yield name
        yield from (f"{name}.{part}" for part in what.get("subClass", {}))


def main(arguments: list[str]) -> int:
    """Prints every difference; returns 1 if there is one, or if there is no Spark."""
    if arguments:
        root = Path(arguments[0])
        python = root / "pyspark" if (root / "pyspark").is_dir() else root
        jars = next((one for one in (python / "jars", root / "deps" / "jars") if one.is_dir()), root / "jars")
        spark: SparkInstallation | None = SparkInstallation(jars, python, downloaded())
    else:
        spark = installed()
    if spark is None:
        print("There is no PySpark with jars.")
        return 1
    wanted = entries()
    found = list(differences(spark, wanted))
    for one in found:
        print(one)
    connector = "" if spark.has_connector else " (the Kafka connector was not looked at)"
    print(f"{len(found)} of {count(wanted)} are missing or different{connector}")
    return 1 if found else 0


def count(wanted: Iterable[ContractEntry]) -> int:
    """How many things are looked at: entries, and their members."""
    return sum(1 + len(entry.members) for entry in wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
