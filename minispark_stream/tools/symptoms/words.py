"""A message as it is compared: without what differs from run to run, and without what only wraps it.

1. Left out are colours of a terminal, times and levels of a log, and the lines of a stack but those of a state store, of the
   foreach sink, and of an error in a Python worker.
2. Left out are the envelopes, into which Spark, py4j and the JVM put the message of the cause, and the plan behind it.
3. Paths (but for the folder _spark_metadata), ids, numbers and quotes are left out; of the full name of a class, its last
   part is kept, and the package of Kafka, of RocksDB and of Hadoop's file systems.
4. What remains are words in small letters; an error condition such as STREAM_FAILED is one word.
5. For a comparison of single words, an ending goes (of stopped and of stops), and then words of the same meaning become one.

    26/03/01 12:00:00 WARN Foo: Partition t-0's offset was changed from 12 to 3    partition offset was changed from to

Models: nothing of Spark.
Shown by tests/unit/tools/symptoms/test_words.py.
"""

from __future__ import annotations

import re
from functools import lru_cache

TERMINAL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f]")
LOG = re.compile(
    r"^[ \t]*(?:\[?\d{2,4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d\S*\s+)?(?:\[[\w .#-]+\]\s+)?"
    r"(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\s+(?:\[[\w .#-]+\]\s+)?[\w.$]+(?::\d+)?(?::\s|\s+-\s)",
    re.M,
)
STACK = re.compile(
    r"^[ \t]*(?:at (?!org\.apache\.spark\.sql\.execution\.streaming\.state\.|\S*handlePythonException)[\w.$<>/]+\(.*"
    r'|\.\.\. \d+ (?:more|common frames omitted)|File ".*", line \d+(?!.*\bin func_with).*|\^+|Traceback \(most .*)$',
    re.M,
)
ENVELOPES = re.compile(
    r"\[STREAM_FAILED\] |(?:Streaming )?Query (?:\S+ )?\[id = [^]]{0,200}\] terminated with (?:exception|error):?"
    r"|An error occurred while calling \w{1,40}:?[\w.]{0,200}|Exception in thread \"[^\"]{0,200}\" |Caused by: |SQLSTATE: \w{5}"
    r"|Job aborted due to stage failure: |Task \d+ in stage [\d.]+ failed \d+ times, most recent failure: "
    r"|(?:Writing job|Job) aborted\.?|Driver stacktrace:|JVM stacktrace:"
    r"|\b(?:StreamingQueryException|Py4JJavaError|SparkConnectGrpcException): "
    r"|\[?TASK_WRITE_FAILED\]? Task failed while writing rows[^.]{0,300}\."
    r"|Lost task [\d.]+ in stage [\d.]+ \(TID \d+\)(?: \([^)]{0,200}\))?:? "
    r"|(?<=may have been missed\.)\s+Some data may have been lost because they are not available in Kafka any more[^.]{0,300}"
    r"|During handling of the above exception, another exception occurred:",
)
QUERY = re.compile(r"=== Streaming Query ===.*?(?=JVM stacktrace|Caused by|\Z)", re.S)  # its offsets and its plan
CLASS = re.compile(r"\b(?:[a-z_][\w$]{0,60}\.){2,12}([A-Z]\w*)")
PATH = re.compile(r"(?<![\w/])(?:[a-z][a-z0-9+]{0,20}:/+|~?/|\.{1,2}/|[A-Za-z]:\\)[^\s'\",;)\]]+")
MANIFEST = "_spark_metadata"
PACKAGE = re.compile(r"\borg\.(?:apache\.(?:spark\.(?:sql\.)?(kafka010)|(kafka)|hadoop\.(fs))|(rocksdb))\.(?:[a-z]\w*\.)*")
ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b|\b(?=\w*\d)[0-9a-f]{12,}\b|\b[\w.]{1,100}@[0-9a-f]{4,}", re.I)
APOSTROPHE = re.compile(r"['’](?:s\b)?")
CONDITION = r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:\.[A-Z][A-Z0-9_]+)?|_LEGACY_ERROR_TEMP_\d+|_LEGACY_ERROR_TEMP_[A-Z0-9_]+"
WORD = re.compile(rf"(?:{CONDITION})\b|[^\W\d_]+(?:[-_]?\w+)*")
IS_CONDITION = re.compile(CONDITION)
IN_BRACKETS = re.compile(rf"\[((?!_LEGACY|STREAM_FAILED|TASK_WRITE_FAILED){CONDITION})\] ")
LITTLE = frozenset(  # words that say nothing here
    "a an and are as at be been but by can could do does for from had has have how i if in into is it its me my of on or "
    "our please so than that the their them then there these they this to us was we were what when where which who why will "
    "with would you your must should set using use used get gets got want need needs try also just some about work works "
    "working way possible help issue problem here via per spark structured streaming stream pyspark org apache java lang "
    "scala sql exception error query queries".split()
)
OF_STREAMS = re.compile(
    r"(?i)stream|for ?each|checkpoint|watermark|micro|trigger|\bsinks?\b|state\b|stateful|state_?store|available ?now"
    r"|offsets?\b|\blate\b|event.?time|commits\b|window(?!s service| functions?\b)|output ?mode"
    r"|\b(?:append|complete|update) mode|kafka|rocksdb|\bbatch(?:es|id)?\b(?! (?:jobs?|dataframes?)\b)|spark_?metadata"
    r"|dropduplicates|withstate|awaittermination|numinputrows|real.time mode|continuous (?:mode|processing)"
    r"|pertrigger|falling behind|loadedmaps|exactly.once"
)
ENGINES = re.compile(  # that have streams, state and watermarks of their own
    r"(?i)\b(?:flink|beam|storm|samza|ksql\w*|kafka[ -]streams|kafka[ -]connect|akka|pulsar|risingwave|materialize|hazelcast"
    r"|stream analytics|dstreams?|rdds?|streamingcontext)\b"
)
OTHERS = re.compile(  # other programs, whose users ask in the same words
    r"(?i)\b(?:pandas(?![ _]udf)|dataflow|seatunnel|airbyte|polars|bigquery|snowflake|trino|presto|druid|pinot|clickhouse"
    r"|duckdb|nifi|logstash|dask|burrow|mirrormaker|delta-rs|deltastreamer|kafkajs|librdkafka|kafka (?:producer|consumer)|excel"
    r"|java streams?|node|react|redux|nginx|docker container|git|github|terraform|airflow|systemd|kubernetes pod|postgres|mysql"
    r"|php|css|html5?|bash|elasticsearch|hbase|redis|rabbitmq|celery|spring|tensorflow|pytorch|lambda|video|firehose|mllib)\b"
)
OF_SPARK = re.compile(
    r"(?i)spark|structured|streaming (?!dataset to)|(?:read|write)stream|for ?each ?batch|micro.?batch|\b(?:a|the) stream\b"
)
OF_STRUCTURED = re.compile(r"(?i)spark|structured|(?:read|write)stream|for ?each ?batch")
ENDINGS = re.compile(r"(?:ations?|ions?|ings?|ies|ed|es|s|e|ly|er|y)$")
DOUBLED = re.compile(r"([bdglmnprt])\1$")  # as in stopped
SAME_AS = {  # a word, and those of the same meaning, whatever their ending
    "no": "nothing none never not cannot can't doesn't don't isn't won't empty without",
    "miss": "lost lose disappear skip",
    "output": "emit produce result",
    "write": "written wrote",
    "read": "consume fetch pull ingest",
    "rows": "record event message",
    "dataframe": "df",
    "fail": "crash die died dies dead",
    "memory": "oom outofmemoryerror",
    "duplicate": "twice double",
    "increase": "grow unbounded infinite",
    "run": "ran execute",
    "folder": "directory dir",
    "big": "huge large many lot",
    "hang": "stuck stall freeze",
    "stand": "stood idle",
    "small": "tiny",
    "stop": "shutdown",
    "change": "modify alter edit upgrade",
    "keep": "reuse",
    "restart": "resume recover",
    "slow": "slowly slower latency",
    "time": "second",
    "database": "jdbc postgresql postgres mysql cassandra mongodb",
    "clean": "remove expire evict",
    "limit": "control cap",
}


