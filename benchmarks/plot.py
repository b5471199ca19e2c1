"""A metric as a picture: bars, store by store, as SVG that can be read on light and on dark pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.metrics import Metric

WIDTH, LEFT, RIGHT = 760, 190, 130
ROW, BAR, GAP, TOP = 24, 14, 34, 46
STYLE = """
  .page { fill: #ffffff } text { fill: #24292f; font: 13px system-ui, sans-serif } .soft { fill: #57606a }
  .title { font-weight: 600; font-size: 15px } .store { font-weight: 600 } .peer { fill: #9aa7b5 } .ours { fill: #b4632a }
  .limit { fill: none; stroke: #57606a; stroke-dasharray: 3 2 } .reach { stroke: #24292f; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #1b1e24 } text { fill: #e6e9ed } .soft { fill: #a7b0bb } .peer { fill: #5d6b7a } .ours { fill: #e08a4f }
    .limit { stroke: #a7b0bb } .reach { stroke: #e6e9ed }
  }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A side with its median and its least and greatest round. ``kind`` is ``ours``, ``peer`` or ``limit``."""

    label: str
    value: float
    low: float
    high: float
    kind: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A store with its bars, which share a scale."""

    title: str
    bars: Sequence[Bar]


def drawn(metric: Metric, panels: Sequence[Panel]) -> str:
    """The picture."""
    parts, y = [], TOP
    for panel in panels:
        parts.append(_text(16, y + 4, panel.title, "store"))
        most = max((bar.high for bar in panel.bars), default=0) or 1
        for bar in panel.bars:
            y += ROW
            parts += _bar(metric, bar, y, (WIDTH - LEFT - RIGHT) / most)
        y += GAP
    better = "less is better" if metric.less else "more is better"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img">',
            f"<title>{escape(metric.title)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="page" width="{WIDTH}" height="{y}" rx="8"/>',
            _text(16, 24, metric.title, "title"),
            _text(WIDTH - 16, 24, f"{metric.unit}, {better}", "soft", "end"),
            *parts,
            "</svg>\n",
        )
    )


def _bar(metric: Metric, bar: Bar, y: float, scale: float) -> list[str]:
    middle = y - BAR / 2 + 4
    reach = [LEFT + value * scale for value in (bar.low, bar.high)]
    edge = max(LEFT + bar.value * scale, *reach)
    return [
        _text(LEFT - 8, y + 2, bar.label, "", "end"),
        f'<rect class="{bar.kind}" x="{LEFT}" y="{y - BAR + 4}" width="{max(1.0, bar.value * scale):.1f}" height="{BAR}"/>',
        f'<line class="reach" x1="{reach[0]:.1f}" x2="{reach[1]:.1f}" y1="{middle}" y2="{middle}"/>',
        _text(edge + 6, y + 2, metric.shown(bar.value), "soft"),
    ]


def _text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
