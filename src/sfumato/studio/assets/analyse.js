import { dropZone, errorSpot, field, fill, h, list } from "./dom.js";
import { intervals } from "./charts.js";
import { post, upload } from "./talk.js";

function shares(table, caption) {
  return h("figure", { class: "panel" }, h("figcaption", {}, h("strong", {}, caption || table.names.join(" × ")), table.identified ? "" : ": the rows do not fix these shares, only their ranges"),
    intervals(table.rows, table.rows.map((r) => `${r.label} ${r.words}`).join("; "), { width: 460 }),
    h("details", {}, h("summary", {}, "As numbers"), rows(table.rows)), table.more ? h("p", { class: "small soft" }, `and ${table.more} smaller ones`) : null,
    table.within.length ? h("details", {}, h("summary", {}, `${table.names[0]} within ${table.names[1]}`), rows(table.within)) : null, table.test ? h("p", { class: "small" }, table.test) : null);
}

function rows(data) {
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of estimates" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Value"), h("th", { scope: "col" }, "Estimate and interval"))),
    h("tbody", {}, data.map((r) => h("tr", {}, h("th", { scope: "row" }, r.label || r.labels.join(" · ")), h("td", {}, r.words))))));
}

export function analyseStep(root, app) {
  const { state } = app;
  const [spot, wrong] = errorSpot(), [askSpot, askWrong] = errorSpot(), [drawSpot, drawWrong] = errorSpot();
  const sent = h("p", { class: "soft", role: "status" }), found = h("div"), answers = h("div"), asking = h("div");
  const zone = dropZone({
    title: "Drop a release here", text: "The released table and its mechanism file (NAME.mechanism.json), and the manifest if there is one.", multiple: true,
    onfiles: async (files) => {
      for (const [i, file] of files.entries()) {
        const text = await upload(`bring?first=${i ? 0 : 1}&name=${encodeURIComponent(file.name)}`, file, (done, all) => { sent.textContent = `${file.name}: ${Math.floor((100 * done) / all)} % read`; });
        if (text) { sent.textContent = ""; wrong(text); return; }
      }
      sent.textContent = "";
      await post("analyse");
    },
  });
  const first = h("select"), second = h("select"), number = h("input", { type: "number", min: "1", max: "10000000", value: "10000" });
  const drawing = h("div", { class: "panel" }, h("h2", {}, "Synthetic records"), h("p", { class: "small soft" }),
    h("div", { class: "row" }, field("How many", number), h("button", { type: "button", onclick: fetchRecords }, "Draw and download")), drawSpot);
  fill(asking, h("form", { class: "panel", onsubmit: (e) => { e.preventDefault(); ask(e.submitter.value); } }, h("h2", {}, "Ask"),
    h("div", { class: "row" }, field("Column", first), field("and", second), h("button", { type: "submit", value: "table" }, "Table"), h("button", { type: "submit", value: "odds", class: "plain" }, "Odds ratios")), askSpot), answers);
  fill(root, h("h1", { id: "t-analyse" }, "Read a release"), h("p", { class: "lede" }, "Whether its promise holds, and what its rows tell: shares with intervals, tables, odds ratios."), zone, sent, spot, found);

  function ask(kind) {
    post("ask", { kind, names: [first.value, second.value].filter(Boolean) });
  }

  async function fetchRecords() {
    const answer = await fetch(`synthetic?rows=${encodeURIComponent(number.value)}`);
    if (!answer.ok) { drawWrong(await answer.text()); return; }
    drawWrong(null);
    const url = URL.createObjectURL(await answer.blob());
    h("a", { href: url, download: "synthetic.csv" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  }

  function update(changed) {
    if (changed.has("errors")) { wrong(state.errors.analysis); askWrong(state.errors.ask); }
    if (changed.has("answers")) {
      fill(answers, (state.answers || []).map((a) => a.kind === "odds"
        ? h("div", { class: "panel" }, h("strong", {}, `Odds ratios of ${a.names.join(" and ")}`), rows(a.rows), a.more ? h("p", { class: "small soft" }, `and ${a.more} more`) : null) : shares(a)));
    }
    if (!changed.has("analysis")) return;
    const now = state.analysis;
    if (!now) { fill(found); return; }
    const e = now.estimate;
    if (e) {
      fill(first, e.names.map((n) => h("option", { value: n }, n)));
      fill(second, h("option", { value: "" }, "by itself"), e.names.map((n) => h("option", { value: n }, n)));
      drawing.hidden = !e.synthetic;
      drawing.querySelector("p").textContent = e.synthetic || "";
    }
    fill(found,
      h("div", { class: `panel ${now.verdict.holds ? "good" : "bad"}`, id: "verdict" }, h("h2", {}, now.verdict.title), list(now.verdict.lines, "plainlist small")),
      e ? [h("h2", {}, `Estimated from ${e.n} released rows`), h("p", { class: "small soft" }, "All intervals of a column hold at once with 95 % confidence."), list(e.notes, "plainlist small"),
        h("div", { class: "estimates", id: "estimates" }, e.tables.map((t) => shares(t))), asking, drawing] : null);
  }
  return { update };
}
