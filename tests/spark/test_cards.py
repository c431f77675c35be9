"""The cards of docs/cards.toml claim what real Spark and the model do: each case is played on both, and what becomes of it when a row is dragged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from docs.cards import Card, cards
from minispark_stream import MiniSparkSession
from tests.golden.play_cases import parsed, play


@pytest.mark.parametrize("card", cards(), ids=lambda card: card.name)
def test_both_engines_do_what_the_card_says(spark: Any, spark_files: None, tmp_path: Path, card: Card) -> None:
    for number, case in enumerate((card.case, card.then)):
        for name, session in (("spark", spark.newSession()), ("model", MiniSparkSession(spark.newSession()))):
            did = play(session, parsed(case), tmp_path / f"{name}{number}")
            out = [f"{batch} {row}" for batch, rows in did["sink"] for row in rows]
            late, held = sum(batch[3] for batch in did["batches"]), did["batches"][-1][2]
            assert (out, late, held) == (card.out[number], card.late[number], card.held[number]), (name, case)
