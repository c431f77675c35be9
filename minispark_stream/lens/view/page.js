// The controls of the page of a trace. All that is shown was written by lens/view/page.py into the element #data:
//   pieces   HTML, each kept once           steps   {step, caption, failed, differs, panels: {panel: numbers of pieces}}
//   (drawn: from which batch on the picture beside the steps is covered)
//   (a step may have "asks": see lens/view/questions.js)
//   query    {lines: HTML, steps: of each line}, if the lines of the user's query are known; a step then has the numbers of its lines, "own"
//   about    step -> {what, why: HTML, lights: panels}      stories   the fates of rows, as numbers of pieces
// A step has only the panels that it changes; the others are those of the step before.

const data = JSON.parse(document.getElementById("data").textContent), steps = data.steps;
const one = selector => document.querySelector(selector), all = selector => [...document.querySelectorAll(selector)];
const html = numbers => (numbers || []).map(number => data.pieces[number]).join("");
const panels = all("[data-panel]"), batches = all("nav button"), buttons = all("[data-step]"), tabs = all("[role=tab]");
const slider = one("#slider"), search = one("input[type=search]"), root = document.body;
const inFrame = location.protocol === "about:";  // the stepper of a notebook, which has no address of its own
const batchOf = batches.flatMap((batch, number) => Array(batch.dataset.to - batch.dataset.from + 1).fill(number));  // by step
let at = 0, tab = "changed", unfolded = false;  // what is folded in a panel stays open from step to step

steps.forEach((step, i) => {
  if (i) step.panels = { ...steps[i - 1].panels, ...step.panels };
  step.drawn ??= i ? steps[i - 1].drawn : 0;
});
slider.max = Math.max(steps.length, 1);

// -- showing a step --------------------------------------------------------------------------------------------------

function show(wanted) {
  if (!steps.length) return;
  const to = Math.min(Math.max(wanted, 0), steps.length - 1), asked = nextQuestion(at, to);
  at = asked ? asked.step - 1 : to;
  const now = steps[at], about = data.about[now.step];
  for (const panel of panels) {
    const name = panel.dataset.panel;
    if (panel.shown !== now.panels[name]) panel.innerHTML = html(panel.shown = now.panels[name]);
    for (const part of panel.querySelectorAll("details")) part.open = unfolded;
    panel.classList.toggle("lit", about.lights.includes(name) && !!panel.querySelector(":scope > :not(h3, .note)"));
  }
  one("[data-about=what]").innerHTML = about.what;
  one(".now").classList.toggle("failed", !!now.failed);
  showTab(tab);
  fit();
  uncover(steps[at].drawn);
  lightSteps();
  slider.value = at + 1;
  one("#count").textContent = `step ${at + 1} of ${steps.length}`;
  if (!inFrame) history.replaceState(null, "", "#" + (at + 1));
  ask(asked);
}

function lightSteps() {
  const batch = batches[batchOf[at]], looks = {};
  for (const old of all("nav .on")) { old.classList.remove("on"); old.ariaCurrent = null; }
  batch.classList.add("on");
  batch.ariaCurrent = "true";
  bringIntoView(one("nav"), batch);
  for (let i = +batch.dataset.from; i <= +batch.dataset.to; i++) {
    const { step, caption, failed, differs } = steps[i];
    if (i <= at) looks[step] = { look: failed ? "failed" : differs ? "differs" : "done", caption };
    else looks[step] ||= { look: "todo", caption: "" };
  }
  for (const button of buttons) {
    const { look, caption } = looks[button.dataset.step] || { look: "pale", caption: "" };
    const lit = button.dataset.step === steps[at].step;
    button.className = lit ? `lit ${look === "failed" ? "failed" : ""}` : look;
    button.disabled = look === "pale";
    button.ariaCurrent = lit ? "step" : null;
    const words = button.querySelector(".caption");
    words.textContent = words.title = caption;
    if (lit) bringIntoView(one(".steps"), button);
  }
}

// Where there is little room, the panels that a step has changed and what the other tabs say take turns: "changed" is the tab of the panels.
// Where there is much, the picture of the query stands beside the panels that the step has changed.
const isLow = matchMedia("(min-width: 700px) and (max-height: 760px)");
const hasRoom = matchMedia("(min-width: 1600px) and (min-height: 761px), (min-width: 1200px) and (max-height: 760px)");
const has = look => one("main").classList.contains(look), takesTurns = () => has("low");

function arrange() {
  const look = one("main").classList, isThere = !!beside.length && hasRoom.matches;
  look.toggle("low", isLow.matches);
  look.toggle("beside", isThere);
  look.toggle("turns", isLow.matches || isThere);
  placePicture(isThere);
}

