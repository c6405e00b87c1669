/* The slider for the wanted probability, and the field beside it for an exact one. For a model with scores only: the field. */

import { put, readNumber, tidied } from "./fields.js";
import { called, mayChoose, wanted } from "./question.js";
import { $ } from "./web/dom.js";
import { percent } from "./web/numbers.js";
import { keyed } from "./web/slider.js";

const [LEAST, MOST] = [0.5, 0.99]; // ends, unless what is wanted is beyond
const PAUSE = 800; // milliseconds after a key until the next one is a new step

/** Without the noise of binary fractions: 0.833, not 0.8329999999999999. */
const tidy = (v) => Number(v.toPrecision(12));

export class Slider {
  dragging = false;
  #timer = 0;

  /** `move` takes a probability while it is dragged, and whether that is the first move; `set` one that was typed, or a lead. */
  constructor(move, set) {
    this.move = move;
    const range = $("wanted");
    range.addEventListener("input", () => this.#to(Math.round(1000 * Number(range.value)) / 1000));
    range.addEventListener("change", () => this.#rest());
    range.addEventListener("keydown", (event) => {
      const to = keyed(event, Number(range.value), Number(range.min), Number(range.max));
      if (to === null) return;
      this.#to(to);
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#rest(), PAUSE);
    });
    $("exact").addEventListener("change", () => {
      const text = $("exact").value.replace("%", "").trim();
      const said = tidied(text);
      const { value } = readNumber(said);
      set(this.name, value === null || this.hard ? said : String(tidy(value / 100)));
    });
  }

  get name() {
    return this.hard ? "margin" : "prob";
  }

  #to(value) {
    const first = !this.dragging;
    this.dragging = true;
    this.move(String(value), first);
  }

  /** The drag is over: the answer on the page is the one that stays. */
  #rest() {
    clearTimeout(this.#timer);
    if (!this.dragging) return;
    this.dragging = false;
    this.move(this.value, false);
  }

  load(model, state) {
    this.model = model;
    this.hard = model.hard;
    $("wanted").hidden = $("ends").hidden = $("unit").hidden = model.hard;
    $("wanted-label").htmlFor = model.hard ? "exact" : "wanted";
    $("exact").ariaLabel = model.hard ? null : "Wanted probability in per cent";
    this.fixed = model.hard || mayChoose(model, "prob") ? null : String(model.policy.prob);
    $("wanted").disabled = $("exact").disabled = this.fixed !== null;
    const wanted = Number(this.fixed ?? state.prob);
    const least = wanted > 0 && wanted < LEAST ? Math.floor(100 * wanted) / 100 : LEAST;
    const most = wanted > MOST && wanted < 1 ? wanted : MOST;
    Object.assign($("wanted"), { min: least, max: most });
    $("least").textContent = percent(least, "short");
    $("most").textContent = percent(most, "short");
  }

  /** The state's number; the target is the answer's, where the person left it open. */
  show(state, reply) {
    this.value = this.fixed ?? state[this.name];
    const model = this.model ?? {};
    const label = wanted(state, model, "target") || reply?.answers[0].target;
    const target = label === undefined ? "" : called(model, label);
    const words = this.hard ? "Wanted lead over every other class" : `Wanted probability of ${target || "another decision"}`;
    $("wanted-label").textContent = words;
    const value = Number(this.value);
    if (this.hard) put($("exact"), this.value);
    else {
      const real = this.value !== "" && Number.isFinite(value);
      put($("exact"), real ? String(tidy(Math.round(1e5 * value) / 1e3)) : this.value);
      if (real) $("wanted").value = value;
      $("wanted").setAttribute("aria-valuetext", `${percent(value, "short")} ${target}`);
    }
  }
}
