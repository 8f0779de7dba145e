"""Reports: numbers first, one page that needs no network, and nothing private in the public one."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import asdict
from html.parser import HTMLParser

import numpy as np
import pytest

import sfumato as sf
from sfumato import datasets
from sfumato.certification import certify
from sfumato.estimation import estimate
from sfumato.mechanism import Cells, Claim, Conditional, Mechanism, Table, Unary
from sfumato.releasing import release
from sfumato.reporting import facts_of, private_path, private_report, public_report, write_reports
from sfumato.reporting.mechanism_figures import worst_belief
from sfumato.uncertainty import Anything

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Balanced(HTMLParser):
    """Every element that opens closes, in order."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.ids = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(page):
    found = Balanced()
    found.feed(page)
    assert not found.open
    return found


def embedded(page):
    return re.search(r'<script type="application/json" id="facts">(.*?)</script>', page, re.S)[1]


def srr(joint, epsilon, source="private"):
    weights = np.array([np.exp(epsilon), np.exp(-epsilon), 1, 1])
    law = Cells(*joint.shape, 1, 0, 0, 0)
    law = Cells(*joint.shape, *(weights / (weights @ np.array(law.copies))))
    claim = Claim("rldp", epsilon + 1e-6, Anything(joint))
    return Mechanism(law.rounded(None, 0.0), joint.secret, joint.useful, "both", "srr", claim, joint, source)


@pytest.fixture(scope="module")
def design():
    return datasets.adult("sex", "race")


@pytest.fixture(scope="module")
def private():
    """A private table that is not the design table."""
    return sf.Joint.from_counts(
        [[7919, 1013, 2027, 3061, 4057], [5101, 6113, 7121, 8117, 9127]], *(
            getattr(datasets.adult("sex", "race"), side) for side in ("secret", "useful"))
    )


@pytest.fixture(scope="module")
def released(design, private):
    mechanism = srr(design, 1.0, "reference")
    table = release(datasets.rows(private, seed=1), mechanism, seed=2)
    return mechanism, certify(mechanism), estimate(table, mechanism)


