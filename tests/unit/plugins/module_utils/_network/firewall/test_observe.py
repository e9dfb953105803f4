# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's rules are is read from the host: here one that has nothing but a network of its own."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._network.firewall import observe
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.iptables import read_rules
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.firewall.own_network import (
    own_network,
    require_nft,
)

LOOK = f"""
import json, sys
sys.path[:0] = {sys.path!r}
from {observe.__name__} import observe_firewalls, observe_outside
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.openings import Ports
outside = observe_outside()
found = observe_firewalls(outside)
print(json.dumps([outside.addresses, found.names((Ports(16514, 16514),)), [c.name for c in found.chains]]))
"""


def seen(rules: str) -> t.Any:
    """What is seen where these rules are: addresses, firewalls, chains of nftables."""
    require_nft()
    script = 'nft --file - && ip link set lo up && exec "$@"'
    answer = own_network("sh", "-c", script, "sh", sys.executable, "-c", LOOK, data=rules)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_a_host_without_rules_has_no_firewall() -> None:
    assert seen("") == [[], [], []]


def test_rules_that_filter_are_one() -> None:
    closed = "table inet f { chain in { type filter hook input priority 0; policy drop; tcp dport 22 accept; }; }"
    assert seen(closed) == [[], ["nftables"], ["in"]]


def test_rules_that_let_everybody_in_are_none() -> None:
    routes = "table ip n { chain f { type filter hook forward priority 0; policy drop; }; }"
    harmless = "table inet f { chain in { type filter hook input priority 0; tcp dport 22 drop; }; }"
    assert seen(routes) == [[], [], []]
    assert seen(harmless) == [[], [], ["in"]]


def test_a_file_is_tried_where_it_changes_nothing() -> None:
    require_nft()
    text = 'table ip f { chain i { type filter hook input priority 0; iif "eth7" drop; }; }'
    rules = f"table ip before {{ }}\n{text}"
    code = LOOK.partition("outside =")[0] + (
        f"from {observe.__name__} import _try_nftables\n"
        f"print(json.dumps([c.table for c in _try_nftables(('lo', 'eth7'), {rules!r})]))\n"
        f"import subprocess; print(json.dumps(subprocess.check_output(['nft', 'list', 'tables'], text=True)))"
    )
    answer = own_network(sys.executable, "-c", code)
    assert answer.returncode == 0, answer.stderr
    tables, after = map(json.loads, answer.stdout.splitlines())
    assert (tables, after) == (["f"], "")


@pytest.mark.parametrize(
    ("content", "sentence"), [(b"# caf\xe9\n", "is not UTF-8"), (b"flush ruleset\r\n", "has carriage returns")]
)
def test_a_file_that_would_not_stay_as_it_is_is_refused(
    content: bytes, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rules"
    path.write_bytes(content)
    said = f"ExecStart={{ path=/usr/sbin/nft ; argv[]=/usr/sbin/nft -f {path} ; }}\nUnitFileState=enabled\n"
    monkeypatch.setattr(observe, "_unit_properties", lambda *_words: said)
    monkeypatch.setattr(observe, "_RULES_FILES", {4: (("netfilter-persistent.service", str(path)),)})
    table = read_rules("-P INPUT DROP\n", 4, "iptables")
    for read in (lambda: observe._nftables_file(()), lambda: observe._rules_file(table)):
        with pytest.raises(UnsupportedError, match=f"^{path} {sentence}, and would not stay as it is"):
            read()
