import { errorSpot, field, fill, h, later, list } from "./dom.js";
import { curve, dots, intervals } from "./charts.js";
import { post } from "./talk.js";

const WORDS = { green: "good", amber: "look", red: "stop", none: "unknown" };

export function light(one) {
  return h("li", { class: `light ${one.colour}` }, h("span", { class: "lamp", "aria-hidden": "true" }),
    h("div", {}, h("strong", {}, one.title), h("span", { class: "tag" }, WORDS[one.colour]), h("p", { class: "small" }, one.text)));
}

export function levelStep(root, app) {
  const { state } = app;
  const [spot, wrong] = errorSpot();
  const slider = h("input", { type: "range", min: "0", step: "1", id: "slider", "aria-label": "ε, the level of privacy" });
  const ticks = h("div", { class: "ticks", "aria-hidden": "true" });
  const exact = h("input", { type: "number", min: "0.01", max: "50", step: "any", id: "exact" });
  const view = h("div"), searching = h("div", { class: "searching" });
  const tell = later(() => post("level", { epsilon: state.epsilon }), 120);

  slider.addEventListener("input", () => {
    state.epsilon = state.stops[Number(slider.value)];
    render();
    tell();
  });
  exact.addEventListener("change", () => { if (exact.value) post("level", { epsilon: Number(exact.value) }); });
  fill(root,
    h("h1", { id: "t-level" }, "How private should it be?"),
    h("p", { class: "lede" }, "Move the slider and watch what an attacker could guess, and what others could still learn."),
    h("div", { class: "panel sliding" },
      h("div", { class: "ends small soft", "aria-hidden": "true" }, h("span", {}, "protects more"), h("span", {}, "tells more")), slider, ticks,
      h("div", { class: "row under" }, field("Exact ε", exact), searching), spot),
    view, h("p", { class: "next" }, h("a", { class: "button", href: "#release" }, "Release")));

  function render() {
    const at = state.stops.indexOf(state.epsilon), now = state.designs[String(state.epsilon)];
    slider.max = state.stops.length - 1;
    slider.value = at;
    slider.setAttribute("aria-valuetext", `ε = ${state.epsilon}${now ? `, ${now.guessers.map((g) => g.words).join("; ")}` : ""}`);
    fill(ticks, state.stops.map((e) => h("span", { class: e === state.epsilon ? "now" : state.designs[String(e)] ? state.designs[String(e)].coarse ? "coarse" : "made" : "" }, String(e))));
    if (document.activeElement !== exact) exact.value = state.epsilon;
    if (!now) {
      fill(view, h("p", { class: "soft" }, Object.keys(state.designs).length || state.busy ? "This level is being designed …" : h("span", {}, h("a", { href: "#columns" }, "Choose columns"), " first.")));
      return;
    }
    const before = state.before ? [state.before] : [];
    const points = Object.values(state.designs).filter((d) => d.error !== null).sort((a, b) => a.epsilon - b.epsilon);
    const wide = Math.min(root.clientWidth, 1100) > 760 ? 460 : Math.max(260, root.clientWidth - 60);
    fill(view,
      h("div", { class: "glance", id: "design", "data-epsilon": now.name },
        h("section", { "aria-labelledby": "q1" }, h("h2", { id: "q1" }, "What can an attacker learn?"),
          h("div", { class: "pair" }, now.guessers.map((g) => h("figure", {}, h("figcaption", {}, "Somebody who knows ", h("strong", {}, g.knows)), dots(g.before, g.after), h("p", {}, g.words, "."))))),
        h("section", { "aria-labelledby": "q2" }, h("h2", { id: "q2" }, "What is it worth?"),
          h("p", { class: `huge ${now.worth.little ? "alarm" : ""}` }, now.worth.text), h("p", {}, now.worth.words, "."),
          now.helps.length ? h("details", {}, h("summary", {}, "What would help"), list(now.helps)) : null,
          h("p", { class: "small soft" }, now.coarse ? "A first design; a better one is being searched for. " : "The best design that was found. ", now.method)),
        h("section", { "aria-labelledby": "q3", class: "wide" }, h("h2", { id: "q3" }, "What can others estimate?"),
          h("div", { class: "estimates" }, now.columns.map((c) => h("figure", {}, h("figcaption", {}, h("strong", {}, c.name), `: ${c.error}, ${c.rows}`),
            intervals(c.values, c.values.map((v) => `${v.label} ${v.words}`).join("; "), { width: wide }), c.more ? h("p", { class: "small soft" }, `and ${c.more} rarer values`) : null)),
          points.length > 1 ? h("figure", {}, h("figcaption", {}, h("strong", {}, "The whole table"), " at every level: hollow ones are first designs"), curve(points, now.epsilon, `Error of the whole table: ${points.map((p) => `${p.whole} at ε = ${p.name}`).join(", ")}`, { width: wide })) : null)),
        h("section", { "aria-labelledby": "q4", class: "wide" }, h("h2", { id: "q4" }, "Anything to mind?"), h("ul", { class: "lights" }, [...now.lights, ...before].map(light)),
          h("details", {}, h("summary", {}, "What is promised, exactly"), list(now.promises), list(now.notes, "plainlist small soft")))));
  }

  function status() {
    const s = state.search;
    const button = (go, text) => h("button", { type: "button", class: "plain small", onclick: () => post("search", { go }) }, text);
    if (!s) return fill(searching);
    if (s.state === "running") return fill(searching, h("span", { role: "status" }, `Searching for a better design at ε = ${s.at}, ${s.left} to go.`), button(false, "Stop searching"));
    if (s.state === "stopped") return fill(searching, h("span", { role: "status" }, "The search was stopped."), button(true, "Search on"));
    return fill(searching, h("span", { role: "status" }, "The best designs were found for every level."));
  }

  function update(changed) {
    if (!state.stops) return;
    if (changed.has("errors")) wrong(state.errors.epsilon);
    if (["designs", "stops", "epsilon", "before", "table"].some((x) => changed.has(x))) render();
    if (changed.has("search")) status();
  }
  return { update };
}
