"""The Kafka source and sink do what Structured Streaming's do, record for record and offset for offset, with a real broker."""

from __future__ import annotations

import json
import os
import re
import time
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as F

from minispark_stream.engine.clock import ManualClock
from minispark_stream.engine.sources.base import ReadMinRows
from minispark_stream.extras.kafka.source import KafkaMicroBatchStream
from minispark_stream.tools.operations.repair import repair
from tests.conformance.kafka_broker import STARTED_MS

NOW = {"availableNow": True}
AT_ONCE = {"kafka.fetch.max.wait.ms": "20"}  # a consumer that has read all waits so long (500) before it says so
QUICKLY = {  # to fail, where failing is the point
    "kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "1500", "kafka.max.block.ms": "1000",
    "kafka.delivery.timeout.ms": "2000", "fetchOffset.retryIntervalMs": "10",
}
SLOWLY = {"spark.sql.streaming.pollingDelay": "1000ms"}  # all that a step sends arrives between two looks, on a busy machine too


@pytest.fixture
def topics(kafka):
    """`build, step = topics({"t": 3}, subscribe="t")`: a query over topics that are empty when an engine begins, and its input.

    `step((topic, partition, *values), ...)` sends records; a function in their place is called.
    """

    def make(partitions, transform=lambda df: df, **options):
        given = {"kafka.bootstrap.servers": kafka.address, **AT_ONCE, **options}

        def begin(folder):  # the input folder is emptied for each engine
            mark = Path(folder, "topics-are-there")
            if not mark.exists():
                kafka.create(partitions)
                mark.touch()

        def build(session, folder):
            begin(folder)
            return transform(session.readStream.format("kafka").options(**given).load())

        def step(*sent):
            def run(folder):
                begin(folder)
                for one in sent:
                    one() if callable(one) else kafka.send(*one)

            return run

        return build, step

    return make


def _described(compared):
    """What progress says about the source besides what `compare` compares."""
    return [
        [[(s["description"], s["latestOffset"], s.get("metrics", {})) for s in b.progress["sources"]] for b in run.batches]
        for run in (compared.spark, compared.model)
    ]


# -- which partitions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "kb, ka"},
        {"subscribePattern": "k[ab]$", "includeHeaders": "true"},
        {"assign": '{"kb":[0],"ka":[2,0]}'},
        {"subscribe": "ka,kb", "minPartitions": "7"},
        {"subscribe": "ka,kb", "maxRecordsPerPartition": "2", "kafka.group.id": "own", "kafka.isolation.level": "read_committed"},
    ],
)
def test_topics_are_read_in_batches(compare, topics, options):
    build, step = topics({"ka": 3, "kb": 1, "other-ka": 1}, startingOffsets="earliest", **options)
    feed = [
        step(("ka", 0, "a", "b", "c", "d", "e"), ("kb", 0, "x", None), ("other-ka", 0, "not mine")),
        step(),
        step(("ka", 2, "f"), ("ka", 1, "g")),
    ]
    spark, model = _described(compare(build, feed, trigger=NOW))
    assert model == spark and spark[0][0][0].startswith("KafkaV2[")


def test_offsets_are_written_in_the_order_of_the_connector(compare, topics):
    names = {f"order.{word}-topic": n for word, n in (("zebra", 2), ("apple", 20), ("Mango", 1), ("kiwi_9", 13))}
    build, step = topics(names, subscribePattern="order\\..*", startingOffsets="earliest")
    compared = compare(build, [step(("order.apple-topic", 17, "a")), step(("order.kiwi_9-topic", 12, "b"))], trigger=NOW)
    assert len(compared.model.batches) == 2


def test_no_topic_matches_yet(compare, topics, kafka):
    build, step = topics({}, subscribePattern="late-.*", startingOffsets="latest")
    feed = [
        step(lambda: kafka.delete("late-1")),
        step(lambda: kafka.create({"late-1": 2}), ("late-1", 1, "a")),
        step(("late-1", 0, "b")),
    ]
    compare(build, feed, trigger=NOW)


def test_one_stream_used_twice_and_counted(compare, topics):
    def twice(df):
        return df.select("value").union(df.select("key")).groupBy().count()

    build, step = topics({"tw": 2}, twice, subscribe="tw", startingOffsets="earliest")
    compare(build, [step(("tw", 0, "a", "b")), step(("tw", 1, "c"))], trigger=NOW, output_mode="complete")


