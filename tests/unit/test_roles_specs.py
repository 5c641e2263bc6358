"""The roles keep their word: one schema, defaults equal to it, names with the role's prefix, READMEs up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import role_readme

ROLES = sorted(path.parents[1] for path in role_readme.ROLES.glob("*/meta/main.yml"))
EXTERNAL = {"bench_storage": {"bench_host_workdir"}}
"""Variables of other roles that a role looks at if they are set."""


def specs_of(role: Path):
    return role_readme.load(role / "meta" / "argument_specs.yml")["argument_specs"]


def defaults_of(role: Path):
    return role_readme.load(role / "defaults" / "main.yml")


@pytest.fixture(params=ROLES, ids=lambda role: role.name)
def role(request):
    return request.param


def test_there_are_roles():
    assert len(ROLES) >= 4


def test_defaults_equal_the_specs(role):
    options = specs_of(role)["main"]["options"]
    assert defaults_of(role) == {name: option["default"] for name, option in options.items() if "default" in option}


def test_other_entry_points_have_the_same_options(role):
    options = specs_of(role)["main"]["options"]
    for name, spec in specs_of(role).items():
        for option, value in spec["options"].items():
            assert value == options[option], f"{name}: {option}"


def test_every_option_is_required_or_has_a_default_and_says_what_it_is(role):
    for spec in specs_of(role).values():
        for name, option in spec["options"].items():
            assert option["description"], name
            assert ("default" in option) != option.get("required", False), name


def test_every_entry_point_has_its_tasks_and_the_other_way_round(role):
    assert (role / "tasks" / "main.yml").is_file()
    for name in specs_of(role):
        assert (role / "tasks" / f"{name}.yml").is_file()


def test_variables_carry_the_prefix_of_the_role(role):
    for name in specs_of(role)["main"]["options"]:
        assert name.startswith(f"{role.name}_")
    internal = role / "vars" / "main.yml"
    if internal.is_file():
        assert all(name.startswith(f"__{role.name}_") for name in role_readme.load(internal))


def test_tasks_use_only_variables_of_the_specs(role):
    known = set(specs_of(role)["main"]["options"]) | EXTERNAL.get(role.name, set())
    text = "\n".join(path.read_text() for folder in ("tasks", "vars") for path in (role / folder).glob("*.yml"))
    # Names of modules and of internal variables hold the same words; they come after a dot or an underscore.
    used = set(re.findall(r"(?<![\w.])bench_[a-z]+_[a-z_]+", text))
    assert used - known == set()


def test_readmes_are_up_to_date():
    assert role_readme.main(["--check"]) == 0, "run: make docs"
