"""Which values a reader turns into null without a word: `minispark_stream nulls PATH --schema "id long, at timestamp"`.

1. The records are read twice by Spark's own reader: with the schema of the query, and with the same columns as texts, which
   take any value. Formats with a schema of their own, such as Parquet, are read with that one instead of texts.
2. A value that is there in the second reading, and null in the first, has become null. A field of a struct counts by itself;
   an array or a map counts as a whole.
3. The column of corrupt records has the text of a record of which a part could not be read: an example is taken from there. A
   record that is corrupt as texts, too, is broken JSON, or a line of CSV with another number of values.
4. A column without values may be in the records under another name. CSV is read by position, whatever its header says, so a
   name in the header that is not that of its place is told in any case.

    at timestamp, user string    {"at": "noon", "User": "a"}    at: 1 of 1 became null; user: none, the records have `User`

Models: nothing of Spark, which has no such tool.
Shown by tests/spark/test_became_null.py.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from minispark_stream.lens.view.words import clip, one_line, plural

CORRUPT, CORRUPT_NAME = "_corrupt_record", "columnNameOfCorruptRecord"
TEXTS = ("json", "csv")  # formats of texts, which from_json and from_csv read as well
_WIDEST = 60  # characters of an example
_LIKE = 0.75  # how much two names are alike that may be meant for each other
Leaf = tuple[str, ...]  # the names of a column and of the fields within


@dataclass(frozen=True)
class ColumnNulls:
    """A column, or a field of a struct.

    Attributes:
        present: how many records have a value for it.
        became_null: for how many of these it is null after the reader.
        example: the text of such a value.
        called: a name in the records that may be meant.
    """

    name: str
    present: int
    became_null: int
    example: str | None = None
    called: str | None = None

    @property
    def says(self) -> str:
        """What is wrong with it; empty if nothing is."""
        found = []
        if self.became_null:
            such = f", such as {clip(self.example, _WIDEST)}" if self.example else ""
            found.append(f"{self.became_null / self.present:.0%} of its values{such}")
        if not self.present:
            found.append("no record has it")
        if self.called is not None:
            found.append(f"the records have `{self.called}`")
        return "; ".join(found)


@dataclass(frozen=True)
class NullReport:
    """What a reader makes of records. `corrupt`: how many of them cannot be read as texts, either; the text of one of these."""

    records: int
    columns: tuple[ColumnNulls, ...]
    corrupt: int = 0
    corrupt_example: str | None = None

    @property
    def exit_code(self) -> int:
        """0 if no value becomes null, and each column is there; 2 if there is something to look at."""
        return 2 if self.records and (self.corrupt or any(one.says for one in self.columns)) else 0

    def __str__(self) -> str:
        widest = max((len(one.name) for one in self.columns), default=0)
        lines = [plural(self.records, "record"), f"{'column':{widest}}  in records  became null"]
        for one in self.columns:
            counts = f"{one.name:{widest}}  {one.present:10}  {one.became_null:11}"
            lines.append(f"{counts}  {one.says}" if self.records and one.says else counts)
        if self.corrupt:
            such = f", such as {clip(self.corrupt_example, _WIDEST)}" if self.corrupt_example else ""
            lines.append(f"{plural(self.corrupt, 'record')} cannot be taken apart{such}")
        return "\n".join(map(one_line, lines))

    __repr__ = __str__


def became_null(spark: Any, source: Any, schema: Any, format: str = "json", **options: Any) -> NullReport:
    """Compare what is in records with what a reader makes of it.

    Args:
        spark: a session of Spark, classic or Connect.
        source: the path of files; or a DataFrame with one column of texts, which from_json or from_csv reads, such as the
            values of Kafka: `spark.read.format("kafka").options(...).load().select("value")`.
        schema: that of the query, as a StructType or as text.
        format: that of the files or texts.
        options: those of the reader, or of the function.

    Raises:
        ValueError: these records cannot be compared; the text says why.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    mode = str(options.get("mode", "PERMISSIVE")).upper()
    if mode != "PERMISSIVE":
        raise ValueError(f"nothing becomes null in the mode {mode}, which ends the query or drops the record")
    if not isinstance(source, str) and (format not in TEXTS or source.isStreaming or len(source.columns) != 1):
        raise ValueError("texts are read from a DataFrame with one column that is no stream, as json or csv; files from a path")
    read = _Reader(spark, source, format, {name: _option(value) for name, value in options.items()})
    fields = [field for field in spark.createDataFrame([], schema).schema if field.name != read.corrupt]
    leaves = [leaf for field in fields for leaf in _leaves(field)]
    names, given = read.names(), StructType(fields)
    if format in TEXTS:
        texts = StructType([StructField(field.name, StringType()) for field in fields])
        before, after = read(texts), read(given).withColumn("as texts", read.parse(F.col(read.corrupt), texts))  # (1)
        broken, there = F.col(read.corrupt), [_of_text(leaf) for leaf in leaves]
        examples = [F.when(F.col(_quoted(leaf)).isNull(), _of_text(("as texts", *leaf))) for leaf in leaves]  # (3)
    else:
        before, after = read(None), read(given)
        known = {name.lower() for name in names}
        there = [F.col(_quoted(leaf)) if ".".join(leaf).lower() in known else F.lit(None) for leaf in leaves]
        broken, examples = F.lit(None), [F.lit(None).cast("string") for _ in leaves]
    records, corrupt, text, *present = before.agg(
        F.count(F.lit(1)), F.count(broken), F.first(broken, ignorenulls=True), *map(F.count, there)
    ).first()
    kept, lost = [F.count(_quoted(leaf)) for leaf in leaves], [F.first(one, ignorenulls=True) for one in examples]
    found = after.agg(*kept, *lost).first()
    columns = []
    for place, (leaf, count) in enumerate(zip(leaves, present, strict=True)):
        name, nulls, example = ".".join(leaf), max(0, count - found[place]), found[len(leaves) + place]  # (2)
        called = _at(place, name, names) if format == "csv" else None if count else _like(name, names, leaves)  # (4)
        columns.append(ColumnNulls(name, count, nulls, example if nulls else None, called))
    return NullReport(records, tuple(columns), corrupt, text)


