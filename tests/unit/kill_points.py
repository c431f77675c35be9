"""A process that is killed, as it were, before its nth operation on a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager


class Killed(BaseException):
    pass


def kills(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """A function that says how many operations are done before the kill; called without a number, it says how many are left."""
    left = [10**9]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return real(*args, **kwargs)

        return call

    for name in ("create_atomic", "delete"):
        monkeypatch.setattr(CheckpointFileManager, name, counted(getattr(CheckpointFileManager, name)))
    monkeypatch.setattr(os, "rename", counted(os.rename))

    def set_left(n: int | None = None) -> int:
        if n is not None:
            left[0] = n
        return left[0]

    return set_left
