/* Several plans side by side, and bookmarks to compare. */

import { called } from "./question.js";
import { $, make } from "./web/dom.js";
import { count, number, percent } from "./web/numbers.js";

const NAMED = 6; // changes on a card
const COMPARED = 20; // features in the table of bookmarks
const STORE = "ifonly.bookmarks";
const MOST = 12; // bookmarks

/** Cards, one a plan; `pick` takes the number of the one that was chosen. */
export function drawPlans(answers, chosen, wanted, model, pick) {
  $("options").hidden = wanted < 2;
  if (wanted < 2) return;
  const box = $("cards");
  const made = [...box.children];
  answers.forEach((answer, i) => {
    const card = made[i] ?? box.appendChild(newCard(i, pick));
    card.querySelector("input").checked = i === chosen;
    card.querySelector(".figures").textContent = figures(answer, model);
    const item = (c) => make("li", {}, `${c.label} `, make("span", { textContent: moved(c, c.bound) }));
    const items = answer.changes.slice(0, NAMED).map(item);
    const rest = answer.n_changes - items.length;
    if (rest > 0) items.push(make("li", { className: "note", textContent: `and ${rest} more` }));
    card.querySelector("ul").replaceChildren(...items);
  });
  for (const extra of made.slice(answers.length)) extra.remove();
  const only = answers.length === 1 ? "There is only this one" : `There are only these ${answers.length}`;
  $("fewer").textContent = answers.length < wanted ? `${only}: no other set of features will do.` : "";
}

function newCard(i, pick) {
  const radio = make("input", { type: "radio", name: "plan" });
  radio.addEventListener("change", () => pick(i));
  const title = make("span", { className: "title" }, radio, ` Plan ${i + 1}${i === 0 ? ", the smallest" : ""}`);
  return make("label", { className: "card" }, title, make("ul"), make("span", { className: "figures" }));
}

/** `36 → at most 24`, or without the bound. */
const moved = ({ before_text: before, after_text: after }, bound = "") => `${before} → ${bound && `${bound} `}${after}`;

function figures(answer, model) {
  const parts = [`size ${number(answer.distance, 3)}`, count(answer.n_changes, "change")];
  return (model.hard ? parts : [percent(answer.decision.p_to, "tenths"), ...parts]).join(" · ");
}

// ---- bookmarks ----

/* In localStorage, so that they outlive the tab. Not in the address, where the view has its place: twelve plans would make a
   link that is too long to send, and sending one would send them all. */

const stored = () => {
  try {
    const found = JSON.parse(localStorage.getItem(STORE));
    return Array.isArray(found) ? found.filter((mark) => mark.address && mark.facts && mark.changes) : [];
  } catch {
    return []; // not ours, damaged, or not allowed
  }
};

const WHERE = {
  kept: "Kept in this browser until you remove them, and sent nowhere.",
  lost: "This browser keeps nothing: they last until the page is closed.",
};

export class Bookmarks {
  #all = stored();
  #served = new Map(); // from the names of the models that are served to their fingerprints
  #where = "kept";

  constructor() {
    addEventListener("storage", ({ key }) => {
      if (key !== STORE && key !== null) return;
      this.#all = stored(); // changed in another tab
      this.draw();
    });
    $("forget").addEventListener("click", () => {
      this.#save(this.#all.filter((mark) => !this.#served.has(mark.model)));
      $("bookmark").focus();
    });
  }

  /** The models that are served: marks of others, from another day at the same address, stay where they are. */
  load(models) {
    this.#served = new Map(models.map(({ name, fingerprint }) => [name, fingerprint]));
    this.draw();
  }

  /** Keep an answer; `address` brings it back. Returns whether it was new. */
  add(answer, model, who, address) {
    if (this.#all.some((mark) => mark.address === address && mark.fingerprint === model.fingerprint)) return false;
    const facts = [
      ["Model", model.name],
      ["Decision", called(model, answer.decision.to)],
      ["Probability", model.hard ? "–" : percent(answer.decision.p_to, "tenths")],
      ["Size of the change", number(answer.distance, 3)],
      ["Changes", String(answer.n_changes)],
    ];
    const changes = answer.changes.slice(0, COMPARED).map((c) => [c.label, moved(c)]);
    const { name, fingerprint } = model;
    this.#served.set(name, fingerprint);
    this.#save([...stored(), { address, who, facts, changes, model: name, fingerprint }].slice(-MOST));
    return true;
  }

  #save(marks) {
    this.#all = marks;
    try {
      localStorage.setItem(STORE, JSON.stringify(marks));
    } catch {
      this.#where = "lost";
    }
    this.draw();
  }

  /** A column for each, a line for each fact and each feature that changes in one of them. */
  draw() {
    const marks = this.#all.filter((mark) => this.#served.has(mark.model));
    $("marks").hidden = !marks.length;
    $("where-kept").textContent = WHERE[this.#where];
    const names = (key) => [...new Set(marks.flatMap((mark) => mark[key].map(([name]) => name)))];
    const line = (key) => (name) => {
      const cells = marks.map((mark) => make("td", { textContent: mark[key].find(([other]) => other === name)?.[1] ?? "·" }));
      return make("tr", {}, make("th", { scope: "row", textContent: name }), ...cells);
    };
    const heads = marks.map((mark, i) => {
      const remove = make("button", { type: "button", textContent: "Remove", "aria-label": `Remove bookmark ${i + 1}` });
      remove.addEventListener("click", () => {
        this.#save(this.#all.filter((other) => other !== mark));
        ($("compare").querySelector("button") ?? $("bookmark")).focus();
      });
      const old = mark.fingerprint !== this.#served.get(mark.model);
      const note = old ? [make("p", { className: "note", textContent: "The model has changed since." })] : [];
      return make("th", { scope: "col" }, make("a", { href: `#${mark.address}`, textContent: mark.who }), ...note, remove);
    });
    const lines = [...names("facts").map(line("facts")), ...names("changes").slice(0, COMPARED).map(line("changes"))];
    $("compare").replaceChildren(make("thead", {}, make("tr", {}, make("td"), ...heads)), make("tbody", {}, ...lines));
  }
}
