# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_image: a file is hashed here, and sent only when the store lacks what is in it."""

from __future__ import annotations

import contextlib
import os
import re
import typing as t
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnsupportedError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.images import files as image_files
from ansible_collections.brine.virt.plugins.module_utils._host.images.fetch import check_url, resolve_checksum
from ansible_collections.brine.virt.plugins.module_utils._host.images.files import Deadline
from ansible_collections.brine.virt.plugins.module_utils._host.images.ingest import ImagePreview, ImageSource, preview
from ansible_collections.brine.virt.plugins.module_utils._host.images.inspection import (
    read_header,
    require_file,
    require_whole_file,
)
from ansible_collections.brine.virt.plugins.module_utils._host.images.stream import ProgressCallback, no_progress
from ansible_collections.brine.virt.plugins.module_utils._model.image.checksum import (
    Checksum,
    read_checksum,
    read_content_checksum,
)
from ansible_collections.brine.virt.plugins.module_utils._model.image.header import (
    check_image_header,
    compression,
    virtual_size,
)
from ansible_collections.brine.virt.plugins.module_utils._model.image.name import image_name
from ansible_collections.brine.virt.plugins.plugin_utils._listed_images import find_listed
from ansible_collections.brine.virt.plugins.plugin_utils._sending_action import SendingAction

_TIMEOUT_SECONDS = 3600
# With these alone, the list of the store's images tells all that the module would say of one that is among them.
_TOLD_BY_THE_LIST = {"name", "src", "url", "checksum", "timeout", "pool"}
_DEFAULT_POOL = "images"
_USUAL_SECONDS = re.compile(r"[1-9][0-9]{0,8}")


