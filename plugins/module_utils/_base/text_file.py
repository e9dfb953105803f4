# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading text files of a host, and the settings in those of libvirt."""

from __future__ import annotations

import re

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError


def read_text(path: str) -> str | None:
    """The text of a file, or None when there is none. Raises HostError."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise HostError(f"{path} cannot be read: {exc.strerror}", hint="Run it with become: true") from exc


def read_setting(path: str, name: str) -> str | None:
    """A text or number that a file such as ``/etc/libvirt/qemu.conf`` sets, without its quotes; None where it does not.

    Of several lines for one name the first counts, as for libvirt (virConfGetValue in src/util/virconf.c).
    Raises HostError when the file is there and cannot be read.
    """
    line = re.compile(
        rf"""^[ \t]*{re.escape(name)}[ \t]*=[ \t]*(?:"([^"\n]*)"|'([^'\n]*)'|([^"'\s#\[]+))""", re.MULTILINE
    )
    found = line.search(read_text(path) or "")
    return None if found is None else next(value for value in found.groups() if value is not None)
