# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Only the connections of a migration are told from the others of the same and of other processes."""

from __future__ import annotations

from ansible_collections.brine.virt.plugins.module_utils._host.machines.migration import links

PORTS = range(49152, 49216)

# As ss of Debian 12 writes it.
LISTING = """\
ESTAB 0      0       10.0.0.11:56082 10.0.0.12:49153 users:(("qemu-system-x86",pid=16298,fd=29))
ESTAB 0      50      [2001:db8::1]:56090 [2001:db8::2]:49215 users:(("qemu-system-x86",pid=16298,fd=30))
ESTAB 0      50      10.0.0.11:56092 10.0.0.12:49153 users:(("qemu-system-x86",pid=1629,fd=30))
ESTAB 0      0       10.0.0.11:40000 10.0.0.12:6800 users:(("qemu-system-x86",pid=16298,fd=31))
ESTAB 0      0       10.0.0.11:49153 10.0.0.12:60000 users:(("qemu-system-x86",pid=16298,fd=32))
ESTAB 0      0       10.0.0.11:40002 10.0.0.12:49216 users:(("qemu-system-x86",pid=16298,fd=33))
ESTAB 0      0       10.0.0.11:22    10.0.0.1:51152
"""


def test_only_what_a_machine_is_sent_over() -> None:
    assert list(links(LISTING, 16298, PORTS)) == [
        ("10.0.0.11:56082", "10.0.0.12:49153"),
        ("[2001:db8::1]:56090", "[2001:db8::2]:49215"),
    ]


def test_nothing_of_an_unknown_process() -> None:
    assert list(links(LISTING, 298, PORTS)) == []


def test_the_ports_are_those_of_the_host() -> None:
    assert list(links(LISTING, 16298, range(6700, 6801))) == [("10.0.0.11:40000", "10.0.0.12:6800")]
