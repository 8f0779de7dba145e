// A survey page: proves the promise, asks, draws on the device, shows what was said and what is sent, and sends that.
"use strict";

(function () {
  const survey = JSON.parse(document.getElementById("survey").textContent), words = survey.words;
  const { parse, levels, expBelow } = sfumatoKernel, { draw, shape, meaning } = sfumatoSampler;
  const el = (id) => document.getElementById(id);
  const tell = (text, values = {}) => text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
  const make = (name, text, parent, attributes = {}) => {
    const svg = ["svg", "circle", "path"].includes(name);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    if (text) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return parent.appendChild(made);
  };
  const parts = survey.parts.map((text) => ({ text, mechanism: null, columns: [] }));
  const waves = survey.waves && { permanent: null, instantaneous: null };

  // ---- what is proved: products of the ratios of all parts, or their greatest where parts are answered in turn ----

  const times = ([a, b], [c, d]) => [a * c, b * d];
  const greater = (a, b) => (a[0] * b[1] >= b[0] * a[1] ? a : b);
  const joined = (ratios) => ratios.reduce(survey.turns ? greater : times, [1n, 1n]);

  async function proved() {
    const found = [];
    for (const part of parts) {
      const verdict = await sfumatoVerify(part.text);
      // A promise that this verifier cannot prove may still be read: what counts is what the weights allow.
      if (!verdict.proved && verdict.reason !== "not something this verifier proves") throw new Error(verdict.reason);
      part.mechanism = parse(part.text);
      const own = part.mechanism.get("reads") === "both" ? part.mechanism.get("secret") : [];
      part.columns = [...own, ...part.mechanism.get("useful")];
      found.push(levels(part.text));
    }
    const record = joined(found.map((x) => x.record));
    const secret = found.every((x) => x.secret) ? joined(found.map((x) => x.secret)) : null;
    const claim = survey.claim, about = claim && (claim.about === "record" ? record : secret);
    if (claim && !within(about, claim.epsilon)) throw new Error("the claim is not proved");
    return { record, secret, forever: await foreverProved(record) };
  }

  // Waves: the permanent answer is proved, and that the file of one wave is exactly the two laws after each other.
  async function foreverProved() {
    if (!survey.waves) return null;
    for (const name of ["permanent", "instantaneous"]) {
      const verdict = await sfumatoVerify(survey.waves[name]);
      if (!verdict.proved) throw new Error(verdict.reason);
      waves[name] = parse(survey.waves[name]);
    }
    if (!composed(waves.permanent, waves.instantaneous, parts[0].mechanism)) throw new Error("one wave is not what it says");
    return levels(survey.waves.permanent).record;
  }

  function composed(first, second, whole) {
    const [a, b, c] = [first, second, whole].map((m) => m.get("law")), n = BigInt(shape(whole).useful);
    const [t, f, total] = [b.get("truth"), b.get("same_secret"), 1n << a.get("bits")];
    if (c.get("bits") !== a.get("bits") + b.get("bits")) return false;
    if (a.get("kind") === "unary") return ["on", "off"].every((k) => c.get(k) === a.get(k) * t + (total - a.get(k)) * f);
    const [p, o] = [a.get("truth"), a.get("same_secret")];
    return c.get("truth") === p * t + (n - 1n) * o * f && c.get("same_secret") === p * f + o * t + (n - 2n) * o * f;
  }

  function within(ratio, epsilon) {
    const [top, one] = expBelow(epsilon);
    return Boolean(ratio) && ratio[1] > 0n && ratio[0] * one <= top * ratio[1];
  }
  const sure = ([top, bottom]) => Number((100n * top + top + bottom - 1n) / (top + bottom)); // rounded up
  const shown = ([top, bottom]) => (bottom ? Number((top * 1000n + bottom - 1n) / bottom) / 1000 : Infinity);

  function showProof({ record, secret, forever }) {
    const secretNames = survey.questions.filter((q) => q.secret).map((q) => q.name).join(", ");
    const about = secret && ((survey.claim && survey.claim.about === "secret") || !record[1]) ? secret : record;
    const told = about === secret ? words.belief_secret : words.belief;
    if (!about[1]) throw new Error(words.nothing_known);
    for (const [text, ratio] of [[told, about], ...(forever ? [[words.belief_waves, forever]] : [])]) {
      make("p", tell(text, { n: sure(ratio), names: secretNames }), el("beliefs"));
      dots(sure(ratio));
    }
    const level = (ratio) => ({ ratio: shown(ratio), epsilon: Math.log(shown(ratio)).toFixed(3), names: secretNames });
    make("li", tell(words.ratio, level(record)), el("ratios"));
    if (secret && secretNames) make("li", tell(words.ratio_secret, level(secret)), el("ratios"));
    el("file").href = URL.createObjectURL(new Blob([survey.file], { type: "application/json" }));
    el("verdict").textContent = words.proved;
    el("verdict").className = "good";
    el("proof").hidden = false;
  }

  function dots(n) {
    const picture = make("svg", "", el("beliefs"), { viewBox: "0 0 100 42", class: "dots", role: "img", "aria-label": tell(words.dots, { n }) });
    for (let i = 0; i < 100; i += 1) make("circle", "", picture, { cx: 2.5 + (i % 20) * 5, cy: 4 + Math.floor(i / 20) * 8.4, r: 1.7, class: i < n ? "full" : "empty" });
  }

  // ---- memory: a key that stays on the device decides the words, so that the same question gets the same answer ----

  const memory = (() => {
    try {
      localStorage.setItem("sfumato.try", "1");
      localStorage.removeItem("sfumato.try");
      return localStorage;
    } catch { return null; }
  })();
  const passing = new Map();
  const recall = (name) => (memory ? memory.getItem(name) : passing.get(name)) ?? null;
  const forget = (name) => (memory ? memory.removeItem(name) : passing.delete(name));
  const keep = (name, value) => (memory ? memory.setItem(name, value) : passing.set(name, value));
  const random = (n) => crypto.getRandomValues(new Uint8Array(n));
  const base64 = (bytes) => btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");

  const NAMES = { key: "sfumato.key", token: `sfumato.token.${survey.id}.${survey.wave}`, sent: `sfumato.sent.${survey.id}.${survey.wave}` };

  // 22 letters with chance, or those of the invitation; the fragment of an address is not sent to a server.
  function token() {
    const invited = /[#&]t=([A-Za-z0-9_-]{22})(?:&|$)/.exec(location.hash);
    if (invited) return invited[1];
    if (!recall(NAMES.token)) keep(NAMES.token, base64(random(16)));
    return recall(NAMES.token);
  }

  async function secretKey() {
    if (!recall(NAMES.key)) keep(NAMES.key, base64(random(32)));
    const text = new TextEncoder().encode(recall(NAMES.key));
    return crypto.subtle.importKey("raw", text, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  }

  // Words of 64 bits from HMAC-SHA-256 of what is asked: without the key nobody can tell them from fresh ones.
  async function remembered(what, count) {
    const key = await secretKey(), out = [];
    for (let block = 0; out.length < count; block += 1) {
      const text = new TextEncoder().encode(`sfumato memory ${what} ${block}`);
      const view = new DataView(await crypto.subtle.sign("HMAC", key, text));
      for (let i = 0; i < 4; i += 1) out.push(view.getBigUint64(8 * i));
    }
    return out.slice(0, count);
  }

  // ---- drawing ----

  const inputOf = (part, codes) => part.columns.reduce((x, c) => x * c.get("labels").length + codes.get(c.get("name")), 0);
  const seal = (mechanism) => mechanism.get("checksum");

  async function drawPart(part, codes) {
    const x = inputOf(part, codes);
    if (waves) return drawWave(x);
    return draw(part.mechanism, x, await remembered(`${seal(part.mechanism)} ${x}`, shape(part.mechanism).words));
  }

  async function drawWave(x) {
    const own = seal(waves.permanent), first = await remembered(`${own} ${x}`, shape(waves.permanent).words);
    const b = draw(waves.permanent, x, first), bits = typeof b === "string";
    const fresh = await remembered(`${own} ${x} wave ${survey.wave}`, bits ? b.length : 1);
    if (!bits) return draw(waves.instantaneous, b, fresh);
    return [...b].map((bit, i) => draw(waves.instantaneous, Number(bit), [fresh[i]])).join("");
  }

  async function turnOf(codes) {
    const all = parts.map((part) => inputOf(part, codes)).join(".");
    const [word] = await remembered(`${survey.id} turn ${all}`, 1);
    let left = word & ((1n << 62n) - 1n);
    return survey.turns.findIndex((w) => (left -= BigInt(w)) < 0n);
  }

  async function answer(codes) {
    const turn = survey.turns ? await turnOf(codes) : -1, out = [];
    for (const [i, part] of parts.entries()) out.push(survey.turns && i !== turn ? null : await drawPart(part, codes));
    return out;
  }

  // ---- what people see ----

  const label = (name, code) => survey.questions.find((q) => q.name === name).shown[code];
  function textOf(columns, x) {
    const out = [];
    for (const c of [...columns].reverse()) {
      const n = c.get("labels").length;
      out.unshift(label(c.get("name"), x % n));
      x = Math.floor(x / n);
    }
    return out.join(" · ");
  }
  function outputText(part, output) {
    if (output === null) return words.no_turn;
    const mechanism = part.mechanism, kind = mechanism.get("law").get("kind"), about = mechanism.get("law").get("meaning");
    if (kind === "conditional" || about === "useful") return tell(words.one, { value: textOf(mechanism.get("useful"), output) });
    if (about === "cell") return tell(words.one, { value: textOf(part.columns, output) });
    const members = meaning(mechanism, output);
    const values = members.map((x) => tell(words.one, { value: textOf(part.columns, x) })).join(", ");
    if (kind === "unary" || kind === "blocks") return members.length ? tell(words.several, { values }) : words.empty;
    if (["cells", "constant"].includes(kind)) return values;
    const named = mechanism.get("answers");
    return tell(words.symbol, { sign: named ? named.get("labels")[output] : `y${output}`, values });
  }

  function show(drawn, codes, before) {
    el("said").replaceChildren();
    el("mine").hidden = !codes;
    if (codes) for (const q of survey.questions) make("p", `${q.text}: ${label(q.name, codes.get(q.name))}`, el("said"));
    el("drawn").replaceChildren();
    parts.forEach((part, i) => {
      const names = part.columns.map((c) => c.get("name")).join(", ");
      make("p", (parts.length > 1 ? `${names}: ` : "") + outputText(part, drawn[i]), el("drawn"));
    });
    el("line").value = lineOf(drawn);
    el("send").hidden = !place();
    el("before").hidden = el("other").hidden = !before;
    el("back").hidden = before;
    el("forgetful").hidden = Boolean(memory);
    el("square").hidden = true;
    el("status").textContent = "";
    el("form").hidden = true;
    el("result").hidden = false;
    el("sends").focus();
  }
  const lineOf = (drawn) => `sfumato:1:${survey.id}:${token()}:${drawn.map((y) => y ?? "").join(".")}`;
  const place = () => survey.collector || (location.protocol.startsWith("http") ? "answer" : null);

  async function submitted(event) {
    event.preventDefault();
    const codes = new Map(), absent = [];
    survey.questions.forEach((q, i) => {
      const chosen = new FormData(el("form")).get(`q${i}`);
      if (chosen === null || chosen === "") absent.push([q.text, i]);
      else codes.set(q.name, Number(chosen));
    });
    el("incomplete").textContent = absent.length ? tell(words.incomplete, { names: absent.map(([text]) => text).join("; ") }) : "";
    if (absent.length) { el(`q${absent[0][1]}`).querySelector("input, select").focus(); return; }
    show(await answer(codes), codes, false);
  }

  async function send() {
    el("send").disabled = true;
    el("status").textContent = words.sending;
    let code = 0;
    try {
      const options = { method: "POST", body: el("line").value, credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer" };
      code = (await fetch(place(), { ...options, headers: { "Content-Type": "text/plain" } })).status;
    } catch { code = 0; }
    const said = { 200: words.sent, 409: words.used, 429: words.later };
    el("status").textContent = said[code] ?? words.failed;
    if (code === 200) given();
    el("send").disabled = false;
  }

  // What has left the page once is what is given from now on.
  function given() {
    keep(NAMES.sent, el("line").value);
    el("back").hidden = true;
  }

  // Another person on the same device needs chance of their own: shared chance would tell whether two said the same.
  function another() {
    Object.values(NAMES).forEach(forget);
    el("form").reset();
    ask();
  }

  function ask() {
    el("result").hidden = true;
    el("form").hidden = false;
    el("asked").focus();
  }

  async function copy() {
    given();
    el("line").select();
    try {
      await navigator.clipboard.writeText(el("line").value);
      el("status").textContent = words.copied;
    } catch { el("status").textContent = ""; } // the line is selected: it can be copied by hand
  }

  function square() {
    const open = el("square").hidden;
    el("square").hidden = !open;
    el("code").setAttribute("aria-expanded", String(open));
    if (!open) return;
    given();
    const rows = sfumatoQR.matrix(el("line").value), n = rows.length + 8;
    el("square").replaceChildren();
    const picture = make("svg", "", el("square"), { viewBox: `0 0 ${n} ${n}`, role: "img", "aria-label": words.code_label });
    const path = rows.flatMap((row, r) => row.map((on, c) => (on ? `M${c + 4} ${r + 4}h1v1h-1z` : ""))).join("");
    make("path", "", picture, { d: path, fill: "#000" });
  }

  function earlier() {
    const line = recall(NAMES.sent);
    if (!line) return false;
    const fields = line.split(":").pop().split(".");
    const drawn = fields.map((f, i) => (f === "" ? null : parts[i].mechanism.get("law").get("kind") === "unary" ? f : Number(f)));
    show(drawn, null, true);
    el("line").value = line;
    return true;
  }

  async function start() {
    if (!globalThis.crypto || !crypto.subtle) throw new Error(words.unsafe);
    showProof(await proved());
    el("form").addEventListener("submit", submitted);
    el("send").addEventListener("click", send);
    el("copy").addEventListener("click", copy);
    el("code").addEventListener("click", square);
    el("back").addEventListener("click", ask);
    el("other").addEventListener("click", another);
    if (!earlier()) el("form").hidden = false;
  }

  globalThis.sfumatoSurvey = { answer, survey }; // for whoever wants to try the page from the console
  start().catch((error) => {
    el("verdict").textContent = error.message === words.unsafe ? words.unsafe : tell(words.refused, { reason: error.message });
    el("verdict").className = "bad";
  });
})();
