"""Files as strangers write them: delimiters, encodings, numbers, dates, missing values, spreadsheets, counts."""

import datetime
import io
import zipfile
from collections import Counter

import numpy as np
import pyarrow as pa
import pyreadstat
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.sources import data_frames
from sfumato.sources.data_frames import in_random_order
from sfumato.sources.meaning import NUMBERS, Meaning, looked

TOWNS = ["Köln", "Düren", "Besançon"]


def lines(mark, header=("sex", "town"), rows=12):
    table = [header, *(("F" if i % 3 else "M", TOWNS[i % 3 if i % 2 else 0]) for i in range(rows))]
    return "".join(mark.join(row) + "\n" for row in table)


def write(folder, content, name="people.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(content.encode(encoding))
    return path


def test_a_tab_is_said_by_its_name_in_python_as_on_the_command_line(tmp_path):
    path = write(tmp_path, "a,b\tc\nx,y\tz\n")

    assert sf.open_source(path, delimiter="tab").columns == sf.open_source(path, delimiter="\t").columns == ("a,b", "c")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "latin-1", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_every_delimiter_and_encoding_gives_the_same_table_and_is_said(mark, encoding, tmp_path):
    known = sf.tabulate(write(tmp_path, lines(","), "known.csv"), "sex", "town")
    path = write(tmp_path, lines(mark), encoding=encoding)
    found = sf.tabulate(path, "sex", "town")

    assert found.fingerprint == known.fingerprint
    said = " ".join(sf.open_source(path).said)
    assert ("divide its fields" in said) == (mark != ",")
    assert ("read as" in said) == (not encoding.startswith("utf-8"))


def test_other_scripts_are_told_from_western_ones(tmp_path):
    cyrillic = write(tmp_path, "город,пол\nМосква,мужской\nКазань,женский\n", encoding="cp1251")

    assert sf.open_source(cyrillic).columns == ("город", "пол")


def test_a_delimiter_and_an_encoding_that_are_said_are_taken(tmp_path):
    path = write(tmp_path, "a~b\nŁ~x\nM~y\n", encoding="cp1250")
    found = sf.tabulate(sf.open_source(path, delimiter="~", encoding="cp1250"), "a", "b")

    assert found.secret.labels == ("M", "Ł")
    with pytest.raises(sf.InputError, match=r"'utf-9' is not an encoding.*Did you mean 'utf-8'"):
        sf.open_source(path, encoding="utf-9")
    with pytest.raises(sf.InputError, match="one character"):
        sf.open_source(path, delimiter="ab")
    with pytest.raises(sf.InputError, match="are for files"):
        sf.open_source(pa.table({"a": ["x"]}), delimiter=";")


def test_a_delimiter_in_quotes_does_not_mislead(tmp_path):
    path = write(tmp_path, 'name,note\n"a;b;c","x;y"\n"d;e;f","u;v"\n')

    assert sf.open_source(path).columns == ("name", "note") and not sf.open_source(path).said


@pytest.mark.parametrize("above", ["# a\n# b, c, d, e\n", "\n\n", "sep=,\n", "# one\n\n#two\n"])
def test_what_stands_above_the_header_is_passed_over(above, tmp_path):
    path = write(tmp_path, above + "sex,town\nF,A\n# only said\nM,B\n")

    assert sf.tabulate(path, "sex", "town").counts.tolist() == [[1, 0], [0, 1]]


def test_a_header_that_begins_with_a_hash_is_a_header(tmp_path):
    assert sf.open_source(write(tmp_path, "#sex,town\nF,A\n")).columns == ("#sex", "town")


def test_missing_values_are_those_listed_and_no_others(tmp_path):
    path = write(tmp_path, "sex,town\nF,A\nM,NA\nF,-\nM,.\nF,99\nM,?\nF,n/a\nM,\n")

    assert sf.tabulate(path, "sex", "town").useful.labels == ("99", "?", "A", None)
    assert sf.tabulate(path, "sex", "town", na=["99", "?"]).useful.labels == ("-", ".", "A", "NA", "n/a", None)
    assert any("'NA', 'n/a', '.', '-'" in x for x in sf.open_source(path).said)


def test_typed_sources_have_their_own_missing_values():
    frame = pa.table({"sex": ["F", "M", None], "town": ["NA", "-", "x"]})

    assert sf.tabulate(frame, "sex", "town").useful.labels == ("-", "NA", "x")
    assert sf.tabulate(frame, "sex", "town", na="-").useful.labels == ("NA", "x", None)


def test_released_tables_are_read_verbatim(tmp_path):
    joint = sf.Joint.from_counts([[300, 100], [200, 400]], secret=["NA", "-"], useful=["1.234", "."])
    mechanism = sf.design(sf.ChiSquareBall(joint), 2.0, "grr").mechanism
    rows = pa.table({"secret": ["NA", "-"] * 200, "useful": ["1.234", "."] * 200})
    sf.release(rows, mechanism, tmp_path / "out.csv")

    assert sf.estimate(tmp_path / "out.csv", mechanism).n == 400


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=20), st.sampled_from(list(NUMBERS)))
def test_numbers_are_read_as_they_were_meant(values, style):
    thousands, decimal = style
    def written(x):
        whole, _, part = f"{x:,.2f}".partition(".")
        return whole.replace(",", thousands[0]) + decimal + part

    meant = Meaning(numbers={"x": style}).meant(pa.array([written(x) for x in values]), "x")

    assert [float(x) for x in meant.to_pylist()] == [float(f"{x:.2f}") for x in values]


