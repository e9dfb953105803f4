# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets leave the options of a task, and come back into their places."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.errors import AnsibleActionFail
from ansible.module_utils._internal import _messages
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._model.withheld import OPTION, masked, masks_of, opened
from ansible_collections.brine.virt.plugins.module_utils._seeding.secret_values import has_secrets
from ansible_collections.brine.virt.plugins.plugin_utils._withhold import Withheld, require_options

KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIBOgIBAAJBAKj34GkxFhD9\n-----END RSA PRIVATE KEY-----"
# The keys that decide, and some that do not.
KEYS = st.sampled_from(
    [
        "password",
        "secret",
        "content",
        "list",
        "chpasswd",
        "user_data",
        "url",
        "xml",
        "seed",
        "graphics",
        "machines",
        "a",
        "password:hunter22",
    ]
)
TEXTS = st.text(max_size=12) | st.sampled_from(
    [
        KEY,
        f"x {KEY} y",
        "root:hunter22\nops:random",
        "https://me:hunter22@h/?token=1",
        "https://h/?a=1 or https://h/?b=2",
        "<a passwd='hunter22'/>",
        "{password: hunter22}",
        "root:$6$abcdefgh$hunter22hunter22hunter22, and more",
        "hunter22",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_everything_comes_back_as_it_was(options: dict[str, t.Any]) -> None:
    # Lists and mappings in JSON are read where the option is of that kind.
    args = Withheld(options).args
    assert opened(json.loads(json.dumps(args))) == options
    assert not has_secrets(args)


@pytest.mark.parametrize(
    "text",
    [
        "https://h/debian.qcow2?token=abcdef",
        "https://h/debian.qcow2?a=b&token=abcdef",
        "https://h/debian.qcow2?token=",
        "https://h/debian.qcow2?dG9rZW4=",
        "https://me:hunter22@h/ and https://h/?a=b",
        "see https://h/wiki?id=3, or https://h/wiki#id=4",
        "curl https://h/a?b=c; curl https://h/d",
    ],
)
def test_a_module_takes_options_with_any_address_once_its_secrets_are_out(text: str) -> None:
    args = Withheld({"url": text, "description": text}).args

    assert not has_secrets(args)
    assert opened(args) == {"url": text, "description": text}


@pytest.mark.parametrize(
    "options",
    [
        {"graphics": {"type": "vnc", "password": "!?"}},
        {"graphics": {"type": "vnc", "password": 12345678}},
        {"graphics": {"password": {"oops": "hunter22"}}},
        {"graphics": '{"type": "vnc", "password": "hunter22"}'},
        {"machines": [{"name": "a", "graphics": {"password": "x"}}]},
        {"machines": ["name=a password=hunter22"]},
        {"seed": {"user_data": "#!/bin/sh\n"}},
        {"seed": {"files": [{"content": "abc", "secret": True}]}},
        {"variables": {"ansible_become_pass": "x"}},
        {"xml": "<graphics passwd='x'/>"},
        {"disks": [{"source": "https://me:x@example.org/a.iso"}]},
        {"url": "https://x@example.org/"},
        {"password": "x"},
    ],
)
def test_what_counts_as_secret(options: dict[str, t.Any]) -> None:
    assert has_secrets(options)
    args = {key: value for key, value in Withheld(options).args.items() if key != OPTION}
    text = json.dumps(args)
    assert not any(secret in text for secret in ("hunter22", "12345678", "!?"))
    assert not has_secrets(args)


@pytest.mark.parametrize(
    "options",
    [
        {"labels": {"private": "yes"}, "nics": [{"name": "private", "bridge": "br0"}], "tags": ["secret"]},
        {"nic_profiles": {"private": {"private": {"bridge": "br0"}}}, "uri": "qemu+ssh://root@hv1/system?no_verify=1"},
        {"seed": {"user_data": {"lock_passwd": "certainly"}, "ssh_pwauth": True}, "graphics": {"password": None}},
        {"url": "https://example.org/a.qcow2", "checksum": "sha256:00"},
    ],
)
def test_what_does_not(options: dict[str, t.Any]) -> None:
    assert not has_secrets(options)
    assert opened(Withheld(options).args) == options


def test_a_secret_is_taken_out_wherever_it_stands() -> None:
    args = Withheld({"graphics": {"password": "hunter22"}, "description": "say hunter22", "title": "hunter"}).args
    assert "hunter22" not in args["description"]
    assert args["title"] == "hunter"


def test_a_result_is_cleaned_and_an_error_with_it() -> None:
    withheld = Withheld({"graphics": {"password": "hunter22"}, "seed": {"files": [{"content": KEY, "secret": True}]}})
    event = _messages.Event(msg="wrong: 'hunter22'", formatted_traceback="MIIBOgIBAAJBAKj34GkxFhD9")
    mark = withheld.args["graphics"]["password"]
    result = withheld.cleaned(
        {
            "changed": True,
            "count": 3,
            "exception": _messages.ErrorSummary(event=event),
            "lines": [f"a {mark} b", "x hunter22 y", "MIIBOgIBAAJBAKj34GkxFhD9"],
        }
    )
    text = repr(result)
    assert not any(secret in text for secret in ("hunter22", "MIIBOgIB", mark))
    assert (result["changed"], result["count"]) == (True, 3)
    assert result["lines"] == ["a ******** b", "x ******** y", "********"]


def test_masks_are_no_common_words() -> None:
    assert masks_of(["yes", "root", "random", "", " "]) <= {"'yes'", '"yes"', "'root'", '"root"'}
    # A short line of a secret file is not worth the name.
    assert not {"[main]", "enabled"} & masks_of(["[main]\nenabled\ntoken = 0123456789\n"])
    assert masked("x 'yes' yes", masks_of(["yes"])) == "x ******** yes"


@pytest.mark.parametrize("name", ["_withheld", "_progress_file", "_host_name", "_sent_files", "_only_asked"])
def test_what_only_an_action_sends_is_no_option_of_a_task(name: str) -> None:
    require_options({"name": "web1", "state": None})
    with pytest.raises(AnsibleActionFail, match=f"{name}: not for tasks"):
        require_options({"name": "web1", name: None})
