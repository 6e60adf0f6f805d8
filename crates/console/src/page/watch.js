// The live page of headroom agent, and of several agents of headroom watch --listen: asks /watch.json each
// second and /history.json every few, and changes only what changed. Works without anything from elsewhere;
// every text that comes from a server is set as text.
import { at, h, outdated, show, themed } from "./element.js";
import { follow } from "./watch/chart.js";
import { begin } from "./watch/compare.js";
import { called, cards, choose, chosen, headline as ofHosts, ofChosen } from "./watch/hosts.js";
import { map } from "./watch/map.js";
import { endpoints, objectives, panels, promised, shared } from "./watch/panel.js";
import { events, tap, timeline } from "./watch/timeline.js";
import { figure, lasted, plural } from "./watch/word.js";

const CELLS = 200; // of a chart
const SLOWEST = 15; // seconds between two looks at the history, however long the stretch

let stretch = 600;
let fleet = null; // all hosts, where there are several
let view = null; // what is shown: all hosts, or the one that is chosen
let history = null;
let heard = Date.now();
let shown = false;
let looking = 0; // counts up, so that an answer to an old question is dropped

themed();
const byId = (id) => document.getElementById(id);

const several = () => fleet !== null && view === fleet;

// Servers of several hosts may have one name, as 127.0.0.1:3306: then that of the host is said, too.
function nameOf(server) {
  const alike = several() && view.servers.filter((one) => one.name === server.name).length > 1;
  return alike ? server.name + " of " + called(server.agent) : server.name;
}

function headline(view) {
  const awayOrNew = several() ? ofHosts(view) : null;
  if (awayOrNew) return awayOrNew;
  // What servers share with their host is one bottleneck, the host's.
  const hostOf = (server) => (view.hosts?.find((host) => host.agent === server.agent) ?? view).verdict;
  const named = view.servers.filter((server) => server.verdict.bottleneck && !shared(server, hostOf(server)));
  const away = view.servers.filter((server) => server.unanswered);
  if (away.length) return ["bad", plural(away.length, "server does not answer", "servers do not answer")];
  if (named.length === 1) return ["warn", nameOf(named[0]) + ": " + named[0].verdict.bottleneck.called];
  if (named.length) return ["warn", named.length + " bottlenecks"];
  const held = several() ? view.hosts.filter((host) => host.verdict.bottleneck) : [];
  if (held.length > 1) return ["warn", "bottlenecks on " + held.length + " hosts"];
  if (held.length) return ["warn", called(held[0].agent) + ": " + held[0].verdict.bottleneck.called];
  if (view.verdict.bottleneck) return ["warn", "this host: " + view.verdict.bottleneck.called];
  if (!view.host && !several()) return ["", "The first window is being read"];
  return ["good", "No bottleneck"];
}

function notices(view) {
  const list = view.servers.filter((server) => server.unanswered).map((server) => ["bad", nameOf(server), "does not answer: " + server.unanswered]);
  if (view.left_out) list.push(["warn", "Servers left out", view.left_out]);
  if (view.held_back) list.push(["warn", "This agent", "is " + view.held_back]);
  (view.hosts ?? []).forEach((host) => { if (host.held_back) list.push(["warn", "Agent " + host.agent, "is " + host.held_back]); });
  if (view.servers.length && !view.writer) list.push(["warn", "No primary", "none can be named; headroom fleet says why"]);
  promised(view).filter((one) => one.incident).forEach((one) => list.push(["bad", "Incident", one.name + ": " + one.promise + "; open for " + lasted(one.incident.for_s)]));
  return list.map(([mood, name, text]) => h("div", { class: "notice " + mood }, h("b", {}, name), h("span", {}, text)));
}

function width() {
  const node = byId("map");
  const style = getComputedStyle(node);
  return node.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
}

