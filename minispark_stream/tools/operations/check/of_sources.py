"""Whether the sources of the new query are those whose rows the checkpoint has read.

Spark is no guard: it refuses another folder only if it happens to ask for a last batch that had files.

1. Sources are compared by their names in `sources/`, which are numbers unless the query names them.
2. A source of files is compared with its log: whether the files that were read are among those of its path. If not, they may
   belong to another source of the query now (exchanged), be there under another path (renamed: the same name and the same
   time of modification), or not be there (another folder).
3. With the old query, the options and the schemas are compared, too.

    the log has /in/a.json      the query reads /moved, which has a.json of the same time      wrong [source.renamed]

Models: nothing of Spark.
Shown by tests/spark/test_check.py::test_foretold_is_what_spark_did.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

from minispark_stream.engine.checkpointing.compactible_file_stream_log import FileEntry
from minispark_stream.engine.plan.streaming_relation import StreamingRelation, streaming_sources
from minispark_stream.engine.runtime.running_query import QuerySources
from minispark_stream.engine.sources.file import FileStreamSource, is_below
from minispark_stream.tools.inspection.contents import SourceLog
from minispark_stream.tools.inspection.sources import KAFKA
from minispark_stream.tools.operations.check.answer import CheckDifference
from minispark_stream.tools.operations.check.dry_run import Planned
from minispark_stream.tools.operations.check.rules import difference

START = {"startingoffsets", "startingtimestamp", "startingversion", "startingoffsetsbytimestamp", "starttimestamp",
         "endingoffsets", "kafka.group.id", "groupidprefix"}
PACE = {"maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage", "maxcachedfiles", "discardcachedinputratio",
        "maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay", "rowspersecond", "rowsperbatch", "rampuptime",
        "numpartitions", "minpartitions", "cleansource", "sourcearchivedir", "filenameonly", "failondataloss",
        "advancemillisperbatch"}
WHERE = {"path", "format", "subscribe", "subscribepattern", "assign", "kafka.bootstrap.servers", "host", "port"}
TOPICS = {"subscribe", "subscribepattern", "assign"}


def of_logs(planned: Planned, logs: Sequence[SourceLog], has_state: bool) -> Iterator[CheckDifference]:
    """The sources of a planned query against what the checkpoint says of them."""
    assert planned.execution is not None
    sources = planned.execution.sources
    known = {log.source_id: log for log in logs}
    named = any(not name.isdigit() for name in (*sources.names, *known))
    readers = _readers(sources)
    if named:  # (1)
        yield from _of_names(sources.names, readers, known)
    for name in readers:
        if name in known and known[name].paths:
            yield from _of_files(name, readers, has_state)
    for name, relation in _relations(planned).items():
        if name in known and known[name].kind == KAFKA and "subscribe" in relation.asked:
            yield from _of_topics(name, known[name].latest_offset, str(relation.asked["subscribe"]))


def _of_topics(name: str, latest_offset: str | None, subscribed: str) -> Iterator[CheckDifference]:
    """The topics in the offsets of a Kafka source against those that the query subscribes to."""
    read = sorted(json.loads(latest_offset or "{}"))
    wanted = sorted(topic.strip() for topic in subscribed.split(","))
    if read != wanted:
        yield difference("source.topics", f"source {name}", ", ".join(read), ", ".join(wanted))


def _of_names(
    names: Sequence[str], readers: Mapping[str, _Reader], known: Mapping[str, SourceLog]
) -> Iterator[CheckDifference]:
    gone, new = [n for n in known if n not in names], [n for n in names if n not in known]
    for name in new:
        reads = readers[name].has if name in readers else lambda path: False
        before = next((old for old in gone if any(reads(unquote(path)) for path in known[old].paths)), None)
        if before is not None:
            gone.remove(before)
        yield difference("source.added" if before is None else "source.named", f"source {name}", before, name)
    for name in gone:
        yield difference("source.removed", f"source {name}", name, None)


@dataclass(frozen=True)
class _Reader:
    """A source of files, and what is there now."""

    source: FileStreamSource

    @cached_property
    def listed(self) -> Mapping[str, int]:
        """The files that are there, with the times of their modification."""
        return {unquote(file.uri): file.timestamp for file in self.source.list_files()}

    def has(self, path: str) -> bool:
        """Whether a file is one of those that the source reads; it may be gone."""
        if not self.source.folder.is_glob:
            return is_below(path, self.source.folder.root)
        parts, pattern = (re.sub(r"^(\w+):/+", r"\1:/", one).rstrip("/") for one in (path, self.source.folder.root))
        above = "/".join(parts.split("/")[: pattern.count("/") + 1])
        return fnmatch.fnmatchcase(above, pattern) or path in self.listed


def _readers(sources: QuerySources) -> dict[str, _Reader]:
    return {name: _Reader(one) for name, one in zip(sources.names, sources.sources) if isinstance(one, FileStreamSource)}


def _of_files(name: str, readers: Mapping[str, _Reader], has_state: bool) -> Iterator[CheckDifference]:  # (2)
    reader = readers[name]
    entries = reader.source.entries
    read = [unquote(entry.path) for entry in entries]
    strange = [path for path in read if not reader.has(path)]
    if not strange:
        return
    where, before, after = f"source {name}", strange[0].rpartition("/")[0], reader.source.folder.root
    others = [one for other, one in readers.items() if other != name]
    if len(strange) == len(read) and any(one.has(path) for path in read for one in others):
        yield difference("source.exchanged", where, before, after)
    elif reader.source.options.file_name_only:
        yield difference("source.file-names", where, before, after)
    elif len(strange) == len(read):
        yield difference(_of_another_folder(entries, reader, has_state), where, before, after)
    else:
        yield difference("source.narrower", where, before, after)


def _of_another_folder(entries: Sequence[FileEntry], reader: _Reader, has_state: bool) -> str:
    listed = {(_base(path), timestamp) for path, timestamp in reader.listed.items()}
    if any((_base(entry.path), entry.timestamp) in listed for entry in entries):
        return "source.renamed"
    names = {name for name, _ in listed}
    if names and len(entries) > 1 and all(_base(entry.path) in names for entry in entries):
        return "source.same-names"
    return "source.folder-with-state" if has_state else "source.folder"


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def of_options(before: Planned, after: Planned) -> Iterator[CheckDifference]:  # (3)
    """The options and schemas of the sources of two queries."""
    old, new = _relations(before), _relations(after)
    for name in old:
        if name in new:
            yield from _of_relation(f"source {name}", old[name], new[name], after)


def _relations(planned: Planned) -> dict[str, StreamingRelation]:
    assert planned.execution is not None
    leaves = dict(streaming_sources(planned.execution.session, planned.execution.analyzed))
    return dict(zip(planned.execution.sources.names, leaves.values()))


def _of_relation(where: str, old: StreamingRelation, new: StreamingRelation, after: Planned) -> Iterator[CheckDifference]:
    for option in sorted({*old.asked, *new.asked}):
        was, now = old.asked.get(option), new.asked.get(option)
        if was != now and not (option == "path" and new.file_format is not None):
            yield difference(_of_option(option, old, new), f"{where}, {option}", was, now)
    if old.file_format is not None and new.file_format is not None:
        if (was := old.asked.get("path")) != (now := new.asked.get("path")) and _reads_the_same(where, after):
            yield difference("source.same-files", f"{where}, path", was, now)
    if old.schema != new.schema:
        rule = "source.schema-unused" if all(f in old.schema.fields for f in new.schema.fields) else "source.schema"
        yield difference(rule, f"{where}, schema", old.schema.simpleString(), new.schema.simpleString())


def _of_option(option: str, old: StreamingRelation, new: StreamingRelation) -> str:
    if option in START:
        return "source.start"
    if option in PACE:
        return "source.pace"
    if option in TOPICS:
        return "source.topics"
    if option == "format" and old.file_format is not None and new.file_format is not None:
        return "source.option"
    return "source.other" if option in WHERE else "source.option"


def _reads_the_same(where: str, after: Planned) -> bool:
    assert after.execution is not None
    reader = _readers(after.execution.sources).get(where.removeprefix("source "))
    return reader is not None and all(reader.has(unquote(entry.path)) for entry in reader.source.entries)
