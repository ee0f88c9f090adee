// What can be done with all parts of a list: a new lot, more parts for the station, room on the disk.
import { api, asks, attempt, counted, find, namedLot, number, reference, refresh, say, signature } from "/static/station.js";

let lot = () => "";  // what judged the parts of the list
export function offerActions(listed) { lot = listed; }
find("#next-lot").addEventListener("click", nextLot);
find("#add-parts").addEventListener("click", () => attempt(addParts));
find("#forget-button").addEventListener("click", () => attempt(forget));

// They open over the list, and close like a menu; who goes back from a dialog finds them where they were.
const menu = find("details.actions");
document.addEventListener("click", (event) => { if (!event.target.closest("details.actions, dialog")) menu.open = false; });
menu.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !menu.open) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

async function addParts() {
  const offer = await api("GET", `/inspection/parts?lot=${encodeURIComponent(lot())}`);
  const count = offer.parts.length;
  if (!count) return say("No part of this list passed, was found good and is new to the station: judge some first.");
  const answer = await signature(`Add ${count} good part${count === 1 ? "" : "s"} to the station?`, {
    button: "Add", parts: offer.parts, note: `The station was fitted on ${offer.training} parts. The checks look at these first; then its own reference is fitted anew on all of them, and lots stay as they are. Look at each, and untick what should stay out.`,
  });
  if (!answer) return;
  if (!answer.parts.length) return say("No part was ticked, so nothing was added.");
  await api("POST", "/inspection/parts", { operator: answer.operator, lot: offer.lot, images: answer.parts });
  say("The parts are being added: see the queue.");
  await refresh();
}

const size = (bytes) => (bytes < 2 ** 30 ? `${Math.ceil(bytes / 2 ** 20)} MB` : `${number(bytes / 2 ** 30, 3)} GB`);
const images = (count) => `${counted(count)} image${count === 1 ? "" : "s"}`;

async function forget() {
  const store = await api("GET", `/inspection/store?lot=${encodeURIComponent(lot())}`);
  const dialog = find("#forget");
  const [also, operator] = [find("#forget-overruled input"), dialog.querySelector("input[type=text]")];
  const by = reference(store.lot);
  const count = () => store.forgettable + (also.checked ? store.forgettable_overruled : 0);
  const show = () => {
    find("#forget-what").textContent = count()
      ? `${images(count())} that ${by} has judged will be removed from the station. Scores and decisions stay, but nobody can look at the pictures again.`
      : `No image that ${by} has judged can go: they wait, belong to a draft or a lot, or were decided against the station.`;
    dialog.querySelector("button.danger").disabled = count() === 0;
  };
  also.checked = false;
  also.onchange = show;
  find("#forget-overruled").hidden = store.forgettable_overruled === 0;
  find("#forget-overruled span").textContent = `Also ${images(store.forgettable_overruled)} that somebody decided against the station (download first)`;
  find("#forget-room").textContent = `${counted(store.images)} of ${counted(store.most_images)} images and ${size(store.bytes)} of ${size(store.most_bytes)} are in use. When the station is full, the oldest judged images make room by themselves.`;
  operator.value = sessionStorage.getItem("sparcal-operator") ?? "";
  show();
  if (await asks(dialog) !== "go") return;
  sessionStorage.setItem("sparcal-operator", operator.value.trim());
  const gone = await api("POST", "/inspection/forget", { operator: operator.value, lot: store.lot, overruled: also.checked });
  say(`${images(gone.images)} forgotten.`);
  await refresh();
}

async function nextLot() {
  const name = await namedLot(`It begins with the parts that somebody found good among those that ${reference(lot())} has judged.`);
  if (!name) return;
  await attempt(async () => {
    const draft = await api("POST", "/drafts/from-confirmed", { name, lot: lot() });
    location.assign(`/new?draft=${draft.id}`);
  });
}