def test_windows_over_record_times(compare, topics, kafka):
    def counts(df):
        words = df.select("timestamp", F.explode(F.split(F.col("value").cast("string"), " ")).alias("word"))
        return words.withWatermark("timestamp", "10 seconds").groupBy(F.window("timestamp", "5 seconds"), "word").count()

    def at(second, partition, text):
        return lambda: kafka.send("words", partition, text, time_ms=STARTED_MS + second * 1000)

    build, step = topics({"words": 2}, counts, subscribe="words", startingOffsets="earliest")
    feed = [step(at(0, 0, "a b"), at(3, 1, "a")), step(at(21, 0, "c")), step(at(2, 1, "late"), at(40, 1, "d"))]
    compare(build, feed, trigger=NOW)


# -- where a query begins -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"startingOffsets": "EARLIEST"},
        {"startingOffsets": '{"s":{"1":-1,"0":-2,"2":1}}'},
        {"startingTimestamp": STARTED_MS + 2000},
        {"startingOffsetsByTimestamp": f'{{"s":{{"0":{STARTED_MS + 1500},"1":0,"2":{STARTED_MS}}}}}'},
        {"startingTimestamp": STARTED_MS + 2500, "startingOffsetsByTimestampStrategy": "latest"},
    ],
)
def test_where_a_query_begins(compare, topics, kafka, options):
    build, step = topics({"s": 3}, subscribe="s", **options)

    def some():
        for second in range(4):
            for partition in range(3):
                if second < 3 or partition != 1:
                    kafka.send("s", partition, f"{second}", time_ms=STARTED_MS + second * 1000)

    compare(build, [step(some), step(("s", 0, "more"), ("s", 1, "more"))], trigger=NOW)


# -- how much a batch reads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 7, 20, 1000])
def test_a_limit_is_shared_out_over_uneven_partitions(compare, topics, limit):
    build, step = topics({"u": 4}, subscribe="u", startingOffsets="earliest", maxOffsetsPerTrigger=limit)
    sizes = {0: 30, 1: 10, 2: 1} if limit > 1 else {0: 3, 1: 2, 2: 1}
    feed = [step(*(("u", p, *map(str, range(n))) for p, n in sizes.items())), step(("u", 3, "a", "b"))]
    compared = compare(build, feed, trigger=NOW)
    assert len(compared.model.batches) >= 2
    spark, model = _described(compared)
    assert model == spark


@pytest.mark.parametrize("options", [{}, {"maxOffsetsPerTrigger": "4"}, {"maxTriggerDelay": "0s"}])
def test_a_batch_waits_for_enough_records(compare, topics, options):
    """The first batch of a run does not wait: the delay counts from 1970."""
    build, step = topics({"m": 2}, subscribe="m", startingOffsets="earliest", minOffsetsPerTrigger="3", **options)
    feed = [step(("m", 0, "a")), step(("m", 0, "b")), step(("m", 1, "c")), step(("m", 1, "d", "e", "f", "g", "h")), step()]
    compare(build, feed, confs=SLOWLY)


def test_a_batch_waits_no_longer_than_the_delay(spark, kafka, tmp_path):
    kafka.create({"d": 1})
    clock = ManualClock(1_000_000_000)
    options = {"kafka.bootstrap.servers": kafka.address, "subscribe": "d", "minoffsetspertrigger": "3", "maxtriggerdelay": "5m"}
    source = KafkaMicroBatchStream(spark, options, str(tmp_path), clock)
    limit = source.default_read_limit()
    assert limit == ReadMinRows(3)
    start = source.latest_offset(None, limit)
    assert start == '{"d":{"0":0}}'
    kafka.send("d", 0, "a")
    assert source.latest_offset(start, limit) == start and source.report_latest_offset() == '{"d":{"0":1}}'
    clock.advance(5 * 60_000 - 1)
    assert source.latest_offset(start, limit) == start
    clock.advance(1)
    assert source.latest_offset(start, limit) == '{"d":{"0":1}}'
    source.stop()


# -- restarts -------------------------------------------------------------------------------------------------------


def _uncommitted(checkpoint):
    """As if the query had been killed after its last batch was logged."""
    last = max(int(name) for name in os.listdir(f"{checkpoint}/commits") if name.isdigit())
    for name in (str(last), f".{last}.crc"):
        Path(checkpoint, "commits", name).unlink(missing_ok=True)


