// QR codes (ISO/IEC 18004) of short texts: bytes, error correction M, versions 1 to 20. matrix(text) is rows of booleans.
"use strict";

(function (home) {
  const EACH = [0, 10, 16, 26, 18, 24, 16, 18, 22, 22, 26, 30, 22, 22, 24, 24, 28, 28, 26, 26, 26]; // correction words a block
  const BLOCKS = [0, 1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 8, 9, 9, 10, 10, 11, 13, 14, 16];
  const MASKS = [
    (r, c) => (r + c) % 2, (r) => r % 2, (r, c) => c % 3, (r, c) => (r + c) % 3, (r, c) => (Math.floor(r / 2) + Math.floor(c / 3)) % 2,
    (r, c) => ((r * c) % 2) + ((r * c) % 3), (r, c) => (((r * c) % 2) + ((r * c) % 3)) % 2, (r, c) => (((r + c) % 2) + ((r * c) % 3)) % 2,
  ];
  const range = (n) => Array.from({ length: n }, (_, i) => i);

  // Words of data and correction that fit a version: modules that belong to no pattern, in bytes.
  function room(version) {
    const lines = version > 1 ? Math.floor(version / 7) + 2 : 0;
    const patterns = version > 1 ? (25 * lines - 10) * lines - 55 : 0;
    return Math.floor(((16 * version + 128) * version + 64 - patterns - (version > 6 ? 36 : 0)) / 8);
  }
  const capacity = (version) => room(version) - EACH[version] * BLOCKS[version];

  const times = (a, b) => { // in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1
    let out = 0;
    for (let i = 7; i >= 0; i -= 1) out = ((out << 1) ^ ((out >> 7) * 0x11d)) ^ (((b >> i) & 1) * a);
    return out;
  };
  function generator(degree) {
    const out = range(degree).map((i) => (i === degree - 1 ? 1 : 0));
    let root = 1;
    for (let k = 0; k < degree; k += 1) {
      for (let i = 0; i < degree; i += 1) out[i] = times(out[i], root) ^ (i + 1 < degree ? out[i + 1] : 0);
      root = times(root, 2);
    }
    return out;
  }
  function remainder(data, divisor) {
    const out = divisor.map(() => 0);
    for (const byte of data) {
      const factor = byte ^ out.shift();
      out.push(0);
      divisor.forEach((d, i) => { out[i] ^= times(d, factor); });
    }
    return out;
  }

  // Mode, length, bytes, padding; then blocks with their correction, interleaved.
  function codewords(bytes, version) {
    const bits = [], put = (value, n) => { for (let i = n - 1; i >= 0; i -= 1) bits.push((value >> i) & 1); };
    put(4, 4);
    put(bytes.length, version < 10 ? 8 : 16);
    bytes.forEach((b) => put(b, 8));
    const space = capacity(version) * 8;
    put(0, Math.min(4, space - bits.length));
    while (bits.length % 8) bits.push(0);
    for (let pad = 0xec; bits.length < space; pad ^= 0xfd) put(pad, 8);
    const data = range(space / 8).map((i) => parseInt(bits.slice(8 * i, 8 * i + 8).join(""), 2));
    const count = BLOCKS[version], short = Math.floor(room(version) / count) - EACH[version], longer = room(version) % count;
    const divisor = generator(EACH[version]);
    let at = 0;
    const blocks = range(count).map((i) => {
      const own = data.slice(at, (at += short + (i >= count - longer ? 1 : 0)));
      return [own, remainder(own, divisor)];
    });
    const woven = (side, n) => range(n).flatMap((i) => blocks.map((b) => b[side][i]).filter((x) => x !== undefined));
    return [...woven(0, short + 1), ...woven(1, EACH[version])];
  }

  function drawing(version) {
    const size = 17 + 4 * version, dark = range(size).map(() => Array(size).fill(false)), fixed = range(size).map(() => Array(size).fill(false));
    const set = (r, c, on) => { if (r >= 0 && c >= 0 && r < size && c < size) { dark[r][c] = Boolean(on); fixed[r][c] = true; } };
    for (let i = 0; i < size; i += 1) { set(6, i, i % 2 === 0); set(i, 6, i % 2 === 0); }
    for (const [y, x] of [[3, 3], [3, size - 4], [size - 4, 3]]) {
      for (let dr = -4; dr <= 4; dr += 1) for (let dc = -4; dc <= 4; dc += 1) {
        const ring = Math.max(Math.abs(dr), Math.abs(dc));
        set(y + dr, x + dc, ring !== 2 && ring !== 4);
      }
    }
    const lines = version > 1 ? Math.floor(version / 7) + 2 : 0;
    const step = Math.ceil((version * 4 + 4) / (lines * 2 - 2)) * 2;
    const places = range(lines).map((i) => (i === 0 ? 6 : size - 7 - (lines - 1 - i) * step));
    for (const r of places) for (const c of places) {
      if ((r === 6 && c === 6) || (r === 6 && c === size - 7) || (r === size - 7 && c === 6)) continue;
      for (let dr = -2; dr <= 2; dr += 1) for (let dc = -2; dc <= 2; dc += 1) set(r + dr, c + dc, Math.max(Math.abs(dr), Math.abs(dc)) !== 1);
    }
    if (version > 6) {
      let rest = version;
      for (let i = 0; i < 12; i += 1) rest = (rest << 1) ^ ((rest >> 11) * 0x1f25);
      const bits = (version << 12) | rest;
      for (let i = 0; i < 18; i += 1) {
        const a = size - 11 + (i % 3), b = Math.floor(i / 3);
        set(a, b, (bits >> i) & 1);
        set(b, a, (bits >> i) & 1);
      }
    }
    return { size, dark, fixed, set };
  }

  function format(board, mask) {
    let rest = mask; // correction M is 00
    for (let i = 0; i < 10; i += 1) rest = (rest << 1) ^ ((rest >> 9) * 0x537);
    const bits = ((mask << 10) | rest) ^ 0x5412, bit = (i) => (bits >> i) & 1, n = board.size;
    for (let i = 0; i < 6; i += 1) board.set(i, 8, bit(i));
    board.set(7, 8, bit(6)); board.set(8, 8, bit(7)); board.set(8, 7, bit(8));
    for (let i = 9; i < 15; i += 1) board.set(8, 14 - i, bit(i));
    for (let i = 0; i < 8; i += 1) board.set(8, n - 1 - i, bit(i));
    for (let i = 8; i < 15; i += 1) board.set(n - 15 + i, 8, bit(i));
    board.set(n - 8, 8, 1);
  }

  function fill(board, words) {
    let i = 0;
    for (let right = board.size - 1; right > 0; right -= 2) {
      if (right === 6) right = 5;
      for (let k = 0; k < board.size; k += 1) for (const c of [right, right - 1]) {
        const r = ((right + 1) & 2) === 0 ? board.size - 1 - k : k;
        if (board.fixed[r][c]) continue;
        board.dark[r][c] = i < words.length * 8 && ((words[i >> 3] >> (7 - (i & 7))) & 1) === 1;
        i += 1;
      }
    }
  }

  const masked = (board, mask) => board.dark.map((row, r) => row.map((on, c) => (board.fixed[r][c] ? on : on !== (MASKS[mask](r, c) === 0))));

  // What makes a code hard to read: long runs, squares, look-alikes of the corners, too much of one colour.
  function penalty(rows) {
    const n = rows.length, columns = range(n).map((c) => rows.map((row) => row[c]));
    let [bad, on] = [0, 0];
    for (const line of [...rows, ...columns]) {
      const text = line.map((x) => (x ? "1" : "0")).join("");
      for (const [run] of text.matchAll(/0{5,}|1{5,}/g)) bad += run.length - 2;
      for (let i = 0; i + 11 <= n; i += 1) if (["10111010000", "00001011101"].includes(text.slice(i, i + 11))) bad += 40;
    }
    for (let r = 0; r < n; r += 1) for (let c = 0; c < n; c += 1) {
      on += rows[r][c];
      if (r + 1 < n && c + 1 < n && rows[r][c] === rows[r][c + 1] && rows[r][c] === rows[r + 1][c] && rows[r][c] === rows[r + 1][c + 1]) bad += 3;
    }
    return bad + 10 * Math.floor(Math.abs(20 * on - 10 * n * n) / (n * n));
  }

  function matrix(text, wanted = null) {
    const bytes = [...new TextEncoder().encode(text)];
    const version = range(21).find((v) => v && capacity(v) >= bytes.length + (v < 10 ? 2 : 3));
    if (!version) throw new RangeError("the text is too long for a QR code");
    const drawn = MASKS.map((_, mask) => {
      const board = drawing(version);
      format(board, mask);
      fill(board, codewords(bytes, version));
      return masked(board, mask);
    });
    if (wanted !== null) return drawn[wanted];
    const scores = drawn.map(penalty);
    return drawn[scores.indexOf(Math.min(...scores))];
  }

  home.sfumatoQR = { matrix };
  if (typeof module !== "undefined" && module.exports) module.exports = home.sfumatoQR;
})(globalThis);
