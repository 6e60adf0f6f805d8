// The map: zones as boxes, servers in them, arrows for replication and, where a router is known, for the
// reads that leave their zone. Laid out in pixels of the width there is: columns on a desk, one below the
// other on a phone.
import { h } from "../element.js";
import { details } from "./hosts.js";
import { figure, ofCeiling, share } from "./word.js";

const GAP = 18, PAD = 12, GUTTER = 26, HEAD = 50, BOX = 66, BETWEEN = 10, LANE = 52, LEAST = 250, SIDE = 46, ROUND = 7;
const NOWHERE = "(no zone known)";
const UNSEEN = 0.005; // a share below this is no arrow

const zoneOf = (server) => server.zone || NOWHERE;

// Of several hosts two servers may have one name, as 127.0.0.1:3306: each is known by its agent, too.
const keyOf = (server) => (server.agent || "") + " " + server.name;

// Whom a server replicates from: it is called so by the agent that tells of the server.
function sourceOf(view, server) {
  const all = view.servers.filter((one) => one.name === server.source);
  return all.find((one) => one.agent === server.agent) ?? (all.length === 1 ? all[0] : undefined);
}

// As much of a text as is `width` pixels wide in a font, as the browser would draw it.
const pen = document.createElement("canvas").getContext("2d");
const FAMILY = getComputedStyle(document.body).fontFamily;
const broad = (text, font) => { pen.font = font + " " + FAMILY; return pen.measureText(text).width; };
export function clip(text, width, font) {
  if (broad(text, font) <= width) return text;
  let fits = text.length;
  while (fits > 1 && broad(text.slice(0, fits) + "…", font) > width) fits--;
  return text.slice(0, fits).trimEnd() + "…";
}
const NAME = "640 14px", FACT = "400 12px", SAID = "600 12px", ZONE = "640 15px";

function flows(router) {
  if (!router || router.unanswered || !router.flow.zones.length) return [];
  const { zones, rows, demand } = router.flow;
  return rows.flatMap((row, i) => row.map((part, j) => ({ from: zones[i], to: zones[j], share: part, of_all: part * demand[i], stays: i === j })));
}

function layout(view, width) {
  const known = view.router && !view.router.unanswered ? view.router.flow : { zones: [], demand: [] };
  const names = [...new Set([...view.servers.map(zoneOf), ...known.zones.map((zone) => (zone === "(unknown)" ? NOWHERE : zone))])]
    .sort((a, b) => (a === NOWHERE) - (b === NOWHERE) || a.localeCompare(b, undefined, { numeric: true }));
  const leaving = flows(view.router).filter((flow) => !flow.stays && flow.share >= UNSEEN && flow.of_all >= UNSEEN);
  const columns = Math.max(1, Math.min(names.length, Math.floor((width + GAP) / (LEAST + GAP))));
  const side = columns === 1 && leaving.length ? SIDE : 0;
  const lane = columns > 1 && leaving.length ? LANE : 4;
  const wide = (width - side - GAP * (columns - 1)) / columns;
  const zones = new Map(), boxes = new Map();
  // Where replication passes over a zone, it goes round below it.
  const place = (name) => { const at = names.indexOf(name); return [Math.floor(at / columns), at % columns]; };
  const passing = new Map(); // row -> arrows that go round below it
  for (const server of view.servers) {
    const source = sourceOf(view, server);
    if (!source) continue;
    const [[row, column], [to_row, to_column]] = [place(zoneOf(source)), place(zoneOf(server))];
    const far = row === to_row ? Math.abs(column - to_column) > 1 : columns > 1;
    if (far) passing.set(Math.min(row, to_row), (passing.get(Math.min(row, to_row)) || 0) + 1);
  }
  let y = 0;
  for (let first = 0; first < names.length; first += columns) {
    const row = names.slice(first, first + columns);
    const most = Math.max(1, ...row.map((name) => view.servers.filter((server) => zoneOf(server) === name).length));
    const tall = HEAD + most * (BOX + BETWEEN) - BETWEEN + PAD;
    row.forEach((name, column) => {
      const zone = { name, x: column * (wide + GAP), y: y + lane, w: wide, h: tall, row: first, column, bottom: y + lane + tall, colour: name === NOWHERE ? "var(--z7)" : "var(--z" + ((first + column) % 7) + ")" };
      zones.set(name, zone);
      view.servers.filter((server) => zoneOf(server) === name)
        .sort((a, b) => (b.role === "primary") - (a.role === "primary") || a.name.localeCompare(b.name, undefined, { numeric: true }))
        .forEach((server, i) => boxes.set(keyOf(server), { server, zone, x: zone.x + GUTTER, y: zone.y + HEAD + i * (BOX + BETWEEN), w: wide - GUTTER - PAD, h: BOX }));
    });
    const round = passing.get(first / columns) || 0;
    y += lane + tall + (round ? ROUND * round + 8 : 0) + (lane > 4 ? 0 : GAP - 4);
  }
  return { zones, boxes, leaving, width, height: y + 2, side };
}

