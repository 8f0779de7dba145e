"""The verifier in JavaScript reaches the verdicts of the kernel on every shared file, in node or in a browser."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests import chromium, kernel_vectors

import sfumato_kernel as kernel

SCRIPT = Path(kernel.__file__).with_name("verifier.js")
VECTORS = json.loads(kernel_vectors.HERE.read_text())
ALL = "(async () => { const out = []; for (const text of files) out.push((await sfumatoVerify(text)).proved); show(JSON.stringify(out)); })()"
BAD = ["", "[]", "null", '{"format":', "{" * 10, '{"a":1,"a":2}', "[" * 100_000, '{"x":' + "9" * 10_000 + "}", '{"x":NaN}']


def answers(files, tmp_path):
    """What the script says to each of some texts."""
    node = os.environ.get("SFUMATO_NODE") or shutil.which("node")
    body = f"const files = {json.dumps(files)};"
    if node:
        page = tmp_path / "all.js"
        page.write_text(f"require({json.dumps(str(SCRIPT))}); {body} const show = console.log; {ALL}")
        return json.loads(subprocess.run([node, str(page)], capture_output=True, text=True, check=True).stdout)
    if chromium.path() is None:
        pytest.skip(chromium.ABSENT)
    page = tmp_path / "all.html"
    body = body.replace("<", "\\u003c")
    page.write_text(f"<pre id=o></pre><script>{SCRIPT.read_text()}</script><script>{body} const show = (x) => {{ o.textContent = x; }}; {ALL}</script>")
    done = subprocess.run([chromium.path(), *chromium.ARGUMENTS, "--headless", "--virtual-time-budget=20000", "--dump-dom", page.as_uri()],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout.split('<pre id="o">')[1].split("</pre>")[0])


def test_the_vectors_are_what_the_kernel_says():
    assert [kernel_vectors.verdict(v["file"].encode()) for v in VECTORS] == [v["proved"] for v in VECTORS]
    assert 100 < sum(v["proved"] for v in VECTORS) < len(VECTORS) - 100


def test_both_verifiers_reach_the_same_verdicts(tmp_path):
    assert answers([v["file"] for v in VECTORS], tmp_path) == [v["proved"] for v in VECTORS]


def test_what_is_no_mechanism_file_is_refused_by_both(tmp_path):
    spoilt = [VECTORS[0]["file"].replace("62", "61", 1), VECTORS[0]["file"].replace("sha256:", "sha256:0")]
    assert not any(answers([*BAD, *spoilt], tmp_path))
    assert not any(kernel_vectors.verdict(x.encode()) for x in [*BAD, *spoilt])
