/* The page: what a person asks for is the state, and everything on the page follows from it and the server's answer. */

import { drawAnswer, keepInView } from "./answer.js";
import { download, get, Line, post, Refusal, tokensFrom } from "./ask.js";
import { firstProblem, inOurWords } from "./checks.js";
import { calm, complain } from "./complaints.js";
import { Neighbours } from "./neighbours.js";
import { Features } from "./features.js";
import { put, readNumber, shown, tidied } from "./fields.js";
import { Chart, pathQuestion } from "./path.js";
import { Pixels } from "./pixels.js";
import { Bookmarks, drawPlans } from "./plans.js";
import { baseOf, called, inTheWay, labelled, mayChoose, question, rowNow, wanted } from "./question.js";
import { openReceipt } from "./receipt.js";
import { Rows, valuesOf } from "./rows.js";
import { Slider } from "./slider.js";
import { blank, read, remember, write } from "./state.js";
import { undoing } from "./undo.js";
import { $, prose } from "./web/dom.js";
import { number, percent, quoted, writeAs } from "./web/numbers.js";
import { themes } from "./web/theme.js";

const SLOW = 300; // milliseconds until the page says that it is waiting
const MOST_PLANS = 5; // side by side
const MOST_NAMED = 6; // limits in the way
const MOST_CURVES = 60; // of one request

const main = document.querySelector("main");
let state = read(location.hash.slice(1));
let model = null; // what the server says of the model
let row = null; // what the state calls it, its index in the data (null if typed in), its values, what else the data say of it
let reply = null; // the answers on the page …
let asked = null; // … and the question that they are to, with the state and the row at that time
let picture = null;
let pathOf = ""; // the question whose path is drawn
let lookedAt = ""; // the model of whose data the page knows what is usual
let learned = ""; // the row and decision that the curves and the neighbour belong to
let usual = ""; // the model that is shown where none is named
let turn = 0; // counts steps, so that what comes late is known

const steps = remember((next) => go(next));
const features = new Features({
  change: (step) => change(step(pinned(state))),
  slide: (step, first) => slide(step(pinned(state)), first),
  rest: () => go(state),
  look: () => learn(),
});
const neighbours = new Neighbours((index) => change(toRow(String(index))));
const slider = new Slider(
  (prob, first) => slide({ ...state, prob }, first),
  (name, value) => change({ ...state, [name]: value }),
);
const chart = new Chart((prob) => change({ ...state, prob: String(prob) }));
const rows = new Rows((index) => change(toRow(String(index))));
const bookmarks = new Bookmarks();
const line = new Line((body, signal) => post("v1/invert", body, signal), answered, refused);

// ---- from the person to the state ----

/** One step, which can be undone. */
function change(next) {
  steps.push(next);
  go(next);
}

/** A slider: the first move is a step, and those that follow until it rests change that step. */
function slide(next, first) {
  if (first) steps.push(next);
  else steps.replace(next);
  state = next;
  features.show(state, row);
  slider.show(state, reply);
  ask();
  stepsShown();
}


/** With the decision that is wanted by name: "another" would turn round when a value that is typed in turns the present one. */
const pinned = (open) => ({ ...open, target: open.target || String(reply?.answers[0].target ?? "") });

/** Another row: what was typed into the last one goes, what may change stays. */
const toRow = (index) => ({ ...state, row: index, set: blank().set, plan: "0" });

/** The page for another state. Models and rows have to be fetched, and a person may be faster: the last step counts. */
async function go(next) {
  const mine = ++turn;
  state = next;
  stepsShown();
  main.setAttribute("aria-busy", "true");
  try {
    if (!hasModel()) await loadModel();
    if (hasModel() && !hasRow()) await loadRow();
    if (mine !== turn) return;
    show();
    ask();
  } catch (error) {
    if (mine === turn) refused(error);
  }
}

const hasModel = () => model?.name === (state.model || usual);
const hasRow = () => hasModel() && row?.of === state.row;

// ---- from the server ----

async function start() {
  $("trouble").hidden = true;
  try {
    const { models } = await get("v1/models");
    bookmarks.load(models);
    usual = (models.find((m) => m.default) ?? models[0]).name;
    $("model").replaceChildren(...models.map((m) => new Option(m.name, m.name)));
    $("models").hidden = models.length < 2;
  } catch (error) {
    return refused(error);
  }
  await go(state);
}

