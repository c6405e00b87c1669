/* What is wrong, said beside the field that it is about; or at the top, where there is none. */

import { $, make } from "./web/dom.js";

const FIELDS = { prob: "exact", margin: "exact", max_changes: "few", target: "target", index: "row", n: "plans" };

/** `find` gives the control of a feature for a path such as "edits.duration"; `mend` is what the button at the top does. */
export function complain(refusal, find, mend) {
  calm();
  const path = refusal.field ?? "";
  const control = FIELDS[path] ? $(FIELDS[path]) : path && find(path);
  if (control) {
    const note = make("p", { className: "error", id: "complaint", textContent: refusal.message, role: "alert" });
    control.setAttribute("aria-invalid", "true");
    control.setAttribute("aria-describedby", "complaint");
    if (control.closest(".is")) control.after(note);
    else control.closest(".field, .exactly, td, label").append(note);
    return;
  }
  $("trouble").hidden = false;
  $("trouble").querySelector("span").textContent = refusal.message;
  $("again").hidden = mend === null;
  if (mend) Object.assign($("again"), { textContent: mend.words, onclick: mend.act });
}

export function calm() {
  $("trouble").hidden = true;
  $("complaint")?.remove();
  for (const control of document.querySelectorAll("[aria-invalid]")) {
    control.removeAttribute("aria-invalid");
    control.removeAttribute("aria-describedby");
  }
}