@pytest.mark.parametrize("relay", [("model",), ("model", "spark"), ("spark", "model")], ids="-".join)
def test_a_restart_goes_on_where_the_query_was(compare, topics, relay):
    build, step = topics({"r": 2}, subscribe="r", startingOffsets="earliest", maxOffsetsPerTrigger="3")
    feed = [step(("r", 0, "a", "b"), ("r", 1, "c")), step(("r", 0, *"defgh")), step(("r", 1, "i")), step(("r", 1, "j"), ("r", 0, "k"))]
    compare(build, feed, confs=SLOWLY, restart_after={0: None, 1: _uncommitted, 2: None}, relay=relay)


def test_the_first_batch_is_run_again_from_where_it_began(compare, topics):
    build, step = topics({"f": 1}, subscribe="f")
    feed = [step(("f", 0, "before")), step(("f", 0, "a", "b"))]
    compare(build, feed, confs=SLOWLY, restart_after={0: lambda checkpoint: (_uncommitted(checkpoint), _uncommitted(checkpoint))})


# -- what may happen to a topic -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"maxOffsetsPerTrigger": "2"}])
def test_new_partitions_are_read_from_their_beginning(compare, topics, kafka, options):
    build, step = topics({"g": 1}, subscribe="g", startingOffsets="latest", **options)
    feed = [
        step(("g", 0, "a")),
        step(lambda: kafka.grow("g", 3), ("g", 2, "b", "c", "d"), ("g", 0, "e")),
        step(("g", 1, "f")),
    ]
    compare(build, feed, confs=SLOWLY)


def _loses(compare, topics, kafka, names, lose, fail, **options):
    """A query over `names`, some records, `lose()` between two runs, and more records in the last topic."""
    build, step = topics(names, failOnDataLoss=fail, startingOffsets="earliest", **QUICKLY, **options)
    last = list(names)[-1]
    feed = [step(*((name, 0, "a", "b", "c") for name in names)), step(lose, (last, 0, "d"))]
    return compare(build, feed, trigger=NOW)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_is_gone(compare, topics, kafka, fail):
    compared = _loses(
        compare, topics, kafka, {"gone": 1, "gone-not": 1}, lambda: kafka.delete("gone"), fail, subscribePattern="gone.*"
    )
    assert compared.model.condition == ("STREAM_FAILED" if fail == "true" else None)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_is_made_anew(compare, topics, kafka, fail):
    compared = _loses(compare, topics, kafka, {"anew": 1}, lambda: kafka.create({"anew": 1}), fail, subscribe="anew")
    assert compared.model.condition == ("STREAM_FAILED" if fail == "true" else None)


@pytest.mark.parametrize("then", [lambda checkpoint: None, _uncommitted], ids=["committed", "not committed"])
@pytest.mark.parametrize("fail", ["true", "false"])
def test_the_last_offset_goes_back(compare, topics, fail, then):
    """As after an entry of offsets/ was restored from an older copy."""

    def damage(checkpoint):
        path = max(Path(checkpoint, "offsets").glob("[0-9]*"), key=lambda one: int(one.name))
        *before, offset = path.read_text().splitlines()
        assert offset == '{"back":{"0":4}}'
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        path.write_text("\n".join([*before, '{"back":{"0":1}}']))
        then(checkpoint)

    build, step = topics({"back": 1}, subscribe="back", startingOffsets="earliest", failOnDataLoss=fail)
    feed = [step(("back", 0, "a", "b")), step(("back", 0, "c", "d")), step(("back", 0, "e"))]
    compared = compare(build, feed, trigger=NOW, restart_after={1: damage})
    assert compared.model.condition == ("STREAM_FAILED" if fail == "true" and then is _uncommitted else None)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_records_are_gone_before_they_are_read(compare, topics, kafka, fail):
    def lose():
        kafka.send("old", 0, "d", "e", "f")
        kafka.forget("old", 0, 5)

    compared = _loses(compare, topics, kafka, {"old": 1}, lose, fail, subscribe="old")
    assert compared.model.condition == ("STREAM_FAILED" if fail == "true" else None)


