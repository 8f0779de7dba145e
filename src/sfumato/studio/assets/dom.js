// Elements without strings of markup: whatever a label says, it is text.
export function h(tag, props = {}, ...children) {
  const made = tag === "svg" || props.svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "svg" || value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden") made[name] = value;
    else made.setAttribute(name === "className" ? "class" : name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return made;
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

export function announce(text) {
  document.getElementById("live").textContent = text;
}

// An error is a text, or the fields of one: what is wrong stands before what to do next.
export function error(wrong) {
  if (!wrong) return null;
  return h("p", { class: "error", role: "alert" }, wrong.sentence ?? wrong, wrong.next ? h("strong", {}, ` ${wrong.next}`) : null);
}

// An error beside its field: shown again only when it changes, so that it is read out once.
export function errorSpot() {
  const spot = h("div", { class: "spot" });
  let shown = null;
  return [spot, (wrong) => {
    const text = (wrong && wrong.text) || wrong || null;
    if (text === shown) return;
    shown = text;
    fill(spot, error(wrong));
  }];
}

export function list(items, className = "plainlist") {
  return items.length ? h("ul", { class: className }, items.map((x) => h("li", {}, x))) : null;
}

export function field(label, input, hint) {
  input.id ||= `f${Math.random().toString(36).slice(2)}`;
  const note = hint ? h("small", { id: `${input.id}-hint` }, hint) : null;
  if (note) input.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: input.id }, label), input, note);
}

export function later(run, wait) {
  let timer = null;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...given), wait);
  };
}

// A place to drop files, which a keyboard reaches as a button.
export function dropZone({ title, text, multiple, accept, onfiles }) {
  const input = h("input", { type: "file", class: "away", multiple, accept, tabindex: "-1", "aria-label": title });
  input.addEventListener("change", () => { if (input.files.length) onfiles([...input.files]); input.value = ""; });
  const zone = h("div", { class: "drop" },
    h("p", { class: "big" }, title), h("p", { class: "soft" }, text),
    h("button", { type: "button", onclick: () => input.click() }, multiple ? "Choose files" : "Choose a file"), input);
  for (const kind of ["dragenter", "dragover"]) zone.addEventListener(kind, (e) => { e.preventDefault(); zone.classList.add("over"); });
  for (const kind of ["dragleave", "drop"]) zone.addEventListener(kind, () => zone.classList.remove("over"));
  zone.addEventListener("drop", (e) => { e.preventDefault(); if (e.dataTransfer.files.length) onfiles([...e.dataTransfer.files]); });
  return zone;
}

export function copied(text, label) {
  const button = h("button", { type: "button", class: "plain small", onclick: async () => {
    await navigator.clipboard.writeText(text);
    announce("Copied");
    button.textContent = "Copied";
  } }, "Copy");
  return h("div", { class: "code" }, h("pre", { tabindex: "0", "aria-label": label }, text), button);
}
