// What every page shares: talking to the API, the state line, the queue, the operator's name, shortcuts, the theme.
const csrf = document.querySelector('meta[name="csrf"]')?.content ?? "";

export class Refused extends Error {}

export async function api(method, path, body, headers = {}) {
  const guard = method === "GET" ? {} : { "X-Sparcal-CSRF": csrf };  // a bare GET may be under way already: the page asks before its scripts do
  const options = { method, headers: { ...guard, ...headers }, credentials: "same-origin" };
  if (body instanceof Blob) options.body = body;
  else if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(`/api${path}`, options);
  } catch {
    throw new Refused("The station does not answer: check that it is running.");
  }
  if (answer.status === 401) location.assign("/login");
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(value.error ?? `The station answered ${answer.status}.`);
  return value;
}

// Elements are built, never parsed from text: nothing that a file is called can become markup.
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !name.startsWith("aria")) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const find = (selector) => document.querySelector(selector);
export const number = (value, digits = 4) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(digits))));
// Written by hand: a browser needs a tenth of a second for its tables of languages, and hundreds of times stand on a page.
export const counted = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",");
export const percent = (value) => `${Number((100 * value).toPrecision(2))} %`;

const two = (value) => String(value).padStart(2, "0");
export function clock(text) {
  const moment = new Date(text);
  return `${two(moment.getHours())}:${two(moment.getMinutes())}`;
}

// Days as every language of the world sorts them.
export const day = (moment) => `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
export const isToday = (moment) => day(moment) === day(new Date());

export function when(text) {
  if (!text) return "";
  const moment = new Date(text);
  return `${isToday(moment) ? "today" : day(moment)} ${clock(text)}`;
}

let toastTimer;
export function say(sentence) {
  find(".toast")?.remove();
  document.body.append(make("div", { class: "toast", role: "status" }, sentence));
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => find(".toast")?.remove(), 6000);
}

export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    say(error.message);
    return undefined;
  }
}

// Shows a dialog; the value of the button that closes it, none for going back. The event of a closing comes a moment later: if
// somebody has asked again by then, it is no answer to the second question.
const answers = new WeakMap();
export function asks(dialog) {
  answers.get(dialog)?.(dialog.returnValue);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    answers.set(dialog, resolve);
    dialog.addEventListener("close", function closed() {
      if (dialog.open) return;
      dialog.removeEventListener("close", closed);
      resolve(dialog.returnValue);
    });
  });
}

// The operator's name: asked for each decision on a lot, and once per visit while judging.
export async function signed(question, options = {}) { return (await signature(question, options))?.operator ?? null; }

// The same with a reason, which a lot needs that a check says stop to, and with parts that can be left out.
export async function signature(question, { always = true, button = "Sign", note = "", reason = false, why: asked = "Why, although a check says stop?", parts = [] } = {}) {
  const known = sessionStorage.getItem("sparcal-operator") ?? "";
  if (!always && known) return { operator: known, reason: null };
  const dialog = find("#sign");
  const input = dialog.querySelector("input[name=operator]");
  const why = dialog.querySelector("textarea");
  find("#sign-reason").hidden = !reason;
  find("#sign-reason span").textContent = asked;
  why.required = reason;
  why.value = "";
  const offers = find("#sign-parts");
  offers.hidden = parts.length === 0;
  offers.replaceChildren(...parts.map(({ sha, name }) => make("label", { class: "offer" }, make("input", { type: "checkbox", value: sha, checked: true }), make("img", { src: `/api/images/${sha}/thumb`, alt: "", loading: "lazy" }), make("span", {}, name))));
  dialog.querySelector("h2").textContent = question;
  find("#sign-note").textContent = note;
  find("#sign-note").hidden = !note;
  dialog.querySelector("button.main").textContent = button;
  input.value = known;
  const chosen = asks(dialog);
  if (reason) why.focus(); else input.select();
  const name = (await chosen) === "sign" ? input.value.trim() : "";
  if (!name) return null;
  sessionStorage.setItem("sparcal-operator", name);
  return { operator: name, reason: reason ? why.value.trim() : null, parts: [...offers.querySelectorAll("input:checked")].map((box) => box.value) };
}

// What a new lot is called, or null if somebody goes back.
export async function namedLot(note, suggestion = "") {
  const dialog = find("#name-lot");
  const input = dialog.querySelector("input");
  dialog.querySelector("p").textContent = note;
  input.value = suggestion;
  const chosen = asks(dialog);
  input.select();
  return ((await chosen) === "go" && input.value.trim()) || null;
}

// Drop or pick images; they go up one after the other, so that they keep their order.
export function acceptImages(zone, send) {
  const input = zone.querySelector('input[type="file"]');
  zone.querySelector("button.pick").addEventListener("click", () => input.click());
  input.addEventListener("change", () => { upload([...input.files], send); input.value = ""; });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      zone.classList.toggle("over", kind === "dragover");
      if (kind === "drop") upload([...event.dataTransfer.files], send);
    });
  }
}

const outbox = { files: [], total: 0 };  // what is dropped while others are on their way follows them
async function upload(files, send) {
  const underWay = outbox.total > 0;
  outbox.files.push(...files);
  outbox.total += files.length;
  if (underWay) return;
  const problems = [];
  const note = find("#sending");
  for (let file = outbox.files.shift(); file; file = outbox.files.shift()) {
    note.textContent = `Sending ${outbox.total - outbox.files.length} of ${outbox.total}`;
    try { await send(file); } catch (error) { problems.push(`${file.name}: ${error.message}`); }
  }
  note.textContent = "";
  outbox.total = 0;
  if (problems.length) say(problems.length > 1 ? `${problems[0]} (and ${problems.length - 1} more)` : problems[0]);
  refresh();
}

// The state line, and a heartbeat for pages: `listen(f)` calls f whenever something has changed, and at once where the
// station has answered already.
const listeners = [];
let latest = null;
let shown = "";  // what the listeners have seen: the revision, and a watched folder that comes or goes without one
let timer;
export function listen(listener) {
  listeners.push(listener);
  if (latest) queueMicrotask(() => attempt(() => listener(latest)));  // once the page's module has run to its end
}
// Whether nothing has changed since the page was made, so that what was asked for after it is as new as this state.
const rendered = document.querySelector('meta[name="revision"]')?.content;
export const isAsRendered = (state) => String(state.revision) === rendered;
export async function refresh(anyway = false) {
  clearTimeout(timer);
  let pause = 1000;
  try {
    const state = await api("GET", "/state");
    gone(null);
    showState(state);
    const news = `${state.revision} ${state.watch?.reachable}`;
    if (news !== shown || anyway === true) {
      shown = news;
      latest = state;
      for (const listener of [...listeners]) await attempt(() => listener(state));
      if (find("#queue").open) await showQueue();
    }
    pause = state.running || state.queued ? 500 : 2000;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    gone(error.message);
    pause = 3000;
  }
  timer = setTimeout(() => refresh(), document.hidden ? 5 * pause : pause);
}

// A station that does not answer must be seen from across the hall: what is on the page may be old.
let goneSince = null;
function gone(sentence) {
  goneSince = sentence ? goneSince ?? new Date().toISOString() : null;
  document.body.classList.toggle("gone", Boolean(sentence));
  find("#trouble").hidden = !sentence;
  find("#trouble").textContent = sentence ? `${sentence} What you see is from ${when(goneSince)} and may be out of date.` : "";
}

export const duration = (seconds) => (seconds < 90 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.round(seconds / 60)} min`);
export const reference = (lot) => (lot ? `lot ${lot}` : "the station's own reference");

