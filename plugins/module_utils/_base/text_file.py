# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading text files of a host."""

from __future__ import annotations

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
