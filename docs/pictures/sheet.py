"""A sheet of SVG: a few shapes in the colours of the reports, on paper that follows light and dark."""

from __future__ import annotations

from xml.sax.saxutils import escape

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1d2430",
    "soft": "#545e6e",
    "grid": "#d9d6cd",
    "faint": "#ece9e2",
    "blue": "#0060a0",
    "orange": "#b34700",
    "green": "#00735a",
    "pale": "#c9dcea",
}
DARK = {
    "paper": "#1c2027",
    "ink": "#e7e9ee",
    "soft": "#a9b2c0",
    "grid": "#363d49",
    "faint": "#2a303a",
    "blue": "#6db9f2",
    "orange": "#f49a5c",
    "green": "#4fd0ab",
    "pale": "#2c4a63",
}


class Sheet:
    """Shapes are added in order; `text()` is the document, with its title and its words for those who do not see it."""

    def __init__(self, width: float, height: float, title: str, told: str) -> None:
        self.width, self.height, self.title, self.told, self.parts = width, height, title, told, []

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 13,
        kind: str = "ink",
        at: str = "start",
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text class="{kind}" x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{at}"{weight}>'
            f"{escape(words)}</text>"
        )

    def box(
        self, x: float, y: float, w: float, h: float, *, kind: str = "faint", round: float = 6, edge: str = ""
    ) -> None:
        line = f' style="stroke:var(--{edge})"' if edge else ""
        self.parts.append(
            f'<rect class="{kind}" x="{x:.4g}" y="{y:.4g}" width="{w:.4g}" height="{h:.4g}" rx="{round:g}"{line}/>'
        )

    def line(self, *points: tuple[float, float], kind: str = "grid", thick: float = 1, dashes: str = "") -> None:
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        where = " ".join(f"{x:.4g},{y:.4g}" for x, y in points)
        self.parts.append(f'<polyline class="l-{kind}" fill="none" stroke-width="{thick:g}"{dashed} points="{where}"/>')

    def dot(self, x: float, y: float, r: float, *, kind: str = "blue", share: float = 1.0) -> None:
        clear = f' opacity="{share:g}"' if share < 1 else ""
        self.parts.append(f'<circle class="{kind}" cx="{x:.5g}" cy="{y:.5g}" r="{r:.4g}"{clear}/>')

    def hundred(self, x: float, y: float, full: int, before: int, *, step: float = 14, kind: str = "orange") -> None:
        """A hundred dots in ten rows: `before` of them blue, the further ones up to `full` in another colour."""
        for i in range(100):
            colour = "blue" if i < before else kind if i < full else "faint"
            self.dot(x + (i % 10) * step, y + (i // 10) * step, 0.38 * step, kind=colour)

    def document(self) -> str:
        size = f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" height="{self.height:g}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t d" '
            f'font-family="system-ui, -apple-system, Segoe UI, Roboto, Arial, sans-serif">\n<title id="t">'
            f'{escape(self.title)}</title><desc id="d">{escape(self.told)}</desc>\n<style>{_style()}</style>\n'
            f'<rect class="paper" width="{self.width:g}" height="{self.height:g}" rx="8"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def _style() -> str:
    names = "".join(f".{name}{{fill:var(--{name})}}.l-{name}{{stroke:var(--{name})}}" for name in LIGHT)

    def root(colours: dict[str, str]) -> str:
        return ":root{" + ";".join(f"--{name}:{code}" for name, code in colours.items()) + "}"

    return f"{root(LIGHT)}{names}@media(prefers-color-scheme:dark){{{root(DARK)}}}"
