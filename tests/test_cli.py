"""The commands: what they write, what they say, and how they say it."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli import COMMANDS, EXIT_CODES, cli
from sfumato.mechanism import Claim

FAST = ["--notion", "ldp", "--method", "srr", "--public-labels", "all"]  # proved without a ball: quick where the design does not matter
WRITTEN = ["out.csv", "out.manifest.json", "out.mechanism.json", "out.report.html", "out.tables.csv"]


def run(*args, code=0, **options):
    done = CliRunner().invoke(cli, [str(a) for a in args], **options)
    assert done.exit_code == code, done.output
    assert "\x1b" not in done.output
    return done


@pytest.fixture
def people(tmp_path):
    """200 people: sex and town fit, age has many values, name is nobody's business."""
    path = tmp_path / "in" / "people.csv"
    path.parent.mkdir()
    with path.open("w", newline="") as file:
        text = csv.writer(file)
        text.writerow(["name", "sex", "town", "age"])
        text.writerows([f"person-{i}", "FM"[i % 2], "ABC"[i // 2 % 3], 18 + i % 70] for i in range(200))
    return path


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "out.csv"


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def release(people, out, *more, code=0):
    return run("release", people, "--secret", "sex", "--epsilon", 1, "--out", out, *FAST, *more, code=code)


# Every command


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_in_its_help(name):
    said = run(name, "--help").output

    assert f"sfumato {name}" in said
    assert "Example" in said


def test_help_lists_commands_and_exit_codes_without_heavy_imports():
    code = (
        "import sys; from sfumato.cli import cli; cli.main(['--help'], standalone_mode=False);"
        "print([m for m in ('numpy', 'pyarrow', 'rich', 'numba', 'scipy') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said.endswith("[]\n")
    assert all(name in said for name in COMMANDS)
    assert all(text in said for text in EXIT_CODES.values())


def test_an_unknown_command_is_answered_with_the_nearest():
    assert "Did you mean 'release'?" in run("relaese", code=2).stderr


def test_the_guide_names_every_option_and_exit_code():
    guide = (Path(__file__).parent.parent / "docs" / "commands.md").read_text("utf-8")
    for name in COMMANDS:
        command = cli.get_command(None, name)
        for option in (o for p in command.params if p.param_type_name == "option" for o in p.opts):
            assert option in guide, (name, option)
        assert f"sfumato {name}" in guide
    for code in EXIT_CODES:
        assert f"| {code} |" in guide


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(shell):
    assert "_SFUMATO_COMPLETE" in run("completion", shell).stdout


def complete(words):
    env = {"_SFUMATO_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    return [line.split(",", 1)[1] for line in run(env=env).stdout.split()]


def test_the_shell_completes_commands_methods_and_columns(people):
    assert complete("sfumato ver") == ["verify"]
    assert complete("sfumato release x.csv --method gr") == ["grr"]
    assert complete(f"sfumato release {people} --secret s") == ["sex"]
    assert complete(f"sfumato release {people} --useful town,a") == ["town,age"]


# release


def test_release_writes_the_whole_set_and_says_what_it_promised(people, out):
    done = release(people, out, "--useful", "town")

    assert sorted(os.listdir(out.parent)) == WRITTEN
    assert out.read_text().startswith("sex,town\n")
    assert len(out.read_text().splitlines()) == 201
    assert "ε = 1 (LDP)" in done.stdout
    assert "ε ≤ " in done.stdout
    assert "NMI" in done.stdout
    assert "left out" in done.stdout and "name and age" in done.stdout
    assert all(name in "".join(done.stdout.split()) for name in WRITTEN)
    assert "person-" not in done.output + (out.parent / "out.report.html").read_text()
    run("verify", out.parent / "out.mechanism.json")


def test_from_exact_counts_the_promise_is_about_the_secret_over_the_ball(people, out):
    done = run("release", people, "--secret", "sex", "--useful", "town", "--epsilon", 1, "--out", out, "--method",
               "grr", "--design", "exact", "--json")

    said = json.loads(done.stdout)
    assert said["claim"]["notion"] == "rldp"
    assert said["claim"]["within"] == "chi-square-ball"
    assert said["claim"]["holds"] and said["claim"]["level"] <= 1


def test_designing_from_the_private_table_is_said_aloud(people, out):
    said = release(people, out, "--useful", "town", "--design", "exact").stderr

    assert "Counts of the private table become public" in said
    assert "--design-from" in said and "--split" in said
    assert "only 1 to 4 people" not in said
    assert sf.load(out.parent / "out.mechanism.json").source == "private"
    assert json.loads((out.parent / "out.manifest.json").read_text())["design_data"] == "private"


def test_a_way_out_that_another_command_has_is_said_with_its_name(people, tmp_path):
    asked = ["design", people, "--secret", "sex", "--useful", "town", "--epsilon", 1, "--out", tmp_path / "m.json"]

    said = run(*asked, *FAST, "--design", "exact").stderr + run(*asked, "--method", "polyopt", code=2).stderr

    told = " ".join(said.replace("│", " ").split())
    assert len(re.findall("--design-from|--split", told)) == 4
    assert len(re.findall("sfumato release --design-from|(sfumato release|or) --split", told)) == 4


def test_small_cells_are_counted_in_the_notice(people, out):
    with people.open("a") as file:
        file.write("x,F,D,20\ny,F,D,20\nz,M,E,20\n")

    assert "2 of its 10 cells hold only 1 to 4 people" in " ".join(
        release(people, out, "--useful", "town", "--design", "exact").stderr.replace("│", " ").split()
    )


def test_reference_data_keep_private_rows_out_of_the_file(people, out, tmp_path):
    reference = tmp_path / "in" / "reference.csv"
    reference.write_text("sex,town\n" + "F,A\nM,B\nF,C\nM,A\nF,B\nM,C\n" * 9)

    done = release(people, out, "--useful", "town", "--design-from", reference)

    mechanism = sf.load(out.parent / "out.mechanism.json")
    assert (mechanism.source, mechanism.joint.n) == ("reference", 54)
    assert "become public" not in done.stderr


def test_split_designs_on_rows_that_are_not_released(people, out):
    said = json.loads(release(people, out, "--useful", "town", "--split", 0.3, "--json").stdout)

    assert said["design_data"]["source"] == "split"
    assert said["design_data"]["rows"] + said["rows"] == 200
    assert 20 < said["design_data"]["rows"] < 110


def test_useful_columns_are_found_and_listed(people, out):
    done = release(people, out)

    said = " ".join(done.stderr.split())

    assert "chosen by the numbers of rows and of different values and by ε: town (others" in said
    assert "Left out: name (too many different values to be categories); age would make too many cells" in said
    assert out.read_text().startswith("sex,town\n")
    said = " ".join(release(people, out, "--epsilon", 4, "--force").stderr.split())
    assert "age is cut at" in said and out.read_text().startswith("sex,town,age\n")
    release(people, out, "--epsilon", 4, "--numbers", "labels", "--force")
    assert out.read_text().startswith("sex,town\n")


def test_binned_columns_are_found_too(people, out):
    said = json.loads(release(people, out, "--bins", "age=30;65", "--json").stdout)

    assert said["useful"] == ["town", "age"]
    assert "30 to < 65" in out.read_text()


def test_rare_labels_are_grouped(people, out):
    with people.open("a") as file:
        file.write("x,F,D,20\n" * 3)
    release(people, out, "--useful", "town", "--rare", "town=10", "--design", "exact")

    assert sf.load(out.parent / "out.mechanism.json").useful.columns[0].labels == ("A", "B", "C", "other")


def test_kept_columns_pass_untouched_and_are_named_as_unprotected(people, out):
    done = release(people, out, "--useful", "town", "--keep", "age")

    assert [r["age"] for r in table(out)] == [r["age"] for r in table(people)]
    assert "not protected" in done.stdout


def test_a_given_mechanism_is_used_and_not_written_again(people, out, tmp_path):
    release(people, out, "--useful", "town")
    again = tmp_path / "out" / "again.parquet"

    given = out.parent / "out.mechanism.json"

    said = json.loads(run("release", people, "--mechanism", given, "--out", again, "--json").stdout)

    assert sorted(os.listdir(out.parent)) == sorted(
        [*WRITTEN, "again.manifest.json", "again.parquet", "again.report.html", "again.tables.csv"]
    )
    assert pq.read_table(again).num_rows == said["rows"] == 200
    assert set(said["files"]) == {"table", "tables", "manifest", "report"}


def test_a_table_that_is_a_release_is_called_one_when_it_is_to_be_released_again(people, out, tmp_path):
    first = release(people, out, "--useful", "town")
    again = release(out, out.with_name("again.csv"), "--useful", "town")
    assert "is a release already" not in first.stderr and "is a release already" in again.stderr
    out.write_text(out.read_text() + out.read_text().splitlines()[-1] + "\n")  # another table than its manifest tells of

    assert "is a release already" not in release(out, out.with_name("third.csv"), "--useful", "town").stderr


def test_a_given_mechanism_excludes_design_options(people, out):
    said = run("release", people, "--mechanism", "m.json", "--epsilon", 1, "--out", out, code=2).stderr

    assert "leave out --epsilon" in said


def test_a_private_report_is_written_on_request_for_its_owner_alone(people, out):
    private = out.parent / "mine.html"
    release(people, out, "--useful", "town", "--private-report", private)

    assert private.stat().st_mode & 0o077 == 0
    assert sorted(os.listdir(out.parent)) == sorted([*WRITTEN, "mine.html"])


def test_a_seed_repeats_the_table_and_marks_it(people, out):
    release(people, out, "--useful", "town", "--seed", 7)
    first = out.read_bytes()
    done = release(people, out, "--useful", "town", "--seed", 7, "--force")

    assert out.read_bytes() == first
    assert "not for release" in done.stdout
    assert "not for release" in (out.parent / "out.manifest.json").read_text()


def test_decoded_rows_have_the_original_columns(people, out):
    run("release", people, "--secret", "sex", "--epsilon", 1, "--out", out, "--useful", "town", "--notion", "ldp",
        "--method", "oue", "--decode", "likely", "--public-labels", "all")

    assert {r["town"] for r in table(out)} <= set("ABC")


def test_json_is_one_document_on_stdout(people, out):
    done = release(people, out, "--useful", "town", "--json")

    said = json.loads(done.stdout)
    assert said["claim"]["epsilon"] == 1 and said["claim"]["holds"]
    assert said["files"]["table"] == str(out)
    assert said["bits"]["kept"] <= said["bits"]["ceiling"] + 1e-9
    assert done.stderr == "" and said["design_data"]["source"] == "public"


def test_a_time_limit_is_passed_on_or_said_to_be_needless(people, out):
    assert "time limit was not needed" in release(people, out, "--useful", "town", "--time-limit", 5).stdout


# design, verify, estimate, inspect, demo


def test_counts_and_rows_design_the_same_mechanism(people, tmp_path):
    cells = Counter((r["sex"], r["town"]) for r in table(people))
    listed = tmp_path / "cells.csv"
    listed.write_text("sex,town,people\n" + "".join(f"{s},{t},{n}\n" for (s, t), n in cells.items()))
    how = ["--secret", "sex", "--useful", "town", "--epsilon", 1, *FAST]

    run("design", people, *how, "--design", "exact", "--out", tmp_path / "a.json")
    done = run("design", listed, "--counts", "people", *how, "--source", "reference", "--out", tmp_path / "b.json")

    a, b = sf.load(tmp_path / "a.json"), sf.load(tmp_path / "b.json")
    assert a.joint.fingerprint == b.joint.fingerprint
    assert (a.source, b.source) == ("private", "reference")
    assert "become public" not in done.stderr


def test_verify_exits_with_5_and_the_witness_when_the_claim_fails(people, out, tmp_path):
    release(people, out, "--useful", "town")
    mechanism = sf.load(out.parent / "out.mechanism.json")
    bold = mechanism.with_claim(Claim("lip", 0.01, sf.Exactly(mechanism.joint))).save(tmp_path / "bold.json")
    silent = replace(mechanism, claim=None).save(tmp_path / "silent.json")

    done = run("verify", bold, code=5)
    told = run("verify", bold, "--json", code=5)

    assert "claimed ε ≤ 0.01 (LIP), proved only" in done.stderr
    assert re.search("worst at .*[FM] · [ABC]", done.stderr)
    assert json.loads(told.stdout)["claim"]["holds"] is False
    assert "claims no privacy" in run("verify", silent, code=5).stderr


def test_estimate_shows_intervals_and_writes_every_cell(people, out, tmp_path):
    release(people, out, "--useful", "town")
    cells = tmp_path / "cells.csv"

    shown = run("estimate", out, "--csv", cells).stdout
    said = json.loads(run("estimate", out, "--mechanism", out.parent / "out.mechanism.json", "--json").stdout)

    assert "estimate" in shown and "sex × town" not in shown
    assert "sex × town" in run("estimate", out, "--joint").stdout
    within = run("estimate", out, "--table", "sex,town").stdout
    assert "sex within town" in within and "independent" in within
    rows = table(cells)
    assert list(rows[0]) == ["sex", "town", "estimate", "low", "high", "error"]
    assert len(rows) == len(said["cells"]) == 6
    assert sum(c["estimate"] for c in said["cells"]) == pytest.approx(1)
    assert all(c["low"] <= c["estimate"] <= c["high"] for c in said["cells"])


def test_estimate_without_a_mechanism_says_which_file_it_looked_for(people):
    assert "people.mechanism.json" in run("estimate", people, code=2).stderr


def test_inspect_explains_every_output(people, out):
    release(people, out, "--useful", "town", "--design", "exact")

    shown = run("inspect", out.parent / "out.mechanism.json").stdout
    said = json.loads(run("inspect", out.parent / "out.mechanism.json", "--json").stdout)

    assert "the private table itself, 200 rows" in shown
    assert "What an output means" in shown
    assert len(said["posterior"]) == said["outputs"] == 6
    assert said["design_data"]["counts"] == sf.load(out.parent / "out.mechanism.json").joint.counts.tolist()


def test_labels_do_not_steer_the_terminal(people, out):
    plain = people.read_text()
    people.write_text(plain.replace(",A,", ",\x1b[31mA\x07,"))
    asked = ("--secret", "sex", "--useful", "town", "--epsilon", 1, "--public-labels", "all")
    refused = run("release", people, *asked, "--out", out, code=2)
    assert "column 'town'" in refused.output and "U+001B" in refused.output and "\x1b" not in refused.output
    people.write_text(plain.replace(",A,", ",\u202eA\u200b,"))  # a label that turns the line around

    release(people, out, "--useful", "town")

    assert "�A�" in run("inspect", out.parent / "out.mechanism.json").stdout
    assert "�A�" in run("estimate", out).stdout


@pytest.mark.parametrize("method", ["grr", "sue", "cr"])
def test_inspect_and_estimate_take_every_kind_of_law(method, people, out):
    run("release", people, "--secret", "sex", "--useful", "town", "--epsilon", 1, "--notion", "lip", "--method", method,
        "--design", "exact", "--out", out)

    run("inspect", out.parent / "out.mechanism.json")
    run("estimate", out)


def test_the_demo_leaves_files_to_look_at_and_overwrites_nothing(tmp_path, monkeypatch):
    from sfumato.releasing import planning

    monkeypatch.setattr(planning, "designed", lambda joint, wishes, listener, real=planning.designed: real(
        joint, replace(wishes, method="srr", notion="ldp"), listener))  # the real one takes seconds on a busy machine
    folder = tmp_path / "demo"

    told = run("demo", "--out", folder).stdout

    files = sorted(name for name in os.listdir(folder) if not name.endswith(".counts.json"))
    assert files == sorted([
        "adult.csv", "released.csv", "released.manifest.json", "released.mechanism.json", "released.private-report.html",
        "released.report.html", "released.tables.csv",
    ])
    assert len((folder / "released.csv").read_text().splitlines()) == 32562
    assert "The claim holds" in told
    there = sorted(os.listdir(folder))
    assert "exists" in run("demo", "--out", folder, code=6).stderr
    run("demo", "--out", folder, "--force")
    assert sorted(os.listdir(folder)) == there
