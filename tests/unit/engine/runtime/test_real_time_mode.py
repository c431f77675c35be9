"""The settings that real-time mode makes, and those that it leaves alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from minispark_stream.engine.runtime.real_time_mode import check_confs, set_soft_defaults
from minispark_stream.engine.state.state_store import CHECKPOINT_FORMAT, PROVIDER_CLASS, ROCKS_DB_PROVIDER


def session_with(confs: dict[str, str]) -> Any:
    return SimpleNamespace(conf=SimpleNamespace(get=lambda key, default=None: confs.get(key, default), set=confs.__setitem__))


def test_a_query_gets_rocksdb_and_format_2_if_its_session_says_nothing() -> None:
    confs: dict[str, str] = {}
    set_soft_defaults(session_with(confs))
    assert confs[PROVIDER_CLASS] == ROCKS_DB_PROVIDER and confs[CHECKPOINT_FORMAT] == "2"
    assert confs["spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"] == "true"
    assert confs["spark.sql.execution.sortBeforeRepartition"] == "false"


def test_what_the_session_has_set_stays() -> None:
    changelogs = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
    confs = {changelogs: "false"}
    set_soft_defaults(session_with(confs))
    assert confs[changelogs] == "false"


def test_settings_that_go_with_real_time_mode_are_accepted() -> None:
    check_confs(session_with({}))
    check_confs(session_with({PROVIDER_CLASS: ROCKS_DB_PROVIDER, CHECKPOINT_FORMAT: "2"}))
    dangerously = "spark.sql.streaming.realTimeMode.dangerouslyAllowCheckpointV1.enabled"
    check_confs(session_with({CHECKPOINT_FORMAT: "1", dangerously: "true"}))
