# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU of machines as data and as XML."""

from __future__ import annotations

import typing as t

import pytest
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.cpu import CPU
from ansible_collections.brine.virt.plugins.module_utils._model.xml.guest_cpu import (
    GuestCpu,
    guest_cpu_from_xml,
)
from ansible_collections.brine.virt.plugins.module_utils._model.xml.guest_cpu_facts import read_guest_cpu

EPYC = GuestCpu("x86_64", "kvm", "EPYC", "AMD", {"x2apic": "require", "svm": "disable"})


def test_it_comes_back_from_data_and_from_xml() -> None:
    assert read_guest_cpu(EPYC.as_dict(), "cpus.hv1") == EPYC
    assert guest_cpu_from_xml(etree.fromstring(EPYC.as_xml()), "x86_64", "kvm") == EPYC
    bare = GuestCpu("x86_64", "qemu", "qemu64", None, {})
    assert read_guest_cpu(bare.as_dict(), "cpus.hv1") == bare
    assert guest_cpu_from_xml(etree.fromstring(bare.as_xml()), "x86_64", "qemu") == bare


def test_the_option_of_a_machine_takes_it() -> None:
    clean = CPU.check(EPYC.as_option(), "cpu")
    assert (clean["mode"], clean["model"], clean["vendor"]) == ("custom", "EPYC", "AMD")
    domain = etree.fromstring("<domain/>")
    CPU.write(domain, clean)
    cpu = domain.find("cpu")
    assert cpu is not None
    assert guest_cpu_from_xml(cpu, "x86_64", "kvm") == EPYC


def test_a_cpu_without_a_model_is_none() -> None:
    assert guest_cpu_from_xml(etree.fromstring("<mode name='host-model'/>"), "x86_64", "kvm") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "cpus.hv1: the CPU of this hypervisor is not known. "),
        ({"arch": "x86_64", "model": "EPYC"}, "cpus.hv1: domain_type is missing. "),
        ({**EPYC.as_dict(), "modle": "x"}, "cpus.hv1: unknown option 'modle'. Did you mean model?"),
        ({**EPYC.as_dict(), "features": {"x": "maybe"}}, "cpus.hv1.features.x: 'maybe' is not a choice. "),
        ({**EPYC.as_dict(), "model": "<a>"}, "cpus.hv1.model: '<a>' is not a word. "),
    ],
)
def test_what_is_no_cpu_is_an_error(value: t.Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_guest_cpu(value, "cpus.hv1")
    assert str(caught.value).startswith(text)
