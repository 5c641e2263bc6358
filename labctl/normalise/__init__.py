"""Records and files → tables: see :mod:`labctl.normalise.record` and :mod:`labctl.normalise.files`."""
