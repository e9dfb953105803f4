# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which texts of a seed are secret."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._seeding.secret_values import secrets_of

HASH = "$6$abcdefgh$" + "x" * 86
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb\n-----END OPENSSH PRIVATE KEY-----"
CLOUD_CONFIG = f"""\
#cloud-config
users:
  - name: ops
    lock_passwd: false
    plain_text_passwd: 'correct horse'   # really
    hashed_passwd: {HASH}
  - {{name: two, passwd: battery staple}}
chpasswd:
  list: |
    root:hunter22
    ops:RANDOM
ssh_keys:
  rsa_private: |
    {KEY.replace(chr(10), chr(10) + "    ")}
timezone: Europe/Vienna
"""


@pytest.mark.parametrize(
    ("seed", "secrets"),
    [
        ({"password_hash": HASH}, {HASH}),
        ({"users": [{"name": "operator", "password_hash": HASH, "authorized_keys": ["ssh-rsa AAAAB3"]}]}, {HASH}),
        (
            {"files": [{"path": "/etc/token", "content": "top secret\n", "secret": True}]},
            {"top secret\n", "top secret"},
        ),
        ({"files": [{"path": "/etc/token", "content": "no secret", "secret": False}]}, set()),
        ({"files": [{"path": "/etc/key", "content": f"a\n{KEY}\n"}]}, {KEY}),
        ({"user_data": {"password": "hunter22", "timezone": "Europe/Vienna"}}, {"hunter22"}),
        ({"user_data": {"chpasswd": {"list": ["root:hunter22", "ops:random"]}}}, {"hunter22"}),
        ({"user_data": {"chpasswd": {"users": [{"name": "operator", "password": "hunter22"}]}}}, {"hunter22"}),
        ({"user_data": {"ssh_keys": {"rsa_private": "b3BlbnNz", "rsa_public": "AAAAB3Nz"}}}, {"b3BlbnNz"}),
        ({"user_data": {"list": ["operator:machines"]}}, set()),
        ({"network": {"version": 2, "wifis": {"w": {"password": "hunter22"}}}}, {"hunter22"}),
        ({"user_data": {"password": "short", "lock_passwd": "certainly"}}, set()),
        ({"user_data": f"#!/bin/sh\ncat <<E\n{KEY}\nE\n"}, {KEY}),
        # No YAML, so its lines have to do.
        ({"user_data": "#cloud-config\n{{ x\npassword: hunter22\n"}, {"hunter22"}),
        ({"hostname": "web1", "packages": ["password", "secret"]}, set()),
        ({}, set()),
        ("password: hunter22", set()),
        (None, set()),
    ],
)
def test_secrets(seed: t.Any, secrets: set[str]) -> None:
    assert secrets_of(seed) == secrets


def test_secrets_of_a_cloud_config_in_both_spellings() -> None:
    found = secrets_of({"user_data": CLOUD_CONFIG})
    indented = KEY.replace("\n", "\n    ")
    assert {"correct horse", "battery staple", HASH, "hunter22", KEY, indented} <= found
    assert not {"Europe/Vienna", "operator", "RANDOM", "false"} & found
    # Whatever is repeated of the text as it is, no secret stays in it.
    text = CLOUD_CONFIG
    for secret in sorted(found, key=len, reverse=True):
        text = text.replace(secret, "********")
    assert not [word for word in ("correct", "battery", "hunter", "b3Blb", "xxxx") if word in text]
