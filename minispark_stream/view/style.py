"""The look of every page: one style sheet, and the table and the card that it is made for.

The page of a trace, the stepper and the page of a checkpoint share it. What is put into a table or a card is HTML already:
whoever holds a value of a user escapes it first.

    table(("batch", "rows"), [(" class='new'", ("2", "7"))])    -> <table>... <tr class='new'><td>2</td><td>7</td></tr> ...

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

from collections.abc import Iterable


def table(head: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """A table of (attributes of the row, its cells)."""
    heads = "".join(f"<th>{cell}</th>" for cell in head)
    lines = "".join(f"<tr{attributes}>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>" for attributes, cells in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def card(heading: str, body: str, look: str = "") -> str:
    """A part of a page, with a frame around it."""
    looks = f"card {look}" if look else "card"
    return f"<section class='{looks}'><h3>{heading}</h3>{body}</section>"


# Jupyter has styles of its own for tables in an output: what is marked important undoes them.
CSS = """
.ms { color:#1d2733; background:#fff; font:13.5px/1.45 system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif; }
.ms *, .ms *::before { box-sizing:border-box; }
.ms p { margin:0 0 4px; } .ms h2 { margin:0; font-size:19px; } .ms h4 { margin:0 0 4px; font-size:13px; color:#4a5868; }
.ms h3 { margin:0 0 6px; font-size:14px; } .ms h3 small { font-weight:400; color:#4d8a5f; margin-left:6px; }
.ms code { font:12.5px/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace; background:none;
  color:#245482; }
.ms .note, .ms .where { color:#5b6875; } .ms .note code { color:#5b6875; }
.ms table { border-collapse:collapse; width:100%; margin:2px 0 6px; font-size:13px; color:inherit; background:none; }
.ms th { font-weight:600; color:#5b6875; border-bottom:1px solid #c3ccd6; padding:2px 8px 2px 4px; }
.ms th, .ms td { text-align:left !important; white-space:normal; max-width:none; }
.ms tbody tr { background:none !important; }
.ms td { border-bottom:1px solid #edf0f3; padding:2px 8px 2px 4px; vertical-align:top;
  font-variant-numeric:tabular-nums; background:none; }
.ms mark, .ms .new, .ms tr.new td { background:#ffe9b0; color:inherit; border-radius:3px; }
.ms mark, .ms b.new { padding:0 3px; }
.ms .card { border:1px solid #d9dfe5; border-radius:8px; padding:8px 12px; margin:0 0 10px; background:#fff; overflow:auto; }
.ms .below .card { max-height:420px; } .ms .card.differs { border:2px solid #b3261e; }
.ms .card.differs h3 small { color:#b3261e; }
.ms .both { display:grid; grid-template-columns:repeat(auto-fit,minmax(240px,1fr)); gap:14px; }
.ms .now { display:grid; grid-template-columns:minmax(300px,1fr) 2fr; gap:24px; border-left:6px solid #e6a817;
  background:#fff8e6; border-radius:6px; padding:10px 16px; margin:0 0 10px; }
.ms .now.failed { border-color:#b3261e; background:#fff0ef; } .ms .did { font-size:15.5px; } .ms .why b { color:#a86a00; }
.ms dl { display:grid; grid-template-columns:max-content 1fr; gap:0 14px; margin:4px 0; font-size:12px; }
.ms dt { color:#5b6875; } .ms dd { margin:0; white-space:pre-wrap; overflow-wrap:anywhere; max-height:180px; overflow:auto; }
.ms summary { color:#5b6875; cursor:pointer; font-size:12.5px; }
.ms .main { display:grid; grid-template-columns:minmax(440px,680px) minmax(380px,1fr); gap:14px; }
.ms .below { display:grid; grid-template-columns:1fr 2fr 1fr; gap:12px; }
.ms tr.add td { background:#e3f4e6; } .ms tr.change td { background:#fff3cf; }
.ms tr.remove td { background:#fde4e1; text-decoration:line-through; text-decoration-color:#c98a85; }
.ms tr.remove td:first-child { text-decoration:none; }
.ms p span.add, .ms p span.remove, .ms p span.late, .ms p span.same { border-radius:9px; padding:0 7px; margin-left:4px;
  font-size:12.5px; background:#edf0f3; white-space:nowrap; }
.ms p span.add { background:#e3f4e6; } .ms p span.remove { background:#fde4e1; } .ms p span.late { background:#fff3cf; }
.ms .bar { min-width:110px; height:11px; margin-top:4px; background:#f1f4f6; border-radius:3px; }
.ms .bar i { display:block; height:100%; border-radius:3px; border-right:3px solid; }
.ms .bar.late i { background:#f6c9c5; border-color:#b3261e; } .ms .bar.evict i { background:#fbdf9d; border-color:#a86a00; }
.ms .bar.next i { background:#c4e5cb; border-color:#2f7a45; } .ms .bar.newest i { background:#dbe8f5; border-color:#245482; }
.ms svg.flow { width:100%; height:auto; display:block; } .ms svg.flow text { font-family:inherit; }
.ms svg.flow .node text:first-of-type { font-weight:600; font-size:12.5px; }
.ms svg.flow .node.store text:first-of-type { font-weight:400; font-size:12px; }
.ms svg.flow .node text:nth-of-type(n+2) { font-size:11px; }
.ms svg.flow .done > path { fill:#eef7f0; stroke:#4d8a5f; } .ms svg.flow .todo > path { stroke:#aab4bf; }
.ms svg.flow .todo > text { fill:#5b6b7f; } .ms svg.flow .pale > path { fill:none; stroke:#d5dbe1; stroke-dasharray:5 3; }
.ms svg.flow .pale > text { fill:#98a2ad; } .ms svg.flow .differs > path { fill:#ffd9d6; stroke:#b3261e; }
.ms svg.flow .node.lit > path { fill:#ffd873; stroke:#a86a00; stroke-width:2.5; }
.ms svg.flow .node.lit > polygon { fill:#ffe9b0; stroke:#a86a00; stroke-width:2; }
.ms svg.flow .node.failed > path { fill:#ffb4ad; stroke:#b3261e; }
.ms svg.flow .node.around.lit > path { fill:#fff3d0; }
.ms svg.flow .node.frame > path { fill:#f6f8fa; stroke:#8a97a5; }
.ms svg.flow .edge.lit > path { stroke:#a86a00; stroke-width:2.5; }
.ms svg.flow .edge.lit > polygon { fill:#a86a00; stroke:#a86a00; }
.ms svg.timeline { max-width:100%; height:auto; display:block; } .ms svg.timeline text { font-family:inherit; fill:#1d2733; }
@media (max-width:1000px) { .ms .main, .ms .below, .ms .now { grid-template-columns:1fr; } }
"""
