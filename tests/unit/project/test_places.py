"""The files that are only read elsewhere, by GitHub, Docker or Binder, are what these expect, and say what the project says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCHEMAS = {
    "github-workflows": WORKFLOWS,
    "dependabot": [ROOT / ".github" / "dependabot.yml"],
    "github-issue-forms": [ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml" for name in ("page", "differs")],
    "github-issue-config": [ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"],
    "citation-file-format": [ROOT / "CITATION.cff"],
    "compose-spec": [ROOT / ".devcontainer" / "compose.yml"],
}
DOCKERFILE = ROOT / ".devcontainer" / "Dockerfile"
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_file_has_the_form_that_its_reader_wants(schema):
    pytest.importorskip("check_jsonschema")
    done = subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *SCHEMAS[schema]],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dockerfile_has_no_findings():
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("hadolint is not installed")
    done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stdout, done.stdout + done.stderr


def test_the_image_copies_what_is_there_and_lets_through_what_it_copies():
    text = DOCKERFILE.read_text()
    copied = [word for line in re.findall(r"^COPY (.*) /\S+$", text, re.M) for word in line.split()]
    let_through = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.M)
    assert sorted(copied) == sorted(let_through)
    assert all((ROOT / name).exists() for name in copied)
    assert re.search(r"^USER [1-9]\d*$", text, re.M), "no root"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_targets_and_files_that_are_there_and_ends(workflow):
    text = workflow.read_text()
    for job in yaml.safe_load(text)["jobs"].values():
        assert "timeout-minutes" in job
        for step in job["steps"]:
            named = re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))
            assert set(named) <= TARGETS, named
    for path in re.findall(r"\.devcontainer/[\w.]+|docs/[\w.]+\.md", text):
        assert (ROOT / path).exists(), path


def test_version_and_extras_are_the_same_everywhere():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == PROJECT["version"]
    assert re.search(rf"^## {re.escape(PROJECT['version'])}\b", (ROOT / "docs" / "CHANGELOG.md").read_text(), re.M)
    places = [DOCKERFILE, *(ROOT / ".binder").iterdir(), *(ROOT / "docs" / f"{name}.md" for name in ("install", "places")), ROOT / "README.md"]
    asked = [extra for path in places for found in re.findall(r"(?:minispark_stream|/src|^\.)\[([\w,]+)\]", path.read_text(), re.M)
             for extra in found.split(",")]
    assert set(asked) <= set(PROJECT["optional-dependencies"]) and "course" in asked


def test_every_place_has_the_same_java():
    packages = [(ROOT / ".binder" / "apt.txt").read_text(), DOCKERFILE.read_text(), (ROOT / "docs" / "places.md").read_text()]
    assert all("openjdk-17-jre-headless" in text for text in packages)
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert container["features"]["ghcr.io/devcontainers/features/java:1"] == {"version": "17"}
    assert container["postCreateCommand"] == "make setup"


def test_ports_are_published_to_this_machine_alone():
    """Spark's pages have no password: on all interfaces, everybody in the network of a classroom could end a neighbour's jobs."""
    compose = yaml.safe_load((ROOT / ".devcontainer" / "compose.yml").read_text())
    published = [port for service in compose["services"].values() for port in service.get("ports", [])]
    pages = [ROOT / ".devcontainer" / "Dockerfile", ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    published += [port for page in pages for port in re.findall(r"docker run[^\n]*?((?:-p \S+ ?)+)", page.read_text())]
    assert len(published) >= 3
    assert [port for port in published if not re.fullmatch(r"((-p )?127\.0\.0\.1:\d+:\d+ ?)+", port)] == []


def test_actions_are_taken_by_commit():
    """A tag can be moved to other code, and some of these workflows may publish."""
    used = [
        (file.name, line.strip()) for file in (ROOT / ".github" / "workflows").glob("*.yml")
        for line in file.read_text().splitlines() if "uses:" in line
    ]
    assert len(used) > 20
    assert [one for one in used if not re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", one[1])] == []
    hashes = {line.split("uses: ")[1] for _, line in used}
    assert len({one.split("@")[0] for one in hashes}) == len(hashes), "one action, one commit"


def test_binder_gives_the_jvm_a_gigabyte():
    start = ROOT / ".binder" / "start"
    assert os.access(start, os.X_OK)
    done = subprocess.run([start, "sh", "-c", "echo $PYSPARK_SUBMIT_ARGS"], capture_output=True, text=True, check=True)
    assert done.stdout == "--driver-memory 1g pyspark-shell\n"
