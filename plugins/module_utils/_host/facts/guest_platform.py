# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hypervisor can do for guests: acceleration, machine type, CPU, console log."""

from __future__ import annotations

from collections.abc import Mapping

from ..._base.errors import UnsupportedError, inside, one_of_these
from ..._base.xml import etree, read_description
from ..._model.attachments import ITCO_SINCE
from ..._model.spec.fields.table import Values
from ..._model.spec.hardware.cpu import HOST_MODES, only_of_host_modes
from ..._model.spec.machine import Machine
from ..._model.xml.domain import GuestPlatform
from ..connection import VirConnect, libvirt, translate_errors
from .capabilities import check_capabilities, check_cpu
from .guest_capabilities import GuestCapabilities

# Where virtlogd may write on every distribution, whatever AppArmor and SELinux say.
_QEMU_LOG_DIR = "/var/log/libvirt/qemu"
_EMULATED_CPU = "Nehalem"
_ITCO = "itco"


class GuestPlatforms(GuestCapabilities):
    """The hypervisor's guest capabilities, asked once for all machines of a task.

    default_cpu: the fields of option ``cpu`` for new machines that do not say it; default_machine_type: the same for
    the option ``machine_type``. None leaves it to this hypervisor.
    """

    def __init__(
        self, conn: VirConnect, default_cpu: Values | None = None, default_machine_type: str | None = None
    ) -> None:
        super().__init__(conn)
        self._conn = conn
        self._default_cpu = default_cpu
        self._default_machine_type = default_machine_type
        with translate_errors("cannot read the hypervisor's type"):
            self._log_dir = _QEMU_LOG_DIR if conn.getType() == "QEMU" and conn.getURI().endswith("/system") else None
        self._known_capabilities: dict[str | None, etree._Element | None] = {}

    def platform(self, machine: Machine, where: str = "") -> GuestPlatform:
        """The platform of one machine; its own spec first.

        Raises UnsupportedError when the hypervisor cannot run a machine like this, with the place of the option.
        """
        own = machine.machine_type or self._default_machine_type
        wanted = own or ("q35" if "q35" in self.machine_types else None)
        if wanted and wanted not in self.machine_types:
            raise UnsupportedError(
                f"this hypervisor has no machine type {wanted!r}",
                where=inside(where, "machine_type") if machine.machine_type else "default_machine_type",
                hint=one_of_these(wanted, self.machine_types),
            )
        self.check(machine, wanted, where)
        cpu = self._cpu_of_new(machine, self._capabilities(wanted))
        _check_mode_of_new(machine, cpu, where)
        return GuestPlatform(
            domain_type=self.domain_type,
            arch=self.arch,
            machine_type=wanted,
            cpu=cpu,
            serial_log_dir=self._log_dir,
        )

    def check(self, machine: Machine, machine_type: str | None, where: str = "") -> None:
        """Raise UnsupportedError when a machine of this type, be it there already, cannot get what the spec has."""
        capabilities = self._capabilities(machine_type)
        if capabilities is not None:
            check_capabilities(machine, capabilities, where)
        self._check_watchdog(machine, machine_type, where)

    def _check_watchdog(self, machine: Machine, machine_type: str | None, where: str) -> None:
        watchdog = machine.hardware.get("watchdog")
        if not isinstance(watchdog, Mapping) or watchdog.get("model") != _ITCO:
            return
        place, hint = inside(where, "watchdog.model"), "Take i6300esb, or leave model out"
        if self._conn.getLibVersion() < ITCO_SINCE:
            raise UnsupportedError("libvirt on this hypervisor is too old for itco", where=place, hint=hint)
        if machine_type is not None and "q35" not in machine_type:
            raise UnsupportedError("only machines of type q35 have an itco", where=place, hint=hint)

    def _cpu_of_new(self, machine: Machine, capabilities: etree._Element | None) -> Values:
        """The CPU of a new machine that does not say it."""
        if not self._default_cpu:
            return self._best_cpu(capabilities)
        if capabilities is not None and not {"mode", "model"}.intersection(machine.hardware.get("cpu", {})):
            check_cpu(self._default_cpu, capabilities, "default_cpu")
        return self._default_cpu

    def _best_cpu(self, capabilities: etree._Element | None) -> Values:
        """The CPU of a machine that does not say it: the host's own with KVM.

        Without KVM, a model that today's distributions still run on (x86-64-v2) and that costs little to emulate: all
        that the emulator could do (``maximum``) made a Debian boot a third slower. Its own default is older than that.
        """
        if capabilities is None:
            return {}
        modes = {mode.get("name") for mode in capabilities.iterfind("cpu/mode[@supported='yes']")}
        usable = {m.text for m in capabilities.iterfind("cpu/mode[@name='custom']/model[@usable='yes']")}
        if self.emulated and _EMULATED_CPU in usable:
            return {"mode": "custom", "match": "exact", "model": _EMULATED_CPU}
        preferred = ("maximum",) if self.emulated else ("host-model", "host-passthrough")
        mode = next((mode for mode in preferred if mode in modes), None)
        return {"mode": mode} if mode else {}

    def _capabilities(self, machine_type: str | None) -> etree._Element | None:
        """What libvirt can do with a machine type (https://libvirt.org/formatdomaincaps.html), asked once for each."""
        if machine_type not in self._known_capabilities:
            try:
                found = self._conn.getDomainCapabilities(None, self.arch, machine_type, self.domain_type, 0)
            except libvirt.libvirtError:
                # A driver without domain capabilities (test:///) has nothing to choose from.
                self._known_capabilities[machine_type] = None
            else:
                self._known_capabilities[machine_type] = read_description("what the hypervisor can do", found)
        return self._known_capabilities[machine_type]


def _check_mode_of_new(machine: Machine, cpu: Values, where: str) -> None:
    """Where the task names no mode of the CPU, it is known only here."""
    asked = machine.hardware.get("cpu", {})
    key = only_of_host_modes(asked)
    if key is not None and "mode" not in asked and cpu.get("mode") not in HOST_MODES and machine.xml is None:
        raise UnsupportedError(
            f"a CPU of mode {cpu.get('mode', 'custom')}, which new machines have on this hypervisor, cannot have this",
            where=inside(where, f"cpu.{key}"),
            hint=f"Set mode: {HOST_MODES[0]}, or leave it out",
        )
