// Judge: scored images, worst first; look, confirm or overrule.
import { acceptImages, api, attempt, find, listen, make, number, refresh, say, shortcut, signed, when } from "/static/station.js";
import { Viewer } from "/static/viewer.js";

const PAGE = 100;
const viewer = new Viewer(find("#viewer"));
const lot = new URLSearchParams(location.search).get("lot");
let rows = [];
let chosen = null;
let picked = false;  // until somebody picks an image, the worst one is shown
let limit = PAGE;
let shownLot = lot ?? "";  // what the list is about; the active lot unless the address names one

listen((state) => {
  if (lot !== null) {  // an earlier lot is looked at; what arrives is judged by the active one
    const earlier = lot !== state.active.name;
    find("#drop").hidden = earlier;
    find("h1").classList.toggle("visually-hidden", !earlier);
    find("h1").textContent = lot ? `Images judged by lot ${lot}` : "Images judged by the station's own reference";
  }
  if (state.watch) showWatch(state.watch);
  return load();
});
acceptImages(find("#drop"), (file) => api("POST", `/inspection/images?name=${encodeURIComponent(file.name)}`, file, { "Content-Type": "application/octet-stream" }));
find("#collect")?.addEventListener("click", () => attempt(async () => { await api("POST", "/inspection/collect"); await refresh(); }));
find("#watch")?.addEventListener("change", () => attempt(switchWatch));
find("#show").addEventListener("change", () => { limit = PAGE; load(); });
find("#more").addEventListener("click", () => { limit = Math.min(500, limit + PAGE); load(); });
find("#opacity").addEventListener("input", (event) => viewer.opacity(event.target.value));
find("#fit").addEventListener("click", () => viewer.fit());
find("#native").addEventListener("click", () => viewer.native());
find("#in").addEventListener("click", () => viewer.zoom(1.4));
find("#out").addEventListener("click", () => viewer.zoom(1 / 1.4));
find("#confirm").addEventListener("click", () => judge("confirm"));
find("#overrule").addEventListener("click", () => judge("overrule"));
find("#next-lot").addEventListener("click", nextLot);
find("#add-parts").addEventListener("click", () => attempt(addParts));
find("#forget-button").addEventListener("click", () => attempt(forget));
shortcut("c", "confirm the verdict", () => judge("confirm"));
shortcut("o", "overrule the verdict", () => judge("overrule"));
if (find("#watch")) shortcut("w", "judge the watched folder as images arrive, or stop that", () => find("#watch").click());
shortcut("ArrowDown", "next image", () => step(1));
shortcut("ArrowUp", "previous image", () => step(-1));
shortcut("h", "heat map on or off", () => { const slider = find("#opacity"); slider.value = Number(slider.value) ? 0 : 0.7; viewer.opacity(slider.value); });
shortcut("+", "zoom in", () => viewer.zoom(1.4));
shortcut("-", "zoom out", () => viewer.zoom(1 / 1.4));
shortcut("0", "whole image", () => viewer.fit());
shortcut("1", "native pixels", () => viewer.native());

async function load() {
  const query = new URLSearchParams({ show: find("#show").value, limit });
  if (lot !== null) query.set("lot", lot);
  const answer = await attempt(() => api("GET", `/scores?${query}`));
  if (!answer) return;
  rows = answer.scores;
  shownLot = answer.lot;
  const suffix = `?lot=${encodeURIComponent(answer.lot)}`;
  find("#csv").href = `/api/scores.csv${suffix}`;
  find("#zip").href = `/api/scores/overruled.zip${suffix}`;
  showCounts(answer);
  const any = rows.length > 0 || find("#show").value !== "all";
  find("#bench").hidden = !any;
  find("#empty").hidden = any;
  find("#image").hidden = rows.length === 0;
  find("#more").hidden = rows.length < limit || limit >= 500;
  if (!picked || !rows.some((row) => row.id === chosen)) chosen = rows[0]?.id ?? null;
  showList();
  showChosen();
}

