/* Elements, and text in them. */

const LONG = /\S{19}/; // a word that has to be broken
const QUIET = 400; // milliseconds without a move until a screen reader is told

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

/** A name in which a line may end after each underscore, rather than anywhere. */
export const breaking = (name) => name.split(/(?<=_)/).flatMap((part, i) => (i ? [make("wbr"), part] : [part]));

/** The name at the head of a line. */
export const heading = (name) => make("th", { scope: "row", className: LONG.test(name) ? "long" : "" }, ...breaking(name));

/** What a bar lies in; its number stands beside it. */
export const track = (...bars) => make("div", { className: "track", "aria-hidden": "true" }, ...bars);

/** Prose in which no line ends before a per cent sign, around an equals sign or after "<" and ">". */
export const unbroken = (text) => text.replace(/ (?=[%=])|(?<=[=<>]) /g, "\u00a0");

/** Prose in an element, with names in it that may be long. */
export const prose = (element, text) => element.replaceChildren(...breaking(unbroken(text)));

let rest = 0;

/** A text that follows a slider: a screen reader hears it when the slider has come to rest. */
export function hush(element) {
  element.setAttribute("aria-busy", "true");
  clearTimeout(rest);
  rest = setTimeout(() => element.setAttribute("aria-busy", "false"), QUIET);
}