def test_the_reasons_are_given_in_the_same_words(spark, mini, kafka, tmp_path):
    """One run reads both topics; then one is deleted or made anew, and the next run fails."""
    messages: dict[tuple[str, int], list[str | None]] = {}
    for engine, session in (("spark", spark), ("model", mini)):
        for what, lose in (("gone", lambda: kafka.delete("w1")), ("anew", lambda: kafka.create({"w1": 1}))):
            for group in ({}, {"kafka.group.id": "g"}):
                kafka.create({"w1": 1, "w2": 1})
                kafka.send("w1", 0, "a")
                checkpoint = str(tmp_path / engine / what / str(len(group)))
                options = {"subscribePattern": "w[12]", "startingOffsets": "earliest", **group}
                assert _outcome(session, kafka, checkpoint, **options) is None
                lose()
                messages.setdefault((what, len(group)), []).append(_outcome(session, kafka, checkpoint, **options))
    kafka.delete("w1", "w2")
    for theirs, ours in messages.values():
        assert ours == theirs and ours is not None and "failOnDataLoss" in ours


def test_nothing_may_vanish_while_a_run_reads_what_was_available(spark, mini, kafka, tmp_path):
    messages = []
    for engine, session in (("spark", spark), ("model", mini)):
        kafka.create({"v1": 1, "v2": 1})
        for name in ("v1", "v2"):
            kafka.send(name, 0, *"abcdef")

        def vanish(df, batch_id):
            df.count()
            kafka.delete("v2")

        options = {"subscribePattern": "v[12]", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"}
        messages.append(_outcome(session, kafka, str(tmp_path / engine), vanish, **options))
    assert messages[1] == messages[0] and "Trigger.AvailableNow" in messages[1]


# -- the sink -------------------------------------------------------------------------------------------------------


def _to_kafka(session, kafka, df, checkpoint, mode="append", **options):
    writer = df.writeStream.format("kafka").outputMode(mode).option("kafka.bootstrap.servers", kafka.address).options(**options)
    query = writer.option("checkpointLocation", checkpoint).trigger(**NOW).start()
    query.awaitTermination()
    return query.lastProgress.sink


def test_from_kafka_to_kafka(spark, mini, kafka, tmp_path):
    kafka.create({"in": 2, "out-spark": 3, "out-model": 3})
    for run in range(2):
        kafka.send("in", 0, "a", None, "b")
        kafka.send("in", 1, f"c{run}")
        for engine, session in (("spark", spark), ("model", mini)):
            stream = session.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.address)
            df = stream.options(**AT_ONCE, subscribe="in", startingOffsets="earliest", includeHeaders="true").load()
            headers = F.array(F.struct(F.lit("from").alias("key"), F.col("topic").cast("binary").alias("value"))).alias("headers")
            out = df.select("key", "value", headers, (F.col("partition") + 1).alias("partition"), F.lit(f"out-{engine}").alias("topic"))
            sink = _to_kafka(session, kafka, out, str(tmp_path / engine))
            assert sink.numOutputRows == 4
            assert sink.description.startswith("org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@")
    theirs, ours = (_records(spark, kafka, f"out-{engine}") for engine in ("spark", "model"))
    assert ours == theirs and len(ours) == 8
    for name in ("offsets/1", "commits/1", "sources/0/0"):
        one, other = ((tmp_path / engine / name).read_bytes() for engine in ("spark", "model"))
        assert re.sub(rb'"batchTimestampMs":\d+', b"", one) == re.sub(rb'"batchTimestampMs":\d+', b"", other)


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_every_output_mode_appends(spark, mini, kafka, tmp_path, mode):
    kafka.create({"counted": 1, f"counts-{mode}-spark": 1, f"counts-{mode}-model": 1})
    rows = []
    for values in (["a", "b", "a"], ["a"]):
        kafka.send("counted", 0, *values)
        for engine, session in (("spark", spark), ("model", mini)):
            stream = session.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.address)
            df = stream.options(**AT_ONCE, subscribe="counted", startingOffsets="earliest").load()
            out = df.groupBy(F.col("value").cast("string").alias("key")).agg(F.count("*").cast("string").alias("value"))
            sink = _to_kafka(session, kafka, out, str(tmp_path / engine), mode, topic=f" counts-{mode}-{engine} ")
            rows.append(sink.numOutputRows)
    assert rows == [2, 2] + ([1, 1] if mode == "update" else [2, 2])
    theirs, ours = (
        sorted((r.key, r.value) for r in _records(spark, kafka, f"counts-{mode}-{engine}")) for engine in ("spark", "model")
    )
    assert ours == theirs


