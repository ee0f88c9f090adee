// Charts as SVG: two histograms on one axis with a threshold, and the run of scores over time.
const SVG = "http://www.w3.org/2000/svg";
const H = 290, BASE = 150, BELOW = 70;  // the first group stands on the axis, the second hangs from it

function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// Drawn as wide as its place, so that letters keep their size on a phone.
const roomFor = (svg, most) => Math.min(most, Math.max(300, Math.round(svg.clientWidth) || most));

// And drawn anew when its place becomes wider or narrower.
const places = new WeakMap();
const widths = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const { most, room, paint } = places.get(target);
    if (roomFor(target, most) !== room) keepDrawn(target, most, paint);
  }
});

function keepDrawn(svg, most, paint) {
  const room = roomFor(svg, most);
  places.set(svg, { most, room, paint });
  widths.observe(svg);
  return paint(room);
}

// A few values along an axis, as people count: multiples of 1, 2 or 5 and a power of ten.
function roundValues(from, to) {
  const rough = (to - from) / 6, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.floor(to / step) - first + 1 }, (_, i) => (first + i) * step);
}

// groups: [{ values, className }]; returns the function that moves the threshold line.
export function histogram(svg, groups, options) {
  let threshold = null;
  let drawn;
  keepDrawn(svg, 760, (room) => {
    drawn = drawHistogram(svg, room, groups, options);
    if (threshold !== null) drawn.move(threshold);
  });
  return { from: drawn.from, to: drawn.to, move(value) { threshold = value; drawn.move(value); } };
}

function drawHistogram(svg, W, groups, { label, digits = 4, range = [], axes = false }) {
  const all = [...groups.flatMap((group) => group.values), ...range];
  const low = Math.min(...all), high = Math.max(...all);
  const span = high - low || Math.abs(high) || 1;
  const from = low < 0 ? low - 0.06 * span : Math.max(0, low - 0.06 * span), to = high + 0.12 * span;  // no score is below 0
  const x = (value) => ((Math.min(Math.max(value, from), to) - from) / (to - from)) * W;
  const bins = Math.min(36, Math.max(10, Math.ceil(Math.sqrt(all.length) * 2.5)));
  svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  svg.replaceChildren();
  groups.forEach(({ values, className }, g) => {
    const counts = new Array(bins).fill(0);
    for (const value of values) counts[Math.min(bins - 1, Math.floor(((value - from) / (to - from)) * bins))] += 1;
    const most = Math.max(...counts, 1);
    counts.forEach((count, i) => {
      if (!count) return;
      const height = (count / most) * (g === 0 ? BASE - 34 : BELOW);
      svg.append(draw("rect", { class: className, x: (i / bins) * W + 1, y: g === 0 ? BASE - height : BASE, width: W / bins - 2, height, rx: 3 }));
    });
  });
  svg.append(draw("line", { class: "axis", x1: 0, x2: W, y1: BASE, y2: BASE }));
  for (const value of roundValues(from, to)) {
    const place = x(value);
    svg.append(draw("text", { x: place, y: BASE + BELOW + 30, "text-anchor": place < 24 ? "start" : place > W - 24 ? "end" : "middle" }, String(Number(value.toPrecision(6)))));
  }
  if (axes) {
    svg.append(draw("text", { class: "axis-title", x: W / 2, y: BASE + BELOW + 56, "text-anchor": "middle" }, "score: higher is more anomalous"));
    svg.append(draw("text", { class: "axis-title", x: -BASE / 2, y: -8, transform: "rotate(-90)", "text-anchor": "middle" }, "parts"));
  }
  const line = draw("line", { class: "limit", x1: 0, x2: 0, y1: 24, y2: BASE + BELOW + 6 });
  const text = draw("text", { class: "limit-text", x: 0, y: 16 });
  svg.append(line, text);
  return {
    from, to,
    move(threshold) {
      const place = x(threshold);
      line.setAttribute("x1", place);
      line.setAttribute("x2", place);
      text.setAttribute("x", place);
      text.setAttribute("text-anchor", place > W * 0.8 ? "end" : place < W * 0.2 ? "start" : "middle");
      text.textContent = `threshold ${Number(threshold.toPrecision(digits))}`;
    },
  };
}

// The run of scores: each against the threshold that it was held to, so that lots can stand on one chart.
const LETTER = 9;  // pixels that a letter of a lot's name takes at most, on average
const CHART = { h: 230, left: 72, right: 12, top: 18, bottom: 44 };
export function controlChart(svg, all, options) { keepDrawn(svg, 1800, (room) => drawChart(svg, room, all, options)); }

