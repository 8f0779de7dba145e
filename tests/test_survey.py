"""Surveys: what a page draws is what Python draws, and what labels alone can promise is proved."""

import json
import math
import re
import subprocess
from fractions import Fraction

import msgspec
import numpy as np
import pytest
import qrcode
from tests import sampler_vectors as vectors

import sfumato as sf
import sfumato_kernel as kernel
from sfumato.certification.rationals import about_anything, about_input
from sfumato.errors import InputError
from sfumato.mechanism import Unary
from sfumato.mechanism.file import record_of
from sfumato.survey import Form, Language, MalformedAnswer, Question, Survey, asked, words_in
from sfumato.survey.survey_page import LAWS

needs_node = pytest.mark.skipif(vectors.node() is None, reason="no node on this machine (or set SFUMATO_NODE)")
QUESTIONS = {"drug": ["yes", "no"], "age": ["18-29", "30-49", "50+"], "job": [f"job {i}" for i in range(9)]}
TOML = """
title = "Health and work"
introduction = "Three questions."
epsilon = 1.5
asks = "apart"
[[question]]
name = "drug"
text = "Have you taken any drugs in the last month?"
labels = ["yes", "no"]
shown = ["Yes", "No"]
[[question]]
name = "age"
labels = ["18-29", "30-49", "50+"]
"""


def test_the_vectors_hold_every_law_that_a_page_draws_from():
    assert {law.kind for law in vectors.laws(np.random.default_rng(0), 6)} == set(LAWS)


@needs_node
def test_the_page_draws_what_python_draws_for_every_word_of_a_small_width(tmp_path):
    rng, sent, expected = np.random.default_rng(1), [], []
    for law in [*vectors.laws(rng, 6), *vectors.laws(rng, 7), Unary(1, 3, 3, 1, 2)]:
        width = 2 ** (law.bits * law.words) if law.kind == "unary" and law.bits == 2 else 2**law.bits
        words = np.arange(width, dtype=np.uint64)[:, None]
        if law.words > 1:
            words = words >> (2 * np.arange(law.words, dtype=np.uint64)) if law.bits == 2 else rng.integers(0, 2**law.bits, (width, law.words), dtype=np.uint64)
        codes = np.repeat(np.arange(law.rows * law.useful), width)
        every = np.tile(words, (law.rows * law.useful, 1))
        sent.append(vectors.vector(law, codes, every))
        expected.append(vectors.plain(law, law.draw(codes, every)))

    assert vectors.drawn_in_node(sent, tmp_path) == expected


@needs_node
def test_the_page_draws_what_python_draws_from_full_words(tmp_path):
    rng, sent, expected = np.random.default_rng(2), [], []
    for law in vectors.laws(rng, 62):
        codes = rng.integers(0, law.rows * law.useful, 500)
        words = rng.integers(0, 2**64, (500, law.words), dtype=np.uint64)
        sent.append(vectors.vector(law, codes, words))
        expected.append(vectors.plain(law, law.draw(codes, words)))

    assert vectors.drawn_in_node(sent, tmp_path) == expected


@needs_node
def test_the_levels_that_a_page_shows_are_the_exact_ratios_of_the_integers(tmp_path):
    made = [vectors.mechanism(law) for bits in (7, 62) for law in vectors.laws(np.random.default_rng(4), bits)]
    files = [msgspec.json.encode(record_of(m)).decode() for m in made]
    script = f"require({str(vectors.SCRIPTS[0])!r}); const show = (r) => r.map(String); console.log(JSON.stringify({json.dumps(files)}" \
        ".map((f) => sfumatoKernel.levels(f)).map((x) => [show(x.record), show(x.secret)])))"

    found = json.loads(subprocess.run([vectors.node(), "-e", script], capture_output=True, text=True, check=True).stdout)

    for m, levels in zip(made, found, strict=True):
        for (top, bottom), proved in zip(levels, (about_input(m).ratio, about_anything(m).ratio), strict=True):
            assert (Fraction(int(top), int(bottom)) if int(bottom) else math.inf) == proved


