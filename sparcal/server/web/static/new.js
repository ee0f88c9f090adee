// New lot: name, images, marks, checks, calibration, before and after, decision.
import { acceptImages, api, attempt, clock, duration, find, isToday, listen, make, namedLot, number, percent, reference, refresh, say, shortcut, signature, signed, when } from "/static/station.js";
import { histogram } from "/static/plots.js";
import { showChecks } from "/static/checks.js";
import { showSelfTest } from "/static/selftest.js";

const { fewest: FEWEST, most: MOST } = Object.fromEntries(Object.entries(find("#mark").dataset).map(([name, value]) => [name, Number(value)]));
let id = Number(new URLSearchParams(location.search).get("draft")) || null;
let draft = null;
let marking = Promise.resolve();
let edits = 0;  // marks made here; an answer that was asked for before the latest one is out of date
let unsent = 0;
let shownResult = null;
let shownPairs = -1;
let moveThreshold = () => undefined;

listen(load);
find("#begin-form").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(async () => open(await api("POST", "/drafts", { name: find("#lot-name").value })));
});
acceptImages(find("#drop"), async (file) => {
  if (!id) throw new Error("name the lot first");
  await api("POST", `/drafts/${id}/images?name=${encodeURIComponent(file.name)}`, file, { "Content-Type": "application/octet-stream" });
});
find("#collect")?.addEventListener("click", () => attempt(async () => { await api("POST", `/drafts/${id}/collect`); await refresh(); }));
find("#calibrate").addEventListener("click", async () => {
  const operator = await signed(`Calibrate lot ${draft.name}: who verified the good parts?`, { button: "Calibrate" });
  if (!operator) return;
  await attempt(async () => {
    await marking;
    await api("POST", `/drafts/${id}/calibrate`, { operator, images: marked(), false_reject: Number(find("#false-reject").value), correction: find("#correction").value });
    await refresh();
  });
});
find("#cancel").addEventListener("click", () => attempt(async () => { await api("POST", `/jobs/${draft.job.id}/cancel`); await refresh(); }));
find("#drop-draft").addEventListener("click", () => decide("discard", "Discard this draft?"));
find("#anew").addEventListener("click", async () => {
  const name = await namedLot(`It begins with the images of lot ${draft.name}. Mark those that somebody has looked at and found good.`, `${draft.name} 2`);
  if (!name) return;
  await attempt(async () => { location.assign(`/new?draft=${(await api("POST", "/drafts", { name, images_of: draft.id })).id}`); });
});
find("#accept").addEventListener("click", () => decide("accept", `Accept lot ${draft.name}: it judges from now on.`));
find("#keep").addEventListener("click", () => decide("keep", "Keep the old reference?"));
find("#discard").addEventListener("click", () => decide("discard", `Discard lot ${draft.name}?`));
shortcut("a", "accept the calibrated lot", () => !find("#result").hidden && !find("#decide").hidden && find("#accept").click(), { decides: true });
shortcut("k", "keep the old reference", () => !find("#result").hidden && !find("#decide").hidden && find("#keep").click(), { decides: true });
shortcut("d", "discard the calibrated lot", () => !find("#result").hidden && !find("#decide").hidden && find("#discard").click(), { decides: true });
shortcut("c", "calibrate", () => !find("#mark").hidden && !find("#calibrate").disabled && find("#calibrate").click(), { decides: true });
for (let i = 1; i <= 9; i += 1) shortcut(String(i), `mark or unmark image ${i}`, () => draft?.images[i - 1] && !find("#mark").hidden && toggle(draft.images[i - 1]), { decides: true });
for (const [key, step] of [["ArrowRight", 1], ["ArrowLeft", -1]]) {
  shortcut(key, step > 0 ? "next image (then Space to mark)" : "previous image", () => {
    const all = [...document.querySelectorAll(".thumb")];
    all[Math.min(all.length - 1, Math.max(0, all.indexOf(document.activeElement) + step))]?.focus();
  });
}

function open(value) {
  id = value.id;
  history.replaceState(null, "", `/new?draft=${id}`);
  show(value);
}

async function load() {
  if (!id) { stage("begin"); return showDrafts(); }
  const asked = edits;
  const value = await api("GET", `/drafts/${id}`);
  if (unsent === 0 && asked === edits) show(value);
}

const DRAFT_STATES = { open: "good parts are being marked", calibrating: "is being calibrated", calibrated: "waits for a decision" };

