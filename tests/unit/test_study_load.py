"""Study files: every fault names its place, what was expected and the nearest known name."""

from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from labctl.errors import ExitCode, InvalidFileError, LabctlError
from labctl.study.load import builtin_studies, check_document, find_study, load_study
from labctl.study.schema import study_schema
from labctl.study.yamlfile import MAX_BYTES, parse_document

GOOD = """\
name: two-disks
title: Two disks
question: Which one?
baseline: a
repeats: 3
arms:
  a: {}
  b:
    storage: {path: /mnt/b}
workloads:
  read:
    tool: fio
    parameters: {bs: 4k, size: 64MiB, runtime: 30s}
    sweep: {iodepth: [1, 8]}
  cpu: {tool: sysbench-cpu}
figures:
  - {workload: read, metric: iops, operation: read, higher_is_better: true}
"""


def load(text: str | bytes):
    return check_document(parse_document(text.encode() if isinstance(text, str) else text, "s.yml"))


def faults(text: str | bytes) -> list[str]:
    with pytest.raises(InvalidFileError) as caught:
        load(text)
    assert caught.value.code == ExitCode.USAGE
    return [f"{fault.where}: {fault.what} ({fault.hint})" for fault in caught.value.faults]


def edit(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def test_a_good_study_has_canonical_units():
    study = load(GOOD)
    assert study.workloads["read"].parameters.model_dump()["size"] == 64 << 20
    assert study.workloads["read"].parameters.model_dump()["runtime"] == 30.0
    assert study.arms["b"].storage.path == "/mnt/b"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("baseline: a", "baselin: a", [
            "s.yml:1:1: 'baseline' is missing", ":4:1: unknown key 'baselin' (did you mean 'baseline'?)",
        ]),
        ("storage: {path", "storage: {pth", ["s.yml:9:15: unknown key 'pth' (did you mean 'path'?)"]),
        ("runtime: 30s", "runtme: 30s", ["s.yml:13:39: unknown key 'runtme' (did you mean 'runtime'?)"]),
        ("{iodepth:", "{iodepht:", ["s.yml:14:13: unknown key 'iodepht' (did you mean 'iodepth'?)"]),
        ("  b:\n    storage", "  b:\n    storge", ["s.yml:9:5: unknown key 'storge' (did you mean 'storage'?)"]),
        ("metric: iops", "metrc: iops", ["unknown key 'metrc' (did you mean 'metric'?)", "'metric' is missing"]),
        ("tool: fio", "tool: fioo", ["s.yml:12:11: unknown tool 'fioo' (did you mean 'fio'?)"]),
        ("    tool: fio\n", "", ["s.yml:12:5: 'tool' is missing (known: fio, sysbench-fileio, sysbench-cpu, pgbench)"]),
        ("size: 64MiB", "size: 64MB", ["s.yml:13:32: unknown size unit 'MB': expected k, m, g, KiB, MiB or GiB"]),
        ("[1, 8]", "[1, many]", ["s.yml:14:26: expected a whole number, got 'many'"]),
        ("[1, 8]", "[1, 0]", ["s.yml:14:26: expected at least 1, got 0"]),
        ("[1, 8]", "[]", ["s.yml:14:22: the list should have at least 1 item"]),
        ("[1, 8]", "4", ["s.yml:14:22: expected a list, got 4"]),
        ("[1, 8]", "[8, 8]", ["s.yml:12:5: two points are equal: iodepth-8"]),
        ("runtime: 30s", "runtime: soon", ["s.yml:13:48: expected a duration such as 4s, 500ms, 2m or 1h, got 'soon'"]),
        ("title: Two disks", "title: 3", ["s.yml:2:8: expected a text, got 3"]),
        ("repeats: 3", "repeats: yes", ["s.yml:5:10: expected a whole number, got 'yes'"]),
        ("repeats: 3", "repeats: 2", ["s.yml:5:10: 2 repeats: at least 3 are needed (or say pilot: true)"]),
        ("baseline: a", "baseline: c", ["s.yml:4:11: baseline 'c' is not an arm (arms: a, b)"]),
        ("  a: {}", "  a: {noise: true}", ["s.yml:7:14: the baseline cannot be its own noise arm"]),
        ("  a: {}", "  ../a: {}", ["s.yml:7:3: expected a name", "40 at most), got '../a'"]),
        ("name: two-disks", "name: ../two", ["s.yml:1:7: expected a name"]),
        ("path: /mnt/b", "path: /mnt/../etc", ["s.yml:9:21: expected an absolute path"]),
        ("path: /mnt/b", "kind: loop", ["storage of kind loop needs filesystem", "storage of kind loop needs size"]),
        ("path: /mnt/b", "size: 1GiB", ["s.yml:9:21: size is for storage of kind loop only"]),
        ("tool: sysbench-cpu", "tool: sysbench-cpu, only_arms: [c]", ["'c' is not an arm"]),
        ("workload: read,", "workload: reed,", ["s.yml:17:16: 'reed' is not a workload (did you mean 'read'?)"]),
        ("metric: iops", "metric: latncy", ["got 'latncy' (did you mean 'latency'?)"]),
        ("metric: iops", "metric: queries_rate", [
            "s.yml:17:30: workload read does not give 'queries_rate read'", "bandwidth read, iops read",
        ]),
        ("metric: iops", "metric: latency, statistic: p75", [":17:50: workload read does not give 'p75' of latency"]),
        ("operation: read", "operation: write", ["s.yml:17:47: workload read does not give 'iops write'"]),
        ("arms:\n  a: {}\n", "arms: []\nx:\n", ["s.yml:6:7: expected a mapping (key: value), got []"]),
        ("  a: {}", "  a: {}\n  a: {}", ["s.yml:8:3: duplicate key 'a', first at line 7"]),
        ("  a: {}", "\ta: {}", ["s.yml:7:1: a tab in the indentation: YAML takes spaces only"]),
        ("  a: {}", "  a: {", ["not valid YAML: "]),
        ("  a: {}", "  a: *other", ["s.yml:7:6: not valid YAML: found undefined alias"]),
        ("  a: {}", "  a: !!python/object/apply:os.system [id]", ["s.yml:7:6: expected a mapping"]),
        ("  a: {}", "  ? [x]\n  : {}", ["s.yml:7:5: a key must be text"]),
        ("figures:", "---\nfigures:", ["s.yml:16:1: a second YAML document: one study a file"]),
    ],
)  # fmt: skip
def test_a_fault_says_where_and_what(old, new, expected):
    found = "\n".join(faults(edit(old, new)))
    for text in expected:
        assert text in found


