/* A feature in the data, and by itself: how common its values are, and how the decision moves if only this one changes. */

import { placeOf, spoken } from "./question.js";
import { draw } from "./svg.js";
import { make, track } from "./web/dom.js";
import { number, percent, share, value } from "./web/numbers.js";

const SIDE = 100; // of a drawing, which is stretched to its place
const TALL = 92; // of the highest bar
const STEPS = 200; // of a slider for numbers that are not whole

/** Where a value is from left to right, between 0 and 1; below 0 where it has no place. */
function across(feature, { histogram, curve }) {
  if (feature.values) return (v) => (placeOf(feature, v) < 0 ? -1 : (placeOf(feature, v) + 0.5) / feature.values.length);
  const [low, high] = histogram?.counts.length ? [histogram.low, histogram.high] : [curve.x[0], curve.x.at(-1)];
  return (v) => (typeof v === "number" ? Math.min(Math.max(high > low ? (v - low) / (high - low) : 0.5, 0), 1) : -1);
}

/** Where a probability is from bottom to top; a lead between the least and the largest of the curve. */
function upward({ y }, hard) {
  if (!hard) return (p) => p;
  const [least, most] = [Math.min(0, ...y), Math.max(0, ...y)];
  return (lead) => (most > least ? (lead - least) / (most - least) : 0.5);
}

/** The least and the largest number in the data; a policy may allow fewer, or more. */
export const seenIn = ({ quartiles }) => [quartiles[0], quartiles.at(-1)];

export const hasLook = (feature, { histogram, curve }) =>
  Boolean(curve) || Boolean(histogram?.counts.length && (feature.values || histogram.high > histogram.low));

/** Bars, the curve over them, and lines where the value is and would be. `look` is {histogram, curve, now, after, hard}. */
export function plot(svg, feature, look) {
  if (!hasLook(feature, look)) return svg.replaceChildren();
  const { histogram, curve, now, after, hard } = look;
  const x = across(feature, look);
  const parts = [];
  const most = Math.max(...(histogram?.counts ?? []), 1);
  const wide = SIDE / (histogram?.counts.length || 1);
  for (const [i, n] of (histogram?.counts ?? []).entries()) {
    const height = (TALL * n) / most;
    if (n) parts.push(draw("rect", { class: "bar", x: i * wide + wide * 0.06, y: SIDE - height, width: wide * 0.88, height }));
  }
  const upright = (v, kind) => {
    const at = v === undefined || v === null ? -1 : SIDE * x(v);
    if (at >= 0) parts.push(draw("line", { class: kind, x1: at, x2: at, y1: 0, y2: SIDE }));
  };
  if (curve) parts.push(...curved(feature, curve, x, upward(curve, hard)));
  upright(now, "is");
  if (after !== now) upright(after, "then");
  svg.replaceChildren(...parts);
}

/** A line for numbers; for categories, whose order means nothing, a dash each. */
function curved(feature, { x: values, y }, x, up) {
  const at = values.map((v, i) => [SIDE * x(v), SIDE * (1 - up(y[i]))]);
  if (!feature.values) {
    const points = at.map(([a, b]) => `${a.toFixed(2)},${b.toFixed(2)}`).join(" ");
    return [draw("polyline", { class: "curve", points })];
  }
  const half = (SIDE / feature.values.length) * 0.4;
  return at.map(([a, b]) => draw("line", { class: "curve", x1: a - half, x2: a + half, y1: b, y2: b }));
}

export const canvas = (className) =>
  draw("svg", { class: className, viewBox: `0 0 ${SIDE} ${SIDE}`, preserveAspectRatio: "none", "aria-hidden": "true" });

