# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_pool by its options: one pool, several, check mode and difference."""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.given import GivenOptions
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.pool import (
    POOL_OPTIONS,
    complete,
    read_pool,
)
from ansible_collections.brine.virt.plugins.modules import virt_pool
from ansible_collections.brine.virt.tests.unit.plugins.called_module import call_module


@pytest.fixture
def conn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Any]:
    (tmp_path / "node.xml").write_text("<node/>", encoding="utf-8")
    with open_connection(f"test://{tmp_path}/node.xml") as connection:
        monkeypatch.setattr(virt_pool, "open_connection", lambda _uri: contextlib.nullcontext(connection))
        yield connection


def run(check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
    return call_module(virt_pool, check_mode, params)


def test_check_mode_says_what_the_run_does(conn: t.Any) -> None:
    pools = [{"name": "default", "path": "/srv/a"}, {"name": "images", "path": "/srv/b"}]
    shown, done, again = run(True, pools=pools), run(pools=pools), run(pools=pools)
    assert shown == done
    assert done["changed"] and not again["changed"] and again["diff"] == []
    assert done["diff"][0]["after"] == ("name: default\ntype: dir\nstate: active\nautostart: true\npath: /srv/a\n")
    assert [pool["present"] for pool in again["pools"]] == [True, True]


def test_one_pool_by_the_options_themselves(conn: t.Any) -> None:
    answer = run(name="nfs", type="netfs", host="nas", export="/a", path="/mnt", mount_options="hard,noatime", owner=7)
    assert answer["pools"][0]["changed"]
    with pytest.raises(InputError, match=r"^mode: 457 is not a mode"):
        run(name="nfs", mode=0o711)
    assert run(name="nfs", state="absent")["pools"][0]["present"] is False


def test_every_option_is_an_argument_and_documented() -> None:
    assert set(virt_pool.OWN_ARGUMENTS) == set(POOL_OPTIONS)
    documented = yaml.safe_load(virt_pool.DOCUMENTATION)["options"]
    # That of lock_timeout is in a fragment.
    assert set(documented) == set(virt_pool.ARGUMENTS) - {"lock_timeout"}


def test_the_examples_are_pools() -> None:
    for task in yaml.safe_load(virt_pool.EXAMPLES):
        options = task["brine.virt.virt_pool"]
        for pool in options.get("pools", [options]):
            spec = read_pool(GivenOptions.of(pool, ""))
            if spec.state != "absent":
                complete(spec, None, {})
