// The status page: asks /status.json each second and changes only what changed.
import { at, dot, h, outdated, show, table, themed } from "./element.js";

themed();

const history = new Map(); // server -> our commands per second, newest last
const statements = new Map(); // server -> statements per second by its own count, newest last
const KEPT = 60;
const measured = new Map(); // server -> what insight says of its commands
// Seconds a share of load is averaged over: single samples of servers asked one after the other jump.
const MEAN_OF = 10;
let before = null;
let heard = Date.now();

// ---- words ----
const percent = (share) => { const p = share * 100; return (Math.abs(p - Math.round(p)) < 0.05 ? p.toFixed(0) : p.toFixed(1)) + " %"; };
const count = (n) => n >= 1e6 ? (n / 1e6).toFixed(1) + " M" : n >= 1e4 ? (n / 1e3).toFixed(1) + " k" : String(Math.round(n));
const lag = (s) => !s.lag_text || s.lag_text === "-" ? "–" : s.lag_text.startsWith("unknown") ? "unknown" : s.lag_text; // since when: eventList
const age = (s) => s < 90 ? Math.round(s) + " s" : s < 5400 ? Math.round(s / 60) + " min" : s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " days";
const zoneOf = (s) => s.zone ? s.zone.zone : "(unknown)";
const by = { rule: "by rule", metadata: "as the cloud says", round_trip: "by round-trip time" };

function names(status) {
  const all = new Set(status.flow.zones);
  status.servers.forEach((s) => all.add(zoneOf(s)));
  Object.keys(status.demand.zones).forEach((z) => all.add(z));
  if (status.own_zone) all.add(status.own_zone.zone);
  return [...all].sort((a, b) => (a === "(unknown)") - (b === "(unknown)") || a.localeCompare(b, undefined, { numeric: true }));
}
const colour = (zones, zone) => "var(--z" + (zone === "(unknown)" ? 7 : zones.indexOf(zone) % 7) + ")";

// ---- the parts of the page ----
const moods = { good: "well", warn: "restricted", bad: "not usable", "": "not used" };

function condition(server) {
  const routing = server.routing;
  if (server.state === "unasked") return ["", "not asked yet"];
  if (server.state !== "answering") return ["bad", server.state + (server.state_because ? ": " + server.state_because : "")];
  if (routing && routing.gray) return ["bad", "a gray failure: " + routing.gray];
  if (server.reserved) return ["", "reserved by " + server.reserved + ": watched, never picked"];
  if (routing && routing.draining) return ["warn", "being drained: " + routing.sessions + " sessions left" + (routing.draining_ms ? ", cut in " + age(routing.draining_ms / 1000) : "")];
  if (server.role === "primary") return ["good", routing && routing.reads.eligible ? "takes writes, and reads as the last resort" : "takes writes"];
  if (routing && routing.reads.eligible) {
    // One that is slow and cold counts for the lower of both.
    if (routing.slow && !(routing.warming && routing.warmth < routing.speed)) return ["warn", routing.slow];
    return ["good", routing.warming || "eligible for reads"];
  }
  if (routing) return [server.role === "stray" ? "bad" : "warn", routing.reads.reason || server.because];
  return [server.role === "replica" ? "good" : "warn", server.because];
}

// Our commands per second on a server, and how that is known. What bypasses the router is estimated from what
// insight measures of it; where it measures nothing, nothing is known.
function commands(server) {
  const relayed = (history.get(server.name) || []).at(-1);
  if (!server.routing || !server.routing.bypassed) return [relayed === undefined ? "–" : count(relayed), "as counted"];
  const told = measured.get(server.name);
  if (!told) return ["not measured", server.routing.bypassed + " sessions bypass the router, and none that is measured sent a command; insight = \"on\" measures all"];
  return [perSecond(told), told.one_in > 1 ? "estimated from 1 session in " + told.one_in + "; ± is the standard error" : "as measured"];
}

function spark(server) {
  if (server.routing && server.routing.bypassed) return null;
  const values = history.get(server.name) || [];
  if (values.length < 2 || Math.max(...values) === 0) return null;
  const top = Math.max(...values, 1);
  const path = values.map((v, i) => (i ? "L" : "M") + (84 * (i + KEPT - values.length) / (KEPT - 1)).toFixed(1) + " " + (20 - 18 * v / top).toFixed(1)).join("");
  return h("svg", { viewBox: "0 0 84 22", role: "img", "aria-label": "commands per second of the last minute" }, h("path", { d: path }));
}

