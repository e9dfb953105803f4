# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Boot a guest image on this machine itself, to see whether and how fast it comes up."""

from __future__ import annotations

import time

from brine_lab.base.commands import start, tail
from brine_lab.base.lab import FILES, Lab, cache
from brine_lab.base.say import LabError
from brine_lab.images.images import Image, Recipe

PACKAGES = {"qemu-system-x86": "qemu-system-x86_64"}
SEED = FILES / "seed"


def boot(lab: Lab, recipe: Recipe, image: Image, *, accelerator: str, limit_seconds: float) -> float:
    """Boot the image until its serial console says that it is up; return the seconds, or raise LabError at the limit.

    The image is not written to. A NoCloud seed is attached as brine.virt attaches one: a virtio disk labelled cidata.
    """
    console = cache() / "tmp" / f"boot-{lab.id}-{recipe.name}-{accelerator}.console"
    console.parent.mkdir(parents=True, exist_ok=True)
    console.unlink(missing_ok=True)
    log = console.with_suffix(".log")
    argv = [
        "qemu-system-x86_64", "-machine", "q35", "-accel", accelerator, "-cpu", "max", "-smp", "1", "-m", "512",
        "-display", "none", "-nodefaults", "-no-user-config", "-monitor", "none", "-serial", f"file:{console}",
        "-drive", f"file={image.path},format=qcow2,if=virtio,snapshot=on",
        "-drive", f"file.driver=vvfat,file.dir={SEED},file.label=cidata,format=raw,if=virtio,readonly=on",
        "-nic", "user,model=virtio-net-pci,restrict=on",
    ]  # fmt: skip
    started = time.monotonic()
    guest = start(argv, mark=lab.mark(f"boot-{recipe.name}"), log=log)
    try:
        while time.monotonic() - started < limit_seconds:
            if console.exists() and recipe.says_when_up in console.read_text(errors="replace"):
                return time.monotonic() - started
            if guest.poll() is not None:
                raise LabError(f"QEMU ended with {guest.returncode} while it booted {image.path}:\n{tail(log)}")
            time.sleep(0.2)
        raise LabError(
            f"{image.path} did not come up within {limit_seconds:.0f} s. The end of its output:\n{tail(console, 5)}"
        )
    finally:
        guest.kill()
        guest.wait()
        log.unlink(missing_ok=True)
        console.unlink(missing_ok=True)
