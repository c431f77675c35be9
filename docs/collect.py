"""Writes the parts of docs/ that repeat what the code says, so that they cannot say something else: `make docs`.

A page marks such a part with two comments; what is between them is replaced:

    <!-- collect: differences -->
    ...
    <!-- end -->

1. `differences`: module, what it models, its line "Differs from Spark: ...", and the tests named behind "Shown by", for every
   module of the engine that differs in something.
2. `classes`: every Spark class that a line "Models: ..." names, with a link to its source and the modules that name it. The
   path is read from the jars of the installed PySpark; what is not in them is listed in ELSEWHERE.
3. `code FILE NAME`: the source of a class, function or method of the package.
4. `numbers FILE`: the numbered lines of a module's docstring.
5. `glossary`: what every module that re-implements a part of Spark is, with Spark's classes and the sections of the documents.
6. `behaviours`: what docs/behaviours.toml lists, with links to notebooks, modules and tests.
7. `benchmark`: the table of docs/bench.json, which is what `make bench` wrote into build/bench, and what it says;
   `benchmark-shapes`: its rows with other shapes and heaps; `benchmark-notes`: why some of it is so; `benchmark-in-short`: the
   README's part; `estimate`: what follows for a cluster.
8. `symptoms`: the entries of minispark_stream/tools/symptoms/texts; `symptoms-contents`: their groups;
   `symptoms-prelude`: the lines that their code begins with.
9. `types`: the table of tests/conformance/types.json, which is what the long run of tests/conformance/test_types.py wrote.
10. `growth`: what docs/growth.json says, which bench_growth has written.
11. `measured NAME`: the text of a measurement in docs/measured.toml, with its `values` in their places; `measured NAME short`:
   its other text, for another page. `measured-on PAGE`: of the measurements that a page shows, or of whose `figures` it names
   some, what was measured, when, at which commit, on which machine and by which command.
12. `metrics`: what monitoring exports, of a query and of a checkpoint.
13. `rules`: what `check` says of each kind of change, from minispark_stream/tools/operations/check/rules.toml.
14. `cards`: the cards of docs/cards.toml, see docs/cards.py.

It also writes docs/play.html, the page to play with and its cards, as a file that opens from disk.

tests/unit/project/test_docs.py fails when a page is not what this would write.
"""

from __future__ import annotations

import ast
import json
import re
import statistics
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyspark

from docs.cards import anchor
from docs.cards import page as page_to_play_with
from docs.cards import sections as cards
from minispark_stream.tools.course import LESSONS
from minispark_stream.tools.monitoring.families import FAMILIES, OF_FILES
from minispark_stream.tools.operations.check.rules import rules
from minispark_stream.tools.symptoms import groups, prelude

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "minispark_stream"
PLAY = Path(__file__).with_name("play.html")
DOCS = ROOT / "docs"
NOTEBOOKS = {path.stem[:2]: path.name for path in sorted((ROOT / "notebooks").glob(LESSONS))}

# The folders of modules that re-implement a part of Spark, each of which says which one.
ENGINE = (
    "engine/runtime/", "engine/operators/", "engine/state/", "engine/checkpointing/", "engine/sources/", "engine/sinks/",
    "engine/plan/", "extras/continuous/", "extras/transform_with_state/", "extras/kafka/", "extras/delta/", "extras/socket/",
    "extras/python_data_source/", "extras/rocksdb/", "extras/async_progress_tracking/",
)

SHOWN_SIGNS = 4  # error conditions and messages of a symptom
MARK = re.compile(r"(<!-- collect: (.+?) -->\n).*?(<!-- end -->)", re.S)
CAMEL_CASE = re.compile(r"\b[A-Z][A-Za-z0-9]*[a-z0-9][A-Z][A-Za-z0-9]*\b")
DOCUMENT = re.compile(r"\bAbout [a-z]+|\b[A-Z][a-z]+ document\b|SIGMOD'18 paper|Execution flow|From query to the plan|"
                      r"StructuredStreaming analysis")
SECTION = re.compile(rf"(?:{DOCUMENT.pattern})(?:, (?:section |steps? )?\d[\d.]*\d?(?: (?:to|and) [\d.]*\d)?)?")

