# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of modules of which it only shows how far they are, run by Ansible itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.locks import LOCK_DIR, hypervisor_lock, machine_lock

NODE = Path(__file__).parents[2] / "fixtures" / "node.xml"
# Nobody else on this host has a machine of this name. In parameters it stands as the word NAME: workers of pytest
# whose tests have different names run none of them.
NAME = f"progress-{os.getpid()}"


@pytest.fixture(autouse=True)
def no_lock_left() -> Iterator[None]:
    yield
    Path(LOCK_DIR, f"move-{NAME}.lock").unlink(missing_ok=True)


def run(
    tmp_path: Path, collections_root: Path, other_process: dict[str, str], module: str, arguments: str, *more: str
) -> subprocess.CompletedProcess[str]:
    node = tmp_path / "node.xml"
    node.write_text(NODE.read_text(encoding="utf-8").replace("web1", NAME), encoding="utf-8")
    env = {**other_process, "ANSIBLE_COLLECTIONS_PATH": str(collections_root), "HOME": str(tmp_path)}
    env["ANSIBLE_ASYNC_DIR"] = str(tmp_path / "async")
    command = [
        *(sys.executable, "-m", "ansible.cli.adhoc", "localhost", "-i", "localhost,", "-c", "local"),
        *("-e", f"ansible_python_interpreter={sys.executable}", "-m", f"brine.virt.{module}"),
        *("-a", f"uri=test://{node} {arguments}", *more),
    ]
    return subprocess.run(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "arguments", "words"),
    [
        ("virt_snapshot", "vm=NAME name=a lock_timeout=10", "wait for other runs to let go of NAME: "),
        ("virt_power", "name=NAME state=paused lock_timeout=10", "to be paused: NAME, "),
        (
            "virt_init",
            "name=NAME vcpus=1 memory=128 lock_timeout=10",
            "wait for other runs to let go of this hypervisor: ",
        ),
        ("virt_purge", "name=NAME stop=true adopt=true lock_timeout=10", "to be shut down: NAME, "),
    ],
)
def test_what_a_machine_is_at_is_in_the_output_while_the_module_works(
    tmp_path: Path, collections_root: Path, other_process: dict[str, str], module: str, arguments: str, words: str
) -> None:
    with hypervisor_lock("init", wait_seconds=1) if module == "virt_init" else machine_lock(NAME, 1):
        answer = run(tmp_path, collections_root, other_process, module, arguments.replace("NAME", NAME))
    lines = answer.stdout.splitlines()
    told_as = re.compile(rf"  localhost: {words.replace('NAME', NAME)}\d+ s so far")
    told = [number for number, line in enumerate(lines) if told_as.fullmatch(line)]
    result = [number for number, line in enumerate(lines) if "another run " in line]
    assert told and result, answer
    assert told[0] < result[0]


@pytest.mark.slow
def test_in_the_background_it_works_and_shows_nothing(
    tmp_path: Path, collections_root: Path, other_process: dict[str, str]
) -> None:
    answer = run(
        tmp_path, collections_root, other_process, "virt_snapshot", f"vm={NAME} name=a", "-B", "100", "-P", "1"
    )
    assert f"take snapshot a of {NAME} (internal, with memory)" in answer.stdout, answer
    assert "so far" not in answer.stdout
