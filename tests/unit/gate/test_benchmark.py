# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the benchmark of the inventory says of its figures."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.tests.benchmark.inventory.commands import Run
from ansible_collections.brine.virt.tests.benchmark.inventory.table import Fleet, growth_verdict, table

SMALL, LARGE = Fleet(1, 1000, 10.0), Fleet(1, 2000, 10.0)


def runs(seconds: float) -> list[Run]:
    return [Run(seconds, 1.0, 100.0)]


@pytest.mark.parametrize(("seconds", "verdict"), [(3.5, "met: "), (3.8, "met: "), (4.5, "NOT MET: ")])
def test_twice_as_many_machines_take_twice_as_long_beyond_the_start(seconds: float, verdict: str) -> None:
    found = {
        SMALL: {"brine.virt": runs(2.0), "nothing": runs(0.5)},
        LARGE: {"brine.virt": runs(seconds), "nothing": runs(0.5)},
    }
    assert growth_verdict(SMALL, LARGE, found).startswith(verdict)


def test_the_table_tells_apart_what_the_reading_of_the_sources_took() -> None:
    found = {"brine.virt": [Run(2.0, 1.0, 100.0, 1.5, 20.0), Run(2.0, 1.0, 100.0, 1.7, 40.0)], "floor": runs(1.0)}
    lines = [" ".join(line.split()) for line in table([(SMALL, found)]).splitlines()]
    assert "brine.virt 2.00 s 1.60 s 1.00 s 1.00 100 MiB 30 MiB 2.00 to 2.00 s" in lines
    assert "bulk calls and XML, no Ansible 1.00 s 1.00 s 0.50 100 MiB 1.00 to 1.00 s" in lines
