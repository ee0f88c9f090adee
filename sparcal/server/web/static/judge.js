// Judge: parts as they were judged, the newest on top; look, and say good or defective.
import { acceptImages, api, attempt, counted, find, isAsRendered, listen, make, number, reference, refresh, say, shortcut, signed, when } from "/static/station.js";
import { Viewer } from "/static/viewer.js";
import { controlChart } from "/static/plots.js";
import { isEarlier, showAgain, tickBox, tickOrNot } from "/static/again.js";
import { offerActions } from "/static/list.js";

const PAGE = 100;
const MOST_REFUSED = 50;  // so many files of the watched folder the station names
const viewer = new Viewer(find("#viewer"));
const lot = new URLSearchParams(location.search).get("lot");
let rows = [];
let chosen = Number(new URLSearchParams(location.search).get("part")) || null;
let picked = chosen !== null;  // until somebody picks a part, the one on top is shown
let limit = PAGE;
let shownLot = lot ?? "";  // what the list is about; the active lot unless the address names one
let active = "";
let asked = 0;
let refusedFiles = 0;

let early = ask();  // beside the state, not after it
listen(async (state) => {
  active = state.active.name;
  find("#drop").hidden = lot !== null && lot !== active;  // what arrives is judged by the active lot
  find("h1").textContent = lot === null ? "Judge" : `Parts judged by ${reference(lot)}`;
  if (state.watch) showWatch(state.watch);
  find("#monitored").textContent = state.monitored;
  const first = early;
  early = null;
  if (!(first && (await load(first)) && isAsRendered(state))) await load();
});
acceptImages(find("#drop"), (file) => api("POST", `/inspection/images?name=${encodeURIComponent(file.name)}`, file, { "Content-Type": "application/octet-stream" }));
find("#collect")?.addEventListener("click", () => attempt(async () => { await api("POST", "/inspection/collect"); await refresh(); }));
find("#watch")?.addEventListener("change", () => attempt(switchWatch));
for (const name of ["#show", "#order"]) find(name).addEventListener("change", () => { limit = PAGE; picked = false; load(); });
let searching;
find("#search").addEventListener("input", () => { clearTimeout(searching); searching = setTimeout(() => { limit = PAGE; picked = false; load(); }, 200); });
find("#more").addEventListener("click", () => { limit = Math.min(500, limit + PAGE); load(); });
find("#opacity").addEventListener("input", (event) => viewer.opacity(event.target.value));
find("#fit").addEventListener("click", () => viewer.fit());
find("#native").addEventListener("click", () => viewer.native());
find("#in").addEventListener("click", () => viewer.zoom(1.4));
find("#out").addEventListener("click", () => viewer.zoom(1 / 1.4));
find("#good").addEventListener("click", () => judge("good"));
find("#defective").addEventListener("click", () => judge("defective"));
offerActions(() => shownLot);
find("#by").addEventListener("change", (event) => location.assign(listOf(event.target.value)));
shortcut("g", "the part is good", (id) => judge("good", id), { decides: true, of: () => chosen });
shortcut("d", "the part is defective", (id) => judge("defective", id), { decides: true, of: () => chosen });
if (find("#watch")) shortcut("w", "judge the watched folder as images arrive, or stop that", () => find("#watch").click());
shortcut("ArrowDown", "next part in the list", () => step(1));
shortcut("ArrowUp", "previous part", () => step(-1));
shortcut("x", "tick the part, to judge it again", () => tickOrNot(rows.find((row) => row.id === chosen)));
shortcut("/", "search by name", () => find("#search").focus());
shortcut("h", "heat map on or off", () => { const slider = find("#opacity"); slider.value = Number(slider.value) ? 0 : 0.7; viewer.opacity(slider.value); });
shortcut("+", "zoom in", () => viewer.zoom(1.4));
shortcut("-", "zoom out", () => viewer.zoom(1 / 1.4));
shortcut("0", "whole part", () => viewer.fit());
shortcut("1", "native pixels", () => viewer.native());

function filter() { return { show: find("#show").value, search: find("#search").value }; }
const narrowed = () => filter().show !== "all" || filter().search !== "";
const listOf = (name) => (name === active ? "/judge" : `/judge?${new URLSearchParams({ lot: name })}`);

async function ask() {
  const { show, search } = filter();
  const query = new URLSearchParams({ show, order: find("#order").value, search, limit });
  if (lot !== null) query.set("lot", lot);
  const turn = ++asked;
  const [answer, trend] = await Promise.all(["/scores?" + query, "/trend?limit=300"].map((path) => attempt(() => api("GET", path))));
  return { turn, answer, trend };
}

