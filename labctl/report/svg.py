"""Matplotlib's SVG → a small inline SVG that follows the page.

It has the theme's colours, real text, titles on marks, and no id that clashes with one of another chart.

Charts are drawn with the fixed colours of :data:`PALETTE`; here they become CSS variables, so that the same
drawing is right on a light and on a dark page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"

#: Placeholder → CSS variable. The placeholders are far apart and appear nowhere else.
ARM_COLOURS = tuple(f"#0a00{index:02x}" for index in range(1, 9))
INK, MUTED, GRID, SHADE, PAPER = "#0b0001", "#0b0002", "#0b0003", "#0b0004", "#0b0005"
PALETTE: dict[str, str] = {
    **{colour: f"var(--arm-{index})" for index, colour in enumerate(ARM_COLOURS, 1)},
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    SHADE: "var(--shade)",
    PAPER: "var(--paper)",
}

_NUMBER = re.compile(r"-?\d+\.\d+")
_COLOUR = re.compile(r"#0[ab]00[0-9a-f]{2}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_DROPPED_STYLES = ("stroke-linejoin", "font:", "font-family", "-webkit", "text-align")


def clean_svg(source: str, *, chart: str, title: str, description: str, hover: Mapping[str, str]) -> str:
    """Make an inline SVG.

    Args:
        source: a whole SVG document as matplotlib writes it.
        chart: an identifier that no other chart of the page has; letters, digits and ``-`` only.
        title: what the chart shows; read by screen readers.
        description: the finding in words, for those who cannot see the chart.
        hover: gid of an artist → text shown when the pointer rests on it.
    """
    root = ET.fromstring(source)  # noqa: S314 - our own drawing, not a foreign document
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    for holder in root.iter(f"{{{_SVG}}}defs"):
        # Matplotlib's global style would apply to the whole page; nothing is drawn outside the axes, so no clips.
        for child in [*holder.findall(f"{{{_SVG}}}style"), *holder.findall(f"{{{_SVG}}}clipPath")]:
            holder.remove(child)
    used = {match.group(1) for element in root.iter() for match in _references(element)}
    for element in list(root.iter()):
        _clean(element, chart, used, hover)
    _flatten(root)
    width, height = root.get("viewBox", "0 0 0 0").split()[2:]
    root.attrib.clear()
    root.set("viewBox", f"0 0 {width} {height}")
    root.set("width", width)
    root.set("height", height)
    root.set("role", "img")
    root.set("aria-labelledby", f"{chart}-t {chart}-d")
    for index, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ET.Element(f"{{{_SVG}}}{tag}", {"id": f"{chart}-{tag[0]}"})
        element.text = text
        root.insert(index, element)
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    text = ET.tostring(root, encoding="unicode")
    # Inside HTML no namespaces are needed, and `href` without the prefix is the current form.
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text).replace("xlink:href", "href")
    return re.sub(r">\s+<", "><", text)


def _references(element: Element) -> list[re.Match[str]]:
    found = [match for value in element.attrib.values() for match in _REFERENCE.finditer(value)]
    href = element.get(f"{{{_XLINK}}}href", "")
    if match := re.match(r"#(.*)", href):
        found.append(match)
    return found


def _clean(element: Element, chart: str, used: set[str], hover: Mapping[str, str]) -> None:
    identifier = element.attrib.pop("id", "")
    if identifier in used:
        element.set("id", f"{chart}-{identifier}")
    elif identifier in hover:
        title = ET.Element(f"{{{_SVG}}}title")
        title.text = hover[identifier]
        element.insert(0, title)
        element.set("class", "mark")
    for name, value in list(element.attrib.items()):
        if name == f"{{{_XLINK}}}href":
            element.set(name, f"#{chart}-{value.removeprefix('#')}")
        elif name == "style":
            _style(element, value, chart)
        elif name == "clip-path" or value.startswith("rotate(-0 "):
            del element.attrib[name]
        elif name in {"d", "x", "y", "width", "height", "transform"}:
            element.set(name, _shorter(value))


def _style(element: Element, value: str, chart: str) -> None:
    kept = [part.strip() for part in value.split(";") if part.strip()]
    size = next((match.group(1) for part in kept if (match := re.search(r"^font:.*?([\d.]+)px", part))), None)
    anchor = next((part for part in kept if part.startswith("text-anchor")), None)
    kept = [part for part in kept if not part.startswith((*_DROPPED_STYLES, "text-anchor"))]
    if size is not None:
        kept.append(f"font-size: {size}px")
    if anchor is not None:
        kept.append(anchor)
    text = _COLOUR.sub(lambda match: PALETTE[match.group()], ";".join(kept))
    text = _REFERENCE.sub(rf"url(#{chart}-\1)", text).replace(": ", ":")
    if text:
        element.set("style", text)
    else:
        del element.attrib["style"]


def _shorter(value: str) -> str:
    return " ".join(_NUMBER.sub(lambda match: f"{float(match.group()):.1f}".removesuffix(".0"), value).split())


def _flatten(element: Element) -> None:
    """Take the children of groups that say nothing into their parent."""
    for child in list(element):
        _flatten(child)
    children: list[Element] = []
    for child in element:
        if child.tag == f"{{{_SVG}}}g" and not child.attrib:
            children.extend(child)
        elif child.tag != f"{{{_SVG}}}defs" or len(child):
            children.append(child)
    element[:] = children
