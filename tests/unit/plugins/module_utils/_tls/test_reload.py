# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which daemon is told to read its certificates, and to end which connections.

Scripts stand in the place of systemctl and virt-admin here; the lab has the real ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._tls.reload import (
    Reload,
    end_connections,
    is_marked,
    mark,
    reload_daemon,
)

# What virt-admin of libvirt 9.0 prints.
TABLE = """\
 Id   Transport   Connected since
--------------------------------------------
 6    tls         2026-11-27 21:45:02+0000
 7    unix        2026-11-27 21:45:02+0000
 8    tls         2026-11-27 21:45:03+0000
 9    tls         2026-11-27 21:45:03+0000

"""
INFO = """\
id             : {number}
connection_time: 2026-11-27 21:45:02+0000
transport      : tls
readonly       : no
sock_addr      : [::ffff:192.0.2.13]:52470
tls_x509_dname : {name}

"""


class Host:
    """A host with some active units; notes what virt-admin is told, which fails if `fails`."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.mark = str(place / "mark")

    def has(self, *units: str, fails: bool = False) -> None:
        wanted = "|".join(units) or "none"
        self._script("systemctl", f'case "$3" in {wanted}) exit 0;; esac; exit 3')
        self._script("virt-admin", f'echo "$@" >>{self.place}/told; {"echo no >&2; exit 1" if fails else "exit 0"}')

    def has_clients(self, names: dict[int, str], refused: str = "", after: str = TABLE) -> None:
        """libvirtd with the connections of TABLE, from certificates with these names.

        refused: the call that virt-admin fails at, after which its table is `after`.
        """
        (self.place / "table").write_text(TABLE)
        (self.place / "after").write_text(after)
        for number, name in names.items():
            (self.place / f"info{number}").write_text(INFO.format(number=number, name=name))
        self._script(
            "virt-admin",
            f"""
            shift 2; echo "$@" >>{self.place}/told
            show() {{ while IFS= read -r line; do echo "$line"; done <"$1"; }}
            case "$*" in
                "{refused}") : >{self.place}/failed; echo no >&2; exit 1;;
                client-list*) if [ -e {self.place}/failed ]; then show {self.place}/after
                    else show {self.place}/table; fi;;
                client-info*) show {self.place}/info$3;;
            esac""",
        )
        self._script("systemctl", 'case "$3" in libvirtd.service|libvirtd-tls.socket) exit 0;; esac; exit 3')

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
    assert reload_daemon(host.mark) == Reload(daemon)
    # Either has /run/libvirt/libvirt-admin-sock, and only libvirtd's URI leads there: for another daemon virt-admin
    # looks for DAEMON-admin-sock (getSocketPath in src/admin/libvirt-admin.c), which virtproxyd does not have.
    assert host.revoked == f"--connect libvirtd:///system server-update-tls {daemon}\n"
    assert not is_marked(host.mark)


@pytest.mark.parametrize(
    "units", [(), ("libvirtd.service",), ("libvirtd-tls.socket",), ("virtproxyd.service", "libvirtd-tls.socket")]
)
def test_one_that_does_not_run_or_serve_reads_them_when_it_starts(host: Host, units: tuple[str, ...]) -> None:
    host.has(*units)
    assert reload_daemon(host.mark) == Reload()
    assert host.revoked == ""
    assert not is_marked(host.mark)


def test_a_host_without_systemd_has_nothing_to_tell(host: Host) -> None:
    assert reload_daemon(host.mark) == Reload()


def test_a_daemon_that_refuses_is_told_again_next_time(host: Host) -> None:
    host.has("libvirtd.service", "libvirtd-tls.socket", fails=True)
    with pytest.raises(HostError, match="libvirtd does not accept its new certificates: no"):
        reload_daemon(host.mark)
    assert is_marked(host.mark)


NAMES = {
    6: "O=brine.virt,OU=hypervisor,CN=hv3",
    8: "O=brine.virt,OU=hypervisor,CN=hv30",
    9: r"O=brine.virt,OU=client,CN=hv3\, of old",
}


def test_who_is_locked_out_is_thrown_out_after_the_certificates_are_read(host: Host) -> None:
    host.has_clients(NAMES)
    assert reload_daemon(host.mark, ["hv3", "alice"]) == Reload("libvirtd", ("hv3",))
    told = host.revoked.splitlines()
    assert told[0] == "server-update-tls libvirtd"
    assert [line for line in told if "disconnect" in line] == ["client-disconnect libvirtd 6"]
    assert not is_marked(host.mark)


def test_a_name_is_compared_as_the_certificate_has_it(host: Host) -> None:
    host.has_clients(NAMES)
    assert reload_daemon(host.mark, ["hv3, of old"]).closed == ("hv3, of old",)


def test_connections_are_ended_where_the_daemon_cannot_read_its_certificates(host: Host) -> None:
    host.has_clients(NAMES)
    assert end_connections(["hv3", "alice"]) == Reload("libvirtd", ("hv3",))
    assert "server-update-tls" not in host.revoked
    assert is_marked(host.mark)


def test_where_no_daemon_serves_there_are_none_to_end(host: Host) -> None:
    host.has("libvirtd.service")
    assert end_connections(["hv3"]) == Reload()
    assert host.revoked == ""


def test_without_anybody_to_lock_out_nobody_is_asked_for(host: Host) -> None:
    host.has_clients(NAMES)
    reload_daemon(host.mark)
    assert host.revoked == "server-update-tls libvirtd\n"


def test_a_connection_that_cannot_be_ended_is_for_the_next_run(host: Host) -> None:
    host.has_clients(NAMES, "client-disconnect libvirtd 6")
    with pytest.raises(HostError, match=r"libvirtd does not end a connection of hv3: no\. Restart libvirtd\.service"):
        reload_daemon(host.mark, ["hv3"])
    assert is_marked(host.mark)


@pytest.mark.parametrize("what", ["client-info", "client-disconnect"])
def test_a_connection_may_end_by_itself(host: Host, what: str) -> None:
    host.has_clients(NAMES, f"{what} libvirtd 6", TABLE.replace(" 6 ", " 5 "))
    reload_daemon(host.mark, ["hv3"])
    assert not is_marked(host.mark)


def test_a_daemon_that_does_not_say_who_is_connected_is_asked_next_time(host: Host) -> None:
    host.has_clients(NAMES, "client-list libvirtd")
    with pytest.raises(HostError, match="libvirtd does not say who is connected: no"):
        reload_daemon(host.mark, ["hv3"])
    assert is_marked(host.mark)
