
/* The page: one number goes in, the wanted probability, and everything on it follows. */

const FEW = 12; // rows of the table before one asks for all
const NAMED = 3; // changes in the sentence
const QUIET = 400; // milliseconds without a move until a screen reader is told
const LONG = /\S{19}/; // a word that has to be broken

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);

// ---- numbers as text ----

const minus = (text) => (/^-[0.]*$/.test(text) ? text.slice(1) : text.replace("-", "−"));
const fixed = (value, decimals) => minus(value.toFixed(decimals));
const signed = (value, decimals) => (value > 0 && Number(value.toFixed(decimals)) > 0 ? "+" : "") + fixed(value, decimals);
const percent = (p, write = (value) => value.toFixed(1)) => {
  const value = 100 * p;
  const words = value < 0.05 && value > 0 ? "< 0.1" : value > 99.95 && value < 100 ? "> 99.9" : write(value);
  return `${words}\u202f%`;
};
const short = (p) => percent(p, (value) => Number(value.toFixed(1)));
const small = (value) => {
  if (!(value > 0)) return "the last digit";
  const power = Math.floor(Math.log10(value));
  const up = Math.ceil(value / 10 ** power);
  const [lead, exponent] = up > 9 ? [1, power + 1] : [up, power];
  return `${lead}\u00a0×\u00a010${[...String(exponent)].map((d) => (d === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[d])).join("")}`;
};
const text = (feature, value) => (typeof value === "number" ? fixed(value, feature.decimals) : value);

// ---- the answer for a wanted probability ----

const unpack = (packed, Kind = Float64Array) => new Kind(Uint8Array.from(atob(packed), (c) => c.charCodeAt(0)).buffer);
const pixels = data.image && unpack(data.image.source, Float32Array);

/** Without limits: solved here, to the last digit. */
function live() {
  const K = data.classes.length;
  const S = data.features.length;
  const k = data.k;
  const slopes = unpack(data.slopes);
  const units = unpack(data.units);
  const shades = data.image && unpack(data.image.slopes, Float32Array);
  const nearest = new Nearest({
    margins: data.margins,
    gram: unpack(data.gram),
    knots: { ...data.knots, w: unpack(data.knots.w) },
  });
  return (wanted) => {
    const level = wanted === data.wanted ? data.level : Math.log1p(-wanted) - Math.log(wanted);
    const { w, s, distance, bound } = nearest.at(level);
    const top = s.reduce((a, b) => Math.max(a, b), 0);
    const e = Array.from(s, (v) => Math.exp(v - top));
    e.splice(k, 0, Math.exp(-top));
    const sum = e.reduce((a, b) => a + b, 0);
    const p = e.map((v) => v / sum);
    const best = p.indexOf(Math.max(...p));
    const ahead = p[k] >= p[best] - 1e-12 ? k : best; // of two that are equal the wanted one: the library's answer has it ahead
    const y = Array.from(w, (v) => -v);
    y.splice(k, 0, w.reduce((a, b) => a + b, 0));
    const x = data.features.map((feature) => feature.from);
    const size = new Float64Array(S);
    for (let d = 0; d < S; d++) {
      let change = 0;
      for (let j = 0; j < K; j++) change += slopes[j * S + d] * y[j];
      x[d] += change;
      size[d] = Math.abs(change) * units[d];
    }
    const proof = distance
      ? `No smaller change exists. Proved to ${small(bound)}: the exact optimum is no further than that from this answer, whose change measures ${distance.toPrecision(4)} where the classifier sees the features.`
      : "Nothing has to change, and nothing is smaller than that.";
    const image = pixels && Float32Array.from(pixels);
    if (image) {
      for (let j = 0; j < K; j++) {
        const row = j * image.length;
        for (let d = 0; d < image.length; d++) image[d] += shades[row + d] * y[j];
      }
    }
    return { wanted, p, decided: data.classes[ahead], x, size, image, unseen: distance ? data.total - S : 0, proof };
  };
}

/** Within limits: the library's own answers, one after the other. */
function stepped() {
  const frames = data.image && unpack(data.image.frames, Float32Array);
  return (i) => {
    const step = data.steps[i];
    const x = data.features.map((feature) => feature.from);
    const size = new Float64Array(x.length);
    for (const [d, value, weight] of step.changes) {
      x[d] = value;
      size[d] = weight;
    }
    return { ...step, x, size, image: frames && frames.subarray(i * pixels.length, (i + 1) * pixels.length) };
  };
}

const isLive = data.mode === "live";
const answer = isLive ? live() : stepped();

// ---- what does not move ----

const make = (tag, props = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), props);
  element.append(...children);
  return element;
};

const heading = (name) => make("th", { scope: "row", textContent: name, className: LONG.test(name) ? "long" : "" });
const wanted = $("wanted");
const now = data.now[data.k];
let place = isLive ? data.wanted : data.start; // a probability, or the number of a step
const [least, most] = isLive ? data.ends : [0, data.steps.length - 1];
const chance = (at) => (isLive ? at : data.steps[at].wanted);

