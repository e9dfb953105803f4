# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action of a module that may need a file of the controller: it is asked about it first, and sent it if need be."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ansible.errors import AnsibleActionFail, AnsibleFileNotFound
from ansible.plugins.action import ActionBase

from ..module_utils._base.errors import VirtError
from ..module_utils._host.images.stream import ProgressCallback, no_progress
from ..module_utils._host.progress import ProgressMeter
from ._inventory.said_by_hosts import require_own_word
from ._progress import follow_size, host_of, is_watched, progress_shown, show_of
from ._withhold import Withheld, require_options

TaskVars = dict[str, t.Any] | None


class SendingAction(ActionBase):
    """Runs a module, once or more, and sends files. module: its full name.

    Whatever takes long, here, on the way or there, says how far it is.
    """

    # Ansible makes the remote temporary directory for this, and removes it whatever happens.
    TRANSFERS_FILES = True
    _requires_connection = True
    _supports_check_mode = True
    _supports_async = False
    module: t.ClassVar[str]

    def run(self, tmp: str | None = None, task_vars: TaskVars = None) -> dict[str, t.Any]:
        """The result of the module."""
        super().run(tmp, task_vars)
        try:
            require_own_word(task_vars)
            require_options(self._task.args)
            return self.have(task_vars)
        except AnsibleActionFail as exc:
            # As a result, which a task can judge with failed_when; an exception ends the task past that.
            return {"failed": True, "msg": exc.message}
        except VirtError as exc:
            return {"failed": True, "msg": str(exc)}

    def have(self, task_vars: TaskVars) -> dict[str, t.Any]:
        """What a module's own action does."""
        raise NotImplementedError

    def local_path(self, src: str, where: str = "src") -> str:
        """A file of the controller, as tasks name them. where: its place in the options."""
        if "://" in src:
            # Which may have a password in it.
            raise AnsibleActionFail(f"{where}: a file on the controller is expected, and this is a URL")
        try:
            return str(self._find_needle("files", src))
        except AnsibleFileNotFound:
            # Without Ansible's advice to use remote_src, which is path here.
            raise AnsibleActionFail(
                f"{where}: there is no file {src} on the controller. For a file on the hypervisor, use path"
            ) from None

    def progress_of(self, subject: str, task_vars: TaskVars) -> ProgressCallback:
        """What is told how far the work here is. subject: what it is for."""
        if not is_watched(self._task):
            return no_progress
        return ProgressMeter(show_of(host_of(self._task, task_vars)), subject).at

    def send(self, local_path: str, task_vars: TaskVars, subject: str, name: str = "image") -> str:
        """Send a file to the hypervisor. Where it lies there, until the task is over. subject: what it is for, in the
        lines of progress; name: of the file there."""
        shell = self._connection._shell
        remote_path = str(shell.join_path(shell.tmpdir, name))
        tell = self.progress_of(subject, task_vars)
        size_bytes = os.path.getsize(local_path)
        # From here on the rate is reckoned.
        tell("sending", 0, size_bytes)
        looks = follow_size(self._connection, remote_path, lambda done_bytes: tell("sending", done_bytes, size_bytes))
        with looks if is_watched(self._task) else contextlib.nullcontext():
            self._transfer_file(local_path, remote_path)
        self._fixup_perms2((shell.tmpdir, remote_path))
        return remote_path

    def run_module(self, args: dict[str, t.Any], task_vars: TaskVars) -> dict[str, t.Any]:
        """The module's result with these options, without what is secret in them."""
        host, wanted = host_of(self._task, task_vars), is_watched(self._task)
        with progress_shown(self._connection, args, host, wanted=wanted) as args:
            withheld = Withheld(args)
            result = self._execute_module(module_name=self.module, module_args=withheld.args, task_vars=task_vars)
            return withheld.cleaned(result)
