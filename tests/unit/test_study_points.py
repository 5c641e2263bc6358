"""Points of a workload: product of a sweep, listed points, labels."""

import re

import pytest

from labctl.study.expand import MAX_LABEL, expand
from labctl.study.models import WORKLOAD_MODELS


def fio(**parts):
    return WORKLOAD_MODELS["fio"].model_validate({"tool": "fio", **parts})


def labels(workload):
    return [point.label for point in expand(workload)]


def test_nothing_varies():
    (point,) = expand(fio(parameters={"bs": "8k"}))
    assert (point.label, point.parameters.flat()["bs"]) == ("default", 8192)


def test_a_sweep_is_the_full_product_in_file_order():
    points = expand(fio(sweep={"bs": ("4k", "1MiB"), "iodepth": (1, 8)}))
    assert [p.label for p in points] == [
        "bs-4KiB_iodepth-1", "bs-4KiB_iodepth-8", "bs-1MiB_iodepth-1", "bs-1MiB_iodepth-8",
    ]  # fmt: skip
    assert [(flat["bs"], flat["iodepth"]) for flat in (p.parameters.flat() for p in points)] == [
        (4096, 1),
        (4096, 8),
        (1 << 20, 1),
        (1 << 20, 8),
    ]


def test_listed_points_lie_on_top_of_parameters_and_below_the_sweep():
    points = expand(
        fio(
            parameters={"iodepth": 3}, points=({"rw": "read"}, {"rw": "write", "iodepth": 2}), sweep={"numjobs": (1, 2)}
        )
    )
    assert [tuple(p.parameters.flat()[name] for name in ("rw", "iodepth", "numjobs")) for p in points] == [
        ("read", 3, 1), ("read", 3, 2), ("write", 2, 1), ("write", 2, 2),
    ]  # fmt: skip


def test_points_that_are_equal_are_refused():
    with pytest.raises(ValueError, match="two points are equal: rw-read"):
        expand(fio(points=({"rw": "read"}, {"rw": "read"})))


def test_too_many_points_are_refused():
    with pytest.raises(ValueError, match="1000000 points: at most 10000"):
        expand(fio(sweep={"iodepth": tuple(range(1, 1001)), "numjobs": tuple(range(1, 1001))}))


def test_labels_are_safe_bounded_and_unique():
    workload = WORKLOAD_MODELS["pgbench"].model_validate(
        {
            "tool": "pgbench",
            "sweep": {
                "builtin": ("tpcb-like", "simple-update"),
                "protocol": ("prepared", "extended"),
                "clients": (1, 2),
                "fillfactor": (90, 100),
                "settings": ({"work_mem": "4MB"}, {"work_mem": "8MB"}),
            },
        }
    )
    found = labels(workload)
    assert len(set(found)) == len(found) == 32
    assert all(re.fullmatch(r"[A-Za-z0-9_+-]+", label) and len(label) <= MAX_LABEL for label in found)


def test_values_that_look_alike_get_different_labels():
    settings = ({"a": "x.y"}, {"a": "x-y"})
    found = labels(WORKLOAD_MODELS["pgbench"].model_validate({"tool": "pgbench", "sweep": {"settings": settings}}))
    assert len(set(found)) == 2
