"""A query whose checkpoint is in an object store: it stops, and goes on where it stopped."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from minispark_stream import MiniSparkSession, inspect


def test_a_query_goes_on_from_an_object_store(mini: MiniSparkSession, object_store: str, tmp_path: Path) -> None:
    words = ["a", "b", "a"]

    def run() -> dict[str, int]:
        lines = mini.readStream.schema("word string").option("maxFilesPerTrigger", 1).text(str(tmp_path / "in"))
        write = lines.groupBy("word").count().writeStream.outputMode("complete").format("memory").queryName("counts_s3")
        query = write.option("checkpointLocation", object_store).trigger(availableNow=True).start()
        query.awaitTermination()
        return {row.word: row["count"] for row in mini.table("counts_s3").collect()}

    (tmp_path / "in").mkdir()
    for number, word in enumerate(words):
        (tmp_path / "in" / f"{number}.txt").write_text(word)
        if number > 0:
            assert run() == Counter(words[: number + 1])
    report = inspect(object_store)
    assert [b.batch_id for b in report.batches] == list(range(3)) and not report.findings
    assert {row.key["word"]: row.value["count"] for row in report.rows()} == Counter(words)
