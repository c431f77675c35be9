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
from typing import Any

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm.errors import illegal_argument
from minispark_stream.engine.jvm.sessions import time_string_as_ms


@dataclass(frozen=True)
class FileStreamOptions:
    """The values of the options; a limit is None if it was not given."""

    max_files_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    max_file_age_ms: int = 7 * 24 * 3_600_000
    latest_first: bool = False
    file_name_only: bool = False
    clean_source: str = "OFF"
    source_archive_dir: str | None = None
    max_cached_files: int = 10_000
    discard_cached_input_ratio: float = 0.2

    @staticmethod
    def of(session: SparkSession, options: Mapping[str, str]) -> FileStreamOptions:
        """Read the options, whose names are in lower case.

        Raises:
            IllegalArgumentException: Spark refuses a value.
        """
        for name in ("modifiedbefore", "modifiedafter"):
            if name in options:
                raise illegal_argument(f"option '{name}' is not allowed in file stream sources")
        given = {field: read(session, options) for name, (field, read) in _READ.items() if name in options}
        return FileStreamOptions(**given)


Read = Callable[[SparkSession, Mapping[str, str]], Any]


def _number(name: str, kind: Callable[[str], float], valid: Callable[[float], bool], rule: str) -> Read:
    def read(_: SparkSession, options: Mapping[str, str]) -> float:
        text = options[name.lower()]
        try:
            value = kind(text)
            if valid(value):
                return value
        except ValueError:
            pass
        raise illegal_argument(f"Invalid value '{text}' for option '{name}', {rule}")

    return read


def _whole(text: str) -> int:
    """An integer as Java reads it: without spaces and underscores, which Python would allow."""
    if re.fullmatch(r"[+-]?\d+", text) is None:
        raise ValueError(text)
    return int(text)


def _max_bytes(session: SparkSession, options: Mapping[str, str]) -> Any:
    value = _number("maxBytesPerTrigger", _whole, lambda n: 0 < n < 2**63, "must be a positive integer")(session, options)
    if "maxfilespertrigger" in options:
        raise illegal_argument("Options 'maxFilesPerTrigger' and 'maxBytesPerTrigger' can't be both set at the same time")
    return value


def _boolean(name: str) -> Read:
    def read(_: SparkSession, options: Mapping[str, str]) -> bool:
        text = options[name.lower()]
        if text.lower() not in ("true", "false"):
            raise illegal_argument(f"Invalid value '{text}' for option '{name}', must be 'true' or 'false'")
        return text.lower() == "true"

    return read


def _clean_source(_: SparkSession, options: Mapping[str, str]) -> str:
    given = options["cleansource"]
    if given.upper() not in ("ARCHIVE", "DELETE", "OFF"):
        raise illegal_argument(f"Invalid mode for clean source option Some({given}). Must be one of ARCHIVE,DELETE,OFF")
    if given.upper() == "ARCHIVE" and "sourcearchivedir" not in options:
        raise illegal_argument("Archive mode must be used with 'sourceArchiveDir' option.")
    return given.upper()


# For each option, its field, and how it is read; the first one with a wrong value is the one that the error names.
_READ: Mapping[str, tuple[str, Read]] = {
    "maxfilespertrigger": (
        "max_files_per_trigger",
        _number("maxFilesPerTrigger", _whole, lambda n: 0 < n < 2**31, "must be a positive integer"),
    ),
    "maxbytespertrigger": ("max_bytes_per_trigger", _max_bytes),
    "maxcachedfiles": (
        "max_cached_files",
        _number("maxCachedFiles", _whole, lambda n: 0 <= n < 2**31, "must be an integer greater than or equal to 0"),
    ),
    "discardcachedinputratio": (
        "discard_cached_input_ratio",
        _number("discardCachedInputRatio", float, lambda x: 0 <= x <= 1, "must be a positive float between 0 and 1"),
    ),
    "maxfileage": ("max_file_age_ms", lambda session, options: time_string_as_ms(session, options["maxfileage"])),
    "latestfirst": ("latest_first", _boolean("latestFirst")),
    "filenameonly": ("file_name_only", _boolean("fileNameOnly")),
    "cleansource": ("clean_source", _clean_source),
    "sourcearchivedir": ("source_archive_dir", lambda _, options: options["sourcearchivedir"]),
}
