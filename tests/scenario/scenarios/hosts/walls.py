# SPDX-License-Identifier: GPL-3.0-or-later
"""Firewalls of hosts, set up as an administrator does it: SSH is let in, and nothing else.

Frames that a bridge passes on are not counted among what comes in.
"""

from __future__ import annotations

from dataclasses import dataclass

_INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get -qq install -y {} >/dev/null"
_PURGE = "DEBIAN_FRONTEND=noninteractive apt-get -qq purge -y {0} >/dev/null"
_NFTABLES_CONF = "/etc/nftables.conf"
_NFTABLES_RULES = """#!/usr/sbin/nft -f
flush ruleset
table inet filter {
    chain input {
        type filter hook input priority filter; policy drop;
        ct state established,related accept
        iif lo accept
        icmp type echo-request accept
        icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert, echo-request } accept
        udp dport 68 accept
        tcp dport 22 accept
    }
}
"""


@dataclass(frozen=True)
class Wall:
    """A firewall, and what a shell on the host does with it.

    build: installs it and closes the host. rules: prints all of its rules, those that run and those that last; what
    a rule leaves behind when it goes, as far as it means nothing, is left out. load: makes it forget what does not
    last. remove: leaves a host without a firewall.
    """

    name: str
    build: str
    rules: str
    load: str
    remove: str


NFTABLES = Wall(
    "nftables",
    f"command -v nft >/dev/null || {_INSTALL.format('nftables')};"
    f" printf '%s' '{_NFTABLES_RULES}' >{_NFTABLES_CONF} &&"
    " systemctl enable nftables.service && systemctl restart nftables.service",
    f"nft --stateless list ruleset; cat {_NFTABLES_CONF}",
    "systemctl restart nftables.service",
    f"systemctl disable --now nftables.service; nft flush ruleset; rm -f {_NFTABLES_CONF}",
)
# Its default zone, public, lets in SSH. It writes a file for a zone that is changed, also when it is changed back.
FIREWALLD = Wall(
    "firewalld",
    _INSTALL.format("firewalld") + " && firewall-cmd --state",
    "firewall-cmd --list-all-zones; firewall-cmd --permanent --list-all-zones",
    "firewall-cmd --reload",
    f"systemctl disable --now firewalld.service; {_PURGE.format('firewalld')}; rm -rf /etc/firewalld",
)
UFW = Wall(
    "ufw",
    _INSTALL.format("ufw") + " && ufw allow OpenSSH && ufw --force enable",
    "iptables -S; ip6tables -S; cat /etc/ufw/user.rules /etc/ufw/user6.rules",
    "ufw reload",
    # Its chains stay when it is disabled. What /etc/ufw has of SSH is not its own.
    f"ufw --force disable; {_PURGE.format('ufw')};"
    " for tables in iptables ip6tables; do $tables --flush; $tables --delete-chain; done",
)
WALLS = (NFTABLES, FIREWALLD, UFW)
