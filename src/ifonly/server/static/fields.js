/* Fields that a person may be typing into. */

import { marksNow } from "./web/numbers.js";

const TEXT = "input:not([type=range], [type=checkbox], [type=radio])";

/** Whether a field has text that is not part of the state yet: someone is typing. */
export function isTyping(control) {
  return control.matches(TEXT) && control === document.activeElement && control.value !== control.dataset.said;
}

/** What a field says of the state; not while someone is typing there. */
export function put(control, value) {
  if (isTyping(control)) return;
  control.value = control.matches(TEXT) ? inField(String(value)) : value;
  control.dataset.said = control.value;
}

for (const kind of ["focusin", "change"]) {
  // before the control's own listeners: what they do may put something else there
  addEventListener(kind, ({ target }) => target.matches(TEXT) && (target.dataset.said = target.value), true);
}

// ---- numbers as people type them ----

/* The state has numbers as JavaScript writes them, whatever the house's marks are: a link means the same everywhere. */
const PLAIN = /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const FORMS = [[".", " '’,"], [",", " '’."]]; // a decimal mark, and what may stand between groups of three digits

const oneOf = (marks) => `[${marks.replace(/[\]\\^-]/g, "\\$&")}]`; // of none: what nothing matches

/** A text as plain digits, where it is a number with this decimal mark and one of these between groups; else null. */
function digitsOf(said, decimal, groups) {
  const grouped = `[1-9]\\d{0,2}(?<group>${oneOf(groups)})\\d{3}(?:\\k<group>\\d{3})*`;
  const whole = `(?<whole>\\d+|${grouped}|(?=${oneOf(decimal)}\\d))`;
  const form = new RegExp(`^(?<minus>-?)${whole}(?:${oneOf(decimal)}(?<rest>\\d*))?(?<power>e[+-]?\\d+)?$`, "i");
  const found = form.exec(said)?.groups;
  if (!found) return null;
  const { minus, whole: digits, group, rest, power = "" } = found;
  return `${minus}${group ? digits.replaceAll(group, "") : digits}${rest ? `.${rest}` : ""}${power}`;
}

/** What a person typed, as a number: {value}, null for none. As the house writes it; else with a point or a comma, and `either`
    of two where it may be both: "7,432" is seven thousand to some. */
function readTyped(text) {
  const said = text.trim().replace(/^[−–]/, "-").replace(/^\+/, "").replace(/\s/g, " ");
  const { decimal, group } = marksNow();
  const own = digitsOf(said, decimal, group.replace(/\s/, " "));
  const every = own === null ? FORMS.map((form) => digitsOf(said, ...form)) : [own];
  const found = [...new Set(every)].filter((digits) => digits !== null);
  if (found.length > 1) return { value: null, either: found.map(inField) };
  const value = Number(found[0]); // NaN for none
  return { value: Number.isFinite(value) ? value : null };
}

/** A number in the state: {value}, null for none, and `either` as above. */
export function readNumber(text) {
  if (!PLAIN.test(text)) return readTyped(text);
  return { value: Number.isFinite(Number(text)) ? Number(text) : null };
}

/** What a person typed, as the state has it: plain digits; what is no number as it is, apart from what looks plain and is not. */
export function tidied(text) {
  const { value, either } = readTyped(text);
  if (value !== null) return String(value);
  return either && PLAIN.test(text.trim()) ? ` ${text.trim()}` : text.trim();
}

/** What is sought in the data, where numbers are plain: without the marks of the house, if it has any of its own. */
export function plainly(text) {
  const { decimal, group } = marksNow();
  return [decimal === "." ? "" : decimal, group].some((mark) => mark && text.includes(mark)) ? tidied(text) : text;
}

/** A number of the state as a field has it: with the decimal mark of the house, and no groups. */
export const inField = (text) => (PLAIN.test(text) ? text.replace(".", () => marksNow().decimal) : text);

/** A value as it would be typed: enough digits, a point and a plain minus. */
export function typed(v) {
  if (v === null) return "";
  return String(typeof v === "number" && !Number.isInteger(v) ? Number(v.toPrecision(7)) : v);
}

/** A value to read, as a field has it. */
export const shown = (v) => inField(typed(v));
