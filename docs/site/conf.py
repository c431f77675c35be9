"""The course and the documents as a site that opens from disk: `make site` writes build/site/index.html.

Sphinx reads the repository where it lies, so a link that works in the repository works on the site:

1. The pages are docs/*.md and the notebooks as they were saved. Nothing is run, so that no Spark is needed.
2. A module or a test that a page links to, and each golden script, is a page of its own: its text.
3. `{trace} FILE` puts a trace that moves into a page: of a saved trace (.json), or the stepper that a notebook has saved.
4. `{play} CASE` puts the page to play with into a page, and links to play.html lead to the page on its own.
5. The search is lunr's, see lunr_search.py.
6. With SITE_URL=https://..., where it will be published, each page says its address and what a link to it shows, and there is
   a sitemap.xml. Without SITE_URL the site knows no address.

Nothing is loaded from anywhere else: no formulas, hence no MathJax; no widgets, hence no require.js; the letters of the system.
tests/unit/project/test_site.py looks at all of this.
"""

from __future__ import annotations

import os
import re
import sys
from html import escape, unescape
from pathlib import Path
from typing import Any, ClassVar

import nbformat
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.parsers import Parser
from sphinx.util.docutils import SphinxDirective

from docs.cards import page as page_to_play_with
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.tools.course import LESSONS

ROOT = Path(__file__).parents[2]

project = "minispark_stream"
html_title = "minispark_stream"
root_doc = "docs/index"
sys.path.append(str(Path(__file__).parent))
extensions = ["myst_nb", "lunr_search"]  # (5)
pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")]
linked = sorted({file for page in pages for file in re.findall(r"\]\(\.\./([\w/]+\.py)\)", page)})
include_patterns = [  # (1), (2)
    "docs/*.md", "CONTRIBUTING.md", "tests/golden/README.md", f"notebooks/{LESSONS}", "tests/golden/scripts/**.txt", *linked,
]
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
myst_heading_anchors = 4
html_theme = "furo"
html_theme_options = {"sidebar_hide_name": False, "top_of_page_buttons": []}
html_baseurl = os.environ.get("SITE_URL", "")  # (6)
html_static_path = ["site.css", "search", "../images/step_phone.png"]
html_css_files = ["site.css"]
html_extra_path = ["index.html"]  # beside docs/ and notebooks/, it leads to docs/index.html
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_show_search_summary = False  # it would have to fetch pages, which a page from disk may not


class Source(Parser):
    """(2) A file as a page with its text. It is in no menu, and only the package's own files are searched."""

    supported = ("source",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        path = Path(document["source"]).relative_to(ROOT)
        page = nodes.section(ids=["source"], names=["source"])
        page += nodes.title("", path.name)
        page += nodes.paragraph("", "", nodes.literal("", str(path)))
        page += nodes.literal_block(inputstring, inputstring, language="python" if path.suffix == ".py" else "text")
        facts = nodes.docinfo()
        for fact in ("orphan", *(["nosearch"] if path.parts[0] == "tests" else [])):
            facts += nodes.field("", nodes.field_name("", fact), nodes.field_body())
        document += [facts, page]


class TraceFrame(SphinxDirective):
    """(3) A frame with the page of a trace, which is written into traces/."""

    required_arguments = 1
    option_spec: ClassVar = {"step": directives.nonnegative_int}

    def run(self) -> list[nodes.Node]:
        file = ROOT / self.arguments[0]
        self.env.note_dependency(str(file))
        out = Path(self.env.app.outdir) / "traces" / f"{file.stem}.html"
        out.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".json":
            Trace.load(file).to_html(out)
        else:
            out.write_text(saved_stepper(file), encoding="utf-8")
        at = f"#{self.options['step']}" if "step" in self.options else ""
        address = f"../traces/{out.name}{at}"
        html = f'<iframe class="trace" title="A trace: {file.stem}" src="{address}" loading="lazy" allow="fullscreen"></iframe>'
        html += f'<p class="trace"><a href="{address}">This trace on a page of its own</a></p>'
        return [nodes.raw("", html, format="html")]


class PlayFrame(SphinxDirective):
    """(4) A frame with the page to play with, which is written once."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        out = Path(self.env.app.outdir) / "play.html"
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page_to_play_with(on_the_site=True).page(), encoding="utf-8")
        html = f'<iframe class="trace play" title="to play with" src="../play.html#{self.arguments[0]}"></iframe>'
        html += '<p class="trace"><a href="../play.html">This page on its own</a></p>'
        return [nodes.raw("", html, format="html")]


def lead_to_the_page(app: Sphinx, page: str, source: list[str]) -> None:
    """(4) In docs/, play.html is the page as a file; on the site, docs/play.html is docs/play.md."""
    source[0] = source[0].replace('href="play.html', 'href="../play.html')


STEPPER = re.compile(r'<iframe[^>]* srcdoc="([^"]* id=&quot;data&quot;[^"]*)"')  # other frames have a page to play with


def saved_stepper(notebook: Path) -> str:
    """The page in the frame of the first stepper that a notebook has saved."""
    for cell in nbformat.read(notebook, as_version=4).cells:
        for output in cell.get("outputs", ()):
            found = STEPPER.search(output.get("data", {}).get("text/html", ""))
            if found:
                return unescape(found.group(1))
    raise ValueError(f"{notebook.name} has no stepper")


def add_card(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """(6) The title, the first sentences and a picture, for whatever shows a preview of a link."""
    if not html_baseurl or doctree is None:
        return
    text = next((p.astext() for p in doctree.findall(nodes.paragraph)), "")
    card = {"title": context["title"], "description": " ".join(text.split())[:200], "type": "article",
            "url": f"{html_baseurl}{page}.html", "image": f"{html_baseurl}_static/step_phone.png"}
    context["metatags"] += "".join(f'<meta property="og:{name}" content="{escape(value)}">\n' for name, value in card.items())


def write_sitemap(app: Sphinx, exception: Exception | None) -> None:
    """(6) The pages that a reader looks for; not the texts of modules and tests."""
    if html_baseurl and exception is None:
        pages = sorted(page for page in app.env.found_docs if page.startswith(("docs/", "notebooks/")))
        urls = "\n".join(f"<url><loc>{html_baseurl}{page}.html</loc></url>" for page in pages)
        text = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{urls}\n</urlset>\n'
        (Path(app.outdir) / "sitemap.xml").write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_source_suffix(".py", "source")
    app.add_source_suffix(".txt", "source")
    app.add_source_parser(Source)
    app.add_directive("trace", TraceFrame)
    app.add_directive("play", PlayFrame)
    app.connect("source-read", lead_to_the_page)
    app.connect("html-page-context", add_card)
    app.connect("build-finished", write_sitemap)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
