"""What Spark must release, by the definition: row by row, in plain Python."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pyarrow as pa
from tests.test_placed import by_hand, digest_by_hand, place_by_hand

from sfumato.drawing.randomness import Stream


def multiset(table) -> Counter:
    table = table if isinstance(table, pa.Table) else table.toArrow()
    return Counter(map(json.dumps, ([str(x) for x in row.values()] for row in table.to_pylist())))


def words_of_place(key, place, copy, width, lane=0):
    return [w for b in range(-(-width // 2)) for w in by_hand(place, copy, lane, b, key)][:width]


def spelled(value):
    return value.to_bytes(8, "little", signed=True) if isinstance(value, int) else value.encode()


def expected(mechanism, table, seed, names=None, *, of_files=False) -> Counter:
    """The released multiset by the definition, row by row: number the equal rows, look up the words, draw."""
    key, seen, out = Stream.of(seed).key, Counter(), Counter()
    for number, row in enumerate(table.to_pylist()):
        name = digest_by_hand([spelled(row[n]) for n in names], key=key) if names else None
        name = digest_by_hand([spelled(number)], "numbers", key=key) if of_files else name
        code = mechanism.useful.code(row["town"])
        code += mechanism.secret.code(row["ill"]) * mechanism.useful.size if mechanism.reads == "both" else 0
        place = place_by_hand(name, [code], key)
        words = words_of_place(key, place, seen[place], mechanism.law.words)
        seen[place] += 1
        drawn = mechanism.law.draw(np.array([code]), np.array([words], np.uint64))[0]
        answer = "".join(map(str, drawn)) if mechanism.law.meaning == "subset" else mechanism.answer(drawn)
        flat = answer if isinstance(answer, tuple) else (answer,)
        out[json.dumps([*(str(row[n]) for n in names or ()), *map(str, flat)])] += 1
    return out


def bundled(table, names, seed, bundle, name=lambda row: None) -> Counter:
    """The released multiset of a bundle by the definition, row by row."""
    from sfumato.drawing.sampling import words_of
    from sfumato.mechanism.bundle import answer_labels

    key, seen, out = Stream.of(seed).key, Counter(), Counter()
    for row in table.to_pylist():
        codes = {n: bundle.secret.code(row[n]) if n in bundle.secret.names else bundle.useful.columns[bundle.useful.names.index(n)].code(row[n]) for n in names}
        sizes = [c.size for c in (*bundle.secret.columns, *bundle.useful.columns)]
        place = int(np.ravel_multi_index([codes[n] for n in names], sizes))
        place = place_by_hand(name(row), [place], key)
        words = np.array(words_of_place(key, place, seen[place], words_of(bundle)), np.uint64)
        seen[place] += 1
        turn = int(bundle.drawn_turns(words[:1])[0])
        part = bundle.parts[turn]
        at = np.ravel_multi_index([codes[c.name] for c in bundle.reading(part)], [c.size for c in bundle.reading(part)])
        y = part.law.draw(np.array([at]), words[1:].reshape(1, 1))[0]
        out[json.dumps([bundle.names[turn], str(answer_labels(part)[y])])] += 1
    return out