@needs_node
def test_qr_codes_are_those_of_another_encoder():
    rng = np.random.default_rng(3)
    texts = ["sfumato:1:" + "".join(rng.choice(list("abcXYZ019.-_"), n)) for n in (1, 30, 60, 90, 160, 250, 400, 600)]
    script = f"require({str(vectors.SCRIPTS[1].with_name('qr.js'))!r}); console.log(JSON.stringify({json.dumps(texts)}.map((t, i) => sfumatoQR.matrix(t, i % 8))))"
    drawn = json.loads(subprocess.run([vectors.node(), "-e", script], capture_output=True, text=True, check=True).stdout)

    for i, (text, ours) in enumerate(zip(texts, drawn, strict=True)):
        other = qrcode.QRCode(error_correction=qrcode.constants.ERROR_CORRECT_M, border=0, mask_pattern=i % 8)
        other.add_data(qrcode.util.QRData(text, mode=qrcode.util.MODE_8BIT_BYTE))
        other.make(fit=True)
        assert ours == other.get_matrix()


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("asks", ["auto", "together", "apart", "in turn"])
def test_surveys_from_labels_keep_their_promise_about_the_whole_record(epsilon, asks, tmp_path):
    made = Survey.of_labels(QUESTIONS, epsilon, asks=asks)
    _, file = made.save(tmp_path / "survey.html")
    parts = getattr(made.mechanism, "parts", (made.mechanism,))
    levels = [sf.certification.certificate(p, sf.mechanism.Claim("ldp", 0.0)).level for p in parts]

    assert kernel.verify(file.read_bytes()).proved
    assert (max(levels) if asks == "in turn" else sum(levels)) <= epsilon
    assert len(made.page().encode()) < 300_000


@pytest.mark.parametrize("labels", [2, 5, 9, 30, 200])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_a_single_sensitive_question_needs_no_table_and_no_dummy_column(labels, epsilon, tmp_path):
    made = Survey.of_labels({"q": [f"v{i}" for i in range(labels)]}, epsilon)
    _, file = made.save(tmp_path / "survey.html")

    assert made.mechanism.useful.names == ("q",) and made.mechanism.secret.size == 1
    assert kernel.verify(file.read_bytes()).proved
    answers = made.mechanism.respond(q=["v0", "v1"] * 400)
    low, high = sf.estimate(answers, made.mechanism).interval(1 - 1e-7)
    truth = np.array([0.5, 0.5, *[0.0] * (labels - 2)])
    assert np.all(low <= truth) and np.all(truth <= high)


def test_sensitive_questions_are_protected_for_any_distribution_of_the_others():
    asked_ = [Question("drug", ("yes", "no")), Question("region", tuple(f"r{i}" for i in range(6)), sensitive=False)]

    made = Survey.of_labels(asked_, 1.0, protects="sensitive")

    assert made.mechanism.claim.within.kind == "anything" and made.mechanism.secret.names == ("drug",)
    assert sf.certify(made.mechanism).level <= 1.0


def test_a_file_of_questions_becomes_a_survey(tmp_path):
    (tmp_path / "q.toml").write_text(TOML)

    made = Survey.read(tmp_path / "q.toml")

    assert made.title == "Health and work" and [q.name for q in made.questions] == ["drug", "age"]
    assert made.mechanism.claim.epsilon == 1.5 and "Have you taken any drugs" in made.page()
    assert Survey.read(tmp_path / "q.toml", epsilon=0.5).mechanism.claim.epsilon == 0.5


@pytest.mark.parametrize(("text", "said"), [
    ("title = 3", "question"), ("epsilon = 1", "question"), ("[[question]]\nname = 'a'\nlabels = ['x']", "two labels"),
    ("[[question]]\nname = 'a'\nlabels = ['x', 'y']\nage = 1", "age"), ("not toml", "TOML"),
    ("[[question]]\nname = 'a'\nlabels = ['x', 'x']", "twice"), ("[[question]]\nname = 'a'\nlabels = ['x', 'y']", "epsilon"),
])
def test_bad_files_are_refused_in_words(tmp_path, text, said):
    (tmp_path / "q.toml").write_text(text)
    with pytest.raises(InputError, match=said):
        Survey.read(tmp_path / "q.toml")


def test_a_mechanism_becomes_a_survey_and_bad_questions_are_refused():
    law = sf.design(sf.ChiSquareBall(sf.datasets.adult("sex", "race")), 1.0, "srr").mechanism

    made = Survey.of_mechanism(law)

    assert [q.name for q in made.questions] == ["sex", "race"]
    with pytest.raises(InputError, match="columns that the mechanism reads"):
        Survey((asked("x: a, b"),), law)
    with pytest.raises(InputError, match="NAME: LABEL"):
        asked("no labels")
    with pytest.raises(InputError, match="address like"):
        made.page(collector="javascript:alert(1)")


def test_the_page_proves_a_cap_for_any_distribution_beside_a_promise_over_a_ball():
    ball = sf.ChiSquareBall(sf.datasets.adult("sex", "race"))

    capped = Survey.of_mechanism(sf.design(ball, 1.0, "grr", at_most=1.5).mechanism)

    assert '"claim":{"about":"secret","epsilon":1.5}' in capped.page()
    assert '"claim":null' in Survey.of_mechanism(sf.design(ball, 1.0, "grr").mechanism).page()


