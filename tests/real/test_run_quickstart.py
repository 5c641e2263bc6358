"""The built-in study as the first line of the README runs it, once through."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd
import pytest

from labctl.study.load import load_study
from tests.real.run_support import final_states, make_bench

pytestmark = [
    pytest.mark.needs("ansible", "fio", "postgresql", "sysbench"),
    pytest.mark.real(
        what=["study:quickstart", "target:host", "fio", "sysbench-fileio", "sysbench-cpu", "pgbench"],
        where="localhost",
    ),
]


def test_every_figure_of_the_quickstart_has_a_value() -> None:
    # The user postgres must pass; pytest's directories are closed to it.
    with tempfile.TemporaryDirectory(prefix="labctl-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o711)
        bench = make_bench(Path(name))
        ran = bench.labctl("run", "quickstart", "-i", str(bench.inventory), "--repeats", "1", timeout=550)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        record = bench.record()
        cells = final_states(record)
        assert set(cells.values()) == {("done", 1)}
        rows = pd.read_parquet(record / "tables" / "measurements.parquet")
        ok = rows[(rows.component == "total") & (rows.status == "ok") & (rows.phase == "run")]
        for figure in load_study("quickstart").study.figures:
            of_figure = ok[
                (ok.workload == figure.workload)
                & (ok.metric == figure.metric)
                & (ok.statistic == figure.statistic)
                & (ok.operation == figure.operation)
            ]
            # A sweep gives a figure to the points that have it, such as reads to those that read.
            assert {"workdir", "workdir-again"} <= set(of_figure.arm), figure
        assert bench.left_on_host() == []
