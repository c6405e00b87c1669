/* Elements, and numbers as people write them. */

export const $ = (id) => document.getElementById(id);

/** An element with properties, attributes (those with a dash, and "role") and children. */
export function make(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

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

/** What a bar lies in; its number stands beside it. */
export const track = (...bars) => make("div", { className: "track", "aria-hidden": "true" }, ...bars);

const THIN = "\u202f";

/** A probability in per cent, rounded down to a tenth: what it says is reached, as in the library's own sentences. */
export function percent(p) {
  const tenths = Math.floor(1000 * p * (1 + 1e-12)) / 10;
  const words = p > 0 && tenths < 0.1 ? "< 0.1" : p < 1 && p > 0.9995 ? "> 99.9" : tenths.toFixed(1);
  return `${words}${THIN}%`;
}

/** The same without a decimal that is nought. */
export const short = (p) => percent(p).replace(".0", "");

/** A number with a few digits: 1234, 0.4355, 1.2 × 10⁻⁷. */
export function number(v, digits = 4) {
  if (typeof v !== "number" || !Number.isFinite(v)) return "–";
  const size = Math.abs(v);
  if (size && (size < 1e-4 || size >= 1e15)) {
    const [lead, power] = v.toExponential(1).split("e");
    const raised = [...String(Number(power))].map((d) => (d === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[d])).join("");
    return `${lead.replace("-", "−")} × 10${raised}`;
  }
  const before = Math.floor(Math.log10(size)) + 1; // digits before the point are never dropped
  return String(Number.isInteger(v) ? v : Number(v.toPrecision(Math.max(digits, before)))).replace("-", "−");
}

/** What stands in a field that a person may edit: enough digits to work with, a point and a plain minus. */
export function field(v) {
  if (v === null) return "";
  return String(typeof v === "number" && !Number.isInteger(v) ? Number(v.toPrecision(7)) : v);
}

/** "1 change", "2 changes". */
export const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
