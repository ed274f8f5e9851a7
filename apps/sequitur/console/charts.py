"""Bars and lines: a picture for those who see it, with the same in words for those who do not."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nicegui import ui

from sequitur.console.site import EVERY, text_table
from topology.model.printable import printable

Points = Sequence[tuple[float, float]]
"""(seconds since 1970, value), in order."""
_GREY = "#808080"
"""What is read on white and on black."""
BAR = (
    '<q-td :props="props" style="width: 70%">'
    '<div class="bar" v-if="props.row.count != 0" :style="{width: props.row.width}"></div></q-td>'
)


def bars(title: str, counts: Iterable[tuple[str, float]], head: str = "lateness") -> None:
    """A table of counts, with a bar for each.

    Args:
        title: of the table.
        counts: (range, how many).
        head: what the ranges are of.
    """
    found = list(counts)
    most = max([1.0, *(count for _, count in found)])
    rows = [
        {"range": name, "count": f"{count:,.0f}", "bar": "", "width": f"{100 * count / most:.0f}%"}
        for name, count in found
    ]
    heads = {"range": head, "count": "events", "bar": ""}
    text_table(title, heads, rows, numbers=("count",)).add_slot("body-cell-bar", BAR)


def line_chart(title: str, lines: Callable[[], Mapping[str, Points]]) -> None:
    """Lines over time, drawn anew when there is more. The last values are in the picture's name."""
    made = ui.echart(options(title, {})).classes("full-width").style("height: 16rem")
    made.props["role"], made.props["aria-label"] = "img", spoken(title, {})

    def draw() -> None:
        now = lines()
        if (drawn := options(title, now)) != made.options:
            made.options.update(drawn)
            made.props["aria-label"] = spoken(title, now)
            made.update()

    ui.timer(EVERY, draw)


def options(title: str, lines: Mapping[str, Points]) -> dict[str, Any]:
    """What ECharts draws."""
    return {
        "title": {"text": printable(title, 80), "textStyle": {"fontSize": 13, "color": _GREY}},
        "animation": False,
        "legend": {"top": 24, "left": 0, "textStyle": {"color": _GREY}},
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
        "grid": {"left": 60, "right": 20, "top": 60, "bottom": 30},
        "xAxis": {"type": "time", "axisLabel": {"color": _GREY}},
        "yAxis": {
            "type": "value", "minInterval": 1, "axisLabel": {"color": _GREY},
            "splitLine": {"lineStyle": {"color": _GREY, "opacity": 0.3}},
        },
        "series": [
            {
                "name": printable(name, 40), "type": "line", "showSymbol": False, "step": "end",
                "data": [[when * 1000, value] for when, value in points],
            }
            for name, points in lines.items()
        ],
    }  # fmt: skip


def spoken(title: str, lines: Mapping[str, Points]) -> str:
    """A chart in words."""
    last = [
        f"{printable(name, 40)} {points[-1][1]:,.6g}" for name, points in lines.items() if points
    ]
    return f"{printable(title, 80)}; now: {', '.join(last) or 'nothing'}"
