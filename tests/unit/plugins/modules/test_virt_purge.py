# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of virt_purge, and what its result is, on libvirt's test driver."""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._operations.purge import machines
from ansible_collections.brine.virt.plugins.modules import virt_purge
from ansible_collections.brine.virt.tests.unit.plugins.called_module import call_module


@pytest.fixture
def conn(node_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Any]:
    """One connection for all calls: the driver forgets all when it is closed."""
    for name in ("hypervisor_lock", "machine_lock"):
        monkeypatch.setattr(machines, name, lambda _what, **_settings: contextlib.nullcontext())
    with open_connection(node_uri) as connection:
        monkeypatch.setattr(virt_purge, "open_connection", lambda _uri: contextlib.nullcontext(connection))
        yield connection


def purge(check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
    return call_module(virt_purge, check_mode, params)


def test_the_difference_is_what_goes(conn: t.Any) -> None:
    volume = "<volume><name>web1-system.qcow2</name><capacity>1048576</capacity></volume>"
    conn.storagePoolLookupByName("default").createXML(volume)
    answers = [purge(check_mode, name=["web1", "gone"], force=True) for check_mode in (True, False)]
    assert answers[0] == answers[1]
    (diff,) = answers[0]["diff"]
    assert diff["before"] == "machine: web1\nvolumes:\n- default/web1-system.qcow2\n"
    assert diff["after"] == ""
    assert [one["changed"] for one in answers[0]["machines"]] == [True, False]
    again = purge(name=["web1"])
    assert (again["changed"], again["diff"]) == (False, [])


def test_names_are_no_patterns(conn: t.Any) -> None:
    before = {domain.name() for domain in conn.listAllDomains()}
    for name in ("*", "web?", "web", "all", "WEB1"):
        assert not purge(name=[name], force=True, adopt=True)["changed"]
    assert {domain.name() for domain in conn.listAllDomains()} == before


def test_one_that_fails_is_named_once(conn: t.Any) -> None:
    answer = purge(name=["web1"])
    assert answer["msg"].count("web1 is running, so it is not removed") == 1
    assert "Succeeded" not in answer["msg"]


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"name": []}, "name: no machine is named. Give the names of the machines to remove"),
        ({"name": ["web1", ""]}, "name: no machine is named. Give the names of the machines to remove"),
        ({"name": ["a", "b"], "disks": ["vda"]}, "disks: they are disks of one machine, but several are named"),
        ({"name": ["a"], "disks": ["vda"], "keep_disks": True}, "disks: keep_disks keeps all disks. Leave out one"),
    ],
)
def test_options_that_do_not_go_together(params: dict[str, t.Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        purge(**params)
    assert str(caught.value).startswith(text)
