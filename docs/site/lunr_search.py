"""The site's search, in the words of a question.

Sphinx's own search wants each word of a question on one page, and knows of a page only whether it has a word. Of the 50 titles
in tests/unit/project/search_titles.toml, which other people wrote, its first three results had the right page for 6.
lunr counts the words:

1. Each section of a page to read is searched by itself, so that "Symptoms" is found by what one of its entries says.
   A module is one section, and weighs less: it has the words of the page that explains it.
2. lunr weighs a word by how often a section has it and how rare it is elsewhere (BM25). In a heading or in the title of the
   page it counts three times.
3. The index is a script, as a page that opens from disk may load one; search/search.js asks it.

search/lunr.min.js is lunr 2.3.9, https://lunrjs.com (MIT), which reads what the package lunr writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from lunr import lunr
from sphinx.application import Sphinx

WEIGHTS = {"title": 3, "heading": 3, "text": 1}  # (2)
OF_A_MODULE = 0.3  # (1)


def sections(app: Sphinx) -> Iterator[dict[str, str]]:  # (1)
    """Each section of each page, without the sections in it."""
    for page in sorted(app.env.found_docs):
        if "nosearch" in app.env.metadata[page]:
            continue
        title = app.env.titles[page].astext()
        for section in app.env.get_doctree(page).findall(nodes.section):
            heading, *rest = section.children
            text = " ".join(words(child) for child in rest)
            yield {"page": page, "anchor": section["ids"][0], "title": title, "heading": heading.astext(), "text": text}


def words(node: nodes.Node) -> str:
    """What a reader reads of a node; the text of raw HTML is none."""
    if isinstance(node, nodes.section | nodes.raw | nodes.Invisible):
        return ""
    if isinstance(node, nodes.TextElement | nodes.Text):
        return node.astext()
    return " ".join(map(words, node.children))


def write_index(app: Sphinx, exception: Exception | None) -> None:  # (3)
    if exception is not None or app.builder.format != "html":
        return
    found = list(sections(app))
    documents = [
        ({"ref": str(ref), **{field: " ".join(re.findall(r"\w+", section[field])) for field in WEIGHTS}},
         {"boost": OF_A_MODULE if section["page"].startswith("minispark_stream/") else 1})
        for ref, section in enumerate(found)
    ]
    fields = [{"field_name": name, "boost": weight} for name, weight in WEIGHTS.items()]
    index = lunr(ref="ref", fields=fields, documents=documents).serialize()
    places = [[section[name] for name in ("page", "anchor", "title", "heading")] for section in found]
    script = f"const lunrIndex = lunr.Index.load({json.dumps(index)});\nconst lunrSections = {json.dumps(places)};\n"
    (Path(app.outdir) / "_static" / "search_index.js").write_text(script, encoding="utf-8")


def load_on_the_search_page(app: Sphinx, page: str, *context: Any) -> None:
    """Deferred, so that Sphinx's own scripts, which stand at the end of the page, come first."""
    if page == "search":
        for file in ("lunr.min.js", "search_index.js", "search.js"):
            app.add_js_file(file, loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", load_on_the_search_page)
    app.connect("build-finished", write_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