def _records(spark, kafka, topic):
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.address)
    columns = ("key", "value", "headers", "partition")
    return sorted(reader.options(subscribe=topic, includeHeaders="true").load().select(*columns).collect(), key=str)


# -- wrong options --------------------------------------------------------------------------------------------------


def _outcome(session, kafka, checkpoint, function=None, **options):
    """Run a query over what is available; the reason of its failure, or None."""
    given = {"kafka.bootstrap.servers": kafka.address, **AT_ONCE, **QUICKLY, **options}
    writer = session.readStream.format("kafka").options(**given).load().writeStream.option("checkpointLocation", checkpoint)
    writer = writer.format("noop") if function is None else writer.foreachBatch(function)
    return _reason(writer.trigger(**NOW).start())


def _reason(query):
    try:
        query.awaitTermination()
    except StreamingQueryException as e:
        assert e.getCondition() == "STREAM_FAILED"
        text = str(e).split("terminated with exception: ")[1].split(" SQLSTATE: XXKST")[0].strip()
        return re.sub(r"(in stage |TID |task )\d+(\.\d+)?", r"\1N", text).split("\n\tat ")[0]
    return None


def _refusal(act):
    with pytest.raises(PySparkException) as error:
        act()
    condition = error.value.getCondition()
    return type(error.value).__name__, condition, str(error.value).removeprefix(f"[{condition}] ")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subscribe": "t", "assign": '{"t":[0]}'},
        {"subscribe": "t", "kafka.bootstrap.servers": None},
        {"subscribe": " , "},
        {"subscribePattern": " "},
        {"assign": "t"},
        {"subscribe": "t", "endingOffsets": "latest"},
        {"subscribe": "t", "endingOffsetsByTimestamp": "{}"},
        {"subscribe": "t", "minPartitions": "0"},
        {"subscribe": "t", "minPartitions": "x"},
        {"subscribe": "t", "maxRecordsPerPartition": "0"},
        {"subscribe": "t", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "3"},
        {"subscribe": "t", "includeHeaders": "maybe"},
        {"subscribe": "t", "kafka.auto.offset.reset": "latest"},
        {"subscribe": "t", "kafka.key.deserializer": "x"},
        {"subscribe": "t", "kafka.value.deserializer": "x"},
        {"subscribe": "t", "kafka.enable.auto.commit": "true"},
        {"subscribe": "t", "kafka.interceptor.classes": "x"},
    ],
    ids=str,
)
def test_options_that_are_refused_when_the_stream_is_defined(spark, mini, kafka, options):
    given = {k: v for k, v in {"kafka.bootstrap.servers": kafka.address, **options}.items() if v is not None}
    theirs, ours = (_refusal(lambda s=s: s.readStream.format("kafka").options(**given).load()) for s in (spark, mini))
    assert ours == theirs


def test_a_kafka_stream_has_its_own_schema(spark, mini, kafka):
    for more in ({}, {"includeHeaders": "TRUE"}):
        options = {"kafka.bootstrap.servers": kafka.address, "subscribe": "t", **more}
        readers = [s.readStream.format("kafka").options(**options) for s in (spark, mini)]
        assert readers[0].load().schema == readers[1].load().schema
        theirs, ours = (_refusal(lambda r=r: r.schema("a int").load()) for r in readers)
        assert ours == theirs


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "nobody"},
        {"assign": '{"bad":["x"]}'},
        {"assign": '{"bad":[0,7]}', "startingOffsets": '{"bad":{"0":0,"7":0}}'},
        {"subscribePattern": "["},
        {"startingOffsets": "{bad"},
        {"startingOffsets": "soon"},
        {"startingOffsets": '{"bad":{"0":"1","1":2}}'},
        {"startingOffsets": '{"bad":{"0":1}}'},
        {"startingOffsets": '{"bad":{"0":100,"1":0}}'},
        {"startingTimestamp": "noon"},
        {"startingTimestamp": "9999999999999", "assign": '{"bad":[0]}'},
        {"startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "guess"},
        {"startingOffsetsByTimestamp": "{"},
        {"startingOffsetsByTimestamp": '{"bad":{"0":1}}'},
        {"maxOffsetsPerTrigger": "x"},
        {"minOffsetsPerTrigger": "x"},
        {"maxTriggerDelay": "soon"},
        {"failOnDataLoss": "maybe"},
        {"fetchOffset.numRetries": "x"},
        {"fetchOffset.retryIntervalMs": "x"},
        {"kafkaConsumer.pollTimeoutMs": "x"},
        {"kafka.isolation.level": "some"},
        {"kafka.bootstrap.servers": "nowhere.invalid:1"},
        {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "500", "kafka.request.timeout.ms": "400"},
    ],
    ids=str,
)
def test_options_that_end_a_query(spark, mini, kafka, bad_topic, tmp_path, options):
    given = options if {"assign", "subscribe", "subscribePattern"} & set(options) else {"subscribe": "bad", **options}
    theirs, ours = (_outcome(s, kafka, str(tmp_path / name), **given) for s, name in ((spark, "spark"), (mini, "model")))
    assert ours == theirs and theirs is not None


