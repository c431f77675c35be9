"""How matplotlib draws here: the same picture in every run, as SVG with text as text.

    with house_style():
        figure = Figure(...)
        return as_svg(figure, "event-time", {"p0-dot1": "batch 3: counted"})

The ids of the picture do not change from run to run, and it has no date. What has a title is given an id while it is drawn, and
a `<title>` under this id afterwards: browsers show it as a tooltip.

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SVG = "http://www.w3.org/2000/svg"


@contextmanager
def house_style() -> Iterator[None]:
    """Raises ModuleNotFoundError: without matplotlib."""
    import matplotlib

    settings: Any = {"svg.hashsalt": "minispark_stream", "svg.fonttype": "none", "font.family": ["DejaVu Sans"]}
    with matplotlib.rc_context(settings):
        yield


def as_svg(figure: Figure, css_class: str, titles: Mapping[str, str]) -> str:
    """The picture, with tooltips: `titles` by the id of what they belong to."""
    text = io.BytesIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(text.getvalue())
    for element in root.iter(f"{{{SVG}}}g"):
        if (words := titles.get(element.get("id", ""))) is not None:
            title = ElementTree.Element(f"{{{SVG}}}title")
            title.text = words
            element.insert(0, title)
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    root.set("class", css_class)
    return ElementTree.tostring(root, encoding="unicode")