async function loadModel() {
  line.drop();
  const found = await get("v1/model", { model: state.model || usual });
  if (found.name !== (state.model || usual)) return; // another was chosen meanwhile
  writeAs(found.policy?.marks);
  const named = labelled(found.features, found.image);
  model = { ...found, features: named, labels: new Map(named.map((f) => [f.name, f.label])) };
  row = reply = null;
  pathOf = "";
  chart.clear();
  lookedAt = learned = "";
  picture = model.image ? new Pixels(model) : null;
  neighbours.load(model, picture);
  features.load(model);
  rows.load(model, picture);
  $("model-name").textContent = model.name;
  $("version").textContent = model.version;
  const open = new Option(model.classes.length === 2 ? "the other" : "another", "");
  $("target").replaceChildren(open, ...model.classes.map((c) => new Option(called(model, c), String(c))));
  const most = Math.min(model.limits.max_n, MOST_PLANS);
  $("plans").replaceChildren(...Array.from({ length: most }, (_, i) => new Option(i ? String(i + 1) : "one", String(i + 1))));
  $("picture").hidden = !picture;
  $("who").hidden = !model.rows;
  $("within-label").hidden = !model.features.some((f) => f.low !== null);
  const ownName = (code) => new Intl.DisplayNames([code], { type: "language" }).of(code);
  $("language").replaceChildren(...model.languages.map((code) => new Option(ownName(code), code)));
  $("language").value = model.policy?.language ?? "en";
  $("path").hidden = model.hard;
}

/** The row that the state names: of the data, or a typical one for a person to change. */
async function loadRow() {
  line.drop();
  const of = state.row;
  if (of === "typed" || !model.rows) {
    const typical = (f) => f.typical ?? (f.values ? f.values[0] : 0);
    row = { of, index: null, values: Object.fromEntries(model.features.map((f) => [f.name, typical(f)])), about: "" };
    return;
  }
  const index = of === "" ? 0 : readNumber(of).value;
  if (!(Number.isInteger(index) && index >= 0 && index < model.rows)) {
    if (!row) await loadFirst(); // something to begin with
    throw new Refusal(`The rows are numbered from 0 to ${number(model.rows - 1)}.`, { field: "index" });
  }
  const found = await fetchRow(index);
  if (state.row === of && hasModel()) row = { of, ...found }; // or another was chosen meanwhile
}

async function loadFirst() {
  row = { of: "", ...(await fetchRow(0)) };
  show();
}

async function fetchRow(index) {
  const { rows: [found] } = await get("v1/rows", { model: model.name, offset: index, limit: 1 });
  const about = Object.entries(found.keys).map(([name, value]) => `${name} ${shown(value)}`);
  return { index, values: valuesOf(found, model), about: about.join(", ") };
}

// ---- from the state to the page ----

/** The row of the answer on the page in words, for bookmarks and receipts. */
function who() {
  const { row, state } = asked.view;
  if (row.index === null) return "typed in";
  const edits = Object.keys(state.set).length ? ", changed by hand" : "";
  return `row ${row.index}${row.about ? ` (${row.about})` : ""}${edits}`;
}

function show() {
  main.hidden = false;
  $("model").value = model.name;
  put($("row"), row.index ?? "");
  $("previous").disabled = !row.index;
  $("next").disabled = row.index === null || row.index >= model.rows - 1;
  $("type").setAttribute("aria-pressed", row.index === null);
  $("row-label").textContent = model.rows ? `Row, of ${number(model.rows)}` : "Row";
  const typed = "Values that are typical: type your own into the table.";
  $("about").textContent = row.index === null ? typed : row.about && `In the data: ${row.about}`;
  $("target").value = wanted(state, model, "target");
  $("target").disabled = !mayChoose(model, "target");
  put($("few"), state.changes);
  $("few").placeholder = model.policy?.max_changes ?? "any";
  $("plans").value = state.plans;
  $("within").checked = state.within === "1";
  features.show(state, row);
  slider.load(model, state);
  slider.show(state, reply);
  stepsShown();
}

function stepsShown() {
  $("undo").disabled = !steps.canUndo();
  $("redo").disabled = !steps.canRedo();
}

// ---- questions and answers ----

let patience = 0;

function ask() {
  if (!hasRow()) return; // it is on its way, and the question comes after it
  const wrong = firstProblem(state, model);
  if (wrong) {
    line.drop();
    return refused(new Refusal(wrong[0], { field: wrong[1], status: 422 }));
  }
  const body = question(state, model, row);
  clearTimeout(patience);
  patience = setTimeout(() => behind("waiting"), SLOW);
  main.setAttribute("aria-busy", "true");
  line.ask(baseOf(body, features.sliding), body, { state, row });
}

