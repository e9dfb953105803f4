# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of options of a machine, written by tests/gate/options.py from the field tables and docs/options."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  disks:
    description:
      - Disks of this machine, merged by name over those of the profile. A disk gives only the keys that it changes; one
        with a new name is added, also to an existing machine, and while it runs.
      - A key that is null is unset, as if the profile did not have it.
      - Either a list of mappings with C(name), or a list of mappings from the name to the keys, or one such mapping.
      - The defaults are those of a new disk. An existing one keeps what the task does not mention.
      - To rename a disk, remove it under the old name and give its volume as C(source) under the new one, in the same
        task.
    type: raw
    suboptions:
      size:
        description:
          - Size as a whole number of MiB, or with a unit such as V(512MiB) or V(20GiB); no less than the image's.
            Without it a disk is as large as its image, or as what it is backed by. A new disk that has neither must
            have a size, and a disk with C(source) must not. A part of a MiB is rounded up to a whole one, and V(20G) is
            20 GiB too.
          - An existing disk can grow, also while the machine runs, but never shrinks. A disk on a volume that was not
            created for the machine does not grow if it is C(readonly), or if anything else uses it.
        type: str
      format:
        description:
          - The default is V(qcow2) in pools of files, V(raw) in others.
          - It is stored with the machine. The contents of the disk, which the guest can write, never change it.
          - For a volume in C(source), the default is the format in which the machines of this hypervisor use it, or in
            which this collection created it for them. For a volume that no machine knows, set it. Without it, the
            extension of the volume's name (C(.qcow2), C(.raw), C(.iso)) and its first bytes must agree, because a guest
            may have written the latter. Such a qcow2 volume is refused if it refers to a file that is not a volume of a
            storage pool, or to one that a machine writes to, or if it keeps its data in another file.
        type: str
        choices: [qcow2, raw]
      model:
        description:
          - The bus. The default is V(virtio), for a C(cdrom) V(sata), and for a C(floppy) V(fdc). An existing disk
            keeps the one that it has.
        type: str
        choices: [virtio, scsi, sata, usb, fdc]
      pool:
        description:
          - Name of the storage pool. It must exist.
        type: str
        default: default
      image:
        description:
          - The disk's own image. Only the first disk gets the machine's O(image). A disk that is V(absent) does not
            count as the first.
        type: str
      clone:
        description:
          - How the disk is created from its image. The default is O(clone).
        type: str
        choices: [overlay, copy]
      wipe:
        description:
          - Whether a new volume in a pool of type C(logical) is filled with zeros, apart from what its image fills. LVM
            does not do that, and the machine could read what a deleted volume had in the same place.
          - It writes the whole volume, unless the device can do it by itself; a disk of 1 TiB on hard disks takes
            hours. V(false) is for volume groups in which no machine may have had anything that others must not read.
            Volumes in other pools read as zeros anyway.
        type: bool
        default: true
      backing:
        description:
          - An existing volume that backs the disk, which is an overlay; its name, or a mapping.
          - It is refused if anything writes to it or may do so later, or if it is not of the given format. In a pool
            that other hypervisors may see as well, these are not asked.
        type: raw
        aliases: [backing_store_path]
        suboptions:
          volume:
            description:
              - Name of the volume.
            type: str
            required: true
          pool:
            description:
              - Its storage pool. The default is the C(pool) of the disk.
            type: str
          format:
            description:
              - Its format. The default is determined in the same way as for C(source), see C(format) of the disk.
            type: str
            choices: [qcow2, raw]
      source:
        description:
          - An existing volume in C(pool) that is used as it is, by its name or its path; for a C(cdrom) also a URL.
            V(none) empties a drive.
          - It is refused if anything else uses it, by whatever name and in whatever pool. That is a machine (also in
            its saved state, a snapshot, a checkpoint or a backup), another disk of this task, or an overlay. It is also
            refused if that cannot be determined, as with a pool that is not active. So is an image in the store, unless
            the disk is C(readonly), because it is never written to.
          - In a pool that other hypervisors may see as well (Ceph, iSCSI, NFS), a disk that alone writes to the volume
            gets it only if these were asked, and nothing there uses it. P(brine.virt.virt_provision#role) asks them;
            for M(brine.virt.virt_init), C(used_elsewhere) says what they answered. For C(shareable) they are not asked.
          - Two disks of a task may share a volume if both have C(shareable) or C(readonly). A disk with one of these,
            or a C(cdrom), may also share a volume with existing machines. The same is checked when an existing disk is
            no longer to be C(readonly) or C(shareable).
        type: str
        aliases: [source_file]
      device:
        description:
          - What kind of device the machine sees, as in libvirt. A V(lun) passes SCSI commands through, and needs
            C(source).
        type: str
        default: disk
        choices: [disk, lun, cdrom, floppy]
      state:
        description:
          - V(absent) removes the disk from the machine. Its volume is kept, and no longer belongs to the machine.
        type: str
        default: present
        choices: [present, absent]
      io:
        description:
          - How QEMU accesses it, as in libvirt. V(native) needs V(none) or V(directsync) as C(cache).
        type: str
        choices: [native, threads, io_uring]
      cache:
        description:
          - How QEMU and the hypervisor cache it, as in libvirt.
        type: str
        choices: [default, none, writethrough, writeback, directsync, unsafe]
      discard:
        description:
          - Whether space that the guest frees is freed in the volume. The default for V(disk) in C(device) is V(unmap).
        type: str
        choices: [unmap, ignore]
      detect_zeroes:
        description:
          - Whether QEMU recognises zeroes that the guest writes; V(unmap) frees their space.
        type: str
        choices: ["off", "on", unmap]
      iothread:
        description:
          - Number of the I/O thread that serves it; C(iothreads) of O(cpu) says how many there are. From 1 to 4096.
        type: int
        aliases: [iothread_id]
      serial:
        description:
          - Serial number that the guest sees, up to 36 letters, digits, spaces and the characters C(_.+-); of a disk on
            the bus V(virtio) the guest sees the first 20. By default the first 20 characters of the name.
        type: str
      boot_order:
        description:
          - Its place in the boot order, 1 is the first. Devices of the task without one are in no order then; others,
            which an existing machine has beside them, come after them. From 1 to 4096.
        type: int
      readonly:
        description:
          - Whether the guest can only read the disk; a V(cdrom) is always read-only.
        type: bool
      shareable:
        description:
          - Whether several machines may use the volume at once. A new one has to be C(format=raw) for it.
        type: bool
      backing_store_format:
        description:
          - Salt's name for C(format) of C(backing).
        type: str
      name:
        description:
          - Name of the disk. It is required, unless the disks are written as a mapping from their names.
        type: str
      overlay:
        description:
          - V(true) is C(clone=overlay), V(false) is C(clone=copy).
        type: bool
        aliases: [overlay_image]
  nics:
    description:
      - Nics of this machine, merged by name over those of the profile, in the same way and in the same formats as
        O(disks). Inside the machine they have these names.
      - An existing nic keeps its model, its C(mac) and what it is connected to, unless others are given.
    type: raw
    aliases: [interfaces]
    suboptions:
      bridge:
        description:
          - The bridge of the hypervisor that the nic is connected to. It must exist.
        type: str
      network:
        description:
          - The libvirt network that it is connected to. It must exist.
        type: str
      direct:
        description:
          - The device of the hypervisor that it is connected to, by macvtap. It must exist.
        type: str
      type:
        description:
          - Together with C(source), another way to write C(bridge), C(network) or C(direct).
        type: str
        default: bridge
        choices: [bridge, network, direct]
      source:
        description:
          - Name of the bridge, network or device of this C(type).
        type: str
        default: br0
      model:
        description:
          - The model of network card that the machine sees.
        type: str
        default: virtio
        choices: [virtio, e1000e, e1000, rtl8139]
      mac:
        description:
          - Its MAC address. By default it is derived from the names of machine and nic, so that a recreated machine has
            the same one.
          - A new machine cannot have that of another one, so it does not belong in a profile.
        type: str
      addresses:
        description:
          - Static addresses with their prefix lengths, such as V(192.0.2.10/24); none that is that of a whole network.
          - The inventory goes by them until the nic is given others, or null, or the seed is refreshed.
        type: list
        elements: str
      gateway:
        description:
          - Gateway, for static addresses; one, or a list with one of each family. It has to be in the network of one of
            these, unless one of them has the prefix V(/32) or V(/128), the gateway is link-local, such as V(fe80::1),
            or C(dhcp4), or C(dhcp6) or C(accept_ra), is V(true) as well.
        type: list
        elements: str
      nameservers:
        description:
          - Addresses of name servers.
        type: list
        elements: str
      search:
        description:
          - Search domains.
        type: list
        elements: str
      routes:
        description:
          - Static routes.
        type: list
        elements: dict
        suboptions:
          to:
            description:
              - Network, such as V(198.51.100.0/24), or V(default).
            type: str
            required: true
          via:
            description:
              - Address of the gateway, in reach as C(gateway) is.
            type: str
            required: true
          metric:
            description:
              - Metric of the route; of two routes to one network, the one with the lower metric is used.
            type: int
      dhcp4:
        description:
          - Whether to use DHCP for IPv4. By default exactly when there are no C(addresses).
        type: bool
      dhcp6:
        description:
          - Whether to use DHCP for IPv6; not by default.
        type: bool
      accept_ra:
        description:
          - Whether to accept router advertisements; the default is up to the image.
        type: bool
      mtu:
        description:
          - MTU in bytes, on the hypervisor's side and in the guest. From 68 to 65535.
        type: int
      state:
        description:
          - V(absent) removes the nic from the machine.
        type: str
        default: present
        choices: [present, absent]
      mode:
        description:
          - How it is connected to the device, for C(direct). The default is V(bridge).
        type: str
        choices: [bridge, vepa, private, passthrough]
      portgroup:
        description:
          - Port group of the network, for C(network).
        type: str
      vlan:
        description:
          - The VLAN that the nic is in (access port), a list of VLANs that the guest gets tagged (trunk port), or a
            list of mappings. On a Linux bridge this needs libvirt 11.0 or newer on the hypervisor, and a bridge with
            C(vlan_filtering) (role P(brine.virt.virt_bridge#role)); both are checked if O(uri) is that of the host
            itself. Open vSwitch needs a C(virtualport). What networks of libvirt and macvtap on SR-IOV cards need is in
            libvirt's documentation.
        type: list
        elements: raw
        suboptions:
          id:
            description:
              - The tag, which is the number of the VLAN. From 1 to 4094.
            type: int
            required: true
          native:
            description:
              - Whether this one is the native VLAN, and how it is sent.
            type: str
            choices: [tagged, untagged]
      virtualport:
        description:
          - A type, or a mapping with the type and its parameters, which libvirt describes.
        type: raw
        suboptions:
          type:
            description:
              - The type.
            type: str
            choices: [802.1Qbg, 802.1Qbh, openvswitch, midonet]
          interfaceid:
            description:
              - For V(openvswitch) and V(midonet).
            type: str
          profileid:
            description:
              - For V(openvswitch) and V(802.1Qbh).
            type: str
          managerid:
            description:
              - For V(802.1Qbg).
            type: str
          typeid:
            description:
              - For V(802.1Qbg).
            type: str
          typeidversion:
            description:
              - For V(802.1Qbg).
            type: str
          instanceid:
            description:
              - For V(802.1Qbg).
            type: str
      link:
        description:
          - Whether the cable is plugged in, as the machine sees it.
        type: str
        choices: [up, down]
      filter:
        description:
          - Name of a network filter of libvirt, or a mapping.
        type: raw
        suboptions:
          name:
            description:
              - The name.
            type: str
          parameters:
            description:
              - Its parameters.
            type: dict
            suboptions:
              NAME:
                description:
                  - Value of the parameter of this name. It takes the place of all values that the machine has for it.
                type: str
      boot_order:
        description:
          - Its place in the boot order, 1 is the first. Devices of the task without one are in no order then; others,
            which an existing machine has beside them, come after them. From 1 to 4096.
        type: int
      bandwidth:
        description:
          - Limits of the nic's traffic. Rates are in kB (1000 bytes) per second, amounts in KiB.
        type: dict
        suboptions:
          inbound:
            description:
              - What the machine receives.
            type: dict
            suboptions:
              average:
                description:
                  - The average rate in kB per second.
                type: int
              peak:
                description:
                  - The highest rate in kB per second.
                type: int
              burst:
                description:
                  - How many KiB may be received at the highest rate.
                type: int
              floor:
                description:
                  - The guaranteed rate in kB per second. Only in networks that libvirt itself forwards.
                type: int
          outbound:
            description:
              - What the machine sends.
            type: dict
            suboptions:
              average:
                description:
                  - The average rate in kB per second.
                type: int
              peak:
                description:
                  - The highest rate in kB per second.
                type: int
              burst:
                description:
                  - How many KiB may be sent at the highest rate.
                type: int
      queues:
        description:
          - Number of queues, for the model V(virtio). From 1 to 256.
        type: int
      trust_guest_rx_filters:
        description:
          - Whether the guest may change what the nic receives, for C(direct).
        type: bool
      name:
        description:
          - Name of the nic. It is required, unless the nics are written as a mapping from their names.
        type: str
"""
