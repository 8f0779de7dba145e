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

  // Edges that somebody placed; those that the rows suggest are only drawn, for given ones are told as they are.
  const edges = () => app.choice.bins[name] instanceof Array ? app.choice.bins[name] : [];
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
      draw();
    } });
    const count = h("input", { type: "number", min: "2", max: "20", placeholder: String((column.edges || []).length + 1), onchange: () => {
      rule(count.value ? Number(count.value) : null);
      text.value = "";
      draw();
    } });
    controls.append(field("Edges", text, "Click the histogram to place one and drag it, or type numbers with ; between. Delete removes one."),
      field("Or so many bins of about equal size", count, "Dashed: about where. They are drawn with noise, which is paid from ε."),
      h("button", { type: "button", class: "plain", onclick: () => { rule(null); count.value = text.value = ""; draw(); } }, "As suggested"));
    draw();

    function draw() {
      const chart = histogram(column.histogram, `Histogram of ${name}`, { width: WIDTH, height: HEIGHT });
      const scale = chart.querySelector("svg") && Plot.plot({ width: WIDTH, height: HEIGHT, marginLeft: 4, marginRight: 4, marks: [Plot.rectY(column.histogram, { x1: "from", x2: "to", y: "rows" })] }).scale("x");
      const low = column.histogram[0].from, high = column.histogram.at(-1).to, step = (high - low) / 200;
      const rounded = (value) => Number(value.toFixed(Math.max(0, 2 - Math.floor(Math.log10(high - low)))));
      const left = (value) => `${(scale.apply(value) / WIDTH) * 100}%`;
      const under = (e) => { const box = stage.getBoundingClientRect(); return scale.invert(((e.clientX - box.left) / box.width) * WIDTH); };
      const take = (all) => { text.value = all.join("; "); count.value = ""; rule(all.length ? all : null); };
      const lines = h("div", { class: "lines" });
      for (const edge of app.choice.bins[name] ? [] : column.edges || []) {
        const ghost = h("div", { class: "ghost" });
        ghost.style.left = left(edge);
        lines.append(ghost);
      }
      edges().forEach((edge, i) => {
        const line = h("div", { class: "edge", tabindex: "0", role: "slider", "aria-label": `Edge ${i + 1} of ${name}`, "aria-valuemin": low, "aria-valuemax": high, "aria-valuenow": edge });
        const put = (value) => {
          const all = [...edges()], least = i ? all[i - 1] : low, most = i + 1 < all.length ? all[i + 1] : high;
          const now = rounded(value);
          if (now <= least || now >= most) return;
          all[i] = now;
          line.style.left = left(now);
          line.setAttribute("aria-valuenow", now);
          take(all);
        };
        line.style.left = left(edge);
        line.addEventListener("keydown", (e) => {
          const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[e.key];
          if (by) { e.preventDefault(); put(edges()[i] + by * step); }
          if (e.key === "Delete" || e.key === "Backspace") { e.preventDefault(); take(edges().filter((_, k) => k !== i)); draw(); }
        });
        line.addEventListener("pointerdown", (e) => {
          e.stopPropagation();
          line.setPointerCapture(e.pointerId);
          const moved = (m) => put(under(m));
          line.addEventListener("pointermove", moved);
          line.addEventListener("pointerup", () => line.removeEventListener("pointermove", moved), { once: true });
        });
        lines.append(line);
      });
      chart.addEventListener("pointerdown", (e) => {
        const now = rounded(under(e));
        if (now <= low || now >= high || edges().includes(now)) return;
        take([...edges(), now].sort((a, b) => a - b));
        draw();
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