// Good, warning or bad by shape as well as by colour: a disc, a triangle, a square with a bar.
function shape(state, x, y) {
  if (state === "warn") return `M${x} ${y - 6}L${x + 6.5} ${y + 5}H${x - 6.5}z`;
  if (state === "bad") return `M${x - 5.5} ${y - 5.5}h11v11h-11zM${x - 3.5} ${y - 1.2}v2.4h7v-2.4z`;
  return `M${x - 4.8} ${y}a4.8 4.8 0 1 0 9.6 0a4.8 4.8 0 1 0 -9.6 0`;
}

const words = { good: "answers", warn: "bottleneck", bad: "does not answer" };

export function mood(server) {
  if (server.unanswered) return "bad";
  if (server.replication?.startsWith("stopped")) return "bad";
  return server.verdict.bottleneck ? "warn" : "good";
}

// The sentence of a verdict, short enough for a box.
export function brief(server) {
  if (server.unanswered) return server.unanswered;
  if (server.replication?.startsWith("stopped")) return "replication " + server.replication;
  const verdict = server.verdict;
  if (verdict.bottleneck) return verdict.bottleneck.called;
  return verdict.tightest ? "no bottleneck, " + verdict.tightest[0].replaceAll("-", " ").replace("cpu", "CPU") + " " + ofCeiling(verdict.tightest[1]) : "no bottleneck";
}

function box(one, view) {
  const { server, x, y, w } = one;
  const state = mood(server);
  const sample = server.sample;
  const facts = [];
  if (sample) facts.push(figure(sample.statements_per_s, "per-second"));
  if (server.role === "replica") facts.push(server.lag_ms === null ? "lag unknown" : "lag " + figure(server.lag_ms, "milliseconds"));
  const role = server.role === "?" ? "not known" : server.role;
  return h("a", { href: details(view, server), class: "server " + state, "aria-label": [server.name, role, ...facts, words[state], brief(server)].join(", ") },
    h("title", {}, server.name + ": " + (server.unanswered || server.verdict.text)),
    h("rect", { class: "box" + (server.role === "primary" ? " primary" : ""), x, y, width: w, height: BOX, rx: 9 }),
    h("path", { class: "dot", d: shape(state, x + 14, y + 19) }),
    h("text", { class: "name", x: x + 25, y: y + 24 }, clip(server.name, w - 105, NAME)),
    h("text", { class: "role", x: x + w - 12, y: y + 23, "text-anchor": "end" }, role),
    h("text", { class: "fact", x: x + 12, y: y + 41 }, clip(facts.join(" · ") || "nothing read yet", w - 24, FACT)),
    h("text", { class: "said", x: x + 12, y: y + 57 }, clip(brief(server), w - 24, SAID)));
}

