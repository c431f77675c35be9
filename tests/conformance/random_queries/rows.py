"""The rows of one stream: of which types they are, and which values they have."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Values = Callable[[random.Random], Any]

# A value of each type, as JSON has it. Halves are exact in binary: sums do not depend on the order of rows.
NUMBERS: dict[str, Values] = {
    "tinyint": lambda r: r.randrange(-9, 9),
    "int": lambda r: r.randrange(-9, 9),
    "bigint": lambda r: r.randrange(-(2**40), 2**40),
    "float": lambda r: r.randrange(-9, 9) / 2,
    "double": lambda r: r.randrange(-9, 9) / 2,
    "decimal(10,2)": lambda r: r.randrange(-999, 999) / 4,
    "decimal(38,2)": lambda r: r.randrange(-999, 999) / 4,
}
FLAT: dict[str, Values] = {
    **NUMBERS,
    "string": lambda r: r.choice(["", "x", "yy", "ü"]),
    "boolean": lambda r: r.random() < 0.5,
    "date": lambda r: r.choice(["2024-01-01", "2023-06-30"]),
    "timestamp": lambda r: f"2024-01-01 00:{r.randrange(60):02d}:00",
    "timestamp_ntz": lambda r: f"1969-12-31 23:{r.randrange(60):02d}:00.5",
    "binary": lambda r: r.choice(["", "eA==", "w7w="]),
}
INTERVALS: dict[str, Values] = {
    "interval day to second": lambda r: f"INTERVAL '{r.randrange(3)} 01:00:00' DAY TO SECOND",
    "interval year to month": lambda r: f"INTERVAL '{r.randrange(3)}-1' YEAR TO MONTH",
}
NESTED: dict[str, Values] = {
    "struct<a:int,b:string>": lambda r: {"a": r.randrange(3), "b": r.choice("xy")},
    "array<int>": lambda r: [r.choice([0, 1, None]) for _ in range(r.randrange(3))],
    "map<string,double>": lambda r: {key: r.randrange(3) / 2 for key in r.sample("xyz", r.randrange(3))},
    "array<struct<a:int,d:decimal(20,3)>>": lambda r: [r.choice([None, {"a": 1}, {"a": 2, "d": 1.5}])],
    "struct<s:struct<t:timestamp,b:binary>,xs:array<string>>": lambda r: {"s": {"b": "eA=="}, "xs": ["x"] * r.randrange(3)},
}
DAYS = (*["2024-01-01"] * 8, "1970-01-01", "1969-12-31")  # a watermark is never before 1970
VALUES = {**FLAT, **INTERVALS, **NESTED}
KEYS = {
    **VALUES, **dict.fromkeys(["tinyint", "int", "bigint"], lambda r: r.randrange(3)), "string": lambda r: r.choice("abé"),
    "double": lambda r: r.choice([0.0, 0.5, -1.5]), "decimal(10,2)": lambda r: r.choice([0.25, 1, 7.5]),
}


@dataclass(frozen=True)
class Rows:
    """Time goes on by 15 minutes a step from the beginning of `day`, and a row may be an hour late; so much of all values is null."""

    k: str
    v: str
    w: str
    nulls: float
    seed: int
    day: str

    @property
    def types(self) -> dict[str, str]:
        return {"ts": "timestamp", "k": self.k, "v": self.v, "w": self.w}

    @property
    def schema(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in self.types.items())

    def step(self, number: int) -> list[dict[str, Any]]:
        rng = random.Random(f"{self.seed} {number}")
        return [self._row(rng, number) for _ in range(rng.randrange(1, 8))]

    def _row(self, rng: random.Random, step: int) -> dict[str, Any]:
        minute = 15 * step + rng.choice([rng.randrange(60, 75), rng.randrange(75)])
        columns = (("k", KEYS[self.k]), ("v", VALUES[self.v]), ("w", VALUES[self.w]))
        values = {name: None if rng.random() < self.nulls else draw(rng) for name, draw in columns}
        return {"ts": f"{self.day} {minute // 60:02d}:{minute % 60:02d}:00", **values}