function load(server) {
  const values = (statements.get(server.name) || []).slice(-MEAN_OF);
  return values.length ? values.reduce((sum, v) => sum + v, 0) / values.length : 0;
}

function serverCard(status, server) {
  const total = status.servers.filter((s) => s.share_of_load !== null).reduce((sum, s) => sum + load(s), 0);
  const share = server.share_of_load === null || total <= 0 ? null : load(server) / total;
  const [mood, why] = condition(server);
  const routing = server.routing;
  const [rate, known] = commands(server);
  const facts = [
    ["lag", server.role === "primary" ? "–" : lag(server)],
    ["our sessions", routing ? count(routing.sessions) : "–", routing && routing.bypassed ? routing.bypassed + " of them bypass the router" : undefined],
    ["commands/s", rate, known],
    ["share of load", share === null ? "–" : percent(share)],
  ];
  const label = [server.reach, server.version, server.round_trip_ms === null ? null : "round trip " + server.round_trip_ms.toFixed(2) + " ms", server.zone ? "zone " + (by[server.zone.by] || server.zone.by) : null].filter(Boolean).join(" · ");
  const role = server.role === "primary" ? "tag primary" : server.role === "stray" ? "tag bad" : server.role === "unknown" ? "tag warn" : "tag";
  return h("div", { class: "server", title: label },
    h("div", { class: "line" }, dot(mood, { role: "img", "aria-label": moods[mood] }), h("span", { class: "title" }, server.name), h("span", { class: role }, server.role),
      server.weight !== 1 ? h("span", { class: "tag" }, "weight " + server.weight) : null, spark(server)),
    h("dl", { class: "facts" }, facts.map(([name, value, title]) => h("div", { title }, h("dt", {}, name), h("dd", { class: value === "not measured" ? "none" : undefined }, value)))),
    routing && routing.work ? h("p", { class: "why" }, routing.work) : null,
    server.because.startsWith(why) ? null : h("p", { class: "why " + (mood === "good" ? "" : mood) }, why),
    server.state === "answering" && server.because ? h("p", { class: "why" }, server.because) : null);
}

function zoneCard(status, zones, zone) {
  const servers = status.servers.filter((s) => zoneOf(s) === zone);
  const index = status.flow.zones.indexOf(zone);
  const demand = index >= 0 ? status.flow.demand[index] : status.demand.zones[zone] || 0;
  const capacity = index >= 0 ? status.flow.capacity[index] : 0;
  const row = index >= 0 ? status.flow.zones.map((to, j) => [to, status.flow.rows[index][j]]).filter(([, share]) => share > 0.0005).sort(([a], [b]) => (b === zone) - (a === zone)) : [];
  const here = status.own_zone && status.own_zone.zone === zone;
  return h("article", { class: "zone", style: { "--z": colour(zones, zone) } },
    h("div", { class: "head" },
      h("div", { class: "name" }, zone === "(unknown)" ? "No known zone" : zone, here ? h("span", { class: "here" }, "we are here") : null),
      h("div", { class: "pairs" }, h("span", {}, "reads from here ", h("b", {}, percent(demand))), h("span", {}, "room ", h("b", {}, percent(capacity)))),
      row.length ? h("div", { class: "goes" },
        h("div", { class: "stack" }, row.map(([to, share]) => h("i", { style: { width: (share * 100).toFixed(2) + "%", background: colour(zones, to) } }))),
        h("div", { class: "legend" }, row.map(([to, share]) => h("span", { style: { "--k": colour(zones, to) } }, to === zone ? percent(share) + " stay" : percent(share) + " go to " + to)))) : null),
    servers.length ? servers.map((server) => serverCard(status, server)) : h("div", { class: "server" }, h("p", { class: "why" }, "No server here.")));
}

