/* The row among all others: a scatter of the data, and the nearest row that is decided otherwise. */

import { seenIn } from "./look.js";
import { drawNeighbour } from "./neighbour.js";
import { called, placeOf, spoken } from "./question.js";
import { valuesOf } from "./rows.js";
import { draw } from "./svg.js";
import { $ } from "./web/dom.js";
import { count, number, percent } from "./web/numbers.js";

const BOX = { left: 16, right: 464, top: 24, bottom: 266 }; // of the drawing, whose viewBox is 480 × 300
const SPREAD = 0.6; // of a value's place that its dots fill
const CHANCE = "p:"; // before a class, in the value of an axis
const FEW = 8; // values of a number: dots lie upon each other
const LETTER = 7.5; // the width of one, on average
const DOT = 3.5;
const DIAMOND = 7; // half of a person's
const LINE = 16; // the height of a name

/* Multiples of these, by their fractions, fill a square evenly and look like chance; they are the same each time. */
const [APART, ABOVE] = [0.754878, 0.56984];

export class Neighbours {
  /** `pick` takes the number of the row that was chosen. */
  constructor(pick) {
    for (const id of ["across", "up"]) {
      $(id).addEventListener("change", () => {
        this.chosen = true;
        this.draw();
      });
    }
    $("scatter").addEventListener("click", ({ target }) => {
      if (target.dataset?.index !== undefined) pick(Number(target.dataset.index));
    });
    $("to-neighbour").addEventListener("click", () => pick(this.near.index));
  }

  /** Another model; what the data say comes later, or never. */
  load(model, picture) {
    Object.assign(this, { model, picture, overview: null, near: null, view: null, chosen: false });
    $("neighbours").hidden = true;
  }

  /** What is usual in the data. */
  data(overview) {
    this.overview = overview;
    const { columns, proba } = overview.points;
    const feature = (name) => this.model.features.find((f) => f.name === name);
    const options = () => [
      ...columns.map(({ name }) => new Option(feature(name).label, name)),
      ...Object.keys(proba ?? {}).map((name) => new Option(`probability of ${called(this.model, name)}`, CHANCE + name)),
    ];
    $("across").replaceChildren(...options());
    $("up").replaceChildren(...options());
    const many = ({ values }) => new Set(values).size > FEW;
    const numbers = columns.filter(({ name }) => !feature(name).values).sort((a, b) => many(b) - many(a));
    this.usual = numbers.slice(0, 2).map(({ name }) => name);
    $("scatter-box").hidden = $("across").options.length < 2 || !overview.points.index.length;
  }

  /** The answer on the page, and its row; `near` is the server's neighbour, null for none, undefined if not known yet. */
  show(answer, now, near) {
    if (!this.overview) return;
    const then = Array.isArray(answer.x) ? valuesOf({ values: answer.x }, this.model) : answer.x;
    this.view = { answer, now: { values: now, proba: answer.proba_now }, then: { values: then, proba: answer.proba } };
    if (near !== undefined) {
      this.near = near && { ...near, values: valuesOf(near, this.model) };
      $("neighbour").hidden = !near;
      if (near) drawNeighbour(this.near, answer.target, now, this);
    }
    $("neighbours").hidden = $("scatter-box").hidden && !this.near;
    this.draw();
  }

  /** The axes, as long as nobody has chosen others: the strongest numbers, else how likely is what is wanted, and what is. */
  #choose({ decision, target }) {
    const chances = this.overview.points.proba ? [CHANCE + target, CHANCE + decision.from] : [];
    const all = [...$("across").options].map((option) => option.value);
    [$("across").value, $("up").value] = new Set([...this.usual, ...chances, ...all]);
  }

  draw() {
    if (!this.view || $("scatter-box").hidden) return;
    const { answer, now, then } = this.view;
    if (!this.chosen) this.#choose(answer);
    const across = axis($("across").value, this, { from: BOX.left, to: BOX.right, step: APART });
    const up = axis($("up").value, this, { from: BOX.bottom, to: BOX.top, step: ABOVE });
    const { index, predicted } = this.overview.points;
    const isWanted = (label) => String(label) === String(answer.target);
    const dots = index.map((row, i) => {
      const [cx, cy] = [across, up].map((one) => one.place(one.values[i], row).toFixed(1));
      const attributes = { cx, cy, r: DOT, class: isWanted(predicted[i]) ? "wanted" : "other", "data-index": row };
      return draw("circle", attributes, draw("title", {}, `Row ${row}: ${called(this.model, predicted[i])}`));
    });
    const place = (person) => [across.place(across.of(person)), up.place(up.of(person))];
    const [[x1, y1], [x2, y2]] = [place(now), place(then)];
    const stays = x1 === x2 && y1 === y2; // nothing that these axes show
    const people = [{ at: [x1, y1], kind: "is", words: stays ? "now, and if only" : "now" }];
    if (!stays) people.unshift({ at: [x2, y2], kind: "then", words: "if only" });
    if (this.near) people.unshift({ at: place(this.near), kind: "near", words: `row ${this.near.index}` });
    const [box, ...words] = frame(across, up);
    const move = draw("line", { x1, y1, x2, y2, class: "move" });
    $("scatter").replaceChildren(box, ...dots, ...words, move, ...marked(people));
    const said = (person) => `${across.said(across.of(person))} and ${up.said(up.of(person))}`;
    const text = `${across.label} across, ${up.label} up. Now ${said(now)}; if only ${said(then)}.`;
    $("scatter").setAttribute("aria-label", text);
    this.#tell(predicted.filter(isWanted).length, index.length, called(this.model, answer.target));
  }

  /** What the dots are. */
  #tell(wanted, all, target) {
    const { total } = this.overview;
    const which = total > all ? `${count(all, "row")} of ${number(total)}` : `All ${number(all)} rows`;
    const kinds = `filled dots are ${target} (${number(wanted)}), rings are not (${number(all - wanted)})`;
    $("scatter-said").textContent = `${which}: ${kinds}. Choose one to look at it.`;
  }
}