for (const element of document.querySelectorAll(".target")) element.textContent = data.target;
$("decided-now").textContent = data.decided;
if (data.bars.length) $("chance-now").textContent = `${percent(now)} for ${data.target}`;
$("least").textContent = short(chance(least));
$("most").textContent = short(chance(most));
$("beyond").textContent = data.beyond ?? "";
$("beyond").hidden = !data.beyond;
$("control").hidden = !(least < most);
$("chances").hidden = !data.bars.length;

// One step of a slider without limits is whatever the pointer says; the value is rounded to a tenth of a per cent below.
Object.assign(wanted, { min: least, max: most, step: isLive ? "any" : 1 });
wanted.value = place;

const bars = data.bars.map((j) => {
  const fill = make("div", { className: "fill" });
  const mark = make("div", { className: "mark" });
  mark.style.left = `${100 * data.now[j]}%`;
  const after = make("td", { className: "number" });
  const row = make(
    "tr",
    { className: j === data.k ? "wanted" : "" },
    heading(data.classes[j]),
    make("td", { className: "wide" }, make("div", { className: "track", ariaHidden: "true" }, fill, mark)),
    make("td", { className: "number", textContent: percent(data.now[j]) }),
    after,
  );
  $("bars").append(row);
  return { j, fill, after };
});
if (data.rest && bars.length) {
  const name = data.rest === 1 ? "one other" : `${data.rest} others`;
  const sum = (p) => (isLive ? p.reduce((total, v, j) => (data.bars.includes(j) ? total : total + v), 0) : p[data.bars.length]);
  const fill = make("div", { className: "fill" });
  const after = make("td", { className: "number" });
  const row = make("tr", { className: "rest" }, heading(name));
  row.append(make("td", { className: "wide" }, make("div", { className: "track", ariaHidden: "true" }, fill)));
  row.append(make("td", { className: "number", textContent: percent(sum(data.now)) }), after);
  $("bars").append(row);
  bars.push({ sum, fill, after });
}

const rows = data.features.map((feature, i) => {
  const kind = typeof feature.from === "number" ? "number" : "number word";
  const after = make("td", { className: kind });
  const difference = make("td", { className: "number" });
  const fill = make("div", { className: "fill" });
  const row = make(
    "tr",
    { hidden: i >= FEW },
    heading(feature.name),
    make("td", { className: kind, textContent: text(feature, feature.from) }),
    after,
    difference,
    make("td", { className: "wide effort", ariaHidden: "true" }, make("div", { className: "track" }, fill)),
  );
  $("rows").append(row);
  return { feature, row, after, difference, fill };
});

const all = $("all");
all.hidden = rows.length <= FEW;
const unlisted = data.total > rows.length && (isLive || data.steps.some((step) => step.unseen));
const more = `Show ${unlisted ? "the first" : "all"} ${rows.length}`;
all.textContent = more;
all.addEventListener("click", () => {
  const open = all.getAttribute("aria-expanded") !== "true";
  all.setAttribute("aria-expanded", open);
  all.textContent = open ? `Show the first ${FEW}` : more;
  rows.forEach(({ row }, i) => {
    row.hidden = !open && i >= FEW;
  });
  draw();
});
const still = data.total - data.features.length;
const notes = [];
if (still > 0 && !unlisted) notes.push(still === 1 ? "One other feature stays as it is." : `The other ${still} features stay as they are.`);
if (unlisted) notes.push(`These are the largest changes; the other ${still} features change by less.`);
if (data.kept.length) notes.push(`Not allowed to change: ${data.kept.slice(0, 8).join(", ")}${data.kept.length > 8 ? ", …" : ""}.`);
$("others").textContent = notes.join(" ");
$("changes").hidden = !rows.length;

// ---- pictures ----

const picture = data.image && new Picture(data.image);
if (picture) {
  $("picture").hidden = false;
  picture.paint($("before"), pixels);
}

function Picture({ shape, range, ink, top }) {
  const [height, width, channels = 1] = shape;
  const shade = (value) => {
    const part = Math.min(Math.max((value - range[0]) / (range[1] - range[0]), 0), 1);
    return 255 * (ink ? 1 - part : part);
  };
  const onto = (canvas, colour) => {
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, height);
    for (let i = 0; i < height * width; i++) image.data.set(colour(i), 4 * i);
    context.putImageData(image, 0, 0);
  };
  let colours = [];
  this.dress = () => {
    colours = ["more", "less"].map((name) => getComputedStyle(document.querySelector(`.${name}`)).color.match(/[\d.]+/g).slice(0, 3));
  };
  const last = channels - 1; // of one channel, all three colours are that one
  this.paint = (canvas, x) =>
    onto(canvas, (i) => [0, 1, 2].map((c) => shade(x[channels * i + Math.min(c, last)])).concat(255));
  this.compare = (canvas, x) =>
    onto(canvas, (i) => {
      let change = 0;
      for (let c = 0; c < channels; c++) change += (x[channels * i + c] - pixels[channels * i + c]) / channels;
      return [...colours[change > 0 ? 0 : 1], 255 * Math.min(Math.abs(change) / top, 1)];
    });
}