@pytest.fixture(scope="module")
def bad_topic(kafka):
    kafka.create({"bad": 2})
    kafka.send("bad", 0, "a")


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (["'v' value"], {"topic": None}),
        (["'k' key"], {}),
        (["value"], {}),
        (["'v' value", "1 topic"], {"topic": None}),
        (["'v' value", "1 key"], {}),
        (["'v' value", "'h' headers"], {}),
        (["'v' value", "'0' partition"], {}),
        (["'v' value", "cast(null as string) topic"], {"topic": None}),
        (["'v' value"], {"kafka.bootstrap.servers": None}),
        (["'v' value"], {"kafka.key.serializer": "x"}),
        (["'v' value"], {"kafka.value.serializer": "x"}),
        (["'v' value"], {"kafka.acks": "some"}),
        (["'v' value"], {"topic": "nobody"}),
        (["'v' value", "9 partition"], {}),
    ],
    ids=str,
)
def test_what_the_sink_refuses(spark, mini, kafka, bad_topic, tmp_path, columns, options):
    given = {"kafka.bootstrap.servers": kafka.address, "topic": "bad", "checkpointLocation": "", **QUICKLY, **options}
    reasons = []
    for engine, session in (("spark", spark), ("model", mini)):
        given["checkpointLocation"] = str(tmp_path / engine)
        rows = session.readStream.format("rate-micro-batch").options(rowsPerBatch=1, numPartitions=1).load().selectExpr(*columns)
        writer = rows.writeStream.format("kafka").options(**{k: v for k, v in given.items() if v is not None})
        reasons.append(_reason(writer.trigger(**NOW).start()))
    assert reasons[1] == reasons[0] and reasons[0] is not None


def test_the_sink_needs_a_checkpoint(spark, mini, kafka):
    streams = [s.readStream.format("rate").load().selectExpr("'v' value") for s in (spark, mini)]
    theirs, ours = (_refusal(lambda d=d: d.writeStream.format("kafka").option("topic", "t").start()) for d in streams)
    assert ours == theirs


@pytest.mark.parametrize("content", [b"", b"\0", b"\0v1", b"\0v2\n{}", b"\0v1\n{bad", b'\0v1\n{"bad":{"0":"x"}}', b"\0vx\n{}"], ids=str)
def test_initial_offsets_that_cannot_be_read(spark, mini, kafka, bad_topic, tmp_path, content):
    reasons = []
    for engine, session in (("spark", spark), ("model", mini)):
        log = tmp_path / engine / "sources/0/0"
        log.parent.mkdir(parents=True)
        log.write_bytes(content)
        reasons.append(_outcome(session, kafka, str(tmp_path / engine), subscribe="bad"))
    theirs, ours = reasons
    assert theirs is not None and ours is not None
    assert ours == theirs or "sources/0/0" in ours  # the model names the file, and repeats what Spark says


@pytest.mark.parametrize("text", ["5", '{"logOffset":1}', '{"bad":[0]}', '{"bad":{"0":"x"}}', '{"bad":{"zero":1}}', "{}", "later"])
def test_logged_offsets_that_are_not_of_kafka(spark, mini, kafka, bad_topic, tmp_path, text):
    reasons = []
    for engine, session in (("spark", spark), ("model", mini)):
        options = {"subscribe": "bad", "startingOffsets": "earliest", "failOnDataLoss": "false"}
        assert _outcome(session, kafka, str(tmp_path / engine), **options) is None
        log = tmp_path / engine / "offsets/0"
        log.with_name(".0.crc").unlink(missing_ok=True)
        lines = log.read_text().split("\n")
        log.write_text("\n".join([*lines[:2], text]))
        reasons.append(_outcome(session, kafka, str(tmp_path / engine), **options))
    assert reasons[1] == reasons[0] and (text == "{}") == (reasons[0] is None)


