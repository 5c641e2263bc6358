"""Study x lab x facts to a plan. Pure: the same arguments give the same plan.

Order of the cells. Repeat k of everything is block k, and blocks follow each other, so that a slow drift of a host
meets every arm alike. One ``random.Random(seed)`` (Mersenne Twister) is used for the whole plan; for each block in turn
it shuffles the hosts, then for each host in that order its (arm, workload, point) triples, both with
``Random.shuffle`` from the order of the study file.
"""

from __future__ import annotations

import random
import secrets
from collections import Counter
from typing import TYPE_CHECKING

from labctl.errors import ExitCode, LabctlError
from labctl.plan.candidates import Candidate, Work, make_candidate
from labctl.plan.disk import fit_disks
from labctl.plan.findings import FindingList
from labctl.plan.models import Cell, LeftOut, Plan, PlannedArm
from labctl.plan.placing import cell_id, select_hosts, socket_dir, workdir_of
from labctl.study.models import MIN_REPEATS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from labctl.lab.facts import HostFacts
    from labctl.lab.models import Lab
    from labctl.study.models import Study

DEADLINE_FACTOR = 3.0
DEADLINE_MARGIN_S = 60.0


def make_plan(
    study: Study,
    lab: Lab,
    facts: Mapping[str, HostFacts],
    *,
    run_id: str,
    seed: int,
    repeats: int | None = None,
    arms: Sequence[str] | None = None,
) -> Plan:
    """The plan of a study in a lab.

    Args:
        study: the checked study.
        lab: the lab.
        facts: host → what was probed; must have looked at ``paths_to_probe`` and ``tools_to_probe``.
        run_id: names the directories on the hosts; safe characters only.
        seed: of the order and of the tools' random numbers; 1 or more.
        repeats: instead of the study's.
        arms: only these arms.

    Returns:
        A plan; findings of severity ``error`` mean that it must not run (see :func:`refusal`).

    Raises:
        LabctlError: an arm or a host pattern that does not exist.
    """
    findings = FindingList()
    repeats = study.repeats if repeats is None else repeats
    if repeats < MIN_REPEATS:
        findings.add("few-repeats", "warning", f"{repeats} repeats: fewer than {MIN_REPEATS} allow no verdict")
    chosen = _chosen_arms(study, arms)
    candidates = []
    for name in chosen:
        for host in select_hosts(study.arms[name].hosts, lab):
            if host in facts:
                made = make_candidate(study, lab, name, host, facts[host], run_id=run_id, seed=seed)
                candidates.append(made)
            else:
                findings.add("no-facts", "error", "the host could not be probed", host)
    kept, left_out = _keep(candidates, findings, repeats)
    cells = tuple(_cells(kept, repeats, random.Random(seed)))  # noqa: S311  reproducible order, no secret
    _check_whole(study, chosen, kept, cells, findings)
    return Plan(
        study=study.name,
        title=study.title,
        question=study.question.strip(),
        baseline=study.baseline,
        lab=lab.name,
        seed=seed,
        repeats=repeats,
        workdir={host: workdir_of(lab, host, facts[host]) for host in dict.fromkeys(c.host for c in kept)},
        tools=tuple(sorted({package for candidate in kept for package in candidate.packages})),
        arms=tuple(_planned(candidate) for candidate in kept),
        left_out=tuple(left_out),
        cells=cells,
        findings=findings.merged(),
        parallel_hosts=study.order.across_hosts == "parallel",
        max_equal_failures=study.max_equal_failures,
        figures=tuple(
            {key: str(value) for key, value in figure.model_dump(mode="json").items()} for figure in study.figures
        ),
    )


def choose_seed(study: Study, wanted: int | None = None) -> int:
    """The wanted seed, else the study's, else a new random one (the only impure function here)."""
    return wanted or study.seed or secrets.randbelow(2**31 - 1) + 1


def refusal(plan: Plan) -> LabctlError | None:
    """The error that a plan with findings of severity ``error`` must end in, with every reason; None: it can run."""
    errors = [finding for finding in plan.findings if finding.severity == "error"]
    if not errors:
        return None
    reasons = "\n".join(f"  {e.rule}: {e.where + ': ' if e.where else ''}{e.message}" for e in errors)
    return LabctlError(f"the plan of {plan.study!r} is refused:\n{reasons}", code=ExitCode.GUARD_REFUSED)


def host_vars(plan: Plan, run_id: str) -> dict[str, dict[str, object]]:
    """Host → variables of ``bench_tools``, ``bench_host``, ``bench_storage`` and ``bench_postgresql``."""
    result: dict[str, dict[str, object]] = {}
    for host, workdir in plan.workdir.items():
        arms = [arm for arm in plan.arms if arm.host == host]
        result[host] = {
            "bench_tools_required": list(plan.tools),
            "bench_host_workdir": workdir,
            "bench_storage_arms": [_storage(arm) for arm in arms],
            "bench_postgresql_instances": [
                {
                    "name": arm.name,
                    "data_dir": f"{arm.storage.path}/pg",
                    "socket_dir": socket_dir(workdir, run_id, arm.name),
                    "settings": {},
                }
                for arm in arms
                if arm.postgresql
            ],
        }
    return result


