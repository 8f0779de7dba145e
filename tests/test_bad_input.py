"""Bad input gets a clear error, the right exit code, and loses nothing: no file is left, no value is shown."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato import atomic
from sfumato.cli import EXIT_CODES, cli
from sfumato.errors import OutputError

FAST = ["--notion", "ldp", "--method", "srr", "--public-labels", "all"]
PRIVATE = "Xanthippe"  # a value of a row that no message may show
GOOD = "sex,town,name\n" + "".join(f"{'FM'[i % 2]},{'ABC'[i // 2 % 3]},{PRIVATE}{i}\n" for i in range(60))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def asked(folder, table, *more, secret="sex", epsilon=1, useful="town", out="out.csv"):
    """Arguments of a release of folder/table into the same folder."""
    useful = ["--useful", useful] if useful else []
    design = ["--secret", secret, "--epsilon", epsilon, *useful, *FAST] if secret else []
    return [str(x) for x in ("release", folder / table, *design, "--out", folder / out, *more)]


def refused(folder, args, code, *said):
    """The command fails with the code and the words, leaves the folder as it was, and shows no private value."""
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    done = CliRunner().invoke(cli, args)
    text = " ".join(done.stderr.split())
    for words in said:
        assert words in text
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    assert PRIVATE not in done.output
    assert "Traceback" not in done.output and "bug" not in text
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    return text


def write(folder, text, name="people.csv"):
    (folder / name).write_text(text)
    return name


MANY = "id,sex\n" + "".join(f"{PRIVATE}{i},{'FM'[i % 2]}\n" for i in range(100_001))
TWICE = GOOD + GOOD.partition("\n")[2].replace("pe", "po")
ONE_VALUE = "sex,town\n" + "F,A\nF,B\n" * 20
NO_LEVEL = "epsilon must be a finite number of nats"
REFUSED = {  # what: the table, other words of the command, its exit code and what is said
    "an empty file": ("", [], {}, 2, "people.csv is empty: it has neither a header nor rows"),
    "a header only": ("sex,town\n", [], {}, 3, "people.csv has no rows"),
    "a header only, and no useful column": ("sex,town\n", [], {"useful": None}, 3, "people.csv has no rows"),
    "one row": (f"sex,town\nF,{PRIVATE}\n", [], {}, 3, "people.csv has one row"),
    "one row, and no useful column": (f"sex,town\nF,{PRIVATE}\n", [], {"useful": None}, 3, "people.csv has one row"),
    "a ragged row": (GOOD + f"F,A,{PRIVATE},extra\n", [], {}, 3, "people.csv, line 62: 3 fields expected, 4 found"),
    "a name with a comma": ('"a,b",sex\n1,F\n2,M\n', [], {"useful": "a,b"}, 2, "'a' is not a column", """as in '"a,b"'."""),
    "no other column": ("sex\nF\nM\nF\nM\n", [], {"useful": None}, 2, "people.csv has no column beside the secret"),
    "a secret that is no column": (GOOD, [], {"secret": "sx"}, 2, "'sx' is not a column of people.csv", "(columns: sex, town, name)", "Did you mean 'sex'?"),
    "a useful value that is no column": (GOOD, [], {"useful": "twon"}, 2, "'twon' is not a column of people.csv", "Did you mean 'town'?"),
    "a secret alone that is no column": (GOOD, [], {"secret": "sx", "useful": None}, 2, "'sx' is not a column of people.csv", "Did you mean 'sex'?"),
    "a kept column that is none": (GOOD, ["--keep", "nam"], {}, 2, "'nam' is not a column", "'name'?"),
    "a kept column that is secret": (GOOD, ["--keep", "sex"], {}, 2, "'sex' is protected"),
    "secret and useful the same": (GOOD, [], {"useful": "sex"}, 2, "'sex' is both secret and useful"),
    "a secret with a single value": (ONE_VALUE, [], {}, 2, "the secret (sex) has a single value", "nothing to protect"),
    "the same without a useful column": (ONE_VALUE, [], {"useful": None}, 2, "the secret (sex) has a single value"),
    "a number or an identifier": (MANY, [], {"useful": "id"}, 2, "'id' has more than 100,000 distinct values", "(--bins "),
    "a secret that is one": (MANY, [], {"secret": "id", "useful": None}, 2, "the secret has too many distinct values", "--bins id=5"),
    "nothing else that is categorical": (MANY, [], {"useful": None}, 2, "no other column of people.csv is categorical", "id (too many different values"),
    "another one that is constant": ("sex,k\n" + "F,7\nM,7\n" * 20, [], {"useful": None}, 2, "k (a single value)", "that varies"),
    "an identifier by mistake": (TWICE, [], {"useful": "name"}, 2, "column 'name' has 120 distinct values in 120 rows", "--rare name=20"),
    "text in a binned column": (
        "sex,age\n" + "F,20\nM,\nF,40\nM,NaN\n" * 10 + f"F,{PRIVATE}\n", ["--bins", "age=30;65"], {"useful": "age"}, 3,
        "'age', row 41: the value is not a number"),
    "a split that is no share": (GOOD, ["--split", "1.5"], {}, 2, "a fraction between 0 and 1, got 1.5"),
    "a split that leaves nothing": (GOOD, ["--split", "1e-9"], {}, 3, "set aside for the design) has no rows"),
    **{f"ε = {x}": (GOOD, [], {"epsilon": x}, 2, NO_LEVEL, f"got {float(x):g}") for x in ("-1", "inf", "-inf", "nan")},
    **{f"ε = {x}": (GOOD, [], {"epsilon": x}, 2, "protects nothing", "designed up to 50") for x in ("51", "710", "1e9")},
    "no number for ε": (GOOD, [], {"epsilon": "one"}, 2, "'one' is not a valid float"),
    "no confidence": (GOOD, ["--confidence", "1"], {}, 2, "confidence must lie strictly between 0 and 1"),
    "no method": (GOOD, ["--method", "ssr"], {}, 2, "Did you mean 'srr'?"),
    "no bins": (GOOD, ["--bins", "town"], {}, 2, "write COL=5"),
    "no number of rare ones": (GOOD, ["--rare", "town=few"], {}, 2, "write COL=20"),
    "no decoding": (GOOD, ["--decode", "guesses"], {}, 2, "'guesses' is not one of"),
    "no names": (GOOD, ["--useful", ","], {}, 2, "does not name columns"),
    "two sources of a design": (GOOD, ["--split", "0.1", "--design-from", "x.csv"], {}, 2, "exclude each other"),
    "an output in no folder": (GOOD, [], {"out": "nowhere/out.csv"}, 6, "nowhere does not exist"),
    "an output of no format": (GOOD, [], {"out": "out.xlsx"}, 2, "the suffix must be one of"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_released_is_refused_in_words(folder, what):
    text, more, other, code, *said = REFUSED[what]
    refused(folder, asked(folder, write(folder, text), *more, **other), code, *said)


def test_a_file_that_is_no_table(folder):
    refused(folder, asked(folder, "poeple.csv"), 2, "poeple.csv could not be read: No such file or directory")
    refused(folder, asked(folder, write(folder, "x", "people.docx")), 2, "cannot tell the format", ".parquet")
    refused(folder, asked(folder, write(folder, "x", "people.parquet")), 2, "is not a Parquet file")
    (folder / "bytes.csv").write_bytes(b"sex,town\nF,K\x81ln\nM,Bonn\n")
    refused(folder, asked(folder, "bytes.csv"), 3, "bytes.csv is not written in UTF-8 or cp1252 throughout")
    refused(folder, ["estimate", str(folder / "nowhere.csv")], 2, "nowhere.csv could not be read: No such file")


def test_missing_values_are_a_category_or_refused_by_row(folder):
    table = pa.table({"sex": ["F", "M"] * 20, "x": [1.0, float("nan"), 2.0, None] * 10})
    pq.write_table(table, folder / "people.parquet")
    asked_ = asked(folder, "people.parquet", useful="x", out="out.parquet")

    refused(folder, [*asked_, "--missing", "refuse"], 3, "column 'x', row 2: the value is missing", "--missing")
    assert CliRunner().invoke(cli, asked_).exit_code == 0
    assert sf.load(folder / "out.mechanism.json").useful.columns[0].labels == ("1", "2", None)


def test_a_value_that_the_design_data_do_not_have(folder):
    write(folder, GOOD + f"F,{PRIVATE},x\n")
    reference = write(folder, GOOD, "reference.csv")
    refused(folder, asked(folder, "people.csv", "--design-from", folder / reference), 3, "column 'town', row 61: the value is not in the alphabet")


def test_epsilon_zero_is_allowed(folder):
    table = write(folder, GOOD)
    refused(folder, asked(folder, table, epsilon=0), 2, "worth 0.00 %", "--anyway")
    done = CliRunner().invoke(cli, [*asked(folder, table, epsilon=0), "--anyway"])

    assert done.exit_code == 0
    assert sf.verify(folder / "out.mechanism.json").level == 0


# The mechanism file


@pytest.fixture
def mechanism(folder):
    write(folder, GOOD)
    assert CliRunner().invoke(cli, asked(folder, "people.csv", out="first.csv")).exit_code == 0
    for name in ("first.csv", "first.manifest.json", "first.report.html", "first.tables.csv"):
        (folder / name).unlink()
    return folder / "first.mechanism.json"


def using(folder, mechanism, table="people.csv", *more, **where):
    return asked(folder, table, "--mechanism", mechanism, *more, secret=None, **where)


def test_an_edited_mechanism_file(folder, mechanism):
    mechanism.write_text(mechanism.read_text().replace('"epsilon": 1.0', '"epsilon": 0.5'))
    refused(folder, using(folder, mechanism), 4, "was changed after it was written: the checksum does not match")
    refused(folder, ["verify", str(mechanism)], 4, "the checksum does not match")


def test_a_file_that_is_no_mechanism(folder, mechanism):
    mechanism.write_text("{}")
    refused(folder, using(folder, mechanism), 4, "is not a mechanism file")
    refused(folder, using(folder, folder / "none.json"), 2, "none.json could not be read")


@pytest.mark.parametrize(("text", "code", "said"), [
    ("gender,town\nF,A\n", 2, ["is a mechanism for the columns sex and town", "say so with --secret",
                               "'sex' is not a column of other.csv (columns: gender, town)"]),
    (f"sex,town\nF,A\nM,{PRIVATE}\n", 3, ["column 'town', row 2: the value is not in the alphabet"]),
    ("sex,town\n", 3, ["other.csv has no rows"]),
], ids=["columns", "values", "a header only"])
def test_a_mechanism_for_another_table(folder, mechanism, text, code, said):
    refused(folder, using(folder, mechanism, write(folder, text, "other.csv")), code, *said)


# The output


@pytest.mark.parametrize("name", ["out.csv", "out.manifest.json", "out.mechanism.json", "out.report.html", "out.tables.csv"])
def test_an_output_that_exists(folder, name):
    (folder / name).write_text("precious")
    refused(folder, asked(folder, write(folder, GOOD)), 6, f"{name} exists", "--force")


def test_force_replaces_what_exists_but_not_two_files_of_one_name(folder):
    (folder / "out.csv").write_text("old")
    args = asked(folder, write(folder, GOOD), "--force")
    refused(folder, [*args, "--report", str(folder / "out.csv")], 6, "would be both the report and the table")

    assert CliRunner().invoke(cli, args).exit_code == 0 and (folder / "out.csv").read_text().startswith("sex,town\n")


@pytest.mark.parametrize("way", ["same", "symlink", "report"])
def test_an_output_that_is_the_input(folder, way):
    write(folder, GOOD)
    if way == "symlink":
        (folder / "out.csv").symlink_to(folder / "people.csv")
    out = "people.csv" if way == "same" else "out.csv" if way == "symlink" else "new.csv"
    more = ["--report", folder / "people.csv"] if way == "report" else []
    refused(folder, asked(folder, "people.csv", "--force", *more, out=out), 6, "is the input")


@pytest.mark.parametrize("nameless", [True, False], ids=["nameless", "hidden"])
@pytest.mark.parametrize("name", ["out.csv", "out.manifest.json", "out.report.html", "out.mechanism.json"])
def test_a_file_that_cannot_be_named_takes_the_others_back(folder, monkeypatch, name, nameless):
    real = atomic.FileDraft.publish

    def publish(draft, *, replace):
        if draft.target.name == name:
            raise OSError(errno.ENOSPC, "full")
        real(draft, replace=replace)

    monkeypatch.setattr(atomic.FileDraft, "publish", publish)
    if not nameless:
        monkeypatch.setattr(atomic, "UNNAMED", 0)
    refused(folder, asked(folder, write(folder, GOOD)), 6, f"{name} could not be written", "Nothing was left behind")


@pytest.mark.parametrize("step", ["sfumato.releasing.session.public_report", "sfumato.reporting.lines_of"])
def test_a_bug_at_any_step_leaves_nothing_and_shows_no_value(folder, monkeypatch, step):
    def broken(*args, **options):
        raise RuntimeError(f"about {PRIVATE}")

    monkeypatch.setattr(step, broken)
    write(folder, GOOD)
    done = CliRunner().invoke(cli, asked(folder, "people.csv"))

    assert done.exit_code == 70
    assert "RuntimeError at test_bad_input.py" in done.stderr
    assert PRIVATE not in done.output
    assert os.listdir(folder) == ["people.csv"]


# The process

STEPS = textwrap.dedent("""
    import os, resource, signal, sys, time
    import sfumato.releasing.flow as flow
    import sfumato.atomic as atomic
    what, *args = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
    if "hidden" in what:
        atomic.UNNAMED = 0
    if "full" in what:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    if "wait" in what:
        whole = flow.Flow.batches
        def batches(self, progress=None):
            for batch in whole(self, progress):
                yield batch
                print("halfway", flush=True)
                time.sleep(60)
        flow.Flow.batches = batches
    sys.argv[1:] = args
    from sfumato.cli import main
    main()
