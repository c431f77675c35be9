"""Input for the conformance tests: rows as JSON lines."""

from __future__ import annotations

import json
import random
from typing import Any


def rows_of(*rows: dict[str, Any]) -> list[str]:
    """JSON lines; a key whose value is None is left out, so that it is read as null."""
    return [json.dumps({k: v for k, v in row.items() if v is not None}) for row in rows]


def random_rows(seed: int, count: int = 40) -> list[str]:
    """JSON lines of `RANDOM_SCHEMA`: every type, a fifth of all values null, times out of order over 40 minutes."""
    rng = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    return rows_of(
        *(
            {
                "ts": f"2024-01-01 12:{rng.randrange(40):02d}:{rng.randrange(60):02d}",
                "k": maybe(rng.choice("abcdefé")),
                "i": maybe(rng.randrange(-5, 5)),
                "l": maybe(rng.randrange(-(2**40), 2**40)),
                "d": maybe(round(rng.uniform(-5, 5), 3)),
                "m": maybe(round(rng.uniform(-500, 500), 2)),
                "b": maybe(rng.random() < 0.5),
                "s": maybe(rng.choice(["x", "yy", "zzz", "ü", ""])),
                "st": maybe({"a": rng.randrange(3), "c": "q"}),
                "dt": maybe(f"2024-01-{rng.randrange(1, 28):02d}"),
                "xs": maybe([rng.randrange(3) for _ in range(rng.randrange(3))]),
            }
            for _ in range(count)
        )
    )


RANDOM_SCHEMA = (
    "ts timestamp, k string, i int, l long, d double, m decimal(10,2), b boolean, s string, st struct<a:int,c:string>, "
    "dt date, xs array<int>"
)


def read_random(session: Any, input_dir: str) -> Any:
    """The stream of `random_rows`."""
    return session.readStream.schema(RANDOM_SCHEMA).json(input_dir)


def at(*times: str, k: str = "a") -> list[str]:
    """JSON lines of `ts timestamp, k string`: one row per time of 2024-01-01."""
    return rows_of(*({"ts": f"2024-01-01 {t}:00", "k": k} for t in times))
