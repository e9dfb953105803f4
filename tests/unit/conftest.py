# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the unit tests share."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

FIXTURES = Path(__file__).parent / "fixtures"
# How long an example takes says how busy the machine is, and nothing of the code. The same examples every time: a run
# that fails on Tuesdays says nothing about Monday's change.
settings.register_profile("brine.virt", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
# For whoever looks for what nobody thought of. A counterexample is printed with what makes it again.
settings.register_profile(
    "explore", settings.get_profile("brine.virt"), derandomize=False, max_examples=500, print_blob=True
)
# For `make check`, which gives the option --hypothesis-profile=quick.
settings.register_profile("quick", settings.get_profile("brine.virt"), max_examples=20)
settings.load_profile("brine.virt")


def find_root() -> Path:
    """Return a directory that has ansible_collections/brine/virt in it, wherever this checkout lies.

    Where it lies somewhere else, as a clone does, a link to it is made in .build.
    """
    checkout = Path(__file__).resolve().parents[2]
    if checkout.parts[-3:] == ("ansible_collections", "brine", "virt"):
        return checkout.parents[2]
    root = checkout / ".build/checkout"
    link = root / "ansible_collections/brine/virt"
    link.parent.mkdir(parents=True, exist_ok=True)
    # The other processes of pytest-xdist come by here too.
    with contextlib.suppress(FileExistsError):
        link.symlink_to("../../../..", target_is_directory=True)
    return root


# For PYTHONPATH and ANSIBLE_COLLECTIONS_PATH of other processes. ansible-test has arranged it all in this one; without
# it, `pytest tests/unit/...` finds the collection by this.
ROOT = find_root()
sys.path.insert(0, str(ROOT))
os.environ["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT)


def pytest_configure(config: pytest.Config) -> None:
    """Name the marks that tests here may have."""
    config.addinivalue_line("markers", "medium: takes a second or more; `make check` leaves it to `make test`")
    config.addinivalue_line(
        "markers", "slow: starts whole runs of Ansible, or takes many seconds; it is left to `make test-full`"
    )


@pytest.fixture
def fixtures() -> Path:
    """The directory of the tests' own files."""
    return FIXTURES


@pytest.fixture
def node_uri() -> str:
    """A hypervisor of libvirt's test driver with machines, pools, networks and bridges (fixtures/node.xml)."""
    return f"test://{FIXTURES / 'node.xml'}"


@pytest.fixture
def collections_root() -> Path:
    """The directory that has ansible_collections in it."""
    return ROOT


@pytest.fixture
def other_process() -> dict[str, str]:
    """The environment of another Python that is to import the collection: ansible-test arranges it in this one only."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The folders in which a name was given or taken that a loss of power could still undo."""
    folders: set[str] = set()
    replace, unlink, fsync = os.replace, os.unlink, os.fsync

    def note_replace(source: str, target: str) -> None:
        replace(source, target)
        folders.add(os.path.realpath(os.path.dirname(target)))

    def note_unlink(path: str) -> None:
        unlink(path)
        folders.add(os.path.realpath(os.path.dirname(path)))

    def note_fsync(descriptor: int) -> None:
        fsync(descriptor)
        folders.discard(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "replace", note_replace)
    monkeypatch.setattr(os, "unlink", note_unlink)
    monkeypatch.setattr(os, "fsync", note_fsync)
    return folders
