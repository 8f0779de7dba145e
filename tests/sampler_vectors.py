"""Sealed mechanisms of every law a survey page takes, and what Python and JavaScript draw from them for the same words."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import numpy as np

import sfumato as sf
from sfumato.alphabet import Alphabet
from sfumato.mechanism import Blocks, Cells, Conditional, Constant, Layout, Mechanism, Table, Unary
from sfumato.mechanism.file import record_of
from sfumato.mechanism.law import Law, whole_weights

HOME = Path(sf.__file__).parent
SCRIPTS = [HOME.parent / "sfumato_kernel" / "verifier.js", HOME / "survey" / "sampler.js"]
DRAW = """
const fs = require("fs"), [, , vectors] = process.argv;
for (const script of %s) require(script);
const out = JSON.parse(fs.readFileSync(vectors, "utf8")).map(({ file, codes, words }) => {
  const mechanism = sfumatoKernel.parse(file);
  return codes.map((x, i) => sfumatoSampler.draw(mechanism, x, words[i].map(BigInt)));
});
process.stdout.write(JSON.stringify(out));
"""


def node():
    return os.environ.get("SFUMATO_NODE") or shutil.which("node")


def laws(rng, bits, rows=2, useful=3):
    """A random law of every kind, with weights out of 2^bits; each is a single release."""
    x = rows * useful
    q = rng.dirichlet(np.ones(4) * 0.7, size=x).T
    found: list[Law] = [
        Table(whole_weights(q, min(bits, 50)), rows, min(bits, 50)),
        Table(whole_weights(rng.dirichlet(np.ones(9), size=useful).T, min(bits, 52)), 1, min(bits, 52)),
        cells(rng, rows, useful, bits), cells(rng, 1, x, bits), Constant(rows, useful, bits), conditional(rng, rows, useful, bits),
        layout(rng, rows, useful, bits),
        Blocks(rows, useful, 2, 0.3, 0.1, (1 - 0.3 - 0.2) / 3 / (rows - 1)).rounded(max(bits, 6), 0.0),
        Blocks(1, x, 3, 0.15, 0.4 / 9, 0.0).rounded(max(bits, 6), 0.0),
        Unary(rows, useful, int(0.7 * 2**bits), int(0.2 * 2**bits), bits),
    ]
    return found


def cells(rng, rows, useful, bits):
    weights = rng.dirichlet(np.ones(4))
    copies = np.array([1, useful - 1, rows - 1, (rows - 1) * (useful - 1)])
    each = np.where(copies > 0, weights / np.maximum(copies, 1), 0.0)
    return Cells(rows, useful, *(each / (each @ copies)).tolist()).rounded(bits, 0.0)


def conditional(rng, rows, useful, bits):
    parts = rng.dirichlet(np.ones(useful + 1), size=rows)
    return Conditional(parts[:, -1], parts[:, :-1]).rounded(bits, 0.0)


def layout(rng, rows, useful, bits):
    """Whole lengths that sum to 8 units; the last atom, of one unit, takes the words that the others leave."""
    lengths = [np.array([3, 4, 1]), np.array([5, 2, 1])][:rows]
    heights = []
    for x in lengths:
        first = [rng.integers(0, 2**bits // (3 * n), size=useful) for n in x[:2]]
        heights.append(np.stack([*first, 2**bits - first[0] * x[0] - first[1] * x[1]]))
    return Layout(tuple(lengths), tuple(heights), bits)


def mechanism(law):
    secret = Alphabet.named("s", law.rows if law.rows > 1 else 2)
    return Mechanism(law, secret, Alphabet.named("u", law.useful), "both" if law.rows > 1 else "useful")


def vector(law, codes, words):
    """One mechanism with inputs and words, for the script."""
    text = msgspec.json.encode(record_of(mechanism(law))).decode()
    return {"file": text, "codes": codes.tolist(), "words": [[str(w) for w in row] for row in words.tolist()]}


def plain(law, drawn):
    """What Python drew, as the script writes it."""
    if law.kind == "unary":
        return ["".join(map(str, row)) for row in drawn.tolist()]
    return drawn.tolist()


def drawn_in_node(vectors, folder):
    """What the script draws for each vector."""
    script, data = folder / "draw.js", folder / "vectors.json"
    script.write_text(DRAW % json.dumps([str(s) for s in SCRIPTS]))
    data.write_text(json.dumps(vectors))
    done = subprocess.run([node(), str(script), str(data)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
