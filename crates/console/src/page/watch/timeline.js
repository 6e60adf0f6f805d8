// Verdicts over time: a bar a subject, coloured by what was named, gaps hatched; and the same as text.
import { h } from "../element.js";
import { across, key } from "./chart.js";
import { called as agent } from "./hosts.js";
import { clock, lasted } from "./word.js";

const TOLD = 12; // lines of text

// The same bottleneck has the same colour on every page.
const COLOURS = { cpu: 2, steal: 2, "host-memory": 4, "disk-latency": 3, "flush-bound": 3, "buffer-pool": 6, "softirq-on-one-cpu": 1, "packet-drops": 1, nic: 1, "neighbour-table": 1, "conntrack-table": 1, "row-locks": 8, "metadata-locks": 8, connections: 4, "replication-lag": 5, "single-threaded-apply": 5, "cross-zone": 7, "not-the-database": 7,
  "cpu-limit": 2, "cpu-pinned": 2, "memory-limit": 4, "disk-space": 3, retransmits: 1, "global-lock": 8, "table-locks": 8, "auto-increment": 8, latches: 8, "redo-log": 3, purge: 6, "temporary-tables": 6, "new-connections": 4, "table-cache": 4, "one-statement": 6, "semi-sync": 5, "commits-hang": 3, "io-limit": 3, "one-session": 2, "apply-without-key": 5, "thread-limit": 4, "open-files": 4, admission: 4 };
const colour = (name) => (name === null ? "var(--free)" : "var(--z" + (COLOURS[name] ?? 7) + ")");
export const called = (subject) => subject.kind === "host" ? "this host" : subject.kind === "router" ? "the router" : subject.kind === "agent" ? agent(subject.name) : subject.name;

const tall = 22;

function bar(history, subject) {
  const place = (from_s, to_s) => {
    const from = across(history, from_s), to = across(history, to_s);
    return { left: from.toFixed(3) + "%", width: Math.max(0.15, to - from).toFixed(3) + "%" };
  };
  const words = (span) => called(subject) + ": " + span.called + ", " + clock(history, span.from_s) + " to " + clock(history, span.to_s) + " (" + lasted(span.to_s - span.from_s) + ")";
  const gone = (gap) => called(subject) + ": gap, nothing is known from " + clock(history, gap.from_s) + (gap.to_s === null ? " on" : " to " + clock(history, gap.to_s)) + ": " + gap.why;
  return h("div", { class: "course", role: "img", "aria-label": "bottlenecks of " + called(subject) + ", as text below" },
    subject.verdicts.map((span) => h("i", { title: words(span), style: { ...place(span.from_s, span.to_s), background: colour(span.name) } })),
    subject.gaps.map((gap) => h("i", { class: "gap", title: gone(gap), style: place(gap.from_s, gap.to_s ?? history.to_s) })));
}

export function timeline(history) {
  const told = history.subjects.filter((subject) => subject.verdicts.length || (["server", "agent"].includes(subject.kind) && subject.gaps.length));
  if (!told.length) return [h("p", { class: "empty" }, "The first window is being read.")];
  const names = new Map();
  told.forEach((subject) => subject.verdicts.forEach((span) => names.set(span.called, span.name)));
  const legend = [...names].sort().map(([text, name]) => h("span", { style: { "--k": colour(name) } }, text));
  if (told.some((subject) => subject.gaps.length)) legend.push(h("span", { class: "hatched" }, "gap: nothing was read"));
  return [
    h("div", { class: "courses" }, told.map((subject) => h("div", { class: "row" }, h("span", { class: "who", title: called(subject) }, called(subject)), bar(history, subject)))),
    h("div", { class: "axis" }, h("span", {}, clock(history, history.from_s)), h("span", {}, lasted(history.to_s - history.from_s)), h("span", {}, clock(history, history.to_s))),
    h("p", { class: "tapped", "aria-live": "polite" }, "Tap or point at a bar to read it."),
    h("div", { class: "legend" }, legend)];
}

// What happened, newest first: bottlenecks, gaps and jumps of the calendar.
export function events(history) {
  const list = history.jumps.map((jump) => [jump.at_s, "the calendar", "jumped " + lasted(Math.abs(jump.by_s)) + (jump.by_s > 0 ? " ahead (or this machine slept)" : " back") + "; the order of the readings is not touched"]);
  for (const subject of history.subjects) {
    if (subject.kind === "endpoint") continue;
    subject.verdicts.filter((span) => span.name !== null).forEach((span) => list.push([span.from_s, called(subject), span.called + " for " + lasted(span.to_s - span.from_s)]));
    subject.gaps.forEach((gap) => list.push([gap.from_s, called(subject), (gap.to_s === null ? "gap since then: " : "gap of " + lasted(gap.to_s - gap.from_s) + ": ") + gap.why]));
  }
  list.sort((a, b) => b[0] - a[0]);
  // A watcher that stood still is a gap of everybody: told once.
  const once = list.filter(([at, , text], i) => !text.includes("stood still") || list.findIndex((other) => other[0] === at && other[2] === text) === i)
    .map(([at, who, text]) => [at, text.includes("stood still") ? "everybody" : who, text]);
  if (!once.length) return [h("p", { class: "note" }, "No bottleneck was named and nothing is missing in this stretch.")];
  const row = ([at, who, text]) => h("li", {}, h("time", {}, clock(history, at)), h("b", {}, who), h("span", {}, text));
  return [h("ol", { class: "events" }, once.slice(0, TOLD).map(row)), once.length > TOLD ? h("p", { class: "note" }, once.length - TOLD + " earlier ones are in /history.json.") : null];
}

// A finger has no pointer that hovers: what a bar says is written below.
export function tap(root) {
  const tell = (event) => {
    const node = event.target.closest?.(".course i");
    const words = root.querySelector(".tapped");
    if (node && words) words.textContent = node.title;
  };
  root.addEventListener("click", tell);
  root.addEventListener("pointerover", tell);
}

export { key, tall };
