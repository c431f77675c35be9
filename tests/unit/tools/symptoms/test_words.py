"""What differs from run to run is left out of a message."""

from __future__ import annotations

import pytest

from minispark_stream.tools.symptoms.words import is_of_others, plain, stems

SAID = "partition offset was changed from to"


@pytest.mark.parametrize("message", [
    "Partition t-0's offset was changed from 12 to 3",
    "26/03/01 12:00:00 WARN KafkaMicroBatchStream: Partition t-0's offset was changed from 12 to 3",
    "\x1b[31mPartition t-0’s offset was changed from 12 to 3\x1b[0m",
    "Partition t-0's offset was changed from 12 to 3\n\tat org.apache.spark.Foo.bar(Foo.scala:12)\n\t... 12 more",
])
def test_logs_colours_and_stacks_are_left_out(message: str) -> None:
    assert plain(message).replace(" t-0", "") == SAID


@pytest.mark.parametrize("path", [
    "/data/cp", "s3a://bucket/a b", "abfss://x@y.dfs.core.windows.net/cp", "file:/tmp/cp", "C:\\cp\\state", "~/cp", "./cp", "hdfs://nn:8020/cp",
])
def test_paths_are_left_out(path: str) -> None:
    assert plain(f"the file {path.replace(' ', '')} does not exist") == "the file does not exist"


def test_the_last_part_of_the_name_of_a_class_and_conditions_stay() -> None:
    message = "org.apache.spark.SparkException: [STREAM_FAILED.NOT] 0d1f1d3a-0c5b-4d3a-9a52-0f2f4b1c9d12"
    assert plain(message) == "sparkexception STREAM_FAILED.NOT"


def test_endings_and_words_of_the_same_meaning() -> None:
    assert stems("growing windows") == stems("grows window") == stems("increasing window")
    assert stems("stopped queries crash") == stems("stops query crashes") == stems("stopping query died")


@pytest.mark.parametrize(("text", "of_others"), [
    ("how to pivot a pandas dataframe", True), ("convert a streaming dataframe to pandas", False), ("kafka streams state store", True),
    ("spark kafka streams state store", False), ("upsert into postgres from a stream", False), ("state grows for ever", False),
])
def test_what_is_about_another_program(text: str, of_others: bool) -> None:
    assert is_of_others(text) == of_others


def test_the_package_of_a_connector_and_of_a_file_system_stays() -> None:
    assert plain("org.apache.spark.sql.kafka010.KafkaSourceProvider") == "kafka010 kafkasourceprovider"
    assert plain("Class org.apache.hadoop.fs.s3a.S3AFileSystem not found") == "class fs s3afilesystem not found"


def test_the_frames_that_tell_the_place_of_a_python_error_stay() -> None:
    assert "func_with_open_process_close" in plain('  File "/a.py", line 1, in func_with_open_process_close\n')
    assert "handlepythonexception" in plain("\tat org.apache.spark.api.python.BasePythonRunner$Foo.handlePythonException(PythonRunner.scala:5)")
