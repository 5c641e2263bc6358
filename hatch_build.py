"""Puts the Ansible collection, the built-in studies and the localhost lab into the wheel.

Ansible finds ``ansible_collections/`` on ``sys.path``, so ``pip install labctl`` alone makes the playbooks, roles and
plugins ``labctl.lab.*`` resolvable. An editable installation gets no copies, which would go stale: labctl finds the
checkout by itself.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CarryHook(BuildHookInterface[BuilderConfig]):
    """Carries what ``[tool.hatch.build.targets.wheel.hooks.custom.carry]`` maps from the checkout into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds; ``version`` is ``standard`` or ``editable``."""
        if version != "editable":
            build_data["force_include"].update(self.config["carry"])
