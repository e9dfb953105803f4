# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the options that describe a machine beyond its disks and nics."""

from __future__ import annotations


class ModuleDocFragment:
    """The options of module_utils/_model/spec/hardware/description.py."""

    DOCUMENTATION = r"""
options:
  vcpus:
    description:
      - Number of virtual CPUs.
      - Or a mapping with C(maximum), C(current) (what the machine starts with), C(cpuset) (the CPUs of the hypervisor
        that they run on) and C(placement). A running machine can get more of them, up to C(maximum), by hotplug.
    type: raw
  memory:
    description:
      - Memory as a whole number of MiB, or with a unit such as V(512MiB) or V(2GiB).
      - Or a mapping with C(maximum) (Salt's C(boot)) and C(current), which can change while the machine runs; C(max)
        and C(slots), the limits for memory hotplug (which needs C(numa) of O(cpu)); the limits C(hard_limit),
        C(soft_limit), C(swap_hard_limit) and C(min_guarantee); C(hugepages), V(true) or a list of sizes or of mappings
        with C(size) and C(nodeset); C(nosharepages), C(locked), C(discard); C(source) (V(file), V(anonymous),
        V(memfd)), C(access) (V(shared), V(private)) and C(allocation) (V(immediate), V(ondemand)).
    type: raw
    aliases: [mem]
  cpu:
    description:
      - The CPU, a mapping. A plain number is taken as O(vcpus), as in Salt, and so are the keys C(current), C(maximum),
        C(cpuset) and C(placement).
      - C(mode), V(host-model), V(host-passthrough), V(maximum) or V(custom); a plain string is taken as the mode. The
        default is V(host-model) with KVM. Without KVM it is a model of the level x86-64-v2, which is quick to emulate;
        an image that needs more, such as those of RHEL 10, needs V(maximum) there.
      - C(model), which makes the mode V(custom), with C(fallback), C(vendor), C(match) and C(check).
      - C(migratable), for V(host-passthrough).
      - C(features), a list of names, or a mapping from names to V(require), V(disable), V(optional), V(force) or
        V(forbid).
      - C(topology), with C(sockets), C(dies), C(cores) and C(threads), whose product is the maximum of O(vcpus).
      - C(cache), with C(mode) and C(level).
      - C(numa), a list of cells with C(cpus), C(memory), C(access), C(discard) and C(distances).
      - C(tuning), with C(shares), C(period), C(quota) (and both with C(global_), C(emulator_) and C(iothread_)),
        C(vcpupin) and C(iothreadpin) (mappings from a number to CPUs of the hypervisor), C(emulatorpin), and
        C(vcpusched), a list of mappings with C(vcpus), C(scheduler) and C(priority).
      - C(iothreads), the number of I/O threads.
    type: raw
  cpu_mode:
    description: A shorthand for C(mode) of O(cpu).
    type: str
    choices: [host-model, host-passthrough, maximum]
  numatune:
    description:
      - Which NUMA nodes of the hypervisor the memory comes from. C(memory), with C(mode) and C(nodeset), or
        C(placement=auto), which leaves the choice to numad; C(memnodes), a mapping from the number of a cell to C(mode)
        and C(nodeset).
    type: dict
  features:
    description:
      - Features of the platform to turn on or off. C(acpi), C(apic), C(pae), C(pmu), C(smm), C(vmport), C(kvm-hidden),
        C(kvm-hint-dedicated), and C(hyperv), a mapping of Hyper-V's features by name.
    type: dict
    aliases: [hypervisor_features]
  machine_type:
    description:
      - QEMU's machine type. The default is q35 where the hypervisor has it. It cannot be changed for an existing
        machine.
    type: str
  firmware:
    description:
      - Firmware, V(bios) for a new machine if not given. It cannot be changed for an existing machine.
    type: str
    choices: [bios, efi]
  secure_boot:
    description:
      - Secure boot, with the keys that distributions are signed with. It implies V(firmware=efi). With V(false) the
        firmware has no secure boot.
    type: bool
  tpm:
    description:
      - A TPM, emulated by swtpm. V(true), or a version, or a mapping with C(version) (V(2.0) by default) and C(model).
    type: raw
  boot:
    description:
      - What the machine boots from. C(devices), a list of V(hd), V(cdrom), V(network) and V(fd) in the order to try
        them, instead of C(boot_order) of single disks and nics; without either, the disks in their order. C(menu),
        whether there is a boot menu.
      - C(kernel) and C(initrd), files on the hypervisor that it boots directly, and C(cmdline), the kernel's command
        line.
    type: dict
  clock:
    description:
      - The clock. C(offset), V(utc) (default), V(localtime), V(timezone) or V(variable); a plain string is taken as the
        offset; C(timezone); C(adjustment); C(utc), as in Salt.
      - C(timers), a mapping from a timer's name to C(present), C(tickpolicy), C(track), C(frequency), C(mode),
        C(threshold), C(slew) and C(limit), or to V(false) for none.
    type: raw
  events:
    description:
      - What happens on C(poweroff) (V(destroy) by default), C(reboot) (V(restart)) and C(crash) (V(destroy)). Each is
        V(destroy), V(restart), V(preserve) or V(rename-restart), C(crash) also V(coredump-destroy) or
        V(coredump-restart).
    type: dict
  serials:
    description:
      - The serial devices, instead of the one that every machine has by default, which is logged on the hypervisor.
      - A list of mappings with C(type) (V(pty), V(tcp), V(udp), V(unix), V(file), V(null), V(dev)), C(host)
        (V(127.0.0.1) by default), C(port), C(mode) (V(bind), V(connect)), C(path), C(tls), C(protocol), C(log),
        C(target_port) and C(target_type).
    type: raw
  consoles:
    description: The consoles, instead of the one on the first serial device; in the same format as O(serials).
    type: raw
  graphics:
    description:
      - V(vnc) or V(spice) for a graphical console, V(none) for none, which is the default for a new machine.
      - Or a mapping with C(type); C(listen), by default V(127.0.0.1); C(port), by default the next free one;
        C(password); C(websocket) (V(vnc)); C(tls), which refuses unencrypted connections, and C(tls_port) (V(spice)).
        TLS for VNC is a setting of the hypervisor.
      - The password is stored in the machine's definition on the hypervisor. It can be changed while the machine runs.
    type: raw
  video:
    description:
      - The video device, a model or a mapping with C(model), C(vram) (in KiB) and C(heads). By default there is one of
        model virtio if the machine has O(graphics).
    type: raw
  rng:
    description:
      - The random number generator. V(true) (the default for a new machine), V(false), or a mapping with C(source),
        C(model), C(bytes) and C(period).
    type: raw
  watchdog:
    description:
      - A watchdog, its action (V(reset), V(shutdown), V(poweroff), V(pause), V(dump), V(inject-nmi)) or a mapping with
        C(action) and C(model). V(none) means no watchdog.
    type: raw
  shared_folders:
    description:
      - Directories of the hypervisor that the machine can mount with virtiofs. A list of mappings with C(source), the
        path, and C(tag), the name that the machine mounts it by. The machine's memory becomes shared with virtiofsd on
        the hypervisor.
    type: list
    elements: dict
  host_devices:
    description:
      - Devices of the hypervisor that are passed through to the machine. C(0000:03:00.0) for a PCI device, C(046d:c52b)
        for a USB device.
    type: list
    elements: str
  xml:
    description:
      - A fragment of libvirt's domain XML for anything that has no option, one or more elements as they occur inside
        C(<domain>). Elements inside C(<devices>) are added, others are merged with those of the same name.
      - The result is checked against libvirt's schema before anything is changed. A changed fragment is merged over the
        earlier one; what the earlier one added stays.
      - A writable disk in it is refused if its file is used by anything else, as with C(source) of O(disks).
    type: str
"""
