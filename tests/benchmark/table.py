# SPDX-License-Identifier: GPL-3.0-or-later
"""What the seconds come to: medians, ratios, limits."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

# The goals of this collection, on two cores.
PER_MACHINE_SECONDS = 0.15
AGAIN_SECONDS = 2.0


def table(seconds: Mapping[str, Sequence[float]], machines: int) -> str:
    """The table for people. seconds: of each way in each round, as rounds.measure gives them."""
    median = {way: statistics.median(samples) for way, samples in seconds.items()}
    start = median["empty"]
    # Beyond the module's own start, which one task pays once, however many machines it makes.
    per_machine = {
        "tools": median["tools"] / machines,
        "virt-install": median["virt-install"] / machines,
        "virt_init": (median["virt_init"] - start) / machines,
        "seeded": (median["seeded"] - start) / machines,
    }
    words = {
        "tools": "qemu-img create -b, virsh define",
        "virt-install": "virt-install --import --noreboot",
        "virt_init": "virt_init, one task",
        "seeded": "virt_init, with seeds and host keys",
    }
    lines = [f"{'':37}{'all':>9}{'per machine':>14}{'x tools':>10}{'x virt-install':>17}   range of all"]
    for way, each in per_machine.items():
        lines.append(
            f"{words[way]:37}{median[way]:7.2f} s{each:12.3f} s{each / per_machine['tools']:10.2f}"
            f"{each / per_machine['virt-install']:17.3f}   {_range(seconds[way])}"
        )
    lines.append(f"{'virt_init again, nothing to do':37}{median['again']:7.2f} s{'':41}   {_range(seconds['again'])}")
    lines.append(f"{'virt_init, no machine: its own start':37}{start:7.2f} s{'':41}   {_range(seconds['empty'])}")
    if "task" in median and "empty task" in median:
        lines += ["", "As one who runs Ansible waits for it, with SSH and the controller's own work:"]
        for way, text in (("task", "virt_init, one task"), ("again task", "again"), ("empty task", "no machine")):
            lines.append(f"{text:37}{median[way]:7.2f} s{'':41}   {_range(seconds[way])}")
    lines += ["", _verdict("per machine, beyond the module's own start", per_machine["virt_init"], PER_MACHINE_SECONDS)]
    lines.append(_verdict("a second run with nothing to do", median["again"], AGAIN_SECONDS))
    return "\n".join(lines)


def _range(samples: Sequence[float]) -> str:
    return f"{min(samples):.2f} to {max(samples):.2f} s in {len(samples)} rounds"


def _verdict(what: str, seconds: float, limit: float) -> str:
    return f"{'met' if seconds < limit else 'NOT MET'}: {what}: {seconds:.3f} s, the limit is {limit:g} s"
