"""compose: what several releases of the same rows tell together, computed and not assumed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from sfumato.alphabet import Alphabet
from sfumato.certification import Certificate, certificate
from sfumato.certification.outward import log_up
from sfumato.certification.proving import unlisted
from sfumato.certification.rationals import power_product
from sfumato.certification.together import about_record, anywhere, drawn_for
from sfumato.composing.joining import factors_of, joined, shared_secret, total_levels
from sfumato.decimals import at_most, total
from sfumato.errors import InputError
from sfumato.joint import Joint
from sfumato.mechanism import Bundle, Claim, Mechanism, Product
from sfumato.mechanism.file_records import claim_record
from sfumato.uncertainty import Anything, Exactly, UncertaintySet

AS_GOOD_AS_KNOWN = 6.0  # nats: odds that change four hundredfold are as good as knowing
ANY_CLAIM = 1.0  # nats claimed while a level is sought; what is claimed does not matter there


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """A proved level of the whole under one notion, beside the proved levels of the releases one by one."""

    claim: Claim  # the notion, the set and, when the level is finite, the level itself
    level: float
    each: tuple[float, ...]  # of every release, in the order given
    exact: bool  # False: the joint outputs are too many to list, and the level is a bound
    release: int | None = None  # whose set it is over, where those of several are of one kind
    assumed: bool = False  # one release is taken over what it claims, and the others for any distribution

    @property
    def sum(self) -> float:
        """Of the single levels: a bound for LDP, for leakage about the record and over Anything, and for no other."""
        return math.fsum(self.each)

    @property
    def adds(self) -> bool:
        """Whether the sum is a bound under this notion."""
        claim = self.claim
        return claim.notion == "ldp" or (claim.notion == "leakage" and claim.within is None) or claim.anywhere

    @property
    def over_a_set(self) -> bool:
        return _is_over_a_set(self.claim)

    @property
    def title(self) -> str:
        if self.assumed:
            return "RLDP as any one of the releases assumes, and for every distribution of the others"
        where = {None: "whatever the distribution", "exactly": "at the design distribution",
                 "anything": "for every distribution", "chi-square-ball": "in the confidence ball",
                 "renyi-ball": "in the Rényi ball", "polytope": "for every mixture listed"}
        within = self.claim.within
        told = f"{self.claim.title} {where.get(None if within is None else within.kind, 'over the set given')}"
        return told if self.release is None else f"{told} of release {self.release}"


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """Several releases as one mechanism, with proved levels of the whole.

    What is asked of it and is not here is asked of the mechanism, so that `sf.level(composition, notion)` and the
    like work as they do for a single one.
    """

    joint: Mechanism | None  # claims every finite level that its file can state; None where levels are bounds only
    levels: tuple[Level, ...]
    releases: tuple[Mechanism | Bundle, ...]
    within: UncertaintySet | None = None  # the set that was asked about, instead of those that the releases claim

    @property
    def mechanism(self) -> Mechanism:
        """All releases as one."""
        if self.joint is None:
            raise InputError(
                "a bundle never builds the table of all its columns, and a secret with other labels in each release "
                "has no one table: together they make no single mechanism", next="Ask for the levels.",
            )
        return self.joint

    @property
    def exact(self) -> bool:
        """Whether the joint outputs were listed; else levels are bounds."""
        return self.joint is not None and not unlisted(self.joint)

    @property
    def certificate(self) -> Certificate:
        """Of the first of the levels, with what is left of it elsewhere."""
        return certificate(self.mechanism)

    @property
    def sentence(self) -> str:
        """What the releases together mean for a person."""
        spent, delta = self.designs, f" (except with chance δ = {at_most(self.delta)})" if self.delta else ""
        over, anywhere = total(self._least(anywhere=False), spent), total(self._least(anywhere=True), spent)
        alone = len(self.releases) == 1
        many = "this release" if alone else f"these {len(self.releases)} releases together"
        tell, change = ("tells", "changes") if alone else ("tell", "change")
        tell = tell if self.exact else "may tell"  # of bounds nobody knows whether they are reached
        if over > AS_GOOD_AS_KNOWN:
            proved = "odds about it may change" if self.exact else "all that is proved is that odds about it change"
            return f"{many} {tell} the secret: {proved} by a factor of at most e^{at_most(over, 3)}."
        if anywhere > AS_GOOD_AS_KNOWN:
            return (
                f"{many} {change} the odds about a secret by a factor of at most {at_most(math.exp(over), 3)} for "
                f"somebody who knows only statistics{delta}, and {tell} it to somebody who knows the person's "
                "other values."
            )
        more = f", and {at_most(math.exp(anywhere), 3)} for somebody who knows the person's other values"
        return (
            f"{many} {change} the odds about a secret by a factor of at most "
            f"{at_most(math.exp(min(over, anywhere)), 3)}{more if anywhere > over else ', whoever looks'}{delta}."
        )

    @property
    def designs(self) -> float:
        """ε_d of all that the releases were designed from with noise, each draw once."""
        return drawn_for(self.releases)[0]

    @property
    def delta(self) -> float:
        """The chance that labels among that tell of single people, at most."""
        return drawn_for(self.releases)[1]

    def _least(self, anywhere: bool) -> float:
        """The level about the secret over what is claimed, or for any distribution."""
        found = [x.level for x in self.levels if x.claim.notion in ("rldp", "ldp") and (
            x.claim.within is None or isinstance(x.claim.within, Anything)
        )]
        if anywhere:
            return min(found, default=math.inf)
        sets = [x for x in self.levels if x.over_a_set]
        asked = [x for x in sets if x.assumed or x.claim.within is self.within]
        worst = max((x.level for x in asked or sets), default=math.inf)  # for whoever believed any of the claims
        return max(min([*found, worst], default=math.inf), 0.0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.mechanism, name)

    def level(
        self, notion: str, within: UncertaintySet | None = None, *, alpha: float | None = None,
        beta: float | None = None,
    ) -> float:
        """The proved level of the whole under any other notion or set: 'ldp', 'lip', 'rldp', 'srlip', 'leakage'."""
        return certificate(self.mechanism, Claim(notion, ANY_CLAIM, within, alpha, beta), wider=False).level


def compose(*mechanisms: Mechanism | Bundle, within: UncertaintySet | None = None) -> Composition:
    """The joint mechanism of several releases of the same rows, and its proved level under every notion.

    Inputs are shared and the noise is independent. Levels are exact, from integers, while the distinct joint outputs
    can be listed; beyond they are bounds (`certification.together`). Levels are stated over the sets that the
    mechanisms claim and over `within`, as far as those are about all the columns read. With a bundle, or where the
    secret has labels in one that another lacks, they are bounds about the labels that all know (`shared_secret`);
    where labels do not stand for the same people in each, about the values behind them, by what is about records. For
    LDP the sum of the levels is a bound; under RLDP over a set and LIP it is not, because all releases look at the same
    useful values. Here each release tells nothing, and two of them nearly everything (how much is only limited by the
    noise that sealing adds):

    >>> from sfumato import Joint, LIP, Tabular, seal
    >>> joint = Joint.from_counts([[0, 2, 0], [1, 0, 1]])  # S = 1 at the ends, S = 0 in the middle
    >>> hint = Tabular([[1, 0.5, 0], [0, 0.5, 1]], joint=joint, reads="useful")
    >>> hint, _ = seal(hint, Claim("lip", 1e-6, Exactly(joint)))
    >>> [round(compose(*[hint] * k).level("lip", Exactly(joint)), 3) for k in (1, 2)]
    [0.0, 18.022]
    """
    secret = shared_secret(mechanisms)
    single = tuple(m for m in mechanisms if isinstance(m, Mechanism) and m.secret == secret)
    if len(single) < len(mechanisms):
        return _bounded(mechanisms, secret, within)
    whole = joined(single)
    if within is not None:
        if within.joint.shape != (whole.secret.size, whole.useful.size):
            raise InputError(
                f"the set is about {within.joint.shape[0]} × {within.joint.shape[1]} values, the releases together "
                f"about {whole.secret.size} × {whole.useful.size}: {', '.join(whole.useful.names)}."
            )
        whole = replace(whole, joint=within.joint, source="unstated")
    levels = _told_apart(tuple(_levels(whole, single, within)), single)
    claiming = _claiming(whole, levels)
    return Composition(claiming, tuple(_assumed(levels, single) if within is None else levels), single, within)


def _bounded(
    releases: tuple[Mechanism | Bundle, ...], secret: Alphabet | None, within: UncertaintySet | None
) -> Composition:
    """Bounds of the whole where there is no one table of it: ratios for any distribution multiply, and about the record
    too. Whatever two labels are, none of these ratios is larger for labels that all releases know than for all. Without
    a secret that all share, two values may have one label in a release, where only its level about the record holds."""
    if within is not None:
        raise InputError(
            "a set is about one table of all columns, which is not built for a bundle, nor for a secret whose labels "
            "differ", next="Leave out within.",
        )
    public = _anything(secret or releases[0].secret)
    own_price = anywhere if secret is not None else about_record  # which holds between values that share a label too
    known = {id(m): (own_price(m), about_record(m)) for m in {id(m): m for m in releases}.values()}
    levels = []
    for i, claim in enumerate((Claim("rldp", ANY_CLAIM, public), Claim("ldp", ANY_CLAIM))):
        found = [known[id(m)][i] for m in releases]
        each = tuple(log_up(x.ratio) for x in found)
        levels.append(Level(claim, log_up(power_product((x, 1) for x in found)), each, False))
    return Composition(None, tuple(_assumed(levels, releases) if secret is not None else levels), releases)


def _anything(secret: Alphabet) -> Anything:
    """Every distribution of a secret and whatever is beside it."""
    return Anything(Joint.uniform(secret, Alphabet(())))


def _assumed(levels: Sequence[Level], releases: Sequence[Mechanism | Bundle]) -> Sequence[Level]:
    """The levels with that of one release over what it claims and the others for any distribution, whichever of them
    it is: a set need not be about the columns of all, and nobody has to say whose claim they believe."""
    known = {_key(replace(x.claim, epsilon=ANY_CLAIM, also=())) for x in levels if x.over_a_set}
    claims = [[replace(c, epsilon=ANY_CLAIM, also=()) for c in _claims(m) if _is_over_a_set(c)] for m in releases]
    if len(releases) == 1 or all(_key(c) in known for own in claims for c in own):
        return levels
    anyhow = [log_up(anywhere(m).ratio) for m in releases]
    found = [
        math.nextafter(math.fsum([total_levels([[m]], "rldp")[0].level, *anyhow[:i], *anyhow[i + 1:]]), math.inf)
        for i, (m, own) in enumerate(zip(releases, claims, strict=True)) if own
    ]
    first = next(c for own in claims for c in own)
    return [Level(first, max(found), tuple(anyhow), False, assumed=True), *levels]


def _is_over_a_set(claim: Claim) -> bool:
    """Whether it bounds the odds between secrets for every distribution of a set, but not for any."""
    within = claim.within
    return claim.notion == "rldp" and within is not None and not isinstance(within, (Anything, Exactly))


def _claims(made: Mechanism | Bundle) -> list[Claim]:
    """What a release claims over sets: of a bundle, its parts do, where it rests on what they assume."""
    if not isinstance(made, Bundle):
        return [] if made.claim is None else [made.claim]
    resting = made.claim is not None and made.claim.assuming != "nothing"
    return [part.claim for part in made.parts if resting and part.claim is not None]


def _levels(whole: Mechanism, releases: tuple[Mechanism, ...], within: UncertaintySet | None) -> Iterator[Level]:
    law = whole.law
    assert isinstance(law, Product)
    singles = [_lifted(whole, law, m) for m in releases]
    if whole.joint is None:  # no table has all the columns, which what holds for any of them does not need
        each = tuple(log_up(anywhere(m).ratio) for m in releases)
        claim = Claim("rldp", ANY_CLAIM, _anything(whole.secret))
        yield Level(claim, log_up(anywhere(whole).ratio), each, not unlisted(whole))
    for claim in _questions(whole, releases, within):
        found = _level(whole, claim)
        known: dict[int, float] = {}
        for m, single in zip(releases, singles, strict=True):
            if id(m.law) not in known:
                known[id(m.law)] = _level(single, claim)
        finite = replace(claim, epsilon=found) if math.isfinite(found) else claim
        yield Level(finite, found, tuple(known[id(m.law)] for m in releases), not unlisted(whole))


def _told_apart(levels: tuple[Level, ...], releases: tuple[Mechanism, ...]) -> tuple[Level, ...]:
    """Levels over sets of one kind say whose set each is about."""
    many = Counter(x.title for x in levels)
    owner = {id(c.within): i for i, m in reversed(list(enumerate(releases, 1))) for c in _claims(m)}
    return tuple(
        replace(x, release=owner.get(id(x.claim.within))) if many[x.title] > 1 else x for x in levels
    )


def _lifted(whole: Mechanism, law: Product, release: Mechanism) -> Mechanism:
    """One release as a mechanism over all columns; as it is when it reads all of them."""
    if release.useful == whole.useful:
        return replace(release, claim=None)
    parts = tuple(factors_of(release, whole.useful.names))
    return replace(whole, law=Product(parts, release.law.rows, law.sizes), reads=release.reads, claim=None)


def _questions(whole: Mechanism, releases: tuple[Mechanism, ...], within: UncertaintySet | None) -> list[Claim]:
    """What is asked about the whole: what the releases claim, and every notion that needs no more than is known."""
    claims = [c for m in releases if m.claim is not None for c in (m.claim, *m.claim.also)]
    own = [c for c in claims if c.within is None or c.within.joint.useful == whole.useful]
    asked = [replace(c, epsilon=ANY_CLAIM, also=()) for c in own]
    if within is not None:
        asked = [Claim("rldp", ANY_CLAIM, within), *asked]
    asked += [Claim("rldp", ANY_CLAIM, c.within) for c in own if c.within is not None]
    if whole.joint is not None:
        asked += [Claim(notion, ANY_CLAIM, Exactly(whole.joint)) for notion in ("rldp", "lip")]
        if len(whole.useful.columns) > 1:
            asked.append(Claim("srlip", ANY_CLAIM, Exactly(whole.joint)))
        asked.append(Claim("rldp", ANY_CLAIM, Anything(whole.joint)))
    asked += [Claim("ldp", ANY_CLAIM), Claim("leakage", ANY_CLAIM, None, math.inf, 1.0)]
    return list({_key(c): c for c in reversed(asked)}.values())[::-1]


def _key(claim: Claim) -> Hashable:
    if claim.within is None or isinstance(claim.within, Anything):  # whose joint has labels, and says no more
        return msgspec.json.encode(claim_record(claim))
    try:
        return msgspec.json.encode(claim_record(claim)), claim.within.joint.fingerprint
    except InputError:  # a set that no file can state is only like itself
        return claim.notion, id(claim.within)


def _level(mechanism: Mechanism, claim: Claim) -> float:
    """The proved level, or ∞ where none can be proved."""
    try:
        return certificate(mechanism, claim, wider=False).level
    except InputError:
        return math.inf


def _claiming(whole: Mechanism, levels: tuple[Level, ...]) -> Mechanism:
    """The whole with the levels that a file can hold: finite ones, around the one design distribution it has."""
    def fits(level: Level) -> bool:
        within = level.claim.within
        known = within is None or (whole.joint is not None and within.joint.fingerprint == whole.joint.fingerprint)
        return math.isfinite(level.level) and known and not (within is not None and within.kind == "custom")

    claims = [level.claim for level in levels if fits(level)]
    return whole.with_claim(replace(claims[0], also=tuple(claims[1:]))) if claims else whole