function showTab(name) {
  tab = name;
  const now = steps[at], more = one("#more"), changed = one("main > .lit"), low = takesTurns();
  one("#tab-changed").disabled = !changed;
  const instead = data.query && (now.own?.length || !low) ? "yours" : "why";  // of a step that has no line, a reason says more
  const open = tab === "changed" && (!low || !changed) ? instead : tab;
  one("main").dataset.open = open;
  for (const button of tabs) {
    button.ariaSelected = button.dataset.go === open;
    button.tabIndex = button.dataset.go === open ? 0 : -1;
  }
  more.setAttribute("aria-labelledby", "tab-" + open);
  const text = ["recorded", "code"].includes(open) ? html(now.panels[open]) : open === "yours" ? ownLines() : data.about[now.step][open] || "";
  if (more.shown !== text) { more.innerHTML = more.shown = text; more.scrollTop = 0; }
  if (open === "yours") lightOwn(now.own || []);
}

// -- the lines of the user's own query -------------------------------------------------------------------------------

function ownLines() {
  const lines = data.query.lines.map((line, number) => data.query.steps[number].length
    ? `<button data-line="${number}">${line}</button>` : `<span${line ? "" : " class='gap'"}>${line}</span>`);
  return `<p class="note none-lit">No line of yours: the engine does this for every query.</p><pre class="code yours">${lines.join("")}</pre>`;
}

function lightOwn(numbers) {
  const lines = [...one(".yours").children];
  lines.forEach((line, number) => {
    line.classList.toggle("lit", numbers.includes(number));
    line.ariaCurrent = numbers.includes(number) ? "true" : null;
  });
  one(".none-lit").hidden = numbers.length > 0;
  if (numbers.length) bringIntoView(takesTurns() ? one(".now") : one("#more"), lines[numbers[0]]);
}

// While a line is pointed at, its steps are marked in the list.
function mark(line) {
  const of = line ? data.query.steps[line.dataset.line] : [];
  for (const button of buttons) button.classList.toggle("of-line", of.includes(button.dataset.step));
  if (line) line.title = `steps: ${of.join(", ")}`;
}

function toStepOfLine(number) {
  for (let i = 1; i <= steps.length; i++) {
    const there = (at + i) % steps.length;
    if (steps[there].own?.includes(number)) { tab = "yours"; show(there); one(`[data-line="${number}"]`).focus(); return; }
  }
}

for (const name of ["mouseover", "focusin"]) document.addEventListener(name, event => mark(event.target.closest("[data-line]")));

// Where all panels have their sizes: a table that is too wide for its panel is set tighter, or else it scrolls under its first column. Two
// panels side by side of which one is too narrow stand one above the other. What has changed is scrolled to.
function fit() {
  const main = one("main"), isWide = panel => panel.scrollWidth > panel.clientWidth + 1;
  main.classList.remove("stacked");
  for (const panel of panels) {
    panel.classList.remove("tight");
    panel.classList.toggle("tight", isWide(panel));
  }
  main.classList.toggle("stacked", panels.some(panel => panel.classList.contains("lit") && isWide(panel)));
  for (const panel of panels) bringIntoView(panel, panel.querySelector("mark, .new, tr.add, tr.change, tr.remove, tr.dropped"));
}

// Where panels take turns: gives the room to one of them, until the next step.
function open(panel) {
  for (const other of panels) other.classList.toggle("lit", other === panel);
  showTab("changed");
  fit();
}

// Scrolls a box, and only this box, until an element in it can be seen.
function bringIntoView(box, element) {
  if (!element) { box.scrollTop = 0; return; }
  const outer = box.getBoundingClientRect(), inner = element.getBoundingClientRect(), room = 34;
  if (inner.top < outer.top + room) box.scrollTop -= outer.top + room - inner.top;
  if (inner.bottom > outer.bottom) box.scrollTop += Math.min(inner.bottom - outer.bottom, inner.top - outer.top - room);
  if (!box.matches("nav, .picture")) return;
  if (inner.left < outer.left) box.scrollLeft -= outer.left + 40 - inner.left;
  if (inner.right > outer.right) box.scrollLeft += Math.min(inner.right + 40 - outer.right, Math.max(inner.left - 140 - outer.left, 0));
}

// -- controls --------------------------------------------------------------------------------------------------------

const first = number => +batches[Math.min(Math.max(number, 0), batches.length - 1)].dataset.from;
const actions = {
  "back": () => show(at - 1),
  "forward": () => show(at + 1),
  "batch-back": () => show(at > first(batchOf[at]) ? first(batchOf[at]) : first(batchOf[at] - 1)),
  "batch-forward": () => show(batchOf[at] === batches.length - 1 ? steps.length - 1 : first(batchOf[at] + 1)),
  "first": () => show(0),
  "last": () => show(steps.length - 1),
  "play": () => player.isPlaying() ? pause() : play(),
  "find": () => { search.focus(); search.select(); },
  "changed": () => showTab("changed"), "yours": () => data.query && showTab("yours"), "why": () => showTab("why"), "code": () => showTab("code"), "recorded": () => showTab("recorded"),
  "theme": () => { root.dataset.theme = isDark() ? "light" : "dark"; },
  "ask": () => setAsking(!asking), "skip": skip, "next": () => show(at + 1),
  "projector": projector,
  "below": () => scrollTo({ top: scrollY ? 0 : one(".below").offsetTop }),
  "help": () => one("#help").showModal(),
};
const keys = {
  ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last", " ": "play", "/": "find", "?": "help",
  e: "changed", y: "yours", w: "why", c: "code", i: "recorded", d: "theme", p: "projector", b: "below", q: "ask", s: "skip",
};

