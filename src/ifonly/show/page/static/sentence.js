/* The answer in one sentence, of an answer that the page solved for itself: the twin of show/sentence.py, where the rules stand
   and why. A test compares the two. Pieces are text, and in lists of one what is emphasised. */

import { count, DIGITS, EXACT_DIGITS, number, pair, percent, rounded, value } from "./web/numbers.js";

const NAMED = 6; // changes that are all named; of more …
const FIRST = 4; // … so many are, and the table has the others

const listed = (parts) => parts.flatMap((part, i) => (i === 0 ? part : [i === parts.length - 1 ? " and " : ", ", ...part]));

export function sentence(data, found) {
  const { features } = data;
  const changed = features.map((_, d) => d).filter((d) => found.x[d] !== features[d].from);
  changed.sort((a, b) => found.size[b] - found.size[a]);
  const total = changed.length + found.unlisted;
  if (!total) return ["Nothing has to change: ", ...outcome(data, found, false), "."];
  return ["If only ", ...(data.image ? inPicture(found.pixels) : changes(features, found, changed, total)), ", ", ...outcome(data, found, true), "."];
}

function outcome({ target, decided: before, now, k }, { p, decided }, changed) {
  if (decided === target) {
    const would = changed ? (before === target ? "would still be" : "would be") : "is already";
    return [`the decision ${would} `, [target], ` (${percent(p)})`];
  }
  if (!changed) return ["the probability of ", [target], ` is already ${percent(p)}`];
  let texts = [percent(now[k]), percent(p)];
  if (texts[0] === texts[1]) texts = pair(100 * now[k], 100 * p).map((text) => `${text} %`);
  const still = before === decided ? "still be" : "be";
  return [`the decision would ${still} `, [decided], ", but ", [target], ` would have ${texts[1]} instead of ${texts[0]}`];
}

const inPicture = (n) => [`${count(n, "pixel")} of the picture ${n === 1 ? "was" : "were"} different`];

function changes(features, { x, holds }, changed, total) {
  const named = total <= NAMED ? changed : changed.slice(0, FIRST);
  const rest = total - named.length;
  const printed = (digits) => named.map((d) => [d, shownAs(features[d], x[d], digits)]);
  let digits = DIGITS;
  while (digits < EXACT_DIGITS && !holds(printed(digits))) digits += 1;
  const clauses = named.map((d, i) => clause(features[d], x[d], digits, i === 0));
  if (rest) clauses.push([`${count(rest, "other feature")} ${rest === 1 ? "was" : "were"} as the table lists`]);
  return listed(clauses);
}

/** The number that is printed: where any beyond would do, one that does. */
const shownAs = (feature, v, digits) => rounded(v, digits, boundWord(feature, v) ? v > feature.from : null);

const boundWord = ({ from, sure }, v) => (v > from ? sure[1] && "at least" : sure[0] && "at most") || "";

/** Before and after with so many digits, or as many more as it takes to tell them apart. */
function apart(feature, v, digits) {
  const found = [value(feature.from, digits), number(shownAs(feature, v, digits), EXACT_DIGITS)];
  return found[0] === found[1] && digits < EXACT_DIGITS ? apart(feature, v, digits + 1) : found;
}

function clause(feature, v, digits, first) {
  const word = boundWord(feature, v);
  const texts = digits === DIGITS ? pair(feature.from, v) : [feature.from, v].map((w) => value(w, digits));
  const [before, after] = word ? apart(feature, v, digits) : texts;
  return [[feature.name], `${first ? " were" : ""} ${word && `${word} `}${after} instead of ${before}`];
}
