# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands in a network of their own, where real rules touch nothing of this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

import pytest

_OWN_NETWORK = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user", "--net")


def own_network(*command: str, data: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program there, to its end."""
    return subprocess.run((*_OWN_NETWORK, *command), input=data, text=True, capture_output=True, check=False)


def require_nft() -> None:
    """Skip the test where rules cannot be tried."""
    if shutil.which("nft") is None:
        pytest.skip("nft is not installed")
    if own_network("nft", "list", "ruleset").returncode != 0:
        pytest.skip("no network namespaces here")


def listed(rules: str, *then: tuple[str, ...]) -> str:
    """What nft lists, as JSON, where these rules were loaded and then these commands run."""
    lines = ["nft --file -", *(_shell(command) for command in then), "nft --json list ruleset"]
    answer = own_network("sh", "-c", " && ".join(lines), data=rules)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def _shell(command: tuple[str, ...]) -> str:
    return shlex.join(command)
