# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's qemu.conf says, and libvirt's own where it says nothing."""

from __future__ import annotations

from .files import read_setting

_QEMU_CONF = "/etc/libvirt/qemu.conf"
# libvirt's own, where qemu.conf does not say otherwise (src/qemu/qemu.conf.in).
_FIRST_PORT, _LAST_PORT = 49152, 49215


def migration_ports(settings_path: str = _QEMU_CONF) -> range:
    """Where QEMU listens at the target of a migration. Its other connections, to storage or from consoles, have others.

    libvirt does not tell another host's setting, so this host's own counts for both. libvirt's default is not added:
    who has another range may have something else there, such as the bricks of Gluster.
    Raises HostError when the file cannot be read, ValueError for what is no number.
    """
    first = read_setting(settings_path, "migration_port_min") or _FIRST_PORT
    last = read_setting(settings_path, "migration_port_max") or _LAST_PORT
    return range(int(first), int(last) + 1)
