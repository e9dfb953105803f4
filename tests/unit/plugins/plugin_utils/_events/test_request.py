# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of the event source are read, and each mistake is named with its place."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.plugin_utils._events.request import TYPES, read_request

URIS = {"hv1": "qemu+ssh://root@hv1/system", "hv2": "qemu+tls://hv2/system"}


def test_names_and_uris() -> None:
    request = read_request({"hypervisors": URIS})
    assert request.hypervisors == URIS
    assert (request.types, request.threshold_percent, request.buffer) == (frozenset(TYPES), None, 1000)


@pytest.mark.parametrize(
    ("arguments", "uris"),
    [
        ({"hypervisors": ["hv1"]}, {"hv1": "qemu+ssh://hv1/system"}),
        ({"hypervisors": "hv1"}, {"hv1": "qemu+ssh://hv1/system"}),
        ({"hypervisors": "hv1, hv2"}, {"hv1": "qemu+ssh://hv1/system", "hv2": "qemu+ssh://hv2/system"}),
        ({"hypervisors": ["hv1", "hv2"], "user": "ops"}, {name: f"qemu+ssh://ops@{name}/system" for name in URIS}),
        ({"hypervisors": ["2001:db8::1"], "transport": "tls"}, {"2001:db8::1": "qemu+tls://[2001:db8::1]/system"}),
        ({"hypervisors": {"hv1": None, "hv2": URIS["hv2"]}}, {"hv1": "qemu+ssh://hv1/system", "hv2": URIS["hv2"]}),
    ],
)
def test_host_names_become_uris(arguments: dict[str, t.Any], uris: dict[str, str]) -> None:
    assert read_request(arguments).hypervisors == uris


def test_types_and_threshold() -> None:
    request = read_request({"hypervisors": URIS, "types": "disk_threshold", "threshold_percent": 80})
    assert (request.types, request.threshold_percent) == (frozenset({"hypervisor", "disk_threshold"}), 80)
    request = read_request({"hypervisors": URIS, "threshold_percent": "80", "eda_feedback_queue": object()})
    assert request.threshold_percent == 80


def test_what_is_said_of_hypervisors_is_always_asked_for() -> None:
    """Rules for machines alone would wait for ever for one that cannot be reached, and nobody would know."""
    assert read_request({"hypervisors": URIS, "types": ["lifecycle"]}).types == {"hypervisor", "lifecycle"}


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"hypervisors": {"hv1": "qemu+ssh://root:s3cret@hv1/system"}}, "hypervisors.hv1"),
        ({"hypervisors": {"hv1": "root:s3cret@hv1"}}, "hypervisors.hv1"),
        ({"hypervisors": {"hv1": "qemu+ssh://root:s3/cret@hv1/system"}}, "hypervisors.hv1"),
        ({"hypervisors": {"hv1": "qemu+ssh://root:s3#c?ret@hv1/system"}}, "hypervisors.hv1"),
        ({"hypervisors": {"hv1": "root:s3 cret@hv1"}}, "hypervisors.hv1"),
        ({"hypervisors": ["qemu+ssh://root:s3cret@hv1/system"]}, r"hypervisors\[0\]"),
        ({"hypervisors": "hv2, root:s3cret@hv1"}, r"hypervisors\[1\]"),
        ({"hypervisors": ["hv1"], "user": "root:s3cret"}, "user"),
        ({"hypervisors": ["hv1"], "user": "root:s3cret@hv1"}, "user"),
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(arguments: dict[str, t.Any], where: str) -> None:
    """Every event has the address of its hypervisor, and rules print events."""
    with pytest.raises(InputError, match=f"^{where}: a password in an address is not read here") as caught:
        read_request(arguments)
    assert "s3" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "hypervisors: is missing. Give names and URIs, such as"),
        ({"hypervisors": {}}, "hypervisors: it names no hypervisor"),
        ({"hypervisors": 7}, "hypervisors: it names no hypervisor"),
        ({"hypervisors": [["hv1"]]}, r"hypervisors\[0\]: "),
        ({"hypervisors": ""}, "hypervisors: it names no hypervisor"),
        ({"hypervisors": ["hv1", None]}, r"hypervisors\[1\]: '' is not the name or the address of a host"),
        ({"hypervisors": ["hv1", "hv1"]}, r"hypervisors\[1\]: hv1 is there twice"),
        ({"hypervisors": "hv1 hv2"}, r"hypervisors\[0\]: 'hv1 hv2' is not the name"),
        ({"hypervisors": [URIS["hv1"]]}, r"hypervisors\[0\]: 'qemu\+ssh://root@hv1/system' is not the name"),
        ({"hypervisors": ["hv1"], "user": "a@b/c?x=1"}, r"user: 'a@b/c\?x=1' is not the name of a user"),
        ({"hypervisors": URIS, "user": "ops"}, "user: the hypervisors are given by URIs, which say it. Leave it out"),
        ({"hypervisors": URIS, "transport": "tls"}, "transport: the hypervisors are given by URIs"),
        (
            {"hypervisors": URIS, "types": "lifecycle", "threshold_percent": 80},
            "threshold_percent: types does not have such events. Add disk_threshold to types",
        ),
        ({"hypervisors": {"hv1": "hv1"}}, r"hypervisors.hv1: 'hv1' is not a URI"),
        (
            {"hypervisors": URIS, "types": ["livecycle"]},
            r"types\[0\]: 'livecycle' is not a choice. Choose one of hyperv",
        ),
        ({"hypervisors": URIS, "types": []}, "types: it is empty"),
        (
            {"hypervisors": URIS, "types": ["disk_threshold"]},
            "types: there are no such events without threshold_percent",
        ),
        ({"hypervisors": URIS, "threshold_percent": 0}, "threshold_percent: 0 is not allowed"),
        ({"hypervisors": URIS, "buffer": "many"}, "buffer: 'many' is not allowed"),
        ({"hypervisors": URIS, "hypervisor": "hv1"}, "unknown option .hypervisor.. Did you mean hypervisors"),
        ({"hypervisors": ["hv1"], "transport": "tls", "user": "ops"}, "user: a user is for the transport ssh"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, t.Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_request(arguments)
