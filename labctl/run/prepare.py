"""From what the user named to a plan: study, lab, facts of the hosts. Reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labctl.lab.facts import HostFacts
from labctl.lab.loader import load_lab
from labctl.lab.models import Lab
from labctl.plan.models import Plan
from labctl.plan.placing import paths_to_probe
from labctl.plan.planner import choose_seed, make_plan
from labctl.plan.probe import probe_hosts
from labctl.plan.tools import tools_to_probe
from labctl.study.load import LoadedStudy, load_study


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user may choose on the command line, for ``plan`` and ``run`` alike."""

    overrides: Sequence[str] = ()
    repeats: int | None = None
    seed: int | None = None
    arms: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan and everything that it was made from."""

    study: LoadedStudy
    lab: Lab
    facts: Mapping[str, HostFacts]
    plan: Plan


def prepare(study: str, inventory: Path, wishes: Wishes, *, run_id: str) -> Prepared:
    """Load the study and the lab, probe the hosts, and plan.

    Raises:
        LabctlError: An invalid file, an unreachable host, an unknown arm. A plan that must not run is returned all the
            same, with its findings (:func:`labctl.plan.planner.refusal`).
    """
    loaded = load_study(study, wishes.overrides)
    lab = load_lab(inventory)
    facts = probe_hosts(lab, paths_to_probe(loaded.study, lab), tools_to_probe(loaded.study))
    plan = make_plan(
        loaded.study,
        lab,
        facts,
        run_id=run_id,
        seed=choose_seed(loaded.study, wishes.seed),
        repeats=wishes.repeats,
        arms=wishes.arms,
    )
    return Prepared(loaded, lab, facts, plan)