function showCounts({ counts, waiting }) {
  const items = [["judged", counts.scored, ""], ["pass", counts.passed, "pass"], ["fail", counts.failed, "fail"], ["confirmed", counts.confirmed, ""], ["overruled", counts.overruled, ""]];
  if (counts.errors) items.push(["not scored", counts.errors, "fail"]);
  if (waiting) items.push(["still to come", waiting, ""]);
  find("#counts").replaceChildren(...items.map(([name, count, kind]) => make("div", { class: kind }, make("dt", {}, name), make("dd", {}, String(count)))));
}

function showList() {
  const list = find("#list");
  const top = list.scrollTop;
  const focused = list.contains(document.activeElement);
  list.replaceChildren(...rows.map((row) => make("li", {}, make("button", {
    "aria-current": row.id === chosen ? "true" : null, "data-id": String(row.id), onclick: () => choose(row.id),
    "aria-label": `${row.name}: ${row.problem ? "not scored" : row.final}${row.decision ? `, ${row.decision === "confirm" ? "confirmed" : "overruled"}` : ""}`,
  }, row.problem || row.removed ? make("span", { class: "blank" }, row.removed ? "removed" : "") : make("img", { src: `/api/images/${row.sha}/thumb`, alt: "", loading: "lazy" }),
  make("span", {}, make("span", { class: "name" }, row.name), gauge(row)),
  make("span", { class: `chip ${row.problem ? "stop" : row.final}` }, row.problem ? "no score" : `${row.final}${row.decision ? " ✓" : ""}`)))));
  list.scrollTop = top;
  if (focused) list.querySelector('[aria-current="true"]')?.focus({ preventScroll: true });
}

const share = (row) => (row.score === null || !row.threshold ? 0 : Math.min(100, Math.max(0, (50 * row.score) / row.threshold)));

function gauge(row) {
  const box = make("div", { class: `gauge ${row.verdict ?? ""}` }, make("i"), make("b"));
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
  find("#said").textContent = row.decision ? `${row.decision === "confirm" ? "confirmed" : "overruled"} by ${row.operator}, ${when(row.at)}` : row.problem ?? "";
  find("#against").textContent = row.problem ? "" : `score ${number(row.score)} · threshold ${number(row.threshold)}`;
  const bar = find("#gauge");
  bar.className = `gauge tall ${row.verdict ?? ""}`;
  bar.setAttribute("aria-label", `score ${number(row.score)} against threshold ${number(row.threshold)}`);
  bar.firstElementChild.style.width = `${share(row)}%`;
  find("#confirm").disabled = find("#overrule").disabled = Boolean(row.problem) || row.removed;
  find("#viewer").hidden = find("#tools").hidden = Boolean(row.problem) || row.removed;
  find("#removed").hidden = !row.removed;
  if (!row.problem && !row.removed && shown !== row.id) {
    shown = row.id;
    viewer.show({ picture: `/api/images/${row.sha}/native`, heat: `/api/images/${row.sha}/heat?lot=${encodeURIComponent(row.lot)}`, width: row.width, height: row.height, name: row.name });
    viewer.opacity(find("#opacity").value);
  }
}

async function judge(decision) {
  const row = rows.find((each) => each.id === chosen);
  if (!row || row.problem || row.removed) return;
  const operator = await signed("Who is judging?", { always: false, button: "Start judging" });
  if (!operator) return;
  await attempt(async () => {
    const answer = await api("POST", `/scores/${row.id}/decision`, { decision, operator });
    Object.assign(row, answer);
    const at = rows.indexOf(row);
    if (at + 1 < rows.length) choose(rows[at + 1].id); else choose(row.id);
    find('#list [aria-current="true"]')?.scrollIntoView({ block: "nearest" });
    say(`${row.name}: ${decision === "confirm" ? "confirmed" : "overruled"} as ${row.final}.`);
    await refresh();
  });
}