SPARK = "https://github.com/apache/spark/blob/v4.3.0/"
DELTA = "https://github.com/delta-io/delta/blob/master/spark/src/main/scala/org/apache/spark/sql/delta/"
KAFKA = SPARK + "connector/kafka-0-10-sql/src/main/scala/org/apache/spark/sql/kafka010/"
JARS = {  # jar -> where its sources are in Spark's repository
    "spark-sql_": "sql/core",
    "spark-catalyst_": "sql/catalyst",
    "spark-sql-api_": "sql/api",
    "spark-core_": "core",
    "spark-unsafe_": "common/unsafe",
}
ELSEWHERE = {  # what PySpark's jars do not hold, or where the folder is not the package
    "ManifestFileCommitProtocol": SPARK + "sql/core/src/main/scala/org/apache/spark/sql/execution/streaming/runtime/"
                                  "ManifestFileCommitProtocol.scala",
    "ConsumerStrategy": KAFKA + "ConsumerStrategy.scala",
    "JsonUtils": KAFKA + "JsonUtils.scala",
    "KafkaContinuousPartitionReader": KAFKA + "KafkaContinuousStream.scala",
    "KafkaContinuousStream": KAFKA + "KafkaContinuousStream.scala",
    "KafkaDataWriter": KAFKA + "KafkaDataWriter.scala",
    "KafkaMicroBatchStream": KAFKA + "KafkaMicroBatchStream.scala",
    "KafkaOffsetRangeLimit": KAFKA + "KafkaOffsetRangeLimit.scala",
    "KafkaOffsetReaderAdmin": KAFKA + "KafkaOffsetReaderAdmin.scala",
    "KafkaSourceInitialOffsetWriter": KAFKA + "KafkaSourceInitialOffsetWriter.scala",
    "KafkaSourceOffset": KAFKA + "KafkaSourceOffset.scala",
    "KafkaSourceProvider": KAFKA + "KafkaSourceProvider.scala",
    "KafkaStreamingWrite": KAFKA + "KafkaStreamingWrite.scala",
    "KafkaTable": KAFKA + "KafkaSourceProvider.scala",
    "KafkaWrite": KAFKA + "KafkaWrite.scala",
    "KafkaWriteTask": KAFKA + "KafkaWriteTask.scala",
    "DelayedCommitProtocol": DELTA + "files/DelayedCommitProtocol.scala",
    "DeltaSink": DELTA + "sources/DeltaSink.scala",
    "ImplicitMetadataOperation": DELTA + "schema/ImplicitMetadataOperation.scala",
    "StatisticsCollection": DELTA + "stats/StatisticsCollection.scala",
    "LZ4BlockOutputStream": "https://github.com/lz4/lz4-java/blob/master/src/java/net/jpountz/lz4/LZ4BlockOutputStream.java",
    "StatefulProcessor": SPARK + "python/pyspark/sql/streaming/stateful_processor.py",
}
NO_CLASS = {"PySpark", "StructuredStreaming", "SymmetricHashJoin", "RocksDB", "DataFrame", "WithTTL"}

SETTINGS = {  # of the benchmark
    "default": "Spark with its default settings", "unix sockets": "with Unix sockets for the workers",
    "plain files": "with the file manager that starts no process",
}
IN_SHORT = ("stateless", "windows", "keys", "sessions", "join-20k")  # what the README has of it


class NotCollected(Exception):
    """What a page or a docstring asks for is not there; the message says what to write."""


@dataclass(frozen=True)
class Module:
    """What the docstring of a module says. `models`, `differs`, `shown_by`: the text behind these words, None without them."""

    path: str
    doc: str
    models: str | None
    differs: str | None
    shown_by: str | None

    @property
    def link(self) -> str:
        return f"[{self.path}](../minispark_stream/{self.path})"

    @property
    def of_engine(self) -> bool:
        """Whether it re-implements a part of Spark."""
        return self.path.startswith(ENGINE) or self.models is not None

    @property
    def classes(self) -> list[str]:
        """Spark's classes in the line "Models: ...", in order; words in backquotes are not looked at."""
        words = CAMEL_CASE.findall(re.sub(r"`[^`]*`", "", self.models or ""))
        return [word for word in dict.fromkeys(words) if word not in NO_CLASS]

    @property
    def documents(self) -> list[str]:
        return DOCUMENT.findall(self.models or "")

    @property
    def sections(self) -> list[str]:
        """The documents, with the section or step."""
        return list(dict.fromkeys(SECTION.findall(self.models or "")))

    @property
    def sentence(self) -> str:
        """What it is: the first paragraph of the docstring."""
        return " ".join(self.doc.split("\n\n")[0].split())


