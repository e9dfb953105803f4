# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action of a module that begins a change which undoes itself, and has it confirmed where the task says so.

In one task: between two tasks each host waits for all others of the play, and a host that waits for one that is cut off
would go back, too.
"""

from __future__ import annotations

import contextlib
import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from .confirming import Confirmation, NoAnswer

# What the modules take where the task says nothing.
_CONFIRM_SECONDS = 60
# For ssh the last -S counts, also where a ControlPath is among the arguments; these come last. And no call waits for
# a dead connection.
_ARGUMENTS = "-S none -o ServerAliveInterval=3 -o ServerAliveCountMax=3"
# An attempt to connect has this long at least, however short the time for the confirmation is.
_LEAST_CONNECT_SECONDS = 10


class SwitchAction(ActionBase):
    """Runs a module, and confirms over new connections what it has begun. module: its full name."""

    TRANSFERS_FILES = False
    _requires_connection = True
    _supports_check_mode = True
    _supports_async = False
    module: t.ClassVar[str]

    def lacking(self) -> str:
        """What the host is without the change, as the end of a sentence."""
        raise NotImplementedError

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The result of the module, and of the confirmation."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        begun: dict[str, t.Any] = self._execute_module(module_name=self.module, task_vars=task_vars)
        wanted = boolean(self._task.args.get("confirm") or False, strict=False)
        if begun.get("failed") or begun.get("state") != "armed" or not wanted:
            return begun
        seconds = int(self._task.args.get("confirm_seconds") or _CONFIRM_SECONDS)
        asked = {"change": begun["change"], "token": begun["token"]}
        self._share_no_connection(seconds)
        failure = Confirmation(
            begun,
            seconds,
            f"{self._task.delegate_to or task_vars.get('inventory_hostname')} {self.lacking()}",
            lambda phase: self._call({**asked, "phase": phase}, task_vars),
        ).failure()
        return {**begun, "failed": True, "msg": failure} if failure else {**begun, "state": "confirmed"}

    def _share_no_connection(self, seconds: int) -> None:
        """From now on each call opens a connection, and none is held up by what the user has said of connections."""
        connection = self._connection
        # Later tasks would wait for one that is cut off.
        with contextlib.suppress(Exception):
            connection.reset()
        if connection.transport == "ssh":
            given = connection.get_option("ssh_extra_args") or ""
            connection.set_option("ssh_extra_args", f"{given} {_ARGUMENTS}".strip())
            # sftp and scp do not get these arguments.
            connection.set_option("ssh_transfer_method", "piped")
            # It is tried again here; and what ansible.cfg allows an attempt could be all the time that there is.
            connection.set_option("reconnection_retries", 0)
            longest = max(_LEAST_CONNECT_SECONDS, seconds // 3)
            connection.set_option("timeout", min(connection.get_option("timeout"), longest))
        # The folder of the first call: it may be gone when the host answers again.
        with contextlib.suppress(Exception):
            self._remove_tmp_path(connection._shell.tmpdir)
        connection._shell.tmpdir = None

    def _call(self, args: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        """What virt_switch answers. Raises NoAnswer."""
        try:
            if self._connection.transport != "ssh":
                # Others keep theirs.
                self._connection.reset()
            return dict(
                self._execute_module(module_name="brine.virt.virt_switch", module_args=args, task_vars=task_vars)
            )
        except Exception as exc:  # whatever a connection that is cut may raise
            # The folder may be gone; and where the host stays away, tidying it up would take the place of our answer.
            self._connection._shell.tmpdir = None
            raise NoAnswer(str(getattr(exc, "message", exc))) from exc
