"""``agent.pyz``, built the same to the byte from the same sources."""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "module_utils" / "cell_agent"
_MAIN = b"import sys\n\nfrom cell_agent.cli import main\n\nsys.exit(main())\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@functools.lru_cache(maxsize=1)
def build() -> bytes:
    """The zipapp: sorted names, fixed dates and modes, stored, since deflate differs between zlib builds."""
    buffer = io.BytesIO()
    sources = {f"cell_agent/{path.name}": path.read_bytes() for path in SOURCE.glob("*.py")}
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in sorted({**sources, "__main__.py": _MAIN}.items()):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o644 << 16
            info.create_system = 3
            archive.writestr(info, data)
    return buffer.getvalue()


def digest() -> str:
    """SHA-256 of :func:`build`, hexadecimal."""
    return hashlib.sha256(build()).hexdigest()
