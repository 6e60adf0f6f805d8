// The bottleneck of the host and of each server, with its evidence, and how its figures went.
import { dot, h, table } from "../element.js";
import { chart, key } from "./chart.js";
import { mood } from "./map.js";
import { figure, lasted, plural, share } from "./word.js";

const HOST = [["cpu", "softirq", "steal"], ["memory"], ["disk_busy"], ["reads", "writes", "flushes"], ["read_ms", "flush_ms"], ["received", "sent"]];
const SERVER = [["statements", "changes"], ["at_work", "in_locks", "in_commit"], ["mean_ms", "p99_ms"], ["pool_misses"], ["fsyncs"], ["lag_ms"], ["redo"]];
const ROUTER = [["statements"], ["p50_ms", "p99_ms"], ["at_work"]];

// Charts of figures that were read at least once; the others would be empty frames.
function charts(history, subject, wanted) {
  if (!subject) return null;
  const sets = wanted.map((names) => names.map((name) => subject.series.find((single) => single.name === name)).filter((single) => single && single.values.some((value) => value !== null)));
  return h("div", { class: "charts" }, sets.filter((set) => set.length).map((set) => chart(history, subject, set, key(subject))));
}

function near(next) {
  return next.called + ": " + (next.load >= 1 ? "its thresholds are met too" : share(next.load) + " of the way there");
}

export function verdict(said) {
  const first = said.bottleneck;
  if (!first) {
    const next = said.runner_up && said.runner_up.load >= 0.5 ? near(said.runner_up) : null;
    return h("div", { class: "said good" }, h("p", { class: "sentence" }, said.text || "The first window is being read."), next ? h("p", { class: "small" }, "Nearest: " + next) : null);
  }
  return h("div", { class: "said warn" },
    h("p", { class: "sentence" }, h("span", { class: "tag warn" }, "bottleneck"), " ", said.text),
    h("table", { class: "evidence" }, h("tbody", {}, first.evidence.map((one) => h("tr", {}, h("th", {}, one.what), h("td", { class: "n" }, figure(one.value, one.unit)),
      h("td", {}, one.threshold === null ? "" : "counts from " + figure(one.threshold, one.unit)))))),
    said.runner_up ? h("p", { class: "small" }, "Runner-up: " + near(said.runner_up)) : null,
    first.next.length ? h("p", { class: "small" }, "Try next: " + first.next.join("; ")) : null);
}

function host(view, history) {
  const sample = view.host;
  const facts = sample ? plural(sample.cpu.each.length, "CPU", "CPUs") + ", " + figure(sample.memory.level.available, "bytes") + " of memory available of " + figure(sample.memory.level.total, "bytes") : "the first window is being read";
  const subject = history && history.subjects.find((one) => one.kind === "host");
  return h("article", { class: "panel sheet", id: "this-host", tabindex: "-1" },
    h("div", { class: "head" }, dot(view.verdict.bottleneck ? "warn" : "good"), h("h3", {}, "This host"), h("span", { class: "facts-line" }, facts)),
    verdict(view.verdict), history ? charts(history, subject, HOST) : null);
}

