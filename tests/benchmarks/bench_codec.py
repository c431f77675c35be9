"""Rows a second through the binary formats of the state, on one core (`make bench`).

The rows are those of a sum and an average by a long key: key `long`, value `long, double`.

    encode      Arrow columns -> keys and values as UnsafeRows
    decode      the same back
    write       UnsafeRows -> the records of a delta file, LZ4-compressed
    read        the same back
    put         into a map that has all of these keys already
    look up     the values of all of them

1. Make `--rows` random rows.
2. Run each step `--rounds` times and keep the best of its processor time: what the code can do on one core, not what else
   the machine did.
3. The same with strings of 12 to 36 characters as keys, so that rows differ in size.
4. Compare all of them, and encode and decode together with the file, with the bound of 1,000,000 rows a second: exit code 1
   when one is below.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DoubleType, LongType, StringType, StructType

from minispark_stream.engine.checkpointing.lz4_block import compress, decompress
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.state.large.columnar_map import ColumnarMap
from minispark_stream.engine.state.state_records import decode_changes, encode_records, records

BOUND = 1_000_000  # rows a second
LONG_KEY = StructType().add("k", LongType())
STRING_KEY = StructType().add("k", StringType())
VALUE = StructType().add("sum", LongType()).add("avg", DoubleType())


def rows_a_second(rows: int, rounds: int, step: Callable[[], Any]) -> tuple[float, Any]:
    """The best of all rounds, and what the step gave."""
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        result = step()
        best = min(best, time.process_time() - began)
    return rows / best, result


def measure(key_schema: StructType, keys: pa.Array, rows: int, rounds: int) -> dict[str, float]:
    rng = np.random.default_rng(7)
    values = [pa.array(rng.integers(0, 1000, rows)), pa.array(rng.random(rows))]
    key_codec, value_codec = UnsafeRowCodec(key_schema), UnsafeRowCodec(VALUE)
    found: dict[str, float] = {}
    found["encode"], pairs = rows_a_second(rows, rounds, lambda: (key_codec.encode_rows([keys]), value_codec.encode_rows(values)))
    found["decode"], columns = rows_a_second(rows, rounds, lambda: (key_codec.decode(pairs[0]), value_codec.decode(pairs[1])))
    found["write"], file = rows_a_second(rows, rounds, lambda: compress(encode_records([pairs])))
    found["read"], changes = rows_a_second(rows, rounds, lambda: decode_changes(decompress(file)))
    entries = ColumnarMap()
    entries.apply(changes)
    found["put"], _ = rows_a_second(rows, rounds, lambda: entries.put(*pairs))
    found["look up"], (is_there, _) = rows_a_second(rows, rounds, lambda: entries.get(pairs[0]))
    if columns != ([keys], values) or dict(records(changes)) != dict(zip(*pairs)) or not is_there.all():
        raise SystemExit("what was read is not what was written")
    found["encode and write"] = 1 / (1 / found["encode"] + 1 / found["write"])
    found["read and decode"] = 1 / (1 / found["read"] + 1 / found["decode"])
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="rows a second through the binary formats of the state")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows (1000000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, of which the best counts (5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)

    rng = np.random.default_rng(1)
    numbers = pa.array(rng.integers(0, 1 << 40, args.rows))
    fixed = measure(LONG_KEY, numbers, args.rows, args.rounds)
    names = pc.binary_repeat(numbers.cast(pa.string()), pa.array(rng.integers(1, 4, args.rows)))
    variable = measure(STRING_KEY, names, args.rows, args.rounds)
    holds = all(rate >= BOUND for rate in [*fixed.values(), *variable.values()])
    if args.json:
        print(json.dumps({"rows": args.rows, "bound": BOUND, "holds": holds, "long_key": fixed, "string_key": variable}))
    else:
        print(f"{args.rows:,} rows, best of {args.rounds}        (rows a second on one core)")
        print(f"{'':18}{'long key':>14}{'string key':>14}   value: long, double")
        for step, rate in fixed.items():
            print(f"{step:18}{rate:14,.0f}{variable[step]:14,.0f}")
        print(f"at least {BOUND:,} each: {'holds' if holds else 'BROKEN'}")
    return 0 if holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
