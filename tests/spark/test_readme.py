"""The query of the README runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_query_of_the_readme_runs_on_both_engines(spark, tmp_path):
    (block,) = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.S | re.M)
    names: dict[str, object] = {}
    exec(re.sub(r'"(in\b|checkpoints|word_count.html)', rf'"{tmp_path}/\1', block), names)
    by_spark, by_mini = spark.table("by_spark").collect(), spark.table("by_mini").collect()
    assert sorted(by_spark) == sorted(by_mini) == [("be", 2), ("not", 1), ("or", 1), ("to", 2)]
    assert names["comparison"].differences == ()  # type: ignore[attr-defined]
    assert (tmp_path / "word_count.html").stat().st_size > 0
