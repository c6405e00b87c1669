/* Choosing a row of the data: search, filter by decision, page. */

import { get } from "./ask.js";
import { plainly, shown } from "./fields.js";
import { called, spoken } from "./question.js";
import { $, make } from "./web/dom.js";
import { number, percent } from "./web/numbers.js";

const PAGE = 20;
const COLUMNS = 6; // features shown of each row
const PAUSE = 150; // milliseconds after a key before the server is asked

export class Rows {
  #offset = 0;
  #control = null;
  #timer = 0;

  /** `pick` takes the number of the row that was chosen. */
  constructor(pick) {
    this.pick = pick;
    const afresh = () => {
      this.#offset = 0;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#load(), PAUSE);
    };
    $("q").addEventListener("input", afresh);
    $("decided").addEventListener("change", afresh);
    $("search").addEventListener("submit", (event) => event.preventDefault());
    $("back").addEventListener("click", () => this.#turn(-PAGE));
    $("forth").addEventListener("click", () => this.#turn(PAGE));
  }

  load(model, picture) {
    Object.assign(this, { model, picture });
    this.#offset = 0;
    $("q").value = "";
    $("decided").replaceChildren(new Option("any", ""), ...model.classes.map((c) => new Option(called(model, c), String(c))));
  }

  open() {
    $("rows-dialog").showModal();
    $("q").focus();
    this.#load();
  }

  #turn(by) {
    this.#offset = Math.max(this.#offset + by, 0);
    this.#load();
  }

  async #load() {
    clearTimeout(this.#timer);
    this.#control?.abort();
    this.#control = new AbortController();
    const page = { model: this.model.name, offset: this.#offset, limit: PAGE };
    try {
      const sought = { q: plainly($("q").value.trim()), class: $("decided").value };
      this.#draw(await get("v1/rows", { ...page, ...sought }, this.#control.signal));
      $("rows-trouble").hidden = true;
    } catch (error) {
      if (error.name === "AbortError") return;
      $("rows-trouble").hidden = false;
      $("rows-trouble").textContent = error.message;
    }
  }

  /** `matched` is null as long as a search in a long table has not seen all of it: asked again, it goes on. */
  #draw({ rows, matched }) {
    if (matched === null && rows.length < PAGE) this.#timer = setTimeout(() => this.#load(), PAUSE);
    const { keys } = this.model;
    const columns = this.model.image ? [] : this.model.features.slice(0, COLUMNS);
    const lines = rows.map((row) => {
      const button = make("button", { type: "button", textContent: row.index, "aria-label": `Row ${row.index}` });
      button.addEventListener("click", () => {
        $("rows-dialog").close();
        this.pick(row.index);
      });
      const values = valuesOf(row, this.model);
      const cells = columns.map((f) => make("td", { textContent: spoken(f, values[f.name]) }));
      if (this.picture) {
        const canvas = make("canvas", { className: "thumb", role: "img", "aria-label": `Picture of row ${row.index}` });
        this.picture.paint(canvas, this.picture.values(values));
        cells.push(make("td", {}, canvas));
      }
      const chance = row.proba ? ` ${percent(row.proba[row.predicted], "tenths")}` : "";
      const decided = make("td", { textContent: row.problem ?? called(this.model, row.predicted) + chance });
      const about = keys.map((key) => make("td", { textContent: shown(row.keys[key]) }));
      return make("tr", {}, make("th", { scope: "row" }, button), decided, ...about, ...cells);
    });
    const heads = ["Row", "The model decides", ...keys, ...columns.map((f) => f.label), ...(this.picture ? ["Picture"] : [])];
    const head = heads.map((text) => make("th", { scope: "col", textContent: text }));
    $("found").replaceChildren(make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...lines));
    const last = this.#offset + rows.length;
    const none = matched === null ? "Searching…" : "Nothing found.";
    $("where").textContent = rows.length ? `${number(this.#offset + 1)} to ${number(last)} of ${matched === null ? "more" : number(matched)}` : none;
    $("back").disabled = this.#offset === 0;
    $("forth").disabled = matched === null ? rows.length < PAGE : last >= matched;
  }
}

/** A row's values by the features' names, however the server lists them. */
export function valuesOf(row, model) {
  return Array.isArray(row.values) ? Object.fromEntries(model.features.map((f, i) => [f.name, row.values[i]])) : row.values;
}