async function showDrafts() {
  const { drafts } = await api("GET", "/drafts");
  find("#drafts-card").hidden = drafts.length === 0;
  find("#drafts").replaceChildren(...drafts.map((each) => make("li", {}, make("a", { href: `/new?draft=${each.id}`, class: "wrap" }, `Lot ${each.name}`),
    make("span", { class: "soft" }, `${DRAFT_STATES[each.state]} · ${each.images} image${each.images === 1 ? "" : "s"}, ${each.good} good · begun ${when(each.created)}`))));
}

function stage(name) {
  for (const section of ["begin", "mark", "working", "result"]) find(`#${section}`).hidden = section !== name;
  if (name === "begin" && document.activeElement === document.body) find("#lot-name").focus();
}

function show(value) {
  draft = value;
  for (const place of document.querySelectorAll(".lot-name")) place.textContent = draft.name;
  if (draft.state === "open") { stage("mark"); showMarks(); }
  else if (draft.state === "calibrating") { stage("working"); showProgress(); }
  else if (draft.result) { stage("result"); showResult(); }
  else { id = null; history.replaceState(null, "", "/new"); stage("begin"); showDrafts(); }
}

const marked = () => draft.images.filter((image) => image.good).map((image) => image.sha);

function toggle(image) {
  if (image.state === "refused") return;
  const now = new Set(marked());
  if (now.has(image.sha)) now.delete(image.sha);
  else if (now.size >= MOST) return say(`${MOST} good parts are enough: unmark one first.`);
  else now.add(image.sha);
  for (const each of draft.images) each.good = now.has(each.sha);
  draft.checks = null;
  draft.checking = now.size >= FEWEST;
  showMarks();
  const chosen = [...now];
  edits += 1;
  unsent += 1;
  marking = marking.then(() => attempt(() => api("PUT", `/drafts/${id}/good`, { images: chosen }))).then(() => {
    unsent -= 1;
    return refresh(true);
  });
}

function remove(image) {
  return attempt(async () => { show(await api("DELETE", `/drafts/${id}/images/${image.sha}`)); await refresh(); });
}

function showMarks() {
  const odd = new Set(draft.checks?.odd ?? []);
  const focused = document.activeElement?.dataset?.sha;
  find("#thumbs").replaceChildren(...draft.images.map((image, i) => make("li", {}, thumb(image, i, odd),
    make("button", { class: "remove", "aria-label": `Remove ${image.name}`, title: "Remove", onclick: () => remove(image) }, "✕"))));
  if (focused) document.querySelector(`.thumb[data-sha="${focused}"]`)?.focus();
  const count = marked().length;
  find("#tally").textContent = count;
  const checks = draft.checks?.checks ?? [];
  showChecks(find("#checks"), checks);
  if (draft.checking && !checks.length) find("#checks").append(make("li", {}, make("span", { class: "chip look" }, "…"), make("p", {}, "Checking the marked images.")));
  if (draft.checks?.problem) find("#checks").prepend(make("li", { class: "stop" }, make("span", { class: "chip stop" }, "stop"), make("p", {}, draft.checks.problem)));
  const stop = checks.find((check) => check.verdict === "stop");
  find("#stopped").textContent = stop ? `Stop. ${stop.plain ?? stop.sentence}` : "";  // where the checks are out of view
  find("#calibrate").classList.toggle("main", !stop);
  const ready = count >= FEWEST && count <= MOST;
  find("#calibrate").disabled = !ready;
  const failed = draft.job && ["failed", "cancelled", "interrupted"].includes(draft.job.state) ? draft.job.message : "";
  find("#why").textContent = !ready ? `Mark ${FEWEST} to ${MOST} parts that somebody has looked at and found good.` : failed ? `Last time: ${failed}` : "";
}

function thumb(image, i, odd) {
  const strange = odd.has(image.sha);
  const picture = image.state === "ready"
    ? make("img", { src: `/api/images/${image.sha}/thumb`, alt: "", loading: "lazy" })
    : make("span", { class: "blank" }, { refused: image.problem, removed: "The image was removed." }[image.state] ?? "Reading …");
  return make("button", {
    class: `thumb${strange ? " odd" : ""}`, "data-sha": image.sha, "aria-pressed": String(image.good),
    disabled: image.state === "refused", onclick: () => toggle(image),
    "aria-label": `${image.name}${image.good ? ", verified good" : ""}${strange ? ", odd one out" : ""}`,
  }, picture, strange ? make("span", { class: "mark" }, "Odd one out") : null, make("span", { class: "label" }, make("span", { class: "name", title: image.name }, image.name), i < 9 ? make("kbd", { "aria-hidden": "true" }, String(i + 1)) : null));
}