function flowTable(status, zones) {
  const flow = status.flow;
  if (!flow.zones.length) return [h("p", { class: "empty" }, "Nothing measured yet.")];
  const head = h("tr", {}, h("th", {}, "reads from zone"), flow.zones.map((z) => h("th", { class: "n" }, "to " + z)), h("th", { class: "n" }, "of all reads"));
  const rows = flow.zones.map((from, i) => h("tr", {}, h("th", {}, from),
    flow.zones.map((to, j) => h("td", { class: "cell" + (flow.rows[i][j] < 0.0005 ? " none" : ""), style: { "--share": flow.rows[i][j].toFixed(4), "--z": colour(zones, to) } }, flow.rows[i][j] < 0.0005 ? "–" : percent(flow.rows[i][j]))),
    h("td", { class: "n" }, percent(flow.demand[i]))));
  const source = (status.demand.idle ? status.demand.source.replace(/^n/, "N") : "Demand by " + status.demand.source) + (status.demand.unplaced > 0.0005 ? "; " + percent(status.demand.unplaced) + " of reads come from hosts in no known zone" : "") + ".";
  return [h("table", {}, h("thead", {}, head), h("tbody", {}, rows)), h("p", { class: "note" }, source)];
}

function listenerTable(status) {
  const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);
  const why = (counts) => Object.entries(counts).filter(([, n]) => n).map(([reason, n]) => reason + " " + count(n)).join(", ");
  const head = [["address"], ["for"], ...["open now", "bypass the router", "connections", "refused"].map((t) => [t, "n"]), ["zero-hop"]];
  const rows = status.listeners.map((l) => h("tr", {}, h("th", {}, l.address), h("td", {}, l.role + "s"), h("td", { class: "n" }, count(l.open)), h("td", { class: "n" }, count(l.zero_hop.sessions)), h("td", { class: "n", title: count(l.accepted) + " of them through the router" }, count(l.connections)),
    h("td", { class: "n", title: why(l.refused) }, sum(l.refused) ? count(sum(l.refused)) + " (" + why(l.refused) + ")" : "0"),
    h("td", { class: "words", title: why(l.zero_hop.ordinary) }, l.zero_hop.text ? (l.zero_hop.in_force ? "" : "no: ") + l.zero_hop.text : "–")));
  const c = status.counters;
  const ended = Object.entries(c.closed).filter(([, n]) => n).map(([reason, n]) => reason + " " + count(n)).join(", ");
  const notes = [status.zero_hop.limits.length ? status.zero_hop.limits.join(" · ") : null, c.holding ? c.holding + " writers wait for a primary" : null, ended ? "sessions ended since the start: " + ended : null].filter(Boolean).join(" · ");
  return [table(head, rows), notes ? h("p", { class: "note" }, notes) : null];
}

function objectiveTable(status) {
  if (!status.objectives.length) return [h("p", { class: "empty" }, "No objective is configured: add an [[objective]] section.")];
  const burn = (value) => value === null ? "–" : value.toFixed(1);
  const head = [["objective"], ["promise"], ...["burn rate, fast", "slow", "incidents this week", "a week before", "since the start"].map((t) => [t, "n"]), ["incident"]];
  const rows = status.objectives.map((o) => h("tr", {}, h("th", {}, o.name), h("td", { class: "words" }, o.promise), h("td", { class: "n" }, burn(o.burn.fast)), h("td", { class: "n" }, burn(o.burn.slow)),
    h("td", { class: "n" }, count(o.by_week[0] || 0)), h("td", { class: "n" }, count(o.by_week[1] || 0)), h("td", { class: "n" }, count(o.opened)), h("td", {}, o.incident ? "open for " + age(o.incident.for_s) : "none")));
  return [table(head, rows), h("p", { class: "note" }, "A burn rate of 1 spends the budget of bad statements exactly in its time. Counted since this process started.")];
}

// ---- events: what changed, and how long it had been otherwise ----
const long = (s) => s < 60 ? s.toFixed(s < 10 ? 1 : 0) + " s" : s < 3600 ? Math.floor(s / 60) + " min " + Math.floor(s % 60) + " s" : s < 172800 ? Math.floor(s / 3600) + " h " + Math.floor(s / 60 % 60) + " min" : Math.floor(s / 86400) + " days " + Math.floor(s / 3600 % 24) + " h";

// The time, and the day where it is not today.
const moment = (when) => when.toDateString() === new Date().toDateString() ? when.toLocaleTimeString() : when.toLocaleString();

