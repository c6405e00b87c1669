/* The state: all that a person has asked for. It stands in the address after the #, which browsers do not send to servers:
   a view can be shared, and applicants' data stay out of logs. One step of the browser's history is one step of undo. */

const PLAIN = { model: "", row: "", target: "", prob: "0.6", margin: "0", changes: "", plans: "1", plan: "0", within: "1" };
export const BY_FEATURE = ["set", "hard", "low", "high", "only", "whole", "ban"]; // maps from features to text

/** A map from features, whatever they are called: with nothing inherited, "constructor" is a name like any other. */
const map = (...parts) => Object.assign(Object.create(null), ...parts);

/** The same state with nothing said about single features. */
export const withoutFeatures = (state) => ({ ...state, ...Object.fromEntries(BY_FEATURE.map((name) => [name, map()])) });

export const blank = () => withoutFeatures(PLAIN);

/** The same state with one feature's setting changed; "" removes it. */
export function withFeature(state, setting, feature, value) {
  const { [feature]: _, ...rest } = state[setting];
  return { ...state, [setting]: value === "" ? map(rest) : map(rest, { [feature]: value }) };
}

/** As text for the address: what differs from a blank state, in a fixed order. */
export function write(state) {
  const parts = new URLSearchParams();
  for (const [name, usual] of Object.entries(PLAIN)) if (state[name] !== usual) parts.set(name, state[name]);
  for (const setting of BY_FEATURE) {
    for (const feature of Object.keys(state[setting]).sort()) parts.set(`${setting}.${feature}`, state[setting][feature]);
  }
  return parts.toString();
}

/** Read back; what is not understood is left out. */
export function read(text) {
  const state = blank();
  for (const [key, value] of new URLSearchParams(text)) {
    const dot = key.indexOf(".");
    const setting = key.slice(0, dot);
    if (dot > 0 && BY_FEATURE.includes(setting)) state[setting][key.slice(dot + 1)] = value;
    else if (Object.hasOwn(PLAIN, key)) state[key] = value;
  }
  return state;
}

// ---- the browser's history ----

const TOP = "ifonly.top"; // the newest step that was made in this tab
const PACE = 250; // milliseconds between two rewritings of the address: browsers refuse more than some hundred in half a minute

/** Steps of this tab's history. `onMove` is called with the state when the person goes back, forth, or follows a link. */
export function remember(onMove) {
  let timer = 0;
  let due = null;
  const place = () => history.state?.step ?? 0;
  const top = () => Math.max(Number(sessionStorage.getItem(TOP)) || 0, place());
  const address = (state) => `#${write(state)}`;
  const flush = () => {
    clearTimeout(timer);
    timer = 0;
    if (due) history.replaceState({ step: place() }, "", address(due));
    due = null;
  };
  addEventListener("popstate", () => {
    clearTimeout(timer);
    timer = 0;
    due = null;
    if (history.state === null) {
      // a link was followed, or the address edited
      const step = (Number(sessionStorage.getItem(TOP)) || 0) + 1;
      history.replaceState({ step }, "", location.hash || "#");
      sessionStorage.setItem(TOP, step);
    }
    onMove(read(location.hash.slice(1)));
  });
  if (history.state === null) {
    history.replaceState({ step: 0 }, "", location.hash || "#");
    sessionStorage.setItem(TOP, 0);
  }
  return {
    push(state) {
      flush();
      if (address(state) === location.hash) return;
      const step = place() + 1;
      history.pushState({ step }, "", address(state));
      sessionStorage.setItem(TOP, step);
    },
    replace(state) {
      due = state;
      timer ||= setTimeout(flush, PACE);
    },
    flush,
    canUndo: () => place() > 0,
    canRedo: () => place() < top(),
    undo: () => (flush(), place() > 0 && history.back()),
    redo: () => (flush(), place() < top() && history.forward()),
  };
}
