"""The bits of Markdown that every generated document has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GENERATED = "<!-- Made by `make docs`; changes here are lost. -->"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; bars and line breaks inside cells are made harmless."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(header), "|" + " --- |" * len(header), *map(line, rows)]) + "\n"