def test_all_faults_are_shown_at_once_in_the_order_of_the_file():
    text = (
        edit("title: Two disks", "title: 3").replace("size: 64MiB", "size: 64MB").replace("metric: iops", "metric: x")
    )
    assert [line.split(": ")[0] for line in faults(text)] == ["s.yml:2:8", "s.yml:13:32", "s.yml:17:30"]


def test_faults_of_meaning_are_shown_at_once():
    text = (
        edit("baseline: a", "baseline: x")
        .replace("repeats: 3", "repeats: 1")
        .replace("workload: read,", "workload: r,")
    )
    assert [line.split(": ")[0] for line in faults(text)] == ["s.yml:4:11", "s.yml:5:10", "s.yml:17:16"]


def test_a_pilot_may_have_one_repeat():
    assert load(edit("repeats: 3", "repeats: 1\npilot: true")).repeats == 1


def test_anchors_and_aliases_work():
    study = load(edit("  a: {}", "  a: &arm {title: same}\n  c: *arm"))
    assert study.arms["c"] == study.arms["a"]


def test_a_fault_in_an_alias_points_at_its_anchor():
    found = faults(edit("  a: {}", "  a: &arm {titel: same}\n  c: *arm"))
    assert [line.split(": ")[0] for line in found] == ["s.yml:7:12", "s.yml:7:12"]


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing but a comment\n", "---\n", "null\n"])
def test_an_empty_file_is_no_study(text):
    assert faults(text)


@pytest.mark.parametrize("text", ["just words", "- a\n- list", "42"])
def test_another_thing_is_no_study(text):
    assert "s.yml:1:1: expected a mapping" in faults(text)[0]


def test_not_utf8_is_named_with_its_place():
    assert faults(GOOD.replace("Two disks", "Zwei Fl\xe4chen").encode("latin-1")) == [
        "s.yml:2:15: not UTF-8: byte 0xe4 (save the file as UTF-8)"
    ]


def test_utf8_with_byte_order_mark_is_read():
    assert load(b"\xef\xbb\xbf" + GOOD.encode()).name == "two-disks"


def test_a_control_character_is_refused():
    assert "not valid YAML" in faults(edit("Two disks", "Two\x00disks"))[0]


def test_an_alias_bomb_is_refused_before_it_unfolds():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    assert "aliases unfold to more than" in faults("\n".join(lines))[0]


def test_an_alias_in_itself_is_refused():
    assert "an alias that contains itself" in faults("a: &a [*a]")[0]


