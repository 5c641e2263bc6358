"""What must never reach a file, in the forms in which tools print it."""

from __future__ import annotations

import base64
import json
import shlex
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.automation.redact import MASK, Redactor, looks_secret, secret_values

VALUE = "p4'ss \"w&rd\\ü"


@pytest.mark.parametrize(
    "form",
    [
        VALUE,
        json.dumps(VALUE),
        json.dumps(VALUE, ensure_ascii=False),
        repr(VALUE),
        shlex.quote(VALUE),
        quote(VALUE, safe=""),
        "'" + VALUE.replace("'", "''") + "'",
        base64.b64encode(VALUE.encode()).decode(),
        base64.urlsafe_b64encode(VALUE.encode()).decode(),
    ],
)
def test_every_printed_form_of_a_secret_goes(form):
    cleaned = Redactor([VALUE]).text(f"before {form} after")
    assert form not in cleaned
    assert VALUE not in cleaned
    assert MASK in cleaned
    assert cleaned.startswith("before ")
    assert cleaned.endswith(" after")


@given(st.text(min_size=4, max_size=40).filter(lambda s: not s.isspace()), st.text(max_size=20), st.text(max_size=20))
def test_a_declared_value_never_survives(secret, before, after):
    cleaned = Redactor([secret]).text(before + secret + after)
    # What is left over may only be the mask itself or text that stood around it.
    assert secret not in cleaned or secret in MASK or secret in before or secret in after or MASK in secret


def test_the_longer_secret_goes_as_a_whole():
    assert Redactor(["abcd", "abcdefgh"]).text("x abcdefgh y abcd") == f"x {MASK} y {MASK}"


def test_short_values_are_left_alone_because_they_stand_everywhere():
    assert Redactor(["no", "1"]).text("no 1") == "no 1"


def test_lines_of_a_private_key_go_one_by_one():
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU\n-----END OPENSSH PRIVATE KEY-----\n"
    assert "b3BlbnNz" not in Redactor([key]).text("read b3BlbnNzaC1rZXktdjEAAAAABG5vbmU from file")
    assert "b3BlbnNz" not in Redactor().text(key)


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ('{"db_password": "hello-1"}', "hello-1"),
        ("{'api_token': 'hello-1', 'x': 1}", "hello-1"),
        ("PGPASSWORD=hello-1 psql", "hello-1"),
        ("psql postgres://bench:hello-1@db/x", "hello-1"),
        ("curl --data secret=hello-1&a=b", "hello-1"),
        ('"ansible_become_password": "he said \\"x\\" hello-1"', "hello-1"),
    ],
)
def test_undeclared_secrets_go_by_their_key(text, gone):
    assert gone not in Redactor().text(text)


@pytest.mark.parametrize(
    "text",
    [
        "Permission denied (publickey,password).",
        "ansible_ssh_private_key_file=/home/me/.ssh/id",
        '"ansible_private_key_file": "keys/id"',
        "token: unexpected end of stream",
        "Missing sudo password",
    ],
)
def test_words_that_only_talk_about_secrets_stay(text):
    assert Redactor().text(text) == text


def test_structures_are_cleaned_by_key_and_by_value_and_keep_switches():
    cleaned = Redactor(["s3cr3t"]).value(
        {
            "vault_password": {"a": ["x"]},
            "passwords": [],
            "token": True,
            "nested": [{"note": "is s3cr3t"}, ("s3cr3t",)],
            "s3cr3t": 1,
            "size": 4,
        }
    )
    assert cleaned == {
        "vault_password": MASK,
        "passwords": [],
        "token": True,
        "nested": [{"note": f"is {MASK}"}, [MASK]],
        MASK: 1,
        "size": 4,
    }


def test_a_secret_number_goes_too():
    assert Redactor(["123456"]).value({"pin": 123456, "n": 123457}) == {"pin": MASK, "n": 123457}


def test_secret_values_are_found_below_secret_keys():
    found = set(secret_values({"a_password": "one", "x": {"tokens": ["two", {"k": 3}]}, "y": "no", "secret": False}))
    assert found == {"one", "two", "3"}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("ansible_password", True),
        ("ansible_ssh_pass", True),
        ("bmc_passwd", True),
        ("S3_SECRET_ACCESS_KEY", True),
        ("ansible_private_key_file", False),
        ("no_password", False),
        ("lab_description", False),
        ("/srv/secrets/work", False),
        ("what the password is about", False),
    ],
)
def test_looks_secret(key, expected):
    assert looks_secret(key) is expected
