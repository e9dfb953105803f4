# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's firewalls are now. Only reads: nothing is started, and a file is tried in a network of its own."""

from __future__ import annotations

import functools
import os
import re
import shutil
import stat
import tempfile

from ..._base.errors import HostError
from ..._base.files import read_text, read_text_to_change
from ..commands import is_active, run
from .addresses import Outside, read_addresses
from .firewalld import Firewalld, read_service, read_zones
from .firewalls import Firewalls
from .iptables import IptablesInput, read_rules
from .nftables import NftablesFile
from .plan import BootFile
from .ruleset import InputChain, read_ruleset
from .ufw import Ufw, read_ufw

# Services that almost every zone has, and that have none of our ports.
_OTHER_SERVICES = frozenset({"cockpit", "dhcpv6-client", "mdns", "samba-client", "ssh"})
# Their own tables, or those of the command that makes them.
_FIREWALLD_TABLE = "firewalld"
_FAMILY_VERSIONS = {"ip": 4, "ip6": 6}
# $1: a file; after it, names of links, which a rule may ask for: `iif eth0` is read only where there is an eth0.
_TRY_NFT = """file=$1; shift
for link; do ip link add name "$link" type bridge 2>/dev/null; done
nft --file "$file" && nft --json list ruleset
"""
_TRY_IPTABLES = '"$1-restore" <"$2" && "$1" -S'
# Where distributions keep the rules of iptables: the service that loads them, and its file, by version of IP.
_NETFILTER = "netfilter-persistent.service"
_RULES_FILES = {
    4: ((_NETFILTER, "/etc/iptables/rules.v4"), ("iptables.service", "/etc/sysconfig/iptables")),
    6: ((_NETFILTER, "/etc/iptables/rules.v6"), ("ip6tables.service", "/etc/sysconfig/ip6tables")),
}


def observe_outside() -> Outside:
    """The links and addresses by which other hosts know this one. Raises HostError."""
    return read_addresses(run("ip", "-json", "-details", "address", "show"))


def observe_firewalls(outside: Outside) -> Firewalls:
    """All that filters now. Raises HostError."""
    firewalld = _observe_firewalld()
    ufw = None if firewalld is not None else _observe_ufw()
    chains = read_ruleset(run("nft", "--json", "list", "ruleset")) if shutil.which("nft") is not None else ()
    boot_file = _nftables_file(outside.links) if chains else None
    tables: list[tuple[IptablesInput, BootFile[IptablesInput] | None]] = []
    if firewalld is None:
        of_iptables = _observe_iptables(chains, boot_file)
        seen = {(table.version, table.tool) for table in of_iptables}
        chains = tuple(chain for chain in chains if not _is_seen(chain, seen))
        if ufw is None:
            tables = [(table, _rules_file(table)) for table in of_iptables]
    else:
        chains = tuple(chain for chain in chains if chain.table != _FIREWALLD_TABLE and not chain.is_of_iptables)
    return Firewalls(outside.interfaces, firewalld, ufw, chains, boot_file, tuple(tables))


def _observe_firewalld() -> Firewalld | None:
    if shutil.which("firewall-cmd") is None or not is_active("firewalld.service"):
        return None
    running = read_zones(run("firewall-cmd", "--list-all-zones"))
    named: set[str] = set()
    for zone in running.values():
        named.update(zone.services, *(re.findall(r'service name="([^"]+)"', rule) for rule in zone.rich_rules))
    return Firewalld(
        default_zone=run("firewall-cmd", "--get-default-zone").strip(),
        running=running,
        permanent=read_zones(run("firewall-cmd", "--permanent", "--list-all-zones")),
        services={
            name: read_service(run("firewall-cmd", f"--info-service={name}"))
            for name in sorted(named - _OTHER_SERVICES)
        },
    )


def _observe_ufw() -> Ufw | None:
    enabled = re.search(r"^\s*ENABLED=[\"']?yes", read_text("/etc/ufw/ufw.conf") or "", re.MULTILINE | re.IGNORECASE)
    if enabled is None or shutil.which("ufw") is None or "Status: active" not in run("ufw", "status"):
        return None
    rules = (read_text("/etc/ufw/user.rules"), read_text("/etc/ufw/user6.rules"))
    return read_ufw(filter(None, rules), read_text("/etc/default/ufw") or "")


