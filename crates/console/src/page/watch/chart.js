// Small charts: one or two figures over a stretch. Where nothing was read the line ends, the
// gap is shaded, and its reason stands in words below the verdicts.
import { h } from "../element.js";
import { clock, figure, moment } from "./word.js";

const HEIGHT = 56;
// Ceilings that are sums of ones, twos and fives: an axis that does not move with every reading.
function ceiling(values, unit) {
  const top = Math.max(...values, 0);
  if (unit === "share") return Math.max(1, top);
  if (top <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(top));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= top);
}

// Pieces of the line, each [[cell, value], ...]: cut at gaps, and where more cells are empty than a slow
// reading explains.
function pieces(history, single, gaps) {
  const bridged = Math.max(2, Math.ceil(6 / history.step_s));
  const list = [];
  let last = null;
  single.values.forEach((value, cell) => {
    if (value === null) return;
    const at = history.from_s + cell * history.step_s;
    const before = last === null ? null : history.from_s + last * history.step_s;
    const cut = last === null || cell - last > bridged || gaps.some((gap) => gap.from_s < at && (gap.to_s ?? Infinity) > before + history.step_s);
    if (cut) list.push([]);
    list.at(-1).push([cell, value]);
    last = cell;
  });
  return list;
}

const span = (history) => history.to_s - history.from_s || 1;
export const across = (history, at_s) => Math.min(100, Math.max(0, (100 * (at_s - history.from_s)) / span(history)));

function line(history, piece, top) {
  const cells = span(history) / history.step_s;
  const x = (cell) => ((100 * (cell + 0.5)) / cells).toFixed(2);
  const y = (value) => (HEIGHT - 1 - ((HEIGHT - 3) * Math.min(value, top)) / top).toFixed(1);
  // A reading alone is a line of no length, which a round end makes a dot.
  return piece.map(([cell, value], i) => (i ? "L" : "M") + x(cell) + " " + y(value)).join("") + (piece.length === 1 ? "h0" : "");
}

export function shades(history, gaps, height) {
  return gaps.map((gap) => {
    const from = across(history, gap.from_s), to = across(history, gap.to_s ?? history.to_s);
    return h("rect", { class: "gap", x: from.toFixed(2), y: 0, width: Math.max(0.3, to - from).toFixed(2), height }, h("title", {}, "gap: " + gap.why));
  });
}

// Names beside the first are told without the words that they share with it: "disk reads", "writes",
// "flushes".
function names(series) {
  const first = series[0].label.split(" ");
  return series.map((single, i) => {
    const words = single.label.split(" ");
    let same = 0;
    while (i > 0 && same < words.length - 1 && words[same] === first[same]) same++;
    return words.slice(same).join(" ");
  });
}

// `series`: one or more of the same unit; the first is the one that the figure in the head is of.
export function chart(history, subject, series, name) {
  const unit = series[0].unit;
  const known = series.flatMap((single) => single.values.filter((value) => value !== null));
  const top = ceiling(known, unit);
  const newest = series[0].values.findLast((value) => value !== null);
  const label = series.map((single) => single.label).join(", ");
  return h("figure", { class: "chart", "data-of": name + " " + series[0].name },
    h("figcaption", {}, h("span", { class: "label" }, names(series).map((text, i) => h("span", { class: "key k" + i }, text))),
      h("b", { class: "now" }, figure(newest, unit)), h("span", { class: "at" }, "")),
    h("svg", { viewBox: "0 0 100 " + HEIGHT, preserveAspectRatio: "none", role: "img", "aria-label": label + ": now " + figure(newest, unit) + ", axis to " + figure(top, unit) },
      shades(history, subject.gaps, HEIGHT),
      series.map((single, i) => pieces(history, single, subject.gaps).map((piece) => h("path", { class: "k" + i, d: line(history, piece, top) })))),
    h("div", { class: "times", "aria-hidden": "true" }, h("span", {}, moment(history, history.from_s)), h("span", {}, moment(history, history.to_s))),
    h("span", { class: "top" }, known.length ? figure(top, unit) : "nothing read"));
}

// While the pointer is over a chart its head tells the figure at that moment.
export function follow(root, ask) {
  const leave = (node) => { node.classList.remove("read"); };
  root.addEventListener("pointermove", (event) => {
    const node = event.target.closest?.(".chart");
    root.querySelectorAll(".chart.read").forEach((other) => { if (other !== node) leave(other); });
    const history = ask();
    if (!node || !history) return;
    const box = node.querySelector("svg").getBoundingClientRect();
    const cell = Math.floor(((event.clientX - box.left) / box.width) * (span(history) / history.step_s));
    const single = find(history, node.dataset.of);
    if (!single || cell < 0) return;
    node.classList.add("read");
    const value = single.values[cell];
    node.querySelector(".at").textContent = (value === undefined || value === null ? "nothing read" : figure(value, single.unit)) + " at " + clock(history, history.from_s + cell * history.step_s);
  });
  root.addEventListener("pointerleave", () => root.querySelectorAll(".chart.read").forEach(leave));
}

export const key = (subject) => subject.kind + (subject.name ? ":" + subject.name : "");

function find(history, of) {
  const cut = of.lastIndexOf(" ");
  const subject = history.subjects.find((one) => key(one) === of.slice(0, cut));
  return subject && subject.series.find((single) => single.name === of.slice(cut + 1));
}
