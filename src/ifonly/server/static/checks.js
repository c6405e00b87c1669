/* What was typed, checked before anybody is asked: each problem in the page's own words, with the field that it is about. */

import { inField, readNumber } from "./fields.js";
import { isNumber } from "./question.js";
import { number, quoted } from "./web/numbers.js";

/* A value so many ranges of the data away from them is a slip of the finger. The answer would have no digits left for anything
   else, and a search for whole numbers between there and the data would take all of a request's time. */
const FAR = 1000;
const LARGEST = 1e15; // where there are no data; whole numbers are no longer told apart soon after

/** Why a text is no number; null where it is one. */
function noNumber(text) {
  const { value, either } = readNumber(text);
  if (either) return `“${text.trim()}” can be ${either[0]} or ${either[1]}: type one of these.`;
  return value === null ? `“${text}” is not a number. Type one such as 12 or ${inField("33.5")}.` : null;
}

/** Why a number cannot be reckoned with. */
function tooFar(text, { label, low, high }) {
  const { value } = readNumber(text);
  if (Math.abs(value) > LARGEST) return "This is too large a number to compute with.";
  if (low === null) return null;
  const range = Math.max(high - low, Math.abs(low), Math.abs(high)) || 1;
  if (value >= low - FAR * range && value <= high + FAR * range) return null;
  return `This is too far from the data, where ${label} goes from ${number(low)} to ${number(high)}.`;
}

/** What is wrong with the limits of a feature, and the end that it is about. */
function limitProblem(state, { name }) {
  const ends = [state.low[name], state.high[name]];
  for (const [i, text] of ends.entries()) {
    if (text === undefined) continue;
    const problem = noNumber(text) ?? tooFar(text, { low: null });
    if (problem) return [problem, `actions.bounds.${name}.${i}`];
  }
  const [low, high] = ends.map((text) => (text === undefined ? null : readNumber(text).value));
  if (low === null || high === null || low <= high) return null;
  const words = `At least ${number(low)} and at most ${number(high)} leave nothing: the first must be the smaller one.`;
  return [words, `actions.bounds.${name}.0`];
}

function featureProblem(state, model) {
  for (const feature of model.features.filter(isNumber)) {
    const text = state.set[feature.name];
    const problem = text === undefined ? null : (noNumber(text) ?? tooFar(text, feature));
    if (problem) return [problem, `edits.${feature.name}`];
    const wrong = limitProblem(state, feature);
    if (wrong) return wrong;
  }
  return null;
}

function goalProblem({ prob, margin }, hard) {
  const { value } = readNumber(hard ? margin : prob);
  if (hard) return value !== null && value >= 0 ? null : ["The lead must be a number, 0 or more.", "margin"];
  if (value !== null && value > 0 && value < 1) return null;
  const why = value === null ? "Type a number of per cent, such as 80." : "It must be more than 0 % and less than 100 %.";
  return [why, "prob"];
}

function countProblem({ changes }) {
  const { value } = changes === "" ? { value: 0 } : readNumber(changes);
  if (Number.isSafeInteger(value) && value >= 0) return null;
  return ["Type a whole number, 0 or more; or leave it empty for any number of changes.", "max_changes"];
}

/** The first thing that is wrong: [words, path into the question]; null if nothing is. */
export const firstProblem = (state, model) =>
  goalProblem(state, model.hard) ?? countProblem(state) ?? featureProblem(state, model);

const NAMES = {
  prob: "The probability",
  margin: "The lead",
  max_changes: "The number of changes",
  n: "The number of plans",
  index: "The row",
};
const OVER =
  "The server could not work this out in the time it has. " +
  "Ask for fewer plans or fewer limits, or try values nearer to the data.";

const said = (v) => (/^-?inf$/.test(v) ? v.replace("inf", "∞") : Number.isNaN(Number(v)) ? v : number(Number(v)));
const span = (low, high) => `${said(low)} to ${said(high)}`;
const limits = (range) =>
  range.replace(/^(at least |at most |)(\S+)(?: to (\S+))?/, (_, word, low, high) => word + (high ? span(low, high) : said(low)));

/* What the library says of a row and limits that do not go together, and what the page says instead. */
const CLASHES = [
  [
    /^(.+) is frozen at (\S+), outside its bounds \[(\S+), (\S+)\]$/s,
    (name, at, low, high) => `${name} is locked at ${said(at)}, but its limits are ${span(low, high)}.`,
  ],
  [
    /^(.+) is (\S+) and may only (rise|fall): there is no value for it in \[(\S+), (\S+)\]/s,
    (name, at, way, low, high) => {
      const only = way === "rise" ? "up" : "down";
      return `${name} is ${said(at)} and may only go ${only}, but its limits are ${span(low, high)}.`;
    },
  ],
  [
    /^(.+) is \S+: there is no value for it in \[(\S+), (\S+)\] in steps of 1$/s,
    (name, low, high) => `There is no whole number for ${name} from ${span(low, high)}.`,
  ],
  [
    /^bounds of (.+): (\S+) is not at most (\S+)$/s,
    (name, low, high) => `At least ${said(low)} and at most ${said(high)}: that leaves nothing for ${name}.`,
  ],
  [/^bounds of (.+): the policy allows (.+); got .+$/s, (name, range) => `For ${name} the policy allows ${limits(range)}.`],
];

/** What the server says, in the page's words: fields by what they are called here. */
export function inOurWords({ message, field, status }, model) {
  if (status === 504) return OVER;
  for (const [pattern, words] of CLASHES) {
    const [, name, ...numbers] = pattern.exec(message) ?? [];
    if (name !== undefined) return words(model?.labels.get(name) ?? name, ...numbers);
  }
  if (!field || !message.startsWith(field)) return quoted(message);
  const place = field.replace(/\.[01]$/, ""); // of a limit: which end of it
  const feature = model?.features.find((f) => field.endsWith(`.${f.name}`) || place.endsWith(`.${f.name}`));
  const name = NAMES[field] ?? feature?.label;
  return quoted(name ? name + message.slice(field.length) : message);
}
