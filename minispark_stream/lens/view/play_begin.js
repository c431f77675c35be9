// The buttons and sliders of the page to play with, and the case that it begins with.

one(".knobs").addEventListener("input", ({ target }) => {
  shown[target.name] = WORDS[target.name] ? target.value : values(target.name)[target.value];
  if (target.name === "size") shown.slide = Math.min(shown.slide, shown.size);
  if (target.name === "slide") shown.size = Math.max(shown.slide, shown.size);
  draw();
});
document.querySelectorAll("[data-operator]").forEach(button => button.addEventListener("click", () => begin(button.dataset.operator)));
const BUTTONS = {
  file: () => { if (shown.files.length < MOST_FILES) shown.files.push([]); draw(); },
  less: () => { if (shown.files.length > 1) shown.files.pop(); draw(); },
  row: () => added(shown.files.length - 1, Math.max(...shown.files.flat().map(row => row.time), from())),
  again: () => begin(card?.name || textOf(first)),
  copy, play: playOrPause, before: () => toCard(-1), next: () => toCard(1),
};
function toCard(steps) {
  const { length } = given.cards, number = given.cards.indexOf(card) + steps;
  begin(given.cards[(Math.max(number, -1) + length) % length].name);
}

one("[name=card]").addEventListener("change", ({ target }) => begin(target.value || textOf(shown)));
one("[name=until]").addEventListener("input", ({ target }) => { player.pause(); setUntil(+target.value < batches.length ? +target.value : null); });
document.querySelectorAll("[data-go]").forEach(button => button.addEventListener("click", BUTTONS[button.dataset.go]));
document.querySelectorAll("details input").forEach(input => input.addEventListener("focus", () => input.select()));
document.querySelectorAll(".has-address").forEach(part => { part.hidden = !hasAddress; });
window.addEventListener("hashchange", () => begin(decoded(location.hash.slice(1))));
begin(decoded(location.hash.slice(1)) || given.case);
