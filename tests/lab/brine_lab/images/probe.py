# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Whether guests can run under KVM on this machine. A /dev/kvm that opens proves nothing: on some, guests hang."""

from __future__ import annotations

import json
from pathlib import Path

from brine_lab.base.lab import Lab, cache
from brine_lab.base.say import LabError, say
from brine_lab.base.state import write
from brine_lab.images import guest, images

DEVICE = Path("/dev/kvm")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LIMIT_SECONDS = 30  # under KVM the tiny guest needs 2 s


def kvm_works(lab: Lab) -> bool:
    """Try it with the tiny guest, once for each boot of this machine, and say what came of it."""
    if not DEVICE.is_char_device():
        say("KVM: this machine has no /dev/kvm, so guests are emulated (TCG), several times slower")
        return False
    noted = cache() / "kvm-probe.json"
    boot = BOOT_ID.read_text().strip()
    try:
        note = json.loads(noted.read_text())
    except (OSError, ValueError):
        note = {}
    if note.get("boot") == boot:
        works = bool(note.get("works"))
        say(f"KVM: {'used' if works else 'not used'}, by an earlier trial ({noted})")
        return works
    image = images.image(lab, images.TINY)
    try:
        seconds = guest.boot(lab, images.TINY, image, accelerator="kvm", limit_seconds=LIMIT_SECONDS)
    except LabError as exc:
        say(f"KVM: not used, guests are emulated (TCG): {exc}")
        works = False
    else:
        say(f"KVM: used, a trial guest was up after {seconds:.1f} s")
        works = True
    write(noted, json.dumps({"boot": boot, "works": works}) + "\n")
    return works
