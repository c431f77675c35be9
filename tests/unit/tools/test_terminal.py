"""No character of a checkpoint, of a message or of a path steers the terminal in which a command prints it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from minispark_stream import explain_output, inspect
from minispark_stream.engine.checkpointing.compactible_file_stream_log import CompactionConf, FileEntry, FileStreamSourceLog
from minispark_stream.engine.checkpointing.file_stream_sink_log import FileStreamSinkLog, SinkFileStatus
from minispark_stream.engine.checkpointing.lz4_block import compress
from minispark_stream.engine.checkpointing.stream_metadata import read_or_create
from minispark_stream.engine.state.operator_state_metadata import (
    OperatorStateMetadata,
    StateStoreMetadata,
    write_operator_metadata,
)
from minispark_stream.engine.state.schema_files import encode_schemas
from minispark_stream.engine.state.state_records import encode_records
from minispark_stream.lens.view.words import offset_words, one_line, printable, row_words
from minispark_stream.tools.cli import main
from minispark_stream.tools.compare.differences import Difference
from minispark_stream.tools.compare.engine_run import Cause
from tests.unit.hand_made import CONF, encode, log_batch

EVIL = "\x1b]0;owned\x07\x1b[31m\x9b2J\r\x00\x7f\u202e\u2066\u200f\u2028"
STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
IN_A_NAME = EVIL.replace("\x00", "")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Every text in it has such characters, and a forged line."""
    path = tmp_path / f"checkpoint{IN_A_NAME}"
    path.mkdir()
    read_or_create(str(path), lambda key: None)
    offset = json.dumps({"logOffset": 0, EVIL: EVIL}, ensure_ascii=False)
    for batch in range(3):
        log_batch(path, batch, offset, EVIL.replace("\r", ""), conf={**CONF, "spark.sql.shuffle.partitions": "1", f"conf{EVIL}": EVIL}, watermark=1)
    source = FileStreamSourceLog(str(path / "sources/0"), CompactionConf())
    source.add(0, (FileEntry(f"file:///in/{EVIL}\nnext  forged", 1, 0),))
    (path / f"sources/0/{IN_A_NAME.replace('/', '')}").touch()
    name = f"save{EVIL}"
    write_operator_metadata(str(path / "state"), OperatorStateMetadata(0, name, (StateStoreMetadata("default", 0, 1),)))
    key, value = StructType().add(f"k{EVIL}", StringType()), StructType().add(f"v{EVIL}", StringType()).add("n", LongType())
    (path / "state/0/0/_metadata").mkdir(parents=True)
    (path / "state/0/0/_metadata/schema").write_bytes(encode_schemas(key, value))
    rows = encode_records([(encode(key, [f"a{EVIL}\nnext  forged"]), encode(value, [EVIL], [1]))])
    for version in (1, 2, 3):
        (path / f"state/0/0/{version}.delta").write_bytes(compress(rows if version < 3 else encode_records([])))
    (path / "state/0/0/2.snapshot").write_bytes(b"damaged")
    (path / f"state/0/0/.{IN_A_NAME}.tmp").touch()
    (path / f"link{IN_A_NAME}").symlink_to("metadata")
    (path / "app.log").write_text(f"26/03/01 12:00:00 ERROR Query {EVIL} terminated with error\njava.lang.Error: {EVIL}\n", newline="")
    report = {"batchId": 0, "durationMs": {EVIL: 1}, "sources": [{"description": EVIL}], "name": EVIL, "timestamp": EVIL, "sink": {"description": EVIL}}
    (path / "progress.json").write_text(json.dumps([report, {**report, "id": EVIL}], ensure_ascii=False))
    (path / f"out/{IN_A_NAME}").mkdir(parents=True)
    FileStreamSinkLog(str(path / "out/_spark_metadata"), CompactionConf()).add(0, (SinkFileStatus(f"file:///out/{EVIL}", 1, False, 1, 1, 1, EVIL),))
    (path / f"out/{IN_A_NAME}/part").touch()
    return path


@pytest.mark.parametrize("arguments", [
    ["inspect", "PATH"], ["inspect", "PATH", "--json"], ["inspect", "PATH", "--rows", "5", "--partition", "0"],
    ["inspect", "PATH", "--partition", "0", "--json"], ["inspect", "PATH", "--key", f"a{EVIL}\nnext  forged"], ["inspect", "PATH", "--diff", "0", "1"],
    ["inspect", "PATH", "--diff", "0", "1", "--json"], ["inspect", "PATH", "--version", "7"], ["inspect", "PATH", "--store", EVIL],
    ["inspect", "PATH", "--max-bytes", "10"], ["inspect", "PATH/nowhere"], ["inspect", "PATH/state"], ["inspect", "PATH", "--html", "PATH/out.html"],
    ["why", "PATH"], ["why", "PATH/state"], ["why", f"[UNSUPPORTED {EVIL}] no such entry"], ["why", f"Sorting is not supported {EVIL}"], ["course", "PATH/metadata"], ["course", "PATH/course"],
    ["why", "PATH/app.log"], ["why", "PATH/progress.json"], ["inspect", "PATH/out"], ["inspect", "PATH", "--sink", "PATH/out"],
    ["inspect", "PATH/out", "--json"], ["rollback", "PATH", "1"], ["rollback", "PATH", "1", "--json"], ["rollback", "PATH", "1", "--to", "PATH-back"],
    ["repair", "PATH"], ["repair", "PATH", "--json"], ["repair", "PATH", "--to", "PATH-mended"], ["repartition", "PATH", "3"],
    ["repartition", "PATH", "3", "--to", "PATH-divided"], ["state", "PATH", "--delete", f"a{EVIL}\nnext  forged"], ["metrics", "PATH"],
    ["state", "PATH", "--delete", EVIL], ["check", "PATH", "--query", EVIL], ["check", "PATH", "--query", f"json:{EVIL}"], ["play", EVIL],
], ids=lambda arguments: " ".join(map(printable, arguments)))
def test_no_command_prints_what_steers_a_terminal(checkpoint: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    main([argument.replace("PATH", str(checkpoint)) for argument in arguments])
    printed = "".join(capsys.readouterr())
    assert printed and not STEERS.search(printed)
    if "--json" not in arguments:
        assert not re.search("^next +forged", printed, re.M)
    elif "partition" not in str(arguments):
        json.loads(printed)


def test_an_unknown_command_is_printed_without_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([f"inspekt{EVIL}"])
    assert not STEERS.search("".join(capsys.readouterr()))


def test_texts_of_answers_have_none(checkpoint: Path) -> None:
    report, answer = inspect(str(checkpoint)), explain_output(str(checkpoint))
    shown = [report, answer, *report.findings, *report.rows(version=1), Cause("X", EVIL), Difference(1, "rows", EVIL, EVIL)]
    for one in shown:
        assert not STEERS.search(str(one)) and not STEERS.search(repr(one)), type(one)
    assert not STEERS.search(report._repr_html_()) and not STEERS.search(answer._repr_html_())
    assert not re.search("^next +forged", str(report), re.M) and "forged" in str(report)


def test_a_value_in_words() -> None:
    assert row_words({"a\x1b": ["x\ny", {"b": "\u202eevil"}]}) == r"a\u001b=[x y, {b=\u202eevil}]"
    assert offset_words("\x1b[2J") == r"\u001b[2J" and offset_words('{"a\\u001b":1}') == r"a\u001b 1"
    assert printable("a\tb\nc\x9b") == "a\tb\nc\\u009b" and one_line("a\tb\nc\udc80") == "a b c?"
