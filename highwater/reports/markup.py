"""Safety: a text appears on a page unchanged and is never read as markup."""

from collections.abc import Sequence
from html import escape

ALONE = ("circle", "line", "meta", "polyline", "rect")  # elements that hold nothing


class Html(str):
    """Text that is markup already."""


def el(name: str, /, *children: object, **attributes: object) -> Html:
    """Make an element. Children that are not Html are escaped. Attributes that are None or False are left out. In names of
    attributes a final underscore is dropped, and others become hyphens."""
    said = "".join(f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
                   for key, value in attributes.items() if value is not None and value is not False)
    return Html(f"<{name}{said}/>" if name in ALONE else f"<{name}{said}>{joined(*children)}</{name}>")


def joined(*children: object) -> Html:
    return Html("".join(child if isinstance(child, Html) else escape(str(child)) for child in children))


def row(*cells: object, **attributes: object) -> Html:
    """Make a table row. Cells that are no `td` element become one."""
    return el("tr", *(cell if isinstance(cell, Html) and cell.startswith("<td") else el("td", cell) for cell in cells),
              **attributes)


def table(head: Sequence[object], rows: list[Html], **attributes: object) -> Html:
    """Make a table, which scrolls by itself if it is too wide."""
    top = el("thead", el("tr", *(el("th", of) for of in head)))
    return el("div", el("table", top, el("tbody", *rows), **attributes), class_="sheet")
