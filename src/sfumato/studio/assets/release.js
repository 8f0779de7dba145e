import { copied, errorSpot, field, fill, h, later, list } from "./dom.js";
import { light } from "./level.js";
import { post } from "./talk.js";

const FILES = {
  table: "The released rows", tables: "Estimates for a spreadsheet", mechanism: "The mechanism, which anyone can verify", manifest: "How it was made",
  report: "The report for everyone", counts: "Noisy counts: keep them beside the private table, so that another release does not pay for them again",
};

export function releaseStep(root, app) {
  const { state } = app;
  const [spot, wrong] = errorSpot();
  const name = h("input", { type: "text", value: "released.csv", autocomplete: "off" });
  const folder = h("input", { type: "text", autocomplete: "off", placeholder: "/home/me/releases" });
  const publisher = h("input", { type: "text", autocomplete: "off" });
  const people = h("input", { type: "text", autocomplete: "off" });
  const budget = h("input", { type: "number", min: "0", step: "any" });
  const anyway = h("input", { type: "checkbox", id: "anyway" }), force = h("input", { type: "checkbox", id: "force" });
  const notices = h("div"), done = h("div", { "aria-live": "polite" }), summary = h("div"), said = h("div");
  const ledger = h("fieldset", {}, h("legend", {}, "Ledger"),
    h("p", { class: "small soft", id: "ledger-file" }), field("Whose data these are", people, "The release is entered under this name"), field("Budget in nats", budget, "Refuse if all releases about them would exceed it"));
  const go = h("button", { type: "submit", id: "go" }, "Release");
  const little = h("label", { class: "check", for: "anyway", hidden: true }, anyway, " Release it although it is worth less than 1 % of its rows");
  const form = h("form", { class: "panel", onsubmit: (e) => { e.preventDefault(); post("release", asked()); } },
    h("div", { class: "grid" }, field("Name of the table", name, "Its ending says the format: .csv, .tsv, .csv.gz or .parquet"),
      field("Folder of this machine", folder, "Empty: the files are for download"), field("Who publishes it", publisher, "Named on the report; may be empty")),
    h("details", {}, h("summary", {}, "Enter it in a ledger"), ledger),
    little, h("label", { class: "check", for: "force" }, force, " Replace files that exist"), spot, h("p", { class: "next" }, go));
  fill(root, h("h1", { id: "t-release" }, "Release"), summary, notices, form, done, said);

  function asked() {
    return { name: name.value, folder: folder.value, publisher: publisher.value, people: people.value, budget: budget.value ? Number(budget.value) : null, anyway: anyway.checked, force: force.checked };
  }
  const say = later(() => { if (app.ready("release")) post("say", asked()); }, 150);
  form.addEventListener("change", say);
  let asked_for = null;

  function result() {
    const r = state.release;
    if (!r) return fill(done);
    const links = Object.entries(r.files).map(([kind, file]) => h("li", {}, r.folder && kind !== "counts" ? h("code", {}, file) : h("a", { href: `files/${kind}`, download: "" }, file), h("span", { class: "soft" }, ` ${FILES[kind] || ""}`)));
    return fill(done,
      h("div", { class: "panel good", id: "released" }, h("h2", {}, `Released at ε = ${r.epsilon}`), list(r.lines),
        h("p", {}, r.folder ? ["Written to ", h("code", {}, r.folder)] : h("a", { class: "button", href: "files/all", download: "" }, "Download all")),
        h("ul", { class: "plainlist" }, links), r.ledger ? h("p", {}, h("strong", {}, "Ledger: "), r.ledger) : null,
        h("p", {}, h("a", { class: "button plain", href: "#analyse", onclick: () => post("analyse", { own: true }) }, "Analyse this release")),
        r.notes.length ? h("details", {}, h("summary", {}, "Notes"), list(r.notes, "plainlist small")) : null),
      h("h2", {}, "The report"), h("iframe", { src: "report", title: "Report of the release", class: "report", sandbox: "allow-scripts" }));
  }

  function update(changed) {
    const view = state.designs[String(state.epsilon)], roles = (state.choice || {}).roles || {};
    const of = (role) => Object.entries(roles).filter(([, r]) => r === role).map(([c]) => c).join(", ");
    fill(summary, view ? h("p", { class: "lede" }, "Protect ", h("strong", {}, of("secret")), " at ", h("strong", {}, `ε = ${view.name}`), ", keep ", h("strong", {}, of("useful")), " useful",
      of("keep") ? [", pass ", h("strong", {}, of("keep")), " on as it is"] : "", ".") : h("p", {}, h("a", { href: "#columns" }, "Choose columns"), " first."));
    form.hidden = !view;
    if (view) little.hidden = !view.worth.little;
    if (changed.has("errors")) wrong(state.errors.release);
    document.getElementById("ledger-file").textContent = state.ledger ? `Ledger: ${state.ledger}` : "Start the studio with --ledger FILE to count releases.";
    people.disabled = budget.disabled = !state.ledger;
    const mind = view ? [...view.lights, ...(state.before ? [state.before] : [])].filter((x) => x.colour === "red" || x.colour === "amber") : [];
    const better = view && view.coarse && state.search && state.search.state === "running";
    fill(notices, better ? h("p", { class: "note" }, "This is a first design. A better one for this level is being searched for: wait a little, or release this one.") : null, mind.length ? h("ul", { class: "lights" }, mind.map(light)) : null,
      (view && state.notices || []).map((n) => h("div", { class: "note" }, h("strong", {}, n.title), n.paragraphs.map((p) => h("p", { class: "small" }, p)))));
    const key = view ? `${view.name} ${view.coarse} ${JSON.stringify(roles)}` : null;
    if (key && key !== asked_for && location.hash === "#release") { asked_for = key; say(); }
    const now = state.release && view && state.release.epsilon === view.epsilon ? state.release : state.said;
    if (changed.has("said") || changed.has("release")) {
      fill(said, now ? [h("h2", {}, "The same without the studio"), h("h3", {}, "On the command line"), copied(now.command, "Command"), h("h3", {}, "In Python"), copied(now.python, "Lines of Python")] : null);
    }
    if (changed.has("release")) result();
  }
  return { update };
}
