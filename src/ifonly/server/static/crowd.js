/* The row among all others: a scatter of the data, and the nearest row that is decided otherwise. */

import { typed } from "./fields.js";
import { valuesOf } from "./rows.js";
import { draw } from "./svg.js";
import { $, make, unbroken } from "./web/dom.js";
import { count, number, percent, share, value } from "./web/numbers.js";

const [WIDTH, HEIGHT] = [480, 300]; // of the drawing, as its viewBox has it
const BOX = { left: 16, right: 464, top: 24, bottom: 266 };
const SPREAD = 0.6; // of a category's place that its dots fill
const CHANCE = "p:"; // before a class, in the value of an axis
const FEW = 8; // values of a number
const LISTED = 8; // differences that are listed

/* Multiples of these, by their fractions, fill a square evenly and look like chance; they are the same each time. */
const [APART, ABOVE] = [0.754878, 0.56984];
const jitter = (i, step) => ((i * step) % 1) - 0.5;

export class Crowd {
  /** `pick` takes the number of the row that was chosen. */
  constructor(pick) {
    this.pick = pick;
    for (const id of ["across", "up"]) {
      $(id).addEventListener("change", () => {
        this.chosen = true;
        this.draw();
      });
    }
    $("scatter").addEventListener("click", ({ target }) => target.dataset?.index !== undefined && pick(Number(target.dataset.index)));
    $("to-neighbour").addEventListener("click", () => pick(this.near.index));
  }

  /** Another model; what the data say comes later, or never. */
  load(model, picture) {
    Object.assign(this, { model, picture, overview: null, near: null, view: null, chosen: false });
    $("crowd").hidden = true;
  }

  /** What is usual in the data. */
  data(overview) {
    this.overview = overview;
    const { columns, proba } = overview.points;
    const feature = (name) => this.model.features.find((f) => f.name === name);
    const options = () => [
      ...columns.map(({ name }) => new Option(feature(name).label, name)),
      ...Object.keys(proba ?? {}).map((name) => new Option(`probability of ${name}`, CHANCE + name)),
    ];
    $("across").replaceChildren(...options());
    $("up").replaceChildren(...options());
    const fine = ({ values }) => new Set(values).size > FEW; // dots that do not lie upon each other
    const numbers = columns.filter(({ name }) => !feature(name).values).sort((a, b) => fine(b) - fine(a)).map(({ name }) => name);
    this.usual = numbers.slice(0, 2);
    $("scatter-box").hidden = $("across").options.length < 2;
  }

