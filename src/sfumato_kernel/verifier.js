// A second verifier of mechanism files, written from docs/mechanism-file.md alone, for browsers and node: whole numbers
// are BigInt, nothing else is trusted. It proves claims of ldp, and of rldp and lip over any distribution; any other claim
// is refused as not something it proves. verify(text) resolves to {proved: true} or {proved: false, reason}.
"use strict";

(function (home) {
  const LARGEST = 1 << 26, DEEPEST = 64, GREATEST = 1n << 62n;
  const CLAIMS = 16, INSIDE = 8, INPUTS = 4096; // claims in a file, and inside each other; inputs that are compared in pairs

  class Refused extends Error {}
  const refuse = (reason) => { throw new Refused(reason); };

  // JSON with whole numbers as BigInt and decimals as numbers; no duplicate keys, no endless depth or digits.
  function parse(text) {
    let at = 0;
    const space = /[ \t\r\n]*/y, number = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
    const string = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
    const match = (pattern) => {
      pattern.lastIndex = at;
      const found = pattern.exec(text);
      if (!found) return null;
      at = pattern.lastIndex;
      return found;
    };
    const skip = () => match(space);
    const expect = (c) => { skip(); if (text[at] !== c) refuse("it is no JSON document"); at += 1; };
    function members(close, one) {
      at += 1;
      skip();
      if (text[at] === close) { at += 1; return; }
      for (;;) {
        one();
        skip();
        if (text[at] === close) { at += 1; return; }
        expect(",");
      }
    }
    function value(depth) {
      if (depth > DEEPEST) refuse("it is nested too deeply");
      skip();
      if (text[at] === "{") {
        const out = new Map();
        members("}", () => {
          skip();
          const key = match(string) || refuse("it is no JSON document");
          const name = JSON.parse(key[0]);
          if (out.has(name)) refuse("an object has two members of one name");
          expect(":");
          out.set(name, value(depth + 1));
        });
        return out;
      }
      if (text[at] === "[") {
        const out = [];
        members("]", () => out.push(value(depth + 1)));
        return out;
      }
      if (text[at] === '"') return JSON.parse((match(string) || refuse("it is no JSON document"))[0]);
      if (text[at] > "9") {
        for (const [word, meaning] of [["true", true], ["false", false], ["null", null]]) {
          if (text.startsWith(word, at)) { at += word.length; return meaning; }
        }
      }
      const digits = match(number) || refuse("it is no JSON document");
      if (digits[0].length > 40) refuse("a number has too many digits");
      if (digits[1] || digits[2]) {
        const x = Number(digits[0]);
        return Number.isFinite(x) ? x : refuse("a number is not finite");
      }
      return BigInt(digits[0]);
    }
    const found = value(0);
    skip();
    if (at !== text.length || !(found instanceof Map)) refuse("it is no JSON document");
    return found;
  }

  async function checkSeal(text, document) {
    const compact = text.replace(/("(?:[^"\\]|\\.)*")|[ \t\r\n]+/g, "$1");
    const bare = compact.replace(/,"checksum":"[^"\\]*"}$/, "}");
    const digest = await home.crypto.subtle.digest("SHA-256", new TextEncoder().encode(bare));
    const hex = Array.from(new Uint8Array(digest), (b) => b.toString(16).padStart(2, "0")).join("");
    if (bare === compact || document.get("checksum") !== "sha256:" + hex) refuse("the checksum does not match");
  }

  const whole = (x, high = GREATEST) => typeof x === "bigint" && x >= 0n && x <= high ? x : refuse("a weight out of range");
  const list = (x) => Array.isArray(x) && x.length ? x : refuse("a list is missing");
  const fields = (map, ...names) => {
    if (!(map instanceof Map)) refuse("an object is missing");
    for (const key of map.keys()) if (!names.includes(key)) refuse(`an unknown field ${key.slice(0, 40)}`);
    return map;
  };
  const product = (sizes) => sizes.reduce((a, b) => a * b, 1);
  const range = (n) => Array.from({ length: n }, (_, i) => i);

  const FIELDS = {
    table: ["weights", "meaning"], cells: ["truth", "same_secret", "same_useful", "neither"], constant: [], unary: ["on", "off"],
    conditional: ["keep", "base"], layout: ["lengths", "heights"], blocks: ["order", "inside", "outside", "other"],
  };

  // Rows of weights [y][x], x = s·|U| + u, each column with the sum 2^bits.
  const LAWS = {
    table: (law, rows, useful) => {
      const outputs = { useful, cell: rows * useful, symbol: list(law.get("weights")).length }[law.get("meaning")];
      if (outputs !== law.get("weights").length) refuse("the outputs are not what their meaning says");
      return list(law.get("weights")).map((row) => list(row).length === rows * useful ? row.map((w) => whole(w)) : refuse("a table of another shape"));
    },
    cells: (law, rows, useful) => {
      const [truth, secret, value, neither] = ["truth", "same_secret", "same_useful", "neither"].map((n) => whole(law.get(n)));
      return range(rows * useful).map((y) => range(rows * useful).map((x) => {
        const s = Math.floor(x / useful) === Math.floor(y / useful), u = x % useful === y % useful;
        return s && u ? truth : s ? secret : u ? value : neither;
      }));
    },
    constant: (law, rows, useful, total) => {
      const n = BigInt(rows * useful);
      return range(rows * useful).map((y) => range(rows * useful).map(() => total / n + (BigInt(y) < total % n ? 1n : 0n)));
    },
    conditional: (law, rows, useful) => {
      const keep = list(law.get("keep")), base = list(law.get("base"));
      if (keep.length !== rows || base.length !== rows || base.some((b) => list(b).length !== useful)) refuse("another shape");
      return range(useful).map((y) => range(rows * useful).map((x) => {
        const s = Math.floor(x / useful);
        return whole(base[s][y]) + (x % useful === y ? whole(keep[s]) : 0n);
      }));
    },
    layout: (law, rows, useful) => {
      const lengths = list(law.get("lengths")), heights = list(law.get("heights"));
      if (lengths.length !== rows || heights.length !== rows) refuse("a layout of another shape");
      const ends = lengths.map((x, s) => {
        let end = 0n;
        if (list(heights[s]).length !== list(x).length || heights[s].some((h) => list(h).length !== useful)) refuse("another shape");
        return x.map((w) => (end += whole(w) > 0n ? w : refuse("a length of zero")));
      });
      const last = ends[0][ends[0].length - 1];
      if (last > GREATEST || ends.some((e) => e[e.length - 1] !== last)) refuse("secrets fill different intervals");
      const cuts = [...new Set(ends.flat())].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
      return cuts.map((cut, y) => {
        const start = y ? cuts[y - 1] : 0n;
        return range(rows * useful).map((x) => {
          const s = Math.floor(x / useful), atom = ends[s].findIndex((e) => e > start);
          return (cut - start) * whole(heights[s][atom][x % useful]);
        });
      });
    },
    blocks: (law, rows, useful) => {
      const q = Number(whole(law.get("order"), 13n));
      if (![2, 3, 5, 7, 11, 13].includes(q)) refuse("the order is no prime");
      let size = 2;
      while ((q ** size - 1) / (q - 1) < useful) size += 1;
      const digits = (i) => range(size).map((k) => Math.floor(i / q ** (size - 1 - k)) % q);
      const points = range(q ** size).map(digits).filter((v) => (v.find((x) => x) || 0) === 1);
      const [inside, outside, other] = ["inside", "outside", "other"].map((n) => whole(law.get(n)));
      return range(rows * points.length).map((y) => range(rows * useful).map((x) => {
        if (Math.floor(x / useful) !== Math.floor(y / points.length)) return other;
        const block = points[y % points.length], point = points[x % useful];
        return block.reduce((sum, b, i) => sum + b * point[i], 0) % q ? outside : inside;
      }));
    },
  };

  // worst(x, z): the greatest Q(y|x) / Q(y|z) over outputs, as [top, bottom]; bottom 0n is infinite.
  function ratios(law, rows, sizes, inner = false) {
    const useful = product(sizes), kind = law instanceof Map ? law.get("kind") : refuse("a law is missing");
    if (rows * useful > INPUTS) refuse("too large for this verifier");
    if (kind === "product" && !inner) return releases(fields(law, "kind", "parts"), rows, sizes);
    if (typeof kind !== "string" || !Object.hasOwn(FIELDS, kind)) refuse("an unknown law");
    fields(law, "kind", "bits", ...FIELDS[kind]);
    const bits = whole(law.get("bits"), 62n), total = 1n << bits;
    if (kind === "unary") {
      const on = whole(law.get("on")), off = whole(law.get("off"));
      if (off > on || on > total) refuse("a unary law needs off ≤ on ≤ 2^bits");
      return (x, z) => (x === z ? [1n, 1n] : reduced(on * (total - off), off * (total - on)));
    }
    const found = LAWS[kind](law, rows, useful, total);
    for (const x of range(rows * useful)) {
      if (found.reduce((sum, row) => sum + row[x], 0n) !== total) refuse("weights do not sum to 2^bits");
    }
    if (kind === "table") {
      const buckets = BigInt((found.length - 1 ? Math.floor(Math.log2(found.length - 1)) + 1 : 0));
      if (found.length > 65536 || bits < buckets || bits > buckets + 48n) refuse("bits that are not drawn");
    }
    const worst = (x, z) => found.reduce((most, row) => (row[x] ? greater(most, [row[x], row[z]]) : most), [0n, 1n]);
    worst.listed = found;
    return worst;
  }

  // Releases of one record: outputs are chosen independently, so the worst ratios of a pair of inputs multiply.
  function releases(law, rows, sizes) {
    const parts = list(law.get("parts")).map((part) => {
      fields(part, "law", "columns", "reads", "times");
      if (!["both", "useful"].includes(part.get("reads"))) refuse("reads is neither both nor useful");
      const columns = part.get("columns").map((c) => Number(whole(c))), times = Number(part.get("times") ?? 1n);
      if (columns.some((c) => !(c < sizes.length)) || new Set(columns).size < columns.length) refuse("a part reads no such column");
      if (!(times >= 1 && times <= 1e6)) refuse("times out of range");
      const inner = columns.map((c) => sizes[c]), own = part.get("reads") === "both" ? rows : 1;
      const worst = ratios(part.get("law"), own, inner, true);
      return (x, z) => power(worst(code(x), code(z)), times);
      function code(joint) {
        let u = joint % product(sizes), s = Math.floor(joint / product(sizes));
        const digits = sizes.map((k, i) => Math.floor(u / product(sizes.slice(i + 1))) % k);
        return (own > 1 ? s * product(inner) : 0) + columns.reduce((sum, c) => sum * sizes[c] + digits[c], 0);
      }
    });
    return (x, z) => parts.map((worst) => worst(x, z)).reduce(([a, b], [c, d]) => reduced(a * c, b * d), [1n, 1n]);
  }

  const greater = (a, b) => (b[1] === 0n && b[0] ? b : a[1] === 0n && a[0] ? a : b[0] * a[1] > a[0] * b[1] ? b : a);
  const gcd = (a, b) => { while (b) [a, b] = [b, a % b]; return a; };
  const reduced = (a, b) => { const g = gcd(a, b) || 1n; return [a / g, b / g]; };
  const power = ([a, b], n) => {
    if (n * a.toString(2).length > 2e6) refuse("a ratio beyond all bounds");
    return [a ** BigInt(n), b ** BigInt(n)];
  };

  // At or below e^epsilon, as a whole number over 2^256: (1 + x + x²/2 + …)^(2^k) with x = epsilon / 2^k, all rounded down.
  function expBelow(epsilon) {
    const one = 1n << 256n;
    let [x, halvings] = [epsilon, 0];
    while (x > 0.5) { x /= 2; halvings += 1; }
    const view = BigInt(Math.trunc(x * 2 ** 52)), rest = x * 2 ** 52 - Math.trunc(x * 2 ** 52);
    const exact = (view << 204n) + (BigInt(Math.floor(rest * 2 ** 52)) << 152n);
    let [sum, term] = [one, one];
    for (let k = 1n; term; k += 1n) { term = (term * exact >> 256n) / k; sum += term; }
    for (; halvings; halvings -= 1) sum = sum * sum >> 256n;
    return [sum, one];
  }

  const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\ud800-\udfff]/;
  const text = (x) => (typeof x === "string" && x.length <= 10000 && !CONTROL.test(paired(x)) ? x : refuse("something is no text"));
  const paired = (x) => x.replace(/[\ud800-\udbff][\udc00-\udfff]/g, "");
  const number = (x, high) => (["number", "bigint"].includes(typeof x) && x >= 0 && x <= high ? Number(x) : refuse("a number out of range"));
  function size(columns) {
    if (!Array.isArray(columns)) refuse("columns are missing");
    return columns.map((column) => {
      const labels = list(fields(column, "name", "labels", "other", "cuts", "dtype").get("labels"));
      if (new Set(labels).size < labels.length) refuse("a label is listed twice");
      text(column.get("name"));
      for (const x of labels) if (x !== null) text(x);
      const other = column.get("other") ?? null, cuts = column.get("cuts") ?? null;
      if (other !== null && !labels.includes(text(other))) refuse("the catch-all is no label");
      if (cuts !== null && labels.filter((x) => x !== null).length !== cuts.length + 1) refuse("bins that are not the labels");
      return labels.length;
    });
  }

  // The greatest ratio over all pairs of inputs or, about the secret, over pairs that differ in it, if the law reads it.
  function greatest(worst, rows, useful, anywhere) {
    const apart = anywhere && rows > 1, size = apart ? useful : 1;
    const block = (x) => Math.floor(x / size), all = range(rows * useful);
    if (!worst.listed) {
      const pairs = all.flatMap((x) => all.filter((z) => !apart || block(x) !== block(z)).map((z) => [x, z]));
      return pairs.reduce((found, [x, z]) => greater(found, worst(x, z)), [1n, 1n]);
    }
    let found = [1n, 1n];
    for (const row of worst.listed) {
      const tops = [], bottoms = []; // of each block of inputs that are not compared with each other
      row.forEach((w, x) => {
        const b = block(x);
        if (tops[b] === undefined || w > tops[b]) tops[b] = w;
        if (bottoms[b] === undefined || w < bottoms[b]) bottoms[b] = w;
      });
      const high = least(tops, (a, b) => a > b), low = least(bottoms, (a, b) => a < b);
      for (const i of high) for (const j of low) {
        if (i !== j && tops[i]) found = greater(found, [tops[i], bottoms[j]]);
      }
    }
    return found;
  }

  // The places of the first two of a list in an order: with two of each, one pair of different places is extreme.
  function least(values, before) {
    let [first, second] = [0, -1];
    for (let i = 1; i < values.length; i += 1) {
      if (before(values[i], values[first])) [first, second] = [i, first];
      else if (second < 0 || before(values[i], values[second])) second = i;
    }
    return second < 0 ? [first] : [first, second];
  }

  const SAMPLERS = ["two-sided geometric, exact integers from the system's randomness", "seeded: not for release"];

  // What was paid for counts, or for labels where there are none: it changes no claim, but must be what noise can be.
  function noise(found, version, counts, n) {
    const counted = counts !== null;
    if (found === null) return;
    if (version < 2n) refuse("noise of design counts in a file of version 1");
    if (!SAMPLERS.includes(fields(found, "epsilon", "rows", "counts", "sampler", "delta", "coverage", "draw").get("sampler"))) refuse("no sampler of noise");
    const paid = number(found.get("epsilon"), 1e6), own = number(found.get("counts"), 1e6), rows = whole(found.get("rows"));
    const [delta, coverage] = ["delta", "coverage"].map((name) => number(found.get(name) ?? 0n, 1));
    if (!((own > 0) === counted && own >= 0 && paid > 0 && own <= paid && delta < 1 && coverage <= 1) || !(rows > 0n && rows <= GREATEST)) refuse("no noise is like this");
    text(found.get("draw") ?? "");
    if ((n !== null && whole(n) !== rows) || (counted && list(counts).flatMap(list).reduce((sum, x) => sum + whole(x), 0n) !== rows)) refuse("noise of another table");
  }

  // Whether there are design data; what they are only matters to sets that this verifier does not know, but they must be data.
  function design(found, secrets, useful, version) {
    if (found === null) return false;
    text(fields(found, "source", "counts", "probabilities", "n", "fingerprint", "noise").get("source"));
    noise(found.get("noise") ?? null, version, found.get("counts") ?? null, found.get("n") ?? null);
    if ((found.get("fingerprint") ?? null) !== null) text(found.get("fingerprint"));
    const counts = found.get("counts") ?? null, probabilities = found.get("probabilities") ?? null, n = found.get("n") ?? null;
    if (counts !== null && probabilities !== null) refuse("counts or probabilities, not both");
    if (n !== null && !(whole(n) > 0n)) refuse("no rows");
    const table = counts ?? probabilities;
    if (table === null) return false;
    if (list(table).length !== secrets || table.some((row) => list(row).length !== useful)) refuse("design data of another shape");
    if (counts !== null) {
      const total = counts.flat().reduce((sum, x) => sum + whole(x), 0n);
      if (!total || total > GREATEST || (n !== null && n !== total)) refuse("the counts are not n in all");
    } else {
      const each = probabilities.flat().map((x) => number(x, 1));
      if (each.some((x) => x > 0 && x < 1e-150) || Math.abs(each.reduce((a, b) => a + b, 0) - 1) > 1e-9) refuse("no distribution");
    }
    return true;
  }

  function holds(claim, worst, rows, secrets, useful, counted, count = { left: CLAIMS }, depth = 0) {
    count.left -= 1;
    if (count.left < 0 || depth > INSIDE) refuse("too many claims");
    fields(claim, "notion", "epsilon", "within", "alpha", "beta", "also");
    const epsilon = number(claim.get("epsilon"), 1e6), notion = claim.get("notion");
    const kind = claim.get("within") instanceof Map ? claim.get("within").get("kind") : null;
    const anywhere = ["rldp", "lip"].includes(notion) && kind === "anything";
    if (!(notion === "ldp" && kind === null) && !anywhere) refuse("not something this verifier proves");
    if (anywhere) fields(claim.get("within"), "kind");
    if ((claim.get("alpha") ?? claim.get("beta") ?? null) !== null) refuse("orders are for leakage");
    if (anywhere && !counted) refuse("a claim about a set needs the design data");
    if (anywhere && secrets < 2) refuse("a claim about the secret needs a secret of two values or more");
    const found = greatest(worst, rows, useful, anywhere);
    const [top, one] = expBelow(epsilon);
    if (found[0] * one > top * found[1]) refuse("the claim is not proved");
    for (const other of claim.get("also") ?? []) holds(other, worst, rows, secrets, useful, counted, count, depth + 1);
  }

  // The parts of a document that a proof rests on: how many secrets and useful values, which are read, and the ratios.
  function read(document) {
    fields(document, "format", "version", "method", "reads", "secret", "useful", "law", "claim", "design", "answers", "checksum");
    const version = document.get("version");
    if (document.get("format") !== "sfumato/mechanism" || (version !== 1n && version !== 2n)) refuse("another format");
    text(document.get("method"));
    const secrets = product(size(document.get("secret"))), sizes = size(document.get("useful"));
    const names = [...document.get("secret"), ...document.get("useful")].map((column) => column.get("name"));
    if (new Set(names).size < names.length) refuse("a column is named twice");
    const reads = document.get("reads");
    if (!["both", "useful"].includes(reads)) refuse("reads is neither both nor useful");
    const rows = reads === "both" ? secrets : 1;
    return { secrets, rows, useful: product(sizes), worst: ratios(document.get("law"), rows, sizes) };
  }

  // What the weights allow whatever is claimed: the greatest ratios, as [top, bottom], about the whole record and about
  // the secret for any distribution (null where the file names none).
  function levels(file) {
    const { secrets, rows, useful, worst } = read(parse(file));
    return { record: greatest(worst, rows, useful, false), secret: secrets < 2 ? null : greatest(worst, rows, useful, true) };
  }

  async function verify(file) {
    try {
      if (file.length > LARGEST) refuse("the file is too large");
      const document = parse(file);
      const { secrets, rows, useful, worst } = read(document);
      await checkSeal(file, document);
      const counted = design(document.get("design") ?? null, secrets, useful, document.get("version"));
      holds(document.get("claim") ?? refuse("it claims nothing"), worst, rows, secrets, useful, counted);
      return { proved: true };
    } catch (error) {
      if (!(error instanceof Refused)) return { proved: false, reason: `it is no mechanism file (${error.message})` };
      return { proved: false, reason: error.message };
    }
  }

  home.sfumatoVerify = verify;
  home.sfumatoKernel = { parse, levels, expBelow };
  if (typeof module !== "undefined" && module.exports) {
    module.exports = { verify, parse, levels };
    if (require.main === module) {
      const file = process.argv[2], text = require("fs").readFileSync(file, "utf8");
      verify(text).then((found) => {
        console.log(found.proved ? "proved" : `refused: ${found.reason}`);
        process.exitCode = found.proved ? 0 : 1;
      });
    }
  }
})(globalThis);
