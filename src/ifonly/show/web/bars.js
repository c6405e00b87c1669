/* Probabilities as bars: how long it would be, and a mark where it is now. */

import { heading, make, track } from "./dom.js";
import { number, percent } from "./numbers.js";

export function bar(name, now, then, className = "") {
  const fill = make("div", { className: "fill" });
  const mark = make("div", { className: "mark" });
  fill.style.transform = `scaleX(${then})`;
  mark.style.left = `${100 * now}%`;
  const numbers = [now, then].map((p) => make("td", { className: "number", textContent: percent(p, "tenths") }));
  return make("tr", { className }, heading(name), make("td", { className: "wide" }, track(fill, mark)), ...numbers);
}

/** The classes that have no bar of their own, as one. */
export const others = (n, now, then) => bar(n === 1 ? "one other" : `${number(n)} others`, now, then, "rest");
