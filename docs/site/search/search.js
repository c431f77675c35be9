// What the search page answers. Its form and its list of results are Sphinx's; which pages are in the list, and in which order, lunr says,
// from the index that lunr_search.py has written. A word that no page has finds nothing and does no harm.

const subject = new Set(["spark", "structured", "streaming"]); // the whole site is about it, so these tell no page from another

const sectionsFor = (question) => {
  const words = question.toLowerCase().split(/[^\p{L}\p{N}_]+/u).filter((word) => word && !subject.has(word));
  return words.length ? lunrIndex.query((query) => query.term(words.map((word) => new lunr.Token(word)))) : [];
};

// A page stands where its best section stands, and its link leads to that section. Sphinx wants the best result last.
Search._performSearch = (question) => {
  const best = new Map();
  for (const { ref, score } of sectionsFor(question)) {
    const [page, anchor, title, heading] = lunrSections[ref];
    if (!best.has(page)) best.set(page, [page, heading, anchor && `#${anchor}`, heading === title ? "" : title, score, "", "text"]);
  }
  return [...best.values()].reverse();
};
