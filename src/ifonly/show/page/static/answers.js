/* The answer for a wanted probability: solved here, or one of those that the page carries. */

import { Nearest } from "./nearest.js";
import { sentence } from "./sentence.js";
import { bound, number } from "./web/numbers.js";

const CLOSE = 0.005; // how far the probability of printed numbers may be below that of the answer: half of the last digit printed

const unpack = (packed, Kind = Float64Array) => new Kind(Uint8Array.from(atob(packed), (c) => c.charCodeAt(0)).buffer);

/** The pixels of the source. */
export const pixelsOf = (image) => unpack(image.source, Float32Array);

/** The class-space problem in a page's data. */
export const problemOf = ({ margins, gram, knots }) =>
  new Nearest({ margins, gram: unpack(gram), knots: { ...knots, w: unpack(knots.w) } });

/** The probabilities of the rivals' margins `s` with the target at `k`. */
function softmax(s, k) {
  const top = s.reduce((a, b) => Math.max(a, b), 0);
  const e = Array.from(s, (v) => Math.exp(v - top));
  e.splice(k, 0, Math.exp(-top));
  const sum = e.reduce((a, b) => a + b, 0);
  return e.map((v) => v / sum);
}

/** Where `from` gets to, y_j along each row j of `slopes`; and by what change. */
function moved(from, slopes, y) {
  const change = new from.constructor(from.length);
  y.forEach((length, j) => {
    const row = j * from.length;
    for (let d = 0; d < from.length; d++) change[d] += slopes[row + d] * length;
  });
  return { x: from.map((v, d) => v + change[d]), change };
}

const pixelsChanged = (change, channels) => new Set([...change].flatMap((v, i) => (v ? [Math.floor(i / channels)] : []))).size;

const largest = (p) => p.indexOf(Math.max(...p));

/** Without limits: solved here, to the last digit. */
export function live(data) {
  const { k, classes, image } = data;
  const [slopes, units, problem] = [unpack(data.slopes), unpack(data.units), problemOf(data)];
  const [pixels, shades] = image ? [pixelsOf(image), unpack(image.slopes, Float32Array)] : [];
  const from = Float64Array.from(data.features, (feature) => feature.from);
  const listed = new Set(data.bars);
  const bars = (p) => [...data.bars.map((j) => p[j]), p.reduce((sum, v, j) => (listed.has(j) ? sum : sum + v), 0)];
  const at = (wanted) => {
    const level = wanted === data.wanted ? data.level : Math.log1p(-wanted) - Math.log(wanted);
    const { w, s, off, distance, bound: room } = problem.at(level);
    const margins = distance ? s.map((v) => v - off) : s; // what Newton's last step left is not shown: 80 % is 80 %
    const p = softmax(margins, k);
    const best = largest(p);
    const ahead = p[k] >= p[best] - 1e-12 ? k : best; // of two that are equal the wanted one: the library's answer has it ahead
    const y = Array.from(w, (v) => -v);
    y.splice(k, 0, w.reduce((a, b) => a + b, 0));
    const { x, change } = moved(from, slopes, y);
    const proof = distance
      ? `No smaller change exists. Proved to ${bound(room)}: the exact optimum is no further than that from this answer, whose change measures ${number(distance)} where the classifier sees the features.`
      : "Nothing has to change, and nothing is smaller than that.";
    const drawn = image && moved(pixels, shades, y);
    const found = {
      wanted,
      p: p[k],
      bars: bars(p),
      decided: classes[ahead],
      x: [...x],
      size: change.map((v, d) => Math.abs(v) * units[d]),
      image: drawn?.x,
      pixels: drawn && pixelsChanged(drawn.change, image.shape[2] ?? 1),
      unlisted: distance ? data.unlisted : 0,
      holds: (printed) => holds(printed, x, [...margins], p[k], ahead),
      proof,
    };
    return { ...found, said: sentence(data, found) };
  };
  /** Whether the decision and its probability stay if some features, [number, value], are as they are printed. */
  const holds = (printed, x, margins, least, ahead) => {
    const slope = (j, d) => slopes[j * from.length + d] * units[d] ** 2;
    const z = margins.toSpliced(k, 0, 0).map((v, j) => v + printed.reduce((sum, [d, w]) => sum + slope(j, d) * (w - x[d]), 0));
    const after = softmax(z.toSpliced(k, 1).map((v) => v - z[k]), k);
    return largest(after) === ahead && after[k] >= least - CLOSE;
  };
  return { at, now: { p: data.now[k], bars: bars(data.now) } };
}

/** Within limits: the library's own answers, one after the other. */
export function stepped(data) {
  const { k, image } = data;
  const frames = image && unpack(image.frames, Float32Array);
  const length = image && frames.length / data.steps.length;
  const at = (i) => {
    const { p, changes, ...step } = data.steps[i];
    const x = data.features.map((feature) => feature.from);
    const size = new Float64Array(x.length);
    for (const [d, after, weight] of changes) [x[d], size[d]] = [after, weight];
    return { ...step, p: p[k], bars: p, x, size, image: image && frames.subarray(i * length, (i + 1) * length) };
  };
  return { at, now: { p: data.now[k], bars: data.now } };
}