@pytest.mark.parametrize(("values", "comma", "style"), [
    (["1,5", "2,25"], True, (".", ",")), (["1,234", "5,678,901"], False, (",", ".")), (["1,234.5"], False, (",", ".")),
    (["1.234,5", "7"], True, (".", ",")), (["1,234"], True, (",", ".")), (["1,234"], False, (".", ",")),
    (["1.5", "2"], False, None), (["1,5", "x"], False, None), (["12 345,6"], False, None),
])
def test_the_spelling_of_numbers_is_found_out(values, comma, style):
    found = looked(["x"], [[v] for v in values], None, comma=comma).numbers

    assert found.get("x") == (style if values != ["12 345,6"] else found["x"]) and (
        values != ["12 345,6"] or found["x"][1] == ","
    )


def test_a_column_of_decimal_commas_tells_about_the_others():
    found = looked(["a", "b", "c"], [["1,5", "1,234", "1.234"], ["2,25", "5,678", "2.000"]], None, comma=True).numbers

    assert found == dict.fromkeys("abc", (".", ","))


def test_numbers_with_commas_are_binned_and_released_by_the_same_edges(tmp_path):
    rows = "".join(f"{'F' if i % 2 else 'M'};{i // 2},{i % 2 * 5}\n" for i in range(100))
    path = write(tmp_path, "sex;pay\n" + rows)
    joint = sf.tabulate(path, "sex", "pay", bins={"pay": [10, 30]})
    mechanism = sf.design(sf.ChiSquareBall(joint), 1.0, "grr").mechanism

    assert joint.p_useful.tolist() == [0.2, 0.4, 0.4]
    said = sf.open_source(path, decimal=",")
    assert sf.tabulate(said, "sex", "pay", bins={"pay": [10, 30]}).fingerprint == joint.fingerprint
    assert sf.release(said, mechanism, tmp_path / "out.csv").manifest.rows == 100
    with pytest.raises(sf.InputError, match="must not rest on its rows"):
        sf.release(path, mechanism, tmp_path / "again.csv")


