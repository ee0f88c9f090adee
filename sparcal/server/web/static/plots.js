// Two histograms on one axis with a threshold, as SVG.
const SVG = "http://www.w3.org/2000/svg";
const W = 760, H = 270, BASE = 150, BELOW = 70;  // the first group stands on the axis, the second hangs from it

function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// groups: [{ values, className }]; returns the function that moves the threshold line.
export function histogram(svg, groups, { label, digits = 4, range = [] }) {
  const all = [...groups.flatMap((group) => group.values), ...range];
  const low = Math.min(...all), high = Math.max(...all);
  const span = high - low || Math.abs(high) || 1;
  const from = low - 0.06 * span, to = high + 0.12 * span;
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
  for (let i = 0; i <= 4; i += 1) {
    const value = from + (i / 4) * (to - from);
    svg.append(draw("text", { x: (i / 4) * W, y: BASE + BELOW + 30, "text-anchor": i === 0 ? "start" : i === 4 ? "end" : "middle" }, String(Number(value.toPrecision(digits - 1)))));
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
