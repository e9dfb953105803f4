# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the user that QEMU runs as can enter a directory: it opens the images of a backup by their paths itself."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath

from ..._base.commands import run_program
from ..._base.errors import HostError
from ..._base.xml import etree

# As libvirt has it in the description of a machine that runs (seclabel in
# https://libvirt.org/formatdomain.html#security-label).
_LABEL = re.compile(r"\+(\d+):\+(\d+)")
_SECONDS = 30.0


def require_open_to_qemu(running: etree._Element, path: str, what: str) -> None:
    """Raise HostError where QEMU cannot enter a directory. running: the ``<domain>`` of its machine as it runs.

    what: what is not possible then. The kernel is asked, which knows of groups, access control lists and shares that
    map users. Where it cannot be asked, or libvirt does not say who QEMU is, nothing is raised.
    """
    found = _LABEL.fullmatch(running.findtext("seclabel[@model='dac']/label") or "")
    if found is None or _can_enter(found[1], found[2], path):
        return
    steps = [*reversed([*map(str, PurePosixPath(path).parents)]), path]
    raise closed_error(what, next((step for step in steps if not _can_enter(found[1], found[2], step)), path))


def closed_error(what: str, closed: str) -> HostError:
    """The error of a directory that QEMU cannot enter. what: what is not possible therefore."""
    return HostError(
        f"{what}: QEMU writes there itself, and {closed} does not let other users in",
        hint=f"Let QEMU's user enter it: chmod o+x {shlex.quote(closed)}",
    )


def _can_enter(user: str, group: str, path: str) -> bool:
    """True also where nobody knows."""
    command = ["setpriv", "--reuid", user, "--regid", group, "--init-groups", "--", "test", "-x", path]
    try:
        answer = run_program(command, timeout_seconds=_SECONDS)
    except (FileNotFoundError, TimeoutError):
        return True
    # test has no words for its no; setpriv has, such as for a user who is in no passwd.
    return answer.status != 1 or bool(answer.complaint)
