"""The site's search, in the words of a question.

Sphinx's own search wants each word of a question on one page, and knows of a page only whether it has a word. Of the 50 titles
in tests/unit/project/search_titles.toml, which other people wrote, its first three results had the right page for 6.
lunr counts the words:

1. Each section of a page to read is searched by itself, so that "Symptoms" is found by what one of its entries says.
   A module is one section, and weighs less: it has the words of the page that explains it. So does a page about the project.
2. lunr weighs a word by how often a section has it and how rare it is elsewhere (BM25). In a heading or in the title of the
   page it counts two or three times. An entry of "Symptoms" also has the questions of which the package knows that it answers
   them. "No", "not" and "nothing" are no words to lunr, so what says `NOTHING` gets a word for it, in sections and questions.
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

from minispark_stream.tools.symptoms.entries import symptoms

WEIGHTS = {"title": 3, "heading": 2, "asked": 2, "text": 1}  # (2)
OF_A_MODULE, OF_THE_PROJECT = 0.3, 0.2  # (1)
PROJECT = {"CONTRIBUTING", "tests/golden/README"} | {
    f"docs/{name}" for name in (
        "CHANGELOG", "adding-an-operator", "architecture", "differences", "explanations", "extending", "index_of_behaviours",
        "mutants", "releasing", "sources", "teaching",
    )
}
NOTHING = r"\b(no|not|nothing|never|empty)\b[^.?!]{0,24}?\b(outputs?|results?|rows|comes? out|emit\w*|written|appears?)\b"
SHOWN = 1500  # characters of a section, from which an excerpt is taken


def sections(app: Sphinx) -> Iterator[dict[str, str]]:  # (1)
    """Each section of each page, without the sections in it."""
    asked = {symptom.title: " ".join(symptom.ask) for symptom in symptoms()}
    for page in sorted(app.env.found_docs):
        if "nosearch" in app.env.metadata[page]:
            continue
        title = app.env.titles[page].astext()
        for section in app.env.get_doctree(page).findall(nodes.section):
            heading, *rest = section.children
            text = " ".join(words(child) for child in rest)
            name, of_symptoms = heading.astext(), page == "docs/symptoms"
            also = asked.get(name, "") if of_symptoms else ""
            yield {"page": page, "anchor": section["ids"][0], "title": title, "heading": name, "asked": also, "text": text}


def words(node: nodes.Node) -> str:
    """What a reader reads of a node; the text of raw HTML is none."""
    if isinstance(node, nodes.section | nodes.raw | nodes.Invisible):
        return ""
    if isinstance(node, nodes.Text):
        return node.astext()
    return ("" if isinstance(node, nodes.TextElement) else " ").join(map(words, node.children))


def write_index(app: Sphinx, exception: Exception | None) -> None:  # (3)
    if exception is not None or app.builder.format != "html":
        return
    found = list(sections(app))
    documents = [
        ({"ref": str(ref), **{field: indexed(section[field]) for field in WEIGHTS}},
         {"boost": weight(section["page"])})
        for ref, section in enumerate(found)
    ]
    fields = [{"field_name": name, "boost": weight} for name, weight in WEIGHTS.items()]
    index = lunr(ref="ref", fields=fields, documents=documents).serialize()
    places = [[*(section[name] for name in ("page", "anchor", "title", "heading")), excerpt(section)] for section in found]
    script = f"const lunrIndex = lunr.Index.load({json.dumps(index)});\nconst lunrSections = {json.dumps(places)};\n"
    script += f"const saysNothing = new RegExp({json.dumps(NOTHING)}, 'i');\n"
    (Path(app.outdir) / "_static" / "search_index.js").write_text(script, encoding="utf-8")


def indexed(text: str) -> str:  # (2)
    """The words of a text, for lunr."""
    return " ".join(re.findall(r"\w+", re.sub(NOTHING, r"\g<0> saysnothing", text, flags=re.IGNORECASE)))


def weight(page: str) -> float:  # (1)
    return OF_A_MODULE if page.startswith("minispark_stream/") else OF_THE_PROJECT if page in PROJECT else 1


def excerpt(section: dict[str, str]) -> str:
    """The beginning of a section to read; a module is found by its name."""
    return "" if section["page"].startswith("minispark_stream/") else " ".join(section["text"].split())[:SHOWN]


def load_on_the_search_page(app: Sphinx, page: str, *context: Any) -> None:
    """Deferred, so that Sphinx's own scripts, which stand at the end of the page, come first."""
    if page == "search":
        for file in ("lunr.min.js", "search_index.js", "search.js"):
            app.add_js_file(file, loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", load_on_the_search_page)
    app.connect("build-finished", write_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