function zoneBox(zone, view) {
  const router = view.router && !view.router.unanswered ? view.router : null;
  const index = router ? router.flow.zones.indexOf(zone.name) : -1;
  const stays = index >= 0 ? router.flow.rows[index][index] : null;
  const about = index >= 0 ? share(router.flow.demand[index]) + " of reads from here" + (stays === null ? "" : ", " + share(stays) + " stay") : view.servers.some((server) => zoneOf(server) === zone.name) ? "" : "no server here";
  const here = router && router.own_zone === zone.name;
  return h("g", { class: "zone", style: { "--z": zone.colour } },
    h("rect", { class: "ground", x: zone.x + 0.5, y: zone.y + 0.5, width: zone.w - 1, height: zone.h - 1, rx: 13 }),
    h("rect", { class: "edge", x: zone.x + 13, y: zone.y, width: zone.w - 26, height: 3.5, rx: 1.5 }),
    h("text", { class: "zone-name", x: zone.x + 14, y: zone.y + 24 }, clip(zone.name + (here ? " · the router is here" : ""), zone.w - 28, ZONE)),
    h("text", { class: "fact", x: zone.x + 14, y: zone.y + 41 }, clip(about, zone.w - 28, FACT)));
}

// A way of straight pieces with round corners through these points.
function round(points) {
  const r = 6;
  return points.map(([x, y], i) => {
    if (i === 0) return `M${x} ${y}`;
    if (i === points.length - 1) return `L${x} ${y}`;
    const toward = ([px, py]) => { const d = Math.hypot(px - x, py - y) || 1, k = Math.min(r, d / 2) / d; return `${x + (px - x) * k} ${y + (py - y) * k}`; };
    return `L${toward(points[i - 1])}Q${x} ${y} ${toward(points[i + 1])}`;
  }).join("");
}

// `below` counts the arrows that go round below zones, so that each has a line of its own.
function replication(from, to, i, below) {
  const text = to.server.name + " replicates from " + from.server.name + (to.server.lag_ms === null ? "" : ", " + figure(to.server.lag_ms, "milliseconds") + " behind");
  const sy = from.y + from.h / 2, ty = to.y + to.h / 2;
  let path;
  if (from.x === to.x) {
    const out = Math.min(GUTTER - 6, 10 + Math.abs(ty - sy) / 14);
    path = `M${from.x} ${sy + 6}C${from.x - out * 1.3} ${sy + 6} ${to.x - out * 1.3} ${ty} ${to.x - 7} ${ty}`;
  } else if (from.zone.row !== to.zone.row || Math.abs(from.zone.column - to.zone.column) > 1) {
    const upper = from.zone.row <= to.zone.row ? from.zone : to.zone;
    const n = below.get(upper.row) || 0;
    below.set(upper.row, n + 1);
    const right = to.zone.column >= from.zone.column, by = (n % 3) * 4 - 4;
    const sx = right ? from.x + from.w : from.x, tx = right ? to.x - 7 : to.x + to.w + 7;
    const out = (right ? from.zone.x + from.zone.w + GAP / 2 : from.zone.x - GAP / 2) + by;
    const into = (right ? to.zone.x - GAP / 2 : to.zone.x + to.zone.w + GAP / 2) + by;
    const under = upper.bottom + 6 + ROUND * n, start = sy + (n % 5) * 4 + 6;
    path = round([[sx, start], [out, start], [out, under], [into, under], [into, ty], [tx, ty]]);
  } else {
    const right = to.x > from.x;
    const sx = right ? from.x + from.w : from.x, tx = right ? to.x - 7 : to.x + to.w + 7;
    const bend = Math.max(24, Math.abs(tx - sx) / 2);
    const shift = (i % 5) * 3 - 6;
    path = `M${sx} ${sy + shift}C${sx + (right ? bend : -bend)} ${sy + shift} ${tx + (right ? -bend : bend)} ${ty} ${tx} ${ty}`;
  }
  const broken = to.server.replication?.startsWith("stopped");
  return h("path", { class: "replication" + (broken ? " broken" : ""), d: path, "marker-end": "url(#arrow)" }, h("title", {}, text));
}

