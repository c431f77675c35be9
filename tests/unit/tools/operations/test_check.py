"""The parts of `check` that need no Spark: the shadow of a checkpoint, the table of rules, the answer, the names of functions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.operations.check.answer import VERDICTS, Check, Refused
from minispark_stream.tools.operations.check.command import function, show_rules
from minispark_stream.tools.operations.check.rules import difference, rules
from minispark_stream.tools.operations.check.shadow import copy_small_files


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_a_shadow_has_the_small_files_alone(tmp_path: Path) -> None:
    checkpoint, shadow = tmp_path / "checkpoint", tmp_path / "shadow"
    small = {"metadata": "{}", "offsets/0": "v1", "commits/0": "v1", "sources/0/0": "v1", "state/0/0/_metadata/schema": "v2",
             "state/0/_metadata/metadata": "v1"}
    write(checkpoint, {**small, "state/0/0/1.delta": "rows", "state/0/1/1.delta": "rows", "offsets/.0.crc": "crc", "other/x": ""})
    copy_small_files(ReadOnlyFiles(str(checkpoint), None, Budget(1 << 20)), shadow)
    assert {str(p.relative_to(shadow)) for p in shadow.rglob("*") if p.is_file()} == set(small)
    assert (shadow / "state/0/1").is_dir()  # a query whose state/ is gone is refused: a shadow must not look like one


def test_metadata_of_column_families_names_the_files_of_the_shadow(tmp_path: Path) -> None:
    checkpoint, shadow = tmp_path / "checkpoint", tmp_path / "shadow"
    paths = {"stateSchemaFilePaths": ["file:/data/old/state/0/_stateSchema/default/0_a"]}
    write(checkpoint, {"metadata": "{}", "state/0/_metadata/v2/0": "v2\n" + json.dumps(paths)})
    copy_small_files(ReadOnlyFiles(str(checkpoint), None, Budget(1 << 20)), shadow)
    found = json.loads((shadow / "state/0/_metadata/v2/0").read_text().split("\n")[1])
    assert found == {"stateSchemaFilePaths": [f"{shadow}/state/0/_stateSchema/default/0_a"]}


def test_each_rule_has_a_verdict_and_words() -> None:
    assert {rule.verdict for rule in rules().values()} == set(VERDICTS) - {"refused"}
    for rule in rules().values():
        assert rule.says and not rule.says.endswith(".")
    for rule in rules().values():
        if rule.verdict == "wrong":
            assert rule.way, f"{rule.id}: who is told that the result is wrong wants to know what to do"


@pytest.mark.parametrize(("ids", "verdict", "code"), [
    ([], "right", 0),
    (["conf.pinned", "condition.changed"], "new rows only", 0),
    (["condition.changed", "function.argument"], "carried on", 2),
    (["function.argument", "not-decided"], "unknown", 3),
    (["not-decided", "window.changed", "output.renamed"], "wrong", 2),
])
def test_the_worst_difference_decides(ids: list[str], verdict: str, code: int) -> None:
    answer = Check("/checkpoint", "batch 3 next", tuple(difference(one, "somewhere") for one in ids))
    assert (answer.outcome, answer.verdict, answer.exit_code) == ("runs", verdict, code)


def test_a_refusal_is_worse_than_any_difference() -> None:
    refused = Refused("first batch", "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "the key")
    answer = Check("/checkpoint", "batch 3 next", (difference("window.changed", "keys"),), refused=refused)
    shown = json.loads(answer.to_json())
    assert (shown["outcome"], shown["verdict"], shown["exit_code"]) == ("refused", "refused", 1)
    assert (shown["condition"], shown["when"]) == ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "first batch")
    assert set(shown["differences"][0]) == {"id", "where", "before", "after", "verdict", "says"}
    assert "REFUSED in its first batch" in str(answer)


def test_what_was_not_planned_cannot_be_told() -> None:
    answer = Check("/checkpoint", "batch 3 next", not_planned="it returned None")
    assert (answer.outcome, answer.verdict, answer.exit_code) == ("unknown", "unknown", 3)


def test_a_function_is_named_by_its_module() -> None:
    assert function("json:dumps") is json.dumps
    for name, why in (("json", "form"), ("json:nothing", "cannot be imported"), ("json:__doc__", "not a function"),
                      ("no.such.module:f", "cannot be imported")):
        with pytest.raises(ValueError, match=why):
            function(name)


def test_the_rules_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert show_rules(as_json=True) == 0
    assert {one["id"] for one in json.loads(capsys.readouterr().out)} == set(rules())
    assert show_rules(as_json=False) == 0
    assert "key.changed: WRONG RESULTS" in capsys.readouterr().out
