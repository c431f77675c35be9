"""The options of the file source, and the checks of their values.

Models: FileStreamOptions (Source document). The texts of the errors are Spark's. An error ends the query after its start,
because Spark, too, reads these options only when the source is created on the query's thread.

    maxFilesPerTrigger "0"    Invalid value '0' for option 'maxFilesPerTrigger', must be a positive integer
    maxFileAge "7d"           max_file_age_ms 604800000

Differs from Spark: nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm.errors import illegal_argument
from minispark_stream.engine.jvm.sessions import time_string_as_ms

N = TypeVar("N", int, float)


@dataclass(frozen=True)
class FileStreamOptions:
    """The values of the options; a limit is None if it was not given."""

    max_files_per_trigger: int | None
    max_bytes_per_trigger: int | None
    max_file_age_ms: int
    latest_first: bool
    file_name_only: bool
    clean_source: str
    source_archive_dir: str | None
    max_cached_files: int
    discard_cached_input_ratio: float

    @staticmethod
    def of(session: SparkSession, options: Mapping[str, str]) -> FileStreamOptions:
        """Read the options, whose names are in lower case.

        Raises:
            IllegalArgumentException: Spark refuses a value.
        """
        for name in ("modifiedbefore", "modifiedafter"):
            if name in options:
                raise illegal_argument(f"option '{name}' is not allowed in file stream sources")
        positive = "must be a positive integer"
        max_files = _number(options, "maxFilesPerTrigger", _whole, lambda n: 0 < n < 2**31, positive)
        max_bytes = _number(options, "maxBytesPerTrigger", _whole, lambda n: 0 < n < 2**63, positive)
        if max_files is not None and max_bytes is not None:
            raise illegal_argument("Options 'maxFilesPerTrigger' and 'maxBytesPerTrigger' can't be both set at the same time")
        not_negative = "must be an integer greater than or equal to 0"
        cached = _number(options, "maxCachedFiles", _whole, lambda n: 0 <= n < 2**31, not_negative)
        ratio = _number(
            options, "discardCachedInputRatio", float, lambda x: 0 <= x <= 1, "must be a positive float between 0 and 1"
        )
        return FileStreamOptions(
            max_files_per_trigger=max_files,
            max_bytes_per_trigger=max_bytes,
            max_file_age_ms=time_string_as_ms(session, options.get("maxfileage", "7d")),
            latest_first=_boolean(options, "latestFirst"),
            file_name_only=_boolean(options, "fileNameOnly"),
            clean_source=_clean_source(options),
            source_archive_dir=options.get("sourcearchivedir"),
            max_cached_files=10_000 if cached is None else cached,
            discard_cached_input_ratio=0.2 if ratio is None else ratio,
        )


def _number(
    options: Mapping[str, str], name: str, kind: Callable[[str], N], valid: Callable[[N], bool], rule: str
) -> N | None:
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        value = kind(text)
        if valid(value):
            return value
    except ValueError:
        pass
    raise illegal_argument(f"Invalid value '{text}' for option '{name}', {rule}")


def _whole(text: str) -> int:
    """An integer as Java reads it: without spaces and underscores, which Python would allow."""
    if re.fullmatch(r"[+-]?\d+", text) is None:
        raise ValueError(text)
    return int(text)


def _boolean(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name.lower(), "false")
    if text.lower() not in ("true", "false"):
        raise illegal_argument(f"Invalid value '{text}' for option '{name}', must be 'true' or 'false'")
    return text.lower() == "true"


def _clean_source(options: Mapping[str, str]) -> str:
    given = options.get("cleansource")
    mode = "OFF" if given is None else given.upper()
    if mode not in ("ARCHIVE", "DELETE", "OFF"):
        raise illegal_argument(f"Invalid mode for clean source option Some({given}). Must be one of ARCHIVE,DELETE,OFF")
    if mode == "ARCHIVE" and "sourcearchivedir" not in options:
        raise illegal_argument("Archive mode must be used with 'sourceArchiveDir' option.")
    return mode