function showState(state) {
  if (state.trouble) {
    find("#trouble").hidden = false;
    find("#trouble").textContent = state.trouble;
  }
  const { active } = state;
  const line = find(".state");
  line.classList.toggle("own", !active.name);
  line.querySelector("strong").textContent = active.name ? `Lot ${active.name} is active` : "No lot is active";
  const by = active.operator ? ` · calibrated by ${active.operator}` : "";
  find("#state-facts").textContent = active.name
    ? `since ${when(active.since)}${by} · ${active.k} good parts · threshold ${number(active.threshold)}`
    : "The station judges with its own reference, not calibrated to any lot.";
  const job = state.current;
  const bar = find("#queue-progress");
  const counts = job?.total && !(outbox.total && job.kind === "score");  // what still arrives is no total yet
  bar.hidden = !counts;
  if (counts) { bar.max = job.total; bar.value = job.done; }
  find("#queue-text").textContent = job
    ? [job.state === "held" ? "Held: the disk is full" : job.title, counts ? `${job.done} of ${job.total}` : "", counts && job.remaining_s ? `about ${duration(job.remaining_s)}` : "", state.queued ? `${state.queued} more` : ""].filter(Boolean).join(" · ")
    : state.queued ? `Queue: ${state.queued} waiting` : "Queue: empty";
}