// The day and time at which a disk is full, as on the terminal; beyond a month it is too far to be foretold.
function fullAbout(seconds) {
  if (seconds === null || seconds === undefined || seconds > 30 * 86400) return "";
  return ", full about " + new Date(Date.now() + seconds * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC if it goes on so";
}

// The limits that a server lives under, and the room for its data: what is known of them.
function surroundings({ limits, space }) {
  const known = [];
  if (limits?.cpu) known.push(figure(limits.cpu.used, "count") + " of the " + figure(limits.cpu.cpus, "count") + " CPUs of its limit, held back in " + share(limits.cpu.throttled) + " of the periods");
  if (limits?.pinned_to) known.push("may run on " + limits.pinned_to.length + " of the CPUs");
  if (limits?.memory) known.push("memory " + figure(limits.memory.used, "bytes") + " of its limit of " + figure(limits.memory.limit, "bytes"));
  if (limits?.io) {
    const unit = limits.io.what.startsWith("bytes") ? "bytes-per-second" : "per-second";
    known.push(limits.io.what + " " + figure(limits.io.used, unit) + " of its limit of " + figure(limits.io.limit, unit));
  }
  // Far from full, they say nothing.
  if (limits?.threads && (limits.threads.used * 2 >= limits.threads.limit || limits.threads.refused)) known.push("threads " + limits.threads.used + " of its limit of " + limits.threads.limit + (limits.threads.by_ulimit ? " (ulimit -u)" : ""));
  if (limits?.files && limits.files.open * 2 >= limits.files.limit) known.push("open files " + limits.files.open + " of its limit of " + limits.files.limit);
  if (space) known.push(figure(space.available, "bytes") + " left for its data" + fullAbout(space.full_in_s));
  return known;
}


// What this host's servers share with it is told once, where the host is.
export const shared = (one, host) => Boolean(one.on_this_host && one.verdict.bottleneck && host.bottleneck && one.verdict.bottleneck.name === host.bottleneck.name && one.verdict.bottleneck.who === host.bottleneck.who);

const likewise = (said) => h("div", { class: "said warn" }, h("p", { class: "sentence" }, h("span", { class: "tag warn" }, "bottleneck"), " ", said.text, h("span", { class: "aside" }, ": the whole host's, see ", h("a", { href: "#this-host" }, "this host"))));

function server(one, view, history) {
  const subject = history && history.subjects.find((s) => s.kind === "server" && s.name === one.name);
  const sample = one.sample;
  const facts = [];
  if (sample) facts.push(figure(sample.connected, "count") + " connected", "pool " + figure(sample.pool.size, "bytes"), "asking it takes " + figure(sample.cost.server_ms, "milliseconds"));
  facts.push(...surroundings(one));
  const notes = sample ? sample.missing : [];
  return h("article", { class: "panel sheet", id: "server-" + one.name, tabindex: "-1" },
    h("div", { class: "head" }, dot(mood(one)), h("h3", {}, one.name), h("span", { class: one.role === "primary" ? "tag primary" : "tag" }, one.role === "?" ? "role not known" : one.role),
      one.zone ? h("span", { class: "tag" }, "zone " + one.zone) : null, one.on_this_host ? h("span", { class: "tag" }, "on this host") : null, h("span", { class: "facts-line" }, facts.join(", "))),
    one.unanswered ? h("div", { class: "said bad" }, h("p", { class: "sentence" }, "No answer: " + one.unanswered)) : sample ? (shared(one, view.verdict) ? likewise(one.verdict) : verdict(one.verdict)) : h("div", { class: "said" }, h("p", { class: "sentence" }, "No whole window of readings: the first is being read, or a gap has ended it.")),
    notes.map((note) => h("p", { class: "small warn" }, note)),
    history ? charts(history, subject, SERVER) : null);
}

export function panels(view, history) {
  const servers = [...view.servers].sort((a, b) => (b.role === "primary") - (a.role === "primary") || a.name.localeCompare(b.name, undefined, { numeric: true }));
  return [host(view, history), servers.map((one) => server(one, view, history))];
}

// ---- what the router times ----
export function endpoints(view, history) {
  const router = view.router;
  if (!router) return [h("p", { class: "empty" }, "No router is asked: latency per endpoint is known to headroom route (--router 127.0.0.1:9306).")];
  if (router.unanswered) return [h("p", { class: "empty" }, "Not known now: " + router.unanswered + ".")];
  const asked = router.endpoints.some((one) => one.requests && one.requests.requests);
  const stretch = history ? ", last " + lasted(history.to_s - history.from_s) : "";
  const head = [["endpoint"], ...["share of time", "per second", "median", "p99", ...(asked ? ["median request", "thinking"] : []), "errors"].map((text) => [text, "n"]), ["p99" + stretch]];
  const single = (name) => {
    const subject = history && history.subjects.find((one) => one.kind === "endpoint" && one.name === name);
    const p99 = subject && subject.series.find((one) => one.name === "p99_ms");
    return p99 && p99.values.some((value) => value !== null) ? chart(history, subject, [p99], key(subject)) : null;
  };
  const rows = router.endpoints.map(({ name, figures: f, requests }) => h("tr", {}, h("th", { class: "what", title: name }, name),
    h("td", { class: "n" }, share(f.share)), h("td", { class: "n" }, figure(f.per_second, "per-second") + (f.per_second_error > 0 ? " ±" + figure(f.per_second_error, "count") : "")), h("td", { class: "n" }, figure(f.p50_ms, "milliseconds")), h("td", { class: "n" }, figure(f.p99_ms, "milliseconds")),
    asked ? [h("td", { class: "n" }, requests && requests.requests ? figure(requests.span_p50_ms, "milliseconds") : "–"), h("td", { class: "n" }, requests && requests.requests ? share(requests.thinking) : "–")] : null, h("td", { class: "n" + (f.errors ? " wrong" : "") }, figure(f.errors, "count")), h("td", { class: "spark" }, single(name))));
  const whole = history && history.subjects.find((one) => one.kind === "router");
  const notes = ["Last " + Math.round(router.span_s) + " s, as the router at " + router.address + " times them; a median request runs from its first statement to its last one's end, where a trace or request id is tagged (what it does before and after is not seen); thinking is the share of that without a statement under way, at least."];
  if (router.more) notes.push(router.more + " more: headroom top --by endpoint.");
  return [router.endpoints.length ? table(head, rows) : h("p", { class: "empty" }, "Nothing passed the router in the last " + Math.round(router.span_s) + " s."),
    whole && history ? charts(history, whole, ROUTER) : null,
    h("p", { class: "note" }, notes.concat(router.notes).join(" "))];
}

// ---- what is promised, by this agent and by the router that it asks ----
export const promised = (view) => [...(view.objectives || []), ...((view.router && view.router.objectives) || [])];

export function objectives(view) {
  const all = promised(view);
  if (!all.length) return [h("p", { class: "empty" }, "No objective is configured: add an [[objective]] section to the file of headroom agent, or of the router.")];
  const burn = (value) => value === null || value === undefined ? "–" : value.toFixed(1);
  const head = [["objective"], ["promise"], ...["burn rate, fast", "slow", "incidents this week"].map((text) => [text, "n"]), ["incident"]];
  const rows = all.map((one) => h("tr", {}, h("th", {}, one.name), h("td", { class: "words" }, one.promise), h("td", { class: "n" }, burn(one.burn.fast)), h("td", { class: "n" }, burn(one.burn.slow)), h("td", { class: "n" }, figure(one.by_week[0] || 0, "count")),
    h("td", {}, one.incident ? "open for " + lasted(one.incident.for_s) : one.not_judged ? "not judged" : "none")));
  return [table(head, rows),
    all.filter((one) => one.not_judged).map((one) => h("p", { class: "small warn" }, one.name + " is not judged: " + one.not_judged)),
    h("p", { class: "note" }, "A burn rate of 1 spends the budget of bad statements exactly in its time.")];
}
