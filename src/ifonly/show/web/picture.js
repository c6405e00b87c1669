/* Pictures: a row of pixels as it is, what changes in it, and as it would have to be. */

import { $ } from "./dom.js";

export class Picture {
  #colours = [];

  /** Shades go from the lower to the upper end of `range`; with `ink` high values are dark, as on paper. */
  constructor({ shape, range, ink }) {
    [this.height, this.width, this.channels = 1] = shape;
    Object.assign(this, { range, ink });
    this.dress();
  }

  /** The colours of more and less, as the page has them now. */
  dress() {
    const colour = (name) => getComputedStyle(document.querySelector(`.${name}`)).color;
    this.#colours = ["more", "less"].map((name) => colour(name).match(/[\d.]+/g).slice(0, 3));
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
    const { channels, ink, range: [low, high] } = this;
    const shade = (v) => {
      const part = Math.min(Math.max((v - low) / (high - low), 0), 1);
      return 255 * (ink ? 1 - part : part);
    };
    const last = channels - 1; // of one channel, all three colours are that one
    this.#onto(canvas, (i) => [0, 1, 2].map((c) => shade(x[channels * i + Math.min(c, last)])).concat(255));
  }

  /** What changes in each pixel, over its channels. */
  changes(before, after) {
    const { channels } = this;
    return Float64Array.from({ length: after.length / channels }, (_, i) => {
      let sum = 0;
      for (let c = channels * i; c < channels * (i + 1); c++) sum += after[c] - before[c];
      return sum / channels;
    });
  }

  /** All three; the change `top` has the strongest colour. */
  draw(before, after, top) {
    const changes = this.changes(before, after);
    const strength = (change) => 255 * Math.min(Math.abs(change) / (top || 1), 1);
    this.paint($("before"), before);
    this.#onto($("change"), (i) => [...this.#colours[changes[i] > 0 ? 0 : 1], strength(changes[i])]);
    this.paint($("after"), after);
  }
}
