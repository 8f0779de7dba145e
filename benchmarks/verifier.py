"""Figures of the verifier: python benchmarks/verifier.py lines | table | forge N | agree N | time BEFORE.

BEFORE is the checkout of an earlier version: `verify` of both is timed on the same files, in one run, in turn.
"""

from __future__ import annotations

import ast
import contextlib
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

HOME = Path(__file__).parents[1]
sys.path[:0] = [str(HOME), str(HOME / "src")]
ROUNDS = 5
TRACED, KEPT = 50, 6_000  # files of which one is traced; files that are kept to be mutated
CHEAP = 2e-4  # seconds below which files are equally quick
BETTER = 2e-9  # nats by which two proofs over a ball may differ, for what floats suggest to both
SEARCHED = 2e-8  # nats that a law on outputs, searched by steps, may leave of a leakage


def lines() -> None:
    """Lines of the kernel in all, and of code: without blank lines, comments and docstrings."""
    every, code = 0, 0
    for path in sorted((HOME / "src" / "sfumato_kernel").glob("*.py")):
        text = path.read_text()
        docs: set[int] = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
                docs |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        kept = [x for i, x in enumerate(text.splitlines(), 1) if i not in docs]
        own = [x for x in kept if x.strip() and not x.strip().startswith("#")]
        print(f"{path.name:14} {len(text.splitlines()):5} lines {len(own):5} of code")
        every, code = every + len(text.splitlines()), code + len(own)
    print(f"{'in all':14} {every:5} lines {code:5} of code")


def table() -> None:
    """What the kernel does with an honest file of every law, notion and set."""
    from tests import kernel_table, mechanism_files

    print(kernel_table.table(kernel_table.outcomes(mechanism_files.documents())))


def forge(count: int) -> None:
    """Mutated files; one that is accepted although the oracle calls it false ends the run.

    Files are drawn by what they cost, so that quick ones come often; a mutant that makes the verifier say something
    new, or that reaches new lines of it (looked at in one file of TRACED), is mutated again later.
    """
    from tests import forging, mechanism_files

    import sfumato_kernel as kernel

    honest = [d for seed in range(6) for d in mechanism_files.documents(seed)]
    pool = [(json.dumps(d), cost(kernel, forging.sealed(d))) for d in honest]
    seed, seen, start = random.SystemRandom().getrandbits(48), Counter[str](), time.process_time()
    rng, said, reached = random.Random(seed), set[str](), set[tuple[str, int]]()
    print(f"seed {seed}, {len(pool)} honest files", flush=True)
    chosen: list[str] = []
    for i in range(count):
        if i % 20_000 == 0:
            told = f"{len(pool)} files to mutate, {len(reached)} lines, {time.process_time() - start:.0f} s of CPU"
            print(i, dict(seen), told, flush=True)
        if not chosen:
            chosen = rng.choices([text for text, _ in pool], [1 / spent for _, spent in pool], k=1000)
        document = forging.mutate(json.loads(chosen.pop()), rng)
        data = forging.sealed(document)
        before = len(reached)
        with traced(reached) if i % TRACED == 0 else contextlib.nullcontext():
            begun = time.perf_counter()
            answer = verdict_of(kernel, data)
            spent = time.perf_counter() - begun
        kind, _, words = answer.partition(": ")
        seen[kind] += 1
        if kind == "accepted" and (reason := forging.is_false(json.loads(data), rng)) is not None:
            sys.exit(f"file {i}: accepted, but {reason}\n{data.decode()}")
        shape = kind + re.sub(r"[-+\d.e]+|'.*'", "#", words)
        if (shape not in said or len(reached) > before) and len(pool) < KEPT:
            said.add(shape)
            pool.append((json.dumps(document), max(spent, CHEAP)))
    print(f"{count} files, none accepted that is false: {dict(seen)}, {len(reached)} lines of the verifier reached, "
          f"{time.process_time() - start:.0f} s of CPU")


def verdict_of(kernel: Any, data: bytes) -> str:
    try:
        return "accepted: " + "; ".join(kernel.verify(data).proved)
    except kernel.Refused as error:
        return f"{type(error).__name__}: {error}"


def cost(kernel: Any, data: bytes) -> float:
    start = time.perf_counter()
    verdict_of(kernel, data)
    return max(time.perf_counter() - start, CHEAP)


@contextlib.contextmanager
def traced(reached: set[tuple[str, int]]) -> Iterator[None]:
    """The lines of the verifier that run inside."""
    def look(frame: Any, event: str, _: Any) -> Any:
        if "sfumato_kernel" not in frame.f_code.co_filename:
            return None
        reached.add((frame.f_code.co_filename, frame.f_lineno))
        return look

    sys.settrace(look)
    try:
        yield
    finally:
        sys.settrace(None)