function render() {
  if (!view) return;
  const [mood, text] = headline(view);
  const verdict = byId("verdict");
  if (verdict.textContent !== text) verdict.textContent = text;
  verdict.className = "verdict " + mood;
  document.title = (mood === "good" || mood === "" ? "" : "! ") + "Headroom watch";
  document.body.classList.toggle("several", several());
  byId("fleet").hidden = !several();
  if (several()) show("hosts", cards(view, history));
  const zones = new Set(view.servers.map((server) => server.zone).filter(Boolean));
  const whose = several() ? [h("b", {}, plural(view.hosts.length, "host", "hosts")), " and "] : fleet ? [h("b", {}, called(fleet.hosts[chosen].agent)), ": "] : null;
  show("where", view.servers.length ? ["Watching ", whose, h("b", {}, plural(view.servers.length, "server", "servers")), zones.size ? " in " + plural(zones.size, "zone", "zones") : "", view.writer ? [", writes go to ", h("b", {}, view.writer)] : null] : ["Watching ", whose ? whose[0] : h("b", {}, "this host")]);
  show("notices", notices(view));
  show("map", map(view, width()));
  if (!several()) {
    show("panels", panels(view, history));
    show("endpoints", endpoints(view, history));
  }
  show("objectives", objectives(view));
  if (history) {
    show("timeline", timeline(history));
    show("events", events(history));
  }
  footer();
  // What the address points at is there only now.
  if (!shown && history) byId(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
  shown ||= history !== null;
}

function footer() {
  const kept = history && history.kept;
  show("footer", h("span", {}, "Headroom " + view.version + ", windows of " + view.window_s + " s"),
    several() ? h("span", {}, "what stands here began with this page's headroom watch; each host has the longer history of its agent") : h("span", {}, "watching costs " + (view.cost.cpu_share * 100).toFixed(2) + " % of a core and " + figure(view.cost.resident_bytes, "bytes")),
    kept ? h("span", {}, "history in memory: readings for " + lasted(kept.readings_s) + ", minutes for " + lasted(kept.minutes_s) + ", " + figure(kept.bytes, "bytes") + " of at most " + figure(kept.bytes_at_most, "bytes")) : null,
    kept && kept.untold ? h("span", {}, "no room in it for all servers and endpoints: " + kept.untold + " readings are not there") : null,
    h("span", {}, plural(view.gaps, "gap", "gaps") + " since the start"), h("a", { href: ofChosen("/watch.json") }, "JSON"), h("a", { href: ofChosen("/history.json") }, "history"), fleet ? null : h("a", { href: at("/metrics") }, "metrics"));
}

async function json(address) {
  const answer = await fetch(address, { cache: "no-store", signal: AbortSignal.timeout(8000) });
  if (!answer.ok) throw new Refused((await answer.text()).trim() || answer.status + " " + answer.statusText);
  return answer.json();
}

// An answer that says why there is none.
class Refused extends Error {}

// All hosts, to choose one of, and what is shown; an agent alone is its own view.
async function askAll() {
  const told = await json(at("/watch.json"));
  if (!told.version) return; // nothing has been read yet
  if (outdated(told.version)) location.reload();
  fleet = told.hosts?.length ? told : null;
  byId("choose").hidden = fleet === null;
  if (fleet) show("choose", choose(fleet));
  view = fleet && chosen !== null ? await json(ofChosen("/watch.json")) : told;
}

async function ask() {
  let answered = false;
  try {
    await askAll();
    answered = true;
    document.body.classList.remove("stale", "blank");
    render();
    // What could not be drawn was not heard: else what stood here before would pass for now.
    heard = Date.now();
  } catch (error) {
    if (Date.now() - heard > 2500 || error instanceof Refused) {
      document.body.classList.add("stale");
      document.body.classList.toggle("blank", view === null);
      const verdict = byId("verdict");
      verdict.className = "verdict bad";
      verdict.textContent = answered ? "The answer cannot be shown: load this page again" : "No answer from " + (fleet && chosen !== null && fleet.hosts[chosen] ? called(fleet.hosts[chosen].agent) : "the agent") + (view === null ? "" : " for " + lasted((Date.now() - heard) / 1000));
      if (error instanceof Refused) show("notices", h("div", { class: "notice bad" }, h("b", {}, "Not read"), h("span", {}, error.message)));
    }
    if (answered || !(error instanceof TypeError || error instanceof Refused) && error.name !== "TimeoutError") console.error(error);
  }
  setTimeout(ask, document.hidden ? 5000 : 1000);
}

async function look() {
  const mine = ++looking;
  const step = Math.max(1, Math.ceil(stretch / CELLS));
  try {
    const told = await json(ofChosen("/history.json?from=" + -stretch + "&to=0&step=" + step));
    if (mine !== looking) return;
    history = told;
    render();
  } catch { /* the other question says that nobody answers */ }
  if (mine === looking) setTimeout(() => mine === looking && look(), 1000 * (document.hidden ? SLOWEST : Math.min(SLOWEST, Math.max(2, step))));
}

document.querySelector(".stretch").addEventListener("click", (event) => {
  const chosen = event.target.closest("[data-stretch]");
  if (!chosen) return;
  stretch = Number(chosen.dataset.stretch);
  document.querySelectorAll("[data-stretch]").forEach((button) => button.setAttribute("aria-pressed", String(button === chosen)));
  look();
});
follow(byId("main"), () => history);
tap(byId("timeline"));
begin();
new ResizeObserver(() => { if (view) show("map", map(view, width())); }).observe(byId("map"));
ask();
look();
