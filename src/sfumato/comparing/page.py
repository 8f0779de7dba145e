"""The page of a comparison: pictures, recommendation and table in one file that needs no network."""

from __future__ import annotations

from html import escape

from sfumato.comparing.comparison import Comparison
from sfumato.comparing.field import ENTRANTS, PLAIN
from sfumato.comparing.pictures import error_picture, kept_picture
from sfumato.comparing.points import Point
from sfumato.comparing.recommending import advice

STYLE = (
    ":root{color-scheme:light dark;--ink:#1d2430;--soft:#545e6e;--line:#d9d6cd;--paper:#fbfaf7}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e7e9ee;--soft:#a9b2c0;--line:#363d49;--paper:#14171c}}"
    "body{margin:0 auto;max-width:62rem;padding:1rem;background:var(--paper);color:var(--ink);"
    "font:16px/1.5 system-ui,sans-serif}h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2rem}"
    "svg{width:100%;height:auto;border:1px solid var(--line);border-radius:.5rem}.soft{color:var(--soft)}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}"
    "th,td{padding:.25rem .7rem .25rem 0;border-bottom:1px solid var(--line);text-align:right;font-weight:400;"
    "white-space:nowrap}th:first-child,td:last-child,th:last-child{text-align:left}thead th{color:var(--soft)}"
)


def page(found: Comparison, at: float) -> str:
    """The page, with the table at one ε."""
    names = f"{', '.join(found.joint.secret.names)} (secret) and {', '.join(found.joint.useful.names)} (useful)"
    rows = "" if found.n is None else f", errors for {found.n:,} released rows"
    told = "".join(f"<li>{escape(a.sentence)}</li>" for a in advice(found.at(at)))
    missing = {m.method: m.why for m in reversed(found.missing)}
    absent = "".join(f"<li><b>{escape(m)}</b>: {escape(why)}</li>" for m, why in missing.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Mechanisms compared</title><style>{STYLE}</style></head><body><main>"
        f'<h1>Mechanisms for {escape(names)}</h1><p class="soft">{found.joint.shape[0]} × {found.joint.shape[1]} cells'
        f"{rows}. Drawn firmly: ε about the secret over the whole set. Dashed: other promises, limits and scales.</p>"
        f"<h2>At ε = {at:.3g}</h2><ul>{told}</ul>{_table(found.at(at))}"
        f"<h2>What is kept</h2>{kept_picture(found)}"
        f"<h2>How well the useful columns can be estimated</h2>{_own(error_picture(found), 'useful')}"
        f"<h2>How well the whole table can be estimated</h2>{_own(error_picture(found, 'joint'), 'joint')}"
        + (f"<h2>Without a design</h2><ul>{absent}</ul>" if absent else "") + "</main></body></html>\n"
    )


def _own(svg: str, name: str) -> str:
    """Ids of their own for a further picture on the page."""
    return svg.replace("chart-", f"chart-{name}-")


def _table(points: tuple[Point, ...]) -> str:
    heads = ("method", "kept", "error useful", "error secret", "error joint", "level at resampled truths", "promise")
    head = "".join(f'<th scope="col">{h}</th>' for h in heads)
    ordered = sorted(points, key=lambda p: (not ENTRANTS[p.method].comparable, p.method in PLAIN, -(p.nmi or 0.0)))
    body = "".join(f"<tr>{_row(p)}</tr>" for p in ordered)
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _row(p: Point) -> str:
    told = (p.error(of) for of in ("useful", "secret", "joint"))
    errors = ("not told" if x == float("inf") else f"{x:.2g}" for x in told)
    kept = "–" if p.nmi is None else f"{p.nmi:.1%}"
    truths = "–" if p.realised is None else f"{p.realised.median:.3f} (95 %: {p.realised.high:.3f})"
    cells = (kept, *errors, truths, escape(p.promise))
    return f'<th scope="row">{escape(p.method)}</th>' + "".join(f"<td>{c}</td>" for c in cells)
