"""The exercises of the course: what is right, where to look, and why.

Each number is that of a notebook and of an exercise in it. An answer is a value, or a function that is tried on cases. The
solutions stand folded at the end of each notebook; tests/spark/test_exercises.py runs all of them.

    EXERCISES["00-2"].accepts(8)     True
    EXERCISES["04-4"].accepts(f)     whether f gives what its cases expect; None as long as it gives nothing at all
    judged("00-2", "8")              '00-2: no. The answer is a number, and this is a text. ...'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import planted
import pyarrow as pa
from pyspark.sql.types import StringType, StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.operators.columns import BoolMask
from minispark_stream.engine.operators.deduplication.streaming_deduplicate import SEEN, Deduplicate
from minispark_stream.engine.operators.state_task import OperatorWatermarks, StatefulOperatorStateInfo
from minispark_stream.engine.state.hdfs_backed_state_store_provider import HDFSBackedStateStoreProvider
from minispark_stream.engine.state.state_store import StateStore, StateStoreConf, StateStoreId

KINDS = {bool: "True or False", int: "a number", float: "a number with a fraction", str: "a text", tuple: "several values",
         list: "several values", set: "a set", dict: "a mapping", type(None): "nothing"}


class Wrong(Exception):
    """An answer is wrong, and what can be said of it without giving the right one away."""


@dataclass(frozen=True)
class Sealed:
    """A right value that cannot be read: what kind of value it is, and a hash of it. The copy for students has these."""

    kind: str
    digest: str


@dataclass(frozen=True)
class Exercise:
    """`answer` is the right value, sealed or not, or says of an answer whether it is right (None: there is none yet).

    What says so may raise `Wrong`.
    """

    answer: Any
    hint: str
    why: str

    def accepts(self, answer: Any) -> bool | None:
        """Whether an answer is right.

        Raises:
            Wrong: it is of another type, or its function fails.
        """
        if callable(self.answer):
            return self._tried(answer)
        given, right = _plain(answer), self.answer if isinstance(self.answer, Sealed) else sealed(self.answer)
        if right.kind == KINDS[set] and isinstance(given, list):
            given = set(given)
        if _kind(given) != right.kind:
            raise Wrong(f"The answer is {right.kind}, and this is {_kind(given)}.")
        return sealed(given) == right

    def _tried(self, function: Any) -> bool | None:
        if not callable(function):
            raise Wrong(f"The answer is a function, and this is {_kind(_plain(function))}.")
        try:
            return self.answer(function)  # type: ignore[no-any-return]
        except Wrong:
            raise
        except Exception as e:
            raise Wrong(f"Your function raises {type(e).__name__}: {e}.") from e


def sealed(value: Any) -> Sealed:
    """A value as one that cannot be read."""
    return Sealed(_kind(_plain(value)), sha256(_spelled(value).encode()).hexdigest())


def _spelled(value: Any) -> str:
    """The same text for values that are equal."""
    value = _plain(value)
    if isinstance(value, (list, set)):
        parts = map(_spelled, value)
        return f"({', '.join(sorted(parts) if isinstance(value, set) else parts)})"
    return repr(int(value) if isinstance(value, (bool, float)) and value == int(value) else value)


def _kind(value: Any) -> str:
    return KINDS.get(type(value), f"a {type(value).__name__}")


def _plain(value: Any) -> Any:
    """A number out of a DataFrame is as good as one of Python's, and a list as good as a tuple."""
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value


def agrees(cases: Mapping[tuple[Any, ...], Any]) -> Callable[[Any], bool | None]:
    """Whether a function gives what is expected: arguments -> result. Of the first case that fails it is said what is right."""

    def accepts(function: Any) -> bool | None:
        given = {arguments: _called(function, arguments) for arguments in cases}
        if all(result is None for result in given.values()):
            return None
        for arguments, right in cases.items():
            if _plain(given[arguments]) != right:
                raise Wrong(f"For {', '.join(map(repr, arguments))} it gives {given[arguments]!r}, where {right!r} is right.")
        return True

    return accepts


def _called(function: Any, arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*arguments)
    except Exception as e:
        raise Wrong(f"For {', '.join(map(repr, arguments))} it raises {type(e).__name__}: {e}.") from e


def exercise(name: Any) -> Exercise:
    """The exercise of this number.

    Raises:
        LookupError: there is none; the error says which may be meant.
    """
    if name not in EXERCISES:
        near = get_close_matches(str(name).zfill(4), EXERCISES, 1)
        meant = f'is it "{near[0]}"?' if near else 'they are called "00-1" and so on'
        raise LookupError(f"there is no exercise {name!r}: {meant}")
    return EXERCISES[name]