const moves = ["back", "forward", "batch-back", "batch-forward", "first", "last"];

function go(name) {
  if (moves.includes(name)) pause();
  if (steps.length) actions[name]();
}

const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

function projector() {
  const on = root.classList.toggle("projector");
  one("[data-go=projector]").ariaPressed = on;
  fit();
  const change = on ? document.documentElement.requestFullscreen?.() : document.fullscreenElement && document.exitFullscreen();
  if (change) change.catch(() => {});  // a frame may not be allowed to fill the screen: larger it is anyway
}

const player = new Player(one("[data-go=play]"), ["play", "pause"], () => +one("#speed").value, () => { show(at + 1); return at < steps.length - 1 && !question; });

function play() {
  if (at === steps.length - 1) show(0);
  player.play();
}

const pause = () => player.pause();

// The next step, after the last one the first, of which the name, the sentence or a panel that it is about has the text.
function find(text) {
  const wanted = escaped(text.trim()).toLowerCase();
  const says = step => [step.step, ...["said", ...data.about[step.step].lights].flatMap(name => step.panels[name]).map(words)];
  for (let i = 1; wanted && i <= steps.length; i++) {
    const there = (at + i) % steps.length;
    if (says(steps[there]).join(" ").toLowerCase().includes(wanted)) { show(there); return true; }
  }
  return !wanted;
}

const escaped = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const found = [];  // piece -> its words, which are HTML without elements
const words = number => found[number] ??= data.pieces[number].replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");

function tell(number) {
  one("#story div").innerHTML = html(data.stories[number]);
  one("#story").showModal();
}

// To where a step of this batch has ended.
function toStepOfBatch(name) {
  const batch = batches[batchOf[at]], from = +batch.dataset.from;
  const found = steps.slice(from, +batch.dataset.to + 1).findLastIndex(step => step.step === name);
  if (found >= 0) show(from + found);
}

document.addEventListener("click", event => {
  const on = selector => event.target.closest(selector);
  const row = on("tr"), fate = on("[data-fate]") || (row && row.querySelector("[data-fate]"));
  if (on("[data-choice]")) answer(+on("[data-choice]").dataset.choice);
  else if (on("[data-line]")) { pause(); toStepOfLine(+on("[data-line]").dataset.line); }
  else if (on("[data-go]")) go(on("[data-go]").dataset.go);
  else if (on("[data-from]")) { pause(); show(+on("[data-from]").dataset.from); }
  else if (on("[data-step]")) { pause(); toStepOfBatch(on("[data-step]").dataset.step); }
  else if (fate) { pause(); tell(fate.dataset.fate); }
  else if (on("main.turns > [data-panel]:not(.lit)")) open(on("[data-panel]"));
});

document.addEventListener("toggle", event => {
  if (event.target.closest("[data-panel]")) unfolded = event.target.open;
}, true);

document.addEventListener("keydown", event => {
  const typing = event.target.matches("input[type=search], select, #what-if input, .sweep input"), pressing = event.key === " " && event.target.matches("button, summary");
  if (event.key === "Escape" && typing) event.target.blur();
  if (typing || pressing || event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]")) return;
  let name = keys[event.key];
  if (event.target.matches("[role=tab]") && event.key.startsWith("Arrow")) {
    const seen = tabs.filter(tab => tab.offsetParent), number = seen.indexOf(event.target) + (event.key === "ArrowRight" ? 1 : -1);
    const next = seen[(number + seen.length) % seen.length];
    next.focus();
    name = next.dataset.go;
  } else if (event.shiftKey && event.key.startsWith("Arrow") && name) name = "batch-" + name;
  if (event.key === "Enter" && event.target.matches("main.turns > [data-panel]:not(.lit)")) open(event.target);
  if (question && event.key >= "1" && event.key <= "9") answer(event.key - 1);
  if (name) { event.preventDefault(); go(name); }
});

addEventListener("resize", () => { arrange(); uncover(steps[at]?.drawn); showTab(tab); fit(); });
slider.addEventListener("input", () => { pause(); show(+slider.value - 1); });
search.form.addEventListener("submit", event => {
  event.preventDefault();
  pause();
  search.classList.toggle("nothing", !find(search.value));
});
one("#tab-yours").hidden = !data.query;
window.addEventListener("hashchange", () => show(+location.hash.slice(1) - 1));
arrange();
at = (+location.hash.slice(1) || data.first + 1) - 1;
show(at);
one("[data-go=ask]").hidden = !steps.some(step => step.asks);
if (data.ask) {  // whatever is to be asked about the first step that is shown is asked before it is
  const opens = at;
  at = Math.max(opens - 1, 0);
  setAsking(true);
  show(opens);
}
if (data.what_if) drawWhatIf();
