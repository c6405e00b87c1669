/* What the answer is, in short: decisions, the sentence, bars, and what it is worth. */

import { called } from "./question.js";
import { bar, others } from "./web/bars.js";
import { $, hush, prose, unbroken } from "./web/dom.js";
import { asked, count, percent } from "./web/numbers.js";

const BARS = 6; // classes that have a bar of their own

let order = []; // the classes with bars, settled when the question changes

export function drawAnswer(answer, model, { plan, settled }) {
  const { decision } = answer;
  const chance = (p) => (model.hard ? "" : unbroken(`${percent(p, "tenths")} for ${called(model, answer.target)}`));
  $("decided-now").textContent = called(model, decision.from);
  $("chance-now").textContent = chance(decision.p_from);
  $("decided-then").textContent = called(model, decision.to);
  $("chance-then").textContent = chance(decision.p_to);
  hush($("sentence"));
  $("told").style.minHeight = settled ? "" : `${$("told").offsetHeight}px`; // nothing below it jumps while a slider is dragged
  prose($("sentence"), said(answer, model));
  $("verdict").textContent = verdict(answer, plan);
  prose($("proof"), answer.status === "unreachable" ? "What is shown is the best there is." : answer.certificate);
  $("chances").hidden = model.hard;
  if (!model.hard) drawBars(answer, model, settled);
  drawBrief(answer, model);
}

/** The answer in a line: of one that is scrolled away. */
function drawBrief(answer, model) {
  const { decision, changes, status } = answer;
  const [target, from, to] = [answer.target, decision.from, decision.to].map((label) => called(model, label));
  const tenths = (p) => unbroken(percent(p, "tenths"));
  $("brief-now").textContent = `${model.hard ? from : tenths(decision.p_from)} →`;
  $("brief-then").textContent = model.hard ? to : `${tenths(decision.p_to)} for ${target}`;
  const pixels = `${count(answer.n_changes, "pixel")} ${answer.n_changes === 1 ? "changes" : "change"}`;
  const each = changes.map((change) => `${change.label} ${change.before_text} → ${change.after_text}`);
  const moves = model.image && each.length ? [pixels] : each;
  const none = status === "unreachable" ? said(answer, model) : "Nothing has to change.";
  prose($("brief-how"), status === "unreachable" || !moves.length ? none : moves.join(" · "));
}

/** Show the line whenever the sentence's beginning is above the window, or under what sticks to its upper edge. */
export function keepInView() {
  const look = () => {
    const sticky = getComputedStyle($("control")).position === "sticky" ? $("control").offsetHeight : 0;
    $("brief").hidden = $("sentence").getBoundingClientRect().top >= sticky;
  };
  for (const kind of ["scroll", "resize"]) addEventListener(kind, look, { passive: true });
}

/** The certificate in one short sentence; the server's own words follow it. Of several plans the first is the smallest of all;
    each of the others is the smallest that changes its own set of features, of which none can be left out. */
export function verdict({ status, n_changes }, plan) {
  if (status === "unreachable") return "No allowed change is enough.";
  if (status !== "exact" && status !== "converged") return "";
  if (plan > 0) return "The smallest change of its kind; plan 1 is smaller still.";
  return n_changes ? "No smaller change exists." : "Nothing has to change.";
}

/** The library's sentence; but what is in the way stands below it, and nobody wants to hear of a picture's pixels one by one. */
function said({ decision, status, target, prob, n_changes, sentence }, model) {
  const [wanted, from, to] = [target, decision.from, decision.to].map((label) => called(model, label));
  if (status === "unreachable" && !model.hard) return `No allowed change makes ${wanted} as probable as ${asked(prob)}.`;
  if (!model.image || !n_changes) return sentence;
  const chance = model.hard ? "" : ` (${percent(decision.p_to)})`;
  const change = `If only ${count(n_changes, "pixel")} of the picture were different, the decision would`;
  return from === to ? `${change} still be ${to}${chance}.` : `${change} be ${to}${chance} instead of ${from}.`;
}

/** Few classes are all shown; of many those that matter. Their order is kept while a slider is dragged. */
function drawBars({ proba, proba_now: now, target, decision }, model, settled) {
  const names = Object.keys(proba);
  if (settled || !order.length || order.some((name) => !(name in proba))) {
    const first = [target, decision.from].map(String);
    const size = (name) => Math.max(proba[name], now[name]) + (first.includes(name) ? 1 : 0);
    order = names.sort((a, b) => size(b) - size(a)).slice(0, BARS);
  }
  const sum = (p) => Math.max(1 - order.reduce((total, name) => total + p[name], 0), 0);
  const rest = names.length - order.length;
  const rows = order.map((name) => bar(called(model, name), now[name], proba[name], name === String(target) ? "wanted" : ""));
  if (rest > 0) rows.push(others(rest, sum(now), sum(proba)));
  $("bars").replaceChildren(...rows);
}
