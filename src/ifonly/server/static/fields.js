/* Fields that a person may be typing into. */

const TEXT = "input:not([type=range], [type=checkbox], [type=radio])";

/** Whether a field has text that is not part of the state yet: someone is typing. */
export function isTyping(control) {
  return control.matches(TEXT) && control === document.activeElement && control.value !== control.dataset.said;
}

/** What a field says; not while someone is typing there. */
export function put(control, value) {
  if (isTyping(control)) return;
  control.value = value;
  control.dataset.said = control.value;
}

for (const kind of ["focusin", "change"]) {
  // before the control's own listeners: what they do may put something else there
  addEventListener(kind, ({ target }) => target.matches(TEXT) && (target.dataset.said = target.value), true);
}

// ---- numbers as people type them ----

const PLAIN = /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const COMMA = /^-?\d*,\d+$/;
const GROUPED = /^-?\d{1,3}([ '’.,])\d{3}(?:\1\d{3})*(?:([.,])\d+)?$/; // 7 432, 1,234.5, 1.234.567,8

/** A text as a number: {value}, null for none; and `either` of two where it may be both: "7,432" is seven thousand to some. */
export function readNumber(text) {
  const said = text.trim().replace(/^[−–]/, "-").replace(/^\+/, "").replace(/\s/g, " ");
  const number = (digits) => ({ value: Number.isFinite(Number(digits)) ? Number(digits) : null });
  if (PLAIN.test(said)) return number(said);
  if (/^-?[1-9]\d{0,2},\d{3}$/.test(said)) return { value: null, either: [said.replace(",", ""), said.replace(",", ".")] };
  if (COMMA.test(said)) return number(said.replace(",", "."));
  const [, group, mark] = GROUPED.exec(said) ?? [];
  if (!group || group === mark) return { value: null };
  return number(said.replaceAll(group, "").replace(",", "."));
}

/** The same number as the page writes it into a field; what is none stays as it is. */
export function tidied(text) {
  const { value } = readNumber(text);
  return value === null ? text.trim() : String(value);
}

/** A value to work with, as it would be typed: enough digits, a point and a plain minus. */
export function typed(v) {
  if (v === null) return "";
  return String(typeof v === "number" && !Number.isInteger(v) ? Number(v.toPrecision(7)) : v);
}