function showProgress() {
  const bar = find("#progress");
  if (draft.job?.total) { bar.max = draft.job.total; bar.value = draft.job.done; } else bar.removeAttribute("value");
  const { done, total, remaining_s: left } = draft.job ?? {};
  find("#working-steps").textContent = total ? `Step ${Math.min(done + 1, total)} of ${total}${left ? ` · about ${duration(left)} left` : ""}` : "";
  find("#working-note").textContent = draft.job?.state === "queued" ? "Waiting for its turn: see the queue." : "The station goes on judging with the old reference meanwhile.";
}

function showResult() {
  const decided = { accepted: "Accepted: this lot judges now.", kept: "The old reference was kept: nothing has changed.", discarded: "Discarded: nothing has changed." }[draft.state];
  find("#decide").hidden = Boolean(decided);
  find("#decided").hidden = !decided;
  find("#decided").textContent = decided ?? "";
  find("#decided").className = `notice ${draft.state === "accepted" ? "good" : "plain"}`;
  find("#anew").hidden = draft.state === "accepted";
  find("#after").hidden = !decided;
  find("#plain").hidden = Boolean(decided);
  find("#report-link").href = `/report?lot=${encodeURIComponent(draft.name)}`;
  const result = draft.result;
  if (draft.state === "accepted") offerAgain();
  const compared = draft.images.filter((image) => image.comparison).length;
  if (shownPairs !== compared) { shownPairs = compared; showPairs(); moveThreshold(); }
  if (shownResult === draft.id) return;
  shownResult = draft.id;
  const stops = result.checks.filter((check) => check.verdict === "stop");
  const chip = find("#helps");
  chip.textContent = stops.length ? "stop" : result.helps ? "calibration helps" : "calibration does not help";
  chip.className = `chip ${stops.length ? "stop" : result.helps ? "ok" : "look"}`;
  showChecks(find("#stops"), stops);
  find("#accept").classList.toggle("main", !stops.length);
  find("#plain").textContent = stops.length
    ? "Do not accept this lot before you have looked at what stands above. If you discard it, a new lot can begin with the same images."
    : `${evidence(result)} ${result.helps ? "Look at the parts below, and accept the lot." : "Keep the old reference, or show more good parts."}`;
  find("#sentence").textContent = result.sentence;
  showSelfTest(find("#self-test"), result.self_test, result.planted_page ? `/planted?lot=${encodeURIComponent(draft.name)}` : null);
  showChecks(find("#result-checks"), result.checks);
  const { own_base: ownBase, lot_base: lotBase, own, lot } = result.scores;
  const range = [...ownBase, ...lotBase, ...own, ...lot, result.threshold];
  const before = histogram(find("#plot-before"), [{ values: ownBase, className: "bar-base" }, { values: lotBase, className: "bar-own" }], { label: "Scores of good parts before calibration", range, axes: true });
  before.move(result.base_threshold);
  const after = histogram(find("#plot-after"), [{ values: own, className: "bar-base" }, { values: lot, className: "bar-own" }], { label: "Scores of good parts after calibration", range, axes: true });
  const slider = find("#threshold");
  slider.min = Math.max(after.from, after.to / 1e4); slider.max = after.to; slider.step = (after.to - after.from) / 1000;
  const move = () => {
    const byHand = slider.dataset.touched === "yes";
    const threshold = byHand ? Number(slider.value) : result.threshold;
    after.move(threshold);
    const good = lot.length ? lot : own; // the lot speaks for itself; the station's many parts would dilute it
    const above = good.filter((score) => score > threshold).length;
    const planted = result.self_test?.defects?.filter((each) => each.plain).map((each) => each.score);
    const caught = planted ? `, finds ${planted.filter((score) => score > threshold).length} of ${planted.length} planted defects` : "";
    find("#rate").textContent = byHand
      ? `Rejects ${above} of ${good.length} good parts of ${lot.length ? "this lot" : "the station"}${caught}`
      : `Rejects ${result.free ? `at most ${percent(result.false_reject)} of good parts` : `good parts as seldom as so few can promise (at most ${percent(result.false_reject)} was asked for)`}${caught}`;
    find("#threshold-note").textContent = byHand ? "Set by hand; it is recorded as such." : result.threshold_sentence;
    find("#reset").hidden = !byHand;
    for (const place of document.querySelectorAll("[data-after]")) {
      const fails = Number(place.dataset.after) > threshold;
      place.textContent = fails ? "fail" : "pass";
      place.className = `chip ${fails ? "fail" : "pass"}`;
    }
  };
  slider.dataset.touched = "no";
  slider.value = result.threshold;
  slider.oninput = () => { slider.dataset.touched = "yes"; move(); };
  find("#reset").onclick = () => { slider.dataset.touched = "no"; slider.value = result.threshold; move(); };
  moveThreshold = move;
  move();
}

