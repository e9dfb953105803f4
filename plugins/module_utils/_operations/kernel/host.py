# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running kernel's settings, files in /etc, and systemd's units: read and written, each change with a way back."""

from __future__ import annotations

import contextlib
import os
import re

from ..._base.commands import Answer, Program
from ..._base.errors import HostError
from ..._base.files import file_errors, read_text, write_whole
from .spec import MARK, same_words, size_kib

_SYSTEMCTL_SECONDS = 90


class Host:
    """The host whose files are below ``root``."""

    def __init__(self, root: str = "") -> None:
        self.root = root

    def value(self, path: str) -> str | None:
        """A value of the kernel's, in one form; None where there is none, or it cannot be read, as with a trigger."""
        try:
            with open(self.root + path, encoding="utf-8", errors="replace") as file:
                return same_words(file.read())
        except OSError:
            return None

    def number(self, path: str) -> int:
        """A value that is a number; 0 where there is none."""
        text = self.value(path) or ""
        return int(text) if text.isascii() and text.isdigit() else 0

    def names(self, path: str) -> list[str]:
        """What is in a folder; nothing where there is none."""
        with contextlib.suppress(OSError):
            return sorted(os.listdir(self.root + path))
        return []

    def memory_kib(self, name: str) -> int:
        """A figure of /proc/meminfo, such as MemAvailable; 0 where it is not there."""
        found = re.search(rf"^{name}:\s+([0-9]+) kB$", read_text(f"{self.root}/proc/meminfo") or "", re.MULTILINE)
        return int(found[1]) if found else 0

    def hugepage_mounts(self) -> set[int]:
        """The sizes of pages, in KiB, that hugetlbfs is mounted for. The kernel writes 1024M for 1G."""
        lines = (read_text(f"{self.root}/proc/self/mounts") or "").splitlines()
        mounts = "\n".join(line for line in lines if " hugetlbfs " in line)
        return {size_kib(size) for size in re.findall(r"\bpagesize=([0-9]+[KMG])\b", mounts)}

    def set_value(self, path: str, value: str, name: str) -> None:
        """Write a value and read it again. Raises HostError when the kernel refuses it, or makes another of it."""
        # Unbuffered: the kernel says no when it is written, not when the file is closed.
        with file_errors(f"{name}: the kernel refuses {value}"), open(self.root + path, "wb", buffering=0) as file:
            file.write(f"{value}\n".encode())
        now = self.value(path)
        if now != same_words(value):
            raise HostError(f"{name}: the kernel made {now} of {value}")

    def put_back(self, path: str, value: str, name: str) -> None:
        """Write a value that was there before, unless it still is: what could not be set cannot be set back either."""
        if self.value(path) != same_words(value):
            self.set_value(path, value, name)

    def file(self, path: str) -> str | None:
        """The text of a file of ours; None where there is none, or somebody else's."""
        text = read_text(self.root + path)
        return text if text is not None and text.startswith(MARK) else None

    def has_foreign(self, path: str) -> bool:
        """Whether somebody else's file is there."""
        return self.file(path) is None and os.path.lexists(self.root + path)

    def set_file(self, path: str, text: str | None) -> None:
        """Put a file in place, or take it away."""
        with file_errors(f"{path} cannot be written"):
            if text is None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.root + path)
            else:
                os.makedirs(os.path.dirname(self.root + path), mode=0o755, exist_ok=True)
                write_whole(self.root + path, text.encode(), 0o644)

    def is_enabled(self, unit: str) -> bool:
        """Whether a unit starts at boot."""
        return self._ask("is-enabled", unit) == "enabled"

    def is_active(self, unit: str) -> bool:
        """Whether a unit runs, or has run and stays."""
        return self._ask("is-active", unit) == "active"

    def _ask(self, question: str, unit: str) -> str:
        return _systemctl(question, unit).text.strip()

    def systemctl(self, *words: str) -> None:
        """Have systemd do something. Raises HostError with what it says."""
        _systemctl(*words).require(f"systemctl {' '.join(words)} failed")


def _systemctl(*words: str) -> Answer:
    systemctl = Program("systemctl", "this host has no systemctl", "Leave out ksm and hugepages, which need systemd")
    return systemctl.run(*words, late="systemd does not answer", timeout_seconds=_SYSTEMCTL_SECONDS)
