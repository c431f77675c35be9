"""The file source: formats, limits, order, memory of files, partition columns, its log."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as F

from minispark_stream.engine.jvm import plans
from minispark_stream.engine.sources.file_listing import Folder
from minispark_stream.lens.view.words import without_ids
from minispark_stream.tools.compare.prepared import confs_set
from tests.conformance.conftest import Compare
from tests.conformance.inputs import random_rows, read_random, rows_of

OLD = 1_700_000_000


def write(folder: str, name: str, text: str, seconds: int) -> None:
    """A file with a modification time, put in place by one rename."""
    path = Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(text)
    os.utime(hidden, (OLD + seconds, OLD + seconds))
    hidden.rename(path)


def files(*named: tuple[str, str, int]) -> Callable[[str], None]:
    def step(folder: str) -> None:
        for name, text, seconds in named:
            write(folder, name, text, seconds)

    return step


def text(session: Any, input_dir: str, **options: Any) -> Any:
    return session.readStream.options(**options).text(input_dir)


MANY = tuple((f"{i:02d}.txt", f"row {i}\n" * (i + 1), i) for i in range(7))
NOW = {"availableNow": True}


@pytest.mark.parametrize(
    "options",
    [
        {"maxFilesPerTrigger": 1},
        {"maxFilesPerTrigger": 3},
        {"maxFilesPerTrigger": 3, "latestFirst": "true"},
        {"maxBytesPerTrigger": 20},
        {"maxBytesPerTrigger": 1},
        {"maxFilesPerTrigger": 3, "discardCachedInputRatio": "0"},
        {"maxFilesPerTrigger": 2, "maxCachedFiles": 0},
        {"latestFirst": "true"},
    ],
    ids=str,
)
def test_read_limits(compare: Compare, options: dict[str, Any]) -> None:
    compare(lambda s, d: text(s, d, **options), [files(*MANY)], trigger=NOW)


@pytest.mark.parametrize("options", [{"maxFilesPerTrigger": 2}, {"maxBytesPerTrigger": 30}], ids=str)
def test_files_that_are_left_over_come_in_later_batches(compare: Compare, options: dict[str, Any]) -> None:
    later = files(*((f"z{i}.txt", f"late {i}\n", 100 + i) for i in range(3)))
    compare(lambda s, d: text(s, d, **options), [files(*MANY), later], trigger=NOW)


def test_files_of_the_same_time_keep_the_order_of_the_listing(compare: Compare) -> None:
    named = [(f"{name}.txt", f"{name}\n", 1) for name in ("c", "a", "ä", "b", "B")]
    compare(lambda s, d: text(s, d, maxFilesPerTrigger=1), [files(*named)], trigger=NOW)


def test_a_file_too_old_is_ignored(compare: Compare) -> None:
    steps = [files(("new.txt", "new\n", 100)), files(("old.txt", "old\n", 50), ("fresh.txt", "fresh\n", 101))]
    comparison = compare(lambda s, d: text(s, d, maxFileAge="10s"), steps, trigger=NOW)
    assert [row for b in comparison.model.batches for row in b.rows] == [("new",), ("fresh",)]


def test_a_file_that_changes_is_read_again_once_it_has_been_forgotten(compare: Compare) -> None:
    steps = [files(("a.txt", f"{row}\n", s), ("b.txt", "b\n", 1)) for row, s in (("a", 1), ("not seen", 2))]
    steps += [files(("c.txt", "c\n", 100)), files(("a.txt", "seen\n", 101))]
    comparison = compare(lambda s, d: text(s, d, maxFileAge="10s"), steps, trigger=NOW)
    assert [row for b in comparison.model.batches for row in sorted(b.rows)] == [("a",), ("b",), ("c",), ("seen",)]


def test_file_name_only(compare: Compare) -> None:
    steps = [files(("a/x.txt", "one\n", 1)), files(("b/x.txt", "again\n", 2), ("b/y.txt", "two\n", 3))]
    compare(lambda s, d: text(s, f"{d}/*", fileNameOnly="true"), steps, trigger=NOW)


def test_hidden_files_are_no_input(compare: Compare) -> None:
    compare(lambda s, d: text(s, d), [files(("_SUCCESS", "no\n", 1), (".x", "no\n", 2), ("x.txt", "yes\n", 3))], trigger=NOW)


def test_globs(compare: Compare) -> None:
    steps = [files(("2024-01/a.txt", "a\n", 1), ("2025-01/b.txt", "b\n", 2), ("2024-02/c.txt", "c\n", 3)), files(("2024-09/d.txt", "d\n", 4))]
    compare(lambda s, d: text(s, f"{d}/2024-*"), steps, trigger=NOW)


def test_path_glob_filter_and_recursive_lookup(compare: Compare) -> None:
    steps = [files(("a.txt", "a\n", 1), ("b.csv", "b\n", 2), ("deep/er/c.txt", "c\n", 3))]
    compare(lambda s, d: text(s, d, pathGlobFilter="*.txt", recursiveFileLookup="true"), steps, trigger=NOW)


def test_partition_columns_come_from_the_folders(compare: Compare) -> None:
    steps = [files(("day=2024-01-02/b.json", '{"a":2}\n', 2)), files(("day=2024-01-03/kind=x/c.json", '{"a":3}\n', 3))]

    def build(session: Any, input_dir: str) -> Any:
        write(input_dir, "day=2024-01-01/a.json", '{"a":1}\n', 1)
        return session.readStream.schema("a int, day date").json(input_dir)

    compare(build, steps[:1])


@pytest.mark.parametrize("case_sensitive", ["true", "false"])
def test_a_column_that_differs_from_a_partition_column_in_its_case(compare: Compare, case_sensitive: str) -> None:
    def build(session: Any, input_dir: str) -> Any:
        write(input_dir, "day=2024-01-01/a.json", '{"Day":"x","v":1}\n', 1)
        return session.readStream.schema("Day string, v int").json(input_dir)

    compared = compare(build, [files(("day=2024-01-02/b.json", '{"Day":"y","v":2}\n', 2))], confs={"spark.sql.caseSensitive": case_sensitive})
    assert compared.columns == (("Day", "v", "day") if case_sensitive == "true" else ("v", "Day"))


@pytest.mark.parametrize("relay", [("model",), ("model", "spark"), ("spark", "model")], ids=" ".join)
def test_names_that_a_uri_must_escape(compare: Compare, relay: tuple[str, ...]) -> None:
    """Spaces, line ends and control characters of Unicode included: a name that is written otherwise is read again."""
    names = ["a b.txt", "100%.txt", "x#1.txt", "q?.txt", "[1].txt", "{2}.txt", "ümlaut.txt", "plus+and&.txt", "tilde~!.txt", "a'b\"c.txt", "^`|.txt",
             *(f"odd{chr(c)}{c:x}.txt" for c in (0x1, 0xB, 0x1C, 0x7F, 0x85, 0xA0, 0x1680, 0x200B, 0x2028, 0x2029, 0x202F, 0x3000, 0xFEFF, 0x1F600))]
    steps = [files(*((n, f"{n}\n", i) for i, n in enumerate(names))), files(("later.txt", "later\n", 99))]
    compared = compare(lambda s, d: text(s, d), steps, trigger=NOW, relay=relay)
    assert sum(b.progress["numInputRows"] for b in compared.model.batches[1:]) == 1


def test_the_source_log_is_compacted(compare: Compare) -> None:
    steps = [random_rows(i, 1) for i in range(12)]
    comparison = compare(lambda s, d: read_random(s, d).select("k"), steps, restart_after=(10,))
    assert "sources/0/9.compact" in comparison.model.files


def test_the_source_log_is_compacted_at_a_chosen_interval(compare: Compare) -> None:
    steps = [random_rows(i, 1) for i in range(6)]
    compare(lambda s, d: read_random(s, d).select("k"), steps, confs={"spark.sql.streaming.fileSource.log.compactInterval": "2"}, restart_after=(2, 4))


def test_text_with_a_partition_column_and_no_schema(compare: Compare) -> None:
    def build(session: Any, input_dir: str) -> Any:
        write(input_dir, "day=2024-01-01/a.txt", "hello\n", 1)
        return session.readStream.text(input_dir)

    compare(build, [files(("day=2024-01-02/b.txt", "world\n", 2))])


def test_a_glob_that_matches_nothing_yet_needs_no_schema_of_text(compare: Compare) -> None:
    compare(lambda s, d: s.readStream.text(f"{d}/*/*.txt"), [files(("a/0.txt", "hello\n", 1)), files(("b/1.txt", "world\n", 2))])


@pytest.mark.parametrize(("kind", "lines"), [("json", ['{"a":1,"b":[true]}', '{"c":null}']), ("csv", ["a,b", "1,x", "2,y"])])
def test_a_row_as_one_variant_needs_no_schema(compare: Compare, kind: str, lines: list[str]) -> None:
    def build(session: Any, input_dir: str) -> Any:
        reader = session.readStream.format(kind).option("singleVariantColumn", "v").option("header", True)
        return reader.load(input_dir).select(F.expr("to_json(v)").alias("v"))

    compare(build, [lines, lines[:2]])


def test_csv(compare: Compare) -> None:
    build = lambda s, d: s.readStream.schema("a int, b string, c date").option("header", True).option("sep", ";").csv(d)
    compare(build, [["a;b;c", "1;x;2024-01-01", "2;;", "oops;y;z"]])


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_malformed_lines_in_each_parse_mode(compare: Compare, kind: str, mode: str) -> None:
    lines = {"csv": ["1,x", "what,is,this,row", "oops,y"], "json": ['{"a":1,"b":"x"}', '{"a":', '{"a":"oops"}']}[kind]
    build = lambda s, d: s.readStream.schema("a int, b string, _corrupt_record string").option("mode", mode).format(kind).load(d)
    compare(build, [lines])


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_columnar_files(compare: Compare, spark: Any, kind: str) -> None:
    def step(n: int) -> Callable[[str], None]:
        def put(folder: str) -> None:
            staged = Path(folder).with_name(f"staged-{n}")
            df = spark.range(n * 5, n * 5 + 5).select("id", F.col("id").cast("string").alias("s"), F.array("id").alias("xs"))
            df.coalesce(1).write.mode("overwrite").format(kind).save(str(staged))
            [part] = staged.glob("part-*")
            os.utime(part, (OLD + n, OLD + n))
            part.rename(Path(folder, f"{n}.{kind}"))

        return put

    build = lambda s, d: s.readStream.schema("id long, s string, xs array<long>").format(kind).load(d)
    compare(build, [step(0), step(1)])


def test_a_file_that_is_deleted_before_its_batch_runs_again(compare: Compare) -> None:
    def damage(checkpoint: str) -> None:
        for name in ("0", ".0.crc"):
            Path(checkpoint, "commits", name).unlink(missing_ok=True)
        (Path(checkpoint).parent / "input" / "step-0000.txt").unlink()

    compare(lambda s, d: text(s, d), [["a", "b"], ["c"]], restart_after={0: damage})


def test_many_files_of_which_some_vanish_or_change_after_they_were_listed(spark: Any, mini: Any, tmp_path: Path) -> None:
    """More than Spark lists without a job, in a batch that is left over from the listing, and in one that runs again."""

    def run(session: Any, folder: Path) -> tuple[list[Any], str]:
        found: list[Any] = []

        def batch(df: Any, batch_id: int) -> None:
            found.append((batch_id, sorted(map(tuple, df.collect()))))
            if batch_id == 0:
                (folder / "year=2024/day=0/6 ü.txt").unlink()
                write(str(folder), "year=2024/day=1/7 ü.txt", "row 7\nis longer\n", 7)
                write(str(folder), "year=2024/day=0/8 ü.txt", "8\n", 8)

        lines = text(session, f"{folder}/year=*", maxFilesPerTrigger=5, basePath=str(folder))
        writer = lines.select("value", "day", "_metadata.file_size").writeStream.foreachBatch(batch).option("checkpointLocation", f"{folder}-c")
        query = writer.trigger(**NOW).start()
        query.awaitTermination()
        return found, str(query.runId)

    def run_twice(session: Any, folder: Path) -> tuple[list[Any], str]:
        for i in range(10):
            write(str(folder), f"year=2024/day={i % 2}/{i} ü.txt", f"row {i}\n", i)
        first, run_id = run(session, folder)
        for name in ("1", ".1.crc"):
            Path(f"{folder}-c", "commits", name).unlink(missing_ok=True)
        (folder / "year=2024/day=1/5 ü.txt").unlink()
        again, _ = run(session, folder)
        return first + again, run_id

    with confs_set(spark, {"spark.sql.sources.parallelPartitionDiscovery.threshold": "2"}):
        expected, _ = run_twice(spark, tmp_path / "spark")
        found, run_id = run_twice(mini, tmp_path / "model")
    assert found == expected and [(batch_id, len(rows)) for batch_id, rows in found] == [(0, 5), (1, 5), (1, 4)]
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(run_id)) == 2, "one job reads a batch, and none lists it"


def test_schema_inference_when_it_is_on(compare: Compare) -> None:
    def build(session: Any, input_dir: str) -> Any:
        write(input_dir, "a.json", '{"x":1,"y":"a"}\n', 1)
        return session.readStream.json(input_dir)

    compare(build, [files(("b.json", '{"x":2,"z":3}\n', 2))], confs={"spark.sql.streaming.schemaInference": "true"})


def test_a_table_of_files(compare: Compare, spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    for i in range(3):
        write(str(folder), f"day={i % 2}/{i}.csv", f"n\n{i}\n{i + 1}\n", i)
    spark.sql(f"create table notes (n int, day string) using csv options (header 'true') partitioned by (day) location '{folder}'")
    try:
        query = lambda s, d: s.readStream.option("maxFilesPerTrigger", 1).table("notes").where("notes.n > 1").select("n", "day")
        compare(query, [lambda folder: None], input_dir=str(folder))
    finally:
        spark.sql("drop table notes")


def test_a_view_of_a_stream(compare: Compare) -> None:
    def query(session: Any, input_dir: str) -> Any:
        session.readStream.schema("k string").json(input_dir).where("k != 'b'").createOrReplaceTempView("wanted")
        return session.readStream.table("wanted").groupBy("k").count()

    compare(query, [rows_of({"k": "a"}, {"k": "b"}), rows_of({"k": "a"})], output_mode="update")


def test_the_output_of_another_query_is_read_by_its_manifest(compare: Compare, spark: Any, tmp_path: Path) -> None:
    """A file that the manifest does not name is no input, whoever wrote it."""
    write(str(tmp_path / "raw"), "0.json", '{"k":"a","v":1}\n{"k":"b","v":2}\n', 0)
    output = str(tmp_path / "output")
    writer = spark.readStream.schema("k string, v int").json(str(tmp_path / "raw")).writeStream.format("json").partitionBy("k")
    writer.option("checkpointLocation", f"{output}-c").trigger(availableNow=True).start(output).awaitTermination()
    write(output, "k=a/stray.json", '{"v":3}\n', 0)
    query = lambda s, d: s.readStream.schema("k string, v int").json(d).groupBy("k").sum("v")
    comparison = compare(query, [lambda folder: None], output_mode="update", input_dir=output)
    assert [b.progress["numInputRows"] for b in comparison.model.batches] == [2]


@pytest.fixture
def output(spark: Any, tmp_path: Path) -> str:
    """What a file sink has written, eight rows in two files, and a file that its manifest does not name."""
    write(str(tmp_path / "raw"), "0.txt", "".join(f"{i}\n" for i in range(8)), 0)
    output = str(tmp_path / "output")
    writer = spark.readStream.text(str(tmp_path / "raw")).repartition(2).writeStream.format("text")
    writer.option("checkpointLocation", f"{output}-c").trigger(availableNow=True).start(output).awaitTermination()
    write(output, "stray.txt", "stray\n", 0)
    return output


def test_a_filter_of_names_is_one_of_those_in_a_manifest(compare: Compare, output: str) -> None:
    query = lambda s, d: text(s, d, pathGlobFilter="part-00001*", recursiveFileLookup="true")
    comparison = compare(query, [lambda folder: None], input_dir=output)
    assert [b.progress["numInputRows"] for b in comparison.model.batches] == [4]


def test_a_manifest_can_be_ignored(compare: Compare, spark: Any, output: str) -> None:
    with confs_set(spark, {"spark.sql.streaming.fileStreamSink.ignoreMetadata": "true"}):
        comparison = compare(text, [lambda folder: None], input_dir=output)
    assert [b.progress["numInputRows"] for b in comparison.model.batches] == [9]


def test_the_output_of_another_query_is_not_cleaned(spark: Any, mini: Any, output: str) -> None:
    for session in (spark, mini):
        writer = text(session, output, cleanSource="delete").writeStream.format("noop").trigger(availableNow=True)
        with pytest.raises(StreamingQueryException, match="Clean up source files is not supported when reading from the output"):
            writer.start().awaitTermination()


def test_whether_a_manifest_counts_is_decided_with_the_first_file(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    folder, later, glob = (Folder(spark, str(tmp_path / name)) for name in ("in", "in", "i*"))

    def look(at: Folder) -> tuple[int, bool | None]:
        return len(at.files({})), at.has_manifest

    assert look(folder) == (0, None)
    write(str(tmp_path / "in"), "0.txt", "a\n", 0)
    assert look(folder) == (1, False)
    (tmp_path / "in" / "_spark_metadata").mkdir()
    assert [look(one) for one in (folder, later, glob)] == [(1, False), (0, True), (1, False)]


METADATA: dict[str, Callable[[Any], Any]] = {
    "a field beside a column": lambda df: df.select("s", "_metadata.file_name"),
    "the whole struct and nothing else": lambda df: df.select("_metadata"),
    "all columns, partition column and struct": lambda df: df.select("*", "_metadata"),
    "filters on both sides of a file": lambda df: df.where("_metadata.file_name LIKE '%1%' AND s != 'x3'").select("s", "day"),
    "an aggregation by file": lambda df: df.groupBy("_metadata.file_name", F.col("_metadata.file_size") > 0).count(),
    "a join of the stream with itself": lambda df: (
        df.select("s", F.col("_metadata.file_name").alias("of")).alias("a").join(df.alias("b"), "s").select("a.of", "b.day")
    ),
    "with the metadata and without, together": lambda df: df.select("s", "_metadata.file_name").union(df.select("s", F.lit("none"))),
    "by the name it has beside a column of that name": lambda df: (
        df.withColumnRenamed("s", "_metadata").select("_metadata", df.metadataColumn("_metadata").file_name.alias("f"))
    ),
}


def with_metadata(session: Any, input_dir: str, kind: str, schema: str = "s string") -> Any:
    return session.readStream.schema(f"{schema}, day int").format(kind).load(input_dir)


@pytest.mark.parametrize("name", METADATA)
def test_where_a_row_comes_from_can_be_asked(compare: Compare, name: str) -> None:
    steps = [files(*((f"day={i}/{i}-{n}.txt", f"x{i}\ny{n}\n", 10 * i + n) for n in range(2))) for i in range(3)]

    def build(session: Any, input_dir: str) -> Any:
        write(input_dir, "day=0/first.txt", "x0\n", 0)
        return METADATA[name](with_metadata(session, input_dir, "text"))

    compare(build, steps, output_mode="update", restart_after=(0,))


def test_rows_of_which_the_metadata_alone_is_read_are_input_rows(compare: Compare) -> None:
    rows = rows_of({"k": "a", "v": 1}, {"k": "b", "v": 2})
    comparison = compare(lambda s, d: s.readStream.schema("k string, v int").json(d).select("_metadata.file_name"), [rows])
    assert [b.progress["numInputRows"] for b in comparison.model.batches] == [2]


@pytest.mark.parametrize("kind", ["text", "csv", "json", "parquet", "orc"])
def test_every_format_says_where_a_row_comes_from(compare: Compare, spark: Any, kind: str) -> None:
    """A column `_metadata` of the file itself hides Spark's, which is then found by `metadataColumn` alone."""
    own = "_metadata" if kind in ("json", "parquet") else "s"

    def put(folder: str) -> None:
        staged = Path(folder).with_name("staged")
        df = spark.range(3).select(F.concat(F.lit("x"), "id").alias(own)).coalesce(1)
        df.write.mode("overwrite").format(kind).save(str(staged))
        [part] = staged.glob("part-*")
        os.utime(part, (OLD, OLD))
        (Path(folder) / "day=1").mkdir()
        part.rename(Path(folder) / "day=1" / "a.data")

    def build(session: Any, input_dir: str) -> Any:
        (Path(input_dir) / "day=0").mkdir(exist_ok=True)
        write(input_dir, "day=0/.hidden", "", 0)
        df = with_metadata(session, input_dir, kind, f"{own} string")
        hidden = df.metadataColumn("_metadata")
        row = [hidden.row_index.alias("row")] if kind == "parquet" else []
        return df.select("*", hidden.file_path.alias("path"), hidden.file_modification_time.alias("time"), *row)

    compare(build, [put])