function showWatch({ on, operator, since, reachable }) {
  find("#watch").checked = on;
  const kept = operator ? `${on ? "on" : "off"} since ${when(since)}, ${operator}` : "";
  find("#watch-since").textContent = reachable ? kept : "The folder cannot be reached: nothing arrives until it is back.";
  find("#watch-since").classList.toggle("away", !reachable);
}

async function switchWatch() {
  const on = find("#watch").checked;
  find("#watch").checked = !on;  // until somebody has signed
  const operator = await signed(on ? "Judge the watched folder as images arrive?" : "Stop judging the watched folder by itself?", { button: on ? "Switch on" : "Switch off" });
  if (!operator) return;
  showWatch(await api("POST", "/inspection/watch", { on, operator }));
  await refresh();
}

async function addParts() {
  const offer = await api("GET", `/inspection/parts?lot=${encodeURIComponent(shownLot)}`);
  const count = offer.images.length;
  if (!count) return say("No part of this list that is new to the station was confirmed as good: judge some first.");
  const operator = await signed(`Add ${count} good part${count === 1 ? "" : "s"} to the station?`, {
    button: "Add", note: `The station was fitted on ${offer.training} parts. Its own reference is fitted anew on all of them; lots stay as they are.`,
  });
  if (!operator) return;
  await api("POST", "/inspection/parts", { operator, lot: offer.lot, images: offer.images });
  say("The parts are being added: see the queue.");
  await refresh();
}

const size = (bytes) => (bytes < 2 ** 30 ? `${Math.ceil(bytes / 2 ** 20)} MB` : `${number(bytes / 2 ** 30, 3)} GB`);
const images = (count) => `${count} image${count === 1 ? "" : "s"}`;

async function forget() {
  const store = await api("GET", `/inspection/store?lot=${encodeURIComponent(shownLot)}`);
  const dialog = find("#forget");
  const [also, operator] = [find("#forget-overruled input"), dialog.querySelector("input[type=text]")];
  const by = store.lot ? `lot ${store.lot}` : "the station's own reference";
  const count = () => store.forgettable + (also.checked ? store.forgettable_overruled : 0);
  const show = () => {
    find("#forget-what").textContent = count()
      ? `${images(count())} that ${by} has judged will be removed from the station. Scores and decisions stay, but nobody can look at the pictures again.`
      : `No image that ${by} has judged can go: they wait, belong to a draft or a lot, or were overruled.`;
    dialog.querySelector("button.danger").disabled = count() === 0;
  };
  also.checked = false;
  also.onchange = show;
  find("#forget-overruled").hidden = store.forgettable_overruled === 0;
  find("#forget-overruled span").textContent = `Also ${images(store.forgettable_overruled)} whose verdict was overruled (download first)`;
  find("#forget-room").textContent = `${store.images.toLocaleString("en")} of ${store.most_images.toLocaleString("en")} images and ${size(store.bytes)} of ${size(store.most_bytes)} are in use. When the station is full, the oldest judged images make room by themselves.`;
  operator.value = sessionStorage.getItem("sparcal-operator") ?? "";
  show();
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((resolve) => { dialog.addEventListener("close", resolve, { once: true }); });
  if (dialog.returnValue !== "go") return;
  sessionStorage.setItem("sparcal-operator", operator.value.trim());
  const gone = await api("POST", "/inspection/forget", { operator: operator.value, lot: store.lot, overruled: also.checked });
  say(`${images(gone.images)} forgotten.`);
  await refresh();
}

function nextLot() {
  const dialog = find("#name-lot");
  dialog.returnValue = "";
  dialog.showModal();
  dialog.addEventListener("close", () => {
    if (dialog.returnValue !== "go") return;
    attempt(async () => {
      const draft = await api("POST", "/drafts/from-confirmed", { name: dialog.querySelector("input").value, lot: shownLot });
      location.assign(`/new?draft=${draft.id}`);
    });
  }, { once: true });
}
