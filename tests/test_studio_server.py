"""The server of the studio: whom it lets in, what it takes, what it keeps, and that nothing is left of it."""

from __future__ import annotations

import json
import signal
import socket

import psutil
import pytest
from tests.studio import Client, Studio, people

MOST = 4 << 20  # bytes of an upload
HOSTILE = "<img src=x onerror=alert(1)>"
FORMULA = "=HYPERLINK(1)"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("studio-home")


@pytest.fixture(scope="module")
def studio(home):
    made = Studio(most=MOST, TMPDIR=str(home), SFUMATO_PATIENCE="0.005")
    yield made
    assert made.end() == 0  # Ctrl-C is how it ends
    assert list(home.glob("sfumato-studio-*")) == []


@pytest.fixture(scope="module")
def client(studio):
    return Client(studio)


@pytest.fixture(scope="module")
def opened(client, tmp_path_factory):
    """A client with a table whose labels are hostile."""
    rows = "".join(f"{'FM'[i % 2]},{(HOSTILE, FORMULA, 'c')[i // 2 % 3]}\n" for i in range(3000))
    path = tmp_path_factory.mktemp("tables") / "people.csv"
    path.write_text(f"sex,town\n{rows}")
    assert client.upload(path)[0] == 202
    client.wait(lambda s: s["table"])
    client.post("choice", {"roles": {"sex": "secret", "town": "useful"}})
    client.wait(lambda s: "4" in s["designs"])
    client.post("search", {"go": False})
    assert client.state()["search"]["state"] in ("stopped", "done")
    return client


def test_only_whoever_has_the_token_comes_in_and_it_works_once(studio, client):
    token = studio.address.partition("?")[2]
    for path in ("/", "/?token=", f"/?{token}", "/assets/main.js", client.home, f"{client.home}events"):
        status, headers, body = client.get(path, Cookie="")
        assert status == 403 and b"works once" in body and "set-cookie" not in headers
    assert client.get(client.home, Cookie=f"sfumato-{studio.port}=guess")[0] == 403


def test_a_cookie_opens_nothing_without_the_address_of_a_visit(client):
    assert client.get("/")[0] == 404
    for path in ("/s/", "/s/x/", "/s/x/new", "/s/x/events"):
        assert client.get(path)[0] == 404
    status, headers, _ = client.get(f"{client.home}new")
    assert status == 303 and headers["location"] != client.home and len(headers["location"]) > 30


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""])
def test_names_that_lead_to_this_machine_are_refused(client, host):
    status, _, body = client.get(client.home, Host=host.format(port=client.studio.port))
    assert status in (400, 421) and b"<html" not in body


@pytest.mark.parametrize("headers", [
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": None}, {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://localhost.evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
])
def test_other_pages_change_nothing(client, headers):
    before = client.state()["epsilon"]
    assert client.post("level", {"epsilon": 2.0}, **headers)[0] == 403
    assert client.ask("POST", f"{client.home}table?name=x.csv", b"a,b\n1,2\n", headers)[0] == 403
    assert client.state()["epsilon"] == before


def test_other_pages_read_nothing(client):
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"}):
        assert client.get(f"{client.home}events", **headers)[0] == 403


def test_pages_may_load_and_ask_for_nothing_else(client):
    for path in (client.home, "/assets/main.js", "/assets/studio.css"):
        status, headers, _ = client.get(path)
        policy = headers["content-security-policy"]
        assert status == 200 and policy.startswith("default-src 'self';") and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store" and "access-control-allow-origin" not in headers


@pytest.mark.parametrize("path", [
    "/assets/../server.py", "/assets/..%2fserver.py", "/assets/%2e%2e/server.py", "/assets/....//door.py", "/assets//etc/passwd",
    "{home}files/..%2f..%2fetc%2fpasswd", "{home}files/table/../../x", "{home}../../../../etc/passwd", "{home}files/%00", "/etc/passwd",
])
def test_no_path_leads_out(client, path):
    status, _, body = client.get(path.format(home=client.home))
    assert status in (400, 404) and b"root:" not in body and b"import" not in body


def test_uploads_with_paths_for_names_stay_in_the_private_folder(client, home, tmp_path):
    fresh = Client.__new__(Client)
    fresh.studio, fresh.cookie, fresh.home = client.studio, client.cookie, client.get(f"{client.home}new")[1]["location"]
    target = tmp_path / "written.csv"
    assert fresh.ask("POST", f"{fresh.home}table?name=../../../../..{target}", b"a,b\n1,2\n3,4\n")[0] == 202
    assert fresh.wait(lambda s: s["table"] or s["errors"])["table"]["name"] == "written.csv"
    assert not target.exists()
    for name in ("", "..", "a%00b"):
        assert fresh.ask("POST", f"{fresh.home}table?name={name}", b"a\n1\n")[0] == 400


def test_ten_gigabytes_are_refused_before_they_come(client):
    with socket.create_connection(("127.0.0.1", client.studio.port), 10) as link:
        link.sendall(_head(client, "table?name=big.csv", f"Content-Length: {10 << 30}"))
        assert b" 413 " in link.recv(4096)
    assert "larger than" in client.state()["errors"]["table"]["text"]


def test_an_endless_upload_ends_and_leaves_nothing(client, home):
    sent, before = 0, _held(home)
    with socket.create_connection(("127.0.0.1", client.studio.port), 10) as link:
        link.sendall(_head(client, "table?name=endless.csv", "Transfer-Encoding: chunked"))
        try:
            while sent < 64 << 20:
                link.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
                sent += 0x10000
        except OSError:
            pass
    assert sent < 32 << 20
    assert client.state()["table"] is None or client.state()["table"]["name"] != "endless.csv"
    assert _held(home) <= before