def test_offsets_of_spark_2_1_are_read(spark, mini, kafka, bad_topic, tmp_path):
    for engine, session in (("spark", spark), ("model", mini)):
        log = tmp_path / engine / "sources/0/0"
        log.parent.mkdir(parents=True)
        log.write_bytes(b'\0{"bad":{"0":1,"1":0}}')
        assert _outcome(session, kafka, str(tmp_path / engine), subscribe="bad") is None


# -- continuous processing -------------------------------------------------------------------------------------------

EPOCHS = {"continuous": "300 milliseconds"}


def _epochs(session, kafka, topic, sink, checkpoint, **options):
    """A continuous query that reads `topic` from its beginning; `sink` makes its writer of the records."""
    given = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic, "startingOffsets": "earliest", **AT_ONCE, **options}
    writer = sink(session.readStream.format("kafka").options(**given).load())
    return writer.option("checkpointLocation", str(checkpoint)).trigger(**EPOCHS).start()


def _log(checkpoint, name):
    there = [path for path in (checkpoint / name).iterdir() if path.name.isdigit()] if (checkpoint / name).exists() else []
    return {int(path.name): path.read_text().split("\n") for path in sorted(there, key=lambda path: int(path.name))}


def _wait_until_committed(query, checkpoint, offset, topic):
    end = time.monotonic() + 120
    while True:
        epoch = max(_log(checkpoint, "commits"), default=None)
        reached = None if epoch is None else _log(checkpoint, "offsets")[epoch][2]
        if reached == json.dumps({topic: {str(i): n for i, n in enumerate(offset)}}, separators=(",", ":")):
            return
        assert query.isActive, query.exception()
        assert time.monotonic() < end, reached
        time.sleep(0.05)


@pytest.mark.parametrize("first", ["model", "spark"])
def test_epochs_from_topic_to_topic(spark, mini, kafka, tmp_path, first):
    """While an engine runs, it takes up a new partition; the other one goes on where it has stopped."""
    kafka.create({"from": 1, "to": 1})

    def to_kafka(records):
        upper = records.selectExpr("key", "upper(cast(value AS string)) AS value").where("value <> 'SKIPPED'")
        return upper.writeStream.format("kafka").options(**{"kafka.bootstrap.servers": kafka.address, "topic": "to"})

    sessions = (mini, spark) if first == "model" else (spark, mini)
    query = _epochs(sessions[0], kafka, "from", to_kafka, tmp_path)
    kafka.send("from", 0, "a", "skipped", "b")
    _wait_until_committed(query, tmp_path, [3], "from")
    kafka.grow("from", 2)
    kafka.send("from", 1, "new")
    _wait_until_committed(query, tmp_path, [3, 1], "from")
    query.stop()
    query = _epochs(sessions[1], kafka, "from", to_kafka, tmp_path)
    kafka.send("from", 0, "c")
    _wait_until_committed(query, tmp_path, [4, 1], "from")
    query.stop()
    offsets, commits = _log(tmp_path, "offsets"), _log(tmp_path, "commits")
    assert list(commits) == list(range(len(commits))) and set(commits) <= set(offsets)
    assert all(lines[:2] == ["v1", ""] for lines in offsets.values())
    assert not (tmp_path / "sources").exists()
    written = spark.read.format("kafka").options(**{"kafka.bootstrap.servers": kafka.address, "subscribe": "to"}).load()
    assert {bytes(row.value).decode() for row in written.collect()} == {"A", "B", "C", "NEW"}


