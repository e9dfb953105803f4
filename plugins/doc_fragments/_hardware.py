# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of options of a machine, written by tests/gate/options.py from the field tables and docs/options."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  vcpus:
    description:
      - Number of virtual CPUs, or a mapping. A new machine must have this option; unchanged if not given. A running
        machine can get more of them, up to C(maximum), by hotplug.
    type: raw
    suboptions:
      maximum:
        description:
          - How many the machine can have. The default is C(current). From 1 to 4096.
        type: int
      current:
        description:
          - How many the machine starts with. The default is C(maximum). From 1 to 4096.
        type: int
      cpuset:
        description:
          - The CPUs of the hypervisor that they run on, such as V(0-3,8).
        type: str
      placement:
        description:
          - V(auto) leaves the choice of the hypervisor's CPUs to numad.
        type: str
        choices: [static, auto]
  memory:
    description:
      - Memory as a whole number of MiB, or with a unit such as V(512MiB) or V(2GiB). Or a mapping, in which sizes are
        written in the same way. A new machine must have this option; unchanged if not given.
    type: raw
    aliases: [mem]
    suboptions:
      maximum:
        description:
          - How much the machine can have while it runs, without memory hotplug. The default is C(current).
        type: str
      current:
        description:
          - How much the machine has now. It can change while the machine runs. The default is C(maximum).
        type: str
      max:
        description:
          - The limit for memory hotplug, which needs C(numa) of O(cpu).
        type: str
      slots:
        description:
          - How many memory modules can be plugged in. It needs C(max), with which the default is 16. From 1 to 256.
        type: int
      hard_limit:
        description:
          - The most memory that the QEMU process may use on the hypervisor.
        type: str
      soft_limit:
        description:
          - The most memory that the QEMU process may use while the hypervisor is short of memory.
        type: str
      swap_hard_limit:
        description:
          - The most memory and swap together that the QEMU process may use. No less than C(hard_limit).
        type: str
      min_guarantee:
        description:
          - The least memory that is guaranteed. QEMU does not support it.
        type: str
      hugepages:
        description:
          - V(true) for huge pages of the hypervisor's default size; or a list of sizes, or of mappings.
        type: raw
        suboptions:
          size:
            description:
              - Size of the pages, such as V(2MiB) or V(1GiB).
            type: str
            required: true
          nodeset:
            description:
              - The NUMA nodes of the machine that get them, such as V(0,2-3). All of them by default.
            type: str
      nosharepages:
        description:
          - Whether the hypervisor must not merge pages of this machine with equal ones of others (KSM).
        type: bool
      locked:
        description:
          - Whether the memory must not be swapped out. Set C(hard_limit) too.
        type: bool
      discard:
        description:
          - Whether the content of the memory is discarded just before the machine stops.
        type: bool
      source:
        description:
          - What the memory is backed by, as in libvirt.
        type: str
        choices: [file, anonymous, memfd]
      access:
        description:
          - Whether other processes may map the memory; V(shared) is what vhost-user needs.
        type: str
        choices: [shared, private]
      allocation:
        description:
          - Whether all of it is allocated when the machine starts, or on demand.
        type: str
        choices: [immediate, ondemand]
      boot:
        description:
          - Salt's name for C(maximum).
        type: str
  cpu:
    description:
      - The CPU, a mapping. A plain number is taken as O(vcpus), as in Salt, and so are the keys C(current), C(maximum),
        C(cpuset) and C(placement). A plain string is taken as the mode.
    type: raw
    suboptions:
      mode:
        description:
          - How the CPU is chosen, as in libvirt.
          - The default with KVM is V(host-model), without KVM a model of the level x86-64-v2, which is quick to
            emulate; an image that needs more, such as those of RHEL 10, needs V(maximum) there.
        type: str
        choices: [host-model, host-passthrough, maximum, custom]
      model:
        description:
          - Name of a CPU model, such as V(EPYC-Rome). It makes the mode V(custom).
        type: str
      fallback:
        description:
          - Whether the nearest model may be used if the hypervisor cannot offer C(model).
        type: str
        choices: [allow, forbid]
      vendor:
        description:
          - The vendor that the CPU of the hypervisor must have.
        type: str
      check:
        description:
          - How strictly libvirt checks, before the machine starts, that it gets the requested CPU; V(none) not at all.
        type: str
        choices: [none, partial, full]
      match:
        description:
          - How exactly the CPU of the hypervisor must match C(model) and C(features), as in libvirt.
        type: str
        choices: [minimum, exact, strict]
      migratable:
        description:
          - For V(host-passthrough), whether features that prevent migration are left out.
        type: bool
      topology:
        description:
          - Sockets, cores and threads as the machine sees them. Their product must be the maximum of O(vcpus). What is
            not given is 1.
        type: dict
        suboptions:
          sockets:
            description:
              - Number of sockets. From 1 to 4096.
            type: int
          dies:
            description:
              - Number of dies in a socket. From 1 to 4096.
            type: int
          cores:
            description:
              - Number of cores in a die. From 1 to 4096.
            type: int
          threads:
            description:
              - Number of threads in a core. From 1 to 4096.
            type: int
      features:
        description:
          - Features of the CPU; a list of names, which are then required, or a mapping.
        type: raw
        suboptions:
          NAME:
            description:
              - What to do with the feature of this name, such as C(vmx), as in libvirt.
            type: str
            choices: [force, require, optional, disable, forbid]
      cache:
        description:
          - The CPU cache that the machine sees.
        type: dict
        suboptions:
          level:
            description:
              - The level of the cache. An emulated one has level 3, which need not be given, and the other modes have
                none. From 1 to 3.
            type: int
          mode:
            description:
              - Whether it is emulated, the hypervisor's own, or none.
            type: str
            required: true
            choices: [emulate, passthrough, disable]
      numa:
        description:
          - NUMA cells of the machine.
        type: list
        elements: dict
        suboptions:
          id:
            description:
              - Number of the cell. The cells are numbered from 0 without a gap, by default in the order of the list.
                From 0 to 65535.
            type: int
          cpus:
            description:
              - The virtual CPUs in it, such as V(0-3).
            type: str
          memory:
            description:
              - Its memory, as in O(memory).
            type: str
            required: true
          access:
            description:
              - Whether other processes may map its memory.
            type: str
            choices: [shared, private]
          discard:
            description:
              - Whether the content of its memory is discarded just before the machine stops.
            type: bool
          distances:
            description:
              - Distances to other cells.
            type: dict
            suboptions:
              ID:
                description:
                  - Distance to the cell of this number. It is 10 to the cell itself, and more to another. From 10 to
                    255.
                type: int
      tuning:
        description:
          - How much time of the hypervisor's CPUs the machine gets, and on which of them it runs.
        type: dict
        suboptions:
          shares:
            description:
              - Its weight against other machines. A machine with 2048 gets twice the time of one with 1024. From 2 to
                262144.
            type: int
          period:
            description:
              - The period that C(quota) refers to, for each virtual CPU, in microseconds. From 1000 to 1000000.
            type: int
          quota:
            description:
              - Microseconds that each virtual CPU may run in a period, 1000 at least. V(-1) means no limit.
            type: int
          global_period:
            description:
              - The period that C(global_quota) refers to, for the whole machine, in microseconds. From 1000 to 1000000.
            type: int
          global_quota:
            description:
              - Microseconds that the whole machine may run in a period, 1000 at least. V(-1) means no limit.
            type: int
          emulator_period:
            description:
              - The period that C(emulator_quota) refers to, for QEMU's own threads, in microseconds. From 1000 to
                1000000.
            type: int
          emulator_quota:
            description:
              - Microseconds that QEMU's own threads may run in a period, 1000 at least. V(-1) means no limit.
            type: int
          iothread_period:
            description:
              - The period that C(iothread_quota) refers to, for each I/O thread, in microseconds. From 1000 to 1000000.
            type: int
          iothread_quota:
            description:
              - Microseconds that each I/O thread may run in a period, 1000 at least. V(-1) means no limit.
            type: int
          vcpupin:
            description:
              - Pins virtual CPUs.
            type: dict
            suboptions:
              VCPU:
                description:
                  - The CPUs of the hypervisor that the virtual CPU of this number runs on, such as V(2-3).
                type: str
          emulatorpin:
            description:
              - The CPUs of the hypervisor that QEMU's own threads run on.
            type: str
          iothreadpin:
            description:
              - Pins I/O threads.
            type: dict
            suboptions:
              IOTHREAD:
                description:
                  - The CPUs of the hypervisor that the I/O thread of this number runs on. The first one is 1.
                type: str
          vcpusched:
            description:
              - Schedulers of virtual CPUs.
            type: list
            elements: dict
            suboptions:
              vcpus:
                description:
                  - The virtual CPUs, such as V(0-1).
                type: str
                required: true
              scheduler:
                description:
                  - The scheduler. V(fifo) and V(rr) are real-time schedulers.
                type: str
                required: true
                choices: [batch, idle, fifo, rr]
              priority:
                description:
                  - The priority, which real-time schedulers need and others do not have. From 1 to 99.
                type: int
      iothreads:
        description:
          - Number of I/O threads, for C(iothread) of O(disks). From 1 to 4096.
        type: int
  cpu_mode:
    description:
      - A shorthand for C(mode) of O(cpu).
    type: str
    choices: [host-model, host-passthrough, maximum]
  numatune:
    description:
      - Which NUMA nodes of the hypervisor the memory comes from.
    type: dict
    suboptions:
      memory:
        description:
          - Where the memory of the whole machine comes from. It needs C(nodeset), or C(placement=auto).
        type: dict
        suboptions:
          mode:
            description:
              - How strictly the nodes are kept to, as in libvirt. The default is V(strict).
            type: str
            choices: [interleave, strict, preferred, restrictive]
          nodeset:
            description:
              - The nodes of the hypervisor, such as V(0-1).
            type: str
          placement:
            description:
              - V(auto) leaves the choice to numad.
            type: str
            choices: [static, auto]
      memnodes:
        description:
          - Where the memory of single NUMA cells of the machine comes from, by their numbers.
        type: dict
        suboptions:
          CELL:
            description:
              - The cell of this number.
            type: dict
            suboptions:
              mode:
                description:
                  - How strictly the nodes are kept to, as in libvirt.
                type: str
                required: true
                choices: [interleave, strict, preferred, restrictive]
              nodeset:
                description:
                  - The nodes of the hypervisor, such as V(0-1).
                type: str
                required: true
  features:
    description:
      - Features of the platform to turn on or off.
    type: dict
    aliases: [hypervisor_features]
    suboptions:
      acpi:
        description:
          - ACPI, without which the guest ignores a shutdown.
        type: bool
      apic:
        description:
          - APIC.
        type: bool
      pae:
        description:
          - Physical address extension.
        type: bool
      kvm-hidden:
        description:
          - Whether KVM is hidden from the guest.
        type: bool
      kvm-hint-dedicated:
        description:
          - Tells the guest that its virtual CPUs have physical ones of their own.
        type: bool
      pmu:
        description:
          - The performance counters of the CPU.
        type: bool
      smm:
        description:
          - System management mode, which secure boot needs.
        type: bool
      vmport:
        description:
          - VMware's I/O port.
        type: bool
      hyperv:
        description:
          - Hyper-V's features, which Windows makes use of.
        type: dict
        suboptions:
          relaxed:
            description:
              - Relaxed checks of timeouts, as suits a virtual machine.
            type: bool
          vapic:
            description:
              - A virtual APIC.
            type: bool
          vpindex:
            description:
              - An index of the virtual CPU that the guest can read.
            type: bool
          runtime:
            description:
              - The time that a virtual CPU has run, which the guest can read.
            type: bool
          synic:
            description:
              - The synthetic interrupt controller.
            type: bool
          stimer:
            description:
              - Synthetic timers.
            type: bool
          reset:
            description:
              - A way for the guest to reset itself through the hypervisor.
            type: bool
          frequencies:
            description:
              - Registers with the frequencies of TSC and APIC.
            type: bool
          reenlightenment:
            description:
              - Notification of a changed TSC frequency after a migration.
            type: bool
          tlbflush:
            description:
              - Flushing of TLBs by the hypervisor.
            type: bool
          ipi:
            description:
              - Interrupts between virtual CPUs by the hypervisor.
            type: bool
          evmcs:
            description:
              - The enlightened VMCS, for nested machines on Intel CPUs.
            type: bool
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
        firmware has no secure boot. Unless given, the hypervisor chooses.
    type: bool
  tpm:
    description:
      - A TPM, emulated by swtpm. V(true), or a version, or a mapping. V(false) means none, which is the default for a
        new machine.
    type: raw
    suboptions:
      model:
        description:
          - The interface of the TPM. V(tpm-crb) has no version V(1.2), with which the default is V(tpm-tis).
        type: str
        default: tpm-crb
        choices: [tpm-crb, tpm-tis]
      version:
        description:
          - The version of the TPM. Only that of an emulated one can be chosen.
        type: str
        default: "2.0"
        choices: ["1.2", "2.0"]
  boot:
    description:
      - What the machine boots from.
    type: dict
    suboptions:
      devices:
        description:
          - Kinds of devices in the order to try them, instead of C(boot_order) of single disks and nics; without
            either, the disks in their order.
        type: list
        elements: str
        choices: [hd, cdrom, network, fd]
      menu:
        description:
          - Whether there is a boot menu.
        type: bool
      kernel:
        description:
          - Path of a kernel on the hypervisor that is booted directly.
        type: str
      initrd:
        description:
          - Path of the initial RAM disk of this kernel, on the hypervisor.
        type: str
      cmdline:
        description:
          - The command line of this kernel.
        type: str
  clock:
    description:
      - The clock. A plain string is taken as the offset.
    type: raw
    suboptions:
      offset:
        description:
          - What the clock is set to when the machine starts, as in libvirt. The default for a new machine is V(utc).
        type: str
        choices: [utc, localtime, timezone, variable]
      timezone:
        description:
          - The time zone of the clock, such as V(Europe/Vienna). It makes the offset V(timezone), which needs it.
        type: str
      adjustment:
        description:
          - Difference from the offset in seconds; not with a time zone. Or V(reset), for V(utc) and V(localtime), with
            which changes that the guest makes to its clock are forgotten at each start.
        type: str
      timers:
        description:
          - Timers that the machine has, by their names.
        type: dict
        suboptions:
          NAME:
            description:
              - The timer of this name, as a mapping; V(true) and V(false) say whether there is one.
              - C(NAME) is one of V(pit), V(rtc), V(hpet), V(tsc), V(kvmclock), V(hypervclock), V(armvtimer).
            type: raw
            suboptions:
              present:
                description:
                  - Whether there is one.
                type: bool
              tickpolicy:
                description:
                  - What happens to ticks that could not be delivered in time, as in libvirt.
                type: str
                choices: [delay, catchup, merge, discard]
              track:
                description:
                  - What the timer tracks, for V(rtc).
                type: str
                choices: [guest, wall, realtime]
              frequency:
                description:
                  - Frequency in Hz, for V(tsc).
                type: int
              mode:
                description:
                  - How it is implemented, for V(tsc), as in libvirt.
                type: str
                choices: [auto, native, emulate, paravirt, smpsafe]
              threshold:
                description:
                  - For C(tickpolicy=catchup), libvirt's C(threshold). From 0 to 65535.
                type: int
              slew:
                description:
                  - For C(tickpolicy=catchup), libvirt's C(slew). From 0 to 65535.
                type: int
              limit:
                description:
                  - For C(tickpolicy=catchup), libvirt's C(limit). From 0 to 65535.
                type: int
      utc:
        description:
          - Salt's word. V(true) is C(offset=utc), V(false) is C(offset=localtime).
        type: bool
  events:
    description:
      - What happens to the machine when it powers itself off, reboots or crashes. V(destroy) stops it, V(restart)
        starts it again. After a crash, V(preserve) keeps its resources so that it can be examined, and
        V(coredump-destroy) and V(coredump-restart) write a core dump first. QEMU knows of a guest's crash only by a
        panic device, which C(xml) can add.
    type: dict
    suboptions:
      poweroff:
        description:
          - What happens when the guest powers off.
        type: str
        default: destroy
        choices: [destroy, restart]
      reboot:
        description:
          - What happens when the guest reboots.
        type: str
        default: restart
        choices: [destroy, restart]
      crash:
        description:
          - What happens when the guest crashes.
        type: str
        default: destroy
        choices: [destroy, restart, preserve, coredump-destroy, coredump-restart]
  serials:
    description:
      - The serial devices, instead of the one that every machine has by default, which is logged on the hypervisor.
      - A list of mappings; a plain string is the type of one. There are at most four of C(target_type=isa-serial),
        which they are unless they have another one.
    type: raw
    suboptions:
      type:
        description:
          - What it is connected to. The default is V(tcp) if there is a C(port), V(unix) if there is a C(path), else
            V(pty).
        type: str
        choices: [pty, tcp, udp, unix, file, "null", dev]
      host:
        description:
          - Address to listen on, or to connect to. The default is V(127.0.0.1), but for V(udp) with C(mode=connect)
            there is none.
        type: str
      port:
        description:
          - Port, for V(tcp) and V(udp). From 1 to 65535.
        type: int
      mode:
        description:
          - Whether it listens (V(bind), the default for V(tcp) and V(unix)) or connects.
        type: str
        choices: [bind, connect]
      path:
        description:
          - Path on the hypervisor, for V(unix), V(file) and V(dev).
        type: str
      tls:
        description:
          - Whether V(tcp) is encrypted.
        type: bool
      protocol:
        description:
          - Protocol that is spoken over V(tcp).
        type: str
        choices: [raw, telnet, telnets, tls]
      log:
        description:
          - Path of a file on the hypervisor that its output is logged to.
        type: str
      target_port:
        description:
          - Number of the port that the machine sees. From 0 to 65535.
        type: int
      target_type:
        description:
          - Kind of device that the machine sees.
        type: str
        choices: [isa-serial, usb-serial, pci-serial, spapr-vio-serial, system-serial, sclp-serial]
  consoles:
    description:
      - The consoles, instead of the one on the first serial device; in the same format as O(serials).
      - An empty list leaves that one, as libvirt ties it to its serial device. An empty list of O(serials) removes
        both.
      - The first one is the first serial device, and what it is connected to is said in O(serials), unless it has a
        C(target_type) of its own, such as V(virtio). libvirt numbers those that have one in their order, and
        C(target_port) does not change that.
    type: raw
    suboptions:
      type:
        description:
          - What it is connected to. The default is V(tcp) if there is a C(port), V(unix) if there is a C(path), else
            V(pty).
        type: str
        choices: [pty, tcp, udp, unix, file, "null", dev]
      host:
        description:
          - Address to listen on, or to connect to. The default is V(127.0.0.1), but for V(udp) with C(mode=connect)
            there is none.
        type: str
      port:
        description:
          - Port, for V(tcp) and V(udp). From 1 to 65535.
        type: int
      mode:
        description:
          - Whether it listens (V(bind), the default for V(tcp) and V(unix)) or connects.
        type: str
        choices: [bind, connect]
      path:
        description:
          - Path on the hypervisor, for V(unix), V(file) and V(dev).
        type: str
      tls:
        description:
          - Whether V(tcp) is encrypted.
        type: bool
      protocol:
        description:
          - Protocol that is spoken over V(tcp).
        type: str
        choices: [raw, telnet, telnets, tls]
      log:
        description:
          - Path of a file on the hypervisor that its output is logged to.
        type: str
      target_port:
        description:
          - Number of the port that the machine sees. From 0 to 65535.
        type: int
      target_type:
        description:
          - Kind of device that the machine sees.
        type: str
        choices: [serial, virtio, sclp, sclplm, xen]
  graphics:
    description:
      - V(vnc) or V(spice) for a graphical console, V(none) for none, which is the default for a new machine. Or a
        mapping.
      - The password is stored in the machine's definition on the hypervisor. It can be changed while the machine runs.
      - If somebody has given a machine several consoles, this is the first. A warning names the others, which stay as
        they are; with V(none) all of them are removed.
    type: raw
    suboptions:
      type:
        description:
          - The protocol.
        type: str
        default: vnc
        choices: [none, vnc, spice]
      listen:
        description:
          - The address to listen on, in place of a network or a socket that a machine made by other means listens on.
        type: str
        default: 127.0.0.1
      port:
        description:
          - The port, from 1 to 65535. By default the next free one.
        type: int
      tls_port:
        description:
          - The port for encrypted connections, for V(spice). From 1 to 65535.
        type: int
      websocket:
        description:
          - The port for WebSocket connections, for V(vnc). V(-1) takes the next free one. From -1 to 65535.
        type: int
      password:
        description:
          - The password. With V(vnc) it has at most 8 characters, as VNC uses no more.
        type: str
      tls:
        description:
          - For V(spice), whether unencrypted connections are refused. TLS for VNC is a setting of the hypervisor.
        type: bool
  video:
    description:
      - The video device, a model or a mapping. By default there is one of model virtio if the machine has O(graphics).
    type: raw
    suboptions:
      model:
        description:
          - Its model.
        type: str
        default: virtio
        choices: [virtio, vga, qxl, cirrus, bochs, ramfb, none]
      vram:
        description:
          - Its memory in KiB, 1024 at least, which is rounded up to a power of two. Without it, libvirt chooses.
        type: int
      heads:
        description:
          - Number of screens. Without it, libvirt chooses. From 1 to 16.
        type: int
  rng:
    description:
      - The random number generator. V(true) (the default for a new machine), V(false), the source, or a mapping.
    type: raw
    suboptions:
      model:
        description:
          - Its model.
        type: str
        default: virtio
        choices: [virtio, virtio-transitional, virtio-non-transitional]
      source:
        description:
          - The hypervisor's device that the random numbers come from.
        type: str
        default: /dev/urandom
      bytes:
        description:
          - The most bytes that the machine may take in a C(period). Without it there is no limit.
        type: int
      period:
        description:
          - The period in milliseconds, libvirt's default is 1000. It needs C(bytes).
        type: int
  watchdog:
    description:
      - A watchdog, as its action or as a mapping. V(none) means no watchdog, which is the default for a new machine.
      - libvirt 9.1 and newer give each machine of type q35 an C(itco), which does nothing unless the guest uses it. It
        is there alongside the one of this option, with the same action, and alone with V(none).
    type: raw
    suboptions:
      model:
        description:
          - Its model. The default is V(i6300esb). V(itco) is that of type q35, with libvirt 9.1 or newer.
        type: str
        default: i6300esb
        choices: [itco, i6300esb, ib700]
      action:
        description:
          - What happens when the machine does not reset it in time.
        type: str
        default: reset
        choices: [reset, shutdown, poweroff, pause, dump, inject-nmi]
  shared_folders:
    description:
      - Directories of the hypervisor that the machine can mount with virtiofs. The machine's memory becomes shared with
        virtiofsd on the hypervisor.
    type: list
    elements: dict
    suboptions:
      source:
        description:
          - The path on the hypervisor.
        type: str
        required: true
      tag:
        description:
          - The name that the machine mounts it by.
        type: str
        required: true
      readonly:
        description:
          - Whether the machine may only read it.
        type: bool
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
