r"""The values of a trace in words: offsets, times, rows and file names, in as few characters as a reader needs.

A trace may come from a file that somebody else wrote, so nothing here trusts the shape of a value: what is not the
expected mapping or list is written as it is. Nor does it trust the characters: those that would steer a terminal or turn the
direction of a text are shown as `\u001b`, and a value never ends a line.

    offset_words('{"logOffset":3}')            -> "logOffset 3"
    time_words(1704111060000)                  -> "2024-01-01 12:11:00"
    row_words({"word": "a", "count": 2})       -> "word=a count=2"
    plain({"start": "2024-01-01 12:00:00", "end": "2024-01-01 12:05:00"}) -> "[2024-01-01 12:00, 12:05)"
    short("FileStreamSource[file:/data/in]")   -> "FileStreamSource[in]"
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from minispark_stream.engine.times import is_window, shown_time

# A path of at least two parts, with or without a scheme; and the expression ids of a plan, "count#12L".
_PATH = re.compile(r"(?:\b[a-z][a-z0-9+.-]*:)?/{1,3}(?:[^\s\[\],;:\"'/]+/)+([^\s\[\],;:\"'/]+)")
_EXPRESSION_ID = re.compile(r"(?<=\S)#\d+L?\b")
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:, )?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d(?:\.\d+)?)?(?:\+00:00|Z)?")


def printable(text: str) -> str:
    """`text`, which may be JSON, without control characters and what is not UTF-8; ends of lines and tabs stay."""
    shown = _CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    return shown.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str) -> str:
    """A text on one line, without tabs."""
    return re.sub("[\t\n]", " ", printable(text))


def short(text: str) -> str:
    """Paths shortened to their last part."""
    return _PATH.sub(r"\1", text)


def source_words(source: str) -> str:
    """A source of a query without its number: `0: FileStreamSource[/data/clicks]` -> `FileStreamSource[clicks]`."""
    return short(re.sub(r"^\d+: ", "", source))


def without_ids(plan: str) -> str:
    """A plan without the ids that are new in every run: `count#12L` -> `count`."""
    return _UUID.sub("", _EXPRESSION_ID.sub("", plan))


def clip(words: str, width: int) -> str:
    """At most `width` characters."""
    return words if len(words) <= width else words[: width - 1] + "…"


def offset_words(offset: Any) -> str:
    """An offset as the log holds it (JSON text) or as a progress report does (JSON value)."""
    value = offset
    if isinstance(offset, str):
        try:
            value = json.loads(offset)
        except (ValueError, RecursionError):
            return one_line(offset)
    if value is None:
        return "the beginning"
    if isinstance(value, Mapping):
        return ", ".join(f"{one_line(str(name))} {short(_plain(v))}" for name, v in value.items()) or "{}"
    return _plain(value)


def time_words(ms: Any) -> str:
    """A time in ms since the epoch, in UTC. 0 is the watermark before any row has been seen."""
    if not isinstance(ms, (int, float)) or isinstance(ms, bool):
        return "unknown"
    if ms == 0:
        return "none yet"
    if not -(2**63) <= ms < 2**63:
        return f"{ms} ms"
    return shown_time(ms)


def clock_words(ms: Any) -> str:
    """The time of day alone."""
    words = time_words(ms)
    return words.split(" ")[1] if re.match(r"\d{4}-\d\d-\d\d ", words) else words


def short_clock(ms: Any) -> str:
    """The time of day, without seconds if there are none."""
    return clock_words(ms).removesuffix(":00")


def two_clocks(one_ms: Any, other_ms: Any) -> tuple[str, str]:
    """The times of day of two times; with their dates if these differ."""
    one, other = time_words(one_ms), time_words(other_ms)
    same_day = one.split(" ")[0] == other.split(" ")[0]
    return (clock_words(one_ms), clock_words(other_ms)) if same_day else (one, other)


def row_words(row: Any) -> str:
    """A row, a key or a state value on one line."""
    if isinstance(row, Mapping):
        return " ".join(f"{one_line(str(name))}={_plain(value)}" for name, value in row.items())
    return _plain(row)


def key_words(key: Mapping[str, Any]) -> str:
    """A key by its values alone: `ann` for `user=ann`."""
    return " ".join(map(_plain, key.values()))


def window_words(value: Mapping[str, Any]) -> str | None:
    """A struct of a start and an end time, as a half-open interval; None for any other struct."""
    if not is_window(value):
        return None
    start, end = (_TIMESTAMP.fullmatch(str(value[side])) for side in ("start", "end"))
    if start is None or end is None:
        return None
    begins, ends = (m[2] + (m[3] if m[3] and m[3] != ":00" else "") for m in (start, end))
    return f"[{start[1]} {begins}, {'' if start[1] == end[1] else end[1] + ' '}{ends})"


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return window_words(value) or "{" + row_words(value) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_plain, value)) + "]"
    if value is None:
        return "null"
    if isinstance(value, str) and _TIMESTAMP.fullmatch(value):
        return value.removesuffix("+00:00")
    return str(value).lower() if isinstance(value, bool) else one_line(str(value))


def plain(value: Any) -> str:
    """Any JSON value for a person: no quotes, maps as name=value."""
    return (window_words(value) if isinstance(value, Mapping) else None) or row_words(value)


def plural(count: Any, noun: str) -> str:
    """`2 rows`, `1 row`, `no rows`."""
    if count == 1:
        return f"1 {noun}"
    ies = noun.endswith("y") and noun[-2] not in "aeiou"
    plural_noun = f"{noun[:-1]}ies" if ies else f"{noun}{'es' if noun.endswith('tch') else 's'}"
    return f"{count or 'no'} {plural_noun}"


def perhaps(name: str, known: Iterable[str]) -> str:
    """The name that may have been meant, as the end of a sentence."""
    by_lower = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), by_lower, 1, 0.8)
    return f": is it {by_lower[near[0]]}?" if near else ""


def number(value: Any) -> str:
    """12345 -> "12,345"."""
    return f"{value:,}" if isinstance(value, (int, float)) and not isinstance(value, bool) else plain(value)


def duration_words(ms: float) -> str:
    """Milliseconds: 8.12 -> "8.1 ms", 16812.0 -> "16.8 s"."""
    return f"{ms:.1f} ms" if ms < 10 else f"{ms:.0f} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"


def delay_words(ms: int) -> str:
    """The delay of a watermark: 600000 -> "10 min"."""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if ms and ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms} ms"
