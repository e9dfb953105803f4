# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_secret shows and logs none of its options, whatever becomes of it."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils import basic
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.module_utils._model.withheld import SecretOptions
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_module
from ansible_collections.brine.virt.plugins.modules import virt_secret

SECRET = "hunter22-canary"
# aHVudGVyMjItY2FuYXJ5 is the same in base64.
SPELLINGS = (SECRET, "aHVudGVyMjItY2FuYXJ5")
# ansible-core 2.21 leaves it to the controller.
HIDDEN = {"module_args": "********"}
ONE = {"name": "client.x", "usage": "ceph", "uri": "test:///default"}


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What goes to the host's log."""
    lines: list[str] = []
    monkeypatch.setattr(basic, "has_journal", False)
    monkeypatch.setattr(basic.syslog, "syslog", lambda _level, line: lines.append(line))
    return lines


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({**ONE, "value": SECRET}, "cannot list the secrets"),
        ({**ONE, "value_base64": SPELLINGS[1]}, "cannot list the secrets"),
        ({**ONE, "valeu": SECRET}, "Unsupported parameters"),
        ({**ONE, "value": SECRET, "usage": "rbd"}, "value of usage must be one of"),
        ({"uri": ONE["uri"], "secrets": [{"name": "a", "usage": "ceph", "value": SECRET}]}, "cannot list the secrets"),
        ({"uri": ONE["uri"], "secrets": [{"name": "a", "usage": "ceph", "valeu": SECRET}]}, "unknown option 'valeu'"),
        ({"uri": ONE["uri"], "secrets": [{"name": "a", "value": SECRET}]}, "secrets[0].usage: is missing"),
        ({"uri": ONE["uri"], "secrets": [SECRET]}, "unable to convert to dict"),
        ({"uri": ONE["uri"], "secrets": {"value": SECRET}}, "unable to convert to list"),
        ({"uri": ONE["uri"], "secrets": [f"name=a usage=ceph value={SECRET}"]}, "cannot list the secrets"),
        ({**ONE, "value": {"a": SECRET}}, "cannot list the secrets"),
        ({**ONE, "secrets": [{"name": "a", "usage": "ceph", "value": SECRET}]}, "are given together"),
    ],
)
def test_a_failure_has_nothing_of_the_value(
    logged: list[str], capsys: pytest.CaptureFixture[str], options: dict[str, t.Any], words: str
) -> None:
    with patch_module_args(options), pytest.raises(SystemExit):
        virt_secret.main()
    output = capsys.readouterr()
    answer = json.loads(output.out)
    assert answer["failed"] and words in answer["msg"]
    assert answer.get("invocation", HIDDEN) == HIDDEN
    everything = f"{output.out} {output.err} {logged}"
    assert not [spelling for spelling in (*SPELLINGS, SECRET[:8]) if spelling in everything]


@pytest.mark.parametrize(
    "options", [{**ONE, "value": SECRET}, {"secrets": [{"name": "a", "usage": "ceph", "value": SECRET}]}]
)
def test_a_result_has_nothing_of_the_value(
    logged: list[str], capsys: pytest.CaptureFixture[str], options: dict[str, t.Any]
) -> None:
    with patch_module_args(options), pytest.raises(SystemExit):
        module = make_module(virt_secret.ARGUMENTS, secrets=SecretOptions(words=virt_secret.VALUE_OPTIONS))
        module.log("something")
        answer = {"changed": True, "secrets": [{"name": "a", "msg": f"libvirt said {SECRET}"}]}
        finish(module, lambda _module: answer)
    output = capsys.readouterr()
    answer = json.loads(output.out)
    assert answer.get("invocation", HIDDEN) == HIDDEN
    assert answer["secrets"] == [{"name": "a", "msg": "libvirt said ********"}]
    assert SECRET not in f"{output.out} {output.err}" and logged == []
