"""Every workload tool, by the name that studies use."""

from typing import Any, Final

from labctl.workloads.base import Tool
from labctl.workloads.fio import FIO
from labctl.workloads.pgbench import PGBENCH
from labctl.workloads.sysbench_cpu import SYSBENCH_CPU
from labctl.workloads.sysbench_fileio import SYSBENCH_FILEIO

TOOLS: Final[dict[str, Tool[Any]]] = {tool.name: tool for tool in (FIO, SYSBENCH_FILEIO, SYSBENCH_CPU, PGBENCH)}
