/* The table: one line per feature, with its value now, what it would have to be, how hard it is to change, and its limits. */

import { inField, put, readNumber, tidied, typed } from "./fields.js";
import { banned, isNarrow, isNumber, isWhole, limitWords, spoken, USUAL, WORDS } from "./question.js";
import { BY_FEATURE, withFeature, withoutFeatures } from "./state.js";
import { canvas, hasLook, Look, plot } from "./look.js";
import { draw } from "./svg.js";
import { $, make, track } from "./web/dom.js";
import { count, EXACT_DIGITS, number, share } from "./web/numbers.js";

const FIRST = 24; // lines of a wide model before one asks for more
const MORE = 48;
const LOCK = "M5 7V5a3 3 0 0 1 6 0v2h1v7H4V7zm1.5 0h3V5a1.5 1.5 0 0 0-3 0z";
const ICON = { viewBox: "0 0 16 16", "aria-hidden": "true" };
const OPEN = "M5 7V5a3 3 0 0 1 5.8-1l-1.4.5A1.5 1.5 0 0 0 6.5 5v2H12v7H4V7z";

let serial = 0;

export class Features {
  #lines = new Map();
  #shown = [];
  #room = FIRST;

  sliding = null; // the feature whose value is being dragged: {name, place}
  #histograms = new Map();
  #curves = new Map();
  #sought = new Set(); // the names of curves that were asked for

  /** `change` takes a function from state to state: what the person did. `slide` does too, while a value is dragged, and
      whether that is the first move; `rest` is called when it is let go. `look` is called when other lines are shown. */
  constructor({ change, slide, rest, look }) {
    Object.assign(this, { change, slide, rest, look });
    $("filter").addEventListener("input", () => this.arrange(true));
    $("only").addEventListener("change", () => this.arrange(true));
    $("more").addEventListener("click", () => {
      this.#room += MORE;
      this.arrange();
    });
    $("reset").addEventListener("click", () => change(withoutFeatures));
  }

  /** A model's features; nothing is drawn before `show` and `draw`. */
  load(model) {
    this.model = model;
    this.answer = this.changes = null;
    this.pending = !model.image; // room for what the data say, until it is known that they say nothing
    this.#histograms.clear();
    this.forget();
    this.#lines.clear();
    this.#shown = [];
    $("rows").replaceChildren();
    $("filter").value = "";
    $("only").checked = false;
  }