function eventList(status) {
  const now = status.servers.filter((s) => s.state_for_s !== null && s.state !== "answering").map((s) => s.name + " is " + s.state + " for " + long(s.state_for_s) + (s.lag_unknown_for_s === null ? "." : "; its lag is " + s.lag_text + "."));
  const waits = status.leaving.map((l) => l.sessions + " " + l.role + (l.sessions === 1 ? " session" : " sessions") + " should leave " + l.server + " (" + l.why + "); waiting for " + l.waits_for + ".");
  const notes = [...now, ...waits].map((text) => h("p", { class: "note" }, text));
  if (!status.events.length) return [...notes, h("p", { class: "empty" }, "Nothing has changed since this process started.")];
  // What happened stands first: it is the row's title where tables become lists.
  const rows = status.events.map((e) => h("tr", {}, h("th", { class: "what" + (e.severity === "warn" ? " wrong" : "") }, (e.severity === "warn" ? "! " : "") + e.text),
    h("td", { class: "n", title: new Date(e.at_ms).toISOString() }, moment(new Date(e.at_ms))), h("td", { class: "n" }, e.lasted_s === null ? "–" : long(e.lasted_s))));
  return [...notes, table([["what happened"], ["at", "n"], ["it had been otherwise for", "n"]], rows), h("p", { class: "note" }, "The last 200 changes, newest first; the log has them all.")];
}

function figures(status) {
  const flow = status.flow;
  const crossing = flow.rows.reduce((sum, row, i) => sum + flow.demand[i] * row.reduce((s, share, j) => s + (j === i ? 0 : share), 0), 0);
  const loads = status.servers.filter((s) => s.share_of_load !== null && (!s.routing || s.routing.reads.eligible)).map(load);
  const total = loads.reduce((sum, share) => sum + share, 0);
  const reads = status.demand.reads_per_second;
  const busiest = total > 0 && loads.length > 1 && reads >= 1 ? Math.max(...loads) * loads.length / total : null;
  const sessions = status.listeners.reduce((sum, l) => sum + l.open, 0);
  const bypassing = status.listeners.reduce((sum, l) => sum + l.zero_hop.sessions, 0);
  const replicas = status.servers.filter((s) => s.role === "replica" && !s.reserved);
  const eligible = replicas.filter((s) => !s.routing || s.routing.reads.eligible).length;
  const figure = (value, unit, label, title) => h("div", { class: "figure", title }, h("div", { class: "value" }, value, unit ? h("small", {}, " " + unit) : null), h("div", { class: "label" }, label));
  return [
    figure(String(eligible), "of " + replicas.length, "replicas eligible for reads", "Replicas that may be picked now"),
    figure(count(sessions), "", bypassing ? "our sessions, " + count(bypassing) + (bypassing === 1 ? " of them bypasses" : " of them bypass") + " the router" : "our sessions", "Open sessions on the listeners of this router"),
    reads === null ? figure("–", "", "reads in the fleet", "The servers do not count them by client host") : figure(count(reads), "/s", "reads in the fleet", "As the servers count them"),
    figure(flow.rows.length ? percent(crossing) : "–", "", "of reads cross zones", "By the flow table: the least possible at this demand and slack"),
    figure(busiest === null ? "–" : busiest.toFixed(2), busiest === null ? "" : "× mean", loads.length === 1 ? "busiest replica: only one is left" : "busiest replica", "Statements of the busiest replica over the mean of those that may be picked, last ten seconds"),
  ];
}

function notices(status) {
  const list = [];
  if (!status.writer) list.push(["bad", "No primary", status.writer_unknown_because || "nothing was said yet"]);
  const reload = status.process.reload;
  if (reload && !reload.accepted) list.push(["bad", "Configuration refused", "the previous one stays in force; " + age(reload.age_s) + " ago: " + reload.notes.join(" · ")]);
  status.objectives.forEach((o) => { if (o.incident) list.push(["bad", "Incident", o.name + ": " + o.promise + "; open for " + age(o.incident.for_s) + ", at worst " + o.incident.worst_burn.toFixed(1) + " times the allowed rate" + (o.incident.calm_for_s === null ? "" : ", calm for " + age(o.incident.calm_for_s))]); });
  const hook = status.webhook;
  if (hook && hook.failed_because) list.push(["warn", "Webhook", hook.failed_because + "; " + count(hook.waiting) + " waiting, " + count(hook.lost) + " lost"]);
  const r = status.recording;
  if (r) list.push(["bad", "Recording", (r.one_in > 1 ? "what one session in " + r.one_in + " sends" : "what all clients send") + " is recorded, literals included: " + count(r.commands) + " commands so far" + (r.lost ? ", " + count(r.lost) + " events lost" : "") + "; ends by itself in " + age(r.left_s)]);
  if (status.process.held_back) list.push(["warn", "Router", "it is " + status.process.held_back]);
  status.troubles.forEach((text) => list.push(["bad", "Router", text]));
  status.fallbacks.forEach((f) => list.push(["warn", "Fallback", f.text]));
  const e = status.epoch;
  if (e && e.trouble) list.push(["warn", "Epoch", e.trouble]);
  if (e) e.ignored.forEach((i) => list.push(["bad", "Ignored", i.server + (i.claim === "announces" ? " announces a switchover" : i.claim === "unrecorded" ? " was promoted, and its epoch is not recorded yet" : " takes writes") + "; it is of epoch " + i.epoch + ", and epoch " + e.highest + " was seen (" + e.source + ")"]));
  if (e && e.highest > 0) e.unknown.forEach(([server, why]) => list.push(["warn", "Epoch unknown", server + ": " + why]));
  status.remarks.forEach((text) => list.push(["warn", "Remark", text]));
  return list;
}

