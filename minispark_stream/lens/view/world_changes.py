"""How each step changes the world.

`worlds(events)` is a pure fold over the moments of a trace (walk.py): the world after a moment is the world before it with the
changes of this step.

    moment            what it changes in the world
    latestOffset      a source: how far the next batch may read, and which files that means
    walCommit         offset log: + offsets/N
    getBatch          the rows that come in
    queryPlanning     the two watermarks of this batch
    stateOperator     the state: rows added (+), changed (~), removed (-)
    addBatch          the rows that go out; in real-time mode, also those that come in
    updateWatermark   the watermark of the next batch
    commitOffsets     commit log: + commits/N
    maintenance       what was done for a store, and in which worker

Example, a windowed count that evicts: state before [12:00 -> 2], after [12:05 -> 1] gives
    StateRow(key 12:00, before 2, after None, mark "-") and StateRow(key 12:05, before None, after 1, mark "+")
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from minispark_stream.engine.checkpointing import join_stores
from minispark_stream.engine.checkpointing.recovery import decide
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.measured import measured
from minispark_stream.lens.trace.recording import has_watermark
from minispark_stream.lens.trace.values import at_least_0, name_of, state_mark
from minispark_stream.lens.view.state_files import changed
from minispark_stream.lens.view.walk import Moment, failed, moments
from minispark_stream.lens.view.world import LogEntry, OperatorView, SourceLogEntry, SourceView, StateRow, WatermarkView, World

KEPT = 8  # entries of a log that stay in view


def worlds(events: Sequence[Event]) -> tuple[World, ...]:
    """The world after each moment of a trace, in the order of `moments`."""
    found: list[World] = []
    watermark = has_watermark(events)
    for moment in moments(events):
        world = World(moment, has_watermark=watermark) if not found else _settled(found[-1], moment)
        found.append(_after(world, moment.event))
    return tuple(found)


def _settled(world: World, moment: Moment) -> World:
    """A world at the moment after it: what was new is not new any more."""
    return replace(
        world,
        moment=moment,
        offset_log=tuple(replace(e, new=False) if e.new else e for e in world.offset_log),
        commit_log=tuple(replace(e, new=False) if e.new else e for e in world.commit_log),
        sources=tuple(
            replace(s, changed=False, log=tuple(replace(e, new=False) if e.new else e for e in s.log)) for s in world.sources
        ),
        watermark=replace(world.watermark, changed=False),
        operators=tuple(replace(o, changed=False) for o in world.operators),
    )


def _after(world: World, event: Event) -> World:
    ins, outs = event.inputs, event.outputs
    if failed(event):
        return world  # the step did not do its work
    match event.step:
        case "startQuery":
            checkpoint = str(ins.get("checkpoint"))
            known = world if world.checkpoint in (None, checkpoint) else World(world.moment, has_watermark=world.has_watermark)
            return replace(known, checkpoint=checkpoint, operators=_operators(known, outs))
        case "trigger":
            return _new_batch(world)
        case "populateStartOffsets":
            return _resumed(world, ins, outs)
        case "latestOffset":
            return _source(world, ins.get("source"), _read_up_to, ins.get("start"), outs.get("end"), outs.get("files", ()))
        case "constructNextBatch":
            world = _offsets(world, ins.get("start"), outs.get("end"))
            return replace(world, watermark=replace(world.watermark, eviction=outs.get("watermark"), next=None))
        case "walCommit" if "text" in outs and not outs.get("inMemory"):
            return _newest(replace(world, offset_log=_with(world.offset_log, ins.get("file"), outs.get("text"))))
        case "commitSource":
            return _source(world, ins.get("source"), lambda s, end: replace(s, done=end, changed=True), ins.get("end"))
        case "purge":
            before = ins.get("before") or 0
            kept, commits = (tuple(e for e in log if e.id >= before) for log in (world.offset_log, world.commit_log))
            earlier = min(world.earlier_entries, max(kept[0].id - before, 0) if kept else 0)
            return replace(world, offset_log=kept, commit_log=commits, earlier_entries=earlier)
        case "runBatch":
            return _offsets(world, ins.get("start"), ins.get("end"))
        case "getBatch":
            return _source(world, ins.get("source"), _rows_in, outs.get("rows"))
        case "queryPlanning":
            late, eviction = at_least_0(ins.get("watermarkLate")), at_least_0(ins.get("watermarkEviction"))
            world = replace(world, operators=_operators(world, outs))
            if late is None and eviction is None:
                return world
            return replace(world, watermark=replace(world.watermark, late=late, eviction=eviction, next=None, changed=True))
        case "stateOperator":
            return _state(world, event)
        case "addBatch":
            for name, rows in outs.get("read", {}).items():  # in real-time mode
                world = _source(world, name, _rows_in, rows)
            return replace(
                world, num_rows_out=outs.get("numOutputRows"),
                rows_out=None if outs.get("rows") is None else tuple(outs["rows"]),
            )
        case "updateWatermark":
            next_ms = outs.get("watermark")
            changed = next_ms != ins.get("watermark")
            return replace(world, watermark=replace(world.watermark, next=next_ms, measured=measured(outs), changed=changed))
        case "commitOffsets" if not outs.get("inMemory"):
            return replace(world, commit_log=_with(world.commit_log, ins.get("file"), outs.get("text")))
        case "maintenance":
            return _looked_after(world, event)
        case "finishTrigger":
            return _counted(world, outs.get("progress", {}))
    return world


def _new_batch(world: World) -> World:
    """The world when a trigger begins. A batch that a restart runs again is already planned; else no source was asked yet."""
    logged, committed = (max((e.id for e in log), default=None) for log in (world.offset_log, world.commit_log))
    is_planned = decide(logged, committed).again
    return replace(
        world,
        rows_out=None,
        num_rows_out=None,
        sources=tuple(replace(s, rows=None, num_rows=None, asked=s.asked and is_planned) for s in world.sources),
        watermark=replace(world.watermark, late=None, eviction=None, measured=()),
        operators=tuple(_before_its_batch(operator) for operator in world.operators),
    )


def _before_its_batch(operator: OperatorView) -> OperatorView:
    """An operator when a batch begins: rows that were removed are gone, and nothing is counted yet."""
    kept = None if operator.rows is None else _kept(operator.rows)
    gone = len(operator.rows or ()) - len(kept or ())
    rows = None if operator.num_rows is None else operator.num_rows - gone
    return replace(operator, rows=kept, num_rows=rows, metrics={}, places=replace(operator.places, done=()))


def _kept(rows: Sequence[StateRow]) -> tuple[StateRow, ...]:
    return tuple(replace(row, before=row.after, mark="") for row in rows if not row.mark.endswith("-"))


def _resumed(world: World, ins: Mapping[str, Any], outs: Mapping[str, Any]) -> World:
    """A run begins: of the entries that the logs had before the trace, only the numbers are known."""
    logged, committed = ins.get("offsetLog"), ins.get("commitLog")
    if not world.offset_log and logged is not None:
        world = replace(world, offset_log=(LogEntry(logged, None),), earlier_entries=logged)
    if not world.commit_log and committed is not None:
        world = replace(world, commit_log=(LogEntry(committed, None),))
    world = _offsets(world, outs.get("start"), outs.get("end"))
    watermark = outs.get("watermark")
    return replace(world, watermark=WatermarkView(next=watermark, changed=bool(watermark)))


def _with(log: tuple[LogEntry, ...], file: Any, text: Any) -> tuple[LogEntry, ...]:
    """The log with entry `file` ("offsets/3")."""
    found = re.search(r"(\d{1,18})$", str(file))
    if found is None:
        return log
    entry = LogEntry(int(found.group(1)), None if text is None else str(text), new=True)
    return (*(e for e in log if e.id != entry.id), entry)


def _newest(world: World) -> World:
    """Only the newest entries stay in view."""
    dropped = max(len(world.offset_log) - KEPT, 0)
    return replace(
        world, offset_log=world.offset_log[dropped:], commit_log=world.commit_log[-KEPT:],
        earlier_entries=world.earlier_entries + dropped,
    )


def _offsets(world: World, start: Any, end: Any) -> World:
    start, end = start or {}, end or {}
    known = {s.name: s for s in world.sources}
    for name in dict.fromkeys((*start, *end)):
        source = known.get(name, SourceView(name))
        known[name] = replace(source, start=start.get(name, source.start), end=end.get(name, source.end), asked=True)
    return replace(world, sources=tuple(known[name] for name in sorted(known)))


def _source(world: World, name: Any, change: Callable[..., SourceView], *values: Any) -> World:
    """Apply `change` to one source."""
    found = next((s for s in world.sources if s.name == str(name)), None)
    if found is None:
        found = SourceView(str(name))
        world = replace(world, sources=(*world.sources, found))
    return replace(world, sources=tuple(change(s, *values) if s is found else s for s in world.sources))


def _read_up_to(source: SourceView, start: Any, end: Any, files: Sequence[Any]) -> SourceView:
    source = replace(source, start=start, end=start if end is None else source.end, asked=True)
    if end is None or end == source.end and not files:
        return source
    entry = SourceLogEntry(end, tuple(map(str, files)), new=True)
    log = (*(e for e in source.log if e.end != end), entry)[-KEPT:]
    return replace(source, end=end, log=log, changed=True)


def _rows_in(source: SourceView, rows: Any) -> SourceView:
    return replace(source, rows=None if rows is None else tuple(rows), changed=True)


def _counted(world: World, progress: Mapping[str, Any]) -> World:
    counts = [s.get("numInputRows") for s in progress.get("sources", ())]
    numbered = zip(world.sources, [*counts, *([None] * len(world.sources))])
    return replace(world, sources=tuple(replace(s, num_rows=count) for s, count in numbered))


def _operators(world: World, outs: Mapping[str, Any]) -> tuple[OperatorView, ...]:
    known = {o.operator_id: o for o in world.operators}
    for operator in outs.get("operators", ()):
        operator_id = operator.get("operatorId")
        if operator_id is not None and operator_id not in known:
            known[operator_id] = OperatorView(operator_id, str(operator.get("operator")))
    return tuple(known[i] for i in sorted(known))


def _state(world: World, event: Event) -> World:
    ins, outs = event.inputs, event.outputs
    operator_id, version = ins.get("operatorId") or 0, ins.get("version")
    before = next((o for o in world.operators if o.operator_id == operator_id), OperatorView(operator_id, ""))
    rows = state_changes(*(outs.get(name, ()) for name in ("before", "after", "between"))) if "after" in outs else None
    view = OperatorView(
        operator_id=operator_id,
        operator=str(ins.get("operator")),
        version=None if version is None else version + 1,
        metrics=outs.get("metrics", {}),
        rows=rows,
        changed=True,
        num_rows=outs.get("rows"),
        functions=tuple(ins.get("functions", ())),
        places=before.places.after(outs.get("where", ()), _workers(world)),
        files={**before.files, **changed(before.files, event)},
    )
    others = [o for o in world.operators if o.operator_id != operator_id]
    return replace(world, operators=tuple(sorted((*others, view), key=lambda o: o.operator_id)))


def _looked_after(world: World, event: Event) -> World:
    operator_id = event.inputs.get("operatorId") if "worker" in event.outputs else None  # else it is an old trace
    return replace(world, operators=tuple(
        o.looked_after(event, _workers(world)) if o.operator_id == operator_id else o for o in world.operators
    ))


def _workers(world: World) -> tuple[str, ...]:
    """All workers that have appeared. An operator has those that were known when it was last reported on."""
    return max((o.places.workers for o in world.operators), key=len, default=())


def state_changes(before: Sequence[Any], after: Sequence[Any], between: Sequence[Any] = ()) -> tuple[StateRow, ...]:
    """Every row before or after, by store, partition and key; and those `between`, which were put and then removed."""
    old, new, put = map(_identified, (before, after, between))
    rows = []
    for identity in sorted(old.keys() | new.keys() | put.keys()):
        row = new.get(identity) or old.get(identity) or put.get(identity, {})
        was, now = old.get(identity), new.get(identity)
        mark = state_mark(*(None if row is None else [row.get("value")] for row in (was, now)))
        if identity in put and now is None:
            mark = "+-" if was is None else "~-"
        rows.append(StateRow(
            str(row.get("store") or "default"), row.get("partition"), row.get("key") or {},
            None if was is None else was.get("value"), None if now is None else now.get("value"), mark,
            put[identity].get("value") if mark in ("+-", "~-") else None,
        ))
    return tuple(rows)


def _identified(rows: Sequence[Any]) -> dict[tuple[str, int, str, int], Mapping[str, Any]]:
    """Rows by what identifies them. For a join, it is not the place: the last row of a key takes that of a removed one."""
    found: dict[tuple[str, int, str, int], Mapping[str, Any]] = {}
    alike: Counter[tuple[str, int, str]] = Counter()
    for row in rows:
        store, key, value = str(row.get("store") or "default"), row.get("key"), row.get("value")
        if store.endswith(join_stores.VALUES) and isinstance(key, Mapping) and isinstance(value, Mapping):
            key = [list(key.values())[:-1], {name: part for name, part in value.items() if name != "matched"}]
        name = store, row.get("partition") or 0, name_of(key)
        found[(*name, alike[name])] = row
        alike[name] += 1
    return found
