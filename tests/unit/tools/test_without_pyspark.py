"""`inspect` needs numpy, pyarrow and xxhash: without PySpark, it says the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import types as T  # noqa: N812

from minispark_stream import explain_output
from minispark_stream.engine.checkpointing import types_without_pyspark as plain_types
from minispark_stream.engine.checkpointing.unsafe_row.nested import Struct, field_type
from minispark_stream.tools.inspection.checkpoint import inspect
from tests.unit.hand_made import windowed_count

# In a process that starts with this, PySpark and its bridge to Java are as good as not installed, and so is all that is not needed.
WITHOUT = """
import sys
class NotInstalled:
    def find_spec(name, path=None, target=None):
        if name in ("pyspark", "py4j", "pandas", "graphviz", "matplotlib", "ipywidgets", "IPython", "pygments", "tqdm", "packaging"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NotInstalled)
"""
INSPECT = WITHOUT + """
from minispark_stream.tools.cli import main
for checkpoint in sys.argv[1:]:
    main(["inspect", checkpoint, "--json"])
"""
TYPES = [
    T.NullType(), T.StringType(), T.StringType("UNICODE_CI"), T.BinaryType(), T.BooleanType(), T.ByteType(), T.ShortType(),
    T.IntegerType(), T.LongType(), T.FloatType(), T.DoubleType(), T.DecimalType(10, 2), T.DecimalType(38, 18), T.DateType(),
    T.TimeType(3), T.TimestampType(), T.TimestampNTZType(), T.DayTimeIntervalType(), T.DayTimeIntervalType(0, 0),
    T.YearMonthIntervalType(), T.YearMonthIntervalType(1, 1), T.CalendarIntervalType(), T.VariantType(),
    T.ArrayType(T.LongType(), False), T.ArrayType(T.StringType("UTF8_LCASE")),
    T.MapType(T.StringType(), T.ArrayType(T.IntegerType()), False), T.MapType(T.StringType("UNICODE"), T.ByteType()),
    T.StructType([T.StructField("a", T.LongType(), False), T.StructField("b", T.StringType("UNICODE_CI"), True, {"k": 1})]),
]


def run(program: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])})


@pytest.mark.parametrize("dt", TYPES, ids=lambda dt: dt.simpleString())
def test_a_schema_is_the_same(dt):
    schema = T.StructType([T.StructField("x", dt, True, {"comment": "a field"}), T.StructField("y", T.ArrayType(dt), False)])
    plain: Any = plain_types.StructType.fromJson(json.loads(json.dumps(schema.jsonValue())))
    assert plain.jsonValue() == schema.jsonValue()
    assert plain.simpleString() == schema.simpleString() and plain.typeName() == schema.typeName()
    assert plain.names == schema.names
    first, real = plain.fields[0].dataType, schema.fields[0].dataType
    assert all(getattr(real, name) == value for name, value in vars(first).items() if isinstance(value, int))
    assert hasattr(first, "startField") == hasattr(real, "startField")
    assert [(f.name, f.nullable, f.metadata) for f in plain.fields] == [(f.name, f.nullable, f.metadata) for f in schema.fields]
    assert type(field_type(plain)) is type(field_type(schema)) and Struct(plain).arrow == Struct(schema).arrow


@pytest.mark.parametrize("dt", [T.CharType(3), T.VarcharType(4), T.GeometryType(4326), T.GeographyType(4326)])
def test_types_whose_names_are_longer_are_read(dt):
    assert plain_types.type_of_json(dt.jsonValue(), "", {}).typeName() == dt.typeName()


@pytest.mark.parametrize("value", ["text", "decimal(1)", {"type": "set"}])
def test_what_is_no_type_is_refused_in_the_same_words(value):
    schema = {"type": "struct", "fields": [{"name": "x", "type": value, "nullable": True, "metadata": {}}]}
    said = []
    for read in (T.StructType.fromJson, plain_types.StructType.fromJson):
        with pytest.raises(ValueError) as refused:
            read(schema)
        said.append(f"{type(refused.value).__name__}: {refused.value}")
    assert said[0] == said[1]


def test_an_error_says_the_same():
    program = WITHOUT + """
from minispark_stream.engine.checkpointing.errors import SparkRuntimeException
for e in SparkRuntimeException(message="no such file"), SparkRuntimeException(message="gone", errorClass="X", messageParameters={}):
    print(e, e.getCondition())
"""
    for_real = [SparkRuntimeException(message="no such file"), SparkRuntimeException(message="gone", errorClass="X", messageParameters={})]
    assert run(program).stdout.splitlines() == [f"{e} {e.getCondition()}" for e in for_real]


def checkpoints(folder: Path) -> list[Path]:
    """One that is whole, and each of its files missing, cut short and with a byte changed."""
    whole = windowed_count(folder / "whole")
    made = [whole]
    for i, file in enumerate(sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())):
        data = (whole / file).read_bytes()
        for fault, changed in {"missing": None, "cut": data[: len(data) // 2], "flipped": data[:-3] + b"\xff" + data[-2:]}.items():
            made.append(Path(shutil.copytree(whole, folder / f"{i}-{fault}")))
            (made[-1] / file).unlink() if changed is None else (made[-1] / file).write_bytes(changed)
    return made


def test_inspect_gives_the_same_json_without_pyspark(tmp_path):
    made = checkpoints(tmp_path)
    assert len(made) > 40
    done = run(INSPECT, *map(str, made))
    assert done.returncode == 0, done.stderr
    here = [inspect(str(path)).to_json(indent=2) for path in made]
    assert len({text.split("\n", 2)[2] for text in here}) > 20  # the faults are told
    assert done.stdout == "".join(f"{text}\n" for text in here)


def test_every_answer_of_inspect_needs_no_pyspark(tmp_path):
    checkpoint, page = str(windowed_count(tmp_path / "cp")), str(tmp_path / "page.html")
    program = WITHOUT + """
from minispark_stream.tools.cli import main
sys.exit(any([main(["inspect", sys.argv[1], *words]) for words in
              ([], ["--html", sys.argv[2]], ["--key", "b"], ["--diff", "1", "2"], ["--partition", "1", "--version", "2"])]))
"""
    done = run(program, checkpoint, page)
    assert done.returncode == 0, done.stdout + done.stderr
    assert Path(page).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_why_nothing_came_out_of_a_checkpoint_needs_no_pyspark(tmp_path):
    checkpoint = windowed_count(tmp_path / "cp")
    done = run(WITHOUT + "from minispark_stream import explain_output\nprint(explain_output(sys.argv[1]))", str(checkpoint))
    assert (done.stdout, done.stderr) == (f"{explain_output(checkpoint)}\n", "")


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    """`inspect CHECKPOINT | head`: the pipe is closed before anything is written to it."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "minispark_stream", "inspect", str(windowed_count(tmp_path / "cp")), "--json"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_needs_pyspark_says_how_to_get_it():
    done = run(WITHOUT + "from minispark_stream.tools.cli import main\nsys.exit(main(['demo']))")
    assert done.returncode == 1
    assert done.stderr.startswith("demo: No module named 'pyspark'") and done.stderr.count("\n") == 1 and "doctor" in done.stderr
