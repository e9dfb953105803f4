# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_volume: which files it looks at, and which of them it sends."""

from __future__ import annotations

import hashlib
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.images.source_file import (
    NEEDED_FILES,
    ONLY_ASKED,
    SENT_FILES,
)
from ansible_collections.brine.virt.plugins.plugin_utils._volumes.files import have_volumes

CONTENT = b"\x01" * 1024


class Controller:
    """needed: what the module answers that it lacks. asked: the options that it was called with; sent: files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.needed: list[int] = []
        self.failed = False
        self.asked: list[dict[str, t.Any]] = []
        self.sent: list[tuple[str, str, str]] = []
        for name in ("one", "two"):
            (directory / name).write_bytes(CONTENT)

    def have(self, **args: t.Any) -> dict[str, t.Any]:
        def ask(given: dict[str, t.Any]) -> dict[str, t.Any]:
            self.asked.append(given)
            needed = {NEEDED_FILES: self.needed} if self.needed and given.get(ONLY_ASKED) else {}
            return {"changed": bool(self.needed), "failed": self.failed, **needed}

        def send(path: str, subject: str, name: str) -> str:
            self.sent.append((Path(path).name, subject, name))
            return f"/remote/{name}"

        return have_volumes(args, find=lambda src, _where: str(self.directory / src), ask=ask, send=send)


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    return Controller(tmp_path)


LIST: list[dict[str, t.Any]] = [{"name": "a", "src": "one"}, {"name": "b", "size": "1MiB"}, {"name": "c", "src": "two"}]


def test_only_what_a_volume_lacks_is_sent(controller: Controller) -> None:
    controller.needed = [2]
    assert controller.have(volumes=LIST) == {"changed": True, "failed": False}
    assert controller.sent == [("two", "c", "volume2")]
    asked, done = controller.asked
    assert asked[ONLY_ASKED] is True and ONLY_ASKED not in done
    assert [set(each[SENT_FILES]) for each in (asked, done)] == [{"0", "2"}, {"0", "2"}]
    assert [each["path"] for each in asked[SENT_FILES].values()] == [None, None]
    assert [each["path"] for each in done[SENT_FILES].values()] == [None, "/remote/volume2"]
    assert asked[SENT_FILES]["0"]["sha256"] == hashlib.sha256(CONTENT).hexdigest()


def test_nothing_is_sent_where_nothing_lacks_or_something_is_wrong(controller: Controller) -> None:
    controller.have(name="a", src="one")
    controller.needed, controller.failed = [0], True
    assert NEEDED_FILES not in controller.have(name="a", src="one")
    assert (controller.sent, len(controller.asked)) == ([], 2)


@pytest.mark.parametrize(
    "args",
    [
        {"name": "a", "size": "1MiB"},
        {"name": "a", "src": "none", "state": "absent"},
        {"name": "a", "src": "none", "path": "/x"},
        {"volumes": "wrong"},
        {"volumes": ["wrong"]},
        {},
    ],
)
def test_the_module_is_asked_as_it_is(controller: Controller, args: dict[str, t.Any]) -> None:
    controller.have(**args)
    assert controller.asked == [args]


def test_what_is_wrong_with_files_is_said_of_all_of_them(controller: Controller) -> None:
    (controller.directory / "packed").write_bytes(b"\x1f\x8b" + CONTENT)
    wrong = [{**LIST[0], "checksum": f"sha256:{'0' * 64}"}, {"name": "d", "src": "packed"}]
    with pytest.raises(VirtError) as caught:
        controller.have(volumes=wrong)
    first, second = str(caught.value).splitlines()
    assert first.startswith("volumes[0].checksum: ")
    assert second.startswith("volumes[1].src: ")
    with pytest.raises(VirtError, match="^checksum: "):
        controller.have(**wrong[0])
    assert controller.asked == []