def _head(client, what, length):
    lines = (f"POST {client.home}{what} HTTP/1.1", f"Host: {client.studio.host}", f"Origin: http://{client.studio.host}",
             f"Cookie: {client.cookie}", length, "", "")
    return "\r\n".join(lines).encode()


def _held(home):
    return sum(p.stat().st_size for p in home.rglob("*") if p.is_file())


BODIES = [b"", b"[]", b"{", b"[" * 100_000, b'{"epsilon": {}}', b'{"epsilon": "x"}', b'{"epsilon": -1}', b'{"epsilon": 1e400}',
                                  b'{"roles": 3}', b'{"roles": {"sex": 7}}', b'{"roles": {"sex": "secret", "town": "useful"}, "bins": {"town": {}}}', b"x" * (2 << 20)]


def test_what_no_page_sends_is_refused_and_breaks_nothing(opened):
    for body in BODIES:
        for what in ("level", "choice", "release", "ask", "say"):
            assert opened.ask("POST", f"{opened.home}{what}", body)[0] in (200, 400, 413)
    opened.post("choice", {"roles": {"sex": "secret", "town": "useful"}})
    found = opened.wait(lambda s: "1" in s["designs"] and "4" in s["designs"] and not s["busy"])
    opened.post("search", {"go": False})
    assert found["epsilon"] == 1.0 and not found["errors"].get("columns")


def test_labels_of_scripts_and_formulas_are_released_as_harmless_text(opened):
    opened.post("level", {"epsilon": 4.0})
    opened.post("release", {"name": "released.csv"})
    done = opened.wait(lambda s: s["release"] or s["errors"].get("release"))["release"]

    _, headers, table = opened.get(f"{opened.home}files/table")
    assert headers["content-disposition"].startswith("attachment") and f"'{FORMULA}".encode() in table and b"\n=" not in table
    _, headers, page = opened.get(f"{opened.home}report")
    assert headers["content-security-policy"].startswith("sandbox allow-scripts") and HOSTILE.encode() not in page
    assert opened.get(f"{opened.home}files/report")[1]["content-type"] == "application/octet-stream"
    assert opened.get(f"{opened.home}files/all")[2][:2] == b"PK" and set(done["files"]) >= {"table", "mechanism", "manifest", "report", "tables"}


def test_a_release_is_refused_beside_its_field_and_written_to_a_folder_once(opened, tmp_path):
    opened.post("release", {"name": "released.csv", "folder": str(tmp_path)})
    assert opened.wait(lambda s: s["release"] and s["release"]["folder"])["release"]["folder"] == str(tmp_path)
    opened.post("release", {"name": "released.csv", "folder": str(tmp_path)})
    assert "exists" in opened.wait(lambda s: s["errors"].get("release"))["errors"]["release"]["text"]
    for asked, words in (({"folder": "/none/such"}, "is no folder"), ({"name": "../x.csv", "folder": str(tmp_path / "f")}, "is no folder"),
                         ({"name": "x.doc"}, "suffix"), ({"budget": 1.0}, "--people")):
        opened.post("release", asked)
        assert words in opened.wait(lambda s: s["errors"].get("release"))["errors"]["release"]["text"]


def test_a_visit_stays_when_its_page_is_loaded_anew_and_others_see_nothing_of_it(opened):
    assert opened.state()["choice"]["roles"] == opened.state()["choice"]["roles"] == {"sex": "secret", "town": "useful"}
    other = opened.get(f"{opened.home}new")[1]["location"]
    fresh = Client.__new__(Client)
    fresh.studio, fresh.cookie, fresh.home = opened.studio, opened.cookie, other
    assert fresh.state()["table"] is None and fresh.get(f"{other}files/table")[0] == 404
    fresh.post("level", {"epsilon": 0.5})
    assert fresh.state()["epsilon"] == 0.5 and opened.state()["epsilon"] == 4.0


def test_a_table_on_the_command_line_is_read_in_its_place_and_a_killed_server_leaves_nothing_behind(tmp_path):
    table = people(tmp_path / "people.csv", 2000)
    studio = Studio(str(table), TMPDIR=str(tmp_path), SFUMATO_PATIENCE="0.005")
    client = Client(studio)
    found = client.wait(lambda s: s["table"])
    assert found["table"]["rows"] == "2,000" and found["ledger"] == str(tmp_path / "sfumato.ledger")
    client.post("choice", {"roles": {"sex": "secret", "race": "useful"}, "public": True})  # noise would drop rare labels by chance
    client.wait(lambda s: "1" in s["designs"])
    client.post("release", {"name": "r.csv", "folder": str(tmp_path), "people": "cohort 7", "budget": 9, "anyway": True})
    done = client.wait(lambda s: s["release"] or s["errors"])
    assert "cohort 7" in done["release"]["ledger"] and "--people 'cohort 7'" in done["release"]["command"]
    command = json.loads((tmp_path / "r.manifest.json").read_text())["command"]
    assert "cohort" not in command and str(tmp_path) not in command and command.startswith("sfumato release people.csv")
    client.post("choice", {"roles": {"sex": "secret", "race": "useful", "age": "useful"}, "public": True})
    assert client.wait(lambda s: s["before"]["colour"] == "amber")["before"]["title"] == "Released before"

    client.upload(table, "other.csv")
    client.wait(lambda s: s["table"] and s["table"]["name"] == "other.csv")
    folder = next(tmp_path.glob("sfumato-studio-*"))
    children = psutil.Process(studio.process.pid).children(recursive=True)
    assert children and b"race" not in b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.is_symlink())

    studio.end(signal.SIGKILL)

    assert psutil.wait_procs(children, 20)[1] == [] and not folder.exists() and table.exists()