def _observe_iptables(chains: tuple[InputChain, ...], boot_file: NftablesFile | None) -> list[IptablesInput]:
    """INPUT, for each version of IP, of the iptables in use: the one that writes nftables, or the old one."""
    written = _chains_of_file(boot_file)
    found = []
    for family, version in _FAMILY_VERSIONS.items():
        name = "iptables" if version == 4 else "ip6tables"
        tool = None
        if any(chain.is_of_iptables and chain.family == family and _key(chain) not in written for chain in chains):
            tool = _first_program(f"{name}-nft", name)
        elif "filter" in (read_text(f"/proc/net/{family}_tables_names") or "").split():
            tool = _first_program(f"{name}-legacy", name)
        if tool is not None:
            try:
                found.append(read_rules(run(tool, "-S"), version, tool))
            except HostError:
                # iptables does not read a table that somebody wrote with nft; it stays one of those.
                continue
    return found


def _chains_of_file(boot_file: NftablesFile | None) -> set[tuple[str, str, str]]:
    """The chains that somebody wrote into the file of nftables."""
    if boot_file is None:
        return set()
    try:
        return {_key(chain) for chain in boot_file.made_of(boot_file.text)}
    except HostError:
        return set()


def _key(chain: InputChain) -> tuple[str, str, str]:
    return (chain.family, chain.table, chain.name)


def _is_seen(chain: InputChain, seen: set[tuple[int, str]]) -> bool:
    """Whether a chain is one that iptables keeps and has listed."""
    return chain.is_of_iptables and any(
        _FAMILY_VERSIONS[chain.family] == version and not tool.endswith("-legacy") for version, tool in seen
    )


def _first_program(*names: str) -> str | None:
    return next((name for name in names if shutil.which(name) is not None), None)


def _nftables_file(links: tuple[str, ...]) -> NftablesFile | None:
    """The file that nftables.service loads, None where the service is not enabled or loads something else."""
    answer = _unit_properties("nftables.service", "UnitFileState", "ExecStart")
    command = re.search(r"argv\[\]=\S*nft (?:-f|--file) (/\S+) ;", answer)
    if "UnitFileState=enabled" not in answer or command is None:
        return None
    path = command.group(1)
    text = read_text_to_change(path)
    if text is None:
        return None
    return BootFile(path, text, _mode(path), functools.partial(_try_nftables, links))


def _try_nftables(links: tuple[str, ...], text: str) -> tuple[InputChain, ...]:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir="/run", prefix="brine-virt-", suffix=".nft") as file:
        file.write(text)
        file.flush()
        names = [link for link in links if link != "lo"]
        return read_ruleset(run("unshare", "--net", "sh", "-c", _TRY_NFT, "sh", file.name, *names))


def _rules_file(table: IptablesInput) -> BootFile[IptablesInput] | None:
    """The file that a service loads the rules of iptables from when the host boots, None where none does."""
    for unit, path in _RULES_FILES[table.version]:
        if not os.path.exists(path) or "UnitFileState=enabled" not in _unit_properties(unit, "UnitFileState"):
            continue
        text = read_text_to_change(path)
        if text is not None:
            return BootFile(path, text, _mode(path), functools.partial(_try_iptables, table))
    return None


def _try_iptables(table: IptablesInput, text: str) -> IptablesInput:
    # The file is loaded by the command without a suffix, whichever iptables that is.
    tool = "iptables" if table.version == 4 else "ip6tables"
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir="/run", prefix="brine-virt-", suffix=".rules") as file:
        file.write(text)
        file.flush()
        listing = run("unshare", "--net", "sh", "-c", _TRY_IPTABLES, "sh", tool, file.name)
    return read_rules(listing, table.version, table.tool)


def _unit_properties(unit: str, *names: str) -> str:
    """What systemd says of a unit, nothing where there is no systemd to ask."""
    try:
        return run("systemctl", "show", f"--property={','.join(names)}", unit)
    except HostError:
        return ""


def _mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)
