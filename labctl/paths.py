"""Which paths labctl takes from people."""

SAFE_PATH = r"(/\.?[A-Za-z0-9_@+=-][A-Za-z0-9._@+=-]*)+"
"""Regular expression of a whole absolute path below ``/``, without ``..``.

Such paths mean the same to a shell, to fio, to PostgreSQL's option strings and to the file system.
"""