def test_german_words_fill_the_same_gaps_as_english_ones(tmp_path):
    english, german = (msgspec.structs.asdict(words_in(x)) for x in ("en", "de"))

    for name, text in english.items():
        assert set(re.findall(r"{\w+}", text)) == set(re.findall(r"{\w+}", german[name])), name
    assert not [name for name, text in english.items() if text == german[name] and name != "direction"]
    (tmp_path / "own.toml").write_text('language = "fr"\nsend = "Envoyer"')
    assert words_in(tmp_path / "own.toml") == msgspec.structs.replace(Language(), language="fr", send="Envoyer")
    with pytest.raises(InputError, match="language"):
        words_in("xx")


def test_texts_cannot_leave_their_place_in_the_page():
    made = Survey.of_labels([Question("</script><b>", ("<i>", "&amp;"), text="</title><img src=x>")], 1.0, title="<x>")

    page = made.page()

    assert "<img" not in page and "<x>" not in page and page.count("</script>") == 2


@pytest.mark.parametrize("asks", ["together", "apart", "in turn"])
def test_lines_are_read_as_they_are_written_and_nothing_else_is(asks):
    form = Form.of(Survey.of_labels(QUESTIONS, 2.0, asks=asks).mechanism)
    drawn = tuple((n - 1 if i == 0 or asks != "in turn" else None) for i, n in enumerate(form.outputs))
    line = form.line("A" * 22, drawn)

    assert form.read(line) == ("A" * 22, line.split(":")[-1])
    spoilt = [line + "1", line.rpartition(":")[0] + ":", line + ".", line.replace("sfumato", "x"), line.replace(form.survey, "0" * 16), "", line + "\n", " " + line,
              line.replace("A" * 22, "A" * 21), line.replace("A" * 22, "é" * 22), form.line("A" * 22, (form.outputs[0], *drawn[1:])), line * 1000,
              form.line("A" * 22, ("00", *drawn[1:])), form.line("A" * 22, (None,) * len(drawn)), form.line("A" * 22, ("٣", *drawn[1:]))]
    for text in spoilt:
        with pytest.raises(MalformedAnswer):
            form.read(text)


@pytest.mark.parametrize("method", ["grr", "srr", "oue", "cr"])
def test_lists_of_answers_of_every_kind_are_estimated_as_their_counts_are(method):
    joint = sf.datasets.adult("sex", "race")
    law = sf.design(sf.ChiSquareBall(joint), 1.0, method).mechanism
    x = np.random.default_rng(0).integers(0, law.inputs, 500)
    words = np.random.default_rng(1).integers(0, 2**64, (500, law.law.words), dtype=np.uint64)
    drawn = law.law.draw(x, words)

    found = sf.estimate(law.told(drawn), law)

    whole = sf.estimate(drawn.sum(0), law, n=500) if method == "oue" else sf.estimate(np.bincount(drawn, minlength=law.outputs), law)
    assert found.n == 500 and np.array_equal(found.p, whole.p)


def test_answers_of_bundles_and_blocks_and_dictionaries_are_estimated():
    for asks in ("apart", "in turn"):
        made = Survey.of_labels(QUESTIONS, 3.0, asks=asks).mechanism
        record = {"drug": "yes", "age": "50+", "job": "job 1"}
        assert sf.estimate(made.respond([record] * 900), made).table("age").p[2] > 0.8
    blocks = Survey.of_labels({"q": [f"v{i}" for i in range(60)]}, 2.0).mechanism
    assert blocks.law.kind == "blocks"
    assert sf.estimate(blocks.respond([{"q": "v7"}] * 3000), blocks).p[7] > 0.8
    grr = sf.design(sf.Anything(sf.Joint.uniform(["a", "b"], ["c", "d"])), 5.0, "grr").mechanism
    assert sf.estimate([{"secret": "a", "useful": "d"}] * 50, grr).p[0, 1] > 0.9


def test_records_are_given_by_name_in_order_or_many_at_once():
    made = Survey.of_labels(QUESTIONS, 50.0, asks="together").mechanism
    truth = ("yes", "50+", "job 3")
    record = dict(zip(QUESTIONS, truth, strict=True))

    assert made.respond(*truth) == made.respond(**record) == made.respond(record) == truth
    assert made.respond([record] * 3) == made.respond({k: [v] * 3 for k, v in record.items()}) == [truth] * 3
    for wrong in (lambda: made.respond("yes"), lambda: made.respond(drug="yes"), lambda: made.respond([record, 3]),
                  lambda: made.respond("yes", **record), lambda: made.respond({**record, "drug": ["yes"]})):
        with pytest.raises(InputError):
            wrong()
    with pytest.raises(InputError, match="one respondent"):
        made.respond([record], memo=b"0" * 32)
