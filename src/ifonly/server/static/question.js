/* From the state to the body of a request, and the limits in words. */

import { inField, readNumber, shown } from "./fields.js";
import { EXACT_DIGITS, number, quoted, value } from "./web/numbers.js";

export const WORDS = ["very easy", "easy", "medium", "hard", "very hard", "impossible"];
export const USUAL = "medium";
const NARROW = 40; // features: up to here all are listed, and those that are whole in the data stay whole
const TOP = 60; // changes that are told one by one

export const isNarrow = (model) => model.features.length <= NARROW;
export const isNumber = (feature) => !feature.values;

/** Which of a category's values one is; −1 for none. */
export const placeOf = (feature, value) => feature.values.findIndex((other) => String(other) === String(value));

/** The features with what a reader calls them (of a picture: where it is); a flag is one of two values. */
export function labelled(features, image) {
  const [, width, channels = 1] = image ?? [];
  return features.map((found, i) => {
    const flag = { values: [false, true], low: null, high: null, typical: Boolean(found.typical) };
    const feature = found.kind === "flag" ? { ...found, ...flag } : found;
    const at = Math.floor(i / channels);
    const colour = channels > 1 ? `, ${["red", "green", "blue"][i % channels]}` : "";
    if (image) return { ...feature, label: `row ${Math.floor(at / width) + 1}, column ${(at % width) + 1}${colour}` };
    const called = feature.label ?? (/^\d+$/.test(feature.name) ? `feature ${feature.name}` : feature.name); // by the policy
    return { ...feature, called, label: feature.unit ? `${called} (${feature.unit})` : called };
  });
}

/** A class, as the policy calls it. */
export const called = (model, label) => model.policy?.classes[String(label)] ?? String(label);

/** A value of a feature, as the policy calls it. */
export const spoken = (feature, v) => feature.value_labels?.[String(v)] ?? value(v);

/** Whether the person may choose this: "target" or "prob", which a policy may have settled. */
export const mayChoose = (model, what) => !model.policy || model.policy[what] === null || model.policy.may_choose.includes(what);

/** What is wanted: the person's choice, or the policy's. */
export const wanted = (state, model, what) => (mayChoose(model, what) ? state[what] : String(model.policy[what]));

/** The values of a category that the person has ruled out. */
export const banned = (state, feature) => new Set(feature.name in state.ban ? state.ban[feature.name].split("\n") : []);

/** Whether a feature has whole numbers: as the person says, or as the data have it. Not the pixels of a picture. */
export function isWhole(state, model, feature) {
  const said = state.whole[feature.name];
  return isNumber(feature) && (said === undefined ? feature.whole && !model.image && isNarrow(model) : said === "1");
}

/** A number where the text is one; otherwise the text. */
const parsed = (text) => readNumber(text).value ?? text;

/** A value as the model has it: one of its categories, or a number. */
function valueOf(feature, text) {
  return feature.values ? (feature.values.find((v) => String(v) === text) ?? text) : parsed(text);
}

/** The row that is asked about, with what the person typed. */
export function rowNow(state, model, row) {
  const value = (f) => (f.name in state.set ? valueOf(f, state.set[f.name]) : row.values[f.name]);
  return Object.fromEntries(model.features.map((f) => [f.name, value(f)]));
}

function bounds(state, model, now) {
  const seen = state.within === "1";
  const own = (feature) => feature.name in state.low || feature.name in state.high;
  if (seen && model.image && !model.features.some(own)) {
    // one pair for all pixels
    const values = Object.values(now).filter((v) => typeof v === "number");
    const ends = (side, least) => least(...values, ...model.features.map((f) => f[side]).filter((v) => v !== null));
    const pair = [ends("low", Math.min), ends("high", Math.max)];
    return pair.every(Number.isFinite) && pair[0] < pair[1] ? pair : undefined;
  }
  const found = {};
  for (const feature of model.features) {
    const { name } = feature;
    if (!own(feature) && !(seen && isNumber(feature) && feature.low !== null)) continue;
    const usual = (side, choose) => {
      const value = now[name];
      if (!seen || !isNumber(feature) || feature[side] === null) return null;
      return typeof value === "number" ? choose(feature[side], value) : feature[side]; // a row beyond the data may stay there
    };
    const end = (map, side, choose) => (name in map ? valueOf(feature, map[name]) : usual(side, choose));
    found[name] = [end(state.low, "low", Math.min), end(state.high, "high", Math.max)];
  }
  return Object.keys(found).length ? found : undefined;
}

