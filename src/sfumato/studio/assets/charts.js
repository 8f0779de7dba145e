// Pictures of numbers that came from Python; nothing is computed here but where they lie on the screen.
import { h } from "./dom.js";

const INK = { className: "plot", marginLeft: 4, marginRight: 4 };

function drawn(label, options) {
  const picture = Plot.plot({ ...INK, ...options });
  picture.setAttribute("aria-hidden", "true");
  return h("div", { class: "chart", role: "img", "aria-label": label }, picture);
}

export function histogram(rows, label, { width = 250, height = 84, edges = [] } = {}) {
  return drawn(label, {
    width, height, marginTop: 4, marginBottom: 18, y: { axis: null }, x: { label: null, ticks: 4, tickSize: 3, line: true },
    marks: [
      Plot.rectY(rows, { x1: "from", x2: "to", y: "rows", fill: "var(--mark)", insetLeft: 0.4, insetRight: 0.4 }),
      Plot.ruleX(edges, { stroke: "var(--truth)", strokeWidth: 1.5 }),
    ],
  });
}

const short = (text) => (text.length > 22 ? `${text.slice(0, 21)}…` : text);

export function bars(rows, label, { width = 250, row = 17 } = {}) {
  const data = rows.map((r, i) => ({ ...r, at: i }));
  return drawn(label, {
    width, height: row * data.length + 4, marginTop: 2, marginBottom: 2, marginLeft: 2, marginRight: 2,
    x: { axis: null }, y: { axis: null, domain: data.map((r) => r.at), padding: 0.18 },
    marks: [
      Plot.barX(data, { x: "rows", y: "at", fill: (r) => (r.rest ? "var(--bar-rest)" : "var(--bar)") }),
      Plot.text(data, { y: "at", text: (r) => short(r.label), frameAnchor: "left", dx: 5, fill: "var(--ink)" }),
      Plot.text(data, { y: "at", text: (r) => r.rows.toLocaleString("en"), frameAnchor: "right", dx: -4, fill: "var(--soft)" }),
    ],
  });
}

export function intervals(values, label, { width = 420 } = {}) {
  const data = values.map((v, i) => ({ ...v, at: i }));
  return drawn(label, {
    width, height: 24 * data.length + 26, marginTop: 2, marginBottom: 22, marginLeft: Math.min(160, width / 3), marginRight: 10,
    x: { percent: true, label: null, domain: [0, Math.max(...data.map((v) => v.high)) * 100], ticks: 4, tickFormat: (d) => `${d} %`, line: true },
    y: { label: null, domain: data.map((v) => v.at), tickSize: 0, tickFormat: (i) => short(data[i].label), padding: 0.42 },
    marks: [
      Plot.barX(data, { x1: "low", x2: "high", y: "at", fill: "var(--mark)", fillOpacity: 0.42 }),
      Plot.tickX(data, { x: "share", y: "at", stroke: "var(--mark)", strokeWidth: 2.5 }),
    ],
  });
}

export function curve(points, now, label, { width = 420 } = {}) {
  return drawn(label, {
    width, height: 190, marginLeft: 44, marginBottom: 34, marginTop: 14,
    x: { type: "log", label: "ε, the level of privacy (less protects more)", labelAnchor: "center", labelArrow: "none", ticks: points.map((p) => p.epsilon), tickFormat: (d) => String(d), line: true },
    y: { type: "log", label: "± points", labelArrow: "none", ticks: 4, tickFormat: (d) => String(d), grid: true },
    marks: [
      Plot.line(points, { x: "epsilon", y: "error", stroke: "var(--mark)", strokeWidth: 2 }),
      Plot.dot(points, { x: "epsilon", y: "error", fill: (p) => (p.coarse ? "var(--card)" : "var(--mark)"), stroke: "var(--mark)" }),
      Plot.dot(points.filter((p) => p.epsilon === now), { x: "epsilon", y: "error", r: 8, stroke: "var(--truth)", strokeWidth: 3 }),
    ],
  });
}

// A hundred guesses: those right before the release, and those that the promise allows after it.
export function dots(before, after) {
  const all = Array.from({ length: 100 }, (_, i) => h("circle", {
    svg: true, cx: (i % 10) * 10 + 5, cy: Math.floor(i / 10) * 10 + 5, r: 3.7, class: i < before ? "was" : i < after ? "more" : "not",
  }));
  return h("svg", { viewBox: "0 0 100 100", class: "dots", "aria-hidden": "true" }, all);
}