function showPairs() {
  const shown = draft.images.filter((image) => image.comparison).sort((a, b) => a.good - b.good || b.comparison.lot - a.comparison.lot);
  find("#compare").replaceChildren(...shown.map((image) => {
    const { base, lot } = image.comparison;
    const gone = () => make("span", { class: "blank" }, "removed");
    const picture = image.state === "removed" ? gone() : make("img", { src: `/api/images/${image.sha}/thumb`, alt: image.name, loading: "lazy" });
    const heat = (side, words, score) => make("div", {}, image.state === "removed" ? gone() : make("img", { src: `/api/drafts/${id}/heat/${side}/${image.sha}`, alt: `${words} heat map of ${image.name}`, loading: "lazy" }), make("span", { class: "cap number" }, `${words} ${number(score)}`));
    const chip = make("span", { "data-after": lot });
    return make("figure", {},
      make("div", {}, picture, make("span", { class: "cap" }, image.good ? "verified good" : "not marked")),
      heat("before", "Before", base), heat("after", "After", lot),
      make("figcaption", {}, make("strong", {}, image.name), chip));
  }));
}

function evidence({ self_test: test, helps }) {
  if (!test) return helps ? "This lot judges its own parts better than the station's own reference." : "The station's own reference does as well.";
  const before = test.before === null ? "" : `, the station's own reference ${test.before}`;
  return `Of ${test.planted} planted defects this lot finds ${test.found}${before}.`;
}

// After a shift only the parts since then belong to the new lot; Judge offers the older ones too.
async function offerAgain() {
  const [{ entries }, { active }, { alarms }] = [await api("GET", "/audit?limit=50"), await api("GET", "/state"), await api("GET", "/alarms")];
  const before = entries.find((entry) => entry.kind === "accept" && entry.lot === draft.name)?.replaced;
  const since = alarms.find((alarm) => alarm.lot === before && alarm.outcome === "another lot")?.since ?? "";
  const offer = before === undefined || active.name !== draft.name ? null : await api("GET", `/inspection/again?${new URLSearchParams({ lot: before, since })}`);
  find("#again").hidden = find("#choose-link").hidden = !offer?.images;
  find("#choose-link").href = `/judge?${new URLSearchParams({ lot: before ?? "" })}`;
  find("#again").textContent = offer?.images ? `Judge again: ${offer.images} part${offer.images === 1 ? "" : "s"} that ${reference(before)} had judged${since ? ` since ${isToday(new Date(since)) ? clock(since) : when(since)}` : ""}` : "";
  find("#again").onclick = () => attempt(async () => {
    const operator = await signed(`Judge ${offer.images} parts again with lot ${draft.name}?`, { button: "Judge again", note: `The verdicts of ${reference(before)} stay on record beside the new ones.` });
    if (!operator) return;
    await api("POST", "/inspection/again", { operator, lot: before, since });
    location.assign("/judge");
  });
}

async function decide(decision, question) {
  const stopped = decision === "accept" && draft.result.checks.some((check) => check.verdict === "stop");
  const answer = await signature(question, { button: { accept: "Accept", keep: "Keep the old one", discard: "Discard" }[decision], reason: stopped, note: stopped ? "A check says stop. The reason is kept with the decision, for good." : "" });
  if (!answer) return;
  const slider = find("#threshold");
  const threshold = decision === "accept" && slider.dataset.touched === "yes" ? Number(slider.value) : null;
  await attempt(async () => {
    show(await api("POST", `/drafts/${id}/decision`, { decision, operator: answer.operator, reason: answer.reason, threshold }));
    await refresh();
  });
}