def judged(name: str, answer: Any = ...) -> str:
    """What is said of an answer; `...` is no answer yet."""
    asked, helps = exercise(name), f'hint("{name}") helps.'
    try:
        accepted = None if answer is ... else asked.accepts(answer)
    except Wrong as wrong:
        return f"{name}: no. {wrong} {helps}"
    if accepted is None:
        return f"{name}: no answer yet. Put it in place of the dots, and run the cell. {helps}"
    return f"{name}: right. {asked.why}" if accepted else f"{name}: no. Try it out, and look again. {helps}"


class KnownKeys:
    """The keys of a state store: is a key among them, and another one to add."""

    def __init__(self, store: StateStore):
        self._store = store

    def __contains__(self, key: bytes) -> bool:
        return bool(self._store.get([key])[0][0])

    def add(self, key: bytes) -> None:
        """Put a key, without a value: it is only remembered."""
        self._store.put([key], UnsafeRowCodec(SEEN).encode([pa.nulls(1)]))


def deduplicates(put_new: Any) -> bool | None:
    """Whether the task of `dropDuplicates` lets the right rows pass with `put_new` in the place of `Deduplicate._put_new`."""
    if put_new(set(), []) is None and put_new(set(), [b"a"]) is None:
        return None

    def in_its_place(task: Deduplicate, store: StateStore, rows: pa.RecordBatch) -> BoolMask:
        keys = UnsafeRowCodec(task.keys).encode([rows.column(i) for i in task.positions])
        positions = put_new(KnownKeys(store), keys)
        is_first = np.zeros(rows.num_rows, np.bool_)
        is_first[list(positions) if isinstance(positions, (list, tuple, np.ndarray)) else []] = True
        return is_first

    with TemporaryDirectory() as folder, patch.object(Deduplicate, "_put_new", in_its_place):
        store = HDFSBackedStateStoreProvider(StateStoreId(folder, 0, 0), StateStoreConf())
        batches = enumerate(["aba", "bcc", "", "abc", "d"])
        passed = [_deduplicated(store.get_store(version), list(keys)) for version, keys in batches]
    return passed == [["a", "b"], ["c"], [], [], ["d"]]


def is_incremental_average(step: Any) -> bool | None:
    """Whether `step(state, values)` gives the average of all batches so far, out of a state that does not grow."""
    if step(None, [1]) is None:
        return None
    state, so_far = None, []
    for values in ([4], [1, 2], [5, 5, 1], [0] * 1000):
        state, average = step(state, list(values))
        so_far += values
        if average != sum(so_far) / len(so_far):
            raise Wrong(f"After the values {so_far} it gives {average!r}, where {sum(so_far) / len(so_far)} is right.")
    if len(repr(state)) > 100:
        raise Wrong("The average is right, but the state has grown with the stream.")
    return True


def finds(query: planted.Query) -> Callable[[Any], bool]:
    """Whether a test fails for a query of planted.py, and passes for the same query without its bug."""

    def accepts(test: Any) -> bool:
        if planted.failure(test, query) is None:
            raise Wrong("Your test passes although the bug is there.")
        if (failed := planted.failure(test, planted.MENDED[query.__name__])) is not None:
            raise Wrong(f"Your test also fails without the bug: {str(failed).strip().splitlines()[0]}")
        return True

    return accepts


def _deduplicated(store: StateStore, keys: list[str]) -> list[str]:
    """A batch of rows that have nothing but a key, in the real task, on one partition: the rows that pass."""
    task: Any = Deduplicate(
        info=StatefulOperatorStateInfo("", 0, 0, 1, StateStoreConf()), watermarks=OperatorWatermarks(0, 0, moved=False),
        output=pa.schema([("key", pa.string())]), metrics=None, positions=(0,), keys=StructType().add("key", StringType()),
        event_time=None, key_event_time=None, delay_ms=None,
    )
    passed, _ = task.run([store], [pa.RecordBatch.from_arrays([pa.array(keys, pa.string())], names=["key"])])
    return [key for columns in passed for key in columns[0].to_pylist()]


