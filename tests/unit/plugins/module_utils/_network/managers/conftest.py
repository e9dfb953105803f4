# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's network managers as judges of the files that we write for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest

# tests/gate/setup unpacks them into .build of the checkout, and the gate's copies of the checkout are below that.
UNPACKED = next(
    (
        folder / ".build/network-managers"
        for folder in Path(__file__).resolve().parents
        if (folder / ".build/network-managers").exists()
    ),
    Path("network-managers"),
)
PLACES = ("usr/bin", "usr/sbin", "sbin", "bin", "usr/libexec/netplan", "usr/lib/netplan", "lib/netplan")


@pytest.fixture
def judge() -> t.Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program of a network manager on files, to its end. It reads and prints, and changes nothing."""

    def run(program: str, *words: str, data: str = "") -> subprocess.CompletedProcess[str]:
        found = next(
            (str(UNPACKED / place / program) for place in PLACES if (UNPACKED / place / program).exists()), None
        )
        found = found or shutil.which(program)
        if found is None and shutil.which("apt-get") is None:
            pytest.skip("Debian's network managers cannot be unpacked here")
        assert found is not None, f"{program} is not here: run tests/gate/setup check"
        libraries = [str(path) for path in (*UNPACKED.glob("lib/*-linux-*"), *UNPACKED.glob("usr/lib/*-linux-*"))]
        environment = {**os.environ, "LC_ALL": "C", "LD_LIBRARY_PATH": ":".join(libraries)}
        return subprocess.run(
            [found, *words], input=data, capture_output=True, text=True, check=False, env=environment, timeout=60
        )

    return run


@pytest.fixture
def netplan_accepts(judge: t.Callable[..., subprocess.CompletedProcess[str]]) -> t.Callable[..., None]:
    """Has netplan make the files of its back-ends below a root, from the files of /etc/netplan there."""

    def accepts(root: Path, files: t.Mapping[str, str]) -> None:
        folder = root / "etc/netplan"
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o600)
        answer = judge("generate", "--root-dir", str(root))
        assert (answer.returncode, answer.stderr) == (0, "")

    return accepts