// Whether the answer was shown.
async function load(question = ask()) {
  const { turn, answer, trend } = await question;
  if (!answer || !trend || turn !== asked) return false;  // a later question was asked meanwhile
  rows = answer.scores;
  shownLot = answer.lot;
  const suffix = `?lot=${encodeURIComponent(answer.lot)}`;
  find("#csv").href = `/api/scores.csv${suffix}`;
  find("#zip").href = `/api/scores/overruled.zip${suffix}`;
  showCounts(answer);
  showReferences(answer.references);
  const any = rows.length > 0 || narrowed();
  find("#bench").hidden = !any;
  find("#empty").hidden = any;
  find("#image").hidden = rows.length === 0;
  find("#nothing").hidden = rows.length > 0;
  find("#more").hidden = rows.length < limit || limit >= 500;
  if (!picked || !rows.some((row) => row.id === chosen)) chosen = rows[0]?.id ?? null;
  showChosen();
  await null;  // its picture is asked for now, and is on the way while the list is made
  showList();
  if (any) showTrend(trend);
  await showAgain({ lot: shownLot, active, filter: filter(), rows });
  return true;
}

// Every reference has a list of its own, and a way leads to each.
function showReferences(known) {
  const names = [...new Set([active, shownLot, ...known])];
  find("#by").parentElement.hidden = names.length < 2;
  find("#by").replaceChildren(...names.map((name) => make("option", { value: name, selected: name === shownLot }, `By ${reference(name)}${name === active ? ", active" : ""}`)));
  const others = names.filter((name) => name !== shownLot && (name === active || known.includes(name)));
  find("#empty-other").hidden = others.length === 0;
  if (others.length) find("#empty-other").textContent = `See what ${reference(others[0])} has judged`;
  if (others.length) find("#empty-other").href = listOf(others[0]);
  find("#empty-next").hidden = isEarlier({ lot: shownLot, active });
}

function showCounts({ counts, waiting }) {
  const items = [["judged", counts.scored, ""], ["pass", counts.passed, "pass"], ["fail", counts.failed, "fail"]];
  const looked = counts.confirmed + counts.overruled;
  if (looked) items.push(["looked at", looked, "", "parts that somebody has found good or defective"], ["against the station", counts.overruled, "", "parts that somebody has found to be otherwise than judged"]);
  if (counts.errors) items.push(["not scored", counts.errors, "fail"]);
  if (waiting) items.push(["waiting", waiting, ""]);
  if (refusedFiles) items.push(["refused", refusedFiles, "fail", "files of the watched folder that cannot be judged: named below the parts"]);
  find("#counts").replaceChildren(...items.map(([name, count, kind, title]) => make("div", title ? { class: kind, title } : { class: kind }, make("dt", {}, name), make("dd", {}, counted(count)))));
}

const word = (row) => (row.problem ? "not scored" : row.final === "pass" ? "pass" : "fail");

function showList() {
  const list = find("#list");
  const top = list.scrollTop;
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  const boxes = rows.some((row) => row.again);
  list.classList.toggle("choosing", boxes);
  list.replaceChildren(...rows.map((row) => make("li", {}, boxes ? tickBox(row) : null, make("button", {
    "aria-current": row.id === chosen ? "true" : null, "data-id": String(row.id), onclick: () => choose(row.id),
    "aria-label": `${row.name}: ${word(row)}${row.finding ? `, found ${row.finding}` : ""}`,
  }, row.problem || row.removed ? make("span", { class: "blank" }, row.removed ? "removed" : "") : make("img", { loading: "lazy", fetchPriority: "low", src: `/api/images/${row.sha}/thumb`, alt: "" }),
  make("span", { class: "what" }, make("span", { class: "name", title: row.name }, row.name), make("span", { class: "soft small number beside" }, row.beside ? besides(row.beside) : "", when(row.created)), gauge(row)),
  make("span", { class: `chip ${row.problem ? "stop" : row.final}` }, row.problem ? "no score" : `${word(row)}${row.finding ? " ✓" : ""}`)))));
  if (top) list.scrollTop = top;
  if (focused) list.querySelector(focused.value ? `input[value="${focused.value}"]` : '[aria-current="true"]')?.focus({ preventScroll: true });
}

// A word on what another reference said; below the part stands all of it.
function besides({ lot: other, verdict }) {
  return `${other === active ? "now" : shownLot === active ? "was" : "also"} ${verdict ?? "without score"} · `;
}

// The threshold stands in the middle; twice the threshold is at two thirds, ten times at ten elevenths: nothing runs off.
const share = ({ score, threshold }) => (score === null || !(threshold > 0) ? 0 : (100 * Math.max(0, score)) / (Math.max(0, score) + threshold));

function gauge(row) {
  const box = make("span", { class: `gauge ${row.verdict ?? ""}` }, make("i"), make("b"));
  box.firstChild.style.width = `${share(row)}%`;
  return box;
}

function choose(id) {
  picked = true;
  chosen = id;
  showList();
  showChosen();
}

