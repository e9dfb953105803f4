# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of virt_migrate, as Ansible reads them, in its own words and in Salt's."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.options import MigrationOptions
from ansible_collections.brine.virt.plugins.modules import virt_migrate
from ansible_collections.brine.virt.plugins.modules.virt_migrate import ARGUMENTS, as_diff, read_specs


def migration_options(**options: t.Any) -> MigrationOptions:
    read = ArgumentSpecValidator(ARGUMENTS).validate({"name": "web1", "target": "qemu+tls://hv2/system", **options})
    assert read.error_messages == []
    (spec,) = read_specs(read.validated_parameters)
    return spec.options


@pytest.mark.parametrize("word", ["undefine_source", "undefinesource"])
def test_the_source_may_keep_its_definition(word: str) -> None:
    assert migration_options().undefine_source
    assert not migration_options(**{word: False}).undefine_source


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ({"compression": {}}, {}),
        ({"compressed": True}, {}),
        ({"compression": {"methods": ["xbzrle"]}}, {"compression.methods": ["xbzrle"]}),
        ({"comp_methods": ["xbzrle"]}, {"compression.methods": ["xbzrle"]}),
        (
            {"compression": {"methods": ["mt"], "mt_level": 3, "mt_threads": 4, "mt_dthreads": 2, "xbzrle_cache": 5}},
            {
                "compression.methods": ["mt"],
                "compression.mt_level": 3,
                "compression.mt_threads": 4,
                "compression.mt_dthreads": 2,
                "compression.xbzrle_cache": 5,
            },
        ),
        ({"compressed": True, "comp_mt_level": 3, "bandwidth": 7}, {"compression.mt_level": 3, "bandwidth": 7}),
    ],
)
def test_compression(options: dict[str, t.Any], parameters: dict[str, t.Any]) -> None:
    found = migration_options(**options)
    assert (found.compressed, found.parameters) == (True, parameters)


def test_nothing_is_compressed_unless_it_is_said() -> None:
    assert (
        migration_options().compressed,
        migration_options(compressed=False).compressed,
        migration_options().parameters,
    ) == (False, False, {})


@pytest.mark.parametrize("options", [{"comp_methods": []}, {"compressed": False, "comp_mt_level": 3}])
def test_what_tunes_compression_in_the_words_of_salt_does_not_turn_it_on(options: dict[str, t.Any]) -> None:
    assert not migration_options(**options).compressed


def test_compression_is_said_once() -> None:
    with pytest.raises(InputError, match="^compressed and comp_methods and compression are given together"):
        migration_options(compression={"methods": ["mt"]}, compressed=True, comp_methods=["xbzrle"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"live": False, "postcopy": True},
            "postcopy: the machine has to keep running during the move, and live is false",
        ),
        ({"compression": {"methods": ["zstd"]}}, "compression.methods: zstd works only with several connections. Set"),
        ({"comp_methods": ["xbzrle", "zlib"]}, "compression.methods: zlib works only with several connections. Set"),
        (
            {"compression": {"methods": ["mt"]}, "parallel_connections": 4},
            "compression.methods: mt does not work with several connections. Choose zlib or zstd, or leave parallel_",
        ),
        (
            {"compression": {"methods": ["zlib", "zstd"]}, "parallel_connections": 4},
            "compression.methods: zlib and zstd cannot be used together. Choose one of them",
        ),
    ],
)
def test_what_libvirt_always_refuses_is_refused_before_anything_is_made(options: dict[str, t.Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        migration_options(**options)
    assert str(caught.value).startswith(words)


def test_compression_over_several_connections() -> None:
    found = migration_options(compression={"methods": ["zstd"]}, parallel_connections=4)
    assert found.parameters == {"compression.methods": ["zstd"], "parallel_connections": 4}


def test_pools_of_the_hypervisor_that_a_machine_is_on() -> None:
    named = migration_options(target=None, pool="fast", disks={"data": {"pool": "slow"}})
    assert (named.pool, named.disks, named.names_pools) == ("fast", {"data": "slow"}, True)
    assert not migration_options().names_pools


def test_each_machine_has_pools_of_its_own() -> None:
    machines = [{"name": "a", "pool": "one"}, {"name": "b"}, {"name": "c", "disks": {"vda": {"pool": "two"}}}]
    read = ArgumentSpecValidator(ARGUMENTS).validate({"machines": machines, "pool": "fast"})
    assert read.error_messages == []
    specs = read_specs(read.validated_parameters)
    assert [(spec.options.pool, spec.options.disks) for spec in specs] == [
        ("one", {}),
        ("fast", {}),
        ("fast", {"vda": "two"}),
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "web1 has no target. Name a hypervisor with target, or a pool of this one with pool"),
        ({"disks": {"data": "fast"}}, "disks.data: 'fast' does not name a pool"),
        ({"disks": {"data": {"pol": "fast"}}}, "disks.data: {'pol': 'fast'} does not name a pool"),
        ({"disks": {"data": {"pool": "fast", "size": "1MiB"}}}, "does not name a pool"),
        ({"pool": "fast", "copy_storage": "none"}, "copy_storage: a disk gets into another pool by being copied"),
    ],
)
def test_what_names_no_pool(options: dict[str, t.Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        for spec in [migration_options_of(target=None, **options)]:
            spec.check()
    assert words in str(caught.value)


def migration_options_of(**options: t.Any) -> t.Any:
    read = ArgumentSpecValidator(ARGUMENTS).validate({"name": "web1", **options})
    return read_specs(read.validated_parameters)[0]


def test_the_diff_says_where_disks_were_and_are() -> None:
    moved = {"device": "vda", "from_pool": "slow", "from_volume": "v", "pool": "fast", "volume": "v"}
    found = as_diff({"name": "web1", "source": "hv1", "target": "hv1", "disks": [moved]})
    assert (found["before"], found["after"]) == (
        "hypervisor: hv1\nvda: slow/v\n",
        "hypervisor: hv1\nvda: fast/v\n",
    )


def test_a_volume_that_the_machine_does_not_own_is_named_as_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of an adopted machine: they would be in the way of its return."""
    of_both = {"device": "vda", "pool": "default", "volume": "old.qcow2", "from_pool": "default"}
    own = {**of_both, "from_volume": "own.qcow2", "kept_at_source": False}
    disks = [{**of_both, "from_volume": "old.qcow2", "kept_at_source": True}, own]
    moved = {"name": "old1", "source": "hv1", "target": "hv2", "disks": disks, "kept_volumes": (), "failed": False}
    said: list[str] = []
    for changed, options in (
        (True, {"source_volumes": "own", "undefine_source": True}),
        (False, {"source_volumes": "own", "undefine_source": True}),
        # They were asked to stay.
        (True, {"source_volumes": "none", "undefine_source": True}),
        (True, {"source_volumes": "own", "undefine_source": False}),
    ):
        module = t.cast("t.Any", types.SimpleNamespace(check_mode=True, warn=said.append, params=options))
        machines = [{**moved, "changed": changed}]
        monkeypatch.setattr(virt_migrate, "move", lambda *_, found=machines: {"machines": found})
        virt_migrate.work(module)
    assert said == ["old1: volume old.qcow2 stays in pool default of hv1, as it was not created for this machine"]
