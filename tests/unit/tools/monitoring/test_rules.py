"""The alert rules and the dashboard ask for numbers that exist, and promtool accepts the rules, where there is one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from minispark_stream.tools.cli import main
from minispark_stream.tools.monitoring.command import ALERTS
from minispark_stream.tools.monitoring.families import FAMILIES, OF_CHECKPOINT, OF_FILES, OF_QUERY, MetricFamily

EXPORTED = {
    family.in_prometheus + ("_total" if family.is_counter else ""): (*common, *family.labels)
    for families, common in ((FAMILIES, OF_QUERY), (OF_FILES, OF_CHECKPOINT)) for family in families.values()
}
PLAYED = Path(__file__).with_name("alerts_test.yml")


def check(expression: str) -> None:
    """Every name in an expression is one that is exported, and every label one that it has."""
    names = re.findall(r"(spark_streaming_\w+)(?:\{([^}]*)\})?", expression)
    assert names
    for name, matchers in names:
        assert set(re.findall(r"(\w+)\s*[=!]~?", matchers)) <= set(EXPORTED[name]), expression


def rules() -> list[dict]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def test_the_rules_ask_for_numbers_that_exist():
    assert len(rules()) == len({rule["alert"] for rule in rules()}) > 10
    for rule in rules():
        check(rule["expr"])
        told = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
        assert told and told <= {label for name in re.findall(r"spark_streaming_\w+", rule["expr"]) for label in EXPORTED[name]}


def test_each_rule_is_played():
    text = PLAYED.read_text()
    assert [rule["alert"] for rule in rules() if f'alertname="{rule["alert"]}"' not in text] == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool, of Prometheus, is not on the PATH")
def test_promtool_plays_the_rules():
    subprocess.run(["promtool", "check", "rules", str(ALERTS)], check=True, timeout=60)
    subprocess.run(["promtool", "test", "rules", str(PLAYED)], check=True, timeout=60)


def test_the_dashboard_asks_for_numbers_that_exist(capsys):
    assert main(["rules", "--dashboard"]) == 0
    dashboard = json.loads(capsys.readouterr().out)
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            check(target["expr"])
            assert 'query=~"$query"' in target["expr"]
    assert {variable["name"] for variable in dashboard["templating"]["list"]} == {"datasource", "query"}


def test_the_command_prints_the_rules(capsys):
    assert main(["rules"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == yaml.safe_load(ALERTS.read_text())


def test_prometheus_spells_names_as_sparks_servlet_does():
    assert MetricFamily("eventTime-watermark", "").in_prometheus == "spark_streaming_eventTime_watermark"
