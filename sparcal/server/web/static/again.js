// Judging again: parts that another reference has judged are ticked in its list, and the active lot judges them too.
import { api, attempt, counted, find, make, reference, signed } from "/static/station.js";

let list = { lot: "", active: "", filter: {}, rows: [] };
let offer = 0;  // how many of the list the active lot could judge
let everything = false;  // all of these, but for those that are named
const named = new Map();  // parts that were ticked one by one, or left out of everything: hash and name
let last = null;  // where a run of ticks begins, if somebody holds Shift

const ticked = (row) => everything !== named.has(row.sha);
const count = () => (everything ? offer - named.size : named.size);
const parts = (number) => `${counted(number)} part${number === 1 ? "" : "s"}`;
export const isEarlier = ({ lot, active }) => lot !== active;

// What the list is about, by whom it was judged, and what could be judged again; asks for the number, so it comes last.
export async function showAgain(shown) {
  const other = JSON.stringify([list.lot, list.filter]) !== JSON.stringify([shown.lot, shown.filter]);
  list = shown;
  if (everything && other) forgetTicks();  // it was all of another list
  find("#earlier").hidden = !isEarlier(list);
  if (!isEarlier(list)) return;
  for (const row of list.rows) if (!row.again) named.delete(row.sha);
  const answer = await attempt(() => api("GET", `/inspection/again?${new URLSearchParams({ lot: list.lot, ...list.filter })}`));
  if (!answer || shown !== list) return;
  offer = answer.images;
  paint();
}

// A box before a part that could be judged again; the room for it before any other.
export function tickBox(row) {
  if (!row.again) return make("span");
  const box = make("input", { type: "checkbox", checked: ticked(row), value: row.sha, "aria-label": `Judge ${row.name} again` });
  box.addEventListener("click", (event) => tick(row, box.checked, event.shiftKey));
  return make("label", { class: "tick-part" }, box);
}

export function tickOrNot(row) { if (row?.again) tick(row, !ticked(row)); }

function tick(row, on, asRun = false) {
  const at = list.rows.findIndex((each) => each.id === row.id), from = asRun ? list.rows.findIndex((each) => each.id === last) : -1;
  for (const each of from < 0 ? [row] : list.rows.slice(Math.min(at, from), Math.max(at, from) + 1)) {
    if (!each.again) continue;
    if (on === everything) named.delete(each.sha); else named.set(each.sha, each.name);
  }
  last = row.id;
  paint();
}

function forgetTicks() {
  everything = false;
  named.clear();
}

function paint() {
  const { lot, active, rows } = list;
  find("#earlier-what").textContent = `Judged by ${reference(lot)}, which is not active now. ${offer || count() ? "" : `None is left to judge again: ${reference(active)} has judged them too, or their pictures were removed.`}`;
  find("#choose").hidden = !offer && !count();
  const all = find("#choose-all");
  all.checked = count() > 0 && count() >= offer;
  all.indeterminate = count() > 0 && count() < offer;
  find("#choose-all + span").textContent = `All ${counted(offer)}`;
  find("#again").disabled = count() === 0;
  find("#again span").textContent = count() ? `Judge ${parts(count())} again with ${reference(active)}` : `Tick parts to judge again with ${reference(active)}`;
  const boxes = new Map([...find("#list").querySelectorAll("input")].map((box) => [box.value, box]));
  for (const row of rows) if (boxes.has(row.sha)) boxes.get(row.sha).checked = ticked(row);
}

find("#choose-all").addEventListener("change", (event) => {
  const on = event.target.checked;
  forgetTicks();
  everything = on;
  paint();
});

find("#again").addEventListener("click", () => attempt(async () => {
  const { lot, active, filter } = list;
  const names = [...named.values()];
  const some = everything ? "" : `${names.slice(0, 4).join(", ")}${names.length > 4 ? ` and ${names.length - 4} more` : ""}. `;
  const operator = await signed(`Judge ${parts(count())} again with ${reference(active)}?`, { button: "Judge again", note: `${some}The verdicts of ${reference(lot)} stay on record beside the new ones.` });
  if (!operator) return;
  const chosen = everything ? { ...filter, without: [...named.keys()] } : { images: [...named.keys()] };
  await api("POST", "/inspection/again", { operator, lot, ...chosen });
  location.assign("/judge");
}));
