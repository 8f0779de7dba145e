import { announce, errorSpot, fill, h, later, list } from "./dom.js";
import { bars, histogram } from "./charts.js";
import { openEditor } from "./editor.js";
import { post, tab } from "./talk.js";

export const ROLES = {
  secret: ["Secret", "Nobody may guess it from a released row."], useful: ["Useful", "Others may estimate its shares."],
  keep: ["Kept", "Released as it is, without protection."], out: ["Left out", "Not in the release."],
};

function picture(card) {
  const what = `${card.name}: ${card.facts.join(", ")}${card.spread ? `, ${card.spread}` : ""}`;
  if (card.histogram.length) return histogram(card.histogram, what, { edges: card.edges || [] });
  if (card.bars.length) return bars(card.bars.slice(0, 6), what);
  return null;
}

export function columnsStep(root, app) {
  const { state } = app;
  const [spot, wrong] = errorSpot();
  const lanes = {}, cards = new Map();
  const outlook = h("div", { class: "outlook", "aria-live": "polite" });
  let editor = null, shownTable = null;
  const send = later(() => post("choice", { ...app.choice, by: tab }), 60);

  app.choice = { roles: {}, bins: {}, rare: {}, missing: "category", public: false };
  app.choose = (change) => {
    change(app.choice);
    place();
    send();
  };

  const suggest = h("button", { type: "button", class: "plain", onclick: () => post("suggest") }, "Suggest useful columns");
  const known = h("input", { type: "checkbox", id: "public", onchange: () => app.choose((choice) => { choice.public = known.checked; }) });
  const board = h("div", { class: "board" }, Object.entries(ROLES).map(([role, [title, hint]]) => {
    const held = h("ul", { class: "cards" });
    const lane = h("section", { class: `lane ${role}`, "aria-label": title }, h("h2", {}, title), h("p", { class: "soft small" }, hint), held);
    for (const kind of ["dragenter", "dragover"]) lane.addEventListener(kind, (e) => { e.preventDefault(); lane.classList.add("over"); });
    lane.addEventListener("dragleave", (e) => { if (!lane.contains(e.relatedTarget)) lane.classList.remove("over"); });
    lane.addEventListener("drop", (e) => {
      e.preventDefault();
      lane.classList.remove("over");
      move(e.dataTransfer.getData("text/plain"), role);
    });
    lanes[role] = held;
    return lane;
  }));
  fill(root,
    h("h1", { id: "t-columns" }, "What is each column for?"),
    h("p", { class: "lede" }, "Drag columns to where they belong, or choose from the list on each card."),
    h("div", { class: "actions" }, suggest, h("label", { class: "small" }, known, " Everybody knows which values these columns can have: finding them out then costs nothing, and none is left out.")), spot, outlook, board,
    h("p", { class: "next" }, h("a", { class: "button", href: "#level" }, "Choose how private")));

  function move(name, role) {
    if (!cards.has(name)) return;
    app.choose((choice) => { choice.roles[name] = role; });
    announce(`${name}: ${ROLES[role][0]}`);
  }

  function card(column) {
    const select = h("select", { "aria-label": `What ${column.name} is for`, onchange: () => {
      move(column.name, select.value);
      select.focus();
    } }, Object.entries(ROLES).map(([role, [title]]) => h("option", { value: role }, title)));
    const edit = column.histogram.length || column.rare || column.dates.length ? h("button", {
      type: "button", class: "plain small", "aria-label": `${column.histogram.length ? "Bins" : "Groups"} of ${column.name}`, onclick: () => { editor = openEditor(column, app, () => { editor = null; }); },
    }, column.histogram.length ? "Bins …" : "Groups …") : null;
    const now = h("span", { class: "soft small" });
    const item = h("li", { class: "card", draggable: "true" },
      h("div", { class: "head" }, h("h3", {}, column.name), select),
      h("p", { class: "facts small" }, [column.kind_text, ...column.facts, column.spread].filter(Boolean).join(" · ")),
      picture(column), list(column.doubts, "doubts small"), h("div", { class: "foot" }, edit, now));
    item.addEventListener("dragstart", (e) => { e.dataTransfer.setData("text/plain", column.name); item.classList.add("dragged"); });
    item.addEventListener("dragend", () => item.classList.remove("dragged"));
    cards.set(column.name, { item, select, edit, now });
  }

  function place() {
    for (const [name, { item, select, edit }] of cards) {
      const role = app.choice.roles[name] || "out";
      const had = document.activeElement;
      if (item.parentElement !== lanes[role]) {
        lanes[role].append(item);
        if (item.contains(had)) had.focus();
      }
      select.value = role;
      if (edit) edit.hidden = !(role === "secret" || role === "useful");
    }
    known.checked = Boolean(app.choice.public);
    suggest.disabled = !Object.values(app.choice.roles).includes("secret");
  }

  function outlookNow() {
    const { preview, counted, designs, epsilon } = state;
    const view = designs[String(epsilon)];
    const roles = Object.values(app.choice.roles);
    if (!roles.includes("secret")) return fill(outlook, h("p", {}, "First choose the column that is secret."));
    if (!roles.includes("useful")) return fill(outlook, h("p", {}, "Now choose columns that should stay useful."));
    return fill(outlook,
      h("p", {}, h("strong", { id: "cells" }, preview ? preview.cells : "…"), preview ? `, ${preview.each}` : "",
        counted ? h("span", { class: "soft" }, ` · ${counted.small}`) : ""),
      view ? h("p", { id: "outlook" }, `At ε = ${view.name} estimates will be off by `, h("strong", {}, view.columns.map((c) => `${c.error} for ${c.name}`).join(", ")), `; the release is worth ${view.worth.text} of its rows.`)
        : h("p", { class: "soft" }, state.errors.columns ? "" : "Designing …"),
      counted ? list(counted.said, "plainlist small soft") : null);
  }

  function update(changed) {
    if (state.table !== shownTable) {
      shownTable = state.table;
      cards.clear();
      for (const held of Object.values(lanes)) fill(held);
      for (const column of shownTable ? shownTable.columns : []) card(column);
    }
    if (changed.has("choice") && state.choice.by !== tab) app.choice = structuredClone(state.choice);
    if (changed.has("errors")) {
      wrong(state.errors.columns);
      const named = state.errors.columns ? state.errors.columns.column : null;
      for (const [name, { item, select }] of cards) {
        item.classList.toggle("wrong", name === named);
        select.setAttribute("aria-invalid", String(name === named));
      }
    }
    if (changed.has("choice") || changed.has("table")) place();
    if (changed.has("preview") && state.preview) {
      for (const [name, { now }] of cards) {
        const groups = state.preview.groups[name];
        now.textContent = groups ? `${groups.length} ${groups.length === 1 ? "value" : "values"}` : "";
      }
    }
    if (shownTable) outlookNow(); else fill(outlook, h("p", {}, h("a", { href: "#table" }, "Open a table"), " first."));
    if (editor) editor.update();
  }
  return { update };
}