def test_many_aliases_are_refused():
    assert "more than 100 aliases" in faults("a: &a x\nb: [" + ", ".join(["*a"] * 101) + "]")[0]


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 10_000, "- " * 5_000 + "x"])
def test_deep_nesting_is_refused(text):
    assert "nested deeper than 20 levels" in faults(text)[0]


def test_a_huge_file_is_refused(tmp_path):
    path = tmp_path / "s.yml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(InvalidFileError, match="larger than 1024 KiB"):
        load_study(path)


def test_many_values_are_refused():
    assert "more than 50000 YAML events" in faults("a: [" + "x," * 60_000 + "]")[0]


def test_a_missing_file_and_a_directory_are_named(tmp_path):
    for path, what in ((tmp_path / "no.yml", "no such file"), (tmp_path, "cannot read: Is a directory")):
        with pytest.raises(LabctlError, match=what) as caught:
            load_study(path)
        assert caught.value.code == ExitCode.USAGE
        assert str(path) in str(caught.value)


def test_an_unknown_name_gives_the_nearest():
    with pytest.raises(LabctlError, match="did you mean 'quickstart'") as caught:
        find_study("quikstart")
    assert caught.value.code == ExitCode.USAGE


@pytest.mark.parametrize("name", ["../quickstart", "./quickstart", "quickstart.yml"])
def test_what_looks_like_a_path_is_one(name):
    assert find_study(name) == Path(name)


@pytest.mark.parametrize("name", list(builtin_studies()))
def test_built_in_studies_are_valid_and_named_like_their_files(name):
    loaded = load_study(name)
    assert loaded.study.name == name
    assert loaded.raw == loaded.path.read_bytes()


@pytest.mark.parametrize("name", list(builtin_studies()))
def test_the_schema_takes_the_built_in_studies(name):
    schema = study_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(YAML(typ="safe").load(builtin_studies()[name]), schema)


@pytest.mark.parametrize(
    ("tool", "key"), [("fio", "scale"), ("pgbench", "iodepth"), ("sysbench-cpu", "bs"), ("sysbench-fileio", "rw")]
)
def test_the_schema_knows_the_parameters_of_each_tool(tool, key):
    parameters: dict[str, int] = {}
    study = {
        "name": "x", "title": "x", "question": "x", "baseline": "a", "arms": {"a": {}},
        "workloads": {"w": {"tool": tool, "parameters": parameters}},
    }  # fmt: skip
    validator = jsonschema.Draft202012Validator(study_schema())
    assert validator.is_valid(study)
    parameters[key] = 1
    assert not validator.is_valid(study)


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("repeats=7", lambda s: s.repeats == 7),
        ("title=", lambda s: s.title == ""),
        ("workloads.read.parameters.runtime=2s", lambda s: s.workloads["read"].parameters.runtime == 2.0),
        ("workloads.*.parameters.runtime=2s", lambda s: s.workloads["read"].parameters.runtime == 2.0),
        ("workloads.*.parameters.time=2s", lambda s: s.workloads["cpu"].parameters.time == 2.0),
        ("workloads.read.sweep.iodepth=[2, 4]", lambda s: s.workloads["read"].sweep.iodepth == (2, 4)),
        ("order.across_hosts=parallel", lambda s: s.order.across_hosts == "parallel"),
        ("arms.*.optional=true", lambda s: all(arm.optional for arm in s.arms.values())),
    ],
)
def test_set_changes_a_value(tmp_path, override, read):
    path = tmp_path / "s.yml"
    path.write_text(GOOD)
    if override == "title=":
        with pytest.raises(InvalidFileError, match="not empty"):
            load_study(path, [override])
    else:
        assert read(load_study(path, [override]).study)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("repeats", "cannot read --set 'repeats'"),
        ("=3", "cannot read --set '=3'"),
        ("a..b=3", "cannot read --set 'a..b=3'"),
        ("workloads.*.parameters.nosuch=3", "fits nothing in this study"),
        ("title.x=3", "'title' is not a mapping"),
        ("reepats=3", "--set reepats=3: unknown key 'reepats' (did you mean 'repeats'?)"),
        ("repeats=many", "--set repeats=many: expected a whole number, got 'many'"),
        ("repeats=[", "not valid YAML"),
    ],
)
def test_a_wrong_set_is_explained(tmp_path, override, message):
    path = tmp_path / "s.yml"
    path.write_text(GOOD)
    with pytest.raises(LabctlError) as caught:
        load_study(path, [override])
    assert caught.value.code == ExitCode.USAGE
    assert message in str(caught.value)
