# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a secret. No complaint repeats a value."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.given import GivenOptions
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.secret import (
    SecretSpec,
    new_definition,
    options_of,
    read_secret,
    write_options,
)

UUID = "6ec2c9b7-2f4e-4a4e-9e05-2c8a6f0a1d11"
# Made up: type 1, a time, 16 bytes.
CEPH_KEY = "AQDSGxVkAAAAABAAc2VjcmV0c2VjcmV0c2VjcmU="


def spec_of(**options: t.Any) -> SecretSpec:
    return read_secret(GivenOptions.of({"name": "client.x", "usage": "ceph", **options}, "secrets[2]"))


@pytest.mark.parametrize(
    ("usage", "name", "element"),
    [
        ("ceph", "client.x", "<name>client.x</name>"),
        ("iscsi", "san", "<target>san</target>"),
        ("tls", "vnc", "<name>vnc</name>"),
        ("volume", "/srv/vms/a.luks", "<volume>/srv/vms/a.luks</volume>"),
        ("vtpm", "web1", "<name>web1</name>"),
    ],
)
def test_each_use_has_its_element(usage: str, name: str, element: str) -> None:
    spec = spec_of(usage=usage, name=name, uuid=UUID.upper(), description="a < b", ephemeral=True, private="yes")
    root = new_definition(spec)
    write_options(root, spec.options)
    text = etree.tostring(root, encoding="unicode")
    assert text == (
        f'<secret ephemeral="yes" private="yes"><uuid>{UUID}</uuid><usage type="{usage}">{element}</usage>'
        "<description>a &lt; b</description></secret>"
    )
    assert options_of(root) == {"ephemeral": True, "private": True, "description": "a < b"}


def test_a_value_is_bytes() -> None:
    assert spec_of(value="gr\u00fcn").value == b"gr\xc3\xbcn"
    assert spec_of(value=123456).value == b"123456"
    assert (
        spec_of(value_base64=f"{CEPH_KEY}\n").value == bytes.fromhex("0100d21b1564000000001000") + b"secretsecretsecre"
    )
    assert spec_of().value is None


def test_a_spec_does_not_show_its_value() -> None:
    assert "hunter22" not in repr(spec_of(value="hunter22"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nane": "hunter22"}, "secrets[2]: unknown option 'nane'. Did you mean name?"),
        ({"valeu": "hunter22"}, "secrets[2]: unknown option 'valeu'. Did you mean value?"),
        ({"usage": "rbd"}, "secrets[2].usage: 'rbd' is not a choice. Choose one of ceph, iscsi, tls, volume, vtpm"),
        ({"usage": None}, "secrets[2].usage: is missing. Choose one of"),
        ({"usage": "volume"}, "secrets[2].name: 'client.x' is not a normalized absolute path"),
        ({"uuid": "123"}, "secrets[2].uuid: '123' is not a UUID. uuidgen makes one"),
        ({"value": ["hunter22"]}, "secrets[2].value: it is not a text, or it is empty"),
        ({"value": {"hunter22": 1}}, "secrets[2].value: it is not a text, or it is empty"),
        ({"value": ""}, "secrets[2].value: it is not a text, or it is empty"),
        ({"value_base64": "hunter22!"}, "secrets[2].value_base64: it is not base64, or it is empty"),
        ({"value_base64": "hunter2"}, "secrets[2].value_base64: it is not base64, or it is empty"),
        ({"value": "hunter22", "value_base64": "aaaa"}, "secrets[2]: value and value_base64 are given together"),
        (
            {"value": CEPH_KEY},
            "secrets[2].value: this is a key as Ceph writes it, which is base64. Give it as value_ba",
        ),
        ({"description": " "}, "secrets[2].description: it is empty. Leave it out"),
    ],
)
def test_one_sentence_says_what_is_wrong_and_nothing_of_the_value(options: dict[str, t.Any], words: str) -> None:
    with pytest.raises(VirtError) as caught:
        spec_of(**options)
    assert str(caught.value).startswith(words)
    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in str(error) and CEPH_KEY not in str(error)
        error = error.__cause__ or error.__context__


def test_a_key_of_ceph_is_text_for_others() -> None:
    assert spec_of(usage="iscsi", name="san", value=CEPH_KEY).value == CEPH_KEY.encode()