@cache
def read_module(path: Path) -> Module:
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    lines = (_paragraph(begin, doc) for begin in ("^Models: ", "Differs from (?:Spark|Delta): ", r"^Shown by\s"))
    return Module(path.relative_to(PACKAGE).as_posix(), doc, *lines)


def modules() -> list[Module]:
    return [read_module(path) for path in sorted(PACKAGE.rglob("*.py"))]


def _paragraph(begin: str, doc: str) -> str | None:
    """What stands behind `begin`, up to an empty line, an indented line, "Differs" or "Shown by"; on one line."""
    found = re.search(begin + r"(.*?)(?=\n\s*\n|\n {4}|\n?\s*Differs from |\nShown by\s|\Z)", doc, re.S | re.M)
    return " ".join(found.group(1).split()) if found else None


# (1)
def differences() -> Iterator[str]:
    yield "| module | models | differs from Spark | shown by |"
    yield "| --- | --- | --- | --- |"
    for module in modules():
        if module.of_engine and module.differs and module.differs != "nothing.":
            tests = ", ".join(_test_link(test) for test in re.findall(r"tests/\S+::\w+", module.shown_by or ""))
            yield f"| {module.link} | {', '.join(module.classes)} | {_cell(module.differs)} | {tests} |"


def _test_link(test: str) -> str:
    """tests/unit/test_x.py::TestY::test_z as [test_z](../tests/unit/test_x.py), a file by its name."""
    file, *names = test.split("::")
    return f"[{(names or [Path(file).stem])[-1]}](../{file})"


# (2)
def classes() -> Iterator[str]:
    cited: dict[str, list[Module]] = {}
    for module in modules():
        for name in module.classes:
            cited.setdefault(name, []).append(module)
    yield "| Spark's class | modelled by |"
    yield "| --- | --- |"
    for name, by in sorted(cited.items(), key=lambda item: item[0].lower()):
        yield f"| [{name}]({url(name)}) | {', '.join(module.link for module in by)} |"


def url(name: str) -> str:
    """Where the source of a class is.

    Raises:
        NotCollected: it is neither in PySpark's jars nor in ELSEWHERE.
    """
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    paths = {_source_path(jar, folder, entry) for jar, folder in JARS.items() for entry in _entries(jar).get(name, ())}
    if paths:
        return SPARK + min(paths, key=lambda p: (Path(p).stem != name, "/classic/" not in p, "/streaming/" not in p, len(p), p))
    raise NotCollected(f"{name}: not in PySpark's jars. Is it misspelt? If it is a class of another project, add it to "
                       "ELSEWHERE in docs/collect.py; if it is no class, write it in `backquotes`")


@cache
def _entries(jar: str) -> dict[str, list[str]]:
    """Class name (of a nested class also the last part) -> entries of the jar."""
    found: dict[str, list[str]] = {}
    for entry in _jar(jar).namelist():
        if entry.endswith(".class"):
            names = [name for name in entry[:-6].rpartition("/")[2].split("$") if name]
            for name in {names[0], names[-1]}:
                found.setdefault(name, []).append(entry)
    return found


@cache
def _jar(begin: str) -> zipfile.ZipFile:
    [path] = (Path(pyspark.__file__).parent / "jars").glob(begin + "*.jar")
    return zipfile.ZipFile(path)


def _source_path(jar: str, folder: str, entry: str) -> str:
    """The class file says the name of the file that it was compiled from."""
    content = _jar(jar).read(entry)
    for length, name in re.findall(rb"\x01\x00(.)([\w]+\.(?:scala|java))", content, re.S):
        if length[0] == len(name):
            source = name.decode()
            return f"{folder}/src/main/{source.rpartition('.')[2]}/{entry.rpartition('/')[0]}/{source}"
    raise NotCollected(f"{entry} in {jar}*.jar does not name its source")


# (3)
def code(file: str, name: str) -> Iterator[str]:
    text = (PACKAGE / file).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        inside = [n for n in ast.iter_child_nodes(node) if getattr(n, "name", None) == part]
        if not inside:
            raise NotCollected(f"{file} has no {name}: change the line <!-- collect: code {file} {name} -->")
        node = inside[0]
    assert isinstance(node, ast.ClassDef | ast.FunctionDef)
    begin = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    lines = text.splitlines()[begin - 1 : node.end_lineno]
    indent = len(lines[0]) - len(lines[0].lstrip())
    yield "```python"
    yield from (line[indent:] for line in lines)
    yield "```"


