# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's numbers have words, those of the libvirt that is here."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.plugin_utils._events import words


@pytest.mark.parametrize(
    ("constant", "change", "reason"),
    [
        ("STOPPED_FAILED", "stopped", "failed"),
        ("STOPPED_CRASHED", "stopped", "crashed"),
        ("STARTED_FROM_SNAPSHOT", "started", "from_snapshot"),
        ("CRASHED_PANICKED", "crashed", "panicked"),
        ("DEFINED_UPDATED", "defined", "updated"),
    ],
)
def test_changes_and_reasons(constant: str, change: str, reason: str) -> None:
    kind = getattr(libvirt, f"VIR_DOMAIN_EVENT_{change.upper()}")
    assert words.change_word(kind) == change
    assert words.reason_word(change, getattr(libvirt, f"VIR_DOMAIN_EVENT_{constant}")) == reason


def test_other_words() -> None:
    assert words.word(words.IO_ACTION, libvirt.VIR_DOMAIN_EVENT_IO_ERROR_PAUSE) == "pause"
    assert words.word(words.SHUTOFF_REASON, libvirt.VIR_DOMAIN_SHUTOFF_FROM_SNAPSHOT) == "from_snapshot"
    assert words.block_job_word(libvirt.VIR_DOMAIN_BLOCK_JOB_READY) == "ready"
    assert (
        words.word(words.AGENT_STATE, libvirt.VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED) == "connected"
    )


def test_what_is_not_known_is_said_to_be() -> None:
    found = [words.change_word(99), words.block_job_word(99), words.word(words.IO_ACTION, 99)]
    assert [*found, words.word(words.IO_ACTION, None)] == ["unknown"] * 4