/** The body of a request. */
export function question(state, model, row) {
  const named = (keep) => model.features.filter(keep).map((f) => f.name);
  const now = rowNow(state, model, row);
  const choices = model.features.filter((f) => f.kind === "category" && f.name in state.ban);
  const allowed = (f) => f.values.filter((v) => !banned(state, f).has(String(v)));
  const dear = model.features.filter((f) => (state.hard[f.name] ?? USUAL) !== USUAL);
  const target = wanted(state, model, "target");
  const actions = {
    bounds: bounds(state, model, now),
    increase: named((f) => state.only[f.name] === "up"),
    decrease: named((f) => state.only[f.name] === "down"),
    integer: named((f) => isWhole(state, model, f)),
    allow: Object.fromEntries(choices.map((f) => [f.name, allowed(f)])),
  };
  const body = {
    model: model.name,
    target: target === "" ? null : (model.classes.find((c) => String(c) === target) ?? target),
    cost: { difficulty: Object.fromEntries(dear.map((f) => [f.name, state.hard[f.name]])) },
    actions,
    detail: "page",
    top: TOP,
  };
  if (row.index === null) body.row = model.named === false ? model.features.map((f) => now[f.name]) : now;
  else {
    body.index = row.index;
    body.edits = Object.fromEntries(named((f) => f.name in state.set).map((name) => [name, now[name]]));
  }
  if (model.hard) body.margin = parsed(state.margin);
  else body.prob = parsed(wanted(state, model, "prob"));
  if (state.changes !== "") body.max_changes = parsed(state.changes);
  if (Number(state.plans) > 1) body.n = Number(state.plans);
  return without(body);
}

/** Nothing that is empty: the plain question stays plain, and fast. A row is as it is. */
function without({ row, ...body }) {
  const full = (v) => v !== undefined && (v === null || typeof v !== "object" || Object.keys(v).length > 0);
  const clean = (part) =>
    Object.fromEntries(
      Object.entries(part)
        .map(([key, v]) => [key, v !== null && typeof v === "object" && !Array.isArray(v) ? clean(v) : v])
        .filter(([, v]) => full(v)),
    );
  return row === undefined ? clean(body) : { ...clean(body), row };
}

/** The question without the number that is dragged, as text: two with the same text differ in nothing else. `sliding` is the
    feature whose value is dragged, if one is. */
export function baseOf({ prob: _, margin: __, ...body }, sliding = null) {
  if (sliding === null) return JSON.stringify(body);
  const { [sliding.name]: ___, ...edits } = body.edits ?? {};
  const row = Array.isArray(body.row) ? body.row.with(sliding.place, null) : body.row && { ...body.row, [sliding.name]: null };
  return JSON.stringify({ ...body, edits, row });
}

/** A feature's limits in a few words; "" for none. */
export function limitWords(state, model, feature) {
  const { name } = feature;
  const said = (v) => {
    const { value: end } = isNumber(feature) ? readNumber(v) : { value: null };
    return end === null ? spoken(feature, v) : number(end, EXACT_DIGITS); // a limit is what it is
  };
  const by = (end) => (end === undefined || end === null ? undefined : String(end)); // the policy
  const [low, high] = [state.low[name] ?? by(feature.least), state.high[name] ?? by(feature.most)];
  const parts = [];
  if (low !== undefined && high !== undefined) parts.push(`${said(low)} to ${said(high)}`);
  else if (low !== undefined) parts.push(`≥ ${said(low)}`);
  else if (high !== undefined) parts.push(`≤ ${said(high)}`);
  const only = { increase: "up", decrease: "down" }[feature.only] ?? state.only[name];
  if (only) parts.push(`only ${only}`);
  const out = [...banned(state, feature), ...(feature.never ?? [])].map((v) => spoken(feature, v));
  if (out.length) parts.push(`not ${[...new Set(out)].join(", ")}`);
  if (feature.step) parts.push(`multiples of ${number(feature.step, EXACT_DIGITS)}`);
  else if (isWhole(state, model, feature)) parts.push("whole");
  return parts.join(", ");
}

/** The limits in the way of a wish, as the library names them, in the page's own words. */
export function inTheWay(blocking, state, model) {
  const said = blocking.map((text) => {
    const [, frozen] = /^(.*) is frozen$/s.exec(text) ?? [];
    for (const { name, called, label, frozen: always } of frozen === undefined ? [] : model.features) {
      if (frozen === name || frozen === called) return `${label} is locked`;
      const [of] = [`${name}=`, `${called}: `].filter((start) => frozen.startsWith(start)); // one value of a category
      if (of) return always || state.hard[name] === "impossible" ? `${label} is locked` : `${label} may not become ${frozen.slice(of.length)}`;
    }
    return quoted(text);
  });
  return [...new Set(said)];
}

/** What was asked for besides the decision, a line each: for the receipt. */
export function conditions(state, model, row) {
  const lines = [];
  for (const feature of model.features) {
    const parts = [];
    const { name } = feature;
    const locked = feature.frozen || state.hard[name] === "impossible";
    if (locked) parts.push("cannot change");
    else if (state.hard[name] && state.hard[name] !== USUAL) parts.push(`${state.hard[name]} to change`);
    const limits = limitWords(state, model, feature);
    if (limits && !locked) parts.push(limits);
    if (name in state.set && row.index !== null) {
      parts.push(`taken as ${inField(state.set[name])} (the row has ${shown(row.values[name])})`);
    }
    if (parts.length) lines.push(`${feature.label}: ${parts.join("; ")}`);
  }
  const seen = model.features.some((f) => f.low !== null);
  if (state.within === "1" && seen) lines.push("All numbers stay within the range seen in the data.");
  if (state.changes !== "") lines.push(`At most ${state.changes} features change.`);
  return lines;
}
