"""One module a tool, bytes → measurements; :mod:`labctl.parsers.registry` picks by content."""
