# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes, spans of time and the order of names, as the page shows them."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.plugin_utils._picture.words import (
    counted,
    duration,
    natural,
    number_of,
    size,
    size_of,
    visible,
)


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (0, "0 MiB"),
        (512, "512 MiB"),
        (1024, "1 GiB"),
        (1536, "1.5 GiB"),
        (32093, "31.3 GiB"),
        (250000, "244 GiB"),
        (1023 * 1024 + 900, "1 TiB"),
        (5 * 1024**2, "5 TiB"),
        (3 * 1024**4, "3072 PiB"),
    ],
)
def test_sizes(mib: int, text: str) -> None:
    assert size(mib) == text


def test_parts() -> None:
    assert size_of(13824, 31846) == "13.5 of 31.1 GiB"
    assert size_of(512, 2 * 1024**2) == "512 MiB of 2 TiB"
    assert size_of(0, 2048) == "0 of 2 GiB"
    assert number_of(28, 1234567) == "28 of 1234567"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 minutes"), (61, "1 minute"), (3 * 3600 + 59, "3 hours"), (86400, "1 day"), (90 * 86400.5, "90 days")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_counted() -> None:
    assert [counted(number, "machine") for number in (0, 1, 2)] == ["0 machines", "1 machine", "2 machines"]


def test_natural_order() -> None:
    names = ["web", "hv10", "hv2", "Hv3", "10", "9", "", "web-a1b", "web-a1a"]
    assert sorted(names, key=natural) == ["", "9", "10", "hv2", "Hv3", "hv10", "web", "web-a1a", "web-a1b"]


def test_nothing_is_the_empty_text() -> None:
    assert visible(None) == ""
    assert visible(5) == "5"