function render(status) {
  const zones = names(status);
  const list = notices(status);
  const bad = list.some(([mood]) => mood === "bad") || status.servers.some((s) => s.state !== "answering" && s.state !== "unasked" && !s.reserved || s.routing && s.routing.gray);
  const down = status.servers.filter((s) => s.state === "silent" || s.state === "failing").length;
  const verdict = document.getElementById("verdict");
  verdict.className = "verdict " + (bad ? "bad" : list.length ? "warn" : "good");
  verdict.textContent = !status.writer ? "No primary" : down ? down + (down === 1 ? " server does not answer" : " servers do not answer") : bad ? "Look at the notices" : list.length ? list.length + (list.length === 1 ? " notice" : " notices") : "All well";
  document.title = (bad ? "! " : "") + "Headroom" + (status.own_zone ? " · " + status.own_zone.zone : "");
  show("where", "This router stands in ", h("b", {}, status.own_zone ? status.own_zone.zone : "no known zone"), status.writer ? ", writes go to " : "", status.writer ? h("b", {}, status.writer) : "");
  show("objectives", objectiveTable(status));
  show("notices", list.map(([mood, name, text]) => h("div", { class: "notice " + mood }, h("b", {}, name), h("span", {}, text))));
  show("figures", figures(status));
  show("zones", zones.length ? zones.map((zone) => zoneCard(status, zones, zone)) : h("p", { class: "empty" }, "No server is known yet."));
  show("flow", flowTable(status, zones));
  show("listeners", listenerTable(status));
  show("events", eventList(status));
  const p = status.process;
  show("footer", h("span", {}, "Headroom " + p.version + ", up " + age(p.uptime_s) + (p.stopping ? ", stopping: no new clients, sessions end" : "")), h("span", {}, status.data_path ? "bytes move with " + status.data_path : ""), h("span", {}, status.epoch && status.epoch.highest ? "epoch " + status.epoch.highest + ", " + status.epoch.source : ""), h("span", {}, p.config ? "configuration " + p.config : "configured by flags"),
    h("span", {}, "asked " + Math.max(0, Math.round(status.age_ms)) + " ms ago, round " + status.round), h("a", { href: at("/status.json") }, "JSON"), h("a", { href: at("/metrics") }, "metrics"));
}

function remember(status, now) {
  for (const server of status.servers) statements.set(server.name, [...(statements.get(server.name) || []), server.statements_per_second].slice(-KEPT));
  const seconds = before ? (now - before.now) / 1000 : 0;
  for (const server of status.servers) {
    const commands = server.routing ? server.routing.commands : null;
    const was = before && before.commands.get(server.name);
    if (commands === null || was === undefined || was === null || seconds <= 0) continue;
    const values = history.get(server.name) || [];
    values.push(Math.max(0, commands - was) / seconds);
    history.set(server.name, values.slice(-KEPT));
  }
  before = { now, commands: new Map(status.servers.map((s) => [s.name, s.routing ? s.routing.commands : null])) };
}

// ---- insight: what the statements that passed tell ----
const took = (ms) => ms === null || ms === undefined ? "–" : ms < 0.0995 ? (ms * 1e3).toFixed(0) + " µs" : ms < 9.95 ? ms.toFixed(2) + " ms" : ms < 9950 ? ms.toFixed(0) + " ms" : (ms / 1e3).toFixed(1) + " s";
const rate = (n) => n < 10 ? n.toFixed(1) : count(n);
const perSecond = (f) => rate(f.per_second) + (f.per_second_error > 0 ? " ±" + rate(f.per_second_error) : "");

