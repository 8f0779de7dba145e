"""Wrong files: honest ones with a field changed and a checksum that is right again; and an oracle that owns its truth.

The oracle reads the document alone and knows nothing of the kernel: it expands the law into rationals by the words of
docs/mechanism-file.md and looks for one distribution of the claimed set at which a claim fails.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import itertools
import json
import math
import random
from fractions import Fraction

GREAT = (0, 1, -1, 2, 61, 62, 63, 64, 2**31, 2**53, 2**53 + 1, 2**60, 2**61, 2**62, 2**62 + 1, 2**63, 2**64, 10**30)
REAL = (0.0, 1e-300, 1e-12, 1e-6, 0.01, 0.5, 0.999, 1.0, 2.0, 30.0, 709.9, 1e6, 1e308, -1.0, math.nan, math.inf)
WORDS = ("", "both", "useful", "ldp", "rldp", "lip", "pml", "mi", "leakage", "exactly", "anything", "chi-square-ball",
         "renyi-ball", "polytope", "custom", "asymptotic", "exact", "bootstrap", "trust me", "cell", "symbol", "inf",
         "nothing", "tables", "star", "tree", "a\x00b", "=cmd|x", "\u2028")


def sealed(document):
    """The bytes of a document, with the checksums that belong to them, of its parts too."""
    document = {k: v for k, v in document.items() if k != "checksum"}
    if isinstance(document.get("parts"), list):
        document["parts"] = [json.loads(sealed(p)) if isinstance(p, dict) else p for p in document["parts"]]
    bare = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    comma = b"," if document else b""
    return bare[:-1] + comma + b'"checksum":"sha256:' + hashlib.sha256(bare).hexdigest().encode() + b'"}'


def places(node, path=()):
    """Every place in a document."""
    yield path
    if isinstance(node, dict):
        for key in node:
            yield from places(node[key], (*path, key))
    elif isinstance(node, list):
        for i in range(len(node)):
            yield from places(node[i], (*path, i))


def mutated(document, rng):
    """A document with one to three changes."""
    return mutate(copy.deepcopy(document), rng)


def mutate(document, rng):
    for _ in range(rng.choice((1, 1, 2, 3))):
        how = rng.choices((shifted, claimed, changed), (0.35, 0.15, 0.5))[0]
        with contextlib.suppress(LookupError, TypeError, ValueError, AttributeError):  # an earlier change took it away
            how(document, rng)
    return document


def changed(document, rng):
    """Any field to any value."""
    path = rng.choice([p for p in places(document) if p])
    node = document
    for key in path[:-1]:
        node = node[key]
    old = node[path[-1]]
    choice = rng.random()
    if choice < 0.08:
        del node[path[-1]]
    elif choice < 0.12 and isinstance(node, dict):
        node[rng.choice(("also", "kind", "bits", "extra", "claim"))] = copy.deepcopy(old)
    elif choice < 0.16:
        for _ in range(rng.choice((3, 50, 150))):
            old = [old]
        node[path[-1]] = old
    elif isinstance(old, bool) or old is None:
        node[path[-1]] = rng.choice((None, 0, "x", []))
    elif isinstance(old, int):
        node[path[-1]] = rng.choice((*GREAT, old + 1, old - 1, 2 * old, old // 2, -old, float(old)))
    elif isinstance(old, float):
        node[path[-1]] = rng.choice((*REAL, old / 2, old * 2, old - 1e-9, -old, str(old)))
    elif isinstance(old, str):
        node[path[-1]] = rng.choice((*WORDS, old + "x"))
    elif isinstance(old, list):
        node[path[-1]] = rng.choice((lambda: old + old[:1], lambda: old[1:], lambda: old[::-1], list,
                                     lambda: [list(x) for x in zip(*old, strict=False)] if old and isinstance(old[0], list)
                                     else old + old))()
    else:
        node[path[-1]] = {}


def shifted(document, rng):
    """Weights that still sum as they must."""
    law = document.get("law") or rng.choice(document["parts"])["law"]
    if law["kind"] == "product":
        law = rng.choice(law["parts"])["law"]
    kind, d, total = law["kind"], rng.choice((1, 2**20, 2**40, 2**58)), 1 << min(law["bits"], 200)
    if kind == "table":
        a, b = rng.sample(law["weights"], 2)
        x = rng.randrange(len(a))
        d = min(d, a[x]) if rng.random() < 0.7 else a[x]
        a[x], b[x] = a[x] - d, b[x] + d
    elif kind == "conditional":
        s = rng.randrange(len(law["keep"]))
        y = rng.randrange(len(law["base"][s]))
        d = min(d, law["base"][s][y])
        law["base"][s][y] -= d
        law["keep"][s] += d
    elif kind == "unary":
        law[rng.choice(("on", "off"))] = rng.choice((0, 1, 2**10, 2**40, law["on"], law["off"], total))
    elif kind == "layout":
        s = rng.randrange(len(law["lengths"]))
        i, j = rng.randrange(len(law["lengths"][s])), rng.randrange(len(law["lengths"][s]))
        for name in ("lengths", "heights"):
            law[name][s][i], law[name][s][j] = law[name][s][j], law[name][s][i]
    elif kind == "cells":
        sizes = [math.prod(len(c["labels"]) for c in document.get(n, [])) for n in ("secret", "useful")]
        r, k = (sizes[0] - 1) * (document.get("reads") == "both"), sizes[1] - 1
        for name in rng.sample(("same_secret", "same_useful", "neither"), 2):
            law[name] = rng.choice((0, 1, law[name] + d, max(0, law[name] - d)))
        law["truth"] = total - k * law["same_secret"] - r * law["same_useful"] - r * k * law["neither"]


def claimed(document, rng):
    """Another promise."""
    if "promise" in document:
        document["promise"]["epsilon"] = rng.choice((0.0, 1e-9, 0.3, 0.999, document["promise"]["epsilon"] / 2))
        return
    claim = document["claim"]
    if rng.random() < 0.5:
        claim["epsilon"] = rng.choice((0.0, 1e-9, claim["epsilon"] * 0.999, claim["epsilon"] / 3))
    elif claim.get("within") and rng.random() < 0.6:
        claim["within"].update(rng.choice(({"radius": 1e-12}, {"confidence": 0.95}, {"kind": "exactly"}, {"radius": 0.0},
                                           {"calibration": "exact"}, {"confidence": 0.95, "radius": 1e-9})))
    else:
        claim["also"] = [*claim.get("also", []), {"notion": "ldp", "epsilon": rng.choice((0.0, 0.1, 100.0))}]


# The oracle.

def channel(law, secrets, sizes):
    """Q[y][s][u] in rationals; raises ValueError for what is no law."""
    rows, total = weights(law, secrets, sizes)
    return [[[Fraction(w, total) for w in s] for s in y] for y in rows]


def weights(law, secrets, sizes):
    """Q[y][s][u] in whole numbers, and what they are parts of."""
    useful, bits = math.prod(sizes), law.get("bits", 0)
    if not (type(bits) is int and 0 <= bits <= 62):
        raise ValueError("bits")
    total, kind = 1 << bits, law["kind"]
    xs = list(itertools.product(range(secrets), range(useful)))
    if kind == "cells":
        def weight(s, u, t, v):
            return law["truth" if (s, u) == (t, v) else "same_secret" if s == t else "same_useful" if u == v else "neither"]
        rows = [[[weight(s, u, t, v) for v in range(useful)] for t in range(secrets)] for s, u in xs]
    elif kind == "table":
        rows = [[w[s * useful:(s + 1) * useful] for s in range(secrets)] for w in law["weights"]]
    elif kind == "constant":
        rows = [[[(total + len(xs) - 1 - y) // len(xs)] * useful] * secrets for y in range(len(xs))]
    elif kind == "conditional":
        rows = [[[law["base"][s][y] + (law["keep"][s] if u == y else 0) for u in range(useful)] for s in range(secrets)]
                for y in range(useful)]
    elif kind == "unary":
        def bit(inside, own):
            p = law["on"] if own else law["off"]
            return p if inside else total - p
        rows = [[[math.prod(bit(y >> i & 1, i == s * useful + u) for i in range(len(xs))) for u in range(useful)]
                 for s in range(secrets)] for y in range(2 ** len(xs))]
        total **= len(xs)
    elif kind == "layout":
        ends = [list(itertools.accumulate(x)) for x in law["lengths"]]
        cuts = sorted({e for x in ends for e in x})
        rows = [[[(b - a) * h for h in law["heights"][s][sum(e <= a for e in ends[s])]] for s in range(secrets)]
                for a, b in itertools.pairwise([0, *cuts])]
    elif kind == "blocks":
        q, m = law["order"], 2
        while (q**m - 1) // (q - 1) < useful:
            m += 1
        points = [v for v in itertools.product(range(q), repeat=m) if any(v) and next(x for x in v if x) == 1]
        rows = [[[law["other"] if t != s else
                  law["outside" if sum(a * b for a, b in zip(block, points[u], strict=True)) % q else "inside"]
                  for u in range(useful)] for t in range(secrets)] for s in range(secrets) for block in points]
    else:
        return product_weights(law, secrets, sizes)
    if any(w < 0 for y in rows for s in y for w in s):
        raise ValueError("negative")
    if any(sum(y[s][u] for y in rows) != total for s, u in xs):
        raise ValueError("sums")
    return rows, total


def product_weights(law, secrets, sizes):
    joint, total = [[[1] * math.prod(sizes) for _ in range(secrets)]], 1
    digits = list(itertools.product(*(range(k) for k in sizes)))
    for part in law["parts"]:
        inner = tuple(sizes[c] for c in part["columns"])
        own, whole = weights(part["law"], secrets if part["reads"] == "both" else 1, inner)
        codes = [sum(d[c] * math.prod(inner[i + 1:]) for i, c in enumerate(part["columns"])) for d in digits]
        lifted = [[[y[s if len(y) > 1 else 0][u] for u in codes] for s in range(secrets)] for y in own]
        for _ in range(part.get("times", 1)):
            joint = [[[a * b for a, b in zip(r, q, strict=True)] for r, q in zip(x, y, strict=True)]
                     for x, y in itertools.product(joint, lifted)]
            total *= whole
    return joint, total


def quotient(a, b):
    return Fraction(1) if not a and not b else math.inf if not b else Fraction(a) / b


def apart(first, second):
    """(a/m) / (b/n) of two pairs of whole numbers."""
    (a, m), (b, n) = first, second
    return quotient(a * n, b * m)


def whole(p):
    """A distribution in rationals as whole numbers in proportion."""
    scale = math.lcm(*(Fraction(x).denominator for row in p for x in row))
    return [[int(x * scale) for x in row] for row in p]


def realised(q, p, notion, sizes):
    """The worst ratio of a notion at one distribution p[s][u]; rows q and p are in proportion, not in parts of 1."""
    p = whole(p)
    mass = [sum(row) for row in p]
    seen = [s for s, m in enumerate(mass) if m]
    known = [()] if notion != "srlip" else [
        j for r in range(len(sizes)) for j in itertools.combinations(range(len(sizes)), r)]
    digits = list(itertools.product(*(range(k) for k in sizes)))
    worst = Fraction(1)
    for y, j in itertools.product(q, known):
        for at in {tuple(d[i] for i in j) for d in digits}:
            us = [u for u, d in enumerate(digits) if tuple(d[i] for i in j) == at]
            here = {s: sum(p[s][u] for u in us) for s in seen}
            laws = [(sum(p[s][u] * y[s if len(y) > 1 else 0][u] for u in us), here[s]) for s in seen if here[s]]
            if not laws:
                continue
            top, low = (pick(laws, key=lambda x: Fraction(*x)) for pick in (max, min))
            if notion == "rldp":
                worst = max(worst, apart(top, low))
                continue
            mean = sum(n for n, _ in laws), sum(m for _, m in laws)
            worst = max(worst, apart(top, mean))
            if notion != "pml":  # the upper half of lip
                worst = max(worst, apart(mean, low))
    return worst


def members(document, within, rng):
    """Distributions of the claimed set: the centre, and some near its edge, all surely inside."""
    design = document["design"]
    given = design.get("counts") or design["probabilities"]
    total = sum(Fraction(x) for row in given for x in row)
    centre = [[Fraction(x) / total for x in row] for row in given]
    kind, s, u = within["kind"], len(centre), len(centre[0])
    if kind == "exactly":
        return [centre]
    if kind == "polytope":
        vertices = [[[Fraction(x) for x in row] for row in v] for v in within["vertices"]]
        mixed = [[[sum(w * v[i][k] for w, v in zip(ws, vertices, strict=True)) for k in range(u)] for i in range(s)]
                 for ws in ([Fraction(rng.randrange(1, 9)) for _ in vertices] for _ in range(3))]
        return vertices + mixed
    if kind == "anything":
        return [[[Fraction(k == (a if i == 0 else b), s) for k in range(u)] for i in range(s)]
                for a, b in itertools.product(range(u), repeat=2)] + [centre]
    out = [centre]
    alpha = within.get("alpha", 2) if kind == "renyi-ball" else 2
    for _ in range(6):
        tilt = [[math.exp(rng.choice((-4, -1, 0, 1, 4)) * rng.random()) for _ in range(u)] for _ in range(s)]
        for scale in (1.0, 0.5, 0.2, 0.05, 0.01):
            raw = [[c * Fraction(t**scale) for c, t in zip(row, ts, strict=True)] for row, ts in zip(centre, tilt, strict=True)]
            norm = sum(map(sum, raw))
            p = [[x / norm for x in row] for row in raw]
            if divergence(centre, p, alpha, kind) < within["radius"] * (1 - 1e-6) - 1e-12:
                out.append(p)
                break
    return out


def divergence(q, p, alpha, kind):
    pairs = [(float(a), float(b)) for x, y in zip(q, p, strict=True) for a, b in zip(x, y, strict=True) if a]
    if kind == "chi-square-ball":
        return sum(a * a / b for a, b in pairs) - 1
    if abs(alpha - 1) < 1e-9:
        return sum(a * math.log(a / b) for a, b in pairs)
    logs = [alpha * math.log(a) + (1 - alpha) * math.log(b) for a, b in pairs if b]
    if len(logs) < len(pairs):
        return math.inf
    return (max(logs) + math.log(sum(math.exp(x - max(logs)) for x in logs))) / (alpha - 1)


def is_false(document, rng=None):
    """Whether the oracle finds a claim of an accepted document to be false; a reason, or None."""
    rng = rng or random.Random(0)
    if document["format"] == "sfumato/bundle":
        return bundle_is_false(document, rng)
    sizes = tuple(len(c["labels"]) for c in document["useful"])
    secrets = math.prod(len(c["labels"]) for c in document["secret"])
    try:
        q, total = weights(document["law"], secrets if document["reads"] == "both" else 1, sizes)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        return f"no law: {error}"
    left = [document["claim"]]
    while left:
        claim = left.pop()
        left += claim.get("also", [])
        if reason := claim_is_false(document, q, total, claim, sizes, rng):
            return reason
    return None


def claim_is_false(document, q, total, claim, sizes, rng):
    limit = math.exp(min(claim["epsilon"], 700)) * (1 + 1e-12)
    within = claim.get("within")
    if claim["notion"] == "ldp":
        worst = max(quotient(max(map(max, y)), min(map(min, y))) for y in q)
        return f"LDP {worst}" if worst > limit else None
    if claim["notion"] == "leakage":
        through = None if within is None else members(document, within, rng)[0]
        found = leaked(parts_of_one(q, total), through, claim["alpha"], claim["beta"])
        return f"leakage {found}" if found > claim["epsilon"] + 1e-9 else None
    if within.get("confidence") is not None and within["radius"] < 1e-6 and len(q[0][0]) > 1:
        return "a confidence with next to no radius"
    for p in members(document, within, rng):
        if claim["notion"] == "mi":
            found = information(parts_of_one(q, total), p)
            if found > claim["epsilon"] + 1e-12:
                return f"I(S;Y) = {found}"
        elif (worst := realised(q, p, claim["notion"], sizes)) > limit:
            return f"{claim['notion']} {float(worst)} at a member of {within['kind']}"
    return None


def parts_of_one(q, total):
    return [[[w / total for w in s] for s in y] for y in q]


def leaked(q, p, alpha, beta):
    """A lower bound of maximal (α, β)-leakage, at the uniform prior over inputs (or secrets)."""
    alpha, beta = (math.inf if x == "inf" else float(x) for x in (alpha, beta))
    if p is None:
        rows = [[float(w) for s in y for w in s] for y in q]
    else:
        rows = [[float(sum(a * b for a, b in zip(p[s], y[s if len(y) > 1 else 0], strict=True)) / sum(p[s]))
                 for s in range(len(p)) if sum(p[s])] for y in q]
    rows = [r for r in rows if max(r) > 0]
    if math.isinf(alpha) and beta == 1:
        return math.log(sum(map(max, rows)))
    if math.isinf(alpha) and math.isinf(beta):
        return max(math.inf if min(r) == 0 else math.log(max(r) / min(r)) for r in rows)
    if math.isinf(alpha) or math.isinf(beta) or alpha == 1 or any(min(r) == 0 for r in rows):
        return 0.0
    best = 0.0
    means = [alpha * math.log(max(r)) + math.log(sum((v / max(r)) ** alpha for v in r) / len(r)) for r in rows]
    for z in range(len(rows[0])):
        logs = [(1 - beta) * math.log(r[z]) + beta / alpha * mean for r, mean in zip(rows, means, strict=True)]
        total = max(logs) + math.log(sum(math.exp(x - max(logs)) for x in logs))
        best = max(best, alpha / ((alpha - 1) * beta) * total)
    return best


def information(q, p):
    ps, total = [float(sum(row)) for row in p], 0.0
    for y in q:
        joint = [float(sum(a * b for a, b in zip(p[s], y[s if len(y) > 1 else 0], strict=True))) for s in range(len(p))]
        total += sum(j * math.log(j / (m * sum(joint))) for j, m in zip(joint, ps, strict=True) if j)
    return total


def bundle_is_false(document, rng):
    """Under 'nothing': the product, or the greatest, of what each part allows any distribution; where parts are about the
    secret and independent given it, or answered in turn, of what they tell of a pair of secrets somewhere in their sets."""
    secrets, assuming = math.prod(len(c["labels"]) for c in document["secret"]), document["promise"]["assuming"]
    limit = math.exp(min(document["promise"]["epsilon"], 700)) * (1 + 1e-12)
    pairs, each = list(itertools.permutations(range(secrets), 2)), []
    for part in document["parts"]:
        sizes = tuple(len(c["labels"]) for c in part["useful"])
        try:
            q, _ = weights(part["law"], secrets if part["reads"] == "both" else 1, sizes)
        except (ValueError, IndexError, KeyError, TypeError) as error:
            return f"no law: {error}"
        if part.get("claim") and (reason := is_false(part, rng)):
            return f"in a part: {reason}"
        if assuming == "nothing":
            each.append([max(quotient(max(y[s if len(y) > 1 else 0]), min(y[t if len(y) > 1 else 0])) for y in q) for s, t in pairs])
        elif part["secret"] == document["secret"]:
            found = [whole(p) for p in members(part, part["claim"]["within"], rng)]
            each.append([max([told(y, p, s, t) for y in q for p in found if sum(p[s]) and sum(p[t])], default=Fraction(1)) for s, t in pairs])
    together = max if document.get("turns") else math.prod
    worst = max(together(ratios) for ratios in zip(*each, strict=True)) if each else 1
    return f"a bundle at {worst}" if worst > limit else None


def told(y, p, s, t):
    """P(y|s) / P(y|t)."""
    return apart(*((sum(map(int.__mul__, p[a], y[a if len(y) > 1 else 0])), sum(p[a])) for a in (s, t)))
