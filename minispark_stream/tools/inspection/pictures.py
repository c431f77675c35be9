"""The small pictures on the page of a checkpoint, as SVG: both logs, the versions of a partition, the keys over time.

    offsets/  [0] [1] [2]             a box for each batch, filled if the entry exists
    commits/  [0] [1] [ ]  next       batch 2 is not finished: it comes next
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from minispark_stream.tools.inspection.contents import Contents, StorePartition

STRIP = 24  # the newest batches, in the strip of the logs


def log_strip(report: Contents) -> str:
    """Both logs as two rows of boxes, one column for each batch."""
    shown = report.batches[-STRIP:]
    if not shown:
        return ""
    upcoming = report.next.batch_id
    ids = [b.batch_id for b in shown] + ([upcoming] if upcoming is not None and upcoming > shown[-1].batch_id else [])
    step, left = 42, 74
    boxes = [f"<text x='0' y='{y}'>{name}/</text>" for name, y in (("offsets", 19), ("commits", 47))]
    by_id = {b.batch_id: b for b in shown}
    for i, batch_id in enumerate(ids):
        batch = by_id.get(batch_id)
        x = left + i * step
        for name, y in (("offsets", 4), ("commits", 32)):
            there = batch is not None and (batch.offsets is not None if name == "offsets" else batch.committed)
            broken = batch is not None and f"{name}/{batch_id}" in batch.unreadable
            look = "broken" if broken else "there" if there else "lacks"
            label = batch_id if there or broken else ""
            boxes.append(f"<rect class='{look}' x='{x}' y='{y}' width='{step - 6}' height='22' rx='4'/>"
                         f"<text class='{look}' x='{x + step / 2 - 3}' y='{y + 15}' text-anchor='middle'>{label}</text>")
        if batch_id == upcoming:
            boxes.append(f"<text class='next' x='{x + step / 2 - 3}' y='72' text-anchor='middle'>▲ next</text>")
    width = left + len(ids) * step + 4
    return (
        f"<svg class='strip' viewBox='0 0 {width} 78' width='{width}' height='78' role='img' "
        f"aria-label='the newest entries of both logs'>{''.join(boxes)}</svg>"
    )


def version_strip(partition: StorePartition) -> str:
    """A mark for each of the newest versions: short for a delta, tall for a snapshot."""
    shown = partition.versions[-60:]
    first = shown[0].version if shown else 0
    marks = []
    for version in shown:
        x = (version.version - first) * 5
        if x > 1500:
            break
        tall = any(kind in version.files for kind in ("snapshot", "zip"))
        unknown = version.num_keys is None and any(kind in version.files for kind in ("delta", "snapshot"))
        look = "unknown" if unknown else "tall" if tall else ""
        title = f"version {version.version}: {', '.join(f'{kind} {size:,} bytes' for kind, size in version.files.items())}"
        y, height = (1, 15) if tall else (6, 10)
        marks.append(f"<rect class='{look}' x='{x}' y='{y}' width='4' height='{height}'><title>{escape(title)}</title></rect>")
    width = max([5, *(min(v.version - first, 300) * 5 + 5 for v in shown)])
    return f"<svg class='versions' width='{width}' height='17'>{''.join(marks)}</svg>"


def key_history(history: Mapping[int, int]) -> str:
    """The number of keys over the versions, as a line."""
    if len(history) < 2:
        return ""
    versions, keys = list(history), list(history.values())
    width, height, top = 520, 64, max(max(keys), 1)
    span_of = max(versions[-1] - versions[0], 1)
    points = [(44 + (v - versions[0]) / span_of * width, 6 + height - k / top * height) for v, k in history.items()]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{points[0][0]:.1f},{6 + height} {line} {points[-1][0]:.1f},{6 + height}"
    return (
        f"<svg class='history' viewBox='0 0 {width + 60} {height + 26}' width='{width + 60}' height='{height + 26}' "
        f"role='img' aria-label='keys over the versions, from {keys[0]:,} to {keys[-1]:,}'>"
        f"<polygon points='{area}'/><polyline points='{line}'/>"
        f"<text x='38' y='14' text-anchor='end'>{top:,}</text><text x='38' y='{height + 6}' text-anchor='end'>0</text>"
        f"<text x='44' y='{height + 22}'>version {versions[0]}</text>"
        f"<text x='{44 + width}' y='{height + 22}' text-anchor='end'>{versions[-1]}</text>"
        f"<text class='label' x='{44 + width / 2}' y='{height + 22}' text-anchor='middle'>keys in all partitions</text></svg>"
    )