class ActionModule(SendingAction):
    """Asks the module about a src first, sends the file if need be, and lets the module take it from there."""

    module = "brine.virt.virt_image"

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The result of the module."""
        # In check mode nothing is sent, and so Ansible need not make a remote directory first.
        self.TRANSFERS_FILES = not self._task.check_mode
        return super().run(tmp, task_vars)

    def have(self, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        args = dict(self._task.args)
        listed = args.get("known_images") if self._task.check_mode else None
        if args.get("state", "present") == "present":
            # It is for here. With another state the module says that it does not belong there.
            args.pop("known_images", None)
        others = args.get("url") or args.get("path") or args.get("state", "present") != "present"
        if not args.get("src") or others:
            # Nothing to send, or a spec that the module refuses in Ansible's own words.
            return listed_url(args, listed) or self.run_module(args, task_vars)

        subject = str(args.get("name"))
        return have_file(
            self.local_path(str(args["src"])),
            args,
            ask=lambda asked: self.run_module(asked, task_vars),
            send=lambda path: self.send(path, task_vars, subject),
            check_mode=bool(self._task.check_mode),
            on_progress=self.progress_of(subject, task_vars),
            listed=listed,
        )


def listed_image(args: dict[str, t.Any], listed: t.Any, origin: Checksum) -> dict[str, t.Any] | None:
    """The module's result for an image that is among those listed, and that came from a file with this checksum.

    args: the task's options. None where the module has to be asked, which may have to say what is wrong with them.
    """
    usual = set(args) <= _TOLD_BY_THE_LIST and ("src" in args) != ("url" in args) and bool(args.get("name"))
    if not listed or not usual or not _USUAL_SECONDS.fullmatch(str(args.get("timeout", _TIMEOUT_SECONDS))):
        return None
    return find_listed(listed, str(args["name"]), str(args.get("pool", _DEFAULT_POOL)), origin)


def listed_url(args: dict[str, t.Any], listed: t.Any) -> dict[str, t.Any] | None:
    """As listed_image, for an image that the hypervisor would download, and whose checksum the task has."""
    url, checksum = args.get("url"), args.get("checksum")
    if not url or not checksum or args.get("src"):
        return None
    with contextlib.suppress(VirtError):
        check_url(str(url), "url")
        wanted = read_checksum(checksum, "checksum")
        # What a checksum file says, the hypervisor reads.
        return listed_image(args, listed, wanted) if isinstance(wanted, Checksum) else None
    return None


def have_file(
    path: str,
    args: dict[str, t.Any],
    *,
    ask: t.Callable[[dict[str, t.Any]], dict[str, t.Any]],
    send: t.Callable[[str], str],
    check_mode: bool,
    on_progress: ProgressCallback = no_progress,
    listed: t.Any = None,
) -> dict[str, t.Any]:
    """Have a file of the controller in the store: the module's result.

    args: the task's options; ask: runs the module with such; send: sends the file and says where it is then;
    on_progress: is told how far the work on the controller is; listed: what the store is known to have, in check mode.
    """
    deadline = Deadline(_seconds(args.get("timeout")))
    local = look_at_file(path, args.get("checksum"), args.get("content_checksum"), deadline, on_progress)
    known = listed_image(args, listed, local.checksum)
    if known is not None:
        return known
    args = {**args, "checksum": str(local.checksum)}
    image = local.image
    answer = ask(_with_content(args, image))
    if _lacks(answer) and image is None:
        # The store may have what is in the file without knowing that it came from this one.
        image = look_inside(path, args.get("content_checksum"), deadline, on_progress)
        if image is not None:
            answer = ask(_with_content(args, image))
    if not _lacks(answer):
        return answer
    if check_mode:
        # What the module cannot know of a file that is here.
        known = as_result(answer["image"]["name"], image) if image else {}
        return {**answer, "image": {**answer["image"], **known}}
    without_src = {key: value for key, value in args.items() if key != "src"}
    sent = send(path)
    answer = ask({**without_src, "path": sent})
    if answer.get("failed"):
        # The user knows no file of that name, and it is gone when the task is over.
        answer["msg"] = str(answer.get("msg", "")).replace(sent, path)
    return answer


def _with_content(args: dict[str, t.Any], image: ImagePreview | None) -> dict[str, t.Any]:
    """What to ask the store with: what has been seen in the file, and not what the user says of it."""
    return {**args, "content_checksum": f"sha256:{image.sha256}" if image else None}


@dataclass(frozen=True)
class LocalFile:
    """A file on the controller by its sha256, and what it will be in the store; None of a compressed one, for now."""

    checksum: Checksum
    image: ImagePreview | None


def look_at_file(
    path: str, wanted: t.Any, wanted_inside: t.Any, deadline: Deadline, on_progress: ProgressCallback = no_progress
) -> LocalFile:
    """A file that is an image, or compressed, and that has the wanted checksums, where there are any.

    wanted: of the file; wanted_inside: of the image itself.
    """
    require_file(path, "src")
    checksum = resolve_checksum(wanted, os.path.basename(path), deadline, "checksum") if wanted else None
    source = ImageSource(path=path, checksum=checksum, content=read_content_checksum(wanted_inside))
    header, size_bytes = read_header(path)
    compressed = compression(header) is not None
    image_format = None if compressed else check_image_header(header, size_bytes, path, "src")
    content = image_files.hash_file(path, source.algorithms, on_progress)
    source.verify(content)
    image = None
    if image_format is not None:
        source.verify_image(content.sha256)
        require_whole_file(path, path, "src")
        image = ImagePreview(content.sha256, image_format, size_bytes, virtual_size(header, size_bytes))
    return LocalFile(Checksum("sha256", content.sha256), image)


def look_inside(
    path: str, wanted_inside: t.Any, deadline: Deadline, on_progress: ProgressCallback = no_progress
) -> ImagePreview | None:
    """What is in a compressed file; None when this host has nothing to decompress it with."""
    source = ImageSource(path=path, content=read_content_checksum(wanted_inside))
    try:
        return preview(source, deadline, "src", on_progress)
    except UnsupportedError:
        return None


def as_result(name: str, image: ImagePreview) -> dict[str, t.Any]:
    """What an image will be in the store, in the words of the module's result."""
    return {
        "volume": image_name(name, image.sha256, image.format).volume,
        "format": image.format,
        "sha256": image.sha256,
        "size_bytes": image.size_bytes,
        "virtual_size_bytes": image.virtual_size_bytes,
    }


def _lacks(answer: dict[str, t.Any]) -> bool:
    """Whether the store has to be sent the file: the module would have said where the image is, or will be."""
    return not answer.get("failed") and bool(answer.get("changed")) and answer["image"]["volume"] is None


def _seconds(timeout: t.Any) -> float:
    """The time limit, if it is one; the module says what is wrong with any other."""
    with contextlib.suppress(TypeError, ValueError):
        return float(timeout)
    return _TIMEOUT_SECONDS
