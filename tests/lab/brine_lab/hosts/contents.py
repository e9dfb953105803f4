# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""What makes a host's file system this host's own: its name, its address, its keys."""

from __future__ import annotations

from pathlib import Path

from brine_lab.base.commands import run
from brine_lab.base.lab import Lab
from brine_lab.base.state import DOMAIN, SUDO_USER, State, write
from brine_lab.hosts import ssh, uplink
from brine_lab.network import package_cache

# The lab's own commands still come as root.
ADD_SUDO_USER = f"useradd --create-home --shell=/bin/bash {SUDO_USER}\n"
ITS_KEYS = f"""\
install --directory --mode=700 --owner={SUDO_USER} --group={SUDO_USER} /home/{SUDO_USER}/.ssh
install --mode=600 --owner={SUDO_USER} --group={SUDO_USER} /root/.ssh/authorized_keys /home/{SUDO_USER}/.ssh
"""


def write_own(lab: Lab, state: State, host: str, tree: Path, *, link: str) -> str:
    """Write a host's own files into a tree, which may be empty. `link`: the name of its network interface.

    Returns what a shell has to do in the finished tree, as root, before the host's first boot.
    """
    address = state.address(host)
    write(tree / "etc/hostname", f"{host}\n")
    # The real address, as an installation with a static address has it: libvirt takes the name for the way here.
    write(
        tree / "etc/hosts",
        f"127.0.0.1 localhost\n{address} {host}.{DOMAIN} {host}\n::1 localhost ip6-localhost ip6-loopback\n",
    )
    (tree / "etc/resolv.conf").unlink(missing_ok=True)
    write(tree / "etc/resolv.conf", f"search {DOMAIN}\nnameserver {state.gateway}\n")
    uplink.write_configuration(state, host, tree, link)
    write(
        tree / "etc/apt/apt.conf.d/00brine-virt-lab",
        "// The lab's cache: each package is downloaded once for all hosts.\n"
        f'Acquire::http::Proxy "http://{state.gateway}:{package_cache.PORT}";\n'
        'Acquire::https::Proxy "DIRECT";\n',
    )
    keys = tree / "root/.ssh/authorized_keys"
    write(keys, ssh.key(lab).with_suffix(".pub").read_text(), 0o600)
    keys.parent.chmod(0o700)
    # The default with OpenSSH 9 costs the client 70 ms of a processor for each connection, and there are thousands.
    write(tree / "etc/ssh/sshd_config.d/brine-virt-lab.conf", "KexAlgorithms curve25519-sha256\n")
    run(["ssh-keygen", "-q", "-A", "-f", str(tree)], mark=lab.mark("build"))
    if host not in state.sudo:
        return ""
    write(tree / f"etc/sudoers.d/{SUDO_USER}", f"{SUDO_USER} ALL=(ALL:ALL) NOPASSWD: ALL\n", 0o440)
    return ADD_SUDO_USER + ITS_KEYS
