// Before and after: two stretches of the history side by side, with their ratio. Chosen by the calendar, so
// that they stay where they are while time goes on.
import { h, show } from "../element.js";
import { ofChosen } from "./hosts.js";
import { figure, lasted } from "./word.js";

const byId = (id) => document.getElementById(id);
const FIELDS = ["before_from", "before_to", "after_from", "after_to"];
const ordinary = [-1200, -600, -600, 0]; // seconds from now

const local = (date) => new Date(date.getTime() - date.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
const clock = (epoch_s) => new Date(epoch_s * 1000).toLocaleTimeString([], { hourCycle: "h23" });

const estimate = (one, unit) => one === null ? h("td", { class: "n none" }, "not read") : h("td", { class: "n" }, h("b", {}, figure(one.mean, unit)),
  one.interval ? h("small", {}, figure(one.interval[0], unit) + " to " + figure(one.interval[1], unit)) : h("small", {}, "no interval"));

function times(ratio) {
  if (ratio === null) return h("td", { class: "n none" }, "–");
  const text = (r) => r === 0 ? "0" : r >= 9.95 ? r.toFixed(0) : r >= 0.995 ? r.toFixed(2) : r.toFixed(3);
  // Sure of a change only where the whole interval lies on one side of 1.
  const sure = ratio.interval && (ratio.interval[0] > 1 || ratio.interval[1] < 1);
  return h("td", { class: "n" + (sure ? " sure" : "") }, h("b", {}, text(ratio.ratio) + "×"), ratio.interval ? h("small", {}, text(ratio.interval[0]) + " to " + text(ratio.interval[1]) + (sure ? "" : ": may be nothing")) : h("small", {}, "no interval"));
}

export function table(told) {
  const side = (name, one) => h("th", { class: "n" }, name, h("small", {}, clock(one.from_epoch_s) + " to " + clock(one.to_epoch_s) + ", " + lasted(one.seconds)));
  const notes = told.notes.map((note) => h("li", {}, note));
  if (!told.rows.length) return [h("ul", { class: "notes" }, notes)];
  const head = h("tr", {}, h("th", {}, "figure"), side("before", told.before), side("after", told.after), h("th", { class: "n" }, "after / before"));
  let whose = null;
  const rows = told.rows.flatMap((row) => {
    const heading = row.who === whose ? [] : [h("tr", { class: "whose" }, h("th", { colspan: 4 }, row.who))];
    whose = row.who;
    return [...heading, h("tr", { "data-figure": row.figure }, h("th", {}, row.label), estimate(row.before, row.unit), estimate(row.after, row.unit), times(row.ratio))];
  });
  return [h("div", { class: "scroll" }, h("table", { class: "compared" }, h("thead", {}, head), h("tbody", {}, rows))), h("ul", { class: "notes" },
    h("li", {}, "Below each mean its 95 % interval; a ratio in bold colour is a change beyond it. Two different hours may differ for their own reasons."), notes)];
}

async function compare(event) {
  event?.preventDefault();
  const question = new URLSearchParams(FIELDS.map((name) => [name, new Date(byId(name).value).getTime() / 1000]));
  if ([...question.values()].some((value) => value === "NaN")) return show("compared", h("p", { class: "note" }, "Fill in all four moments."));
  try {
    const answer = await fetch(ofChosen("/compare.json?" + question), { cache: "no-store", signal: AbortSignal.timeout(8000) });
    if (!answer.ok) throw new Error(await answer.text());
    show("compared", table(await answer.json()));
  } catch (error) {
    show("compared", h("p", { class: "note" }, "Not compared: " + error.message));
  }
}

export function begin() {
  const now = Date.now();
  const fill = (name, s) => { byId(name).value = local(new Date(now + s * 1000)); };
  FIELDS.forEach((name, i) => fill(name, ordinary[i]));
  byId("compare").addEventListener("submit", compare);
  // "From now on" is how a change is judged: press it when you change something, compare when it has had its
  // time.
  byId("change").addEventListener("click", () => {
    const at = local(new Date());
    byId("before_to").value = at;
    byId("before_from").value = local(new Date(Date.now() - 600000));
    byId("after_from").value = at;
    byId("after_to").value = local(new Date(Date.now() + 600000));
    show("compared", h("p", { class: "note" }, "The ten minutes before now against those that follow. Change what you want to change, and compare when it has had its time."));
  });
  // A page that was asked for a comparison shows it: /?compare
  if (new URLSearchParams(location.search).has("compare")) compare();
}
