import { dropZone, errorSpot, field, fill, h, list } from "./dom.js";
import { post, upload } from "./talk.js";

const KINDS = ".csv,.tsv,.txt,.gz,.zst,.bz2,.parquet,.xlsx,.ods,.dta,.sav,.sas7bdat";

export function tableStep(root, app) {
  const { state } = app;
  const [spot, wrong] = errorSpot();
  const sent = h("p", { class: "soft", role: "status" });
  const found = h("div");
  const zone = dropZone({
    title: "Drop a table here", text: "CSV, Excel, Parquet, Stata, SPSS or SAS. It stays on this machine.", accept: KINDS,
    onfiles: async ([file]) => {
      sent.textContent = `${file.name} …`;
      const text = await upload(`table?name=${encodeURIComponent(file.name)}`, file, (done, all) => {
        sent.textContent = `${file.name}: ${Math.floor((100 * done) / all)} % read`;
      });
      sent.textContent = "";
      if (text) wrong(text); // what reading finds comes by the stream, perhaps before this answer
    },
  });
  const inputs = {};
  const how = h("form", { class: "grid", onsubmit: (e) => {
    e.preventDefault();
    post("reading", Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value])));
  } });
  const asked = {
    delimiter: ["Between fields", "Found out when empty; tab for a tabulator"], encoding: ["Encoding of text", "Found out when empty"],
    decimal: ["Mark of decimals", "A point or a comma; found out when empty"], dates: ["Order of dates", "dmy, mdy or ymd; found out when empty"],
    na: ["Missing values are written", "Usual spellings are known"], sheet: ["Sheet of a workbook", "The first when empty"],
    counts: ["Column that counts people", "Only where a row is several people"],
  };
  for (const [name, [label, hint]] of Object.entries(asked)) {
    inputs[name] = h("input", { type: "text", autocomplete: "off" });
    how.append(field(label, inputs[name], hint));
  }
  how.append(h("button", { type: "submit", class: "plain" }, "Read it again"));
  fill(root,
    h("h1", { id: "t-table" }, "Release a table without giving a column away"),
    h("p", { class: "lede" }, "Choose the column that nobody may guess. The studio works out how to change every row so that it cannot be guessed beyond a limit that is proved, and shows what others can still learn."),
    zone, sent, spot, found);

  const confirmed = (guessed) => Object.keys(guessed).length === 0 ? null : h("p", { class: "confirm" },
    "That is how its rows look. A private table must not be read by its rows, so please confirm it: ",
    h("button", { type: "button", class: "plain", onclick: () => post("reading", { ...(state.reading || {}), ...guessed }) }, "Yes, read it so"));

  let shown = null;

  function update(changed) {
    if (changed.has("errors")) wrong(state.errors.table);
    const table = state.table, wanted = table || Boolean(state.errors.table);
    if (wanted === shown && !changed.has("reading")) return;
    shown = wanted;
    for (const [name, input] of Object.entries(inputs)) if (document.activeElement !== input) input.value = (state.reading || {})[name] || "";
    const details = h("details", {}, h("summary", {}, "How the file is read"), how);
    if (!table) {
      fill(found, state.errors.table ? details : null);
      return;
    }
    fill(found,
      h("div", { class: "panel" },
        h("h2", {}, table.name),
        h("p", {}, h("strong", {}, `${table.rows} rows`), ` in ${table.columns.length} columns: `, table.columns.map((c) => c.name).join(", ")),
        list(table.said), confirmed(table.guessed), details,
        h("p", { class: "next" }, h("a", { class: "button", href: "#columns" }, "Choose columns"))));
  }
  return { update };
}
