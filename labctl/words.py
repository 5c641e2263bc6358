"""Values and expectations in the words of the user's files, not in those of Python or of a library."""

from __future__ import annotations

import datetime as dt
import math

_SHOWN = 60
_PHRASES = (
    ("Value error, ", ""),
    ("Input should be", "expected"),
    ("String should have at least 1 character", "expected a text that is not empty"),
    ("String should", "the text should"),
    ("List should", "the list should"),
    ("Tuple should", "the list should"),
    ("Dictionary should", "the mapping should"),
    ("a valid string", "a text"),
    ("a valid boolean", "true or false"),
    ("a valid integer", "a whole number"),
    ("a valid number", "a number"),
    ("a valid list", "a list"),
    ("a valid tuple", "a list"),
    ("a finite number", "a number that is not infinite"),
    (", unable to parse string as an integer", ""),
    (", unable to parse string as a number", ""),
    (", unable to interpret input", ""),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
    ("greater than", "a value above"),
    ("less than", "a value below"),
    (" after validation", ""),
    ("Field required", "missing"),
    ("Extra inputs are not permitted", "unknown key"),
)


def plain(message: str) -> str:
    """A message of pydantic or of the command line library without its jargon."""
    if " dictionary" in message and "instance of" in message:
        return "expected a mapping (key: value)"
    for jargon, words in _PHRASES:
        message = message.replace(jargon, words)
    return message


def shown(value: object, most: int = _SHOWN) -> str:
    """A value as a YAML file would say it, texts in quotes, control characters escaped, cut to ``most`` characters."""
    text = _yaml(value, most)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _yaml(value: object, most: int) -> str:  # noqa: PLR0911 - one line a kind
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case float() if not math.isfinite(value):
            return ".nan" if math.isnan(value) else "-.inf" if value < 0 else ".inf"
        case str():
            return ascii_controls(repr(value[: most + 1]))
        case bytes() | bytearray():
            return "binary data"
        case dt.date():
            return f"the date {value.isoformat()}"
        case dict():
            inner = (f"{key}: {_yaml(item, most)}" for key, item in list(value.items())[:most])
            return "{" + ", ".join(inner) + "}"
        case list() | tuple() | set() | frozenset():
            return "[" + ", ".join(_yaml(item, most) for item in list(value)[:most]) + "]"
        case _:
            return str(value)


def ascii_controls(text: str) -> str:
    """The text with every character that cannot be seen (controls, directions, surrogates) as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
