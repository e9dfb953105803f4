# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Hosts that are virtual machines, with a kernel of their own: their disks, and how they boot."""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path

from brine_lab.base.commands import run, start
from brine_lab.base.lab import Lab
from brine_lab.base.state import VM, State
from brine_lab.hosts import own_kernel
from brine_lab.images import system
from brine_lab.network import network

MEMORY_MIB = 1536
# Devices have fixed places, and network cards their names by them.
FIRST_DISK_SLOT = 0x10
NAMESPACE = uuid.UUID("5b1d2c7e-2f0a-4c55-9d51-8e0f6f1f0c77")


def unpack(lab: Lab, state: State, host: str, place: Path) -> None:
    """Make all that a host boots from in an empty directory, the host's own files beside it."""
    hardware = state.hardware[host]
    built = system.system(lab, state.hosts[host], VM, prepared=hardware.prepared, zfs=hardware.zfs)
    files, finish = own_kernel.unpack(lab, state, host, place, built)
    for source, name in ((built.disk, "system.raw"), (built.initramfs, "initrd")):
        own_kernel.link_or_copy(lab, source, files / name)
    backing = ["-b", "system.raw", "-F", "raw"]
    run(["qemu-img", "create", "-q", "-f", "qcow2", *backing, str(files / "system.qcow2")], mark=lab.mark("build"))
    (files / "finish").write_text(finish)
    own_kernel.pack(lab, place, files / "own.tar")


def boot(lab: Lab, state: State, host: str, *, kvm: bool, log: Path) -> subprocess.Popen[bytes]:
    """Start a virtual machine, with its cables in the lab's bridge. Its serial console goes to the log."""
    files, hardware = own_kernel.files(lab, host), state.hardware[host]
    given = "opt/brine.virt.lab"
    argv = [
        "qemu-system-x86_64", "-name", lab.machine(host), "-uuid", str(uuid.uuid5(NAMESPACE, lab.machine(host))),
        "-machine", "q35", *_processor(kvm), "-smp", "1", "-m", str(MEMORY_MIB),
        "-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none",
        "-chardev", f"file,id=console,path={log},append=on", "-serial", "chardev:console",
        "-kernel", str(files / "vmlinuz"), "-initrd", str(files / "initrd"),
        "-append", "root=LABEL=root rw console=ttyS0,115200 quiet mitigations=off no_timer_check",
        "-fw_cfg", f"name={given}/own,file={files / 'own.tar'}",
        "-fw_cfg", f"name={given}/finish,file={files / 'finish'}",
        "-device", "virtio-rng-pci",
        *_disk(files / "system.qcow2", "qcow2", "system", FIRST_DISK_SLOT),
    ]  # fmt: skip
    for disk in range(1, hardware.disks + 1):
        argv += _disk(files / f"disk{disk}.raw", "raw", f"disk{disk}", FIRST_DISK_SLOT + disk)
    for nic, link in enumerate(network.cables(lab, host)[: hardware.nics]):
        network.add_tap(lab, link, state.mtu)
        argv += _nic(nic, link, own_kernel.mac(lab, state.address(host), nic))
    return start(argv, mark=lab.mark(f"host:{host}"), log=log)


def _processor(kvm: bool) -> list[str]:
    return (
        ["-accel", "kvm", "-cpu", "host"] if kvm else ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max,la57=off"]
    )


def _nic(number: int, link: str, mac: str) -> list[str]:
    # Not with host_mtu, which is also the largest: such a card cannot join a bond before the bond has that MTU too.
    card = f"virtio-net-pci,netdev=nic{number},mac={mac},addr={own_kernel.FIRST_NIC_SLOT + number:#x}"
    return ["-netdev", f"tap,id=nic{number},ifname={link},script=no,downscript=no", "-device", card]


def _disk(file: Path, kind: str, serial: str, slot: int) -> list[str]:
    # What is written reaches this machine's memory in the order in which the host asks for it, so that it may lose its
    # power; only this machine may not.
    drive = f"file={file},format={kind},if=none,id={serial},cache=unsafe,discard=unmap,detect-zeroes=unmap"
    return ["-drive", drive, "-device", f"virtio-blk-pci,drive={serial},serial={serial},addr={slot:#x}"]
