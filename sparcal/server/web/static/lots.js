// Lots: list, detail with the removed-energy map, comparison, roll back, audit trail.
import { api, attempt, find, listen, make, number, percent, refresh, say, shortcut, signed, when } from "/static/station.js";

let lots = [];
let active = "";
let chosen = null;

listen(load);
find("#own").addEventListener("click", () => activate(null));
for (const select of [find("#first"), find("#second")]) select.addEventListener("change", compare);
for (const [key, by] of [["ArrowDown", 1], ["ArrowUp", -1]]) {
  shortcut(key, by > 0 ? "next lot" : "previous lot", () => {
    const at = lots.findIndex((lot) => lot.name === chosen);
    if (lots.length) show(lots[Math.min(lots.length - 1, Math.max(0, at + by))].name);
  });
}

async function load() {
  const answer = await api("GET", "/lots");
  lots = answer.lots;
  active = answer.active;
  find("#none").hidden = lots.length > 0;
  find("#table").hidden = lots.length === 0;
  find("#compare").hidden = lots.length < 2;
  find("#own").disabled = !active;
  find("#lots").replaceChildren(...lots.map((lot) => make("tr", { class: lot.name === active ? "active" : "" },
    make("td", {}, make("button", { class: "quiet", onclick: () => show(lot.name) }, lot.name)),
    make("td", {}, when(lot.created)), make("td", {}, lot.operator ?? "–"), make("td", { class: "number" }, String(lot.k)),
    make("td", {}, lot.correction), make("td", { class: "number" }, `${number(lot.threshold)}${lot.by_hand ? " (by hand)" : ""}`),
    make("td", {}, make("span", { class: `chip ${lot.worst}` }, lot.worst)),
    make("td", {}, make("span", { class: `chip ${lot.name === active ? "ok" : ""}` }, lot.name === active ? "active" : lot.discarded ? "discarded" : "kept")),
    make("td", {}, lot.name === active || lot.discarded ? null : make("button", { onclick: () => activate(lot.name) }, "Roll back to it")))));
  for (const select of [find("#first"), find("#second")]) {
    const before = select.value;
    select.replaceChildren(...lots.map((lot) => make("option", { value: lot.name }, lot.name)));
    if (lots.some((lot) => lot.name === before)) select.value = before;
    else if (select.id === "second" && lots.length > 1) select.value = lots[0].name;
    else if (lots.length) select.value = lots[Math.min(1, lots.length - 1)].name;
  }
  if (!chosen && lots.length) await show(active || lots[0].name);
  await compare();
  await showTrail();
}

async function show(name) {
  chosen = name;
  const lot = await attempt(() => api("GET", `/lots/show?lot=${encodeURIComponent(name)}`));
  if (!lot) return;
  find("#detail").hidden = false;
  find("#detail-name").textContent = lot.name;
  find("#detail-judge").href = `/judge?lot=${encodeURIComponent(lot.name)}`;
  find("#detail-sentence").textContent = lot.sentence;
  find("#detail-threshold").textContent = lot.threshold_sentence;
  find("#detail-checks").replaceChildren(...lot.checks.map((check) => make("li", {}, make("span", { class: `chip ${check.verdict}` }, check.verdict), make("p", {}, check.sentence))));
  drawEnergy(lot.removed_energy);
}

// One square per cell, from the card's colour to the accent.
function drawEnergy(cells) {
  const canvas = find("#energy");
  canvas.hidden = !cells;
  find("#energy-note").textContent = cells ? "Share of each cell's variation that calibration takes out." : "This lot's correction removes nothing from the features.";
  find("#energy-most").textContent = "";
  if (!cells) return;
  const most = Math.max(...cells.flat(), 1e-9);
  canvas.width = cells[0].length;
  canvas.height = cells.length;
  const pen = canvas.getContext("2d");
  cells.forEach((row, y) => row.forEach((share, x) => {
    const strength = share / most;
    pen.fillStyle = `hsl(${165 - 130 * strength} ${35 + 45 * strength}% ${18 + 46 * strength}%)`;
    pen.fillRect(x, y, 1, 1);
  }));
  const mean = cells.flat().reduce((sum, share) => sum + share, 0) / cells.flat().length;
  find("#energy-most").textContent = `most ${percent(most)}`;
  canvas.setAttribute("aria-label", `Removed energy per cell: on average ${percent(mean)}, at most ${percent(most)}`);
}

async function compare() {
  const first = find("#first").value, second = find("#second").value;
  if (!first || !second) return;
  const answer = await attempt(() => api("GET", `/lots/compare?${new URLSearchParams({ first, second })}`));
  if (!answer) return;
  find("#first-head").textContent = first;
  find("#second-head").textContent = second;
  find("#comparison").replaceChildren(...answer.rows.map((row) => make("tr", {}, make("td", {}, row.what), make("td", {}, text(row, row.first)), make("td", {}, text(row, row.second)))));
}

const text = ({ what }, value) => (typeof value === "number" ? number(value) : what === "created" ? when(value) : value ?? "–");

async function activate(lot) {
  const operator = await signed(lot ? `Roll back to lot ${lot}: it judges from now on.` : "Go back to the station's own reference?", { button: "Roll back" });
  if (!operator) return;
  await attempt(async () => {
    await api("POST", "/lots/activate", { lot, operator });
    say(lot ? `Lot ${lot} judges now.` : "The station judges with its own reference now.");
    await refresh();
  });
}

async function showTrail() {
  const { entries } = await api("GET", "/audit");
  find("#trail").replaceChildren(...entries.map((entry) => make("li", {}, make("span", { class: "soft number" }, when(entry.at)), make("strong", {}, entry.operator ?? "–"), make("span", {}, entry.sentence))));
}