def test_what_a_continuous_query_takes_of_the_options(spark, mini, kafka, tmp_path):
    kafka.create({"opts": 1})
    kafka.send("opts", 0, "a", "b")

    def to_memory(records):
        return records.writeStream.format("memory").queryName("opts")

    def to_topic(columns):
        return lambda records: records.selectExpr(*columns).writeStream.format("kafka").options(
            **{"kafka.bootstrap.servers": kafka.address, "topic": "opts"}
        )

    refused = [
        *((to_memory, {name: "x"}) for name in ("kafkaConsumer.pollTimeoutMs", "failOnDataLoss", "startingOffsets",
                                                 "startingTimestamp", "fetchOffset.numRetries")),
        (to_topic(["key"]), {}),
        (to_topic(["value", "1 AS partition", "2 AS key"]), {}),
    ]
    for i, (sink, options) in enumerate(refused):
        start = partial(_epochs, kafka=kafka, topic="opts", sink=sink, **options)
        theirs, ours = (_refusal(partial(start, s, checkpoint=tmp_path / f"{i}" / type(s).__name__)) for s in (spark, mini))
        assert ours == theirs

    ignored = {"maxOffsetsPerTrigger": "x", "maxTriggerDelay": "soon", "minPartitions": "9", "maxRecordsPerPartition": "1"}
    lost = {"startingOffsets": '{"opts":{"0":100}}'}
    rows, reasons = [], []
    for engine, session in (("spark", spark), ("model", mini)):
        query = _epochs(session, kafka, "opts", to_memory, tmp_path / engine / "ignored", includeHeaders="true", **ignored)
        _wait_until_committed(query, tmp_path / engine / "ignored", [2], "opts")
        query.stop()
        rows.append(session.table("opts").drop("timestamp").collect())
        query = _epochs(session, kafka, "opts", to_memory, tmp_path / engine / "lost", **lost)
        reasons.append(_reason(query))
        query = _epochs(session, kafka, "opts", to_memory, tmp_path / engine / "not lost", failOnDataLoss="false", **lost)
        _wait_until_committed(query, tmp_path / engine / "not lost", [100], "opts")
        assert query.awaitTermination(2) is False
        query.stop()
    assert rows[1] == rows[0] and len(rows[0]) == 2
    assert reasons[0] == "Data read failed."
    assert "Could not read records in offset [100, 9223372036854775807) for topic partition opts-0" in reasons[1], reasons[1]


# -- a batch that always fails ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["spark", "model"])
def test_a_batch_that_always_fails_is_passed_over(engine, spark, mini, kafka, tmp_path):
    """On a checkpoint of each engine: the records of the batch are named, never read, and the query goes on behind them."""
    kafka.create({"poisoned": 2})
    calls = []

    def keep(df, batch_id):
        values = sorted(row.value.decode() for row in df.collect())
        if "poison" in values:
            raise ValueError("this record cannot be written")
        calls.append((batch_id, values))

    def go(checkpoint):
        return _outcome(spark if engine == "spark" else mini, kafka, str(checkpoint), keep, subscribe="poisoned", startingOffsets="earliest")

    kafka.send("poisoned", 0, "a")
    kafka.send("poisoned", 1, "b")
    assert go(tmp_path / "checkpoint") is None
    kafka.send("poisoned", 0, "poison", "lost")
    assert "this record cannot be written" in go(tmp_path / "checkpoint")
    done = repair(tmp_path / "checkpoint", skip_batch=1, to=tmp_path / "copy")
    assert "source 0 loses 2 records: poisoned/0 1 to 3" in str(done)
    kafka.send("poisoned", 0, "c")
    assert go(tmp_path / "copy") is None
    assert calls == [(0, ["a", "b"]), (1, []), (2, ["c"])]


# -- the broker is away (the last test: it stops the broker of all) -------------------------------------------------


def test_a_query_outlives_its_broker(spark, mini, kafka, tmp_path):
    """Without a broker, the query ends with an error; with the broker back, a restart reads what comes next."""
    kafka.create({"back": 1})
    engines = (("spark", spark), ("model", mini))
    rows: dict[str, list] = {"spark": [], "model": []}

    def run(engine, session):
        def keep(df, batch_id):
            rows[engine].append((batch_id, sorted(bytes(r.value) for r in df.collect())))

        options = {"subscribe": "back", "startingOffsets": "earliest", "fetchOffset.numRetries": "2"}
        return _outcome(session, kafka, str(tmp_path / engine), keep, **options)

    kafka.send("back", 0, "a", "b")
    assert [run(*one) for one in engines] == [None, None]
    kafka.broker.stop()
    theirs, ours = (run(*one) for one in engines)
    assert ours == theirs and "TimeoutException" in ours
    kafka.broker.start()
    kafka.send("back", 0, "c")
    assert [run(*one) for one in engines] == [None, None]
    assert rows["model"] == rows["spark"] == [(0, [b"a", b"b"]), (1, [b"c"])]
