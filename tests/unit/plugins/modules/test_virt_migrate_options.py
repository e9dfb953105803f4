# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of virt_migrate, as Ansible reads them, in its own words and in Salt's."""

from __future__ import annotations

import typing as t

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.options import Terms
from ansible_collections.brine.virt.plugins.modules.virt_migrate import ARGUMENTS, read_wishes


def terms(**options: t.Any) -> Terms:
    read = ArgumentSpecValidator(ARGUMENTS).validate({"name": "web1", "target": "qemu+tls://hv2/system", **options})
    assert read.error_messages == []
    (wish,) = read_wishes(read.validated_parameters)
    return wish.terms


@pytest.mark.parametrize("word", ["undefine_source", "undefinesource"])
def test_the_source_may_keep_its_definition(word: str) -> None:
    assert terms().undefine_source
    assert not terms(**{word: False}).undefine_source


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
    found = terms(**options)
    assert (found.compressed, found.parameters) == (True, parameters)


def test_nothing_is_compressed_unless_it_is_said() -> None:
    assert (terms().compressed, terms(compressed=False).compressed, terms().parameters) == (False, False, {})


def test_compression_is_said_once() -> None:
    with pytest.raises(InputError, match="^compressed and comp_methods and compression are there at once"):
        terms(compression={"methods": ["mt"]}, compressed=True, comp_methods=["xbzrle"])