@dataclass(frozen=True)
class _Reader:
    """Reads the records with a schema, as the query does."""

    spark: Any
    source: Any
    format: str
    options: dict[str, str]

    @property
    def corrupt(self) -> str:
        return self.options.get(CORRUPT_NAME, CORRUPT)

    def __call__(self, schema: Any) -> Any:
        """The records, with a column for the text of those that do not fit; without a schema, with that of the files."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StringType, StructField, StructType

        if schema is None:
            return self._reader(mergeSchema="true").load(self.source)
        if self.format in TEXTS:
            schema = StructType([*schema, StructField(self.corrupt, StringType())])
        if isinstance(self.source, str):
            return self._reader().schema(schema).load(self.source)
        [column] = self.source.columns
        return self.source.select(self.parse(F.col(_quoted((column,))).cast("string"), schema).alias("read")).select("read.*")

    def parse(self, text: Any, schema: Any) -> Any:
        from pyspark.sql import functions as F

        options = {name: value for name, value in self.options.items() if name != "header"}  # which no text has
        options[CORRUPT_NAME] = self.corrupt
        if self.format == "json":
            return F.from_json(text, schema, options)
        return F.from_csv(text, ", ".join(f"{_quoted((one.name,))} {one.dataType.simpleString()}" for one in schema), options)

    def names(self) -> list[str]:
        """The names of columns and fields in the records; of CSV, those of the header in their order."""
        from pyspark.sql import functions as F

        if not isinstance(self.source, str):
            if self.format == "csv":
                return []
            keys = self.source.select(F.explode(F.json_object_keys(F.col(_quoted(tuple(self.source.columns))).cast("string"))))
            return [row[0] for row in keys.distinct().collect()]
        if self.format == "csv":
            has_header = self.options.get("header", "").lower() == "true"
            return list(self._reader().load(self.source).columns) if has_header else []
        more = {"primitivesAsString": "true"} if self.format == "json" else {"mergeSchema": "true"}
        schema = self._reader(**more).load(self.source).schema
        return [".".join(leaf) for field in schema for leaf in _leaves(field)]

    def _reader(self, **more: str) -> Any:
        return self.spark.read.format(self.format).options(**self.options | {CORRUPT_NAME: self.corrupt} | more)


def _leaves(field: Any, above: Leaf = ()) -> Iterator[Leaf]:
    """The columns that are no structs, and the fields of those that are."""
    within = list(field.dataType) if field.dataType.typeName() == "struct" else []
    if within and not any(re.search(r"['?]", one.name) for one in within):  # which no path of JSON may contain
        for one in within:
            yield from _leaves(one, (*above, field.name))
    else:
        yield (*above, field.name)


def _option(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(names: Sequence[str]) -> str:
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)


def _of_text(leaf: Leaf) -> Any:
    """The value of a column whose fields are still a text of JSON."""
    from pyspark.sql import functions as F

    top = 2 if leaf[0] == "as texts" else 1
    column = F.col(_quoted(leaf[:top]))
    return F.get_json_object(column, "$" + "".join(f"['{name}']" for name in leaf[top:])) if leaf[top:] else column


def _at(place: int, name: str, header: Sequence[str]) -> str | None:
    """The name that the header has at a place, if it is another one."""
    return header[place] if place < len(header) and header[place].lower() != name.lower() else None


def _like(name: str, names: Sequence[str], leaves: Sequence[Leaf]) -> str | None:
    """The name in the records that is most like this one, and is not in the schema."""
    plain = {re.sub(r"[\W_]", "", one).lower(): one for one in set(names) - {".".join(leaf) for leaf in leaves}}
    near = difflib.get_close_matches(re.sub(r"[\W_]", "", name).lower(), list(plain), 1, _LIKE)
    return plain[near[0]] if near else None