# (4)
def numbers(file: str) -> Iterator[str]:
    doc = read_module(PACKAGE / file).doc
    found = re.search(r"^1\. .*?(?=\n\n|\Z)", doc, re.S | re.M)
    if found is None:
        raise NotCollected(f"{file}: its docstring has no numbered lines")
    yield found.group()


# (5)
def glossary() -> Iterator[str]:
    yield "| module | in a sentence | Spark's class | document |"
    yield "| --- | --- | --- | --- |"
    for module in modules():
        if module.of_engine and module.classes:
            yield f"| {module.link} | {_cell(module.sentence)} | {', '.join(module.classes)} | {'; '.join(module.sections)} |"


# (6)
def behaviours() -> Iterator[str]:
    about = None
    for behaviour in read_behaviours():
        if behaviour["about"] != about:
            about = behaviour["about"]
            yield from (f"\n## {about}\n", "| | behaviour | notebook | module | shown by |", "| --- | --- | --- | --- | --- |")
        today = f"<br>*Today:* {behaviour['today']}" if "today" in behaviour else ""
        notebooks = (f"[{number}](../notebooks/{NOTEBOOKS[number]})" for number in behaviour["notebooks"])
        links = (f"[{path}](../minispark_stream/{path})" for path in behaviour["modules"])
        tests = map(_test_link, behaviour["tests"])
        cells = behaviour["number"], _cell(behaviour["phrase"] + today), *map(", ".join, (notebooks, links, tests))
        yield f"| {' | '.join(map(str, cells))} |"


def read_behaviours() -> list[dict[str, Any]]:
    return tomllib.loads((DOCS / "behaviours.toml").read_text(encoding="utf-8"))["behaviour"]


# (7)
def benchmark() -> Iterator[str]:
    found = json.loads((DOCS / "bench.json").read_text(encoding="utf-8"))
    settings = {name: found["settings"][name] for name in SETTINGS if name in found["settings"]}
    (first, rows), *others = settings.items()
    of = {(setting, row["workload"]): row for setting, some in settings.items() for row in some}
    yield f"{found['machine']}; {SETTINGS[first]}. Milliseconds per trigger, medians:"
    yield ""
    heads = [f"model / Spark, {name}" for name, _ in others]
    yield _line("workload", "rows a trigger", "Spark", "Spark, RocksDB", "the model", "the model, RocksDB", "batch job",
                "model / Spark", *heads, "cold", "goal", "model / batch job", "goal")
    yield _line(*["---"] * (12 + len(others)))
    for row in rows:
        names = ("spark", "spark rocksdb", "model", "model rocksdb", "batch job")
        ms = [f"{row['medians'][name]:,.0f}" if name in row["medians"] else "" for name in names]
        ratios = [_ratio(of.get((name, row["workload"]))) for name in settings]
        cold = f"{row['cold']['model'] / row['cold'][row['against']]:.2f}" if row["cold"] else ""
        number, _, what = row["says"].partition(": ")
        of_batch = f"{row['ratios'][1]['median']:.2f}", str(row.get("distance") or "")
        yield _line(f"{row['workload']}: {what}", number, *ms, *ratios, cold, str(row["goal"]), *of_batch)
    yield ""
    yield f"Measured: {'; '.join(f'{name}: {when}' for name, when in found['measured'].items() if name in settings)}."
    yield from _what_it_says(first, of)