const LATE = {
  waiting: "Working it out … What is shown is the answer to the question before.",
  stale: "This question is not answered. What is shown is the answer to the one before.",
};

/** Whether the answer on the page is to the question that is asked; "waiting" and "stale" grey it, and say so. */
function behind(kind = null) {
  for (const name of Object.keys(LATE)) document.body.classList.toggle(name, name === kind);
  const words = kind === null || reply ? (LATE[kind] ?? "") : "";
  if ($("late").textContent !== words) $("late").textContent = words;
}

function answered(found, flight) {
  if (found.model.fingerprint !== model.fingerprint) {
    model = null; // its file was changed: all that is known of it is old
    return go(state);
  }
  for (const part of found.answers.flatMap((one) => one.changes)) part.label = model.labels.get(part.feature) ?? part.feature;
  const settled = line.idle && !slider.dragging && !features.sliding;
  const refusal = found.answers.find((one) => one.decision === null);
  if (refusal) return refused(new Refusal(refusal.message ?? refusal.sentence));
  const { base, body, view } = (asked = flight);
  reply = found;
  calm();
  behind();
  if (line.idle) rest();
  const answer = chosen();
  const plan = found.answers.indexOf(answer);
  drawAnswer(answer, model, { plan, settled });
  drawPlans(found.answers, plan, Number(state.plans), model, (i) => change({ ...state, plan: String(i) }));
  features.draw(answer);
  if (settled) features.arrange();
  picture?.show(rowNow(view.state, model, view.row), answer.x, base);
  slider.show(state, reply);
  outOfReach(answer);
  chart.mark(answer);
  neighbours.show(answer, rowNow(view.state, model, view.row));
  if (!settled) return;
  drawPath(body, answer);
  learn();
}

// ---- what the data say beside it ----

/** What is usual in the data, once; who is near and what features do by themselves, once for each row and decision, and
    then for lines of the table that were not shown before. */
async function learn() {
  if (!reply || !asked || !line.idle || features.sliding) return;
  const mine = model;
  const { index, row, edits } = asked.body;
  const about = { model: model.name, index, row, edits, target: reply.answers[0].target };
  const key = JSON.stringify(about);
  const fresh = key !== learned;
  if (fresh) features.forget();
  learned = key;
  const names = model.image ? [] : features.unlearned(MOST_CURVES);
  if (!fresh && !names.length) return;
  try {
    if (mine.rows && lookedAt !== mine.name) {
      lookedAt = mine.name;
      const overview = await get("v1/overview", { model: mine.name });
      if (mine !== model) return;
      features.data(overview);
      neighbours.data(overview);
    }
    const found = await post("v1/around", { ...about, features: names });
    if (learned !== key || mine !== model) return; // stale
    features.learn(found.curves, called(mine, found.target));
    neighbours.show(chosen(), rowNow(asked.view.state, model, asked.view.row), fresh ? found.nearest : undefined);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (learned !== key) return;
    features.learn([], called(mine, about.target)); // the page does without
    neighbours.show(chosen(), rowNow(asked.view.state, model, asked.view.row), null);
  }
}

/** Nothing is on its way any more. */
function rest() {
  clearTimeout(patience);
  main.setAttribute("aria-busy", "false");
}

/** The plan on the page, of those that the server found. */
const chosen = () => reply.answers[Number(asked.view.state.plan)] ?? reply.answers[0];

function outOfReach(answer) {
  const box = $("reach");
  const stuck = answer.status === "unreachable";
  box.hidden = !stuck;
  if (!stuck) return;
  const held = inTheWay(answer.blocking, state, model).slice(0, MOST_NAMED).join(", ");
  const best = answer.decision.p_to;
  const words = `The best that can be reached is ${percent(best, "short")}.${held && ` In the way: ${held}.`}`;
  prose(box.querySelector("p"), model.hard ? quoted(answer.message) : words);
  $("settle").hidden = model.hard || !(best > 0.01);
  const most = String(Math.floor(1000 * best) / 1000);
  $("settle").textContent = `Ask for ${percent(Number(most), "short")}`;
  $("settle").onclick = () => change({ ...state, prob: most });
}

