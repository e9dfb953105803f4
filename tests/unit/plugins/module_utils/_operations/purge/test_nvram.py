# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's UEFI variables: libvirt deletes whatever file the definition names, so that only its own may go."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains
from ansible_collections.brine.virt.plugins.module_utils._host.storage.usage import (
    Usage,
    undefine_machine,
    why_nvram_stays,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import (
    PurgeHost,
    decided,
    disk,
)

THERE = "the machine has its UEFI variables there, but "


def own(host: PurgeHost, name: str) -> Path:
    """Where libvirt would put them."""
    return host.outside.parent / "qemu/nvram" / f"{name}_VARS.fd"


def stay(host: PurgeHost, path: Path, reason: str) -> None:
    before = path.read_bytes()
    result = host.one()
    assert not result["failed"], result
    assert "web1" not in host.names()
    assert decided(result)[str(path)] == f"keep: {THERE}{reason}"
    assert path.read_bytes() == before


def test_its_own_go(host: PurgeHost) -> None:
    host.make()
    path = host.variables("web1", own(host, "web1"))
    result = host.one()
    assert (path.exists(), str(path) in decided(result)) == (False, False)


def test_those_of_another_machine_stay(host: PurgeHost) -> None:
    host.make()
    host.guest("other")
    host.variables("web1", host.variables("other", own(host, "other")))
    stay(host, own(host, "other"), "it is used by machine other")


def test_they_stay_under_its_own_name_too(host: PurgeHost) -> None:
    host.make()
    host.guest("other")
    host.variables("other", host.variables("web1", own(host, "web1")))
    stay(host, own(host, "web1"), "it is used by machine other")


def test_a_disk_of_another_machine_stays(host: PurgeHost) -> None:
    host.make()
    path = host.image(host.pool / "other.qcow2")
    host.guest("other", disk(path))
    host.variables("web1", path)
    stay(host, path, "it is used by machine other")


def test_a_volume_that_nobody_uses_stays(host: PurgeHost) -> None:
    host.make()
    path = host.variables("web1", host.image(host.pool / "spare.qcow2"))
    stay(host, path, f"libvirt has not created it for this machine. If nobody needs it: rm {path}")


def test_a_file_under_another_name_stays(host: PurgeHost) -> None:
    host.make()
    path = host.variables("web1", own(host, "gone"))
    stay(host, path, f"libvirt has not created it for this machine. If nobody needs it: rm {path}")


def test_they_are_looked_at_once_more_where_they_go(host: PurgeHost) -> None:
    host.make()
    path = host.variables("web1", own(host, "web1"))
    seen = list_domains(host.conn)["web1"]
    assert why_nvram_stays(seen, Usage(host.conn)) is None
    host.guest("other")
    host.variables("other", path)
    undefine_machine(host.conn, seen)
    assert ("web1" in host.names(), path.exists()) == (False, True)