EXERCISES = {
    "00-1": Exercise(
        answer={"or", "not"},
        hint="Compare update.rows(batch_id=1) with the complete result.",
        why="Update mode emits the words of which this batch had a row, and the second file has neither.",
    ),
    "00-2": Exercise(
        answer=8,
        hint="Look at the column `state rows` of the comparison.",
        why="One row of state for each different word: a word that is there already changes its row.",
    ),
    "00-3": Exercise(
        answer=8,
        hint="Is the filter above or below the aggregation? A count of 1 may be 2 tomorrow.",
        why="The filter is above the state: a count that it hides must still be remembered, because it may grow.",
    ),
    "00-4": Exercise(
        answer=agrees({
            ("complete", (), ("to", "be")): {"to": 1, "be": 1}, ("update", (), ("to", "be")): {"to": 1, "be": 1},
            ("complete", ("to", "be"), ("be", "be")): {"to": 1, "be": 3}, ("update", ("to", "be"), ("be", "be")): {"be": 3},
            ("complete", ("to",), ()): {"to": 1}, ("update", ("to",), ()): {},
        }),
        hint="Count all words first. Which of the counts does each mode emit?",
        why="The counts are the same in both modes: complete emits all of them, update those of the words in this batch.",
    ),
    "01-1": Exercise(
        answer="addBatch",
        hint="getBatch returns a plan. When is a plan executed?",
        why="Everything before it only makes plans and writes logs: the sink asks for rows, and then one Spark job runs.",
    ),
    "01-2": Exercise(
        answer="note",
        hint="The schema of the stream has three columns. Which of them does the query use?",
        why="Nobody asks for the notes, so the optimizer drops them in the projection below the join.",
    ),
    "01-3": Exercise(
        answer=(2, 4),
        hint="The first line of a log file is its version, the second one is JSON about the batch.",
        why="Each source is asked by itself, and has a line of its own below the version and the metadata.",
    ),
    "01-4": Exercise(
        answer=agrees({
            ((3,), (3,), False): False, ((3,), (4,), False): True, ((3, 7), (3, 8), False): True, ((3, 7), (3, 7), True): True,
            ((None,), (0,), False): True, ((None, None), (None, None), False): False,
        }),
        hint="New data in one source is enough. When is a batch without data worth its cost?",
        why="A batch is logged only when a source has new data, or when an operator can evict state now.",
    ),
    "02-1": Exercise(
        answer=(False, 1),
        hint="Is it the path alone that the source remembers, or path and time? Put two files, and try it.",
        why="A source recognises a file that it remembers by the path alone; new content or a new time does not matter.",
    ),
    "02-2": Exercise(
        answer=agrees({
            ("b", 10, ("a",), 9, 7): True, ("a", 9, ("a",), 9, 7): False, ("a", 12, ("a",), 9, 7): False,
            ("b", 2, ("a",), 9, 7): True, ("b", 1, ("a",), 9, 7): False, ("b", 1, (), 0, 7): True,
        }),
        hint="A file that is remembered is known by its name alone. One that is too old might have been forgotten.",
        why=(
            "A file that is remembered is not new, whatever its time. A file older than the source's memory is left out, "
            "because it may have been read and forgotten. The clock on the wall plays no part."
        ),
    ),
    "02-3": Exercise(
        answer=1,
        hint="A source that cannot fix its end might go on for ever, so the query asks it once. How many batches is that?",
        why="The engine runs a single batch, as with Trigger.Once, and ignores the read limit: all five squares are in it.",
    ),
    "03-1": Exercise(
        answer=(4, 2),
        hint="Which of the five batches had no rows to read?",
        why="The batch without data does not run, so the rows that it would have emitted wait for the next run.",
    ),
    "03-2": Exercise(
        answer=[1, 0, 0],
        hint="Run it. The watermark moves between batches only, and the late filter goes by the one before (notebook 06).",
        why=(
            "With two files a batch, the late watermark, which is one batch behind, is still 12:04 when 12:05 arrives. "
            "With five files there is only one batch, and rows of one batch do not make each other late."
        ),
    ),
    "03-3": Exercise(
        answer=3000,
        hint="Ask `trigger_executor.next_batch_time`.",
        why="Triggers follow a grid of whole seconds, whenever the first one began.",
    ),
    "03-4": Exercise(
        answer=agrees({
            ((300, 1500, 200, 100), 1000): [0, 1000, 2500, 3000], ((1000, 10), 1000): [0, 1000],
            ((100, 200, 50), 0): [0, 100, 300], ((4500, 10, 10), 1000): [0, 4500, 5000], ((), 1000): [],
        }),
        hint="Until when does the engine wait, and is that before or after the end of the batch?",
        why=(
            "The next point of the grid after the *beginning* of a batch, or its end if that is later. Missed triggers "
            "are not made up for."
        ),
    ),
    "04-1": Exercise(
        answer=5,
        hint="The last entry of the offset log decides.",
        why="Only the last planned batch is run again. Nobody asks for the commits of the batches before it.",
    ),
    "04-2": Exercise(
        answer=(False, False),
        hint="Where does the last batch begin to read? Which file says so?",
        why=(
            "A batch reads from the end of the one before it. Without that entry nobody knows where it began, and "
            "guessing would lose or double rows."
        ),
    ),
    "04-3": Exercise(
        answer=(True, False),
        hint="Would you want a damaged log to be repaired by guessing?",
        why="Both engines refuse to go on and leave the file as it is, so that a person can look at it.",
    ),
    "04-4": Exercise(
        answer=agrees({(0, None): False, (0, 0): True, (3, 2): False, (3, 3): True, (5, 0): False, (3, 4): False}),
        hint="Go through the table at the head of checkpointing/recovery.py.",
        why="Only a commit with the very number of the last planned batch says that it is done.",
    ),
    "05-1": Exercise(
        answer=(False, 6),
        hint="The output mode says what is emitted. What does it say about what is kept?",
        why="The mode decides what is emitted. The changes of the state are the same in each mode.",
    ),
    "05-2": Exercise(
        answer=(5, 3),
        hint="The third file holds two different words.",
        why=(
            "Every partition writes a delta for every batch, even an empty one: version N+1 must exist everywhere before "
            "batch N+1 can begin."
        ),
    ),
    "05-3": Exercise(
        answer="CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS",
        hint="Version 2 is made of 1.delta and 2.delta.",
        why="The chain of deltas is broken at its first link: no later version can be built, and nothing is overwritten.",
    ),
    "05-4": Exercise(
        answer=agrees({
            (0, ()): {}, (1, ((("a", 1),),)): {"a": 1}, (2, ((("a", 1), ("b", 1)), (("a", 2),))): {"a": 2, "b": 1},
            (2, ((("a", 1), ("b", 1)), (("a", None),))): {"b": 1}, (1, ((("a", 1),), (("a", 2),))): {"a": 1},
            (3, ((("a", 1),), (), (("a", None), ("a", 3)))): {"a": 3},
        }),
        hint="Begin with nothing, and do what each delta says, in order. Which delta is the last one for this version?",
        why="A version is the sum of its deltas, in their order. So if one is missing, no later version can be built.",
    ),
    "06-1": Exercise(
        answer=(False, "2024-01-01T12:00:00.000Z"),
        hint="The late filter looks at the end of a window, not at the row.",
        why=(
            "The watermark is 12:00, and the row's window ends at 12:05. Without a window, as in deduplication, a row "
            "exactly at the watermark is late."
        ),
    ),
    "06-2": Exercise(
        answer=1,
        hint="Print the comparison, and look at the last batch with data.",
        why=(
            "With the policy max, the fast stream alone moves the watermark, to 12:29. The slow stream's 12:20 arrives after "
            "that, and is dropped."
        ),
    ),
    "06-3": Exercise(
        answer=("1970-01-01T00:00:00.000Z", 1),
        hint="A missing time counts as 1970 in the statistics. In which window is it?",
        why=(
            "A null counts as 1970 in the statistics and belongs to no window: the row disappears, and is not counted as late."
        ),
    ),
    "06-4": Exercise(
        answer=agrees({
            (None, 700, 600): 100, (100, 900, 600): 300, (300, 700, 600): 300, (0, 100, 600): 0,
        }),
        hint="It never goes back; and before the first row there is nothing to go back to.",
        why="The newest time seen, less the delay, and never back: that is the whole watermark of an operator.",
    ),
    "07-1": Exercise(
        answer={"complete"},
        hint="Use `outcome` as above.",
        why=(
            "In complete mode the whole answer is there in every batch, so its first three rows are too. In update mode "
            "a row would have to be taken back when another one overtakes it."
        ),
    ),
    "07-2": Exercise(
        answer=(True, False),
        hint="What does a batch know of the rows of the next one?",
        why=(
            "Each batch is sorted by itself. A row that was emitted cannot be put behind a row that arrives later: this is why "
            "the check exists."
        ),
    ),
    "07-3": Exercise(
        answer={"right", "full"},
        hint=(
            "An outer row is emitted with nulls when no partner can arrive any more. Which side's watermark says so for the "
            "rows of the left side, and which for the clicks on the right? For `full`, the check asks for one of them."
        ),
        why=(
            "A click can be evicted when the watermark of the left side has passed it, so `right` works. A left row would need "
            "the watermark of the clicks, so `left` is refused. For `full`, one watermark is enough for the check, although "
            "the left rows then wait for ever."
        ),
    ),
    "07-4": Exercise(
        answer=agrees({
            (mode, aggregated, watermark): right
            for mode, answers in {
                "append": (True, True, False, True), "update": (True, True, True, True), "complete": (False, False, True, True),
            }.items()
            for (aggregated, watermark), right in zip([(False, False), (False, True), (True, False), (True, True)], answers)
        }),
        hint="What must be final for append, and what must there be for complete?",
        why="Append needs rows that never change, complete needs a result to repeat, and update accepts both.",
    ),
    "08-1": Exercise(
        answer=(2, 2),
        hint="Until when is `a` remembered, and what is the watermark?",
        why=(
            "The key is remembered until the watermark passes 12:10, and it stands at 11:51. As long as the second row is "
            "not late, its time does not matter."
        ),
    ),
    "08-2": Exercise(
        answer="dedupe",
        hint="Print `stateOperators` of a progress report.",
        why="`distinct` is a deduplication by all columns, and today's Spark plans it as one.",
    ),
    "08-3": Exercise(
        answer={"append"},
        hint="Which of the two operators needs to know when a row is final?",
        why=(
            "Append emits rows that are final, and without a watermark no window ever is. A deduplication alone may emit "
            "a row at once."
        ),
    ),
    "08-4": Exercise(
        answer=deduplicates,
        hint="A key may come twice in the same batch.",
        why="The first row of each new key passes, within a batch as well as between batches.",
    ),
    "09-1": Exercise(
        answer=10,
        hint="Which batches run when there is nothing to evict? Which late watermark does the last of them have?",
        why=(
            "Nothing in the condition says when a row can have no partner any more, so all ten rows are kept for ever, and the "
            "state grows with the stream. With nothing to evict, no batch without data runs, so the late watermark, one batch "
            "behind, is still 11:58 in the end, and the click of 12:04 passes."
        ),
    ),
    "09-2": Exercise(
        answer=0,
        hint="What is the watermark of the query at the end? It is the minimum of both.",
        why=(
            "The watermark of the query is that of the slower stream, 11:52 at the end: *dog* still waits in its buffer, "
            "and even met the click of 12:04, which is not late any more."
        ),
    ),
    "09-3": Exercise(
        answer={"cat", "dog"},
        hint="The new condition looks at the left row alone. Does it have to wait for a click?",
        why=(
            "Whether a name is long enough is known at once, so a row that fails can never have a partner: it does "
            "not wait, and is not stored."
        ),
    ),
    "09-4": Exercise(
        answer=agrees({
            ((), (), (("a", 1),), (("a", 2),)): [(("a", 1), ("a", 2))], ((("a", 1),), (), (), (("a", 12), ("b", 2))): [],
            ((("a", 1),), (), (), (("a", 2),)): [(("a", 1), ("a", 2))],
            ((), (("a", 2),), (("a", 1),), ()): [(("a", 1), ("a", 2))],
            ((("a", 1),), (("a", 2),), (), ()): [], ((("a", 5),), (), (), (("a", 4), ("a", 15))): [(("a", 5), ("a", 15))],
            ((("a", 1),), (("a", 2),), (("a", 2),), (("a", 3),)): [
                (("a", 1), ("a", 3)), (("a", 2), ("a", 2)), (("a", 2), ("a", 3)),
            ],
        }),
        hint="New ads meet the old clicks. Which ads do the new clicks meet, so that each pair is emitted once?",
        why=(
            "One side meets the buffer as it was, the other one the buffer with the new rows in it. So two new rows meet once, "
            "and two old ones, which have met before, do not meet again."
        ),
    ),
    "10-1": Exercise(
        answer=1,
        hint="The session so far is [12:00, 12:13). Print the rows of the last batch.",
        why="A row that begins where a session ends still touches it: both engines merge them into [12:00, 12:18).",
    ),
    "10-2": Exercise(
        answer=agrees({
            (((0, 5), (3, 8), (20, 25)),): [(0, 8), (20, 25)], (((0, 5), (5, 10)),): [(0, 10)], ((),): [],
            (((12, 17), (0, 5), (4, 9), (8, 13)),): [(0, 17)], (((0, 20), (3, 8), (19, 24)),): [(0, 24)],
        }),
        hint="Take them by their starts. What is the end of a merged session? Do two touch if one ends where the other begins?",
        why="In the order of their starts, one look at the session before is enough. That is why Spark sorts by key and start.",
    ),
    "10-3": Exercise(
        answer=0,
        hint="In which order do the rows arrive?",
        why=("The files are in the order of departure, so by this event time nothing is late. Lateness needs two clocks."),
    ),
    "11-1": Exercise(
        answer=544,
        hint="Only a new flight of the same aircraft can end a shift now.",
        why="The last shift of every aircraft is never reported: nobody calls the function when nothing happens.",
    ),
    "11-2": Exercise(
        answer=2,
        hint="Ann has two clicks in the first file.",
        why=(
            "The rows of a key come in Arrow batches of that size, so a function must never believe that it has seen all "
            "rows in the first frame."
        ),
    ),
    "11-3": Exercise(
        answer="should_run_another_batch",
        hint="It is among the sources printed above.",
        why="When the watermark has moved, a timeout may have passed, so a batch without data is run.",
    ),
    "11-4": Exercise(
        answer=agrees({(10, 11): True, (11, 11): False, (12, 11): False, (None, 11): False}),
        hint="Is a timeout over if it is exactly at the watermark? And what if none was set?",
        why="The watermark must have passed it. A window excludes its end, so it is over when the watermark is there.",
    ),
    "12-1": Exercise(
        answer=3,
        hint="`report.find(..., version=3)`",
        why="Version 3 is what batch 2 has left behind: two visits of the first file, and one of the second.",
    ),
    "12-2": Exercise(
        answer=(2, 2),
        hint="Batch 5 writes version 6: `6.delta` in each partition.",
        why="Two windows left the state, and a delta holds what changed: two removals.",
    ),
    "12-3": Exercise(
        answer="state",
        hint="Print `report.findings`.",
        why="A state from which nothing is ever removed grows for ever, and `inspect` says so before the disk is full.",
    ),
    "12-4": Exercise(
        answer=agrees({
            (bytes.fromhex(data),): right
            for data, right in {
                "ffffffff": [], "00000001 61 00000001 31 00000001 62 ffffffff ffffffff": [(b"a", b"1"), (b"b", None)],
                "00000002 6162 00000000 ffffffff": [(b"ab", b"")],
                "00000000 00000003 ffffff ffffffff": [(b"", b"\xff\xff\xff")],
            }.items()
        }),
        hint="Read a length, then as many bytes, and again. Which lengths are -1, and what do they mean in these two places?",
        why="Nothing but lengths keeps the records apart. One wrong length would make nonsense of all that follows.",
    ),
    "13-1": Exercise(
        answer="offsets",
        hint="Print the findings.",
        why=(
            "Where a key lives is its hash modulo this number, so with another number, keys are looked for where they are "
            "not."
        ),
    ),
    "13-2": Exercise(
        answer="fails",
        hint="`accident` prints it, and `report.next` says it.",
        why=(
            "Without it nobody knows whose checkpoint this is. A restart would have to give the query a new id, and a "
            "sink that remembers ids would take it for another query. So it fails."
        ),
    ),
    "13-3": Exercise(
        answer={1},
        hint="State is a chain.",
        why="Version 1 needs the first delta alone. Every later one needs the second, too.",
    ),
    "13-4": Exercise(
        answer=agrees({
            (0, ()): True, (2, ("1.delta", "2.delta")): True, (3, ("1.delta", "3.delta")): False,
            (5, ("3.snapshot", "4.delta", "5.delta")): True, (2, ("3.snapshot", "4.delta")): False,
            (4, ("1.delta", "2.snapshot", "4.delta")): False, (4, ("2.snapshot", "4.snapshot")): True,
        }),
        hint="Begin at the newest snapshot that is not too new. What must there be from there on?",
        why="A snapshot is all of a version, a delta is one step. A chain with a missing link ends before it.",
    ),
    "14-1": Exercise(
        answer="AnalysisException",
        hint="Try it.",
        why="Files that the manifest has named cannot be taken back, so the file sink supports append only.",
    ),
    "14-2": Exercise(
        answer=2,
        hint="`DeltaTable(..., version=1)`",
        why="Ann and Bob: the third file, with Cleo in it, came later.",
    ),
    "14-3": Exercise(
        answer=(True, True),
        hint="Write with a checkpoint of its own, once without and once with the option.",
        why="A table's schema is a promise to its readers. It changes only when the writer says so.",
    ),
    "14-4": Exercise(
        answer=agrees({
            ((),): set(), (((("add", "A"), ("add", "B")),),): {"A", "B"},
            (((("add", "A"),), (("add", "B"), ("remove", "A"))),): {"B"}, (((("add", "A"),), (("remove", "A"),)),): set(),
            (((("add", "A"),), (("remove", "A"),), (("add", "A"),)),): {"A"},
            (((("add", "A"),), (("remove", "A"), ("add", "B"), ("add", "C"))),): {"B", "C"},
        }),
        hint="Play the commits from the first to the last one, as the reader of a log does.",
        why="The log says which files count, not the folder: a file that was removed still lies there, for older versions.",
    ),
    "15-1": Exercise(
        answer=(5, 10),
        hint="Which of the two logs knows *whose* batch it was?",
        why=(
            "To the manifest, batch 0 of the second query is batch 0, which it has. Delta keeps the query's id beside the "
            "number, and writes the rows of both."
        ),
    ),
    "15-2": Exercise(
        answer=5,
        hint="The batch is written again. What about the files of its first attempt?",
        why="No manifest names the files of the first attempt, so no reader sees them: they only take up space.",
    ),
    "15-3": Exercise(
        answer=5,
        hint="The same id, the same place.",
        why="Writing the same rows to the same place is idempotent: ten times is as good as once.",
    ),
    "15-4": Exercise(
        answer=agrees({(0, None): True, (0, 0): False, (3, 2): True, (2, 2): False, (1, 2): False, (5, 2): True}),
        hint="Which of the batches may be in the folder already?",
        why="The sink remembers only a number. That is enough: batches come in order, and one that comes again has an old one.",
    ),
    "16-1": Exercise(
        answer=2,
        hint="The last line of the entry is JSON: a key for each partition.",
        why="An epoch is logged when *all* readers have passed its end, with the offset of each of them.",
    ),
    "16-2": Exercise(
        answer=[0, 1],
        hint="Feed a coordinator with these messages, as above.",
        why="Epoch 1 is complete first and has to wait: a commit says that everything before it is done, too.",
    ),
    "16-3": Exercise(
        answer=1,
        hint="What is different when a run begins? Line 1 of the docstring of real_time_execution.py says it.",
        why=(
            "The entry of batch 2 is deleted, and the batch begins anew where `offsets/1` ends. Its rows may have been "
            "written, and are written again, perhaps together with newer ones."
        ),
    ),
    "16-4": Exercise(
        answer=agrees({
            (1, 1, ()): [], (1, 1, (("commit", 0, 0), ("offset", 0, 0))): [0], (1, 1, (("offset", 0, 0),)): [],
            (1, 1, (("offset", 0, 1), ("commit", 0, 1))): [], (2, 1, (("offset", 0, 0), ("commit", 0, 0))): [],
            (1, 1, (("offset", 0, 1), ("commit", 0, 1), ("offset", 0, 0), ("commit", 0, 0))): [0, 1],
            (1, 2, (("offset", 0, 0), ("commit", 1, 0), ("commit", 0, 0), ("offset", 0, 1), ("commit", 0, 1))): [0],
        }),
        hint="When is one epoch complete? And what if a later one is complete, but not this one?",
        why="An epoch needs all readers, all writers, and the epoch before it. So one slow task holds back every later commit.",
    ),
    "17-1": Exercise(
        answer=[3, 4],
        hint="`prefixes` gives each batch with the files that were read when it ended.",
        why="Larger batches skip prefixes: no answer is seen over one file or over two. Each that is seen is over a prefix.",
    ),
    "17-2": Exercise(
        answer=(True, 3),
        hint="Which rows does complete mode evict? Look at the source of `StateStoreSave.run`.",
        why="Complete keeps every window for ever, so none is closed and no row is late. The price is a state that only grows.",
    ),
    "17-3": Exercise(
        answer=(1, True),
        hint="The source has a log of its own. Which entries does it have after the rollback?",
        why=(
            "Nobody rolled the source's log back, so both files are seen already, and the new batch 2 reads them together. "
            "So after the answer over two files comes the one over four, not the one over three. Each of them is over a prefix."
        ),
    ),
    "17-4": Exercise(
        answer=is_incremental_average,
        hint="An average alone cannot take one more value. Which two numbers can?",
        why="A sum and a count are enough, however long the stream is. Spark keeps the same two as the buffer of `avg`.",
    ),
    "18-1": Exercise(
        answer=5,
        hint="What lies in the state for `home`, and what does a sum do with it?",
        why=(
            "The two visits that were counted are taken for two letters, and Ann's three are added. Both are longs, so nobody "
            "objects."
        ),
    ),
    "18-2": Exercise(
        answer=3,
        hint="Does it matter to the rows in how many batches they come?",
        why=(
            "Both files come in one batch 1, which the sink does not know any more. How rows are cut into batches is no part "
            "of the result."
        ),
    ),
    "18-3": Exercise(
        answer=agrees({
            (11, 12, 2): True, (10, 12, 2): False, (12, 12, 2): True, (1, 12, 2): False, (50, 149, 100): True,
            (49, 149, 100): False, (1, 5, 100): True,
        }),
        hint="What is left of the offset log above, with 2 to retain? Which of these batches has one before it?",
        why=(
            "The oldest entry that is left is newest - retained, and the batch after it is the first that knows where to begin."
        ),
    ),
    "19-1": Exercise(
        answer=(50, 10),
        hint="How many sensors are there, and how many report in a file?",
        why=(
            "Complete mode emits all of the state, update mode the groups of which the batch had a row. "
            "The work on the state is the same."
        ),
    ),
    "19-2": Exercise(
        answer=4,
        hint="Print the rows of each batch. Two batches are not of the backlog.",
        why="Seven, seven, seven and three files: a limit says how much at most, and the last batch takes what is left.",
    ),
    "19-3": Exercise(
        answer=agrees({
            (1000, 300, 2000): 600, (500, 300, 2000): 200, (2000, 300, 2000): None, (1900, 300, 2000): 11_400,
            (5000, 300, 2000): None,
        }),
        hint="n / arriving seconds for the rows to arrive, fixed_ms / 1000 + n / speed for the batch. When are they equal?",
        why=(
            "A quiet stream has small batches, a busy one large ones, and close to the speed of the engine they grow without "
            "bounds."
        ),
    ),
    "20-1": Exercise(
        answer=1,
        hint="In which windows of ten minutes is the leak, from 09:11 to 09:19?",
        why="Both windows of five minutes lie in that from 09:10 on. A longer window alerts later, and says less exactly when.",
    ),
    "20-2": Exercise(
        answer=7,
        hint="Who had 10.0.0.7 at 09:31? And how many leases has 10.0.0.8 at 10:15?",
        why=(
            "At 09:31 the lease of Ann's phone would still count, and she is blamed for what the printer did. And a device "
            "that asked for a new lease is there twice. The condition must say what is true of leases."
        ),
    ),
    "20-3": Exercise(
        answer=1,
        hint="Look at `numRowsTotal` of the last batch. What is the name of an unknown network?",
        why="All of them are one group, whose name is null. The inner join drops their rows before they are counted.",
    ),
    "20-4": Exercise(
        answer=agrees({
            ((), "x", 5, 30): None, ((("x", "a", 0),), "x", 5, 30): "a", ((("x", "a", 0),), "y", 5, 30): None,
            ((("x", "a", 6),), "x", 5, 30): None, ((("x", "a", 5),), "x", 5, 30): "a", ((("x", "a", 0),), "x", 30, 30): None,
            ((("x", "b", 20), ("x", "a", 0)), "x", 25, 30): "b", ((("x", "b", 20), ("x", "a", 0)), "x", 10, 30): "a",
            ((("x", "a", 20), ("x", "a", 0)), "x", 25, 120): "a",
        }),
        hint="Which leases are valid at that minute? If there are several, which of them was given last?",
        why=(
            "At most one device has an address. A time range in a join lets all valid leases pass, so the newest one must be "
            "chosen afterwards, or every lease needs an end."
        ),
    ),
    "21-1": Exercise(
        answer=(1, 0),
        hint="Which time is compared with the watermark: that of the row, or that of the end of its window?",
        why=(
            "Where rows are judged by their own time, one at the watermark is late. The window of 12:11 ends at 12:15, which "
            "is after the watermark, so the row counts. Such a claim means nothing as long as it does not name the operator."
        ),
    ),
    "21-2": Exercise(
        answer=agrees({
            ((722, 750), 10, 700): 740, ((722, None), 10, 700): 712, ((None, None), 10, 700): 700, ((722, 725), 10, 730): 730,
            ((), 5, 600): 600, ((720,), 0, 719): 720,
        }),
        hint="The newest of all tasks counts, less the delay; and what the watermark has reached, it keeps.",
        why="The maximum over the tasks of an input, not the minimum. Only between several inputs, the smallest one counts.",
    ),
    "21-3": Exercise(
        answer=(6, 0),
        hint="When is a row of a join evicted from the state?",
        why=(
            "A row is evicted when the watermark says that no partner can arrive any more. Without a watermark nothing says "
            "so, and the state grows by every row that ever arrives."
        ),
    ),
    "22-1": Exercise(
        answer=finds(planted.orders_once),
        hint="What differs between the two messages of an order that is sent twice?",
        why="The time is part of the key, and a second message has another one. dropDuplicatesWithinWatermark keeps to the id.",
    ),
    "22-2": Exercise(
        answer=finds(planted.clicks_of_a_page),
        hint="Which watermark do you need so that a click is late by ten seconds, and is not by ten minutes?",
        why="The delay is ten seconds. A test that never sends a row late does not see it, and neither does a demonstration.",
    ),
    "22-3": Exercise(
        answer=finds(planted.who_helped),
        hint="What is null <> 'bot'? And when is a question without an answer emitted?",
        why="The filter above the join drops every row with a null, so that the outer join might as well be an inner one.",
    ),
    "22-4": Exercise(
        answer=finds(planted.silent_devices),
        hint="A device that reports twice. When is it silent?",
        why="The timeout is that of the first report. Each later one has to set it anew.",
    ),
    "22-5": Exercise(
        answer=finds(planted.items_of_baskets),
        hint="Which basket has no first item?",
        why="explode makes a row of each item, and so none of an empty basket. explode_outer keeps it.",
    ),
    "23-1": Exercise(
        answer=["2.zip", "3.changelog", "4.changelog"],
        hint="Batch 4 reads version 4. Which is the newest version that is there as a whole?",
        why="1.zip is older than 2.zip, and whatever is before a zip is not needed to read it.",
    ),
    "23-2": Exercise(
        answer=agrees({
            ((), 1): [], (((1, "a"),), 1): [], (((1, "a"), (2, "ab")), 2): [], (((1, "a"), (2, "b")), 2): ["a"],
            (((1, "a"), (2, "ab"), (3, "c")), 3): ["a", "b"], (((1, "ab"), (2, "bc"), (3, "b")), 2): ["a"],
        }),
        hint="Which tables do the remaining zips name?",
        why="A table belongs to no single version. It is deleted when the last zip that names it is deleted.",
    ),
    "23-3": Exercise(
        answer=6,
        hint="A changelog has a record for each key that its batch has changed, in all partitions together.",
        why="Three users on the first day, two on the second, one on the third: only the changes of each batch.",
    ),
}
