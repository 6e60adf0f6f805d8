// Several hosts on one page: all of them at a glance, or one of them as its own agent shows it. Which one
// stands in the address, so that it can be kept and sent: /?host=0 is the first. The page of a single agent
// has none of this.
import { at, dot as mark, h } from "../element.js";
import { clock, figure, lasted, ofCeiling, plural, share } from "./word.js";

const asked = new URLSearchParams(location.search).get("host");
export const chosen = /^\d{1,4}$/.test(asked ?? "") ? Number(asked) : null;

export const ofChosen = (path) => at((chosen === null ? "" : "/hosts/" + chosen) + path);

function link(host, anchor) {
  const parameters = new URLSearchParams(location.search);
  parameters.delete("host");
  if (host !== null) parameters.set("host", host);
  const question = parameters.toString();
  return location.pathname + (question ? "?" + question : "") + (anchor || "");
}

// An agent by its host; by its port too where that is not the usual one.
export function called(agent) {
  try {
    const url = new URL(agent);
    return url.port === "9307" ? url.hostname : url.host;
  } catch {
    return agent;
  }
}

const beside = (view, host) => view.servers.filter((server) => server.agent === host.agent && server.on_this_host);

// Where more of a server stands: on this page, or on that of the host whose agent tells of it.
export function details(view, server) {
  const host = view.hosts ? view.hosts.findIndex((one) => one.agent === server.agent) : -1;
  return host < 0 ? "#server-" + server.name : link(host, "#server-" + server.name);
}

function mood(view, host) {
  if (host.unanswered || beside(view, host).some((server) => server.unanswered)) return "bad";
  if (!host.host) return "";
  return host.verdict.bottleneck || beside(view, host).some((server) => server.verdict.bottleneck) ? "warn" : "good";
}

const words = { good: "no bottleneck", warn: "a bottleneck", bad: "no answer", "": "being read" };

export function choose(view) {
  const dot = (host) => mark(mood(view, host), { role: "img", "aria-label": words[mood(view, host)] });
  const one = (place, ...inside) => h("a", chosen === place ? { href: link(place), "aria-current": "page" } : { href: link(place) }, ...inside);
  return [one(null, "All hosts"), view.hosts.map((host, place) => one(place, dot(host), called(host.agent)))];
}

// The bottlenecks of a host's servers, then its own. What several of them share is told once.
function sentences(view, host) {
  const servers = beside(view, host);
  const list = servers.filter((server) => server.unanswered).map((server) => ["bad", server.name + ": no answer", server.unanswered]);
  const said = ({ bottleneck, sure }) => bottleneck.called + (sure ? " (" + sure + ")" : "");
  const all = servers.filter((server) => !server.unanswered).map((server) => [server.name, server.verdict]).concat([["this host", host.verdict]]).filter(([, verdict]) => verdict.bottleneck);
  const hosts = host.verdict.bottleneck;
  const once = new Map();
  for (const [name, verdict] of all) {
    // One that its server has too, and nobody else, is the server's: it has the host's evidence as well.
    const { name: rule, who } = verdict.bottleneck;
    const key = rule + "\n" + (hosts && hosts.name === rule ? "" : who || "");
    once.set(key, [...(once.get(key) || []), [name, verdict]]);
  }
  for (const group of once.values()) {
    const names = group.map(([name]) => name).filter((name) => name !== "this host");
    const verdict = group[0][1], whole = group.length > names.length;
    const who = names.length === 0 || (whole && names.length > 1) ? "this host" : names.join(", ");
    list.push(["warn", who + ": " + said(verdict), who === "this host" && names.length ? "its " + names.length + " servers with it: " + names.join(", ") : verdict.bottleneck.who]);
  }
  return list.length ? list : [host.host ? ["good", "no bottleneck", ""] : ["", "the first window is being read", ""]];
}

function tightest(view, host) {
  const all = [host, ...beside(view, host)].map((one) => one.verdict.tightest).filter(Boolean);
  const [name, used] = all.sort((a, b) => b[1] - a[1])[0] ?? [null, 0];
  if (name === null) return h("p", { class: "small" }, "No ceiling is known.");
  const full = Math.min(1, used);
  return h("div", { class: "ceiling" }, h("span", {}, "tightest ceiling: ", h("b", {}, name.replaceAll("-", " ").replace("cpu", "CPU"))), h("b", { class: "used" }, ofCeiling(used)),
    h("div", { class: "track " + (used >= 1 ? "warn" : "") }, h("i", { style: { width: (100 * full).toFixed(1) + "%" } })));
}

// Gaps of a host in the stretch that is shown, as whoever asks all agents has noticed them.
function gaps(history, host) {
  const subject = history && history.subjects.find((one) => one.kind === "agent" && one.name === host.agent);
  const list = subject ? subject.gaps : [];
  if (!list.length) return null;
  const last = list.at(-1);
  const text = last.to_s === null ? "no answer since " + clock(history, last.from_s) + ", " + lasted(history.now_s - last.from_s)
    : plural(list.length, "gap", "gaps") + " in " + lasted(history.to_s - history.from_s) + ", the last of " + lasted(last.to_s - last.from_s) + " until " + clock(history, last.to_s) + ": " + last.why;
  return h("p", { class: "small gaps" + (last.to_s === null ? " bad" : " warn") }, text);
}

function facts(host) {
  const sample = host.host;
  if (!sample) return null;
  const { level } = sample.memory, { user, system, softirq, irq, steal, nice } = sample.cpu.all;
  const busy = [user, system, softirq, irq, steal, nice].reduce((sum, part) => sum + (part || 0), 0);
  return h("p", { class: "small" }, plural(sample.cpu.each.length, "CPU", "CPUs") + " " + share(busy) + " busy, " + figure(level.available, "bytes") + " of memory available of " + figure(level.total, "bytes"));
}

function card(view, history, host, place) {
  const servers = beside(view, host);
  return h("a", { class: "host sheet " + mood(view, host), href: link(place), title: host.agent },
    h("div", { class: "head" }, mark(mood(view, host)), h("h3", {}, called(host.agent)),
      servers.map((server) => h("span", { class: server.role === "primary" ? "tag primary" : "tag" }, server.name + (server.role === "?" ? "" : " " + server.role)))),
    host.unanswered ? h("div", { class: "said bad" }, h("p", { class: "sentence" }, "No answer: " + host.unanswered))
      : sentences(view, host).map(([state, text, more]) => h("div", { class: "said " + state }, h("p", { class: "sentence" }, text), more ? h("p", { class: "small" }, more) : null)),
    host.unanswered ? null : tightest(view, host), facts(host), gaps(history, host));
}

export const cards = (view, history) => view.hosts.map((host, place) => card(view, history, host, place));

// The fleet in a sentence: who is away before who has a bottleneck.
export function headline(view) {
  const away = view.hosts.filter((host) => host.unanswered);
  if (away.length) return ["bad", plural(away.length, "host does not answer", "hosts do not answer")];
  return view.hosts.every((host) => !host.host) ? ["", "The first window is being read"] : null;
}
