# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which daemon is told to read its certificates.

Scripts stand in the place of systemctl and virt-admin here; the lab has the real ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._tls.reload import is_marked, mark, reload_daemon


class Host:
    """A host with some active units; notes what virt-admin is told, which fails if `fails`."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.mark = str(place / "mark")

    def has(self, *units: str, fails: bool = False) -> None:
        wanted = "|".join(units) or "none"
        self._script("systemctl", f'case "$3" in {wanted}) exit 0;; esac; exit 3')
        self._script("virt-admin", f'echo "$@" >>{self.place}/told; {"echo no >&2; exit 1" if fails else "exit 0"}')

    def _script(self, name: str, text: str) -> None:
        path = self.place / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    @property
    def revoked(self) -> str:
        path = self.place / "told"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = Host(tmp_path)
    mark(found.mark)
    return found


@pytest.mark.parametrize("daemon", ["libvirtd", "virtproxyd"])
def test_the_daemon_that_serves_tls_is_told(host: Host, daemon: str) -> None:
    host.has(f"{daemon}.service", f"{daemon}-tls.socket")
    assert reload_daemon(host.mark)
    # Either has /run/libvirt/libvirt-admin-sock, and only libvirtd's URI leads there: for another daemon virt-admin
    # looks for DAEMON-admin-sock (getSocketPath in src/admin/libvirt-admin.c), which virtproxyd does not have.
    assert host.revoked == f"--connect libvirtd:///system server-update-tls {daemon}\n"
    assert not is_marked(host.mark)


@pytest.mark.parametrize(
    "units", [(), ("libvirtd.service",), ("libvirtd-tls.socket",), ("virtproxyd.service", "libvirtd-tls.socket")]
)
def test_one_that_does_not_run_or_serve_reads_them_when_it_starts(host: Host, units: tuple[str, ...]) -> None:
    host.has(*units)
    assert not reload_daemon(host.mark)
    assert host.revoked == ""
    assert not is_marked(host.mark)


def test_a_host_without_systemd_has_nothing_to_tell(host: Host) -> None:
    assert not reload_daemon(host.mark)


def test_a_daemon_that_refuses_is_told_again_next_time(host: Host) -> None:
    host.has("libvirtd.service", "libvirtd-tls.socket", fails=True)
    with pytest.raises(HostError, match="libvirtd does not accept its new certificates: no"):
        reload_daemon(host.mark)
    assert is_marked(host.mark)