function step(by) {
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.id === chosen);
  choose(rows[Math.min(rows.length - 1, Math.max(0, at + by))].id);
  find('#list [aria-current="true"]')?.scrollIntoView({ block: "nearest" });
}

let shown = null;
function showChosen() {
  const row = rows.find((each) => each.id === chosen);
  if (!row) return;
  const verdict = find("#verdict");
  verdict.textContent = row.problem ? "No score" : row.final === "pass" ? "Pass" : "Fail";
  verdict.className = `verdict ${row.problem ? "fail" : row.final}`;
  find("#name").textContent = row.name;
  find("#said").textContent = row.finding ? `found ${row.finding} by ${row.operator}, ${when(row.at)}${row.overruled ? `; the station said ${row.verdict}` : ""}` : row.problem ?? "nobody has looked at it yet";
  find("#against").textContent = row.problem ? "" : `score ${number(row.score)}, threshold ${number(row.threshold)}`;
  const bar = find("#gauge");
  bar.className = `gauge tall ${row.verdict ?? ""}`;
  bar.hidden = Boolean(row.problem);
  bar.setAttribute("aria-label", `score ${number(row.score)} against threshold ${number(row.threshold)}`);
  bar.firstElementChild.style.width = `${share(row)}%`;
  find("#good").disabled = find("#defective").disabled = Boolean(row.problem) || row.removed;
  find("#good").setAttribute("aria-pressed", String(row.finding === "good"));
  find("#defective").setAttribute("aria-pressed", String(row.finding === "defective"));
  find("#viewer").hidden = find("#tools").hidden = Boolean(row.problem) || row.removed;
  find("#removed").hidden = !row.removed;
  if (shown !== row.id) showOthers(row);
  if (!row.problem && !row.removed && shown !== row.id) {
    viewer.show({ picture: `/api/images/${row.sha}/native`, heat: `/api/images/${row.sha}/heat?lot=${encodeURIComponent(row.lot)}`, width: row.width, height: row.height, name: row.name });
    viewer.opacity(find("#opacity").value);
  }
  shown = row.id;
}

async function showOthers(row) {
  find("#others").hidden = true;
  const { others } = await api("GET", `/scores/${row.id}`);
  if (row.id !== chosen || !others.length) return;
  find("#others").replaceChildren(...others.map((other) => make("li", {}, `${reference(other.lot)} said ${other.verdict ?? "nothing"} (${number(other.score)} against ${number(other.threshold)}), ${when(other.created)}`)));
  find("#others").hidden = false;
}

function showTrend({ points, alarms }) {
  find("#trend").hidden = points.length < 2;
  if (points.length > 1) controlChart(find("#chart"), points, { alarms, label: "Scores of the latest parts against their threshold", when, pick: (point) => (point.lot === shownLot && rows.some((row) => row.id === point.id) ? choose(point.id) : location.assign(`/judge?${new URLSearchParams({ lot: point.lot, part: point.id })}`)) });
}

async function judge(finding, id = chosen) {
  const row = rows.find((each) => each.id === id);
  if (!row || row.problem || row.removed) return;
  const operator = await signed("Who is judging?", { always: false, button: "Start judging" });
  if (!operator) return;
  await attempt(async () => {
    const answer = await api("POST", `/scores/${row.id}/decision`, { finding, operator });
    Object.assign(row, answer);
    const at = rows.findIndex((each) => each.id === row.id);
    if (chosen === row.id) choose((rows[at + 1] ?? row).id);  // who has gone to another part meanwhile stays there
    find('#list [aria-current="true"]')?.scrollIntoView({ block: "nearest" });
    say(`${row.name}: ${finding}.`);
    await refresh();
  });
}

function showWatch({ on, operator, since, reachable, refused }) {
  find("#watch").checked = on;
  const kept = operator ? `${on ? "on" : "off"} since ${when(since)}, ${operator}` : "";
  find("#watch-since").textContent = reachable ? kept : "The folder cannot be reached: nothing arrives until it is back.";
  find("#watch-since").classList.toggle("away", !reachable);
  refusedFiles = refused.length;
  find("#refused").hidden = refused.length === 0;
  find("#refused summary").textContent = `${refused.length === MOST_REFUSED ? "The latest " : ""}${refused.length} file${refused.length === 1 ? "" : "s"} of the watched folder cannot be judged`;
  find("#refused ul").replaceChildren(...refused.map(({ name, problem }) => make("li", {}, problem.includes(name) ? problem : `${name}: ${problem}`)));
}

async function switchWatch() {
  const on = find("#watch").checked;
  find("#watch").checked = !on;  // until somebody has signed
  const operator = await signed(on ? "Judge the watched folder as images arrive?" : "Stop judging the watched folder by itself?", { button: on ? "Switch on" : "Switch off" });
  if (!operator) return;
  showWatch(await api("POST", "/inspection/watch", { on, operator }));
  await refresh();
}
