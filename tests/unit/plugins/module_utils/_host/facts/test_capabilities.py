# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hypervisor cannot do, by what libvirt says of itself."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.facts.capabilities import check_capabilities
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine

# As libvirt 9.0 says it (virsh domcapabilities), shortened.
SAID = """<domainCapabilities><machine>pc-q35-7.2</machine><vcpu max='288'/><os supported='yes'><enum name='firmware'/>
</os><devices><video supported='yes'><enum name='modelType'><value>virtio</value></enum></video><tpm supported='no'/>
</devices></domainCapabilities>"""


def check(said: str = SAID, **options: t.Any) -> None:
    machine = read_machine({"name": "web1", "vcpus": 1, "memory": "64MiB", **options})
    check_capabilities(machine, parse_xml(said), "vms[0]")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"vcpus": 999},
            "vms[0].vcpus: 999 vCPUs are more than pc-q35-7.2 can have on this hypervisor. Set at most 288, or another "
            "machine_type",
        ),
        ({"firmware": "efi"}, "vms[0].firmware: this hypervisor has no UEFI. Install OVMF (package ovmf or edk2-ovmf)"),
        ({"video": {"model": "qxl"}}, "vms[0].video.model: this hypervisor does not support 'qxl'. Known: virtio"),
        ({"tpm": True}, "vms[0].tpm: this hypervisor has no tpm. Install swtpm (packages swtpm and swtpm-tools)"),
    ],
)
def test_what_it_cannot_do_is_told_with_its_place(options: dict[str, t.Any], words: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        check(**options)
    assert str(caught.value) == words


@pytest.mark.parametrize("options", [{"vcpus": 288}, {"video": {"model": "virtio"}}, {"rng": True}])
def test_the_rest_is_taken(options: dict[str, t.Any]) -> None:
    check(**options)


def test_a_libvirt_that_does_not_say_how_many_vcpus_leaves_them_to_qemu() -> None:
    check(SAID.replace("<vcpu max='288'/>", ""), vcpus=999)