def test_metadata_is_no_column_of_its_own(mini: Any, spark: Any, tmp_path: Path) -> None:
    for session in (spark, mini):
        df = session.readStream.schema("s string").json(str(tmp_path))
        assert df.columns == df.select("*").columns == ["s"]
        with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
            df.select("s").groupBy("s").count().select("_metadata")
        with pytest.raises(AnalysisException, match="FIELD_NOT_FOUND"):
            df.select("_metadata.row_index")
        with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
            session.readStream.format("rate").load().select("_metadata")


def test_the_plans_of_a_query_name_its_source(mini: Any, spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As Spark names it, which adds whether the source has a name of its own."""
    read = lambda session: session.readStream.schema("k string, v int").json(str(tmp_path)).where("v > 1")
    leaf = without_ids(plans.analyzed(read(spark)).toString()).splitlines()[-1].strip(" +-").removesuffix(", name=<Unassigned>")
    assert leaf == f"StreamingRelation FileSource[{tmp_path}], [k, v]"
    query = read(mini).writeStream.format("noop").start()
    try:
        query.processAllAvailable()
        query.explain(extended=True)
        assert capsys.readouterr().out == "No physical plan. Waiting for data.\n"
        write(str(tmp_path), "a.json", '{"k":"a","v":2}\n', 0)
        query.processAllAvailable()
        query.explain(extended=True)
        shown = without_ids(capsys.readouterr().out)
        parsed, analyzed, optimized, physical = re.split("== (?:Parsed Logical|Analyzed Logical|Optimized Logical|Physical) Plan ==", shown)[1:]
        assert parsed == analyzed and leaf in analyzed and leaf in optimized and "FileScan json [k,v]" in physical
        assert leaf in without_ids(query.trace.plan)
    finally:
        query.stop()


def test_an_explained_query_has_the_parts_that_spark_shows(mini: Any, spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(str(tmp_path), "a.json", '{"k":"a","v":2}\n', 0)
    parts = []
    for session in (spark, mini):
        query = session.readStream.schema("k string, v int").json(str(tmp_path)).writeStream.format("noop").start()
        query.processAllAvailable()
        query.explain(extended=True)
        query.stop()
        parts.append(re.findall("^== .* ==$", capsys.readouterr().out, flags=re.M))
    assert parts[0] == parts[1] and len(parts[0]) == 4


def test_an_error_before_there_is_a_source_says_that_the_query_has_not_begun(mini: Any, spark: Any, tmp_path: Path) -> None:
    said = []
    for session in (spark, mini):
        df = session.readStream.schema("k string").option("cleanSource", "sometimes").json(str(tmp_path))
        with pytest.raises(StreamingQueryException) as error:
            df.writeStream.format("noop").start().awaitTermination()
        said.append(re.sub("[0-9a-f-]{36}", "", str(error.value)).partition("JVM stacktrace")[0].rstrip())
    assert said[0] == said[1] and "Current State: INITIALIZING" in said[0]


def test_a_conf_that_is_set_while_a_query_runs_counts_for_the_files_to_come(spark: Any, mini: Any, tmp_path: Path) -> None:
    """The query has its own copy of the confs; the source has the session of `readStream`."""
    zone = "spark.sql.session.timeZone"
    for i in range(2):
        write(str(tmp_path / "in"), f"{i}.json", '{"t": "2026-03-01 12:00:00"}\n', i)

    def hours(session: Any, name: str) -> list[int]:
        seen: list[int] = []

        def keep(batch: Any, _: int) -> None:
            seen.extend(row.hour for row in batch.collect())
            session.conf.set(zone, "Asia/Tokyo")

        times = session.readStream.schema("t timestamp").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
        writer = times.select(F.hour("t").alias("hour")).writeStream.foreachBatch(keep).trigger(availableNow=True)
        with confs_set(spark, {zone: "UTC"}):
            writer.option("checkpointLocation", str(tmp_path / name)).start().awaitTermination()
        return seen

    assert hours(mini, "model") == hours(spark, "spark") == [12, 3]
