"""Takes secrets out of texts and structures before anything is written or shown.

Two rules, both needed: known secret *values* are replaced wherever they stand, in every form in which Ansible or a tool
may print them (JSON, YAML, shell, URL, base64); and values under *keys* that look like secrets are replaced even when
nobody declared them.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

MASK = "********"
MIN_SECRET_LENGTH = 4
"""Shorter values (``no``, ``1``) stand everywhere; replacing them would destroy evidence and hide nothing."""
_MIN_SECRET_LINE = 16
"""A line of a many-line secret (a private key) is a secret of its own from this length on."""

_KEY_WORDS = (
    r"passw(?:or)?d|passwd|passphrase|become_pass|ssh_pass|sudo_pass|secret|token|api_?key|access_?key|private_?key|"
    r"credential|vault_pass"
)
_SECRET_KEY = re.compile(rf"(?:{_KEY_WORDS})", re.IGNORECASE)
# Names of files, switches and limits that only talk *about* a secret.
_HARMLESS_KEY = re.compile(
    r"(?:_|-)(?:file|path|dir|directory|name|length|ttl|policy|expiry|expires?|prompt|less|type|id)$|^no_|passwordless",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"[\w.-]+")
KEY_PATTERNS = (_SECRET_KEY.pattern, _HARMLESS_KEY.pattern)
"""For a process that judges keys by itself: secret if the first is found and the second is not, whatever the case."""
_KEY = rf"[\w.-]*(?:{_KEY_WORDS})\w*"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # "db_password": "…"  and  'db_password': '…'
    (re.compile(rf"(?P<head>([\"'])(?P<key>{_KEY})\2\s*:\s*)([\"'])(?:\\.|(?!\4).)*\4", re.IGNORECASE), "quoted"),
    # PGPASSWORD=…  --password=…
    (re.compile(rf"(?P<head>\b(?P<key>{_KEY})=)(?:\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)", re.IGNORECASE), "plain"),
    # scheme://user:…@host
    (re.compile(r"(?P<head>\b[a-z][a-z0-9+.-]*://[^\s/:@]+:)[^\s/@]+(?=@)", re.IGNORECASE), "plain"),
    (
        re.compile(
            r"(?P<head>-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:(?=-----END [A-Z ]*PRIVATE KEY-----)|\Z)", re.DOTALL
        ),
        "plain",
    ),
)


def looks_secret(key: str) -> bool:
    """Whether a variable of this name holds a secret by its looks (``ansible_become_password``, ``api_token``).

    Only identifiers are names of variables: a path or a sentence that is a key of a mapping says what it is about.
    """
    return bool(_IDENTIFIER.fullmatch(key) and _SECRET_KEY.search(key)) and not _HARMLESS_KEY.search(key)


def secret_values(value: object, *, below_secret: bool = False) -> Iterator[str]:
    """Every scalar below a key that looks secret, as text.

    Args:
        value: any structure of mappings, sequences and scalars.
        below_secret: take every scalar, because the key above it is a secret.

    Yields:
        The secrets; empty strings, None and booleans are no secrets.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from secret_values(item, below_secret=below_secret or looks_secret(str(key)))
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from secret_values(item, below_secret=below_secret)
    elif below_secret and value is not None and not isinstance(value, bool) and str(value):
        yield str(value)


def _forms(secret: str) -> Iterator[str]:
    """The secret as it stands in JSON, YAML, shell, URL and base64 text."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield secret.replace("'", "''")
    yield shlex.quote(secret)
    yield quote(secret, safe="")
    yield quote(secret)
    yield quote_plus(secret)
    data = secret.encode("utf-8", "surrogateescape")
    yield base64.b64encode(data).decode()
    yield base64.b64encode(data).decode().rstrip("=")
    yield base64.urlsafe_b64encode(data).decode()
    lines = secret.splitlines()
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= _MIN_SECRET_LINE)


class Redactor:
    """Replaces secrets; build it once a run, it is immutable and safe to share between threads."""

    __slots__ = ("_secrets", "_values")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = frozenset(s for s in secrets if len(s) >= MIN_SECRET_LENGTH and not s.isspace())
        forms = {form for secret in self._secrets for form in _forms(secret) if len(form) >= MIN_SECRET_LENGTH}
        # Longest first: a secret that contains another one must go as a whole.
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self._values = re.compile("|".join(re.escape(form) for form in ordered)) if ordered else None

    def extended(self, secrets: Iterable[str]) -> Redactor:
        """A redactor that knows these secrets too."""
        return Redactor((*self._secrets, *secrets))

    def text(self, text: str) -> str:
        """``text`` without secrets."""
        if self._values is not None:
            text = self._values.sub(MASK, text)
        for pattern, style in _PATTERNS:
            text = pattern.sub(_mask_quoted if style == "quoted" else _mask_plain, text)
        return text

    def value(self, obj: object) -> object:
        """A copy of a JSON-like structure without secrets: texts cleaned, values of secret keys replaced."""
        if isinstance(obj, str):
            return self.text(obj)
        if isinstance(obj, Mapping):
            return {
                self.text(str(key)): _masked(item) if looks_secret(str(key)) else self.value(item)
                for key, item in obj.items()
            }
        if isinstance(obj, list | tuple | set | frozenset):
            return [self.value(item) for item in obj]
        if isinstance(obj, int | float) and not isinstance(obj, bool) and str(obj) in self._secrets:
            return MASK
        return obj


def _masked(value: object) -> object:
    """What stands in place of a secret; what cannot be one (nothing, a switch) stays readable."""
    if value is None or isinstance(value, bool) or value in ("", [], {}):
        return value
    return MASK


def _mask_quoted(match: re.Match[str]) -> str:
    if _HARMLESS_KEY.search(match["key"]):
        return match[0]
    return f"{match['head']}{match[4]}{MASK}{match[4]}"


def _mask_plain(match: re.Match[str]) -> str:
    key = match.groupdict().get("key")
    if key and _HARMLESS_KEY.search(key):
        return match[0]
    return f"{match['head']}{MASK}"
