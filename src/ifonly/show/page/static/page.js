/* The page: one number goes in, the wanted probability, and everything on it follows. */

import { live, pixelsOf, stepped } from "./answers.js";
import { bar, others } from "./web/bars.js";
import { $, breaking, heading, hush, make, prose, track, unbroken } from "./web/dom.js";
import { count, fixed, number, percent, signed, writeAs } from "./web/numbers.js";
import { Picture } from "./web/picture.js";
import { keyed } from "./web/slider.js";
import { themes } from "./web/theme.js";

const FEW = 12; // rows of the table before one asks for all
const KEPT = 8; // features that may not change, by name

const data = JSON.parse($("data").textContent);
writeAs(data.marks);
const isLive = data.mode === "live";
const answers = isLive ? live(data) : stepped(data);
const picture = data.image && new Picture(data.image);
const pixels = data.image && pixelsOf(data.image);
const wanted = $("wanted");
const [least, most] = isLive ? data.ends : [0, data.steps.length - 1];
let place = isLive ? data.wanted : data.start; // a probability, or the number of a step

// ---- what does not move ----

/** A value of a feature. */
const shown = ({ decimals }, v) => (typeof v === "number" ? fixed(v, decimals) : v);
const asksFor = (at) => percent(isLive ? at : data.steps[at].wanted, "short");
const chance = (p) => (data.bars.length ? unbroken(`${percent(p, "tenths")} for ${data.target}`) : "");

for (const element of document.querySelectorAll(".target")) element.textContent = data.target;
$("decided-now").textContent = data.decided;
$("chance-now").textContent = chance(answers.now.p);
$("least").textContent = asksFor(least);
$("most").textContent = asksFor(most);
prose($("beyond"), data.beyond ?? "");
$("control").hidden = !(least < most);
$("chances").hidden = !data.bars.length;
$("picture").hidden = !picture;
// One step of a slider without limits is whatever the pointer says; the value is rounded to a tenth of a per cent below.
Object.assign(wanted, { min: least, max: most, step: isLive ? "any" : 1 });
wanted.value = place;

const rows = data.features.map((feature, i) => {
  const className = typeof feature.from === "number" ? "number" : "number word";
  const before = make("td", { className, textContent: shown(feature, feature.from) });
  const after = make("td", { className });
  const difference = make("td", { className: "number" });
  const fill = make("div", { className: "fill" });
  const effort = make("td", { className: "wide effort", "aria-hidden": "true" }, track(fill));
  const row = make("tr", { hidden: i >= FEW }, heading(feature.name), before, after, difference, effort);
  $("rows").append(row);
  return { feature, row, after, difference, fill };
});
$("changes").hidden = !rows.length;

const all = $("all");
const more = `Show ${data.unlisted ? "the first" : "all"} ${rows.length}`;
all.hidden = rows.length <= FEW;
all.textContent = more;
all.addEventListener("click", () => {
  const open = all.getAttribute("aria-expanded") !== "true";
  all.setAttribute("aria-expanded", open);
  all.textContent = open ? `Show the first ${FEW}` : more;
  for (const [i, { row }] of rows.entries()) row.hidden = !open && i >= FEW;
  draw();
});

const strong = ([text]) => make("strong", {}, ...breaking(text));

/** What the table leaves out. */
function remarks() {
  const still = data.total - rows.length;
  const more = data.kept.length - KEPT;
  const kept = data.kept.slice(0, KEPT).join(", ") + (more > 0 ? ` and ${number(more)} more` : "");
  const notes = [];
  if (data.unlisted) notes.push(`These are the largest changes; ${count(data.unlisted, "other feature")} change by less.`);
  else if (still === 1) notes.push("One other feature stays as it is.");
  else if (still > 1) notes.push(`The other ${number(still)} features stay as they are.`);
  if (kept) notes.push(`Not allowed to change: ${kept}.`);
  return notes.join(" ");
}
prose($("others"), remarks());

// ---- what moves ----

function draw() {
  const found = answers.at(place);
  $("value").textContent = percent(found.wanted, "short");
  wanted.setAttribute("aria-valuetext", `${percent(found.wanted, "short")} ${data.target}`);
  $("decided-then").textContent = found.decided;
  $("chance-then").textContent = chance(found.p);
  $("sentence").replaceChildren(...found.said.flatMap((part) => (typeof part === "string" ? breaking(unbroken(part)) : [strong(part)])));
  $("beyond").hidden = !data.beyond || found.short; // the sentence says it
  $("then").textContent = found.short ? "The best there is" : "If only";
  prose($("proof"), found.proof);
  drawBars(found.bars);
  for (const [d, { feature, row, after, difference, fill }] of rows.entries()) {
    if (row.hidden) continue;
    after.textContent = shown(feature, found.x[d]);
    const same = after.textContent === shown(feature, feature.from);
    const moves = typeof feature.from === "number" ? signed(fixed(found.x[d] - feature.from, feature.decimals)) : "other";
    difference.textContent = same ? "same" : moves;
    row.className = same ? "same" : "";
    fill.style.transform = `scaleX(${found.size[d] / data.size})`;
  }
  picture?.draw(pixels, found.image, data.image.top);
}

function drawBars(then) {
  const { bars: now } = answers.now;
  const lines = data.bars.map((j, i) => bar(data.classes[j], now[i], then[i], j === data.k ? "wanted" : ""));
  if (data.rest) lines.push(others(data.rest, now.at(-1), then.at(-1)));
  $("bars").replaceChildren(...lines);
}

// ---- the slider ----

let frame = 0;

/** At most one drawing a frame. */
function move(to) {
  place = to;
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    draw();
  });
  hush($("sentence"));
}

wanted.addEventListener("input", () => {
  const at = Number(wanted.value);
  move(isLive ? Math.min(Math.max(Math.round(1000 * at) / 1000, least), most) : at);
});
wanted.addEventListener("keydown", (event) => {
  const to = isLive ? keyed(event, place, least, most) : null;
  if (to === null) return;
  move(to);
  wanted.value = place;
});

document.querySelector("main").hidden = false;
themes(() => {
  picture?.dress(); // in the colours of its caption
  draw();
});

// In a notebook's cell, the frame around the page is made as high as the page is.
const root = document.documentElement;
const tell = () => parent.postMessage({ ifonlyHeight: Math.ceil(root.getBoundingClientRect().height) }, "*");
const begin = () => (innerWidth ? tell() : setTimeout(begin, 20)); // without a width yet, it would be as high as a word is wide
if (parent !== window) {
  begin(); // an observer waits until the frame is seen
  new ResizeObserver(() => innerWidth && tell()).observe(root);
}