def _storage(arm: PlannedArm) -> dict[str, object]:
    values = {
        "name": arm.name,
        "kind": arm.storage.kind,
        "path": arm.storage.path,
        "filesystem": arm.storage.filesystem,
        "size_bytes": arm.storage.size_bytes,
        "image": arm.storage.image,
    }
    return {key: value for key, value in values.items() if value is not None}


def _chosen_arms(study: Study, arms: Sequence[str] | None) -> list[str]:
    for name in arms or ():
        if name not in study.arms:
            hint = f"arms of {study.name}: {', '.join(study.arms)}"
            raise LabctlError(f"{name!r} is not an arm", hint=hint, code=ExitCode.USAGE)
    return [name for name in study.arms if arms is None or name in arms]


def _keep(candidates: list[Candidate], findings: FindingList, repeats: int) -> tuple[list[Candidate], list[LeftOut]]:
    fit_disks(candidates, repeats)
    kept, left_out = [], []
    for candidate in candidates:
        if candidate.problems and candidate.arm.optional:
            reason = "; ".join(message for _, message in candidate.problems)
            left_out.append(LeftOut(arm=candidate.name, host=candidate.host, reason=reason))
            continue
        place = f"{candidate.name} on {candidate.host}"
        for rule, message in candidate.problems:
            findings.add(rule, "error", message, place)
        kept.append(candidate)
        findings.take(candidate.findings)
        for workload, reason in candidate.left_out_workloads.items():
            findings.add("workload-left-out", "warning", f"workload {workload} is left out: {reason}", candidate.host)
        for package in candidate.to_install:
            findings.add("to-install", "note", f"{package} will be installed", candidate.host)
    return kept, left_out


def _check_whole(
    study: Study, chosen: list[str], kept: list[Candidate], cells: tuple[Cell, ...], findings: FindingList
) -> None:
    if not any(candidate.name == study.baseline for candidate in kept):
        why = "is left out" if study.baseline in chosen else "is not among the chosen arms"
        findings.add("no-baseline", "error", f"the baseline arm {study.baseline} {why}: nothing can be compared")
    if not cells:
        findings.add("no-cells", "error", "nothing is left to run")


def _planned(candidate: Candidate) -> PlannedArm:
    return PlannedArm(
        name=candidate.name,
        title=candidate.arm.title or candidate.name,
        target=candidate.arm.target,
        host=candidate.host,
        storage=candidate.storage,
        disk_needed_bytes=candidate.disk_bytes,
        disk_free_bytes=candidate.path_facts.free_bytes if candidate.path_facts else None,
        needs=tuple(candidate.needs),
        postgresql=candidate.postgresql,
        noise=candidate.arm.noise,
    )


def _cells(kept: list[Candidate], repeats: int, rng: random.Random) -> Iterator[Cell]:
    by_host: dict[str, list[tuple[Candidate, Work]]] = {}
    for candidate in kept:
        by_host.setdefault(candidate.host, []).extend((candidate, work) for work in candidate.work)
    prepared: Counter[tuple[str, str, str]] = Counter()
    for block in range(1, repeats + 1):
        hosts = list(by_host)
        rng.shuffle(hosts)
        for host in hosts:
            items = list(by_host[host])
            rng.shuffle(items)
            for candidate, work in items:
                layout = (host, candidate.name, work.estimate.layout)
                prepares = not (work.estimate.prepare_once and prepared[layout])
                prepared[layout] += 1
                yield _cell(candidate, work, block, prepares=prepares)


def _cell(candidate: Candidate, work: Work, block: int, *, prepares: bool) -> Cell:
    estimate = work.estimate
    # model_construct: every field comes from checked models, and a plan may have 10,000 cells.
    return Cell.model_construct(
        id=cell_id(work.workload, work.label, candidate.name, candidate.host, block),
        arm=candidate.name,
        host=candidate.host,
        target=candidate.arm.target,
        workload=work.workload,
        tool=work.tool,
        parameters=work.parameters,
        point=work.label,
        repeat=block,
        block=block,
        data_dir=candidate.storage.path,
        steps=work.steps,
        estimate_s=estimate.run_s + (estimate.prepare_s if prepares else 0.0),
        # Any cell may have to prepare: after a resume its predecessor may not have run.
        deadline_s=DEADLINE_FACTOR * (estimate.run_s + estimate.prepare_s) + DEADLINE_MARGIN_S,
        bytes_written=estimate.run_bytes + (estimate.prepare_bytes if prepares else 0),
    )