def plain(text: str) -> str:
    """The words of a message, one space between them."""
    text = LOG.sub("", STACK.sub("", TERMINAL.sub("", text)))  # (1)
    text = ENVELOPES.sub(" ", CLASS.sub(r"\1", PACKAGE.sub(_of_package, QUERY.sub("", text))))  # (2)
    text = APOSTROPHE.sub("", ID.sub(" ", PATH.sub(_of_path, text)))  # (3)
    return " ".join(word if IS_CONDITION.fullmatch(word) else word.lower() for word in WORD.findall(text))  # (4)


def _of_package(path: re.Match[str]) -> str:
    """Of a connector or a file system, the name stays beside that of the class."""
    return f" {path[path.lastindex or 0]} "


def _of_path(path: re.Match[str]) -> str:
    """The log of a file sink is known by its name."""
    return f" {MANIFEST} " if MANIFEST in path.group() else " "


def names_condition(text: str) -> str | None:
    """The last condition in brackets of a message, `[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column ...`: what has happened."""
    named: list[str] = IN_BRACKETS.findall(text)
    return named[-1] if named else None


def is_of_streams(text: str) -> bool:
    """Whether a text has a word of streaming."""
    return bool(OF_STREAMS.search(text))


def is_of_others(text: str) -> bool:
    """Whether a text is about another program, and not about Spark."""
    if ENGINES.search(text):
        return not OF_STRUCTURED.search(text)
    return bool(OTHERS.search(text)) and not OF_SPARK.search(text)


def stems(text: str) -> list[str]:
    """The words of a plain text that say something, without their endings."""
    return [stem for word in text.split() for stem in _stems_of(word)]


@lru_cache(maxsize=1 << 14)
def _stems_of(word: str) -> tuple[str, ...]:  # (5)
    parts = (part for part in re.split(r"[-_.]", word.lower()) if part)
    return tuple(_stem(part) for part in parts if part not in LITTLE)


def _stem(word: str) -> str:
    short = _short(word)
    return SAME.get(short, short)


def _short(word: str) -> str:
    short = ENDINGS.sub("", word)
    return DOUBLED.sub(r"\1", short) if len(short) > 2 else word


SAME = {_short(word.replace("'", "")): _short(meant) for meant, words in SAME_AS.items() for word in words.split()}
