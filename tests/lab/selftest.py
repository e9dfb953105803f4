# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Prove the lab's promises: up twice, repair, two ups at once, down twice, and nothing left, also after a killed up.

Takes this checkout's lab down first. Exit code 0 when every promise is kept. It takes about two minutes when the golden
tree is cached. With `--uml` it tries a host that is User Mode Linux instead, which takes a few minutes more; with
`--vm` a virtual machine, which takes several without KVM.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from brine_lab.base import processes
from brine_lab.base.lab import this_lab
from brine_lab.base.state import OWN_KERNEL

HERE = Path(__file__).resolve().parent
LAB = this_lab()
KILL_AFTER_SECONDS = (0.5, 1.5, 3, 6)
BOOT_SECONDS = 400
failures: list[str] = []


def lab(*words: str, code: int | None = 0) -> str:
    """Run a command of the lab, expect its exit code (None: any), return all that it printed."""
    done = subprocess.run(
        [HERE / "lab", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(f"--- lab {' '.join(words)} -> {done.returncode}\n{done.stdout}", flush=True)
    expect(code in (None, done.returncode), f"`lab {' '.join(words)}` exits with {done.returncode}, not {code}")
    return done.stdout


def expect(claim: bool, otherwise: str) -> None:
    """Note a broken promise and go on: `down` must always come last."""
    if not claim:
        failures.append(otherwise)
        print(f"FAILED: {otherwise}", flush=True)


def leftovers() -> list[str]:
    """Everything on this machine that carries the lab's id, or lies in its directories."""
    listings = {
        "link": ["ip", "-brief", "link"],
        "nftables": ["nft", "list", "ruleset"],
        "mount": ["cat", "/proc/mounts"],
        "loop device": ["losetup", "--list", "--noheadings"],
        "unit": ["systemctl", "list-units", "--all", "--no-legend"]
        if Path("/run/systemd/system").is_dir()
        else ["true"],
    }
    found = []
    for kind, argv in listings.items():
        out = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        found += [f"{kind}: {line.strip()}" for line in out.splitlines() if LAB.id in line]
    found += [f"process: {process}" for process in processes.find(LAB)]
    for where in ("/run/systemd/nspawn", "/run/lock", "/sys/fs/cgroup"):
        found += [f"file: {path}" for path in Path(where).rglob(f"*{LAB.id}*")]
    found += [f"file: {path}" for path in (LAB.trees, LAB.state) if path.exists()]
    return found


def kill_host(host: str) -> None:
    """End a host at once, as if its power had gone."""
    init = processes.container_init(LAB, host)
    os.kill(init or processes.find(LAB, f"host:{host}")[0].pid, signal.SIGKILL)
    time.sleep(1)


def wait_for_another_boot(host: str) -> None:
    """Wait until a host that has noted its boot in /root/boot answers in another one."""
    end = time.monotonic() + BOOT_SECONDS
    asking = [str(HERE / "lab"), "ssh", host, "! cmp -s /root/boot /proc/sys/kernel/random/boot_id"]
    while subprocess.run(["timeout", "40", *asking], stderr=subprocess.DEVNULL, check=False).returncode:
        if time.monotonic() > end:
            expect(False, f"{host} has not booted again within {BOOT_SECONDS} s")
            return
        time.sleep(1)


def expect_nothing_left(after: str) -> None:
    for left in leftovers():
        expect(False, f"after {after} there is still {left}")


def expect_trouble() -> None:
    """Cuts and limits do what they say, and are gone after heal."""
    lab("cut", "hv1", "hv2")
    lab("ssh", "hv1", "! ping -c 1 -W 1 hv2")
    lab("heal")
    lab("ssh", "hv1", "ping -c 1 -W 2 hv2")
    lab("cut", "hv2")
    lab("status", code=1)
    lab("heal")
    lab("status")
    lab("slow", "hv2", "8")
    began = time.monotonic()
    sending = [str(HERE / "lab"), "ssh", "hv2", "cat > /dev/null"]
    subprocess.run(sending, input=os.urandom(2_000_000), check=True)
    expect(time.monotonic() - began > 1.5, "2 MB arrive in less time than 8 Mbit/s allow")
    # Left in place, for `down` to remove.
    lab("cut", "hv1")


def main() -> int:
    lab("down")
    expect_nothing_left("down")
    forwarding = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    kind = next((kind for kind in OWN_KERNEL if sys.argv[1:] == [f"--{kind}"]), None)
    if kind:
        expect_own_kernel(kind)
    else:
        expect_containers()
    expect(Path("/proc/sys/net/ipv4/ip_forward").read_text() == forwarding, "ip_forward is not what it was")
    print(f"{len(failures)} failures" + "".join(f"\n  {failure}" for failure in failures))
    return 1 if failures else 0


def expect_own_kernel(kind: str) -> None:
    """A container beside a host with a kernel of its own: the same promises, and what only the latter has."""
    words = ("up", "--kind", f"container,{kind}", "--nics", "2", "--disks", "1", "--sudo", "hv2")
    lab(*words)
    expect("booting" not in lab(*words), "the second up starts a host again")
    lab("up", "--kind", "container", code=1)
    lab("up", "--kind", f"container,{kind}", "--nics", "3", code=1)
    lab("status")
    lab("ssh", "hv1", "ping -c 1 -W 5 hv2")
    lab(
        "ssh", "hv2", "ping -c 1 -W 5 hv1 && getent hosts deb.debian.org && id ops && test -s ~ops/.ssh/authorized_keys"
    )
    lab("ssh", "hv2", "test -e /sys/class/net/enp0s4 && test -b /dev/disk/by-id/virtio-disk1")
    lab("ssh", "hv2", "! systemd-detect-virt --container && modprobe --all 8021q bonding dm_mod nfs sch_netem")
    lab("ssh", "hv2", "cat /proc/sys/kernel/random/boot_id > /root/boot && sync")
    lab("ssh", "hv2", "systemctl reboot", code=None)
    wait_for_another_boot("hv2")
    lab("ssh", "hv2", "cat /proc/sys/kernel/random/boot_id > /root/boot && sync")
    kill_host("hv2")
    lab("status", code=1)
    expect("hv2: booting" in lab("up"), "up does not boot it again")
    lab("ssh", "hv2", "grep -- - /root/boot && ! cmp /root/boot /proc/sys/kernel/random/boot_id")
    lab("cut", "hv1", "hv2")
    lab("ssh", "hv1", "! ping -c 1 -W 1 hv2")
    lab("heal")
    lab("ssh", "hv1", "ping -c 1 -W 5 hv2")
    lab("cut", "hv2")
    lab("slow", "hv2", "8")
    lab("down")
    expect_nothing_left("down")
    expect_nothing_left_of_killed("up", "--hosts", "1", "--kind", kind)


def expect_nothing_left_of_killed(*words: str) -> None:
    """An `up` that is killed early or late leaves nothing that `down` does not find."""
    for seconds in KILL_AFTER_SECONDS:
        up = subprocess.Popen([HERE / "lab", *words])
        time.sleep(seconds)
        up.kill()
        up.wait()
        lab("down")
        expect_nothing_left(f"an up killed after {seconds} s, and a down")


def expect_containers() -> None:
    lab("up", "--nics", "2", code=2)
    lab("up", "--release", "trixie", "--daemons", "modular", code=2)
    expect_nothing_left("an up that is refused")
    lab("up")
    expect("booting" not in lab("up"), "the second up starts a host again")
    lab("status")
    for host, other in (("hv1", "hv2"), ("hv2", "hv1")):
        lab("ssh", host, f"ping -c 1 -W 2 {other} && getent hosts deb.debian.org")

    kill_host("hv2")
    lab("status", code=1)
    for process in processes.find(LAB, "dnsmasq"):
        os.kill(process.pid, signal.SIGKILL)
    repaired = lab("up")
    expect("hv2: booting" in repaired and "hv1: booting" not in repaired, "up does not repair exactly what is broken")
    lab("status")
    lab("ssh", "hv9", code=1)
    expect_trouble()

    lab("down")
    expect_nothing_left("down")
    lab("down")

    expect_two_labs()

    both = [subprocess.Popen([HERE / "lab", "up", "--hosts", "1"]) for _number in range(2)]
    expect([up.wait() for up in both] == [0, 0], "two ups at once do not both succeed")
    lab("status")
    lab("down")
    expect_nothing_left("two ups and a down")

    expect_nothing_left_of_killed("up")


def expect_two_labs() -> None:
    """A lab with a name beside the one without: neither touches the other."""
    lab("up", "--hosts", "1")
    lab("--name", "selftest", "up", "--hosts", "1")
    lab("status")
    lab("down")
    expect_nothing_left("down beside another lab")
    lab("--name", "selftest", "status")
    lab("--name", "selftest", "down")
    lab("--name", "selftest", "status", code=1)


if __name__ == "__main__":
    sys.exit(main())
