// The pictures of the page of a trace. Each has been drawn by lens/view/sheet.py with covers, which hide what it shows of a batch, and with the
// place of the names at its left.
//
// 1. A picture that is wider than its place says so, and scrolls under its names: a copy of it, cut down to them, stays where it is.
// 2. A picture below the board is played by itself, batch by batch, with a button and a slider.
// 3. Where there is room, the picture of the query stands beside the steps, and shows what has happened up to the step (page.js).

const framed = document.querySelector("[data-beside]"), card = framed?.parentElement, beside = framed ? [...framed.querySelectorAll(".cover")] : [];
const pictures = [...document.querySelectorAll(".picture")];
const isBeside = picture => picture === framed && framed.parentElement !== card;

// -- (1) -------------------------------------------------------------------------------------------------------------

function keepNames(picture) {
  const svg = picture.querySelector(":scope > svg"), [right, top, bottom] = (svg.dataset.stays || "").split(" ").map(Number);
  picture.querySelector(".stays")?.remove();
  const isWide = picture.scrollWidth > picture.clientWidth + 1;
  picture.classList.toggle("wide", isWide);
  if (!isWide || !bottom) return;
  const names = document.createElement("div"), copy = svg.cloneNode(true), scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const place = picture.getBoundingClientRect().top + parseFloat(getComputedStyle(picture).paddingTop);
  const down = svg.getBoundingClientRect().top - place + top * scale;  // on a phone, there is text above the drawing
  names.className = "stays";
  names.ariaHidden = "true";
  names.style = `width: ${right * scale}px; height: ${(bottom - top) * scale}px; margin-top: ${down}px`;
  copy.style = `margin-top: ${-top * scale / getComputedStyle(svg).zoom}px`;
  names.append(copy);
  picture.prepend(names);
}

function atEnd(picture) {
  picture.classList.toggle("at-end", picture.scrollLeft + picture.clientWidth > picture.scrollWidth - 8);
}

// -- (2) -------------------------------------------------------------------------------------------------------------

function cover(picture, isToCome) {
  for (const one of picture.querySelectorAll(".cover")) one.classList.toggle("to-come", isToCome(+one.dataset.batch));
}

function addSweep(picture) {
  const ids = [...new Set([...picture.querySelectorAll(".cover")].map(one => +one.dataset.batch))].sort((one, other) => one - other);
  if (ids.length < 2) return;
  const sweep = document.createElement("div");
  sweep.className = "sweep";
  sweep.role = "group";
  sweep.ariaLabel = "time in the picture";
  sweep.innerHTML = `<button></button><input type="range" min="0" max="${ids.length}" value="${ids.length}" aria-label="batches in the picture"><output></output>`;
  const [button, slider, words] = sweep.children;
  const set = number => {
    slider.value = number;
    words.textContent = number ? `up to batch ${ids[number - 1]}` : "before the first batch";
    slider.setAttribute("aria-valuetext", words.textContent);
    if (!isBeside(picture)) {
      cover(picture, batch => number === 0 || batch > ids[number - 1]);
      const now = number && number < ids.length && [...picture.querySelectorAll(":scope > svg .cover")].findLast(one => +one.dataset.batch === ids[number - 1]);
      if (now) bringIntoView(picture, now);
    }
  };
  const isAtEnd = () => +slider.value === ids.length;
  const sweeping = new Player(button, ["play the picture", "pause the picture"], () => 1200, () => { set(+slider.value + 1); return !isAtEnd(); });
  button.addEventListener("click", () => { if (!sweeping.isPlaying() && isAtEnd()) set(0); sweeping.toggle(); });
  slider.addEventListener("input", () => { sweeping.pause(); set(+slider.value); });
  picture.before(sweep);
  set(ids.length);
  picture.shown = () => set(+slider.value);
}

// -- (3) -------------------------------------------------------------------------------------------------------------

// The picture of the query goes to where there is room for it.
function placePicture(isThere) {
  if (!beside.length || isBeside(framed) === isThere) return;
  if (isThere) document.querySelector("main").append(framed);
  else {
    card.append(framed);
    framed.shown?.();
  }
}

function uncover(drawn) {
  if (!framed || !isBeside(framed)) return;
  cover(framed, batch => batch >= drawn);
  const now = beside.findLast(one => +one.dataset.batch < drawn);
  if (now) bringIntoView(framed, now);
}

pictures.forEach(addSweep);
const seen = new ResizeObserver(changes => changes.forEach(({ target }) => { keepNames(target); atEnd(target); }));
for (const picture of pictures) {
  seen.observe(picture);
  picture.addEventListener("scroll", () => atEnd(picture), { passive: true });
}
