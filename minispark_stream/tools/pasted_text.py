"""The values in a text that somebody has pasted: JSON objects, and dicts as Python prints them.

    objects("26/03/01 INFO made progress: {\"a\": 1} and {'b': None}")      {"a": 1}, {"b": None}

1. Every `{` at which a value may begin is tried; where it does not lead to a value, the search goes on from there. Each
   character is read a few times at most.
2. What a program has as a comment begins with the mark of a comment in each line.
3. Of an object whose end is missing, the members that are whole are a value, too. It is looked for in one place, and said to be
   cut off by a member of its own.

The text may come from anybody. It is bounded in depth and in the memory that its values take, and nothing of it is evaluated.

Models: nothing of Spark.
Shown by tests/unit/tools/test_reports.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from minispark_stream.engine.checkpointing.budget import Budget

MOST_OF_ONE = 16 << 20  # characters of a value
MOST_MEMORY = 1 << 30  # bytes, for all that is read and kept of a text
_SMALL = 1 << 16  # characters of a value whose memory does not count
LONGEST_TOKEN = 64  # characters of a number, a word or an escape; a longer one is no part of a value
CUT_OFF = "cut off after"  # the member that says which was the last whole one of an object whose end is missing
_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<mark>[{}\[\],:])|(?P<text>u?'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")|(?P<word>[A-Za-z_]\w*)|"""
    r"""(?P<number>-?\d[\d.eE+-]*)"""
)
_WORDS = {"None": "null", "True": "true", "False": "false", "nan": "NaN", "inf": "Infinity"}
_DECODER = json.JSONDecoder(parse_int=lambda text: _number(text), parse_float=lambda text: _number(text))
_COMMENT = re.compile(r"^[ \t]*(?:#|//|>|\*|--)[ \t]?", re.MULTILINE)


def objects(text: str, budget: Budget | None = None) -> Iterator[Any]:  # (1)
    """The JSON objects in a text, and the dicts as Python prints them.

    Args:
        budget: lends what one of them takes.

    Raises:
        ValueError: an object is nested too deeply, or needs more memory than the budget has (LimitExceeded).
    """
    budget = budget or Budget(MOST_MEMORY)
    at = text.find("{")
    while at >= 0:
        value, size = _decoded(text, at, budget)
        if value is None and size == 1:  # a name without double quotes; Python 2 writes u'name'
            python, end = as_json(text, at)
            value, size = None if python is None else _decoded(python, 0, budget)[0], max(end - at, 1)
        if value is not None:
            yield value
        at = text.find("{", at + size)


def _decoded(text: str, at: int, budget: Budget) -> tuple[Any, int]:
    """The JSON value at a place, and its length; None and how far it is one, if it is none.

    It is looked for in a part of the text, because an error of Python's decoder counts the lines of all that it was given.
    """
    length = 1 << 10
    while True:
        part = text[at : at + length]
        try:
            with budget.lent():
                if length > _SMALL:
                    budget.take_text(part.encode("utf-8", "surrogatepass"))
                return _DECODER.raw_decode(part)
        except RecursionError:
            raise ValueError("an object of the text is nested too deeply") from None
        except json.JSONDecodeError as e:
            cut = e.msg.startswith("Unterminated") or e.pos >= len(part) - LONGEST_TOKEN
            if not cut or at + length >= len(text) or length > MOST_OF_ONE:
                return None, max(e.pos, 1)
        length *= 2


def _number(text: str) -> int | float:
    return int(text) if len(text) < 20 and text.lstrip("-").isdigit() else float(text)


def as_json(text: str, at: int) -> tuple[str | None, int]:
    """A dict as Python prints it, in JSON, and where it ends; None and how far it was read if it is none."""
    parts: list[str] = []
    depth = 0
    while found := _TOKEN.match(text, at):
        at, part = found.end(), found[0]
        match found.lastgroup:
            case "mark":
                depth += (part in "{[") - (part in "}]")
            case "text":
                part = _textas_json(part)
            case "word" if part in _WORDS:
                part = _WORDS[part]
            case "word":
                return None, at
        parts.append(part)
        if depth == 0:
            return "".join(parts), at
    return None, at


def _textas_json(part: str) -> str:
    body = re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), part.removeprefix("u")[1:-1])
    return json.dumps(body)


def uncommented(text: str) -> str:  # (2)
    """The text without the marks of comments at the beginning of its lines."""
    return _COMMENT.sub("", text)


def cut_off(text: str, before: str) -> Iterator[Any]:  # (3)
    """The object in which a text ends, as far as it goes; nothing if there is none.

    Args:
        before: a part of the object. It begins at the last `{` in front of it.
    """
    begin = text.rfind("{", 0, max(text.find(before), 0))
    at, depth, whole = begin, 0, begin
    while begin >= 0 and (found := _TOKEN.match(text, at)):
        depth += (found[0] in "{[") - (found[0] in "}]")
        if depth == 1 and found[0] == ",":
            whole = found.start()
        at = found.end() if depth else len(text)
    value = next(objects(text[begin:whole] + "}"), None) if depth and whole > begin else None
    if value:
        yield {**value, CUT_OFF: list(value)[-1]}