def _what_it_says(first: str, of: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[str]:
    several = len({setting for setting, _ in of}) > 1
    shown = {(setting, name): f"`{name}`" + (f" ({setting})" if several else "") for setting, name in of}
    level, slower = ([shown[key] for key, row in of.items() if least < row["ratios"][0]["median"] <= most]
                     for least, most in ((0.95, 1), (1, float("inf"))))
    ahead = "The model is ahead of Spark in every row"
    yield (f"{ahead} but {_and(slower + level)}." if slower + level else f"{ahead}.")
    if slower:
        yield f"It is slower in {_and(slower)}."
    if level:
        yield f"It is level with Spark in {_and(level)}."
    rows = [row for (setting, _), row in of.items() if setting == first]
    for what, goal, place in ("share of Spark's time", "goal", 0), ("multiple of the batch job's time", "distance", 1):
        with_goal = {f"`{row['workload']}`": row["ratios"][place]["median"] <= row[goal] for row in rows if row.get(goal)}
        reached, missed = ([name for name, is_so in with_goal.items() if is_so is wanted] for wanted in (True, False))
        found = f"{_and(reached) or 'no row'}, and misses it in {_and(missed)}" if missed else "every row that has one"
        yield f"As a {what}, it reaches its goal in {found}."
    if apart := [shown[key] for key, row in of.items() if not row["agreed"]]:
        yield f"There were too few rounds, or they do not agree, in {'any row' if len(apart) == len(of) else _and(apart)}."
    if disturbed := [shown[key] for key, row in of.items() if (row["others"] or 0) > 0.1]:
        yield f"Other programs took more than a tenth of a core in {_and(disturbed)}."


def _ratio(row: Mapping[str, Any] | None) -> str:
    return "" if row is None else "{median:.2f} ({least:.2f} to {most:.2f})".format(**row["ratios"][0])


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _and(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


NOTES = """\
The columns *unix sockets* and *plain files* have settings that few users have. With *plain files*, the model is ahead
by little: without its own processes for each file, Spark takes about half the time, and the model runs two Python tasks
in each partition and waits until the disk has what it writes, which Spark does not. The column *unix sockets* was
measured last, in an hour in which the machine was slower (a trigger of `campaigns` took Spark {slow:.0f} ms) and
uneven, so the rounds of most rows do not agree.

Why four rows are further from the batch job than they should be: in `campaigns`, what a small trigger takes beside its
batch job ({beside:.0f} ms in `windows`) is nearly a tenth of the batch job, which itself took between {least:.0f} and
{most:.0f} ms. In `keys`, `sessions` and `join-200k`, the batch job neither keeps nor writes state: see [what is
left](#what-is-left)."""


def benchmark_notes() -> Iterator[str]:
    settings = json.loads((DOCS / "bench.json").read_text(encoding="utf-8"))["settings"]
    of = {(name, row["workload"]): row for name, rows in settings.items() for row in rows}
    jobs = [ms for of_round in of["default", "campaigns"]["runs"]["batch job"] for ms in of_round]
    windows = of["default", "windows"]["medians"]
    slow = of["unix sockets", "campaigns"]["medians"]["spark"]
    said = NOTES.format(slow=slow, beside=windows["model"] - windows["batch job"], least=min(jobs), most=max(jobs))
    yield from said.split("\n")


def benchmark_shapes() -> Iterator[str]:
    """The settings that ask whether another choice of files and of the heap would have said something else."""
    found = json.loads((DOCS / "bench.json").read_text(encoding="utf-8"))
    shaped = {name: some for name, some in found["settings"].items() if name not in SETTINGS}
    rows = [(f"{row['workload']}, {name}", row) for name, some in shaped.items() for row in some]
    rows.sort(key=lambda one: one[0])
    yield _line("workload, state, heap", "Spark", "the model", "collector: Spark", "collector: the model",
                "model / Spark", "cold", "goal", "stood still", "others had")
    yield _line(*["---"] * 10)
    for name, row in rows:
        columns = (f"{row[what][engine]:,.0f}" for what in ("medians", "collector") for engine in (row["against"], "model"))
        cold = f"{row['cold']['model'] / row['cold'][row['against']]:.2f}"
        counts = "yes" if row["agreed"] else "no"
        others = f"{row['others']:.1f} cores"
        yield _line(name, *columns, _ratio(row), cold, str(row["goal"]), counts, others)
    yield ""
    yield f"Measured: {'; '.join(f'{name}: {when}' for name, when in found['measured'].items() if name in shaped)}."
    missed = [name for name, row in rows if row["agreed"] and row["ratios"][0]["median"] > row["goal"]]
    if any(row["agreed"] for _, row in rows):
        yield f"Of the rows that count, the model misses its goal in {_and(missed) or 'none'}."
    else:
        yield "No row stood still, because other programs ran meanwhile, so none of these ratios counts."


def benchmark_in_short() -> Iterator[str]:
    found = json.loads((DOCS / "bench.json").read_text(encoding="utf-8"))
    first, rows = next(iter(found["settings"].items()))
    yield _line("a trigger of", "Spark", "the model, recording nothing")
    yield _line(*["---"] * 3)
    for row in (row for row in rows if row["workload"] in IN_SHORT):
        number, _, what = row["says"].partition(": ")
        yield _line(f"{what}; {number}", *(_seconds(row["medians"][name]) for name in (row["against"], "model")))
    yield ""
    of_spark = (
        "Spark's time is that of the faster of its two state stores; `demo` and `side_by_side` show more for the model, "
        "which records rows there."
    )
    yield f"{found['machine']}; {SETTINGS[first]}; medians. {of_spark} Measured on {found['measured'][first]}."
    yield ""
    yield from measured("continuous", "short")


ESTIMATE = """\
    rows        a trigger of `campaigns` takes {campaigns:.0f} ms for 4 million rows on {cores} cores: {rows:.0f} million
                a second, {of_core:.0f} million a core. Spark itself processes {of_spark:.0f} million a second here.
    per row     minus the {small:.0f} ms that a small windowed trigger takes: {rest:.0f} ms, or {row} microseconds
                of a core
    per key     a trigger of `keys` changes some 390,000 keys and takes {keys:.0f} ms, of which {job:.0f} are the batch
                job and about {fixed:.0f} the rest of a small trigger: {state:.0f} ms, or {key} microseconds of a core
    a batch     about {small:.0f} ms, whatever it contains: planning, logs, one job

On 20 nodes with 8 cores, rows of that kind would take {row} / 160 microseconds each: {most_rows:,.0f} million a second, if
nothing else cost anything. In a batch of 10 seconds, the {small:.0f} ms are {share:.1g} %. Rows that each change a key would
come to 160 / {key} microseconds: {most_keys:,.0f} million a second. A real query of this kind would reach this limit first,
because it has many keys where the paper's query has 100 campaigns."""


def estimate() -> Iterator[str]:
    found = json.loads((DOCS / "bench.json").read_text(encoding="utf-8"))
    ms = {row["workload"]: row["medians"] for row in next(iter(found["settings"].values()))}
    cores, campaigns, keys = int(found["machine"].split()[0]), ms["campaigns"]["model"], ms["keys"]["model"]
    small, job = ms["windows"]["model"], ms["keys"]["batch job"]
    fixed, rest = small - ms["windows"]["batch job"], campaigns - small
    state = keys - job - fixed
    row, key = (f"{1000 * spent * cores / number:.2g}" for spent, number in ((rest, 4e6), (state, 390e3)))
    of_model, of_spark = (4e3 / spent for spent in (campaigns, min(ms["campaigns"][one] for one in ("spark", "spark rocksdb"))))
    yield from ESTIMATE.format(
        campaigns=campaigns, cores=cores, rows=of_model, of_core=of_model / cores, of_spark=of_spark, small=small, rest=rest,
        row=row, keys=keys, job=job, fixed=fixed, state=state, key=key, share=small / 100,
        most_rows=160 / float(row), most_keys=160 / float(key),
    ).split("\n")


def symptoms_contents() -> Iterator[str]:
    yield _line("what you see", "", "entries")
    yield _line(*["---"] * 3)
    yield from (_line(f"[{one.title}](#{anchor(one.title)})", one.about, str(len(one.symptoms))) for one in groups())


def symptoms_page() -> Iterator[str]:
    for group in groups():
        yield from (f"## {group.title}", "", group.about, "")
        for one in group.symptoms:
            yield from (f"### {one.title}", "", one.means, "", f"**The way out.** {one.way_out}", "")
            signs = [f"`{words}`" for words in (*one.conditions, *one.says)]
            more = f", and {len(signs) - SHOWN_SIGNS} more" if len(signs) > SHOWN_SIGNS else ""
            says = f"Spark says {', '.join(signs[:SHOWN_SIGNS])}{more}." if signs else "There is no error."
            yield from (f"{says} Read more: {_page_link(one.see)}.", "")
            if one.code:
                yield from ("```python", one.code.strip("\n"), "```", "")


def _page_link(see: str) -> str:
    return f"[notebook {see}](../notebooks/{NOTEBOOKS[see]})" if see.isdigit() else f"[{see}]({see}.md)"


def symptoms_prelude() -> Iterator[str]:
    yield from ("```python", prelude().strip("\n"), "```")


def _seconds(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


# (9)
def growth() -> Iterator[str]:
    found = json.loads((DOCS / "growth.json").read_text(encoding="utf-8"))
    yield _line("ms, medians of", "Spark", "the model")
    yield _line(*["---"] * 3)
    for compacts, words in ((False, "the other batches"), (True, "those that compact the logs")):
        for first in (100, len(found["spark"]["ms"]) - 100):
            batches = [b for b in range(first, first + 100) if ((b + 1) % 10 == 0) == compacts]
            medians = (statistics.median(found[engine]["ms"][b] for b in batches) for engine in ("spark", "model"))
            yield _line(f"batches {first} to {first + 99}, {words}", *(f"{ms:.0f}" for ms in medians))
    yield ""
    of_engines = "; ".join(f"{engine}: {of['measured']}" for engine, of in found.items())
    yield f"Measured on 2 cores; {of_engines}."


# (11)
def measured(name: str, form: str = "text") -> Iterator[str]:
    entry = measurements()[name]
    text = entry[form].strip("\n")
    yield from (text.format_map(entry | entry["values"]) if "values" in entry else text).split("\n")


def measured_on(page: str) -> Iterator[str]:
    text = ((ROOT if page == "README" else DOCS) / f"{page}.md").read_text(encoding="utf-8")
    yield _line("what", "measured", "commit", "machine", "command")
    yield _line(*["---"] * 5)
    named = [name for name, entry in measurements().items() if page in entry.get("pages", ())]
    for name in dict.fromkeys([*re.findall(r"<!-- collect: measured ([\w-]+)", text), *named]):
        entry = measurements()[name]
        command = f"`{entry['command']}`" if "command" in entry else ""
        yield _line(entry["what"], f"{entry['date']}", entry["commit"], entry["machine"], command)


@cache
def measurements() -> dict[str, dict[str, Any]]:
    return tomllib.loads((DOCS / "measured.toml").read_text(encoding="utf-8"))


def types() -> Iterator[str]:
    table = json.loads((ROOT / "tests" / "conformance" / "types.json").read_text(encoding="utf-8"))
    notes: dict[str, int] = {}

    def cell(found: Mapping[str, str] | None) -> str:
        if found is None:
            return "–"
        if set(found.values()) == {"equal"}:
            return "="
        kind = "refused" if "refused" in found else "different"
        return f"{'no' if kind == 'refused' else '≠'} {notes.setdefault(f'{kind}: {found[kind]}', len(notes) + 1)}"

    yield _line("type", *table)
    yield _line(*["---"] * (1 + len(table)))
    for name in next(iter(table.values()))["value"]:
        yield _line(name, *(f"{cell(of.get('key', {}).get(name))}, {cell(of['value'][name])}" for of in table.values()))
    yield ""
    yield from (f"{number}. {_cell(note)}" for note, number in notes.items())


def metrics() -> Iterator[str]:
    """The numbers that monitoring exports, and their own labels."""
    for whose, families in (("query", FAMILIES), ("checkpoint", OF_FILES)):
        yield _line(f"of a {whose}", "own labels", "what it is")
        yield _line("---", "---", "---")
        for name, family in families.items():
            labels = ", ".join(f"`{label}`" for label in family.labels)
            yield _line(f"`{name}`", labels, family.says + " (a counter)" * family.is_counter)
        yield ""


def change_rules() -> Iterator[str]:
    yield _line("rule", "verdict", "what it means")
    yield _line(*["---"] * 3)
    yield from (_line(f"`{rule.id}`", rule.verdict, _cell(rule.says)) for rule in rules().values())


PARTS: Mapping[str, Callable[..., Iterator[str]]] = {
    "differences": differences, "classes": classes, "code": code, "numbers": numbers,
    "glossary": glossary, "behaviours": behaviours, "benchmark": benchmark, "benchmark-notes": benchmark_notes,
    "benchmark-shapes": benchmark_shapes, "benchmark-in-short": benchmark_in_short, "estimate": estimate,
    "symptoms": symptoms_page, "symptoms-contents": symptoms_contents, "symptoms-prelude": symptoms_prelude,
    "types": types, "metrics": metrics, "growth": growth, "measured": measured, "measured-on": measured_on,
    "rules": change_rules, "cards": cards,
}


def collected(page: str) -> str:
    """The text of a page, with every marked part as the code has it now."""

    def part(match: re.Match[str]) -> str:
        what, *arguments = match.group(2).split()
        return match.group(1) + "\n".join(PARTS[what](*arguments)) + "\n" + match.group(3)

    return MARK.sub(part, page)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]


if __name__ == "__main__":
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = collected(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"written: {page.relative_to(ROOT)}")
    page_to_play_with().to_html(PLAY)
