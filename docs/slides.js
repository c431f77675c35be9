// Slides without a library: arrows, space and a click near an edge go from one to the next, Home and End to the first and the last. The
// address of the page keeps the place.

const slides = [...document.querySelectorAll(".slides > section > section")];
const place = document.body.appendChild(Object.assign(document.createElement("output"), { id: "place" }));
let at = 0;

function show(number) {
  at = Math.min(Math.max(number, 0), slides.length - 1);
  slides.forEach((slide, i) => slide.classList.toggle("now", i === at));
  place.textContent = `${at + 1} / ${slides.length}`;
  history.replaceState(null, "", `#${at + 1}`);
  scrollTo(0, 0);
}

const steps = { ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1, Home: -Infinity, End: Infinity };
document.addEventListener("keydown", (event) => {
  if (!(event.key in steps) || event.target.matches("input, select, textarea, button")) return;
  event.preventDefault();
  show(at + steps[event.key]);
});
document.addEventListener("click", ({ target, clientX }) => {
  if (target.closest("a, button, input, select, summary, iframe")) return;
  if (clientX > innerWidth * 0.85) show(at + 1);
  if (clientX < innerWidth * 0.15) show(at - 1);
});
show((parseInt(location.hash.slice(1)) || 1) - 1);