def test_the_public_page_needs_nothing_from_outside(released):
    page = public_report(*released)
    found = parsed(page)

    assert not re.search(r"https?:|//|url\(|@import|src=|<link|<iframe|fetch\(|XMLHttp|import\(", page)
    assert "default-src 'none'" in page
    kinds = [attributes.get("type") for tag, attributes in found.tags if tag == "script"]
    assert kinds == ["application/json", None]  # the data, and the one script whose digest the policy names
    script = re.search(r"<script>(.*)</script>", page, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert len(page) < 1_500_000
    headings = [tag for tag, _ in found.tags if re.fullmatch("h[1-6]", tag)]
    assert headings.count("h1") == 1 and headings[0] == "h1"
    for tag, attributes in found.tags:
        if tag == "svg":
            assert attributes["aria-hidden"] == "true"  # its numbers are in a table, or its words on the box around it
        if attributes.get("role") == "img":
            assert len(attributes["aria-label"]) > 100
    assert ("html", {"lang": "en"}) in found.tags


def test_the_public_report_does_not_depend_on_the_private_table(released, private, tmp_path):
    other = sf.Joint.from_counts(private.counts[::-1] + 3, private.secret, private.useful)
    one = write_reports(tmp_path / "a.report.html", *released, truth=private)
    two = write_reports(tmp_path / "b.report.html", *released, truth=other)

    assert one[0].read_bytes() == two[0].read_bytes()
    assert one[1].read_bytes() != two[1].read_bytes()
    public = html.unescape(one[0].read_text().split("</style>")[1])
    for count in private.counts.ravel():
        assert not re.search(rf"(?<![\d.,a-f])({count}|{count:,})(?![\d.a-f])", public)
    facts = facts_of(*released)
    secrets = {round(float(x), 9) for x in [*private.p_secret, *private.p_useful, *private.p.ravel()]}
    assert not secrets & set(numbers(asdict(facts)))


def numbers(value):
    if isinstance(value, dict):
        return [x for item in value.values() for x in numbers(item)]
    if isinstance(value, (list, tuple)):
        return [x for item in value for x in numbers(item)]
    return [round(value, 9)] if isinstance(value, float) else []


def test_the_private_report_says_so_and_shows_the_truth(released, private):
    page = private_report(*released, private)

    assert "do not publish" in page and page.count("PRIVATE") == 1
    assert f"{private.n:,}" in page
    found = facts_of(*released, truth=private)
    assert found.private.distance < 0.2 and found.private.covered
    assert [side.covered for side in found.rows.sides] == [True, True]
    parsed(page)


def test_facts_are_json_and_agree_with_the_library(released, design):
    mechanism, certificate, found = released
    facts = facts_of(mechanism, certificate, found)

    json.dumps(asdict(facts))
    assert facts.promise.factor == pytest.approx(np.exp(facts.promise.epsilon))
    assert facts.promise.holds and facts.promise.level == certificate.level
    bits = np.log(2)
    assert facts.cost.kept == pytest.approx(sf.mutual_information(mechanism, design) / bits)
    kappa = facts.promise.epsilon / (1 - np.exp(-facts.promise.epsilon))
    told = min(design.entropy_secret, kappa - 1 - np.log(kappa))
    assert facts.cost.ceiling == pytest.approx((design.entropy_useful_given_secret + told) / bits)
    assert np.allclose(np.sum(facts.heat.values, axis=0), 1)


def test_beliefs_follow_bayes():
    assert worst_belief(0.5, np.log(3), "ldp") == pytest.approx(0.75)
    assert worst_belief(0.2, 0.5, "lip") == pytest.approx(0.2 * np.exp(0.5))
    assert worst_belief(0.5, np.log(3), "lip") == pytest.approx(5 / 6)  # the other half keeps a third of its share
    assert worst_belief(0.3, 0.1, "mi") == 1.0
    assert worst_belief(0.2, 0.0, "rldp") == pytest.approx(0.2)


@pytest.mark.parametrize(("source", "says"), [
    ("reference", "No private row went into"), ("split", "set aside"), ("private", "the private table itself"),
    ("unstated", "was not stated"),
])
def test_where_the_design_data_come_from_is_said(design, source, says):
    mechanism = srr(design, 1.0, source)

    page = public_report(mechanism, certify(mechanism))

    assert says in page and f"from {design.n:,} rows" in page


def test_small_cells_are_counted_and_named():
    joint = datasets.adult("occupation", "education")
    mechanism = srr(joint, 1.0)
    small = int(((joint.counts > 0) & (joint.counts < 5)).sum())

    page = public_report(mechanism, certify(mechanism))

    assert f"{small} of them count fewer than 5 people (the smallest: 1)" in page
    assert "the other 216" in page and len(page) < 300_000


def test_every_kind_of_law_has_a_page(design):
    keep = np.array([0.9, 0.8])
    laws = [
        Unary(2, 5, 0.5, 0.2), Table(np.random.default_rng(1).dirichlet(np.ones(40), 10).T, 2),
        Conditional(keep, (1 - keep)[:, None] * design.useful_given_secret[::-1]), Cells(1, 5, 0.6, 0.1, 0, 0),
    ]
    for law in laws:
        reads = "both" if law.rows > 1 else "useful"
        mechanism = Mechanism(law.rounded(None, 0.0), design.secret, design.useful, reads, joint=design)
        parsed(public_report(mechanism, None))


def test_labels_are_text_and_never_markup():
    joint = sf.Joint.from_counts([[5, 6], [7, 8]], ["<script>x</script>", "b"], ['"><img src=x>', "& d"])
    mechanism = srr(joint, 1.0)

    page = public_report(mechanism, certify(mechanism), estimate(np.full(4, 100), mechanism), title="<b>t</b>")

    assert page.count("<script") == 2 and "<img" not in page and "<b>t" not in page
    data = json.loads(embedded(page))
    assert data["heat"]["columns"][0] == '<script>x</script> · "><img src=x>'


def test_unprotected_columns_and_seeds_are_announced(design, tmp_path):
    mechanism = srr(design, 1.0)
    people = datasets.rows(design, seed=1)
    people = people.append_column("town", people.column("sex"))
    made = release(people, mechanism, tmp_path / "out.csv", keep=["town"], seed=1)

    page = public_report(mechanism, certify(mechanism), manifest=made.manifest)

    assert "Passed through without any protection:</strong> town" in page and "Not for release" in page


def test_existing_reports_are_not_replaced_and_nothing_is_left_behind(released, private, tmp_path):
    target = tmp_path / "x.report.html"
    private_path(target).write_text("mine")

    with pytest.raises(sf.SfumatoError, match="exists"):
        write_reports(target, *released, truth=private)

    assert [p.name for p in tmp_path.iterdir()] == ["x.private-report.html"]
    write_reports(target, *released, truth=private, force=True)
    assert private_path(target).read_text().startswith("<!DOCTYPE html>")