function flow(one, map, i) {
  const from = map.zones.get(one.from === "(unknown)" ? NOWHERE : one.from), to = map.zones.get(one.to === "(unknown)" ? NOWHERE : one.to);
  if (!from || !to) return null;
  const thick = 1.5 + 8 * Math.min(1, one.of_all);
  let path, x, y;
  if (map.side) {
    const edge = from.x + from.w, sy = from.y + 26 + (i % 3) * 6, ty = to.y + 14;
    const out = Math.min(map.side - 4, 22 + (i % 3) * 8);
    path = `M${edge} ${sy}C${edge + out} ${sy} ${edge + out} ${ty} ${edge + 7} ${ty}`;
    [x, y] = [edge + 2, (sy + ty) / 2];
  } else if (from.row === to.row) {
    const right = to.x > from.x, off = 16 + (i % 3) * 5;
    const sx = from.x + from.w / 2 + (right ? off : -off), tx = to.x + to.w / 2 + (right ? -off : off);
    const far = Math.round(Math.abs(to.x - from.x) / (from.w + GAP));
    const up = Math.min(LANE + 6, 22 + 12 * far + (right ? 14 : 0));
    path = `M${sx} ${from.y}C${sx} ${from.y - up} ${tx} ${to.y - up} ${tx} ${to.y - 7}`;
    [x, y] = [(sx + tx) / 2, from.y - up * 0.75 - 4];
  } else {
    const down = to.y > from.y, off = 30 + (i % 3) * 8;
    const sx = from.x + from.w / 2 + off, sy = down ? from.y + from.h : from.y, tx = to.x + to.w / 2 - off, ty = down ? to.y - 7 : to.y + to.h + 7;
    path = `M${sx} ${sy}C${sx} ${(sy + ty) / 2} ${tx} ${(sy + ty) / 2} ${tx} ${ty}`;
    [x, y] = [(sx + tx) / 2, (sy + ty) / 2];
  }
  const text = share(one.share) + " of the reads from zone " + one.from + " go to zone " + one.to;
  return h("g", { class: "flow", style: { "--z": from.colour } }, h("path", { d: path, style: { "stroke-width": thick.toFixed(1) + "px" }, "marker-end": "url(#arrow-flow)" }, h("title", {}, text)),
    h("text", { class: "share", x, y, "text-anchor": map.side ? "start" : "middle" }, share(one.share)));
}

const arrow = (id) => h("marker", { id, viewBox: "0 0 8 8", refX: 1, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto", markerUnits: "userSpaceOnUse" }, h("path", { d: "M0 0.5L8 4L0 7.5z" }));

export function map(view, width) {
  if (!view.servers.length) return [h("p", { class: "empty" }, "No server is watched: headroom agent --server 127.0.0.1:3306, or --config. What this host does stands below.")];
  const drawn = layout(view, Math.max(300, Math.floor(width)));
  const boxOf = (server) => server && drawn.boxes.get(keyOf(server));
  const sources = [...drawn.boxes.values()].map((to) => [boxOf(sourceOf(view, to.server)), to]).filter(([from]) => from);
  const below = new Map();
  const picture = h("svg", { class: "map", width: drawn.width, height: drawn.height, viewBox: `0 0 ${drawn.width} ${drawn.height}`, role: "group", "aria-label": "Map of zones and servers" },
    h("defs", {}, arrow("arrow"), arrow("arrow-flow")),
    [...drawn.zones.values()].map((zone) => zoneBox(zone, view)),
    sources.map(([from, to], i) => replication(from, to, i, below)),
    drawn.leaving.map((one, i) => flow(one, drawn, i)),
    [...drawn.boxes.values()].map((one) => box(one, view)));
  return [picture, h("p", { class: "note" }, legend(view))];
}

function legend(view) {
  const parts = [];
  if (view.servers.some((server) => sourceOf(view, server))) parts.push("Dashed: replication.");
  const router = view.router;
  if (!router) parts.push("Where reads go is not known here: no router is asked (--router).");
  else if (router.unanswered) parts.push("Where reads go is not known now: " + router.unanswered + ".");
  else {
    parts.push("Coloured: reads that leave the zone they come from, " + share(router.crossing) + " of all, by the flow table of the router at " + router.address + ".");
    parts.push("Demand by " + router.demand_by + ".");
  }
  return parts.join(" ");
}
