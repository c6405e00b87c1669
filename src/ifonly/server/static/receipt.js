/* The receipt: the plan, the model's fingerprint and the certificate, on one sheet of paper. */

import { verdict } from "./answer.js";
import { inField } from "./fields.js";
import { called, conditions, wanted } from "./question.js";
import { $, make } from "./web/dom.js";
import { asked, number, percent } from "./web/numbers.js";

export function openReceipt(view) {
  $("paper").replaceChildren(...sheet(view));
  $("receipt").showModal();
}

function sheet({ answer, plan, state, model, row, who }) {
  const unsaid = answer.n_changes - answer.changes.length;
  const limits = conditions(state, model, row);
  const again = make("code", { textContent: 'ifonly.verify("receipt.json", model)' });
  return [
    make("p", { className: "said", textContent: answer.sentence }),
    changes(answer),
    ...(unsaid > 0 ? [note(`And ${unsaid} smaller changes, which the saved receipt has.`)] : []),
    make("p", {}, make("strong", { textContent: verdict(answer, plan) }), ` ${answer.certificate}`),
    facts(answer, state, model, who),
    ...(limits.length ? [make("h3", { textContent: "Under these conditions" }), list(limits)] : []),
    note("To check it later, save it as JSON: ", again, " works everything out again from the model alone."),
  ];
}

function changes(answer) {
  const heads = ["Feature", "Now", "If only", "Difference"].map((text) => make("th", { scope: "col", textContent: text }));
  const lines = answer.changes.map((c) => {
    const texts = [c.before_text, c.after_text, c.change_text];
    const cells = texts.map((text) => make("td", { className: "number", textContent: text }));
    return make("tr", {}, make("th", { scope: "row", textContent: c.label }), ...cells);
  });
  return make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...lines));
}

function facts({ decision, distance, status, ...answer }, state, model, who) {
  const [target, from, to] = [answer.target, decision.from, decision.to].map((label) => called(model, label));
  const wish = model.hard ? `ahead of every other by ${inField(state.margin)}` : `with ${asked(Number(wanted(state, model, "prob")))} or more`;
  const pairs = [
    ["Model", model.name],
    ["Fingerprint", model.fingerprint],
    ["Input", who],
    ["Asked for", `${target}, ${wish}`],
    ["Decision now", from],
    ["Decision then", model.hard ? to : `${to}, ${percent(decision.p_to, "tenths")} for ${target}`],
    ["Size of the change", number(distance)],
    ["Status", status],
    ["Written", new Date().toLocaleString(undefined, { dateStyle: "long", timeStyle: "short" })],
  ];
  const fact = ([name, text]) => {
    const value = make("dd", { textContent: text, className: name === "Fingerprint" ? "print" : "" });
    return make("div", {}, make("dt", { textContent: name }), value);
  };
  return make("dl", { className: "facts" }, ...pairs.map(fact));
}

const note = (...words) => make("p", { className: "note" }, ...words);
const list = (lines) => make("ul", {}, ...lines.map((text) => make("li", { textContent: text })));