function drawChart(svg, w, all, { label, when, pick, alarms = [] }) {
  const { h, left, right, top, bottom } = CHART;
  const points = all.slice(-Math.floor((w - left - right) / 4));
  const ratio = (point) => Math.max(0, point.score) / point.threshold;
  const x = (i) => left + ((w - left - right) * (i + 0.5)) / points.length;
  const y = (value) => top + (h - top - bottom) * (1 - value / (1 + value));  // the threshold is half way up; nothing runs off
  svg.setAttribute("viewBox", `0 0 ${w} ${h}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${label}: ${points.filter((point) => point.verdict === "fail").length} of the latest ${points.length} failed`);
  svg.replaceChildren();
  for (const value of [0, 0.5, 1, 2, 5]) {
    svg.append(draw("line", { class: value === 1 ? "limit" : "grid", x1: left, x2: w - right, y1: y(value), y2: y(value) }));
    svg.append(draw("text", { x: left - 8, y: y(value) + 5, "text-anchor": "end", class: value === 1 ? "limit-text" : "" }, value === 1 ? "limit" : `${value}×`));
  }
  for (const alarm of alarms) {
    const from = points.findIndex((point) => point.id >= alarm.first), to = points.findIndex((point) => point.id >= alarm.last);
    if (to < 0) continue;
    const mark = draw("rect", { class: "shift", x: x(Math.max(0, from) - 0.5), width: Math.max(4, x(to + 0.5) - x(Math.max(0, from) - 0.5)), y: top, height: h - top - bottom });
    mark.append(draw("title", {}, `Shift noticed: ${alarm.what}`));
    const begins = x(Math.max(0, from) - 0.5), late = begins > w - 120;
    svg.append(mark, draw("text", { class: "shift-text", x: late ? w - right : begins + 4, y: h - bottom - 6, "text-anchor": late ? "end" : "start" }, "shift noticed"));
  }
  const changes = points.flatMap((point, i) => (i > 0 && points[i - 1].lot === point.lot ? [] : [i]));
  changes.forEach((i, n) => {
    const from = x(i - 0.5), to = n + 1 < changes.length ? x(changes[n + 1] - 0.5) : w;
    if (i > 0) svg.append(draw("line", { class: "change", x1: from, x2: from, y1: top - 6, y2: h - bottom }));
    const name = points[i].lot || "own reference";
    const room = Math.min(40, Math.floor((to - from - 10) / LETTER));
    if (room < 4) return;  // the line says that another reference judges from here on
    const text = draw("text", { x: from + 6, y: top, class: "change-text" }, name.length > room ? `${name.slice(0, room - 1)}…` : name);
    text.append(draw("title", {}, name));
    svg.append(text);
  });
  points.forEach((point, i) => {
    const dot = draw("circle", { class: point.verdict, cx: x(i), cy: y(ratio(point)), r: points.length > 120 ? 3.5 : 5 });
    dot.append(draw("title", {}, `${point.name}: ${point.verdict}, ${ratio(point).toFixed(2)} times the threshold, ${when(point.at)}`));
    dot.addEventListener("click", () => pick(point));
    svg.append(dot);
  });
  (w < 700 ? [0, -1, points.length - 1] : [0, Math.floor(points.length / 2), points.length - 1]).forEach((i, n) => i >= 0 && svg.append(draw("text", { x: n === 0 ? left : n === 2 ? w - right : x(i), y: h - bottom + 20, "text-anchor": ["start", "middle", "end"][n] }, when(points[i].at))));
  svg.append(draw("text", { class: "axis-title", x: (w + left) / 2, y: h - 4, "text-anchor": "middle" }, "parts in the order they were judged"));
  svg.append(draw("text", { class: "axis-title", x: -(h - bottom + top) / 2, y: 12, transform: "rotate(-90)", "text-anchor": "middle" }, "score ÷ limit"));
}

// The share of planted defects that were found, by size: { size (pixels), found, planted } each, and the curve through them.
export function detectionCurve(svg, sizes, options) { keepDrawn(svg, 620, (room) => drawCurve(svg, room, sizes, options)); }

function drawCurve(svg, w, sizes, { label, a90, curve }) {
  const h = 240, left = 56, right = 14, top = 14, bottom = 48;
  const low = Math.log(Math.max(0.5, Math.min(...sizes.map((each) => each.size)) * 0.8)), high = Math.log(Math.max(...sizes.map((each) => each.size)) * 1.25);
  const x = (size) => left + ((Math.log(size) - low) / (high - low || 1)) * (w - left - right);
  const y = (share) => top + (1 - share) * (h - top - bottom);
  svg.setAttribute("viewBox", `0 0 ${w} ${h}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  svg.replaceChildren();
  for (const share of [0, 0.5, 0.9, 1]) {
    svg.append(draw("line", { class: "grid", x1: left, x2: w - right, y1: y(share), y2: y(share) }));
    svg.append(draw("text", { x: left - 8, y: y(share) + 5, "text-anchor": "end" }, `${Math.round(100 * share)} %`));
  }
  const line = curve?.sizes?.length ? curve.sizes.map((size, i) => [size, curve.chances[i]]).filter(([size]) => Math.log(size) >= low && Math.log(size) <= high) : [];
  svg.append(draw("polyline", { class: "curve-line", points: line.map(([size, share]) => `${x(size)},${y(share)}`).join(" ") }));
  for (const each of sizes) {
    svg.append(draw("circle", { class: "curve-dot", cx: x(each.size), cy: y(each.found / each.planted), r: 5 }));
    svg.append(draw("text", { x: x(each.size), y: h - bottom + 20, "text-anchor": "middle" }, String(Number(each.size.toPrecision(2)))));
  }
  if (a90) {
    const late = x(a90) > w - 130;
    svg.append(draw("line", { class: "limit", x1: x(a90), x2: x(a90), y1: top, y2: h - bottom }), draw("text", { class: "limit-text", x: x(a90) + (late ? -7 : 7), y: h - bottom - 8, "text-anchor": late ? "end" : "start" }, "9 in 10 found"));
  }
  svg.append(draw("text", { class: "axis-title", x: (w + left) / 2, y: h - 6, "text-anchor": "middle" }, "size of the defect in pixels"));
  svg.append(draw("text", { class: "axis-title", x: -(h - bottom + top) / 2, y: 0, transform: "rotate(-90)", "text-anchor": "middle" }, "found"));
}
