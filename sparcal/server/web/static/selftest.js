// The self-test of a lot: defects planted on its good parts, how many were found, by kind and by size.
import { make } from "/static/station.js";
import { detectionCurve } from "/static/plots.js";

export function showSelfTest(place, test, page) {
  place.hidden = !test;
  if (!test) return;
  const sentence = test.sentence ?? `${test.found} of ${test.planted} planted defects are found.`;
  const kinds = Object.entries(test.by_kind ?? {}).map(([kind, value]) => [kind, count(value)]);
  const sizes = (test.by_size ?? []).filter((each) => each.planted).map((each) => ({ ...each, size: Math.sqrt(each.from * each.to) }));
  const curve = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  curve.setAttribute("class", "plot curve");
  place.replaceChildren(
    make("h2", {}, "Planted defects"),
    make("p", { class: "verdict-line" }, sentence),
    make("div", { class: "tested" }, make("div", { class: "stack" }, make("div", { class: "found" }, test.before === null || test.before === undefined ? null : bar("before", test.before, test.planted), bar("after", test.found, test.planted)),
      kinds.length ? make("ul", { class: "kinds" }, ...kinds.map(([kind, [found, planted]]) => make("li", {}, make("span", {}, kind), make("strong", { class: "number" }, `${found} of ${planted}`)))) : null),
    sizes.length ? make("figure", { class: "curve-figure" }, curve, make("figcaption", { class: "soft small" }, "Dots: planted defects of about that size, faint ones included. Line: the chance of being found.")) : null),
  );
  if (page) place.append(make("p", {}, make("a", { href: page }, "Every planted defect, found and missed")));
  if (sizes.length) detectionCurve(curve, sizes, { label: "Share of planted defects found, by size", a90: test.a90, curve: test.curve });
}

const count = (value) => (Array.isArray(value) ? value : [value.found, value.planted]);  // (found, planted)

function bar(when, found, planted) {
  const box = make("div", { class: `found-bar ${when}` }, make("span", {}, when === "before" ? "station's own reference" : "this lot"), make("span", { class: "share" }, make("i")), make("strong", { class: "number" }, `${found} of ${planted}`));
  box.querySelector("i").style.width = `${planted ? (100 * found) / planted : 0}%`;
  return box;
}
