# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Address translation for the lab, and a way through firewalls whose policy is to drop (Docker's, ufw's)."""

from __future__ import annotations

import json
from typing import Any

from brine_lab.base.commands import run
from brine_lab.base.lab import Lab

RULES = """\
table ip {table}
delete table ip {table}
table ip {table} {{
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {subnet} ip daddr != {subnet} oifname != "{bridge}" masquerade
  }}
  chain forward {{
    type filter hook forward priority mangle; policy accept;
    # A guest that ignores the MTU it is told by DHCP would hang on the first large answer.
    iifname "{bridge}" oifname != "{bridge}" tcp flags syn tcp option maxseg size set rt mtu
    oifname "{bridge}" iifname != "{bridge}" tcp flags syn tcp option maxseg size set rt mtu
  }}
}}
"""


def up(lab: Lab, subnet: str) -> None:
    """Load the lab's own table, replacing an older one in the same transaction, and open dropping chains of others."""
    rules = RULES.format(table=lab.table, subnet=subnet, bridge=lab.bridge)
    # An accept in our table cannot overrule a drop in another: the rule has to stand in the other's chain.
    present = {(rule["family"], rule["table"], rule["chain"], _interface_word(rule)) for rule in _our_rules(lab)}
    for chain in _dropping_chains(lab):
        for word in ("iifname",) if chain["hook"] == "input" else ("iifname", "oifname"):
            if (chain["family"], chain["table"], chain["name"], word) not in present:
                where = f"{chain['family']} {chain['table']} {chain['name']}"
                rules += f'insert rule {where} {word} "{lab.bridge}" counter accept comment "{lab.table}"\n'
    run(["nft", "-f", "-"], stdin=rules, mark=lab.mark("network"))


def down(lab: Lab) -> None:
    """Remove the lab's table and its rules elsewhere."""
    rules = f"table ip {lab.table}\ndelete table ip {lab.table}\n"
    # Where trouble was made and not healed.
    rules += f"table bridge {lab.table}\ndelete table bridge {lab.table}\n"
    for rule in _our_rules(lab):
        rules += f"delete rule {rule['family']} {rule['table']} {rule['chain']} handle {rule['handle']}\n"
    run(["nft", "-f", "-"], stdin=rules, mark=lab.mark("network"))


def exists(lab: Lab) -> bool:
    """Whether the lab's table is there."""
    return run(["nft", "list", "table", "ip", lab.table], mark=lab.mark("network"), check=False).returncode == 0


def _listing(lab: Lab) -> list[dict[str, Any]]:
    ruleset: dict[str, Any] = json.loads(run(["nft", "-json", "list", "ruleset"], mark=lab.mark("network")).stdout)
    return list(ruleset["nftables"])


def _dropping_chains(lab: Lab) -> list[dict[str, Any]]:
    chains = [item["chain"] for item in _listing(lab) if "chain" in item]
    dropping = [chain for chain in chains if chain.get("policy") == "drop" and chain["family"] in ("ip", "inet")]
    return [chain for chain in dropping if chain.get("hook") in ("forward", "input")]


def _our_rules(lab: Lab) -> list[dict[str, Any]]:
    rules = [item["rule"] for item in _listing(lab) if "rule" in item]
    return [rule for rule in rules if rule.get("comment") == lab.table]


def _interface_word(rule: dict[str, Any]) -> str:
    words = (part["match"]["left"]["meta"]["key"] for part in rule["expr"] if "match" in part)
    return str(next(words))