// ---- axes ----

/** One of the axes: the rows' values, that `of` a person, and the `place` of a value; given a row, beside others of the same. */
function axis(name, { model, overview }, { from, to, step }) {
  const { points, features } = overview;
  const placed = (part) => (v, row) => from + Math.min(Math.max(part(v, row), 0), 1) * (to - from);
  const aside = (row) => (row === undefined ? 0 : SPREAD * (((row * step) % 1) - 0.5));
  if (name.startsWith(CHANCE)) {
    const label = name.slice(CHANCE.length);
    const said = (p) => percent(p, "tenths");
    const ends = [percent(0), percent(1)];
    const of = ({ proba }) => proba?.[label] ?? 0; // of a neighbour only the most probable ones are told
    return { label: `probability of ${called(model, label)}`, values: points.proba[label], of, said, ends, place: placed((p) => p) };
  }
  const feature = model.features.find((f) => f.name === name);
  const { values } = points.columns.find((column) => column.name === name);
  const found = { label: feature.label, values, of: (person) => person.values[name], said: (v) => spoken(feature, v) };
  if (feature.values) {
    const part = (v, row) => (placeOf(feature, v) + 0.5 + aside(row)) / feature.values.length;
    return { ...found, ends: ["", ""], names: feature.values.map((v) => spoken(feature, v)), place: placed(part) };
  }
  const histogram = features.find((f) => f.name === name);
  const [least, most] = histogram?.quartiles ? seenIn(histogram) : [feature.low, feature.high]; // of very many features there are none
  const { low, high } = histogram?.quartiles ? histogram : feature;
  const single = low < least; // whole numbers that have a bin each
  const part = (v, row) => ((v ?? low) + (single ? aside(row) : 0) - low) / (high - low || 1);
  return { ...found, ends: [number(least), number(most)], place: placed(part) };
}

/** The frame of the drawing, and the ends of both axes, or the names of categories. */
function frame(across, up) {
  const { left, right, top, bottom } = BOX;
  const text = (x, y, kind, words) => draw("text", { x, y, class: `tick ${kind}` }, words);
  const [wide, tall] = [right - left, bottom - top];
  const columns = across.names ?? [];
  const lines = up.names ?? [];
  const column = (name, i) => {
    const room = wide / columns.length;
    return text(left + (i + 0.5) * room, bottom + 16, "middle", short(name, room));
  };
  const line = (name, i) => text(right - 4, bottom - ((i + 0.5) * tall) / lines.length, "end", short(name, wide / 3));
  return [
    draw("rect", { x: left, y: top, width: wide, height: tall, class: "frame" }),
    text(left, bottom + 16, "", across.ends[0]),
    text(right, bottom + 16, "end", across.ends[1]),
    text((left + right) / 2, bottom + 31, "middle", `${across.label} →`),
    text(left, top - 8, "", `↑ ${up.label}${up.ends[1] && `, from ${up.ends[0]} to ${up.ends[1]}`}`),
    ...columns.map(column),
    ...lines.map(line),
  ];
}

/** A name that fits into so much room. */
function short(name, room) {
  const most = Math.max(Math.floor(room / LETTER), 2);
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

/** People on the drawing: diamonds, each with its name beside it, where no other person or name is. */
function marked(people) {
  const taken = people.map(({ at: [x, y] }) => [x - DIAMOND, y - DIAMOND, x + DIAMOND, y + DIAMOND]);
  const free = (box) => box[0] >= 0 && box[2] <= BOX.right + BOX.left && taken.every((other) => !overlap(box, other));
  return people.map(({ at: [x, y], kind, words }) => {
    const wide = words.length * LETTER;
    const beside = [0, -LINE, LINE].flatMap((down) => [["", x + 10, y + 4 + down], ["end", x - 10, y + 4 + down]]);
    const boxes = beside.map(([end, a, b]) => [end ? a - wide : a, b - LINE + 4, end ? a : a + wide, b + 4]);
    const best = Math.max(boxes.findIndex(free), 0);
    taken.push(boxes[best]);
    const [end, left, base] = beside[best];
    const shape = `${x},${y - DIAMOND} ${x + DIAMOND},${y} ${x},${y + DIAMOND} ${x - DIAMOND},${y}`;
    const name = draw("text", { x: left, y: base, class: `name ${kind} ${end}` }, words);
    return draw("g", {}, draw("polygon", { points: shape, class: kind }), name);
  });
}

const overlap = ([a, b, c, d], [e, f, g, h]) => a < g && e < c && b < h && f < d;
