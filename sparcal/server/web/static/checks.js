// Checks: the gravest first, in plain words; what was measured is one click away.
import { make } from "/static/station.js";

export function showChecks(list, checks) {
  const grave = { stop: 0, look: 1, ok: 2 };
  const sorted = [...checks].sort((a, b) => grave[a.verdict] - grave[b.verdict]);
  list.replaceChildren(...sorted.map((check) => make("li", { "data-check": check.name, class: check.verdict },
    make("span", { class: `chip ${check.verdict}` }, check.verdict),
    make("div", {}, make("p", {}, make("strong", {}, `${check.title}${/[?!.]$/.test(check.title) ? "" : "."} `), make("span", { class: "said" }, check.plain ?? check.sentence)),
      check.plain && check.plain !== check.sentence ? make("details", {}, make("summary", {}, "What was measured"), make("p", { class: "small" }, check.sentence)) : null))));
}