@pytest.mark.parametrize(("texts", "told"), [
    (["31.1.2026", "1.2.2026"], ["Saturday", "Sunday"]), (["2026/01/31", "2026/02/01"], ["Saturday", "Sunday"]),
    (["1/31/2026", "2/1/2026"], ["Saturday", "Sunday"]), (["31/1/2026 10:30", "1/2/2026 9:00"], ["Saturday", "Sunday"]),
])
def test_dates_become_weekdays_whatever_their_order(texts, told, tmp_path):
    path = write(tmp_path, "sex,day\n" + "".join(f"{s},{d}\n" for s in "FM" for d in texts))

    assert sf.tabulate(path, "sex", "day", bins={"day": "weekday"}).useful.labels == tuple(told)


def test_dates_whose_order_cannot_be_told_are_refused_but_for_nothing_else(tmp_path):
    path = write(tmp_path, "sex,day\nF,1/2/2026\nM,3/4/2026\n")

    with pytest.raises(sf.DataError, match=r"row 1: the value is no date.*cannot be told apart"):
        sf.tabulate(path, "sex", "day", bins={"day": "month"})
    assert sf.tabulate(path, "sex", "day").useful.labels == ("1/2/2026", "3/4/2026")
    with pytest.raises(sf.InputError, match="'decade' is not a part of dates"):
        sf.tabulate(path, "sex", "day", bins={"day": "decade"})


@pytest.mark.parametrize(("part", "labels"), [
    ("year", ("2025", "2026")), ("quarter", ("2025-Q4", "2026-Q1")), ("month", ("2025-12", "2026-01", "2026-02")),
])
def test_parts_of_dates_hold_from_the_table_to_the_release(part, labels, tmp_path):
    days = [datetime.date(2025, 12, 30) + datetime.timedelta(i) for i in range(40)]
    rows = pa.table({"ill": ["no", "yes"] * 20, "day": days})
    joint = sf.tabulate(rows, "ill", "day", bins={"day": part})
    mechanism = sf.design(sf.ChiSquareBall(joint), 2.0, "grr").mechanism
    kept = sf.load(mechanism.save(tmp_path / "m.json"))
    out = sf.release(rows, kept)

    assert joint.useful.labels == labels and sf.verify(tmp_path / "m.json")
    assert set(out["day"].to_pylist()) <= set(labels)


@given(st.integers(0, 2**32))
def test_automatic_bins_hold_at_least_half_of_an_even_share(seed):
    x = np.random.default_rng(seed).lognormal(3, 2, 400)
    joint = sf.tabulate(pa.table({"s": ["a", "b"] * 200, "x": x}), "s", "x", automatic=True)

    assert joint.useful.size == 5 and joint.p_useful.min() >= 0.09
    assert any("x is cut at" in note for note in joint.notes)


def test_few_numbers_codes_and_text_stay_labels(tmp_path):
    rows = "".join(f"{'F' if i % 2 else 'M'},{i % 9},{i:03},t{i}\n" for i in range(60))
    path = write(tmp_path, "sex,few,code,text\n" + rows)

    assert [sf.tabulate(path, "sex", u, automatic=True).useful.size for u in ("few", "code", "text")] == [9, 60, 60]


def test_a_table_of_counts_is_as_many_people(tmp_path):
    path = write(tmp_path, "sex,town,Freq\nF,A,300\nF,B,150000\nM,A,30\nM,B,0\n")
    source = sf.open_source(path, counts="Freq")
    joint = sf.tabulate(source, "sex", "town")
    mechanism = sf.design(sf.ChiSquareBall(joint), 1.0, "grr").mechanism

    assert joint.counts.tolist() == [[300, 150000], [30, 0]] and source.columns == ("sex", "town")
    assert sf.tabulate(path, "sex", "town", counts="Freq").fingerprint == joint.fingerprint
    assert any("counts='Freq'" in x for x in sf.open_source(path).said) and not source.said
    assert sf.release(source, mechanism).num_rows == 150330
    with pytest.raises(sf.DataError, match="row 2: a count must be a whole number"):
        sf.tabulate(write(tmp_path, "s,u,n\na,x,1\nb,y,1.5\n"), "s", "u", counts="n")


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 40))
def test_the_people_of_a_table_of_counts_all_come_once(people, most):
    batches = list(in_random_order(np.array(people), most))

    assert all(len(x) <= most for x in batches)
    assert np.bincount(np.concatenate([np.zeros(0, np.int64), *batches]), minlength=len(people)).tolist() == people


