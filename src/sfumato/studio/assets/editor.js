// Bins and groups over a histogram that answers while one drags; what they hold is counted by Python.
import { errorSpot, field, fill, h } from "./dom.js";
import { bars, histogram } from "./charts.js";

const WIDTH = 560, HEIGHT = 190;

export function openEditor(column, app, onclose) {
  const { state } = app, name = column.name;
  const [spot, wrong] = errorSpot();
  const stage = h("div", { class: "stage" }), held = h("div"), told = h("p", { role: "status" });
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Done");
  const controls = h("div", { class: "grid" });
  const title = h("h2", { id: "editor-title" }, column.histogram.length ? `Bins of ${name}` : `Groups of ${name}`);
  const dialog = h("dialog", { class: "editor", "aria-labelledby": "editor-title" }, title, stage, controls, spot, told, held, h("p", { class: "next" }, close));
  dialog.addEventListener("close", () => { dialog.remove(); onclose(); });
  document.body.append(dialog);

  const edges = () => app.choice.bins[name] instanceof Array ? app.choice.bins[name] : column.edges || [];
  const rule = (value) => app.choose((choice) => {
    if (value === null) delete choice.bins[name]; else choice.bins[name] = value;
    delete choice.rare[name];
  });

  if (column.histogram.length) numbers(); else groups();
  update();
  dialog.showModal();

  function numbers() {
    const text = h("input", { type: "text", autocomplete: "off", value: edges().join("; "), onchange: () => {
      const found = text.value.split(/[;\s]+/).filter(Boolean).map(Number);
      rule(found.length && found.every(Number.isFinite) ? found : null);
      if (!found.length) text.value = edges().join("; ");
      draw();
    } });
    const count = h("input", { type: "number", min: "2", max: "20", placeholder: String((column.edges || []).length + 1), onchange: () => {
      rule(count.value ? Number(count.value) : null);
      text.value = "";
      draw();
    } });
    controls.append(field("Edges", text, "Numbers with ; between, or drag the lines above"), field("Or so many bins of about equal size", count),
      h("button", { type: "button", class: "plain", onclick: () => { rule(null); count.value = ""; text.value = edges().join("; "); draw(); } }, "As suggested"));
    draw();

    function draw() {
      const chart = histogram(column.histogram, `Histogram of ${name}`, { width: WIDTH, height: HEIGHT });
      const scale = chart.querySelector("svg") && Plot.plot({ width: WIDTH, height: HEIGHT, marginLeft: 4, marginRight: 4, marks: [Plot.rectY(column.histogram, { x1: "from", x2: "to", y: "rows" })] }).scale("x");
      const low = column.histogram[0].from, high = column.histogram.at(-1).to, step = (high - low) / 200;
      const lines = h("div", { class: "lines" });
      const shown = app.choice.bins[name] instanceof Array || !app.choice.bins[name] ? edges() : [];
      shown.forEach((edge, i) => {
        const line = h("div", { class: "edge", tabindex: "0", role: "slider", "aria-label": `Edge ${i + 1} of ${name}`, "aria-valuemin": low, "aria-valuemax": high, "aria-valuenow": edge });
        const put = (value, last) => {
          const all = [...edges()];
          const least = i ? all[i - 1] : low, most = i + 1 < all.length ? all[i + 1] : high;
          const digits = Math.max(0, 2 - Math.floor(Math.log10(step * 200)));
          const rounded = Number(Math.min(Math.max(value, least), most).toFixed(digits));
          if (rounded <= least || rounded >= most) return;
          all[i] = rounded;
          line.style.left = `${(scale.apply(rounded) / WIDTH) * 100}%`;
          line.setAttribute("aria-valuenow", rounded);
          text.value = all.join("; ");
          rule(all);
          if (last) count.value = "";
        };
        line.style.left = `${(scale.apply(edge) / WIDTH) * 100}%`;
        line.addEventListener("keydown", (e) => {
          const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[e.key];
          if (by) { e.preventDefault(); put(edges()[i] + by * Math.max(step, 0), true); }
        });
        line.addEventListener("pointerdown", (e) => {
          line.setPointerCapture(e.pointerId);
          const moved = (m) => {
            const box = stage.getBoundingClientRect();
            put(scale.invert(((m.clientX - box.left) / box.width) * WIDTH));
          };
          line.addEventListener("pointermove", moved);
          line.addEventListener("pointerup", () => line.removeEventListener("pointermove", moved), { once: true });
        });
        lines.append(line);
      });
      fill(stage, chart, lines);
    }
  }

  function groups() {
    if (column.dates.length) {
      const part = h("select", { onchange: () => rule(part.value || null) }, h("option", { value: "" }, "each date by itself"), column.dates.map((x) => h("option", { value: x }, `by ${x}`)));
      part.value = typeof app.choice.bins[name] === "string" ? app.choice.bins[name] : "";
      controls.append(field("Take dates", part));
      return;
    }
    const least = h("input", { type: "range", min: "0", max: "100", step: "1", value: app.choice.rare[name] || 0 });
    const exact = h("input", { type: "number", min: "0", value: app.choice.rare[name] || 0 });
    const put = (value) => {
      least.value = value;
      exact.value = value;
      app.choose((choice) => { if (Number(value)) choice.rare[name] = Number(value); else delete choice.rare[name]; });
    };
    least.addEventListener("input", () => put(least.value));
    exact.addEventListener("change", () => put(exact.value));
    controls.append(field("Group values with fewer rows than", least), field("Exactly", exact, "They become one value, “other”"));
  }

  function update() {
    const { preview, designs, epsilon, errors } = state, view = designs[String(epsilon)];
    const found = preview && preview.groups[name];
    if (found) fill(held, bars(found, `${found.length} values: ${found.map((g) => `${g.label} ${g.rows}`).join(", ")}`, { width: 520 }));
    fill(told, preview ? preview.cells : "", view ? ` · ${view.columns.map((c) => `${c.name} ${c.error}`).join(", ")} at ε = ${view.name}` : "");
    wrong(errors.columns);
  }
  return { update };
}
