// The shift alarm, on every page: since when parts look different, some of them, and what to do.
import { api, attempt, clock, day, find, isToday, listen, make, namedLot, refresh, say, signature, when } from "/static/station.js";

let alarm = null;

listen((state) => {
  const other = alarm?.id !== state.alarm?.id || alarm?.count !== state.alarm?.count || alarm?.draft !== state.alarm?.draft;
  alarm = state.alarm;
  find("#alarm").hidden = !alarm;
  find("#promise").hidden = Boolean(alarm) || !state.promise;
  const [, told, advice] = /^(.*?\.) (?=[A-Z])(.*)$/.exec(state.promise ?? "") ?? [null, state.promise ?? "", ""];
  find("#promise summary").textContent = `${told} What to do?`;
  find("#promise p").textContent = advice;
  if (alarm && other) show();
  // Who is at work on the lot that it asks for needs the room, not the parts and buttons once more; so, on a phone, does who is at work on another.
  const draft = location.pathname === "/new" ? new URLSearchParams(location.search).get("draft") : null;
  find("#alarm").classList.toggle("brief", draft !== null && draft === String(alarm?.draft));
  find("#alarm").classList.toggle("beside", draft !== null);
  makeRoom();
});

// What is fitted to the window makes room for these bands, so that the main button of a page stays in view.
const ROW = 54;  // pixels that the strip above the parts takes, unless it needs a second row
const GAP = 16;
function makeRoom() {
  const height = (selector) => find(selector)?.getBoundingClientRect().height ?? 0;
  const above = height("#alarm") + height("#promise") + Math.max(0, height("#strip") - ROW) + (height("#earlier") && height("#earlier") + GAP);
  document.documentElement.style.setProperty("--bands", `${Math.ceil(above)}px`);
}
const watcher = new ResizeObserver(makeRoom);
for (const band of document.querySelectorAll("#strip, #earlier, #promise")) watcher.observe(band);

function show() {
  const since = new Date(alarm.since);
  find("#alarm-what").textContent = `Since ${isToday(since) ? clock(alarm.since) : when(alarm.since)} parts look different: ${alarm.what}. Calibrate a new lot?`;
  const failed = alarm.failed === 0 ? "none of them failed" : `${alarm.failed} of them failed`;
  find("#alarm-more").textContent = `${alarm.count} part${alarm.count === 1 ? "" : "s"} judged since then, ${failed}. Noticed ${when(alarm.at)}.`;
  find("#alarm-parts").replaceChildren(...alarm.parts.map((part) => make("li", {}, make("a", { href: `/judge?${new URLSearchParams({ lot: alarm.lot, part: part.score })}`, title: part.name }, make("img", { fetchPriority: "low", src: `/api/images/${part.sha}/thumb`, alt: part.name })))));
  find("#alarm-draft").hidden = alarm.draft !== null;
  find("#alarm-go").hidden = alarm.draft === null;
  find("#alarm-go").href = `/new?draft=${alarm.draft}`;
}

find("#alarm-draft").addEventListener("click", async () => {
  const suggestion = `${day(new Date())} ${clock(alarm.since)}`;
  const name = await namedLot("It begins with the latest parts that look different. Mark those that somebody has looked at and found good.", suggestion);
  if (!name) return;
  await attempt(async () => {
    const draft = await api("POST", `/alarms/${alarm.id}/draft`, { name });
    location.assign(`/new?draft=${draft.id}`);
  });
});

find("#alarm-dismiss").addEventListener("click", async () => {
  const answer = await signature("Are these parts in order as they look now?", {
    button: "They are in order", reason: true, why: "Why is no new lot needed?", note: "Later parts are compared with these, and the alarm is over. Who said so and why stays in the audit trail.",
  });
  if (!answer) return;
  await attempt(async () => {
    await api("POST", `/alarms/${alarm.id}/dismiss`, { operator: answer.operator, reason: answer.reason });
    say("The alarm is over.");
    await refresh();
  });
});