/** The path does not depend on the wanted probability: it is asked for when something else has changed. */
async function drawPath(body, answer) {
  if (model.hard) return;
  const { probs, ...same } = pathQuestion(body, model, answer);
  const key = JSON.stringify(same);
  if (key === pathOf) return;
  pathOf = key;
  $("chart").setAttribute("aria-busy", "true");
  try {
    let found = await post("v1/path", { ...same, probs });
    const end = found.status.indexOf("unreachable");
    if (end >= 0 && end < probs.length - 1 && found.prob[end] > answer.decision.p_from) {
      // the limits end before the curve would: as many points again, up to there
      found = await post("v1/path", pathQuestion(body, model, answer, found.prob[end]));
    }
    if (pathOf !== key) return; // stale
    chart.load(found, answer, probs !== undefined);
    chart.mark(chosen());
  } catch (error) {
    if (pathOf !== key) return;
    chart.clear(`This could not be drawn: ${inOurWords(error, model)}`);
  }
  $("chart").setAttribute("aria-busy", "false");
}

function refused(error) {
  rest();
  behind("stale");
  if (!(error instanceof Refusal)) throw error;
  error.message = inOurWords(error, model);
  const passing = error.status === 0 || error.status >= 500;
  const again = { words: "Try again", act: () => (model && row ? go(state) : start()) };
  const afresh = { words: "Start afresh", act: () => change(blank()) };
  complain(error, (path) => model && features.find(path), passing ? again : model ? null : afresh);
}

// ---- controls ----

$("skip").addEventListener("click", () => $("sentence").focus());
$("model").addEventListener("change", () => change({ ...blank(), model: $("model").value }));
$("row").addEventListener("change", () => change(toRow(tidied($("row").value))));
$("previous").addEventListener("click", () => change(toRow(String(Math.max(row.index - 1, 0)))));
$("next").addEventListener("click", () => change(toRow(String(row.index + 1))));
$("choose").addEventListener("click", () => rows.open());
$("type").addEventListener("click", () => change(toRow(row.index === null ? "" : "typed")));
$("target").addEventListener("change", () => change({ ...state, target: $("target").value, plan: "0" }));
$("few").addEventListener("change", () => change({ ...state, changes: tidied($("few").value), plan: "0" }));
$("plans").addEventListener("change", () => change({ ...state, plans: $("plans").value, plan: "0" }));
$("within").addEventListener("change", () => change({ ...state, within: $("within").checked ? "1" : "0" }));

undoing(steps);
keepInView();

$("share").addEventListener("click", async () => {
  steps.flush();
  try {
    await navigator.clipboard.writeText(location.href);
    say($("share"), "Copied");
  } catch {
    say($("share"), "Copy it from the address bar"); // no clipboard without a secure connection
  }
});

/** For a moment a button says something else. */
function say(button, words) {
  const before = (button.dataset.before ??= button.textContent);
  button.textContent = words;
  setTimeout(() => Object.assign(button, { textContent: before }), 1500);
}

$("bookmark").addEventListener("click", () => {
  steps.flush();
  const { state, row } = asked.view; // what is kept is what is shown
  const title = who().replace(/^./, (c) => c.toUpperCase());
  const place = write({ ...state, model: model.name, row: row.index === null ? "typed" : String(row.index) });
  const fresh = bookmarks.add(chosen(), model, title, place);
  $("kept").textContent = fresh ? "Bookmarked, below." : "This one is bookmarked already.";
});
$("open-receipt").addEventListener("click", () => {
  openReceipt({ answer: chosen(), plan: reply.answers.indexOf(chosen()), ...asked.view, model, who: who() });
});
$("print").addEventListener("click", () => print());
for (const button of document.querySelectorAll(".download")) {
  button.addEventListener("click", async () => {
    const { detail: _, top: __, ...body } = asked.body;
    try {
      const plan = body.n ? { plan: reply.answers.indexOf(chosen()) } : {};
      const name = await download(button.value, { ...body, ...plan }, button.value === "letter" ? $("language").value : null);
      $("kept").textContent = `Saved as ${name}.`;
    } catch (error) {
      $("kept").textContent = inOurWords(error, model);
    }
  });
}
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.querySelector(".close")?.addEventListener("click", () => dialog.close());
}

tokensFrom((again) => {
  const dialog = $("token-dialog");
  $("token-trouble").hidden = !again;
  $("token").value = "";
  dialog.showModal();
  return new Promise((done, fail) => {
    dialog.onclose = () => ($("token").value ? done($("token").value) : fail(new Refusal("This server asks for a token.")));
  });
});

themes(() => {
  picture?.dress();
  if (picture && reply) answered(reply, asked);
}, localStorage);
start();
