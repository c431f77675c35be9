"""The queries of the README run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

README = Path(__file__).parents[2] / "README.md"


def test_the_queries_of_the_readme_run_on_both_engines(spark, tmp_path):
    printed = "".join(re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.S | re.M))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("to be or not to be\n")
    names: dict[str, Any] = {}
    exec(re.sub(r'"(in\b|word_count.html)', rf'"{tmp_path}/\1', printed), names)
    assert names["comparison"].differences == ()
    assert sorted(spark.table("counts").collect()) == [("be", 2), ("not", 1), ("or", 1), ("to", 2)]
    assert names["query"].trace.batches
    assert (tmp_path / "word_count.html").stat().st_size > 0
