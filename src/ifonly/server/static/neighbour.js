/* The nearest row of the data that is decided otherwise, and what differs. */

import { shown } from "./fields.js";
import { called, spoken } from "./question.js";
import { $, make, prose } from "./web/dom.js";
import { count, number, percent, share } from "./web/numbers.js";

const LISTED = 8; // differences that are listed

/** `near` is the server's, its values by name; `now` are those of the row that is asked about. */
export function drawNeighbour(near, target, now, { model, picture, overview }) {
  const { index, keys, proba, searched, n_differs: n } = near;
  const predicted = called(model, near.predicted);
  const about = Object.entries(keys).map(([name, v]) => `${name} ${shown(v)}`).join(", ");
  const chance = proba && target in proba ? `, ${percent(proba[target], "tenths")} for ${called(model, target)}` : "";
  const differs = `It differs in ${number(n)} of ${count(model.features.length, model.image ? "pixel" : "feature")}.`;
  const sample = searched < overview.total ? ` Of ${number(searched)} rows, spread evenly over the data.` : "";
  $("neighbour-title").textContent = `The nearest real one that is ${predicted}`;
  prose($("neighbour-said"), `Row ${index}${about && ` (${about})`}: ${predicted}${chance}. ${differs}${sample}`);
  $("to-neighbour").textContent = `Look at row ${index}`;
  $("neighbour-picture").hidden = !picture;
  $("differences").parentElement.hidden = Boolean(picture);
  if (picture) picture.paint($("neighbour-picture"), picture.values(near.values));
  else $("differences").replaceChildren(...table(near, now, model));
}

function table({ index, values, differs, n_differs: n }, now, { features }) {
  const heads = ["Differs in", "This row", `Row ${index}`, "Of the distance"];
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col", textContent: text })));
  const lines = differs.slice(0, LISTED).map(({ feature: name, share: part }) => {
    const feature = features.find((f) => f.name === name);
    const texts = [spoken(feature, now[name]), spoken(feature, values[name]), share(part)];
    const cells = texts.map((text) => make("td", { textContent: text }));
    return make("tr", {}, make("th", { scope: "row", textContent: feature.label }), ...cells);
  });
  if (n > lines.length) {
    const more = make("td", { colSpan: heads.length, className: "note", textContent: `and ${number(n - lines.length)} more` });
    lines.push(make("tr", {}, more));
  }
  return [make("thead", {}, head), make("tbody", {}, ...lines)];
}
