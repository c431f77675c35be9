"""The code that ran in the steps of a batch: each function in the order of its first call, with what did not run folded.

    walCommit
      engine/runtime/construct_next_batch.py
         76  @step("walCommit")
         77  def wal_commit(query: RunningQuery, context: MicroBatchExecutionContext, entry: OffsetSeqBase) -> None:
         78      query.update_status(message="Writing offsets to log")
         79      if not query.offset_log.add(context.batch_id, entry):
             ... 1 line
         81      clean_up(query, context.batch_id)

1. Python tells of a line of a statement that it ran (lens/recording/code_that_ran.py); the whole statement is shown, and the
   head of each function.
2. A function inside a function, a lambda and a comprehension are shown within the function around them.
3. The text is that of the installed package. If a function is elsewhere in it, the trace is from another version, and only the
   name of the function is shown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from itertools import groupby
from typing import Any

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.trace.written import first_line
from minispark_stream.lens.view.step_source import PACKAGE, coloured
from minispark_stream.lens.view.style import CSS
from minispark_stream.lens.view.words import perhaps, plural

NOT_RECORDED = 'The code that ran was not recorded: MiniSparkSession(spark, trace="code") records it.'
OF_SPARK = "Real Spark runs in the JVM, where no code is recorded; the model's is."


@dataclass(frozen=True)
class Text:
    """A file: its functions that are not inside of others, and its statements, as (first line, last line); `names` by line."""

    lines: Sequence[str]
    functions: Sequence[tuple[int, int]]
    statements: Sequence[tuple[int, int]]
    names: frozenset[tuple[int, str]]


@dataclass(frozen=True)
class CodePart:
    """Lines of a function, one after the other, all of which ran, or none."""

    first: int
    lines: Sequence[str]
    ran: bool


@dataclass(frozen=True)
class FunctionThatRan:
    """A function: its file, and its lines; `note` if these are not known."""

    file: str
    parts: Sequence[CodePart] = ()
    note: str = ""


@lru_cache(maxsize=256)
def text_of(file: str) -> Text | None:
    """A file of the package; None if there is none of this name."""
    path = PACKAGE / file
    if PACKAGE not in path.resolve().parents or path.suffix != ".py" or not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.stmt, ast.ExceptHandler))]
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    names = frozenset((first_line(function), function.name) for function in functions)
    statements = [(first_line(node), _end_of_head(node)) for node in nodes]
    return Text(text.splitlines(), [(first_line(f), f.end_lineno or 0) for f in _outermost(tree)], statements, names)


def _end_of_head(node: Any) -> int:
    """The last line of a statement, without the statements inside of it."""
    inside = [part[0] for name in ("body", "cases") if (part := getattr(node, name, None))]
    if not inside:
        return int(node.end_lineno)
    first = first_line(inside[0].pattern if isinstance(inside[0], ast.match_case) else inside[0])
    return max(node.lineno, first - 1)


def _outermost(node: ast.AST) -> Iterator[ast.FunctionDef]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield child
        else:
            yield from _outermost(child)


def functions(code: Any) -> list[FunctionThatRan]:
    """What ran in a step, as it was recorded under `code`."""
    found: dict[tuple[str, int, int], set[int]] = {}
    unknown: list[FunctionThatRan] = []
    for file, first, name, lines in code or ():
        text = text_of(file)
        if text is None or not name.startswith("<") and (first, name) not in text.names:  # (3)
            unknown.append(FunctionThatRan(file, note=f"{name}: this version of the package has it elsewhere"))
            continue
        around = next((span for span in text.functions if span[0] <= first <= span[1]), (first, max(lines)))  # (2)
        found.setdefault((file, *around), set()).update(lines)
    return [FunctionThatRan(file, _parts(file, begin, end, ran)) for (file, begin, end), ran in found.items()] + unknown


def _parts(file: str, begin: int, end: int, ran: set[int]) -> list[CodePart]:
    text = text_of(file)
    assert text is not None
    shown = {n for first, last in text.statements if begin <= first <= end and not ran.isdisjoint(range(first, last + 1))  # (1)
             for n in range(first, last + 1)} | ran
    shown |= {n for n in range(begin, end) if text.lines[n - 1].strip() in ("else:", "finally:") and n + 1 in shown}
    numbers = range(begin, min(end, len(text.lines)) + 1)
    parts = []
    for did, group in groupby(numbers, key=shown.__contains__):
        block = list(group)
        parts.append(CodePart(block[0], [text.lines[n - 1] for n in block], did))
    return parts


@dataclass(frozen=True)
class ShownCode:
    """The answer to `trace.code(...)`: the functions that ran, by step. `note` says what is missing."""

    steps: Sequence[tuple[str, Sequence[FunctionThatRan]]]
    note: str = ""

    def __str__(self) -> str:
        return "\n\n".join([*(f"{name}\n{_as_text(ran)}" for name, ran in self.steps), *filter(None, [self.note])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        steps = "".join(f"<h4>{escape(name)}</h4>{as_html(ran)}" for name, ran in self.steps)
        return f"<style>{CSS}</style><div class='ms'>{steps}<p class='note'>{escape(self.note)}</p></div>"


def shown_code(recording: Recording, batch: int | None, step: str | None) -> ShownCode:
    """The code that ran in a batch, the last one if `batch` is None, or only in one kind of `step`.

    Raises:
        ValueError: the trace has no such batch, or it has no such step.
    """
    found = [one for one in recording.batches if batch in (None, one.batch_id)]
    if batch is not None and not found:
        ids = ", ".join(str(one.batch_id) for one in recording.batches)
        raise ValueError(f"the trace has no batch {batch}; batches: {ids or 'none'}")
    events = sorted(found[-1].events, key=lambda event: event.start_ms) if found else []
    names = {event.step for event in events}
    if step is not None and step not in names:
        raise ValueError(f"the batch has no step {step!r}{perhaps(step, names)}")
    if not any("code" in event.outputs for event in events):
        return ShownCode((), OF_SPARK if recording.engine == "spark" else NOT_RECORDED)
    return ShownCode([(event.step, functions(event.outputs.get("code"))) for event in events if step in (None, event.step)])


def of_event(event: Event) -> str:
    """What ran in a step, as HTML; empty if it was not recorded."""
    return as_html(functions(event.outputs["code"])) if "code" in event.outputs else ""


def _by_file(ran: Sequence[FunctionThatRan]) -> Iterator[tuple[str, Iterator[FunctionThatRan]]]:
    """Functions of the same file that follow each other."""
    return groupby(ran, key=lambda one: one.file)


def _as_text(ran: Sequence[FunctionThatRan]) -> str:
    lines = []
    for file, of_file in _by_file(ran):
        lines.append(f"  {file}")
        for function in of_file:
            lines += [f"       {function.note}"] if function.note else []
            for part in function.parts:
                if part.ran:
                    lines += [f"    {number:4}  {line}".rstrip() for number, line in enumerate(part.lines, part.first)]
                else:
                    lines.append(f"          ... {plural(len(part.lines), 'line')}")
    return "\n".join(lines)


def as_html(ran: Sequence[FunctionThatRan]) -> str:
    """Functions as HTML, in which what did not run can be unfolded."""
    return "<dl class='ran'>" + "".join(
        f"<dt>{escape(file)}</dt><dd>{''.join(map(_function, of_file))}</dd>" for file, of_file in _by_file(ran)
    ) + "</dl>"


def _function(function: FunctionThatRan) -> str:
    return f"<p class='note'>{escape(function.note)}</p>" * bool(function.note) + "".join(
        _block(part) if part.ran else f"<details><summary>{plural(len(part.lines), 'line')}</summary>{_block(part)}</details>"
        for part in function.parts
    )


def _block(part: CodePart) -> str:
    return "<pre class='code'>" + coloured("\n".join(part.lines) + "\n") + "</pre>"