// ---- what moves ----

/** The sentence, as text and strong elements in turn. */
function sentence({ x, size, p, decided, unseen }) {
  const strong = (words) => make("strong", { textContent: words });
  const chances = data.bars.length ? ` (${percent(p[data.k])})` : "";
  const moved = data.features.map((_, d) => d).filter((d) => text(data.features[d], x[d]) !== text(data.features[d], data.features[d].from));
  const flips = decided === data.target;
  const end = flips ? ["the decision would be ", strong(decided), chances] : ["the decision would still be ", strong(decided), `, with ${percent(p[data.k])} for ${data.target}`];
  if (!moved.length && !unseen) {
    return flips ? ["Nothing has to change: the decision is ", strong(decided), chances, "."] : ["Nothing changes: the decision is ", strong(decided), ` (${data.target}: ${percent(p[data.k])}).`];
  }
  if (!flips || data.already) end.push(".");
  else end.push(" instead of ", strong(data.decided), ".");
  if (picture) return ["If only the picture were a little different, ", ...end];
  moved.sort((a, b) => size[b] - size[a]);
  const parts = moved.slice(0, NAMED).map((d) => {
    const feature = data.features[d];
    return [strong(feature.name), ` were ${text(feature, x[d])} instead of ${text(feature, feature.from)}`];
  });
  const further = moved.length - parts.length + unseen;
  if (further) parts.push([further === 1 ? "one smaller change was made" : `${further} smaller changes were made`]);
  const list = parts.flatMap((part, i) => (i === 0 ? part : [i === parts.length - 1 ? " and " : ", ", ...part]));
  return ["If only ", ...list, ", ", ...end];
}

function draw() {
  const found = answer(place);
  $("value").textContent = short(found.wanted);
  wanted.setAttribute("aria-valuetext", `${short(found.wanted)} ${data.target}`);
  $("decided-then").textContent = found.decided;
  if (data.bars.length) $("chance-then").textContent = `${percent(found.p[data.k])} for ${data.target}`;
  $("sentence").replaceChildren(...sentence(found));
  for (const { j, sum, fill, after } of bars) {
    const p = sum ? sum(found.p) : found.p[j];
    fill.style.transform = `scaleX(${p})`;
    after.textContent = percent(p);
  }
  for (const [d, { feature, row, after, difference, fill }] of rows.entries()) {
    if (row.hidden) continue;
    const value = text(feature, found.x[d]);
    const same = value === text(feature, feature.from);
    after.textContent = value;
    difference.textContent = same ? "same" : typeof feature.from === "number" ? signed(found.x[d] - feature.from, feature.decimals) : "other";
    row.className = same ? "same" : "";
    fill.style.transform = `scaleX(${found.size[d] / data.size})`;
  }
  $("proof").textContent = found.proof;
  if (picture) {
    picture.compare($("change"), found.image);
    picture.paint($("after"), found.image);
  }
}

// ---- the slider ----

let frame = 0;
let timer = 0;

/** At most one drawing a frame; a screen reader hears the sentence when the slider has come to rest. */
function move(to) {
  place = to;
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    draw();
  });
  $("sentence").setAttribute("aria-busy", "true");
  clearTimeout(timer);
  timer = setTimeout(() => $("sentence").setAttribute("aria-busy", "false"), QUIET);
}

const within = (value) => Math.min(Math.max(value, least), most);
wanted.addEventListener("input", () => {
  const value = Number(wanted.value);
  move(isLive ? within(Math.round(1000 * value) / 1000) : value);
});
wanted.addEventListener("keydown", (event) => {
  const whole = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 5, PageDown: -5 }[event.key];
  if (!isLive || !whole || event.altKey || event.ctrlKey || event.metaKey) return; // Home and End are the browser's
  event.preventDefault();
  const part = event.shiftKey ? 1000 : 100; // with Shift by tenths
  const here = place * part;
  const near = Math.abs(here - Math.round(here)) < 1e-6 ? Math.round(here) : whole > 0 ? Math.floor(here) : Math.ceil(here);
  move(within((near + whole) / part));
  wanted.value = place;
});

// ---- light and dark ----

const theme = $("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
const dress = () => {
  const dark = chosen ?? system.matches;
  document.documentElement.style.colorScheme = chosen === null ? "" : dark ? "dark" : "light";
  theme.textContent = dark ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Switch to ${dark ? "light" : "dark"} colours`);
  if (picture) picture.dress(); // in the colours of its caption
  draw();
};
theme.addEventListener("click", () => {
  chosen = !(chosen ?? system.matches);
  dress();
});
system.addEventListener("change", dress);

document.querySelector("main").hidden = false;
dress();
