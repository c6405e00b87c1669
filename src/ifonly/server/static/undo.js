/* Undo and redo by keys and buttons. A field whose text is not part of the state yet keeps the browser's own undo. */

import { isTyping } from "./fields.js";
import { $ } from "./web/dom.js";

/** `steps` are those of the state's history. */
export function undoing(steps) {
  $("undo").addEventListener("click", steps.undo);
  $("redo").addEventListener("click", steps.redo);
  addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey || document.querySelector("dialog[open]")) return;
    const key = event.key.toLowerCase();
    const back = key === "z" && !event.shiftKey;
    const forth = (key === "z" && event.shiftKey) || (key === "y" && !event.shiftKey);
    if (!(back || forth) || isTyping(event.target)) return;
    event.preventDefault();
    if (back) steps.undo();
    else steps.redo();
  });
}