def test_the_people_of_a_table_of_counts_come_in_every_order_alike(monkeypatch):
    rng = np.random.default_rng(4)
    monkeypatch.setattr(data_frames, "_words", lambda many: rng.integers(0, 2**64, many, np.uint64))
    for most in (1, 2, 9):
        orders = Counter(tuple(np.concatenate(list(in_random_order(np.array([2, 1, 1]), most)))) for _ in range(6000))
        assert len(orders) == 12 and all(abs(x - 500) < 5 * 500**0.5 for x in orders.values())


def test_labels_that_look_alike_or_like_totals_are_named(tmp_path):
    path = write(tmp_path, "sex,town\nF,Delft\nM,delft\nF,Total\nM,Gouda\n")
    notes = sf.tabulate(path, "sex", "town").notes

    assert any("'Delft' and 'delft' differ only in case or spaces" in x for x in notes)
    assert any("has the label 'Total'" in x for x in notes)


def ods(cells):
    """A small OpenDocument sheet, written by hand."""
    def cell(x):
        kind = f'office:value-type="float" office:value="{x}"' if isinstance(x, (int, float)) else 'office:value-type="string"'
        return f"<table:table-cell {kind}><text:p>{x}</text:p></table:table-cell>"

    rows = "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in cells)
    names = "".join(f'xmlns:{n}="urn:oasis:names:tc:opendocument:xmlns:{n}:1.0" ' for n in ("office", "table", "text"))
    content = (f'<?xml version="1.0"?><office:document-content {names}><office:body><office:spreadsheet>'
               f'<table:table table:name="People">{rows}</table:table><table:table table:name="Notes"/>'
               "</office:spreadsheet></office:body></office:document-content>")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        file.writestr("META-INF/manifest.xml", '<?xml version="1.0"?><manifest:manifest '
                      'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>')
        file.writestr("content.xml", content)
    return out.getvalue()


def test_a_spreadsheet_is_read_like_a_file_of_text(tmp_path):
    (tmp_path / "book.ods").write_bytes(ods([("sex", "rooms"), ("F", 3), ("M", 4.0), ("NA", 3)]))
    source = sf.open_source(tmp_path / "book.ods")
    joint = sf.tabulate(source, "sex", "rooms")

    assert joint.secret.labels == ("F", "M", None) and joint.useful.labels == ("3", "4")
    assert any("the sheet 'People' is read (others: Notes)" in x for x in source.said)
    with pytest.raises(sf.InputError, match=r"'Peple' is not a sheet.*Did you mean 'People'"):
        sf.open_source(tmp_path / "book.ods", sheet="Peple")
    with pytest.raises(sf.InputError, match=r"'Notes' of book.ods is empty"):
        sf.open_source(tmp_path / "book.ods", sheet="Notes")


@pytest.mark.parametrize(("suffix", "writer"), [(".dta", pyreadstat.write_dta), (".sav", pyreadstat.write_sav)])
def test_files_of_statistics_programmes_come_with_their_labels(suffix, writer, tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"sex": [1.0, 2.0, 1.0, None], "town": ["A", "B", "A", "B"]})
    writer(frame, str(tmp_path / f"p{suffix}"), variable_value_labels={"sex": {1: "woman", 2: "man"}})
    source = sf.open_source(tmp_path / f"p{suffix}")

    assert sf.tabulate(source, "sex", "town").secret.labels == ("man", "woman", None)
    assert any("by their labels in sex" in x for x in source.said)