function insightTable(view, name, requests) {
  if (!view.rows.length) return [h("p", { class: "empty" }, view.not_measured ? view.not_measured.replace(/^n/, "N") + "." : "Nothing was measured in the last " + Math.round(view.span_s) + " s.")];
  // Columns of requests only where requests are told apart.
  const asked = requests && view.requests.length > 0;
  const figures = ["per second", "p50", "p99", "p99.9", "rows each", "errors"].concat(asked ? ["queries in one, p50 · p99", "request p50 · p99", "thinking"] : []);
  const head = [[name], ["share of time", "n"], ...figures.map((text) => [text, "n"])];
  const each = (row) => row.count ? ((row.rows_sent + row.rows_changed) / row.count).toFixed(1) : "–";
  const spans = (row) => {
    const r = view.requests.find((r) => r.endpoint === row.name);
    return r ? [count(r.queries_p50) + " · " + count(r.queries_p99), took(r.span_p50_ms) + " · " + took(r.span_p99_ms), percent(r.thinking)] : ["–", "–", "–"];
  };
  const codes = (row) => Object.entries(row.error_codes).map(([code, n]) => code + ": " + n).join(", ");
  const rows = view.rows.map((row) => h("tr", { title: row.id === row.name ? row.name : row.name + "\n" + row.id },
    h("th", { class: "what" }, name === "statement" ? h("code", {}, row.name) : row.name),
    h("td", { class: "cell", style: { "--share": row.share.toFixed(4), "--z": "var(--accent)" } }, percent(row.share)),
    [perSecond(row), took(row.p50_ms), took(row.p99_ms), took(row.p999_ms), each(row)].map((text) => h("td", { class: "n" }, text)),
    h("td", { class: "n" + (row.errors ? " wrong" : ""), title: codes(row) }, count(row.errors)),
    asked ? spans(row).map((text) => h("td", { class: "n" }, text)) : null));
  const more = view.more ? view.more + " more: headroom top" : null;
  const notes = (requests ? view.notes : view.notes.filter((note) => note.includes("standard error"))).concat(more ? [more] : []).join(" · ");
  const said = asked ? "A request runs from its first statement to its last one's end: what it does before and after is not seen. Thinking is the share of that without a statement under way, at least. " : "";
  const span = "Last " + Math.round(view.span_s) + " s, as seen by this router. ";
  return [table(head, rows), h("p", { class: "note" }, span + said + notes)];
}

async function askInsight() {
  const one = async (by, limit) => {
    const answer = await fetch(at("/insight.json?by=" + by + "&limit=" + limit), { cache: "no-store", signal: AbortSignal.timeout(4000) });
    return answer.ok ? answer.json() : null;
  };
  try {
    for (const [id, by, name] of [["endpoints", "endpoint", "endpoint"], ["digests", "digest", "statement"]]) {
      const view = await one(by, 10);
      if (view) show(id, insightTable(view, name, by === "endpoint"));
    }
    const servers = await one("server", 1000);
    measured.clear();
    if (servers) servers.rows.forEach((row) => measured.set(row.name, row));
  } catch { /* the other question says that nobody answers */ }
  setTimeout(askInsight, 2000);
}

async function ask() {
  let answered = false;
  try {
    const answer = await fetch(at("/status.json"), { cache: "no-store", signal: AbortSignal.timeout(4000) });
    if (!answer.ok) throw new Error(answer.statusText);
    const status = await answer.json();
    answered = true;
    if (outdated(status.process.version)) return location.reload();
    document.body.classList.remove("stale");
    remember(status, performance.now());
    render(status);
    // What could not be drawn was not heard: else what stood here before would pass for now.
    heard = Date.now();
  } catch (error) {
    if (Date.now() - heard > 2500) {
      document.body.classList.add("stale");
      const verdict = document.getElementById("verdict");
      verdict.className = "verdict bad";
      verdict.textContent = answered ? "The router's answer cannot be shown: load this page again" : "No answer from the router for " + age((Date.now() - heard) / 1000);
      if (answered || (error instanceof TypeError === false && error.name !== "TimeoutError")) console.error(error);
    }
  }
  setTimeout(ask, 1000);
}
ask();
askInsight();
