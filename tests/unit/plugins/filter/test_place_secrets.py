# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No complaint about an option repeats a secret, whatever shape the option has by a slip."""

from __future__ import annotations

import json
import typing as t

from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.filter.place import place_filter
from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machines
from ansible_collections.brine.virt.plugins.module_utils._model.spec.seed import SEED_RULES
from ansible_collections.brine.virt.plugins.module_utils._model.spec.seed_parts import FILE_RULES, USER_RULES
from ansible_collections.brine.virt.plugins.module_utils._model.withheld import OPTION, masked, masks_in, opened
from ansible_collections.brine.virt.plugins.module_utils._seeding.secret_values import has_secrets
from ansible_collections.brine.virt.plugins.plugin_utils._withhold import Withheld

HOST = {"memory": {"total_mib": 4096, "committed_mib": 0}, "vcpus": {"total": 4, "committed": 0}, "pools": []}
MACHINE = {"name": "a", "vcpus": 1, "memory": 512, "disk_profile": "none", "nic_profile": "none"}
SECRET = "hUsh-hUsh"
HASH = "$6$abcdefgh$" + SECRET.replace("-", "/") * 9
# No part of either may be seen.
PIECES = ("hUsh", "abcdefgh")

fillers = st.sampled_from(["", "x", "long " * 9, "longer " * 60])
# What somebody writes who means a mapping, and gives a text.
slips = st.builds(
    lambda shape, word, secret, filler: shape.format(word=word, secret=secret, filler=filler),
    st.sampled_from(
        [
            "{{user: bob, {word}: {secret}, gecos: {filler}}}",
            "{{gecos: {filler}, {word}: {secret}}}",
            "{{'{word}': '{secret}', 'gecos': '{filler}'",
            '{{"gecos": "{filler}", "{word}": "{secret}"',
            "[{{name: x, {word}: {secret}}}]",
            "{word}: {secret}",
            "{word}:{secret}",
            "{word}={secret} gecos={filler}",
            "user: bob\n{word}: {secret}\ngecos: {filler}\n",
        ]
    ),
    st.sampled_from(["password", "password_hash", "db_password", "passwd", "db_pwd", "api_key", "token", "PASSWORD"]),
    st.sampled_from([SECRET, HASH]),
    fillers,
)
# The same one level deeper, or as the key without a value that YAML makes of a colon without a blank; a secret by its
# name in the shape of something else; a hash alone, which is known as what it is wherever it stands.
values = st.one_of(
    slips,
    slips.map(lambda text: [text]),
    slips.map(lambda text: [[text]]),
    slips.map(lambda text: {text: None}),
    slips.map(lambda text: [{text: None}]),
    st.just({HASH: None}),
    slips.map(lambda text: {"name": text, "path": text, "type": text}),
    st.just(["bob", SECRET]),
    st.just([["bob", SECRET]]),
    st.just({"name": "bob", "password": [SECRET]}),
    st.just({"name": "bob", "password_hash": {"here": SECRET}}),
    st.just(HASH),
    st.just([HASH]),
    st.just(f"bob:{HASH}"),
)
# An entry of the list, or the default seed, with the value in some place of it.
places: list[tuple[str, t.Callable[[t.Any], t.Any]]] = [
    ("entry", lambda value: value),
    ("entry", lambda value: {**MACHINE, "seed": value}),
    ("entry", lambda value: {**MACHINE, "graphics": value}),
    ("entry", lambda value: {**MACHINE, "graphics": {"type": value}}),
    ("entry", lambda value: {**MACHINE, "graphics": {"type": "vnc", "listen": value}}),
    ("entry", lambda value: {**MACHINE, "variables": value}),
    ("seed", lambda value: value),
    *(("seed", lambda value, key=key: {key: value}) for key in SEED_RULES),
    *(("seed", lambda value, key=key: {"users": [{"name": "x", key: value}]}) for key in USER_RULES),
    *(("seed", lambda value, key=key: {"files": [{"path": "/x", key: value}]}) for key in FILE_RULES),
    ("seed", lambda value: {"files": [{"path": "/x", "secret": True, "content": value}]}),
    ("seed", lambda value: {"network": {"version": value}}),
]


def complaints(where: str, value: t.Any) -> str:
    """What the role says of it, on the controller, and what the module does."""
    specs, seed = ([value], None) if where == "entry" else ([MACHINE], value)
    try:
        said = json.dumps(place_filter(specs, {"hv1": HOST}, seed_defaults=seed, errors="return"))
    except AnsibleFilterError as exc:
        said = str(exc)
    withheld = Withheld({"machines": specs, "seed": seed})
    params = opened(withheld.args)
    assert params == {"machines": specs, "seed": seed}
    try:
        read_machines(params["machines"], seed_defaults=params["seed"])
    except InputError as exc:
        said += masked(str(exc), masks_in(withheld.args))
    return said


@given(st.sampled_from(places), values)
def test_no_complaint_repeats_a_secret(place: tuple[str, t.Callable[[t.Any], t.Any]], value: t.Any) -> None:
    where, around = place
    said = complaints(where, around(value))
    assert not any(piece in said for piece in PIECES), said


@given(slips | slips.map(lambda text: {text: None}))
def test_what_was_to_be_data_goes_to_the_module_as_a_secret(value: t.Any) -> None:
    for options in ({"seed": value}, {"machines": [{"seed": {"users": [value]}, "graphics": value}, value]}):
        withheld = Withheld(options)
        sent = json.dumps({key: item for key, item in withheld.args.items() if key != OPTION})
        assert not any(piece in sent for piece in PIECES), sent
        assert not has_secrets(withheld.args)
