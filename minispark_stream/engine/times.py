"""Times as text: as progress reports print them, for every millisecond that 64 bits can hold, and as rows show them.

Python's own datetime knows the years 1 to 9999 only, and event times may lie outside of these. So the year is computed by hand:
the calendar repeats every 400 years, which are 146,097 days.

    iso_time(1704110820500)                        ->  "2024-01-01T12:07:00.500Z"
    iso_time(253402300800000)                      ->  "+10000-01-01T00:00:00.000Z"
    iso_time(-62167219200001)                      ->  "0002-12-31T23:59:59.999Z", in the second year before Christ
    iso_ms("+10000-01-01T00:00:00.000Z")           ->  253402300800000
    shown_time(1704110820000)                      ->  "2024-01-01 12:07:00"
    shown_ms("2024-01-01 12:07:00.5")              ->  1704110820500

Differs from Spark: nothing. Spark's `yyyy`, too, prints a year before Christ like one after Christ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_CYCLE_MS = 146_097 * 86_400_000
_SHOWN_TIME = re.compile(r"(\+?\d{4,10}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d+))?")
_ISO_TIME = re.compile(r"\+?(\d{4,10})(-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z")


def iso_time(ms: float) -> str:
    """Milliseconds since the epoch as ISO 8601 in UTC; a fraction of a millisecond is dropped."""
    cycles, rest_ms = divmod(int(ms), _CYCLE_MS)
    moment = _EPOCH + timedelta(milliseconds=rest_ms)  # of the years 1970 to 2369
    year = moment.year + 400 * cycles
    year_of_era = year if year > 0 else 1 - year
    sign = "+" if year_of_era > 9999 else ""
    return f"{sign}{year_of_era:04d}{moment:-%m-%dT%H:%M:%S}.{rest_ms % 1000:03d}Z"


def iso_ms(text: Any) -> int | None:
    """The milliseconds of a text that `iso_time` made, with its year taken as one after Christ; None for any other text."""
    found = _ISO_TIME.fullmatch(str(text))
    if found is None:
        return None
    cycles, year = divmod(int(found[1]) - 1970, 400)
    try:
        moment = datetime.fromisoformat(f"{1970 + year}{found[2]}+00:00")
    except ValueError:
        return None
    return cycles * _CYCLE_MS + (moment - _EPOCH) // timedelta(milliseconds=1)


def shown_time(ms: float) -> str:
    """A time as rows show it, in UTC and without a zone."""
    return iso_time(ms).replace("T", " ").removesuffix("Z").removesuffix(".000")


def shown_ms(text: Any) -> int | None:
    """The milliseconds of a time as rows show it, in UTC and without a zone; None for anything else."""
    found = _SHOWN_TIME.fullmatch(str(text))
    return iso_ms(f"{found[1]}T{found[2]}.{(found[3] or '')[:3]:0<3}Z") if found else None


def is_window(value: Any) -> bool:
    """Whether a value is a window: a struct with a start, an end, and no other field."""
    return isinstance(value, Mapping) and set(value) == {"start", "end"}
