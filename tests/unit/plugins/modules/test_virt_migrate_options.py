# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of virt_migrate, as Ansible reads them, in its own words and in Salt's."""

from __future__ import annotations

import typing as t

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.options import MigrationOptions
from ansible_collections.brine.virt.plugins.modules.virt_migrate import ARGUMENTS, read_specs


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