  /** The controls as the state has them. */
  show(state, row) {
    Object.assign(this, { state, row });
    $("reset").hidden = !BY_FEATURE.some((map) => Object.keys(state[map]).length);
    if (!this.#shown.length) this.arrange(true);
    for (const line of this.#shown) line.show(state, row);
  }

  /** What changes. Lines stay where they are while a slider is dragged; `arrange` sorts them when it rests. */
  draw(answer) {
    this.answer = answer;
    const changes = new Map(answer.changes.map((change) => [change.feature, change]));
    this.changes = changes;
    this.most = Math.max(...answer.changes.map((change) => Math.abs(change.share)), 0);
    for (const line of this.#shown) line.draw(changes.get(line.feature.name));
    const { n_changes: n } = answer;
    const told = n > changes.size ? ` The ${changes.size} largest are told one by one.` : "";
    const all = count(this.model.features.length, "feature");
    $("others").textContent = `${number(n)} of ${all} ${n === 1 ? "changes" : "change"}.${told}`;
  }

  /** What is usual in the data. */
  data({ features }) {
    this.#histograms = new Map(features.map((told) => [told.name, told]));
    for (const line of this.#shown) line.sketch();
  }

  /** What features do by themselves, for a decision. */
  learn(curves, target) {
    this.target = target;
    this.pending = false;
    for (const curve of curves) this.#curves.set(curve.feature, curve);
    for (const line of this.#shown) line.sketch();
  }

  /** The curves are those of another row. */
  forget() {
    this.#curves.clear();
    this.#sought.clear();
  }

  /** The names of lines that are shown and whose curves nobody has asked for yet; from now on somebody has. */
  unlearned(most) {
    const names = this.#shown.map((line) => line.feature.name).filter((name) => !this.#sought.has(name)).slice(0, most);
    for (const name of names) this.#sought.add(name);
    return names;
  }

  /** What is known of a feature besides the answer. */
  known(name) {
    return { histogram: this.#histograms.get(name), curve: this.#curves.get(name), hard: this.model.hard };
  }

  /** Which lines are shown, and in which order: all as the model has them if they are few, else those that matter first. */
  arrange(afresh = false) {
    if (!this.state) return;
    if (afresh) this.#room = FIRST;
    const wide = !isNarrow(this.model);
    const sought = $("filter").value.trim().toLowerCase();
    const shares = new Map((this.answer?.changes ?? []).map((change) => [change.feature, Math.abs(change.share)]));
    const touched = (name) => BY_FEATURE.some((map) => name in this.state[map]);
    let list = this.model.features.filter((f) => f.label.toLowerCase().includes(sought));
    if ($("only").checked) list = list.filter((f) => shares.has(f.name));
    if (wide) {
      const rank = (f) => (touched(f.name) ? 2 : 0) + (shares.get(f.name) ?? 0);
      list = list.map((f) => [rank(f), f]).sort((a, b) => b[0] - a[0]).map(([, f]) => f);
    }
    const left = wide ? Math.max(list.length - this.#room, 0) : 0;
    $("more").hidden = !left;
    $("more").textContent = `Show ${Math.min(left, MORE)} more of ${list.length}`;
    this.#put(list.slice(0, list.length - left));
  }

  #put(list) {
    const lines = list.map((feature) => {
      if (!this.#lines.has(feature.name)) this.#lines.set(feature.name, new Line(this, feature));
      return this.#lines.get(feature.name);
    });
    if (lines.length === this.#shown.length && lines.every((line, i) => line === this.#shown[i])) return;
    const focus = document.activeElement;
    $("rows").replaceChildren(...lines.flatMap((line) => [line.row, line.drawer]));
    if (focus?.isConnected && focus !== document.activeElement) focus.focus();
    this.#shown = lines;
    if (!lines.length) $("rows").append(make("tr", {}, make("td", { colSpan: 7, className: "note", textContent: "None." })));
    for (const line of lines) {
      line.show(this.state, this.row);
      line.draw(this.changes?.get(line.feature.name));
    }
    this.look();
  }

  /** The control that a server's complaint is about: "edits.duration", "actions.bounds.duration.1" and their like. */
  find(path) {
    const [, kind, rest] = /^(row|edits|cost\.\w+|actions\.\w+)\.(.+)$/s.exec(path) ?? [];
    const feature = this.model.features.find((f) => f.name === rest || `${f.name}.0` === rest || `${f.name}.1` === rest);
    if (!feature) return null;
    const shown = this.#shown.map((line) => line.feature);
    if (!shown.includes(feature)) this.#put([feature, ...shown]);
    return this.#lines.get(feature.name).find(kind, rest.endsWith(".1"));
  }
}

/** One feature. */
class Line {
  constructor(table, feature) {
    Object.assign(this, { table, feature });
    const { name, label } = feature;
    const id = `f${serial++}`;
    const text = (className) => make("td", { role: "cell", className });
    this.now = isNumber(feature)
      ? make("input", { id, inputMode: "decimal", autocomplete: "off", className: "now" })
      : make("select", { id, className: "now" }, ...this.options());
    this.now.setAttribute("aria-label", `${label} now`);
    this.was = make("button", { type: "button", className: "was", hidden: true });
    this.after = text(isNumber(feature) ? "after number" : "after");
    this.difference = text("difference number");
    this.fill = make("div", { className: "fill" });
    this.share = make("span", { className: "visually-hidden" });
    this.hard = make("select", { "aria-label": `To change ${label} is` }, ...WORDS.map((word) => new Option(word, word)));
    const icon = draw("svg", ICON, draw("path"));
    this.lock = make("button", { type: "button", className: "lock", "aria-label": `Lock ${label}` }, icon);
    if (feature.frozen) {
      this.lock.disabled = this.hard.disabled = true; // by the policy, which nobody here can undo
      this.lock.title = this.hard.title = feature.reason || "This may not be asked to change.";
    }
    const closed = { "aria-expanded": "false", "aria-controls": `${id}-more` };
    this.limits = make("button", { type: "button", className: "limits", ...closed });
    this.small = canvas("small");
    const looking = { "aria-label": `${label} in the data, and by itself`, title: "In the data, and by itself" };
    this.spark = make("button", { type: "button", className: "spark", hidden: true, ...looking, ...closed }, this.small);
    this.row = make(
      "tr",
      { role: "row" },
      make("th", { role: "rowheader", scope: "row", textContent: label, title: feature.description ?? "" }),
      make("td", { role: "cell", className: "is" }, this.now, this.was, this.spark),
      this.after,
      this.difference,
      make("td", { role: "cell", className: "effort" }, track(this.fill), this.share),
      make("td", { role: "cell", className: "ease" }, this.hard, this.lock),
      make("td", { role: "cell", className: "bounds" }, ...(feature.kind === "flag" ? [] : [this.limits])),
    );
    this.cell = make("td", { role: "cell", colSpan: 7 });
    this.drawer = make("tr", { role: "row", id: `${id}-more`, className: "drawer", hidden: true }, this.cell);

    const put = (map, value) => table.change((s) => withFeature(s, map, name, value));
    this.put = put;
    const said = (control) => (isNumber(feature) ? tidied(control.value) : control.value);
    this.now.addEventListener("change", () => put("set", said(this.now) === this.own ? "" : said(this.now)));
    this.was.addEventListener("click", () => {
      put("set", "");
      this.now.focus();
    });
    this.hard.addEventListener("change", () => put("hard", this.hard.value === USUAL ? "" : this.hard.value));
    this.lock.addEventListener("click", () => put("hard", this.locked ? "" : "impossible"));
    for (const button of [this.limits, this.spark]) button.addEventListener("click", () => this.open(this.drawer.hidden));
  }

  /** The values of a category, to choose from. */
  options() {
    return this.feature.values.map((v) => new Option(spoken(this.feature, v), String(v)));
  }

  get locked() {
    return this.feature.frozen || this.table.state.hard[this.feature.name] === "impossible";
  }

  open(wide = true) {
    if (wide && !this.fields) this.#furnish();
    this.drawer.hidden = !wide;
    for (const button of [this.limits, this.spark]) button.setAttribute("aria-expanded", wide);
    this.show(this.table.state, this.table.row);
  }

  /** The fields for limits, made when they are first wanted. */
  #furnish() {
    const { feature, put } = this;
    const { label } = feature;
    const fields = {};
    const beside = (box, words) => make("label", { className: "check" }, box, make("span", { textContent: words }));
    const under = (words, input) => make("label", {}, make("span", { textContent: words }), input);
    const end = (map, words) => {
      const byPolicy = feature[map] === { low: feature.least, high: feature.most }[map];
      const exact = byPolicy ? `policy: ${number(feature[map], EXACT_DIGITS)}` : `seen: ${number(feature[map])}`;
      const seen = feature[map] === null ? "no limit" : exact; // it fits: without its last digit it would be another number
      fields[map] = isNumber(feature)
        ? make("input", { inputMode: "decimal", autocomplete: "off", size: Math.max(8, seen.length), placeholder: seen })
        : make("select", {}, new Option("any", ""), ...this.options());
      fields[map].setAttribute("aria-label", `${label} ${words}`);
      fields[map].addEventListener("change", () => put(map, isNumber(feature) ? tidied(fields[map].value) : fields[map].value));
      return under(words, fields[map]);
    };
    this.large = new Look(feature, (text, first) => this.#slide(text, first), () => this.#rest());
    this.cell.append(this.large.box);
    this.fields = fields;
    if (feature.kind === "flag") return;
    const parts = [];
    if (feature.kind === "category") {
      fields.ban = feature.values.map((v) => {
        const box = make("input", { type: "checkbox", value: String(v) });
        box.addEventListener("change", () => put("ban", fields.ban.filter((b) => !b.checked).map((b) => b.value).join("\n")));
        return box;
      });
      const boxes = fields.ban.map((box) => beside(box, spoken(feature, box.value)));
      parts.push(make("fieldset", {}, make("legend", { textContent: `${label} may become` }), ...boxes));
    } else {
      parts.push(end("low", "at least"), end("high", "at most"));
      const ways = [new Option("up or down", ""), new Option("only up", "up"), new Option("only down", "down")];
      fields.only = make("select", { "aria-label": `${label} may go` }, ...ways);
      fields.only.addEventListener("change", () => put("only", fields.only.value));
      parts.push(under("may go", fields.only));
      if (isNumber(feature)) {
        fields.whole = make("input", { type: "checkbox" });
        fields.whole.addEventListener("change", () => {
          const said = fields.whole.checked ? "1" : "0";
          const usual = isWhole(withoutFeatures(this.table.state), this.table.model, feature) ? "1" : "0";
          put("whole", said === usual ? "" : said);
        });
        parts.push(beside(fields.whole, "whole numbers only"));
      }
    }
    this.cell.append(make("div", { className: "fields", role: "group", "aria-label": `Limits of ${label}` }, ...parts));
  }

  /** The slider in the drawer moves the value as long as it is held: one step to undo. */
  #slide(text, first) {
    const { table, feature } = this;
    table.sliding = { name: feature.name, place: table.model.features.indexOf(feature) };
    table.slide((s) => withFeature(s, "set", feature.name, text === this.own ? "" : text), first);
  }

  #rest() {
    this.table.sliding = null;
    this.table.rest();
  }

  /** The feature in the data and by itself, small and (in an open drawer) large. */
  sketch() {
    const { table, feature } = this;
    if (!table.state) return;
    const { name } = feature;
    const text = name in table.state.set ? table.state.set[name] : null;
    const now = text === null ? table.row.values[name] : isNumber(feature) ? readNumber(text).value : text;
    const look = { ...table.known(name), now, after: this.change?.after };
    this.spark.hidden = !table.pending && !hasLook(feature, look);
    plot(this.small, feature, look);
    if (this.large && !this.drawer.hidden) this.large.draw(look, table.target);
  }

  show(state, row) {
    const { feature } = this;
    const { name, label } = feature;
    this.own = typed(row.values[name]);
    const edited = name in state.set;
    const now = edited ? state.set[name] : this.own;
    put(this.now, now);
    if (feature.values && this.now.selectedIndex < 0) {
      this.now.append(new Option(now || "missing", now, true, true)); // none that the model knows
    }
    this.row.classList.toggle("edited", edited);
    this.was.hidden = !edited && this.drawer.hidden; // or it would move the slider in the drawer as that is dragged
    this.was.style.visibility = edited ? "" : "hidden";
    const before = feature.values && this.own ? spoken(feature, this.own) : inField(this.own);
    this.was.textContent = `was ${before}`;
    this.was.setAttribute("aria-label", `${label}: back to ${before}`);
    this.hard.value = feature.frozen ? "impossible" : (state.hard[name] ?? USUAL);
    this.lock.setAttribute("aria-pressed", this.locked);
    this.lock.querySelector("path").setAttribute("d", this.locked ? LOCK : OPEN);
    this.row.classList.toggle("locked", this.locked);
    const words = limitWords(state, this.table.model, feature);
    this.limits.textContent = this.limits.title = words || "none";
    this.limits.setAttribute("aria-label", `Limits of ${label}: ${words || "none"}`);
    this.sketch();
    if (!this.fields) return;
    for (const map of ["low", "high", "only"]) if (this.fields[map]) put(this.fields[map], state[map][name] ?? "");
    if (this.fields.whole) this.fields.whole.checked = isWhole(state, this.table.model, feature);
    const out = banned(state, feature);
    const never = (feature.never ?? []).map(String); // by the policy, which nobody here can undo
    for (const box of this.fields.ban ?? []) {
      box.checked = box.value === now || !(out.has(box.value) || never.includes(box.value));
      box.disabled = box.value === now || never.includes(box.value); // the present value is always allowed
    }
    if (feature.only) Object.assign(this.fields.only, { value: feature.only === "increase" ? "up" : "down", disabled: true });
  }

  /** What changes of this feature, or nothing. */
  draw(change) {
    this.change = change;
    this.sketch();
    this.row.classList.toggle("same", !change);
    this.after.textContent = change ? change.after_text : "same";
    this.difference.textContent = change?.change_text ?? "";
    const part = change ? Math.abs(change.share) / (this.table.most || 1) : 0; // the largest fills the track
    this.fill.style.transform = `scaleX(${part})`;
    this.share.textContent = change ? share(change.share) : "none";
  }

  /** The control for a kind of question; `upper` is the larger end of a range. */
  find(kind, upper) {
    const part = kind.replace(/^actions\./, "");
    if (part === "row" || part === "edits") return this.now;
    if (part === "frozen" || part.startsWith("cost")) return this.hard;
    this.open();
    const { low, high, only, whole, ban } = this.fields;
    const end = upper || low?.value === "" ? high : low;
    return { bounds: end, increase: only, decrease: only, integer: whole, allow: ban?.[0] }[part] ?? this.limits;
  }
}