""")


def started(what, args):
    return subprocess.Popen(
        [sys.executable, "-c", STEPS, what, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def many(folder, mechanism):
    """A table of several batches, and a mechanism for it."""
    return write(folder, GOOD.partition("\n")[0] + "\n" + GOOD.partition("\n")[2] * 1500, "many.csv")


def test_a_full_disk(folder, mechanism, many):
    process = started("full", using(folder, mechanism, many))
    said = process.communicate(timeout=60)[1]

    assert process.returncode == 6
    assert "out.csv could not be written: there is not enough room. Nothing was left behind." in said
    assert PRIVATE not in said
    assert sorted(os.listdir(folder)) == ["first.mechanism.json", "many.csv", "people.csv"]


@pytest.mark.parametrize(
    ("what", "number", "code"),
    [("wait", signal.SIGINT, 130), ("wait, hidden", signal.SIGTERM, 143), ("wait", signal.SIGKILL, -9)],
    ids=["Ctrl-C", "terminated", "kill -9"],
)
def test_a_release_that_is_stopped_in_the_middle(folder, mechanism, many, what, number, code):
    process = started(what, using(folder, mechanism, many))
    assert process.stdout.readline() == "halfway\n"

    process.send_signal(number)
    out, said = process.communicate(timeout=60)

    assert process.returncode == code
    assert code == -9 or "what was not finished was discarded" in said
    assert PRIVATE not in out + said and "Traceback" not in said
    assert sorted(os.listdir(folder)) == ["first.mechanism.json", "many.csv", "people.csv"]


def test_every_exit_code_of_an_error_is_documented():
    errors = [sf.SfumatoError, *sf.SfumatoError.__subclasses__()]

    assert {e.exit_code for e in errors} <= set(EXIT_CODES)


# What cannot be written or kept is said before any work


@pytest.fixture
def sealed(folder, monkeypatch):
    """A folder, named by the caller, in which nothing can be made: root is stopped by no permission."""
    made, locked = atomic.FileDraft.beside, []

    def beside(target):
        if target.parent in locked:
            raise PermissionError(errno.EACCES, "Permission denied")
        return made(target)

    monkeypatch.setattr(atomic.FileDraft, "beside", beside)
    monkeypatch.setattr("sfumato.releasing.planning.designed", lambda *_: pytest.fail("it was designed all the same"))
    return locked


@pytest.mark.parametrize("out", ["out.csv", "out"])
def test_an_output_that_cannot_be_written_is_refused_before_the_design(folder, sealed, tmp_path, out):
    (tmp_path / "shut").mkdir()
    sealed.append(tmp_path / "shut")

    refused(folder, asked(folder, write(folder, GOOD), out=tmp_path / "shut" / out), 6, "could not be written", "Permission")


def test_counts_that_cannot_be_kept_are_refused_before_they_are_drawn(folder, sealed, monkeypatch, tmp_path):
    sealed.append(folder)
    monkeypatch.setattr("sfumato.releasing.basis.noisy_counts", lambda *_, **__: pytest.fail("noise was drawn"))
    table, out = folder / write(folder, GOOD), tmp_path / "out.csv"

    for public in ([], ["--public-labels", "all"]):
        args = ["release", str(table), "--secret", "sex", "--useful", "town", "--epsilon", "1", "--design", "noisy", *public]
        refused(folder, [*args, "--out", str(out)], 6, "is kept, so that it is paid for once", "--counts-in DIR")
    with pytest.raises(OutputError, match="counts_in="):
        sf.plan(table, "sex", 1.0, "town", design="noisy")


def test_columns_that_a_bundle_cannot_have_are_refused_all_at_once(folder):
    rows = "".join(f"{'FM'[i % 2]},{'ABC'[i // 2 % 3]},{i},{i % 7}\n" for i in range(60))
    args = ["plan", str(folder / write(folder, f"sex,town,age,kids\n{rows}")), "--secret", "sex", "--useful", "town,age,kids",
            "--epsilon", "1", "--columns", "bundle", "--bins", "kids=2;4", "--bins", "age=3"]

    refused(folder, args, 2, "edges of age would", "whether values of kids are missing", "labels of sex and town would",
            "--bins 'age=20;50'", "--missing refuse", "--public-labels all")
    refused(folder, [*args, "--gap", "0.1", "--aim", "information"], 2, "--aim and --gap are for a single mechanism")


@pytest.mark.parametrize(("args", "said"), [
    (["survey", "--question", "drug: yes, no", "--out", "s.html"], "say --epsilon, or both --once and --forever"),
    (["survey", "--question", "drug: yes, no", "--epsilon", "1", "--wave", "2"], "Say --once and --forever, not --epsilon"),
    (["compare", "adult", "--secret", "sex", "--useful", "race", "--time-limit", "-1"], "--time-limit must be"),
    (["plan", "people.csv", "--secret", "sex", "--useful", "town", "--epsilon", "1", "--time-limit", "-1", *FAST[4:]],
     "--time-limit must be"),
])
def test_errors_of_commands_name_options_as_the_shell_does(folder, monkeypatch, args, said):
    write(folder, GOOD)
    monkeypatch.chdir(folder)

    refused(folder, args, 2, said)


def test_a_table_is_no_mechanism_file_and_a_mechanism_file_no_table(folder):
    write(folder, GOOD)
    write(folder, "{}", "out.mechanism.json")

    text = refused(folder, ["verify", str(folder / "people.csv")], 4, "people.csv is not a mechanism file. That of a release")
    assert "JSON" not in text and "Expecting" not in text
    refused(folder, ["estimate", str(folder / "out.mechanism.json")], 2, "is a file beside a released table. Give the table")


def test_a_column_that_is_no_count_is_told_what_counts_are(folder):
    table = write(folder, GOOD)

    refused(folder, asked(folder, table, "--counts", "town", useful=""), 3,
            "column 'town', row 1: a count must be a whole number", "--counts names the column that says how many people")
    write(folder, "sex,town,age\nF,A,30\nM,B,40\nF,B,50\n")
    refused(folder, asked(folder, table, "--counts", "age", useful="age,town"), 2,
            "'age' is not a column of people.csv (people by age)")


def test_a_folder_of_a_comparison_that_cannot_be_written_is_refused_before_the_table_is_read(folder):
    table = folder / write(folder, GOOD)

    refused(folder, ["compare", str(folder / "none.csv"), "--secret", "sex", "--out", str(table / "compared")], 6,
            "could not be written")


def test_a_ledger_that_is_not_there_is_told_with_its_whole_path(folder, monkeypatch):
    monkeypatch.chdir(folder)

    refused(folder, ["ledger", "list"], 2, f"there is no ledger at {folder / 'sfumato.ledger'}".split()[-1], "--ledger FILE")


def test_a_table_that_is_asked_for_by_a_wrong_column_is_refused_before_anything_is_shown(folder):
    joint = sf.Joint.from_counts([[30, 40], [50, 60]], sf.Column.of("sex", "FM"), sf.Column.of("town", "AB"))
    mechanism = sf.design(sf.ChiSquareBall(joint), 1.0, "srr").mechanism
    sf.release(sf.datasets.rows(joint), mechanism, folder / "out.csv")
    mechanism.save(folder / "out.mechanism.json")

    refused(folder, ["estimate", str(folder / "out.csv"), "--table", "sxe,town"], 2, "Did you mean 'sex'?")


def test_notices_and_notes_in_python_show_no_marks_of_their_options():
    plan = sf.plan(sf.datasets.rows(sf.datasets.adult("sex", "race")), "sex", 1.0, "race", design="exact", method="srr")

    for shown in (repr(plan.notices()), repr(plan.notes), str(plan), *map(str, plan.notes)):
        assert not any(mark in shown or repr(mark)[1:-1] in shown for mark in "\x02\x03\x1f")
    assert "design='auto'" in repr(plan.notices())


@pytest.mark.parametrize(("asked", "said"), [
    (lambda j: sf.ChiSquareBall(j, confidence="95%"), "confidence must lie strictly between 0 and 1, got '95%'"),
    (lambda j: sf.ChiSquareBall(j, radius="big"), "radius must be finite and not negative, got 'big'"),
    (lambda j: sf.RenyiBall(j, alpha="half", radius=1.0), "alpha must be positive and finite, got 'half'"),
    (lambda j: sf.design(j, 1.0, "distortion", distance="hamming", tolerance="small"), "tolerance must be positive"),
    (lambda j: sf.designs(j, [1.0, 2.0], "ballopt", working=-1), "working must be a number of seconds"),
    (lambda j: sf.design(j, 1.0, "precise", working="x"), "working must be a number of seconds"),
    (lambda j: sf.designs(j, [1.0, 2.0], "ballopt", gap=-1), "gap must be a positive number"),
    (lambda j: sf.designs(j, [1.0, 2.0], "precise", gap="x"), "gap must be a positive number"),
])
def test_text_where_numbers_belong_is_told_in_words(asked, said):
    with pytest.raises(sf.errors.InputError, match=re.escape(said)):
        asked(sf.Joint.from_counts([[30, 10], [20, 40]]))


def test_products_with_too_many_extreme_rows_are_refused_in_words():
    rng = np.random.default_rng(1)
    counts = rng.multinomial(200_000, rng.dirichlet(np.full(44 * 43, 0.3))).reshape(44, 43)

    with pytest.raises(sf.InputError, match="too many extreme rows"):
        sf.design(sf.Exactly(sf.Joint.from_counts(counts)), 8.0, "srlip", time_limit=1.0)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_rows_taller_than_a_solver_takes_and_rows_without_mass_end_in_designs():
    sparse = np.random.default_rng(7).multinomial(6, np.full(76, 1 / 76)).reshape(19, 4)

    assert sf.design(sf.Exactly(sf.Joint.from_counts(sparse)), 8.0, "nr", at_most=40.0).certificate.holds
    one = sf.ChiSquareBall(sf.Joint.from_counts([[50], [70]]))
    assert sf.design(one, 0.5, "precise", time_limit=0.3).certificate.holds
