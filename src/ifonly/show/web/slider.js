/* Arrow keys on a slider for a probability. */

const STEPS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 5, PageDown: -5 };

/** Where a key takes it: to the next whole per cent, with Shift to the next tenth. Null for other keys; Home and End are the
    browser's. */
export function keyed(event, p, least, most) {
  const step = STEPS[event.key];
  if (!step || event.altKey || event.ctrlKey || event.metaKey) return null;
  event.preventDefault();
  const part = event.shiftKey ? 1000 : 100;
  const here = p * part;
  const near = Math.abs(here - Math.round(here)) < 1e-6 ? Math.round(here) : step > 0 ? Math.floor(here) : Math.ceil(here);
  return Math.min(Math.max((near + step) / part, least), most);
}