/** The same, large, with a slider under it and all of it in words: for one feature whose drawer is open. */
export class Look {
  /** `slide` takes a value of the slider, and whether it is the first of a drag; `rest` is called when it is let go. */
  constructor(feature, slide, rest) {
    this.feature = feature;
    this.svg = canvas("large");
    this.words = make("p", { className: "note" });
    this.box = make("div", { className: "look" });
    if (feature.values) {
      this.body = make("tbody");
      this.head = make("th", { scope: "col", className: "number" });
      const heads = ["Value", "In the data"].map((text) => make("th", { scope: "col", textContent: text }));
      const named = { className: "levels", "aria-label": `${feature.label}: each value` };
      this.box.append(make("table", named, make("thead", {}, make("tr", {}, ...heads, this.head)), this.body));
      return;
    }
    this.top = make("span");
    this.bottom = make("span");
    this.ends = [make("span"), make("span")];
    const scale = make("div", { className: "heights", "aria-hidden": "true" }, this.top, this.bottom);
    this.range = make("input", { type: "range", "aria-label": `${feature.label} now, on a slider` });
    let dragging = false;
    this.range.addEventListener("input", () => {
      slide(String(Number(Number(this.range.value).toPrecision(6))), !dragging);
      dragging = true;
    });
    this.range.addEventListener("change", () => {
      dragging = false;
      rest();
    });
    const ends = make("div", { className: "ends", "aria-hidden": "true" }, ...this.ends);
    this.box.append(make("div", { className: "plot" }, scale, make("div", {}, this.svg, this.range, ends)), this.words);
  }

  /** `target` is the decision that the curve is about. */
  draw(look, target) {
    const { feature } = this;
    this.box.hidden = !hasLook(feature, look);
    if (this.box.hidden) return;
    if (feature.values) return this.#levels(look, target);
    plot(this.svg, feature, look);
    const { histogram, curve, now, hard } = look;
    const [low, high] = histogram?.counts.length ? seenIn(histogram) : [curve.x[0], curve.x.at(-1)];
    this.range.hidden = feature.low === null;
    if (!this.range.hidden) {
      Object.assign(this.range, { min: low, max: high, step: feature.whole ? 1 : (high - low) / STEPS });
      if (typeof now === "number") this.range.value = now;
      this.range.setAttribute("aria-valuetext", value(now));
    }
    this.ends[0].textContent = number(low);
    this.ends[1].textContent = number(high);
    this.top.textContent = curve && !hard ? percent(1) : "";
    this.bottom.textContent = curve && !hard ? percent(0) : "";
    this.words.textContent = told(look, target);
  }

  #levels({ histogram, curve, now, after, hard }, target) {
    const all = (histogram?.counts ?? []).reduce((sum, n) => sum + n, 0);
    this.head.textContent = curve ? `${hard ? "Lead" : "Probability"} of ${target}` : "";
    const lines = this.feature.values.map((v, i) => {
      const part = all ? histogram.counts[i] / all : 0;
      const fill = make("div", { className: "fill" });
      fill.style.transform = `scaleX(${part})`;
      const place = curve?.x.findIndex((other) => String(other) === String(v)) ?? -1;
      const reached = place < 0 ? "" : hard ? number(curve.y[place]) : percent(curve.y[place], "tenths");
      const is = String(v) === String(now) ? " (now)" : String(v) === String(after) ? " (if only)" : "";
      const rare = all ? [track(fill), make("span", { className: "note", textContent: share(part) })] : ["–"];
      return make(
        "tr",
        { className: is && "wanted" },
        make("th", { scope: "row", textContent: spoken(this.feature, v) + is }),
        make("td", { className: "common" }, make("div", {}, ...rare)),
        make("td", { className: "number", textContent: reached }),
      );
    });
    this.body.replaceChildren(...lines);
  }
}

/** The drawing in words. */
function told({ histogram, curve, hard }, target) {
  const parts = [];
  if (histogram?.quartiles) {
    const [low, first, , third, high] = histogram.quartiles.map((v) => number(v));
    parts.push(`Bars: the data go from ${low} to ${high}, half of them from ${first} to ${third}.`);
  }
  if (curve) {
    const at = (i) => `${hard ? number(curve.y.at(i)) : percent(curve.y.at(i), "tenths")} at ${number(curve.x.at(i))}`;
    const what = hard ? `the lead of ${target}` : `the probability of ${target}`;
    parts.push(`Line: ${what} if only this changes, from ${at(0)} to ${at(-1)}.`);
  }
  parts.push("The upright line is now, the dashed one if only.");
  return parts.join(" ").replaceAll(" %", "\u00a0%");
}
