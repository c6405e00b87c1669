/* The λ path, drawn as what it means: how the probability grows with the size of the change, as λ falls from point to point.
   A click, or the arrow keys, take a point. */

import { draw } from "./svg.js";
import { $, unbroken } from "./web/dom.js";
import { count, number, percent } from "./web/numbers.js";

const WIDTH = 360; // of the drawing, as its viewBox has it
const BOX = { left: 40, right: 350, top: 10, bottom: 160 };
const [LEAST, MOST] = [0.001, 0.995]; // probabilities that are drawn: beyond, the size grows and little else
const POINTS = 40; // probabilities that are asked for, where λ itself would take too long
const SAME = 1e-9; // of probabilities: one point is enough
const SHY = 1e-6; // less than the best there is: that itself is not to be had for certain

/** What to ask for: λ where a path of them is cheap, probabilities where whole numbers and categories are to be searched. Both
    walk along the same answers: whatever has the least λ/2·size² − ln p has the least size of all with its p. */
export function pathQuestion({ detail: _, top: __, n: ___, prob: ____, ...body }, model, answer, most = MOST) {
  const asked = { ...body, target: answer.target };
  const searched = body.actions?.integer || body.max_changes !== undefined || model.features.some((f) => f.values);
  if (!searched) return asked;
  const odds = (p) => Math.log(p / (1 - p)); // even steps in log odds: dense where the probability is near 0 or 1
  const [from, to] = [odds(Math.min(Math.max(answer.decision.p_from, LEAST), most)), odds(most)];
  const probs = Array.from({ length: POINTS }, (_, i) => 1 / (1 + Math.exp(-from - ((to - from) * (i + 1)) / POINTS)));
  return { ...asked, probs };
}

export class Chart {
  #points = [];
  #place = 0;
  #searched = false; // then there is no λ for every answer

  /** `pick` takes the probability of the point that the person chose. */
  constructor(pick) {
    const svg = $("chart");
    const go = (i) => {
      const point = this.#points[Math.min(Math.max(i, 0), this.#points.length - 1)];
      if (point) pick(point.status === "unreachable" ? point.prob - SHY : point.prob);
    };
    svg.addEventListener("click", (event) => {
      const { left, width } = svg.getBoundingClientRect();
      const x = ((event.clientX - left) / width) * WIDTH;
      const far = this.#points.map((point) => Math.abs(point.x - x));
      go(far.indexOf(Math.min(...far)));
    });
    svg.addEventListener("keydown", (event) => {
      const last = this.#points.length;
      const arrows = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };
      const step = { ...arrows, PageUp: 5, PageDown: -5, Home: -last, End: last }[event.key];
      if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      go(this.#place + step);
    });
  }

  clear(words = "") {
    this.#points = [];
    $("chart").replaceChildren();
    $("point").textContent = words;
  }

  /** A path from the server, by λ or (`searched`) by probabilities; it begins at the row as it is. */
  load({ lams, prob, distance, status }, answer, searched) {
    this.#searched = searched;
    const most = Math.max(MOST, answer.decision.p_to);
    const sound = lams
      .map((_, i) => ({ prob: prob[i], distance: distance[i], status: status[i] }))
      .filter((point) => ["exact", "converged", "unreachable"].includes(point.status)) // the last is as far as one gets
      .filter((point) => point.prob > 0 && point.prob <= most && point.prob < 1)
      .sort((a, b) => a.prob - b.prob);
    const points = sound.filter((point, i) => i === 0 || point.prob > sound[i - 1].prob + SAME);
    if (points.length < 2) return this.clear("There is nothing to draw: no larger change brings more.");
    const { left, right, top, bottom } = BOX;
    const far = points.at(-1).distance;
    const at = (p) => bottom - p * (bottom - top);
    for (const point of points) Object.assign(point, { x: left + (point.distance / far) * (right - left), y: at(point.prob) });
    this.#points = points;
    const start = `${left},${at(answer.decision.p_from).toFixed(1)}`;
    const line = [start, ...points.map((point) => `${point.x.toFixed(1)},${point.y.toFixed(1)}`)].join(" ");
    const marks = [0, 0.5, 1].flatMap((p) => [
      draw("line", { x1: left, x2: right, y1: at(p), y2: at(p), class: "grid" }),
      draw("text", { x: left - 6, y: at(p) + 4, class: "tick end" }, percent(p)),
    ]);
    $("chart").replaceChildren(
      ...marks,
      draw("text", { x: left, y: bottom + 17, class: "tick" }, "0"),
      draw("text", { x: right, y: bottom + 17, class: "tick end" }, number(far, 2)),
      draw("text", { x: (left + right) / 2, y: bottom + 17, class: "tick middle" }, "size of the change"),
      draw("polygon", { points: `${line} ${right},${bottom} ${left},${bottom}`, class: "under" }),
      draw("polyline", { points: line, class: "curve" }),
      draw("line", { id: "here", y1: top, y2: bottom, class: "here" }),
      draw("circle", { id: "dot", r: 5, class: "dot" }),
    );
    $("chart").setAttribute("aria-valuemin", 0);
    $("chart").setAttribute("aria-valuemax", points.length - 1);
  }

  /** Where the answer is on it. */
  mark({ distance, lam, n_changes, decision }) {
    const points = this.#points;
    if (!points.length) return;
    const { left, right, top, bottom } = BOX;
    const p = decision.p_to;
    const x = Math.min(left + (distance / points.at(-1).distance) * (right - left), right);
    const off = points.map((point) => Math.abs(point.prob - p));
    this.#place = off.indexOf(Math.min(...off));
    for (const name of ["x1", "x2"]) $("here").setAttribute(name, x);
    $("dot").setAttribute("cx", x);
    $("dot").setAttribute("cy", bottom - p * (bottom - top));
    const parts = [`${percent(p, "tenths")} at size ${number(distance, 3)}`, count(n_changes, "change")];
    const words = (this.#searched || lam === null ? parts : [...parts, `λ = ${number(lam, 3)}`]).join(", ");
    $("point").textContent = unbroken(`Here: ${words}. Every point is an exact answer; click for another.`);
    $("chart").setAttribute("aria-valuenow", this.#place);
    $("chart").setAttribute("aria-valuetext", words);
  }
}
