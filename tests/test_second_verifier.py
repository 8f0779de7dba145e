"""The verifier in JavaScript reaches the verdicts of the kernel on every shared file, in node or in a browser."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from tests import chromium, forging, kernel_vectors

import sfumato_kernel as kernel
from sfumato.joint import SAMPLER

SCRIPT = Path(kernel.__file__).with_name("verifier.js")
VECTORS = json.loads(kernel_vectors.HERE.read_text())
ALL = "(async () => { const out = []; for (const text of files) out.push((await sfumatoVerify(text)).proved); show(JSON.stringify(out)); })()"
BAD = ["", "[]", "null", '{"format":', "{" * 10, '{"a":1,"a":2}', "[" * 100_000, '{"x":' + "9" * 10_000 + "}", '{"x":NaN}']


ENGINES = {"node": os.environ.get("SFUMATO_NODE") or shutil.which("node"), "chromium": chromium.path()}


@pytest.fixture(params=ENGINES)
def answers(request, tmp_path):
    """What the script says to each of some texts, in an engine; a machine with neither skips both."""
    program = ENGINES[request.param]
    if program is None:
        pytest.skip(chromium.ABSENT if request.param == "chromium" else "no node on this machine (or set SFUMATO_NODE)")
    return lambda files: _in_node(program, files, tmp_path) if request.param == "node" else _in_browser(program, files, tmp_path)


def _in_node(program, files, tmp_path):
    page = tmp_path / "all.js"
    page.write_text(f"require({json.dumps(str(SCRIPT))}); const files = {json.dumps(files)}; const show = console.log; {ALL}")
    return json.loads(subprocess.run([program, str(page)], capture_output=True, text=True, check=True).stdout)


def _in_browser(program, files, tmp_path):
    page = tmp_path / "all.html"
    body = f"const files = {json.dumps(files)};".replace("<", "\\u003c")
    page.write_text(f"<pre id=o></pre><script>{SCRIPT.read_text()}</script><script>{body} const show = (x) => {{ o.textContent = x; }}; {ALL}</script>")
    done = subprocess.run([program, *chromium.ARGUMENTS, f"--user-data-dir={tmp_path / 'profile'}", "--headless", "--virtual-time-budget=20000",
                           "--dump-dom", page.as_uri()], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.split('<pre id="o">')[1].split("</pre>")[0])


def test_the_vectors_are_what_the_kernel_says():
    assert [kernel_vectors.verdict(v["file"].encode()) for v in VECTORS] == [v["proved"] for v in VECTORS]
    assert 100 < sum(v["proved"] for v in VECTORS) < len(VECTORS) - 100


def test_both_verifiers_reach_the_same_verdicts(answers):
    assert answers([v["file"] for v in VECTORS]) == [v["proved"] for v in VECTORS]


def test_what_is_no_mechanism_file_is_refused_by_both(answers):
    spoilt = [VECTORS[0]["file"].replace("62", "61", 1), VECTORS[0]["file"].replace("sha256:", "sha256:0")]
    assert not any(answers([*BAD, *spoilt, *_overdone()]))
    assert not any(kernel_vectors.verdict(x.encode()) for x in [*BAD, *spoilt, *_overdone()])


def test_what_was_paid_for_labels_is_read_by_both(answers):
    """Without counts no part of it went to counts, and with counts some did."""
    honest = json.loads(next(v["file"] for v in VECTORS if v["proved"] and '"cells"' in v["file"] and '"ldp"' in v["file"]))
    s, u = (len(honest[side][0]["labels"]) for side in ("secret", "useful"))
    noise = {"epsilon": 0.2, "rows": s * u, "counts": 0.0, "sampler": SAMPLER}
    even, counts = {"probabilities": [[1 / (s * u)] * u] * s}, {"counts": [[1] * u] * s}
    designs = [{"source": "public", **data, "noise": {**noise, "counts": part}}
               for data, part in ((even, 0.0), (counts, 0.1), (even, 0.1), (counts, 0.0))]
    told = {"source": "public", **counts, "noise": {**noise, "counts": 0.1}}
    designs += [{**told, "noise": {**told["noise"], **x}} for x in ({"rows": s * u + 1}, {"sampler": "exact: proved, ε_d = 0"})]
    designs += [{"source": "public", **even, "n": s * u + 1, "noise": noise}]
    files = [forging.sealed({**honest, "version": 2, "design": x}).decode() for x in designs]

    assert answers(files) == [kernel_vectors.verdict(x.encode()) for x in files] == [True, True, *[False] * 5]


def _overdone():
    """Honest files with more than a file may have: a field, a claim, a claim in a claim, a product in a product."""
    honest = json.loads(next(v["file"] for v in VECTORS if v["proved"] and '"cells"' in v["file"] and '"ldp"' in v["file"]))
    claim = {"notion": "ldp", "epsilon": 1e6}
    deep = claim
    for _ in range(9):
        deep = {**claim, "also": [deep]}
    part = {"law": honest["law"], "columns": [0], "reads": honest["reads"]}
    nested = {"kind": "product", "parts": [{**part, "law": {"kind": "product", "parts": [part]}}]}
    changes = ({"law": {**honest["law"], "note": 1}}, {"claim": {**claim, "also": [claim] * 16}}, {"claim": deep}, {"law": nested},
               {"claim": {**claim, "kappa": 1.0}})
    return [forging.sealed({**honest, **change}).decode() for change in changes]


def test_ten_megabytes_are_answered_within_seconds(tmp_path):
    engines = [(run, ENGINES[name]) for name, run in (("node", _in_node), ("chromium", _in_browser)) if ENGINES[name]]
    if not engines:
        pytest.skip(chromium.ABSENT)
    start = time.perf_counter()
    assert engines[0][0](engines[0][1], ['{"x":[' + "1," * 5_000_000 + "1]}"], tmp_path) == [False]
    assert time.perf_counter() - start < 60
