"""What was asked: a message, the path of a checkpoint, or a file with messages.

1. A text is a path if something is there, or if it begins as paths do: with a scheme such as `s3a:`, with `/`, `~`, `.` or a
   drive of Windows. A single word with a slash is one, too, such as `cp/visits`.
2. Spark's own words may begin with a path ("/cp/sources/0/3 doesn't exist"). They are a message if nothing is at that path and
   an entry has these words.
3. Of a file, the end is read, because a log can be large and its last error is what ended the query.

    is_path("s3a://bucket/cp")     True
    is_path("Connection refused")  False

Models: nothing of Spark.
Shown by tests/unit/tools/symptoms/test_asked.py.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

BEGINS_AS_PATH = re.compile(r"(?:[a-z][a-z0-9+.-]+:/|/|~(?:/|$)|\.{1,2}(?:[/\\]|$)|[A-Za-z]:[\\/]|\\\\)")
LOCAL = re.compile(r"file:(?://(?:localhost)?(?=/))?")
REMOTE = re.compile(r"[a-z][a-z0-9+.-]+:/")
MOST_BYTES = 1 << 20  # of a file, from its end


def is_path(text: str) -> bool:  # (1)
    if not text or "\n" in text or "\0" in text:
        return False
    one_word = not re.search(r"\s", text)
    return bool(BEGINS_AS_PATH.match(text)) or one_word and ("/" in text or "\\" in text) or os.path.exists(text)


def has_words(path: str) -> bool:  # (2)
    """Whether a text that begins as a path goes on as a message."""
    return len(re.findall(r"\s[a-zA-Z']{2,}", path)) > 1


def is_remote(path: str) -> bool:
    return bool(REMOTE.match(path)) and not LOCAL.match(path)


def local(path: str) -> str:
    """The path of a file or folder on this machine."""
    scheme = LOCAL.match(path)
    return unquote(path[scheme.end() :]) if scheme else os.path.expanduser(path)


def end_of(path: str) -> str:  # (3)
    """The text at the end of a file."""
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - MOST_BYTES))
        return file.read(MOST_BYTES).decode("utf-8", "replace")