  /** The axes, as long as nobody has chosen others: the strongest numbers, else the probabilities of what is wanted and what is. */
  #usualAxes({ decision, target }) {
    const chances = this.overview.points.proba ? [CHANCE + target, CHANCE + decision.from] : [];
    const all = [...$("across").options].map((option) => option.value);
    [$("across").value, $("up").value] = new Set([...this.usual, ...chances, ...all]);
  }

  /** The answer on the page, and its row; `near` is the server's neighbour, null for none, undefined if not known yet. */
  show(answer, now, near) {
    const fresh = near !== undefined;
    if (fresh) this.near = near;
    this.view = { answer, now };
    $("crowd").hidden = !this.overview || (!$("scatter").childElementCount && $("scatter-box").hidden && !this.near);
    if (!this.overview) return;
    this.draw();
    if (fresh) this.#neighbour();
  }

  draw() {
    if (!this.view || $("scatter-box").hidden) return;
    if (!this.chosen) this.#usualAxes(this.view.answer);
    const axes = [this.#axis($("across").value, BOX.left, BOX.right, APART), this.#axis($("up").value, BOX.bottom, BOX.top, ABOVE)];
    const { index, predicted } = this.overview.points;
    const { answer } = this.view;
    const isWanted = (label) => String(label) === String(answer.target);
    const dots = index.map((row, i) => {
      const [cx, cy] = axes.map((axis) => axis.place(axis.values[i], row).toFixed(1));
      const title = draw("title", {}, `Row ${row}: ${predicted[i]}`);
      return draw("circle", { cx, cy, r: 3.5, class: isWanted(predicted[i]) ? "wanted" : "other", "data-index": row }, title);
    });
    const place = (point) => axes.map((axis) => axis.place(axis.of(point)));
    const { now, then, near } = this.#persons();
    const from = place(now);
    const to = place(then);
    const line = draw("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], class: "move" });
    const marks = [marked(to, "then", "if only"), marked(from, "is", "now")];
    if (near) marks.unshift(marked(place(near), "near", `row ${this.near.index}`));
    const [box, ...words] = frame(axes);
    $("scatter").replaceChildren(box, ...dots, ...words, line, ...marks);
    const text = `${axes[0].label} across, ${axes[1].label} up. Now ${axes.map((a) => a.said(a.of(now))).join(" and ")}; if only ${axes.map((a) => a.said(a.of(then))).join(" and ")}.`;
    $("scatter").setAttribute("aria-label", text);
    const same = predicted.filter(isWanted).length;
    const all = this.overview.total > index.length ? `${count(index.length, "row")} of ${number(this.overview.total)}` : `all ${number(index.length)} rows`;
    $("scatter-said").textContent = `${all.replace(/^./, (c) => c.toUpperCase())}: filled dots are ${answer.target} (${number(same)}), rings are not (${number(index.length - same)}). Choose one to look at it.`;
  }

  /** This row, what it would be, and the neighbour: {values, proba} each. */
  #persons() {
    const { answer, now } = this.view;
    const list = Array.isArray(answer.x) ? { values: answer.x } : null;
    const then = list ? valuesOf(list, this.model) : answer.x;
    const near = this.near && { values: valuesOf(this.near, this.model), proba: this.near.proba };
    return { now: { values: now, proba: answer.proba_now }, then: { values: then, proba: answer.proba }, near };
  }

  /** One of the axes: where values are, of the rows and of a person. */
  #axis(name, from, to, step) {
    const { points, features } = this.overview;
    if (name.startsWith(CHANCE)) {
      const label = name.slice(CHANCE.length);
      const of = ({ proba }) => proba?.[label] ?? 0;
      return { label: `probability of ${label}`, ends: [percent(0), percent(1)], values: points.proba[label], of, place: (p) => from + p * (to - from), said: (p) => percent(p, "tenths") };
    }
    const feature = this.model.features.find((f) => f.name === name);
    const { values } = points.columns.find((column) => column.name === name);
    const axis = { label: feature.label, values, of: (person) => person.values[name], said: (v) => value(v) };
    if (feature.values) {
      const n = feature.values.length;
      const at = (v, row) => (feature.values.findIndex((o) => String(o) === String(v)) + 0.5 + (row === undefined ? 0 : SPREAD * jitter(row, step))) / n;
      return { ...axis, ends: ["", ""], names: feature.values.map(String), place: (v, row) => from + at(v, row) * (to - from) };
    }
    const { low, high } = features.find((f) => f.name === name);
    const apart = low < feature.low ? SPREAD : 0; // whole numbers that have a bin each: room for dots that lie upon each other
    const part = (v, row) => Math.min(Math.max((v + (row === undefined ? 0 : apart * jitter(row, step)) - low) / (high - low || 1), 0), 1);
    return { ...axis, ends: [number(feature.low), number(feature.high)], place: (v, row) => from + part(v ?? low, row) * (to - from) };
  }

  #neighbour() {
    const { near, model } = this;
    $("neighbour").hidden = !near;
    if (!near) return;
    const { answer, now } = this.view;
    const about = Object.entries(near.keys).map(([name, v]) => `${name} ${typed(v)}`).join(", ");
    const chance = near.proba && answer.target in near.proba ? `, ${percent(near.proba[answer.target], "tenths")} for ${answer.target}` : "";
    const whole = near.searched < this.overview.total ? ` Of ${number(near.searched)} rows, spread evenly over the data.` : "";
    $("neighbour-title").textContent = `The nearest real one that is ${near.predicted}`;
    const kind = model.image ? "pixel" : "feature";
    const differs = `It differs in ${number(near.n_differs)} of ${count(model.features.length, kind)}.`;
    $("neighbour-said").textContent = unbroken(`Row ${near.index}${about ? ` (${about})` : ""}: ${near.predicted}${chance}. ${differs}${whole}`);
    const values = valuesOf(near, model);
    $("neighbour-picture").hidden = !this.picture;
    $("differences").hidden = Boolean(this.picture);
    if (this.picture) this.picture.paint($("neighbour-picture"), this.picture.values(values));
    const feature = (name) => model.features.find((f) => f.name === name);
    const line = ({ feature: name, share: part }) => {
      const cells = [value(now[name]), value(values[name]), share(part)].map((text) => make("td", { textContent: text }));
      return make("tr", {}, make("th", { scope: "row", textContent: feature(name).label }), ...cells);
    };
    const heads = ["Differs in", "This row", `Row ${near.index}`, "Of the distance"].map((text) => make("th", { scope: "col", textContent: text }));
    const shown = near.differs.slice(0, LISTED);
    const rest = near.n_differs - shown.length;
    const more = rest > 0 ? [make("tr", {}, make("td", { colSpan: 4, className: "note", textContent: `and ${number(rest)} more` }))] : [];
    $("differences").replaceChildren(make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...shown.map(line), ...more));
    $("to-neighbour").textContent = `Look at row ${near.index}`;
  }
}

/** The frame of the drawing: the ends of both axes, or the names of categories. */
function frame([across, up]) {
  const { left, right, top, bottom } = BOX;
  const text = (x, y, kind, words) => draw("text", { x, y, class: `tick ${kind}` }, words);
  const parts = [draw("rect", { x: left, y: top, width: right - left, height: bottom - top, class: "frame" })];
  parts.push(text(left, bottom + 16, "", across.ends[0]), text(right, bottom + 16, "end", across.ends[1]));
  parts.push(text((left + right) / 2, bottom + 30, "middle", `${across.label} →`));
  parts.push(text(left, top - 8, "", `↑ ${up.label}${up.ends[1] && `, to ${up.ends[1]}`}`), text(left + 4, bottom - 5, "", up.ends[0]));
  const wide = (right - left) / (across.names?.length ?? 1);
  across.names?.forEach((name, i) => parts.push(text(left + (i + 0.5) * wide, bottom + 16, "middle", short(name, wide))));
  const tall = (bottom - top) / (up.names?.length ?? 1);
  up.names?.forEach((name, i) => parts.push(text(right - 4, bottom - (i + 0.5) * tall, "end", short(name, 160))));
  return parts;
}

/** A name that fits into so many pixels. */
function short(name, room) {
  const most = Math.max(Math.floor(room / 7.5), 2);
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

/** A person on the drawing: a diamond with a name. */
function marked([x, y], kind, words) {
  const right = x > BOX.right - 70;
  const label = { x: x + (right ? -10 : 10), y: kind === "near" ? y - 8 : y + 4, class: `name ${kind}${right ? " end" : ""}` };
  const size = kind === "near" ? 6 : 7;
  const shape = `${x},${y - size} ${x + size},${y} ${x},${y + size} ${x - size},${y}`;
  return draw("g", {}, draw("polygon", { points: shape, class: kind }), draw("text", label, words));
}
