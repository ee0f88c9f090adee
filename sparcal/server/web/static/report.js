// A lot's report: the page is complete without this; here come the self-test's charts and local times.
import { api, attempt, clock, day, find } from "/static/station.js";
import { showSelfTest } from "/static/selftest.js";

find("#print").addEventListener("click", () => window.print());
for (const time of document.querySelectorAll("time")) time.textContent = `${day(new Date(time.dateTime))} ${clock(time.dateTime)}`;
attempt(async () => {
  const place = find("#self-test");
  showSelfTest(place, (await api("GET", `/lots/show?lot=${encodeURIComponent(place.dataset.lot)}`)).self_test);
});
