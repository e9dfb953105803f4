# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_image: a file is hashed here, and sent only when the store lacks it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible.errors import AnsibleActionFail, AnsibleFileNotFound
from ansible.plugins.action import ActionBase

from ansible_collections.brine.virt.plugins.module_utils._errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._host import image_files
from ansible_collections.brine.virt.plugins.module_utils._model.checksum import parse_checksum, verify_digests
from ansible_collections.brine.virt.plugins.module_utils._model.image_header import judge_image, virtual_size
from ansible_collections.brine.virt.plugins.module_utils._model.image_name import image_name

_MODULE = "brine.virt.virt_image"


class ActionModule(ActionBase):
    """Asks the module about a src first, sends the file if need be, and lets the module take it from there."""

    # Ansible makes the remote temporary directory for this, and removes it whatever happens.
    TRANSFERS_FILES = True
    _requires_connection = True
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The result of the module."""
        super().run(tmp, task_vars)
        args = dict(self._task.args)
        if not args.get("src") or args.get("url") or args.get("path"):
            # Nothing to send, or a wish that the module refuses in Ansible's own words.
            return self._run_module(args, task_vars)

        local_path = self._local_path(str(args["src"]))
        local = look_at_image(local_path, args.get("checksum"))
        args["checksum"] = f"sha256:{local.sha256}"
        answer = self._run_module(args, task_vars)
        if answer.get("failed") or not answer.get("changed"):
            return answer
        if self._task.check_mode:
            # What the module cannot know of a file that is here.
            answer["image"] = {**answer["image"], **local.as_result(answer["image"]["name"])}
            return answer

        remote_path = self._connection._shell.join_path(self._connection._shell.tmpdir, "image")
        self._transfer_file(local_path, remote_path)
        self._fixup_perms2((self._connection._shell.tmpdir, remote_path))
        del args["src"]
        return self._run_module({**args, "path": remote_path}, task_vars)

    def _local_path(self, src: str) -> str:
        try:
            return str(self._find_needle("files", src))
        except AnsibleFileNotFound:
            # Without Ansible's advice to use remote_src, which is path here.
            raise AnsibleActionFail(
                f"src: there is no file {src} on the controller. For a file on the hypervisor, use path"
            ) from None

    def _run_module(self, args: dict[str, t.Any], task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        return dict(self._execute_module(module_name=_MODULE, module_args=args, task_vars=task_vars))


@dataclass(frozen=True)
class LocalImage:
    """An image on the controller."""

    sha256: str
    format: str
    size_bytes: int
    virtual_size_bytes: int

    def as_result(self, name: str) -> dict[str, t.Any]:
        """What it will be in the store, in the words of the module's result."""
        return {
            "volume": image_name(name, self.sha256, self.format).volume,
            "format": self.format,
            "size_bytes": self.size_bytes,
            "virtual_size_bytes": self.virtual_size_bytes,
        }


def look_at_image(path: str, wanted: t.Any) -> LocalImage:
    """A file that is an image and, if that was asked, has the wanted checksum."""
    try:
        image_files.require_file(path, "src")
        checksum = parse_checksum(wanted, "checksum") if wanted else None
        header, size_bytes = image_files.read_header(path)
        image_format = judge_image(header, size_bytes, path, "src")
        content = image_files.hash_file(path, (checksum.algorithm,) if checksum else ())
        if checksum:
            verify_digests(content.digests, checksum, path)
    except VirtError as exc:
        raise AnsibleActionFail(str(exc)) from exc
    return LocalImage(content.sha256, image_format, size_bytes, virtual_size(header, size_bytes))
