"""The lines of docs/recipes.md do what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from minispark_stream import MiniSparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
BEGINNING, *SECTIONS = re.split(r"^## ", PAGE, flags=re.M)
CODE = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
RECIPES = [section for section in SECTIONS if CODE.search(section)]


def test_most_sections_have_lines_to_run() -> None:
    assert len(RECIPES) > 10


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.partition("\n")[0])
def test_a_recipe_does_what_it_says(spark: Any, spark_files: None, tmp_path: Path, recipe: str) -> None:
    if "deltalake" in recipe:
        pytest.importorskip("deltalake")
    sessions = {"model": MiniSparkSession(spark), "spark": spark} if "*Both engines.*" in recipe else {"spark": spark}
    for name, session in sessions.items():
        folder = tmp_path / name
        folder.mkdir()
        lines = "".join(CODE.findall(BEGINNING) + CODE.findall(recipe))
        exec(lines, {"spark": session, "folder": str(folder)})  # as its reader would run them
