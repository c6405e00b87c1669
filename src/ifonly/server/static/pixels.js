/* The picture of a model whose features are pixels. */

import { Picture } from "./web/picture.js";

export class Pixels extends Picture {
  #top = 0; // the largest change seen for this question: the strongest colour
  #base = "";

  /** Shades go from the least to the largest value seen; of one channel high values are dark. */
  constructor({ image, features }) {
    const seen = (side) => features.map((f) => f[side]).filter((v) => v !== null);
    const low = Math.min(0, ...seen("low"));
    const high = Math.max(low, ...seen("high"));
    super({ shape: image, range: [low, high > low ? high : low + 1], ink: image.length === 2 });
    this.names = features.map((f) => f.name);
  }

  values(row) {
    return Array.isArray(row) ? row : this.names.map((name) => row[name]);
  }

  /** `base` is the question apart from the number that is dragged: along it colours grow, and are not scaled anew. */
  show(before, after, base) {
    if (base !== this.#base) this.#top = 0;
    this.#base = base;
    const [from, to] = [this.values(before), this.values(after)];
    this.#top = this.changes(from, to).reduce((most, change) => Math.max(most, Math.abs(change)), this.#top);
    this.draw(from, to, this.#top);
  }
}
