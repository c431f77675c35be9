// Something that a button plays, step after step, until it is paused or `step` says that it was the last one. `names` are those of the button
// while it plays nothing and while it plays; `wait` says how many milliseconds pass before a step.

class Player {
  #button; #names; #wait; #step; #timer = null;

  constructor(button, names, wait, step) {
    [this.#button, this.#names, this.#wait, this.#step] = [button, names, wait, step];
    this.#show();
  }

  isPlaying() { return this.#timer !== null; }

  play() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => { this.#step() ? this.play() : this.pause(); }, this.#wait());
    this.#show();
  }

  pause() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#show();
  }

  toggle() { this.isPlaying() ? this.pause() : this.play(); }

  #show() {
    this.#button.textContent = this.isPlaying() ? "❚❚" : "▶";
    this.#button.ariaLabel = this.#names[+this.isPlaying()];
  }
}

