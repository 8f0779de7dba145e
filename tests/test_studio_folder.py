"""A private folder of uploads: of every kind, without a name on the disk, gone with its server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import zipfile

import pandas as pd
import pyreadstat
import pytest
from tests.test_reading import ods

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.sources import open_source
from sfumato.studio import door
from sfumato.studio.desk import Desk
from sfumato.studio.hands import Hand


def _written(kind):
    def write(path):
        frame = pd.DataFrame({"sex": ["F", "M"] * 20, "town": ["Delft", "Leiden", "Delft", "Gouda"] * 10})
        getattr(frame, kind)(path, **({} if kind == "to_parquet" else {"write_index": False} if kind == "to_stata" else {"index": False}))
        return path

    return write


def _workbook(path):
    path.write_bytes(ods([("sex", "town"), *(("FM"[i % 2], ("Delft", "Leiden")[i % 2]) for i in range(40))]))
    return path


SHEET = "xl/worksheets/sheet1.xml"
PARTS = {
    "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default '
    'Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>',
    "xl/workbook.xml": '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="People" '
    'sheetId="1" r:id="r1"/></sheets></workbook>',
    "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship '
    'Id="r0" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="xl/workbook.xml"/></Relationships>',
    "xl/_rels/workbook.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" '
    'Target="worksheets/sheet1.xml"/></Relationships>',
}


def _excel(path):
    """A workbook as Excel writes it, of text in its cells."""
    lines = [("sex", "town"), *(("FM"[i % 2], ("Delft", "Leiden")[i % 2]) for i in range(40))]
    cells = ["".join(f'<c t="inlineStr"><is><t>{x}</t></is></c>' for x in line) for line in lines]
    rows = "".join(f'<row r="{i}">{x}</row>' for i, x in enumerate(cells, 1))
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in {**PARTS, SHEET: f'<worksheet xmlns="{space}"><sheetData>{rows}</sheetData></worksheet>'}.items():
            file.writestr(name, text)
    return path


def _spss(path):
    pyreadstat.write_sav(pd.DataFrame({"sex": ["F", "M"] * 20, "town": ["Delft", "Leiden"] * 20}), str(path))
    return path


FORMS = {".xlsx": _excel, ".sav": _spss, ".parquet": _written("to_parquet"), ".ods": _workbook, ".dta": _written("to_stata"), ".csv.gz": _written("to_csv")}


def test_an_upload_has_no_name_on_the_disk_and_is_read_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = door.Folder()
    coming = folder.incoming("../../people.csv")
    coming.write(b"sex,town\nF,Delft\nM,Leiden\n")

    assert oct(folder.path.stat().st_mode)[-3:] == "700" and coming.path.name == "people.csv"
    assert open_source(coming.path).columns == ("sex", "town")
    if door.UNNAMED:
        assert [p for p in folder.path.rglob("*") if p.is_file() and not p.is_symlink()] == []
    path = coming.path
    coming.drop()
    assert not os.path.lexists(path)
    folder.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", FORMS)
def test_uploads_of_every_kind_are_read(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = FORMS[suffix](tmp_path / f"people{suffix}")
    folder = door.Folder()
    coming = folder.incoming(made.name)
    coming.write(made.read_bytes())

    found = Desk(lambda **told: None).open(str(coming.path), made.name, {})

    assert found["rows"] == "40" and [c["name"] for c in found["columns"]] == ["sex", "town"]
    folder.close()


def test_folders_of_servers_that_are_gone_are_swept_and_those_of_others_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = tmp_path / f"{door.PREFIX}{ended.pid}-1-abc"
    left.mkdir()
    other = tmp_path / "people"
    other.mkdir()

    mine = door.Folder()
    door.sweep()

    assert not left.exists() and other.exists() and mine.path.exists()
    mine.close()


@pytest.mark.parametrize("name", ["", "..", "/", "a\0b", "x" * 300, "\x1b[2J.csv", "a/.."])
def test_what_is_no_name_of_a_file_is_refused(name):
    with pytest.raises(sf.InputError):
        door.checked_name(name)


def test_a_worker_that_has_ended_is_told_of_in_words():
    async def asked():
        hand = Hand()
        hand.process.kill()
        hand.process.wait()
        try:
            await hand.do("suggest", choice={})
        finally:
            hand.process.stdout.close()
            with contextlib.suppress(OSError):
                hand.process.stdin.close()

    with pytest.raises(SfumatoError, match="has ended"):
        asyncio.run(asked())