async function showQueue() {
  const { jobs } = await api("GET", "/jobs");
  const act = (job, what) => attempt(async () => { await api("POST", `/jobs/${job.id}/${what}`); await refresh(); await showQueue(); });
  find("#queue .jobs").replaceChildren(...(jobs.length ? jobs : [null]).map((job) => job === null
    ? make("li", { class: "soft" }, "Nothing was asked for yet.")
    : make("li", {},
      make("div", {}, make("strong", {}, job.title), " ", make("span", { class: "soft small" }, [when(job.created), job.total ? `${job.done} of ${job.total}` : "", job.remaining_s ? `about ${duration(job.remaining_s)} left` : ""].filter(Boolean).join(" · ")),
        job.message ? make("p", { class: "small" }, job.message) : null),
      make("div", { class: "row" }, make("span", { class: `chip ${job.state}` }, { queued: "waits", running: "runs" }[job.state] ?? job.state),
        ["queued", "running", "held"].includes(job.state) ? make("button", { onclick: () => act(job, "cancel") }, "Cancel") : null,
        ["failed", "cancelled", "interrupted"].includes(job.state) ? make("button", { onclick: () => act(job, "retry") }, "Try again") : null))));
}

const KEYS = { " ": "Space", ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→" };  // as they stand on a keyboard

// Shortcuts: one table per page, shown on "?"; none acts while somebody types, and a slider keeps its arrows.
// A key that decides can be switched off, and waits a moment: more letters so soon come from a scanner, not from a hand.
const SCANNER_MS = 120;
const shortcuts = new Map();
// `of` says what a key is about at the moment it is pressed, whatever is chosen a moment later.
export function shortcut(key, meaning, action, { decides = false, of = () => undefined } = {}) { shortcuts.set(key, { meaning, action, decides, of }); }
const keysDecide = () => localStorage.getItem("sparcal-keys") !== "off";
let lastLetter = -SCANNER_MS;
let pending;
document.addEventListener("keydown", (event) => {
  const letter = event.key.length === 1 && event.key !== " ";
  const burst = event.timeStamp - lastLetter < SCANNER_MS;
  if (letter) lastLetter = event.timeStamp;
  if (letter && burst) clearTimeout(pending);  // a hand's next key leaves it: on a slow machine it is late, and still meant
  const typing = event.target.closest("input:not([type=range], [type=file], [type=checkbox]), select, textarea");
  if (!typing && burst && event.key === "Enter") event.preventDefault();  // a scanner ends with it, and must press no button
  if (event.ctrlKey || event.metaKey || event.altKey || typing || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input[type=range]") && /^(Arrow|Page|Home|End)/.test(event.key)) return;
  const found = shortcuts.get(event.key) ?? shortcuts.get(event.key.toLowerCase());
  if (!found) return;
  if (found.decides && (!keysDecide() || burst || event.repeat)) return;
  event.preventDefault();
  const subject = found.of();
  if (found.decides) pending = setTimeout(() => found.action(subject), SCANNER_MS);
  else if (!burst || !letter) found.action(subject);
});
shortcut("?", "this list", () => {
  find("#single-keys").checked = keysDecide();
  find("#help tbody").replaceChildren(...[...shortcuts].map(([key, { meaning }]) =>
    make("tr", {}, make("td", {}, make("kbd", {}, KEYS[key] ?? key.toUpperCase())), make("td", {}, meaning))));
  find("#help").showModal();
});
shortcut("j", "go to Judge", () => location.assign("/judge"));
shortcut("n", "go to New lot", () => location.assign("/new"));
shortcut("l", "go to Lots", () => location.assign("/lots"));
shortcut("q", "the queue", () => find("#queue-button").click());
shortcut("t", "light or dark", () => find("#theme").click());

find("#theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("sparcal-theme", root.dataset.theme);
});
find("#single-keys").addEventListener("change", (event) => localStorage.setItem("sparcal-keys", event.target.checked ? "on" : "off"));
find("#sign-out")?.addEventListener("click", async () => {
  await fetch("/logout", { method: "POST", headers: { "X-Sparcal-CSRF": csrf }, credentials: "same-origin" });
  location.assign("/login");
});
find("#help-button").addEventListener("click", () => shortcuts.get("?").action());
find("#queue-button").addEventListener("click", async () => { await attempt(showQueue); find("#queue").showModal(); });
for (const close of document.querySelectorAll("dialog .close")) close.addEventListener("click", () => close.closest("dialog").close());
window.addEventListener("unhandledrejection", (event) => say(`The page made a mistake (${event.reason?.message ?? "unknown"}): reload it.`));
queueMicrotask(() => refresh());
