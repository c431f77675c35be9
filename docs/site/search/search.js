// What the search page answers. Its form and the place of its results are Sphinx's; which results there are, and in which order, lunr says, from
// the index that lunr_search.py has written. A word that no page has finds nothing and does no harm.

const MOST = 10, LONG = 230;  // results, and characters of an excerpt: two lines
const AGAIN = 0.6;  // what another entry of the same page counts
const subject = new Set(["spark", "structured", "streaming"]); // the whole site is about it, so these tell no page from another
const ofEntries = new Set(["docs/symptoms", "docs/play", "docs/recipes"]);  // pages whose sections answer a question each

const wordsOf = (text) => text.toLowerCase().split(/[^\p{L}\p{N}_]+/u).filter(Boolean);

// The best sections, best first; of a page that is read as a whole only one.
const resultsFor = (question) => {
  const words = wordsOf(question).filter((word) => !subject.has(word)), results = [], times = new Map();
  if (saysNothing.test(question)) words.push("saysnothing");
  const found = words.length ? lunrIndex.query((query) => query.term(words.map((word) => new lunr.Token(word)))) : [];
  for (const { ref, score } of found) {
    const [page, anchor, title, heading, text] = lunrSections[ref], before = times.get(page) || 0;
    if (before && !ofEntries.has(page)) continue;
    times.set(page, before + 1);
    results.push({ page, anchor, title, heading, text, score: score * AGAIN ** before });
  }
  return results.sort((one, other) => other.score - one.score).slice(0, MOST);
};

// The part of a text in which most words of the question stand.
const excerptOf = (text, question) => {
  const stem = (word) => lunr.stemmer(new lunr.Token(word)).toString(), wanted = new Set(wordsOf(question).map(stem));
  const pieces = text.split(/(?<=[.:?!]) /);
  const counts = pieces.map((piece) => new Set(wordsOf(piece).map(stem).filter((word) => wanted.has(word))).size);
  const first = Math.max(counts.indexOf(Math.max(...counts)), 0);
  const from = pieces.slice(first).join(" ");
  return (first ? "… " : "") + (from.length > LONG ? from.slice(0, from.lastIndexOf(" ", LONG)) + " …" : from);
};

Search.query = (question) => {
  const results = resultsFor(question), add = (parent, name, text) => Object.assign(parent.appendChild(document.createElement(name)), { textContent: text });
  Search.stopPulse();
  Search.title.textContent = "Search results";
  Search.status.textContent = results.length ? "" : "No page has one of these words.";
  for (const { page, anchor, title, heading, text } of results) {
    const item = add(Search.output, "li", "");
    add(item, "a", heading).href = `${page}.html${anchor && `#${anchor}`}`;
    if (heading !== title) add(item, "span", ` in ${title}`);
    add(item, "p", excerptOf(text, question));
  }
};
