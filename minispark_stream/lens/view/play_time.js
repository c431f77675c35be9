// Time on the page to play with: while it plays, or while the slider is dragged, only the first batches have run. The rows of the newest fall
// into their places, and its column is swept free: the watermark goes on, and the windows fill. A change of the case shows all batches.

let until = null;  // how many batches have run; null: all

const past = () => until === null ? batches : batches.slice(0, until);

function setUntil(number) {
  until = number;
  const slider = one("[name=until]"), { length } = past();
  slider.max = batches.length;
  slider.value = length;
  slider.setAttribute("aria-valuetext", length ? `up to batch ${length - 1}` : "none");
  if (until === null) player.pause();
  drawPast();
}

const player = new Player(one("[data-go=play]"), ["play batch after batch", "pause"], () => 1500, () => {
  setUntil(until + 1 < batches.length ? until + 1 : null);
  return until !== null;
});

function playOrPause() {
  if (!player.isPlaying() && until === null) setUntil(0);
  player.toggle();
}
