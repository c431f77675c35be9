"""When a row of the benchmark counts: `make bench` itself takes hours."""

from __future__ import annotations

import pytest

from tests.benchmarks.bench import SETTINGS, still
from tests.benchmarks.report import Run
from tests.benchmarks.workloads import MORE_WORKLOADS, WORKLOADS


def rounds(spark: list[int], model: list[int]) -> list[dict[str, Run]]:
    return [{"spark": Run([s], []), "spark rocksdb": Run([s + 500], []), "model": Run([m], [])} for s, m in zip(spark, model)]


@pytest.mark.parametrize(
    ("spark", "model", "stands"),
    [
        ([900, 700, 500, 510, 505], [90, 80, 52, 51, 50], True),
        ([500, 500, 500, 500], [50, 50, 50, 50], False),  # too few
        ([900, 800, 700, 650, 600], [90, 80, 70, 65, 60], False),  # both become faster, and their ratio does not change
        ([500, 500, 500, 500, 500], [50, 50, 50, 60, 50], False),
    ],
)
def test_each_engine_stands_still_for_itself(spark: list[int], model: list[int], stands: bool) -> None:
    assert still(rounds(spark, model)) is stands


def test_settings_name_workloads() -> None:
    known = {workload.name for workload in (*WORKLOADS, *MORE_WORKLOADS)}
    assert all(set(setting.workloads) <= known for setting in SETTINGS.values())
    assert len(known) == len(WORKLOADS) + len(MORE_WORKLOADS)
