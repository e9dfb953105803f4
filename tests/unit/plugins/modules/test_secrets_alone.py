# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that gets secrets in its own options, past its action plugin, logs nothing and does nothing."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils import basic
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.modules import (
    virt_backup,
    virt_image,
    virt_info,
    virt_init,
    virt_migrate,
    virt_pool,
    virt_profile_info,
    virt_restore,
)

SECRET = "hunter22 canary"
MACHINE = {"name": "a", "vcpus": 1, "memory": 128, "uri": "test:///nowhere/at/all"}
URL = {"name": "a", "url": f"https://me:{SECRET.replace(' ', '-')}@127.0.0.1:1/a", "checksum": "sha256:00"}


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What goes to the host's log."""
    lines: list[str] = []
    monkeypatch.setattr(basic, "has_journal", False)
    monkeypatch.setattr(basic.syslog, "syslog", lambda _level, line: lines.append(line))
    return lines


def call(module: t.Any, capsys: pytest.CaptureFixture[str], **options: t.Any) -> str:
    with patch_module_args(options), pytest.raises(SystemExit):
        module.main()
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("module", "options"),
    [
        (virt_init, {**MACHINE, "graphics": {"type": "vnc", "password": SECRET}}),
        (virt_init, {"machines": [{**MACHINE, "seed": {"password_hash": SECRET}}]}),
        (virt_init, {**MACHINE, "seed": {"user_data": f"#!/bin/sh\necho {SECRET}"}}),
        (virt_image, URL),
        (virt_profile_info, {"disks": [{"name": "iso", "device": "cdrom", "source": URL["url"]}]}),
    ],
)
def test_it_refuses(
    module: t.Any, options: dict[str, t.Any], logged: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    answer = call(module, capsys, **options)
    result = json.loads(answer)
    assert result["failed"] is True
    assert result["msg"].startswith("The options contain secrets, but the module was called without its action plugin")
    assert "hunter22" not in answer
    assert logged == []


def test_a_secret_that_the_action_plugin_could_not_take_out_is_not_said_to_have_come_without_it(
    logged: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    sent = {"values": json.dumps({}), "masks": []}
    answer = call(virt_init, capsys, **MACHINE, graphics={"type": "vnc", "password": SECRET}, _withheld=sent)
    assert json.loads(answer)["msg"].startswith("The options contain a secret in a place that is not made for one")
    assert "hunter22" not in answer
    assert logged == []


def test_options_that_are_wrong_are_not_repeated(logged: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    answer = call(virt_init, capsys, **MACHINE, seed={"password_hash": SECRET}, no_such_option=1)
    assert "Unsupported parameters" in answer
    assert "hunter22" not in answer
    assert logged == []


@pytest.mark.parametrize("wrong", [{"no_such_option": 1}, {"vcpus": 1, "start": "perhaps"}])
def test_what_the_action_plugin_sends_is_no_option_and_is_nowhere_repeated(
    wrong: dict[str, t.Any], logged: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    sent = {"values": json.dumps({"HIDDEN_0123456789abcdef_1_": SECRET}), "masks": [SECRET]}
    answer = call(virt_init, capsys, **{**MACHINE, "title": SECRET, **wrong}, _withheld=sent)
    assert json.loads(answer)["failed"] is True
    assert "_withheld" not in json.loads(answer)["msg"]
    answer += call(virt_init, capsys, **MACHINE, _withheld=sent)
    assert "hunter22" not in answer
    assert "hunter22" not in "".join(logged)


NFS = {"name": "nfs", "type": "netfs", "host": "nas", "export": "vms", "path": "/srv/nfs", "uri": "test:///default"}


@pytest.mark.parametrize("mount_options", [["vers=3", "password=hunter22"], "vers=3,user=me%hunter22"])
@pytest.mark.parametrize("several", [True, False])
def test_a_password_for_a_mount_is_refused_and_is_nowhere_repeated(
    mount_options: t.Any, several: bool, logged: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    one = {**NFS, "mount_options": mount_options}
    uri = one.pop("uri")
    answer = call(virt_pool, capsys, uri=uri, **({"pools": [one]} if several else one))
    assert "mount_options[1]: a password does not belong here" in json.loads(answer)["msg"]
    assert "hunter22" not in answer
    assert logged == []


@pytest.mark.parametrize("several", [True, False])
def test_a_password_in_an_option_that_is_none_is_not_repeated(
    several: bool, logged: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    one = {"name": "p", "password": "hunter22"}
    answer = call(virt_pool, capsys, **({"pools": [one], "uri": "test:///default"} if several else one))
    assert json.loads(answer)["failed"]
    assert "hunter22" not in answer
    assert logged == []


@pytest.mark.parametrize("more", [{"host": "me:hunter22@nas"}, {"format": "cifs", "export": "//me:hunter22@nas/vms"}])
def test_a_password_before_a_server_is_refused_and_is_nowhere_repeated(
    more: dict[str, t.Any], logged: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    answer = call(virt_pool, capsys, **{**NFS, **more})
    assert f"{list(more)[-1]}: a password does not belong here" in json.loads(answer)["msg"]
    assert "hunter22" not in answer
    assert logged == []


@pytest.mark.parametrize("several", [True, False])
def test_a_key_in_the_place_of_its_name_is_refused_and_is_nowhere_repeated(
    several: bool, logged: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    key = "AQDLhAJpcWxTMhAA1c0NvYlnZ1dnTVNlY3JldA=="
    one = {"name": "c", "type": "rbd", "hosts": ["mon1"], "ceph_pool": "vms", "user": "libvirt", "secret": key}
    answer = call(virt_pool, capsys, uri="test:///default", **({"pools": [one]} if several else one))
    assert "secret: this is a key as Ceph writes it" in json.loads(answer)["msg"]
    assert key not in answer
    assert logged == []


def test_a_pool_without_a_password_is_logged_as_ever(logged: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    answer = call(virt_pool, capsys, **NFS, mount_options="vers=3,credentials=/root/nas", no_such_option=1)
    assert "Unsupported parameters" in answer
    answer = call(virt_pool, capsys, **{**NFS, "type": "dir"}, mount_options="vers=3")
    assert "vers=3" in "".join(logged)


def test_without_secrets_it_works_and_logs_as_ever(logged: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    answer = call(virt_init, capsys, **MACHINE)
    assert "action plugin" not in answer
    assert len(logged) == 1
    assert "Invoked with" in logged[0]


def test_an_unexpected_error_is_masked(
    monkeypatch: pytest.MonkeyPatch, logged: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def work(_module: t.Any) -> t.NoReturn:
        try:
            raise KeyError(SECRET)
        except KeyError as exc:
            raise TypeError("something else") from exc

    monkeypatch.setattr(virt_init, "work", work)
    answer = call(virt_init, capsys, **MACHINE, _withheld={"values": "{}", "masks": [SECRET]})
    assert "unexpected error, TypeError: something else" in answer
    assert "hunter22" not in answer


@pytest.mark.parametrize(
    ("module", "options", "where"),
    [
        (virt_info, {"uri": "qemu+ssh://root:hunter22@127.0.0.1:1/system"}, "uri"),
        # A slash that should have been escaped.
        (virt_init, {**MACHINE, "uri": "qemu+tls://root:hunter/22@127.0.0.1/system"}, "uri"),
        (virt_pool, {"name": "p", "uri": "qemu+tls://root:hunter22@127.0.0.1/system"}, "uri"),
        (virt_migrate, {"name": "a", "target": "qemu+ssh://root:hunter22@127.0.0.1/system"}, "target"),
        (
            virt_migrate,
            {"uri": "test:///default", "machines": [{"name": "a", "target": "qemu+ssh://me:hunter22@127.0.0.1/"}]},
            "machines[0]",
        ),
        (virt_backup, {"name": ["a"], "dest": "smb://me:hunter22@127.0.0.1/backup"}, "dest"),
        (virt_restore, {"machine": "a", "src": "smb://me:hunter22@127.0.0.1/backup"}, "src"),
    ],
)
def test_a_password_in_an_address_that_takes_none_is_refused_and_not_repeated(
    module: t.Any, options: dict[str, t.Any], where: str, logged: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    result = json.loads(call(module, capsys, **options))
    assert result["msg"] == f"{where}: a password in an address is not read here, nor repeated. Leave it out"
    assert "hunter" not in json.dumps(result if "[" not in where else result["msg"])
    # Ansible itself takes it out.
    assert "hunter22" not in " ".join(logged)


def test_an_address_without_a_password_is_none_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    for uri in ("test+ssh://me@[::1]:1/default", "test+tls://127.0.0.1:1/default?pkipath=/a:b@c", "test:///no:where@x"):
        assert "a password in an address" not in call(virt_info, capsys, uri=uri, timeout=5)
