"""A studio in a process of its own, a table for it, and a client that speaks to it without a browser."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
import pyarrow as pa
from pyarrow import csv

import sfumato as sf
from sfumato.datasets import adult, rows


def people(path: Path, n: int | None = None) -> Path:
    """Sex and race of Adult's 32,561 people (or as many as asked for), with an age, a copy of sex and a number each."""
    table = rows(adult("sex", "race"), seed=1994)
    if n is not None:
        table = table.take(np.random.default_rng(7).integers(0, table.num_rows, n))
    rng = np.random.default_rng(1994)
    age = np.clip(rng.gamma(6.0, 7.0, table.num_rows) + 16, 17, 90).round().astype(int)
    copy = pa.array(["f", "m"]).take(pa.array(np.asarray(table["sex"].combine_chunks().dictionary_encode().indices) % 2))
    table = table.append_column("age", pa.array(age)).append_column("gender", copy)
    csv.write_csv(table.append_column("id", pa.array(np.arange(table.num_rows))), path)
    return path


SMALL = """
import sys
from sfumato.processes import listening
from sfumato.studio.server import Studio, serve
serve(Studio(most=int(sys.argv[1])), listening(None), lambda address: print(address, flush=True))
"""


class Studio:
    """`sfumato studio`, started when made; with `most`, one that takes no larger uploads."""

    def __init__(self, *arguments: str, most: int | None = None, **environment: str):
        home = str(Path(sf.__file__).parent.parent)
        usual = ["-m", "sfumato", "studio", "--no-browser", *arguments]
        self.process = subprocess.Popen(
            [sys.executable, *(usual if most is None else ["-c", SMALL, str(most)])], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": home, "COLUMNS": "200", **environment},
        )
        line = self.process.stdout.readline()
        self.address = re.search(r"http://\S+", line)[0]
        self.port = urlsplit(self.address).port
        self.host = f"127.0.0.1:{self.port}"

    def end(self, number=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(20)
        self.process.stdout.close()
        return code


class Client:
    """A browser's requests by hand; every header can be another."""

    def __init__(self, studio: Studio):
        self.studio, self.cookie = studio, ""
        status, headers, _ = self.get(studio.address.split(studio.host)[1])
        assert status == 303
        self.cookie = headers["set-cookie"].split(";")[0]
        self.home = headers["location"]

    def ask(self, method, path, body=None, headers=None):
        link = http.client.HTTPConnection("127.0.0.1", self.studio.port, timeout=60)
        own = {"Host": self.studio.host, "Cookie": self.cookie, **({"Origin": f"http://{self.studio.host}"} if method == "POST" else {})}
        given = {k: v for k, v in {**own, **(headers or {})}.items() if v is not None}
        try:
            link.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                link.putheader(name, value)
            if body is not None and "Content-Length" not in given:
                link.putheader("Content-Length", str(len(body)))
            link.endheaders(body)
            found = link.getresponse()
            return found.status, {k.lower(): v for k, v in found.getheaders()}, found.read()
        finally:
            link.close()

    def get(self, path, **headers):
        return self.ask("GET", path, headers=headers)

    def post(self, what, body=None, **headers):
        return self.ask("POST", self.home + what, json.dumps(body or {}).encode(), headers)

    def upload(self, path, name=None):
        return self.ask("POST", f"{self.home}table?name={quote(name or Path(path).name)}", Path(path).read_bytes())

    def state(self):
        """Everything that the page would show now."""
        link = http.client.HTTPConnection("127.0.0.1", self.studio.port, timeout=60)
        link.request("GET", f"{self.home}events", headers={"Host": self.studio.host, "Cookie": self.cookie})
        with link.getresponse() as found:
            line = found.readline()
        link.close()
        return json.loads(line.removeprefix(b"data: "))["put"]

    def wait(self, holds, seconds=60.0):
        """The state, once something holds of it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.state()
            if holds(found):
                return found
            time.sleep(0.05)
        raise TimeoutError(f"{found['errors']}, {found['busy']}")
