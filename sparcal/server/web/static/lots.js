// Lots: list, one in detail, day by day, two side by side, roll back, audit trail.
import { api, attempt, counted, find, listen, make, number, percent, reference, refresh, say, shortcut, signature, when } from "/static/station.js";
import { showChecks } from "/static/checks.js";
import { showSelfTest } from "/static/selftest.js";

let lots = [];
let active = "";
let chosen = null;
let trailed = 20;  // decisions that are shown; many more were made
const STATES = { active: ["active", "ok"], replaced: ["replaced", ""], kept: ["never used", ""], discarded: ["discarded", ""], undecided: ["waits for a decision", "look"] };

listen(load);
find("#trail-more").addEventListener("click", () => { trailed *= 5; attempt(showTrail); });
find("#own").addEventListener("click", () => activate(null));
for (const select of [find("#first"), find("#second")]) select.addEventListener("change", compare);
for (const [key, by] of [["ArrowDown", 1], ["ArrowUp", -1]]) {
  shortcut(key, by > 0 ? "next lot" : "previous lot", () => {
    const at = lots.findIndex((lot) => lot.name === chosen);
    if (lots.length) show(lots[Math.min(lots.length - 1, Math.max(0, at + by))].name);
  });
}

async function load() {
  const beside = [attempt(showDays), attempt(showTrail)];
  const answer = await api("GET", "/lots");
  lots = answer.lots;
  active = answer.active;
  find("#none").hidden = lots.length > 0;
  find("#table").hidden = lots.length === 0;
  find("#compare").hidden = lots.length < 2;
  find("#own").disabled = !active;
  find("#own").hidden = lots.length === 0;
  const cell = (label, ...content) => make("td", { "data-label": label, class: ["Good parts", "Passed", "Failed"].includes(label) ? "number" : "" }, ...content);
  find("#lots").replaceChildren(...lots.map((lot) => make("tr", { class: lot.name === active ? "active" : "" },
    cell("Lot", make("button", { class: "quiet wrap", onclick: () => show(lot.name) }, lot.name)),
    cell("State", make("span", { class: `chip ${STATES[lot.state][1]}` }, STATES[lot.state][0])),
    cell("Calibrated", `${when(lot.created)}${lot.operator ? `, ${lot.operator}` : ""}`), cell("Good parts", String(lot.k)),
    cell("Planted defects", lot.self_test ? `${lot.self_test.found} of ${lot.self_test.planted} found` : "not tested"),
    cell("Passed", counted(lot.counts.passed)), cell("Failed", counted(lot.counts.failed)),
    cell("Checks", make("span", { class: `chip ${lot.worst}` }, lot.worst)),
    cell("", lot.name === active || lot.state === "discarded" ? null : lot.state === "undecided" ? make("a", { class: "button", href: "/new" }, "Decide") : make("button", { onclick: () => activate(lot.name) }, "Roll back to it")))));
  for (const select of [find("#first"), find("#second")]) {
    const before = select.value;
    select.replaceChildren(...lots.map((lot) => make("option", { value: lot.name }, lot.name)));
    if (lots.some((lot) => lot.name === before)) select.value = before;
    else if (select.id === "second" && lots.length > 1) select.value = lots[0].name;
    else if (lots.length) select.value = lots[Math.min(1, lots.length - 1)].name;
  }
  await Promise.all([!chosen && lots.length ? show(active || lots[0].name) : null, compare(), ...beside]);
}

async function show(name) {
  chosen = name;
  const lot = await attempt(() => api("GET", `/lots/show?lot=${encodeURIComponent(name)}`));
  if (!lot) return;
  find("#detail").hidden = false;
  find("#detail-name").textContent = lot.name;
  find("#detail-judge").href = `/judge?lot=${encodeURIComponent(lot.name)}`;
  find("#detail-report").href = `/report?lot=${encodeURIComponent(lot.name)}`;
  find("#detail-plain").textContent = `Calibrated on ${lot.k} good parts (${lot.correction}). Threshold ${number(lot.threshold)}. ${lot.promise} On this server it has judged ${counted(lot.counts.scored)} parts: ${counted(lot.counts.passed)} passed, ${counted(lot.counts.failed)} failed.`;
  find("#detail-sentence").textContent = lot.sentence;
  find("#detail-threshold").textContent = lot.threshold_sentence;
  showSelfTest(find("#detail-self-test"), lot.self_test, lot.planted_page ? `/planted?lot=${encodeURIComponent(lot.name)}` : null);
  showChecks(find("#detail-checks"), lot.checks);
  drawEnergy(lot.removed_energy);
}

// One square per cell, from the card's colour to the accent.
function drawEnergy(cells) {
  const canvas = find("#energy");
  canvas.hidden = !cells;
  find("#energy-note").textContent = cells ? "Bright places differ most between the parts of this lot without being defects: calibration evens them out." : "This lot evens nothing out: it compares parts with its own good parts, or uses the station's own reference.";
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
  canvas.setAttribute("aria-label", `How strongly each place of the image is evened out: on average ${percent(mean)}, at most ${percent(most)}`);
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

const text = ({ what }, value) => (typeof value === "number" ? number(value) : what === "calibrated" ? when(value) : value ?? "–");

async function activate(lot) {
  const stopped = lots.find((each) => each.name === lot)?.worst === "stop";
  const answer = await signature(lot ? `Roll back to lot ${lot}: it judges from now on.` : "Go back to the station's own reference?", { button: "Roll back", reason: stopped, note: stopped ? "A check says stop. The reason is kept with the decision, for good." : "" });
  if (!answer) return;
  await attempt(async () => {
    await api("POST", "/lots/activate", { lot, operator: answer.operator, reason: answer.reason });
    say(lot ? `Lot ${lot} judges now.` : "The station judges with its own reference now.");
    await refresh();
  });
}

async function showDays() {
  const { days } = await api("GET", "/daily");
  find("#daily").hidden = days.length === 0;
  find("#days").replaceChildren(...days.map((each) => {
    const all = each.passed + each.failed;
    const bar = make("span", { class: "share" }, make("i"));
    bar.firstChild.style.width = `${all ? (100 * each.failed) / all : 0}%`;
    return make("tr", {}, make("td", { "data-label": "Day" }, each.day), make("td", { "data-label": "Judged by", class: "wrap" }, make("a", { href: `/judge?${new URLSearchParams({ lot: each.lot })}` }, reference(each.lot))),
      make("td", { "data-label": "Passed", class: "number" }, counted(each.passed)), make("td", { "data-label": "Failed", class: "number" }, counted(each.failed)),
      make("td", { "data-label": "Share failed" }, make("span", {}, bar, make("span", { class: "number" }, all ? percent(each.failed / all) : "–"))));
  }));
}

async function showTrail() {
  const { entries } = await api("GET", `/audit?limit=${trailed + 1}`);
  find("#trail-more").hidden = entries.length <= trailed;
  find("#trail").replaceChildren(...entries.slice(0, trailed).map((entry) => make("li", {}, make("span", { class: "soft number" }, when(entry.at)), make("strong", {}, entry.operator ?? "–"), make("span", {}, entry.sentence))));
}
