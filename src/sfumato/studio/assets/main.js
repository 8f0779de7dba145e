// One state, which the server sends and keeps; steps show their part of it.
import { announce, fill, h } from "./dom.js";
import { listen, post } from "./talk.js";
import { tableStep } from "./table.js";
import { columnsStep } from "./columns.js";
import { levelStep } from "./level.js";
import { releaseStep } from "./release.js";
import { analyseStep } from "./analyse.js";

const TITLES = { table: "Table", columns: "Columns", level: "Privacy", release: "Release", analyse: "Analyse" };
const state = { designs: {}, errors: {} };
const app = { state, go, ready };
const made = { table: tableStep, columns: columnsStep, level: levelStep, release: releaseStep, analyse: analyseStep };
const steps = {};

function ready(step) {
  if (step === "columns") return Boolean(state.table);
  if (step === "level") return Object.keys(state.designs).length > 0;
  if (step === "release") return Object.keys(state.designs).length > 0 && Boolean(state.designs[String(state.epsilon)]);
  return true;
}

function current() {
  const asked = location.hash.slice(1);
  return asked in TITLES ? asked : "table";
}

function go(step) {
  location.hash = step;
}

function show(focus) {
  const now = current();
  document.title = `${TITLES[now]} · sfumato studio`;
  for (const name of Object.keys(TITLES)) {
    document.getElementById(`step-${name}`).hidden = name !== now;
    const link = document.querySelector(`nav a[href="#${name}"]`);
    link.classList.toggle("later", !ready(name));
    if (name === now) link.setAttribute("aria-current", "step"); else link.removeAttribute("aria-current");
  }
  steps[now].update(new Set(Object.keys(state)));
  if (focus) {
    window.scrollTo(0, 0);
    document.getElementById("main").focus({ preventScroll: true });
  }
}

function busy() {
  const box = document.getElementById("busy"), now = state.busy, bar = document.getElementById("progress");
  box.hidden = !now;
  if (!now) return;
  document.getElementById("doing").textContent = now.rows ? `${now.what}: ${now.rows}` : now.what;
  bar.hidden = !now.rows;
  if (now.total) { bar.max = now.total; bar.value = now.done; } else bar.removeAttribute("value");
}

function heard(message) {
  const changed = new Set();
  if (message.put) {
    const had = state.table;
    Object.assign(state, message.put);
    for (const name of Object.keys(message.put)) changed.add(name);
    if (message.put.table && !had) announce(`${message.put.table.name}: ${message.put.table.rows} rows`);
  }
  if (message.design) {
    state.designs[message.design.name] = message.design;
    changed.add("designs");
  }
  busy();
  if ([...changed].some((name) => name !== "busy")) {
    for (const name of Object.keys(TITLES)) document.querySelector(`nav a[href="#${name}"]`).classList.toggle("later", !ready(name));
    steps[current()].update(changed);
  }
}

for (const [name, make] of Object.entries(made)) steps[name] = make(document.getElementById(`step-${name}`), app);
for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (e) => e.preventDefault());
document.getElementById("stop").addEventListener("click", () => post("stop"));
window.addEventListener("hashchange", () => show(true));
listen(heard, (gone) => {
  const box = document.getElementById("busy");
  if (gone === null) return;
  box.hidden = false;
  document.getElementById("progress").hidden = true;
  fill(document.getElementById("doing"), h("strong", {}, gone ? "The studio has ended." : "The studio does not answer."));
});
show(false);
