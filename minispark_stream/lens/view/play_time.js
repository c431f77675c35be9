// Time on the page to play with: while it plays, or while the slider is dragged, only the first batches have run. The rows of the newest fall
// into their places, and its column is swept free: the watermark goes on, and the windows fill. A change of the case shows all batches.

let until = null, timer = null;  // how many batches have run; null: all

const past = () => until === null ? batches : batches.slice(0, until);

function setUntil(number) {
  until = number;
  const slider = one("[name=until]"), { length } = past();
  slider.max = batches.length;
  slider.value = length;
  slider.setAttribute("aria-valuetext", length ? `up to batch ${length - 1}` : "none");
  if (until === null) setPlaying(false);
  drawPast();
}

function setPlaying(playing) {
  clearInterval(timer);
  timer = playing ? setInterval(() => setUntil(until + 1 < batches.length ? until + 1 : null), 1500) : null;
  const button = one("[data-go=play]");
  button.textContent = playing ? "❚❚" : "▶";
  button.ariaLabel = playing ? "pause" : "play batch after batch";
}

function playOrPause() {
  if (!timer && until === null) setUntil(0);
  setPlaying(!timer);
}
