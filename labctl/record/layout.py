"""Where everything lies in a record; nothing else in labctl spells these names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """Paths inside one record directory.

    ::

        <run id>/
            record.json        identity: schema, run id, lab, study, labctl version, when, command line
            plan.json          the frozen plan (labctl.plan.models.Plan)
            study.yml          the study file, byte for byte
            lab.json           the typed lab without any secret
            ledger.jsonl       one JSON object a line, fsynced: stages and cells changing state
            progress.jsonl     what the agents said while they ran, as the controller saw it
            automation/NN-<stage>/   extravars, events, command line, result of each playbook
            batches/NN-<host>.json   what was handed to the agents
            hosts/<host>.json  facts measured at the start of the run
            raw/<cell>/a<attempt>/   bundles, exactly as the target left them
            tables/*.parquet   derived; made anew by `labctl normalise`
            report/            derived; made anew by `labctl report`
            manifest.json      sha256 and size of every file but itself, the lock and what is derived
            lock               held by the one writer
    """

    root: Path

    @property
    def identity(self) -> Path:
        return self.root / "record.json"

    @property
    def plan(self) -> Path:
        return self.root / "plan.json"

    @property
    def study(self) -> Path:
        return self.root / "study.yml"

    @property
    def lab(self) -> Path:
        return self.root / "lab.json"

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.jsonl"

    @property
    def automation(self) -> Path:
        return self.root / "automation"

    @property
    def batches(self) -> Path:
        return self.root / "batches"

    @property
    def progress(self) -> Path:
        return self.root / "progress.jsonl"

    @property
    def hosts(self) -> Path:
        return self.root / "hosts"

    @property
    def raw(self) -> Path:
        return self.root / "raw"

    @property
    def tables(self) -> Path:
        return self.root / "tables"

    @property
    def report(self) -> Path:
        return self.root / "report"

    @property
    def manifest(self) -> Path:
        return self.root / "manifest.json"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    def bundle(self, cell_id: str, attempt: int) -> Path:
        return self.raw / cell_id / f"a{attempt}"
