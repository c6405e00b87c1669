/* Numbers as people write them: the twin of show/numbers.py, where the rules stand and why. A test compares the two. */

export const DIGITS = 4;
export const EXACT_DIGITS = 15;
const MOST_DIGITS = 17; // tell any two numbers apart
const [SMALL, LARGE] = [1e-4, 1e15]; // below and from here on, with a power of ten
const [THIN, WIDE] = ["\u202f", "\u00a0"];
const ROUNDINGS = 1 + 1e-9;
const ENGLISH = { decimal: ".", group: THIN };
const TOLD = /((?:[≥≤=]|\b(?:is|of|at|above)) |\[|, (?=\S+\])|(?:^| )(?=\S+·))(-?\d+(?:\.\d+)?(?:e[+-]\d+)?)(?!\w|\.\d)/g;

let marks = ENGLISH;

/** From now on numbers have the marks of a house; null for a house that has none of its own. */
export function writeAs(own) {
  marks = own ?? ENGLISH;
}

/** What stands before decimals, and between groups of three digits, now. */
export const marksNow = () => marks;

/** Digits as they are read: groups of three, a minus that is one, and on request no noughts at the end. */
function written(text, trim) {
  const [whole, rest = ""] = text.replace("-", "").split(".");
  const kept = trim ? rest.replace(/0+$/, "") : rest;
  const grouped = whole.length < 5 ? whole : whole.replace(/\B(?=(\d{3})+$)/g, () => marks.group);
  return `${/^-.*[1-9]/.test(text) ? "−" : ""}${grouped}${kept && marks.decimal}${kept}`;
}

const raised = (power) => [...String(Number(power))].map((d) => (d === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[d])).join("");

const isScientific = (v) => v !== 0 && !(SMALL <= Math.abs(v) && Math.abs(v) < LARGE);

/** An amount, a distance, a cost: 36, 12 500, 0.4355, −1.235 × 10⁻⁷. */
export function number(v, digits = DIGITS) {
  if (!Number.isFinite(v)) return v === Infinity ? "∞" : v === -Infinity ? "−∞" : "–";
  if (isScientific(v)) {
    const [lead, power] = v.toExponential(digits - 1).split("e");
    return `${written(lead, true)}${WIDE}×${WIDE}10${raised(power)}`;
  }
  const [, exponent] = v.toExponential().split("e");
  return written(v.toFixed(Number.isInteger(v) ? 0 : Math.max(digits - 1 - exponent, 0)), true);
}

/** A number in a column, with so many decimals. */
export const fixed = (v, decimals) => (Math.abs(v) < LARGE ? written(v.toFixed(decimals), false) : number(v));

/** A difference, as it was written, with its sign. */
export const signed = (text) => (/^[−–]/.test(text) || /^0*$/.test(text.replace(marks.decimal, "")) ? text : `+${text}`);

/** Any value of a table: a number, a category, or missing. */
export function value(v, digits = DIGITS) {
  if (v === null) return "missing";
  if (typeof v === "boolean") return v ? "True" : "False";
  return typeof v === "number" ? number(v, digits) : String(v);
}

/** Two values, with as many digits as it takes to tell them apart. */
export function pair(before, after) {
  let digits = DIGITS;
  let found = [value(before), value(after)];
  while (found[0] === found[1] && before !== after && digits < MOST_DIGITS) {
    digits += 1;
    found = [value(before, digits), value(after, digits)];
  }
  return found;
}

/** How many there are: 1 change, 12 changes. */
export const count = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

/** An upper bound, rounded up to one digit: 3 × 10⁻¹³. */
export function bound(v) {
  if (!Number.isFinite(v)) return number(v);
  if (v <= 0) return "the last digit";
  const [lead, power] = v.toExponential().split("e");
  const first = Number(lead[0]) + (lead.length > 1 ? 1 : 0); // not Math.ceil: 3.0000000000000002 is 3 to a float
  return number(Number(`${first}e${power}`));
}

/** A probability in per cent, rounded down: "whole" in prose, "tenths" in a column, "short" for a tenth that may be left out. */
export function percent(p, form = "whole") {
  if (Number.isNaN(p)) return "–";
  const held = Math.min(Math.max(p, 0), 1);
  const n = Math.floor(1000 * held * ROUNDINGS); // tenths of a per cent
  if (held > 0 && n === 0) return `< 0${marks.decimal}1 %`;
  if (held > 0.9995 && held < 1) return `> 99${marks.decimal}9 %`;
  const short = form === "short" || !(n >= 10 && n < 990);
  return `${Math.floor(n / 10)}${form === "tenths" || (n % 10 && short) ? `${marks.decimal}${n % 10}` : ""} %`;
}

/** A probability that was asked for, in per cent, as it is. */
export const asked = (p) => `${number(100 * p, EXACT_DIGITS)} %`;

/** A part of a whole in per cent, to the nearest. */
export function share(part) {
  if (!Number.isFinite(part)) return number(part);
  const size = Math.abs(100 * part);
  const text = size === 0 ? "0" : size < 0.1 ? `< 0${marks.decimal}1` : fixed(size, size < 0.95 ? 1 : 0);
  return `${part < 0 ? "−" : ""}${text} %`;
}

/** What the library says of limits, which has plain numbers: with those of the house where it has marks of its own. */
export const quoted = (text) =>
  marks === ENGLISH ? text : text.replace(TOLD, (_, lead, digits) => lead + number(Number(digits), EXACT_DIGITS));

/** The number that is written with so many decimals; not below `v` (`up`), or not above it (`up` false). */
export const directed = (v, decimals, up = null) => (Math.abs(v) < LARGE ? beside(v, up, (w) => w.toFixed(decimals), -decimals) : v);

/** The number that is written with so many digits; not below `v` (`up`), or not above it (`up` false). */
export function rounded(v, digits = DIGITS, up = null) {
  if (!Number.isFinite(v) || (Number.isInteger(v) && !isScientific(v))) return v;
  const after = digits - 1 - v.toExponential().split("e")[1];
  if (!isScientific(v)) return directed(v, Math.max(after, 0), up);
  return beside(v, up, (w) => w.toExponential(digits - 1), -after);
}

/** The written number that is nearest, or the nearest on one side; `power` is that of its last digit. */
function beside(v, up, write, power) {
  const near = Number(write(v));
  if (up === null || near === v || near > v === up) return near;
  return Number(write(near + (up ? 1 : -1) * Number(`1e${power}`)));
}