def agree(count: int) -> None:
    """Random laws of every kind under every notion and set through the kernel and the fast proof: pairs that take long
    come less often, each at least ROUNDS times. Over Rényi balls the kernel may be closer, never the other way."""
    from tests.mechanism_files import PAIRS, mechanism

    start, costs, apart = time.process_time(), dict.fromkeys(PAIRS, 0.0), Counter[str]()
    costs = {pair: spent for pair, spent in costs.items() if pair[:2] != ("unary", "leakage")}
    todo, seen, worst = list(costs) * ROUNDS, Counter[Any](), 0.0
    for i in range(count):
        pair = todo.pop() if todo else random.choices(list(costs), [seen[p] / c for p, c in costs.items()])[0]
        begun = time.perf_counter()
        made, fast = mechanism(*pair, seed=i)
        slow = kernel_level(made, fast)
        costs[pair], seen[pair] = costs[pair] + time.perf_counter() - begun, seen[pair] + 1
        if slow != fast and slow - fast > (SEARCHED if pair[1] == "leakage" else BETTER):
            sys.exit(f"design {i} {pair}: the kernel proves {slow}, the fast path {fast}")
        if math.isfinite(fast) and fast - slow > BETTER:
            apart[" over a ".join(pair[1:])] += 1
            if pair[2] != "renyi-ball":
                sys.exit(f"design {i} {pair}: the kernel proves {slow}, the fast path only {fast}")
        worst = max(worst, slow - fast if math.isfinite(fast) else 0.0)
        if i % 5_000 == 0:
            print(i, f"{time.process_time() - start:.0f} s of CPU", flush=True)
    print(f"{count} designs, at least {min(seen.values())} of each of {len(seen)} pairs: the kernel is above the fast "
          f"proof by at most {worst:.3g} nats, closer for {dict(apart)}; {time.process_time() - start:.0f} s of CPU")


def kernel_level(made: Any, fast: float) -> float:
    """What the kernel proves of a mechanism; a little less than what the fast path does, if that holds too. P(y|s)/P(y)
    is compared by what RLDP implies: below that both prove levels that they are asked for, and none is the least."""
    from tests.mechanism_files import data

    import sfumato_kernel as kernel
    from sfumato_kernel import verdict
    from sfumato_kernel.exact import exp_below, level

    found = kernel.admitted(data(made))
    claim = found.claims[0]
    if claim["notion"] in ("mi", "leakage"):
        nats = verdict.nats(found, claim)
        return math.inf if nats is None else float(nats)
    asked = math.isfinite(fast) and claim["notion"] not in ("lip", "pml")
    floor = exp_below(max(0.0, fast - 2 * BETTER)) if asked else Fraction(1)
    return level(verdict.bound(found.law, found.table, claim["notion"], claim["within"], floor))


def timed(before: str) -> None:
    """`verify` of an earlier checkout and of this one, in turn, on the same files."""
    import sfumato as sf

    adult, small = sf.datasets.adult("sex", "race"), sf.Joint.from_counts([[7, 10, 3], [26, 57, 9]])
    designs = {
        "srr, adult sex × race": sf.design(sf.ChiSquareBall(adult), 1.0, "srr"),
        "ir, adult sex × race": sf.design(sf.ChiSquareBall(adult), 1.0, "ir"),
        "optimised, 2 × 3": sf.design(sf.ChiSquareBall(small), 1.0),
        "Rényi ball, 2 × 3": sf.design(sf.RenyiBall(small, alpha=1, confidence=0.95), 1.0, "ir"),
        "sue, 2 × 3": sf.design(sf.ChiSquareBall(small), 1.0, "sue"),
    }
    script = ("import sys, time, sfumato as sf\nfor p in sys.argv[1:]:\n sf.verify(p)\n"
              "for p in sys.argv[1:]:\n t = time.process_time(); sf.verify(p); print(time.process_time() - t)")
    with tempfile.TemporaryDirectory() as folder:
        files = [str(d.mechanism.save(Path(folder) / f"{i}.json")) for i, d in enumerate(designs.values())]
        found: dict[str, list[list[float]]] = {"before": [], "now": []}
        whole: dict[str, list[float]] = {"before": [], "now": []}
        for _ in range(ROUNDS):
            for name, home in (("before", before), ("now", str(HOME))):
                start = time.perf_counter()
                out = subprocess.run([sys.executable, "-c", script, *files], capture_output=True, text=True, check=True,
                                     env={**os.environ, "PYTHONPATH": f"{home}/src", "OMP_NUM_THREADS": "1"}).stdout
                whole[name].append(time.perf_counter() - start)
                found[name].append([float(x) for x in out.split()])
    for i, title in enumerate(designs):
        old, new = (min(run[i] for run in found[name]) for name in ("before", "now"))
        print(f"{title:28} {1000 * old:8.1f} ms  {1000 * new:8.1f} ms  ratio {new / old:.2f}")
    print(f"{'process, all twice':28} {min(whole['before']):8.2f} s   {min(whole['now']):8.2f} s   "
          f"ratio {min(whole['now']) / min(whole['before']):.2f}")


if __name__ == "__main__":
    command, *rest = sys.argv[1:] or ["lines"]
    {"lines": lines, "table": table, "forge": lambda: forge(int(rest[0])), "agree": lambda: agree(int(rest[0])),
     "time": lambda: timed(rest[0])}[command]()
