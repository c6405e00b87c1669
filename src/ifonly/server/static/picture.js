/* Pictures: a row of pixels as it is, what changes in it, and as it would have to be. */

import { $ } from "./dom.js";

export class Picture {
  #colours = [];
  #top = 0; // the largest change seen for this question: the strongest colour
  #base = "";

  /** Shades go from the least to the largest value seen; of one channel high values are dark, as ink on paper. */
  constructor({ image, features }) {
    [this.height, this.width, this.channels = 1] = image;
    const seen = (side) => features.map((f) => f[side]).filter((v) => v !== null);
    this.low = Math.min(0, ...seen("low"));
    this.high = Math.max(this.low, ...seen("high"));
    if (this.high === this.low) this.high += 1;
    this.names = features.map((f) => f.name);
    this.dress();
  }

  /** The colours of more and less, as the page has them now. */
  dress() {
    const colour = (name) => getComputedStyle(document.querySelector(`.${name}`)).color;
    this.#colours = ["more", "less"].map((name) => colour(name).match(/[\d.]+/g).slice(0, 3));
  }

  values(row) {
    return Array.isArray(row) ? row : this.names.map((name) => row[name]);
  }

  #onto(canvas, colour) {
    const { width, height } = this;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, height);
    for (let i = 0; i < height * width; i++) image.data.set(colour(i), 4 * i);
    context.putImageData(image, 0, 0);
  }

  paint(canvas, x) {
    const { channels, low, high } = this;
    const shade = (value) => {
      const part = Math.min(Math.max((value - low) / (high - low), 0), 1);
      return 255 * (channels === 1 ? 1 - part : part);
    };
    this.#onto(canvas, (i) => [0, 1, 2].map((c) => shade(x[channels * i + Math.min(c, channels - 1)])).concat(255));
  }

  compare(canvas, before, after) {
    const { channels } = this;
    const changes = Array.from({ length: after.length / channels }, (_, i) => {
      let sum = 0;
      for (let c = 0; c < channels; c++) sum += after[channels * i + c] - before[channels * i + c];
      return sum / channels;
    });
    this.#top = changes.reduce((most, change) => Math.max(most, Math.abs(change)), this.#top);
    this.#onto(canvas, (i) => [...this.#colours[changes[i] > 0 ? 0 : 1], (255 * Math.abs(changes[i])) / (this.#top || 1)]);
  }

  /** `base` is the question apart from the number that is dragged: along it colours grow, and are not scaled anew. */
  draw(before, after, base) {
    if (base !== this.#base) this.#top = 0;
    this.#base = base;
    const [from, to] = [this.values(before), this.values(after)];
    this.paint($("before"), from);
    this.compare($("change"), from, to);
    this.paint($("after"), to);
  }
}
