"""A plan as variables of the roles: what the ``host`` stage must make on each host."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labctl.plan.models import Plan, PlannedArm


def host_vars(plan: Plan) -> dict[str, dict[str, object]]:
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
                    "socket_dir": arm.socket_dir,
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
