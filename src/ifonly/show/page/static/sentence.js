/* The answer in one sentence. */

import { make } from "./web/dom.js";
import { count, fixed, percent } from "./web/numbers.js";

const NAMED = 3; // changes that are named

/** A value of a feature, as it stands in the table too. */
export const shown = ({ decimals }, v) => (typeof v === "number" ? fixed(v, decimals) : v);

/** As text and strong elements in turn. */
export function sentence(data, { x, size, p, decided, unseen }) {
  const { features, target } = data;
  const strong = (words) => make("strong", { textContent: words });
  const chance = data.bars.length ? ` (${percent(p)})` : "";
  const changed = features.map((_, d) => d).filter((d) => shown(features[d], x[d]) !== shown(features[d], features[d].from));
  const flips = decided === target;
  if (!changed.length && !unseen) {
    if (flips) return ["Nothing has to change: the decision is ", strong(decided), chance, "."];
    return ["Nothing changes: the decision is ", strong(decided), ` (${target}: ${percent(p)}).`];
  }
  const end = flips
    ? ["the decision would be ", strong(decided), chance, ...(data.already ? [] : [" instead of ", strong(data.decided)]), "."]
    : ["the decision would still be ", strong(decided), `, with ${percent(p)} for ${target}.`];
  if (data.image) return ["If only the picture were a little different, ", ...end];
  changed.sort((a, b) => size[b] - size[a]);
  const parts = changed.slice(0, NAMED).map((d) => {
    const feature = features[d];
    return [strong(feature.name), ` were ${shown(feature, x[d])} instead of ${shown(feature, feature.from)}`];
  });
  const more = changed.length - parts.length + unseen;
  if (more) parts.push([more === 1 ? "one smaller change was made" : `${count(more, "smaller change")} were made`]);
  const list = parts.flatMap((part, i) => (i === 0 ? part : [i === parts.length - 1 ? " and " : ", ", ...part]));
  return ["If only ", ...list, ", ", ...end];
}
