# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Hosts: bare Debian systems as system containers, each with a systemd, an SSH server and an address of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from brine_lab.base import processes
from brine_lab.base.commands import run, start, tail
from brine_lab.base.lab import Lab
from brine_lab.base.say import LabError, alive, say
from brine_lab.base.state import DOMAIN, SUDO_USER, State, write
from brine_lab.hosts import cgroups, ssh
from brine_lab.images import golden, trees
from brine_lab.network import package_cache

READY_SECONDS = 90


def names(count: int) -> list[str]:
    return [f"hv{number}" for number in range(1, count + 1)]


def unpack(lab: Lab, state: State, host: str) -> None:
    """Make the host's tree from its release's golden tree, unless it is there."""
    tree = lab.trees / host
    if tree.exists():
        return
    source = golden.tree(lab, state.hosts[host])
    say(f"{host}: unpacking {state.hosts[host]}, address {state.address(host)}")
    new = trees.fresh_directory(lab.trees / f".new-{host}")
    unpacking = ["tar", "--extract", "--preserve-permissions", "--numeric-owner", "--xattrs", "--xattrs-include=*"]
    run([*unpacking, "--file", str(source), "--directory", str(new)], mark=lab.mark("build"))
    _configure(lab, state, host, new)
    new.rename(tree)  # a tree under its own name is complete


def boot(lab: Lab, host: str, *, kvm: bool) -> None:
    """Start a host that does not run. Its console goes to a log."""
    if processes.find(lab, f"host:{host}"):
        return
    say(f"{host}: booting")
    argv = [
        "systemd-nspawn", "--quiet", f"--directory={lab.trees / host}", "--boot",
        f"--machine={lab.machine(host)}", f"--hostname={host}", "--register=no", "--keep-unit",
        f"--network-bridge={lab.bridge}", "--bind=/dev/net/tun", *(["--bind=/dev/kvm"] if kvm else []),
        "--capability=all", "--console=pipe", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
    ]  # fmt: skip
    start([*cgroups.into_own(lab, host), *argv], mark=lab.mark(f"host:{host}"), log=console(lab, host))


def wait_ready(lab: Lab, hosts: list[str]) -> None:
    """Wait until every host answers over SSH and has come to the end of its boot."""
    with alive(f"waiting for SSH: {', '.join(hosts)}"), ThreadPoolExecutor(len(hosts)) as pool:
        for _answer in pool.map(lambda host: _wait_for(lab, host), hosts):
            pass


def answers(lab: Lab, host: str) -> bool:
    """Whether the host lets us in."""
    return _try(lab, host, "true").returncode == 0


def remove_trees(lab: Lab) -> None:
    """Delete all hosts' trees; nothing is mounted in them outside the containers, which are gone."""
    if lab.trees.exists():
        run(["rm", "-rf", "--one-file-system", str(lab.trees)], mark=lab.mark("down"))
    with contextlib.suppress(OSError):
        lab.trees.parent.rmdir()  # only when no other lab has trees there


def remove_nspawn_leftovers(lab: Lab) -> None:
    """Delete what a killed systemd-nspawn leaves under /run."""
    for left in Path("/run/systemd/nspawn").glob(f"*/{lab.id}-*"):
        shutil.rmtree(left, ignore_errors=True)


def console(lab: Lab, host: str) -> Path:
    return lab.logs / f"{host}-console.log"


def _configure(lab: Lab, state: State, host: str, tree: Path) -> None:
    address = state.address(host)
    write(tree / "etc/hostname", f"{host}\n")
    # The real address, as an installation with a static address has it: libvirt takes the name for the way here.
    write(
        tree / "etc/hosts",
        f"127.0.0.1 localhost\n{address} {host}.{DOMAIN} {host}\n::1 localhost ip6-localhost ip6-loopback\n",
    )
    (tree / "etc/resolv.conf").unlink(missing_ok=True)
    write(tree / "etc/resolv.conf", f"search {DOMAIN}\nnameserver {state.gateway}\n")
    write(
        tree / "etc/systemd/network/10-host0.network",
        f"[Match]\nName=host0\n\n[Link]\nMTUBytes={state.mtu}\n\n"
        f"[Network]\nAddress={address}/24\nGateway={state.gateway}\nDNS={state.gateway}\nLinkLocalAddressing=ipv6\n",
    )
    write(
        tree / "etc/apt/apt.conf.d/00brine-virt-lab",
        "// The lab's cache: each package is downloaded once for all hosts.\n"
        f'Acquire::http::Proxy "http://{state.gateway}:{package_cache.PORT}";\n'
        'Acquire::https::Proxy "DIRECT";\n',
    )
    homes = [tree / "root"]
    if host in state.sudo:
        # The lab's own commands still come as root.
        run(["chroot", str(tree), "useradd", "--create-home", "--shell=/bin/bash", SUDO_USER], mark=lab.mark("build"))
        write(tree / f"etc/sudoers.d/{SUDO_USER}", f"{SUDO_USER} ALL=(ALL:ALL) NOPASSWD: ALL\n", 0o440)
        homes.append(tree / "home" / SUDO_USER)
    for home in homes:
        ssh_dir = home / ".ssh"
        ssh_dir.mkdir(mode=0o700, exist_ok=True)
        write(ssh_dir / "authorized_keys", ssh.key(lab).with_suffix(".pub").read_text(), 0o600)
        owner = home.stat()
        for path in (ssh_dir, ssh_dir / "authorized_keys"):
            os.chown(path, owner.st_uid, owner.st_gid)
    run(["ssh-keygen", "-q", "-A", "-f", str(tree)], mark=lab.mark("build"))


def _try(lab: Lab, host: str, *words: str) -> subprocess.CompletedProcess[str]:
    return run(
        ["timeout", "40", *ssh.command(lab, host, "-o", "BatchMode=yes", "-o", "ConnectTimeout=3"), *words],
        mark=lab.mark("ssh"),
        check=False,
    )


def _wait_for(lab: Lab, host: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not answers(lab, host):
        if not processes.find(lab, f"host:{host}"):
            raise LabError(f"{host} ended while it booted. The end of its console:\n{tail(console(lab, host))}")
        if time.monotonic() > deadline:
            raise LabError(
                f"{host} did not answer over SSH within {READY_SECONDS} s. The end of its "
                f"output:\n{_last_words(lab, host)}"
            )
        time.sleep(0.5)
    # Nothing may be installed while units are still starting. "degraded" is fine: a container cannot start every unit.
    _try(lab, host, "systemctl", "is-system-running", "--wait")
    say(f"{host}: ready")


def _last_words(lab: Lab, host: str) -> str:
    init = processes.container_init(lab, host)
    if init is None:
        return tail(console(lab, host))
    journal = ["nsenter", "--target", str(init), "--all", "journalctl", "--no-pager", "--lines=20", "--output=cat"]
    return f"{tail(console(lab, host))}\nand its journal:\n{run(journal, mark=lab.mark('ssh'), check=False).stdout}"
