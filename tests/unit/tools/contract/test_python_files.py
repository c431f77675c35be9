"""The names in a module and their parameters, without an import of it."""

from __future__ import annotations

from pathlib import Path

from minispark_stream.tools.contract.python_files import PythonSources

MODULE = '''
from os import path as where
try:
    from fast import quick
except ImportError:
    quick = None
LIMIT: int = 3
def convert(data, schema=None, *rest, zone, safe=True, **more): ...
class Frame:
    kind = "x"
    def __init__(self, java):
        self._jdf = java
    @classmethod
    def of(cls, rows): ...
'''


def test_names_and_parameters(tmp_path: Path):
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "frame.py").write_text(MODULE)
    names = PythonSources(tmp_path).names("pyspark.sql.frame")
    assert names is not None
    assert set(names) >= {"where", "quick", "LIMIT", "convert", "Frame", "Frame.kind", "Frame._jdf", "Frame.of"}
    assert names["convert"] == "data, schema=, *rest, zone, safe=, **more"
    assert names["Frame.of"] == "rows"
    assert names["LIMIT"] is None


def test_a_module_that_is_not_there(tmp_path: Path):
    assert PythonSources(tmp_path).names("pyspark.sql.frame") is None
