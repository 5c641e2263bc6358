"""Where PostgreSQL's programs lie: distributions keep those of the server out of the PATH.

Runs on targets: Python 3.9, standard library only.
"""

from __future__ import annotations

import glob
import os
import re
import shutil

# Debian and Ubuntu; the PostgreSQL project's RPMs; SUSE.
PATTERNS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/lib/postgresql*/bin")


def newest_directory() -> str | None:
    """The directory that holds initdb, of the highest major version; else that of the PATH; None if there is none."""
    found = [
        (int(match.group(1)), directory)
        for pattern in PATTERNS
        for directory in glob.glob(pattern)
        for match in [re.search(r"(\d+)/bin$", directory)]
        if match is not None and os.access(os.path.join(directory, "initdb"), os.X_OK)
    ]
    if found:
        return max(found)[1]
    program = shutil.which("initdb")
    return os.path.dirname(os.path.realpath(program)) if program else None
