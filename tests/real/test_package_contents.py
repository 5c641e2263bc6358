"""What is built: the wheel works alone, the source archive is whole, the collection has nothing that it should not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from labctl import __version__

REPO = Path(__file__).resolve().parents[2]
INSIDE = "ansible_collections/labctl/lab"
PLAYBOOKS = sorted(path.stem for path in (REPO / "playbooks").glob("*.yml"))
ROLES = sorted(path.name for path in (REPO / "roles").iterdir() if path.is_dir())
MODULES = sorted(path.stem for path in (REPO / "plugins" / "modules").glob("*.py"))

pytestmark = [pytest.mark.real(what=["packages", "ansible-galaxy"], where="localhost"), pytest.mark.needs("ansible")]


def run(*argv: str | Path, cwd: Path, **variables: str) -> str:
    """Runs a program away from the checkout, with nothing of the caller's Ansible or Python settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHON", "VIRTUAL"))}
    env = {**kept, "HOME": str(cwd), "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", **variables}
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(kind: str, source: Path, directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", directory, cwd=source)
    (built,) = directory.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", REPO, tmp_path_factory.mktemp("wheel") / "dist")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel in it, and of its dependencies only what is installed here.

    A path file brings in the directory of this environment's packages, after its own; path files in there (the one of
    an editable labctl) are not read.
    """
    home = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", home / "venv", cwd=home)
    python = home / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=home)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip())
    paths = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    (site / "zz-dependencies.pth").write_text("".join(f"{path}\n" for path in paths))
    return python


def test_wheel_has_everything_that_git_has(wheel: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    carried = {"studies": "labctl/study/builtin", "inventories/localhost": "labctl/lab/builtin/localhost"}
    carried |= {name: f"{INSIDE}/{name}" for name in ("meta", "playbooks", "plugins", "roles")}
    for source, target in carried.items():
        files = [path.relative_to(REPO / source) for path in (REPO / source).rglob("*") if path.is_file()]
        wanted = {f"{target}/{file}" for file in files if not any(p.startswith((".", "__pycache")) for p in file.parts)}
        assert wanted, source
        assert wanted <= names
    assert {f"{INSIDE}/galaxy.yml", "labctl/py.typed"} <= names


def test_wheel_has_nothing_else(wheel: Path):
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"labctl", "ansible_collections", f"labctl-{__version__}.dist-info"}
    assert [name for name in zipfile.ZipFile(wheel).namelist() if "__pycache__" in name] == []


def test_source_archive_builds_the_same_wheel(wheel: Path, tmp_path: Path):
    archive = build("sdist", REPO, tmp_path / "dist")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    again = build("wheel", tmp_path / f"labctl-{__version__}", tmp_path / "again")
    ours, theirs = zipfile.ZipFile(wheel), zipfile.ZipFile(again)
    assert {info.filename: info.CRC for info in ours.infolist()} == {
        info.filename: info.CRC for info in theirs.infolist()
    }


def test_installed_wheel_is_what_runs(installed: Path, tmp_path: Path):
    place = run(installed, "-c", "import labctl; print(labctl.__file__)", cwd=tmp_path)
    assert Path(place).is_relative_to(installed.parents[1])


def test_installed_command_knows_its_version_and_studies(installed: Path, tmp_path: Path):
    labctl = installed.parent / "labctl"
    assert run(labctl, "--version", cwd=tmp_path).strip() == f"labctl {__version__}"
    listed = run(labctl, "study", "list", cwd=tmp_path)
    for study in (REPO / "studies").glob("*.yml"):
        assert YAML(typ="safe").load(study.read_text())["name"] in listed


def test_installed_playbooks_resolve_by_name(installed: Path, tmp_path: Path):
    names = [f"labctl.lab.{name}" for name in PLAYBOOKS]
    shown = run(installed, "-m", "ansible", "playbook", "-i", "localhost,", "--syntax-check", *names, cwd=tmp_path)
    inside = installed.parents[1]
    assert [Path(path).stem for path in re.findall(rf"{inside}\S+/playbooks/\S+", shown)] == PLAYBOOKS


def documented(python: Path, kind: str, names: list[str], cwd: Path) -> dict[str, dict[str, object]]:
    fqcn = [f"labctl.lab.{name}" for name in names]
    return dict(json.loads(run(python, "-m", "ansible", "doc", "--json", "-t", kind, *fqcn, cwd=cwd)))


def test_installed_modules_are_documented(installed: Path, tmp_path: Path):
    found = documented(installed, "module", MODULES, tmp_path)
    assert sorted(found) == [f"labctl.lab.{name}" for name in MODULES]
    for entry in found.values():
        assert str(installed.parents[1]) in json.dumps(entry)


def test_installed_roles_are_documented(installed: Path, tmp_path: Path):
    found = documented(installed, "role", ROLES, tmp_path)
    assert sorted(found) == [f"labctl.lab.{name}" for name in ROLES]
    for entry in found.values():
        assert entry["entry_points"]


def test_checkout_needs_no_installation_of_the_collection(tmp_path: Path):
    """labctl from the checkout hands Ansible the checkout's own collection, wherever it is called."""
    code = (
        "import os; from pathlib import Path; from labctl.automation import collection;"
        "print(collection.collections_path(os.environ, Path.cwd(), collection.ensure(os.environ)))"
    )
    paths = run(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(REPO)).strip()
    argv = ("-i", "localhost,", "--syntax-check", *(f"labctl.lab.{name}" for name in PLAYBOOKS))
    run(sys.executable, "-m", "ansible", "playbook", *argv, cwd=tmp_path, ANSIBLE_COLLECTIONS_PATH=paths)
    assert (Path(paths.split(":")[0]) / INSIDE).resolve() == REPO


def test_collection_archive_has_only_what_a_collection_needs(tmp_path: Path):
    galaxy = Path(sys.executable).parent / "ansible-galaxy"
    run(galaxy, "collection", "build", "--output-path", tmp_path, REPO, cwd=tmp_path)
    with tarfile.open(tmp_path / f"labctl-lab-{__version__}.tar.gz") as tar:
        names = [member.name for member in tar.getmembers() if member.isfile()]
        manifest = json.load(tar.extractfile("MANIFEST.json"))  # type: ignore[arg-type]
    tops = {name.split("/")[0] for name in names}
    assert tops == {
        *("README.md", "CHANGELOG.md", "LICENSE", "meta", "playbooks", "plugins", "roles"),
        *("MANIFEST.json", "FILES.json"),
    }
    assert [name for name in names if "__pycache__" in name or name.endswith(".pyc")] == []
    assert manifest["collection_info"]["version"] == __version__
