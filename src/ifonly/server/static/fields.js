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

/** A value to work with, as it would be typed: enough digits, a point and a plain minus. */
export function typed(v) {
  if (v === null) return "";
  return String(typeof v === "number" && !Number.isInteger(v) ? Number(v.toPrecision(7)) : v);
}
