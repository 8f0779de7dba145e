// The sampler of a survey page: from (input, random words) to an output, a pure function whose distribution over all words
// is exactly the weights of the file (docs/mechanism-file.md, "Sampling"). Whole numbers are BigInt throughout; a law is
// the Map that the verifier's parser made. An output is a number, or for a unary law a text of zeros and ones.
"use strict";

(function (home) {
  const range = (n) => Array.from({ length: n }, (_, i) => i);
  const product = (sizes) => sizes.reduce((a, b) => a * b, 1);
  const low = (word, bits) => word & ((1n << bits) - 1n);
  const bitLength = (n) => (n > 0 ? n.toString(2).length : 0);
  const beside = (i, own) => i + (i >= own ? 1 : 0); // the i-th of all places but one

  const DRAWS = {
    cells: (law, x, [word], rows, useful) => {
      const s = Math.floor(x / useful), u = x % useful, others = useful - 1;
      const picks = [
        [law.get("truth"), 1, () => x],
        [law.get("same_secret"), others, (i) => s * useful + beside(i, u)],
        [law.get("same_useful"), rows - 1, (i) => beside(i, s) * useful + u],
        [law.get("neither"), (rows - 1) * others, (i) => beside(Math.floor(i / others), s) * useful + beside(i % others, u)],
      ];
      let left = word;
      for (const [weight, copies, pick] of picks) {
        const run = weight * BigInt(copies);
        if (left < run) return pick(Number(left / weight));
        left -= run;
      }
      throw new RangeError("the weights do not fill the range of words");
    },
    constant: (law, x, [word], rows, useful) => {
      const n = BigInt(rows * useful), total = 1n << law.get("bits"), share = total / n, extra = total % n;
      const long = extra * (share + 1n);
      return Number(word < long ? word / (share + 1n) : extra + (word - long) / share);
    },
    conditional: (law, x, [word], rows, useful) => {
      let left = word;
      const base = law.get("base")[Math.floor(x / useful)];
      for (const y of range(useful)) {
        if (left < base[y]) return y;
        left -= base[y];
      }
      return x % useful;
    },
    table: (law, x, [word]) => {
      const column = law.get("weights").map((row) => row[x]);
      const buckets = bitLength(column.length - 1), width = law.get("bits") - BigInt(buckets);
      const bucket = Number(word >> width), [threshold, partner] = alias(column, buckets, width)[bucket];
      return low(word, width) < threshold ? bucket : partner;
    },
    layout: (law, x, [word], rows, useful) => {
      const s = Math.floor(x / useful), u = x % useful, lengths = law.get("lengths")[s], heights = law.get("heights")[s];
      let [left, start] = [word, 0n];
      for (const i of range(lengths.length)) {
        const mass = lengths[i] * heights[i][u];
        if (left < mass) return cuts(law).filter((end) => end <= start + left / heights[i][u]).length;
        left -= mass;
        start += lengths[i];
      }
      throw new RangeError("the atoms do not fill the range of words");
    },
    blocks: (law, x, [word], rows, useful) => {
      const s = Math.floor(x / useful), points = space(Number(law.get("order")), useful), q = Number(law.get("order"));
      const [inside, outside, other] = ["inside", "outside", "other"].map((name) => law.get(name));
      const own = points[x % useful], holds = points.map((h) => h.reduce((sum, b, i) => sum + b * own[i], 0) % q === 0);
      const members = [true, false].map((side) => range(points.length).filter((h) => holds[h] === side));
      const runs = [BigInt(members[0].length) * inside, BigInt(members[1].length) * outside];
      if (word < runs[0]) return s * points.length + members[0][Number(word / inside)];
      if (word < runs[0] + runs[1]) return s * points.length + members[1][Number((word - runs[0]) / outside)];
      const rest = Number((word - runs[0] - runs[1]) / other);
      return rest + (Math.floor(rest / points.length) >= s ? points.length : 0);
    },
    unary: (law, x, words) => words.map((word, z) => (word < law.get(z === x ? "on" : "off") ? "1" : "0")).join(""),
  };

  // Walker's alias table in integers: bucket i keeps i below its threshold and gives the rest to one partner.
  function alias(weights, buckets, width) {
    const size = 2 ** buckets, room = 1n << width, most = 1n << 48n;
    const left = range(size).map((i) => (i < weights.length ? weights[i] : 0n));
    const entries = range(size).map((i) => [room < most ? room : room - 1n, i]);
    const small = range(size).filter((i) => left[i] < room), large = range(size).filter((i) => left[i] > room);
    while (small.length) {
      const i = small.pop(), j = large[large.length - 1];
      entries[i] = [left[i], j];
      left[j] -= room - left[i];
      if (left[j] <= room) {
        large.pop();
        if (left[j] < room) small.push(j);
      }
    }
    return entries;
  }

  // The ends of the outputs of a layout: cuts of all secrets together.
  function cuts(law) {
    const ends = new Set();
    for (const lengths of law.get("lengths")) lengths.reduce((end, x) => { ends.add(end + x); return end + x; }, 0n);
    return [...ends].sort((a, b) => (a < b ? -1 : 1));
  }

  // Points of the smallest projective space over GF(q) with `useful` points or more, in lexicographic order.
  function space(q, useful) {
    let size = 2;
    while ((q ** size - 1) / (q - 1) < useful) size += 1;
    const digits = (i) => range(size).map((k) => Math.floor(i / q ** (size - 1 - k)) % q);
    return range(q ** size).map(digits).filter((v) => (v.find((d) => d) || 0) === 1);
  }

  // What a mechanism reads: the sizes of its columns, and how many random words of 64 bits one answer takes.
  function shape(mechanism) {
    const sizes = (name) => mechanism.get(name).map((column) => column.get("labels").length);
    const rows = mechanism.get("reads") === "both" ? product(sizes("secret")) : 1, useful = product(sizes("useful"));
    return { rows, useful, words: mechanism.get("law").get("kind") === "unary" ? rows * useful : 1 };
  }

  function draw(mechanism, x, words) {
    const law = mechanism.get("law"), { rows, useful } = shape(mechanism), kind = law.get("kind");
    if (!Object.hasOwn(DRAWS, kind)) throw new RangeError(`this page does not draw from a law of kind ${kind}`);
    return DRAWS[kind](law, x, words.map((word) => low(word, law.get("bits"))), rows, useful);
  }

  // The inputs for which an output is drawn most often, for people: the cell, the members of a set, the peaks of a row.
  function meaning(mechanism, output) {
    const law = mechanism.get("law"), { rows, useful } = shape(mechanism), kind = law.get("kind");
    if (kind === "unary") return range(rows * useful).filter((x) => output[x] === "1");
    if (["cells", "constant"].includes(kind)) return [output];
    if (kind === "blocks") {
      const q = Number(law.get("order")), points = space(q, useful), s = Math.floor(output / points.length);
      const block = points[output % points.length];
      return range(useful).filter((u) => block.reduce((sum, b, i) => sum + b * points[u][i], 0) % q === 0).map((u) => s * useful + u);
    }
    const row = kind === "table" ? law.get("weights")[output] : kind === "layout" ? heightsAt(law, output) : conditionalRow(law, output);
    const most = row.reduce((a, b) => (b > a ? b : a)); // sealing leaves peaks of one height a little apart
    return range(row.length).filter((x) => (row[x] << 20n) + row[x] >= most << 20n);
  }

  function heightsAt(law, output) {
    const start = output ? cuts(law)[output - 1] : 0n;
    return law.get("lengths").flatMap((lengths, s) => {
      let end = 0n;
      const atom = lengths.findIndex((x) => (end += x) > start);
      return law.get("heights")[s][atom];
    });
  }

  const conditionalRow = (law, y) => law.get("base").flatMap((base, s) => base.map((_, u) => base[y] + (u === y ? law.get("keep")[s] : 0n)));

  home.sfumatoSampler = { draw, shape, meaning, kinds: Object.keys(DRAWS) };
  if (typeof module !== "undefined" && module.exports) module.exports = home.sfumatoSampler;
})(globalThis);
