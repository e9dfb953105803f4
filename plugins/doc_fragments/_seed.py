# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of options of a machine, written by tests/gate/options.py from the field tables and docs/options."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  seed:
    description:
      - How the machine is set up at its first boot. V(false) means no seed at all. Where a seed is given for all
        machines, a machine's own keys come before those, and a null takes one away. If that for all is V(false), a
        machine that has keys of its own gets a seed all the same.
      - The machine's SSH host keys are generated here as well. Their public halves are stored in the machine's
        metadata, from where P(brine.virt.domains#inventory) reads them.
      - The seed is stored on the hypervisor in a volume that root can read. The notes say which parts of it are kept
        out of logs and output.
    type: raw
    default: {}
    suboptions:
      method:
        description:
          - V(nocloud) is for images with cloud-init, V(guestfs) for images without; V(none) means no seed, and is
            refused beside other keys of a machine's own.
          - V(nocloud) is a small disk that cloud-init reads.
          - V(guestfs) writes into the machine's first disk before it is started, inside libguestfs's appliance, and
            needs guestfish on the hypervisor (C(virt_hypervisor_guestfs) of the role
            P(brine.virt.virt_hypervisor#role)). It knows Linux images with netplan, NetworkManager, systemd-networkd or
            ifupdown. C(packages), C(run_commands), C(user_data), C(network), C(locale) and C(instance_id) are refused
            with it. It does not install python3 and does not grow the root file system. An image with SELinux relabels
            its files at its first boot, and reboots once for it. If the image contains cloud-init, it is disabled.
        type: str
        default: nocloud
        choices: [nocloud, guestfs, none]
      hostname:
        description:
          - Host name. By default the first part of C(fqdn), else the machine's name, with dashes for underscores.
        type: str
      fqdn:
        description:
          - The full host name, such as V(web1.example.org).
        type: str
      instance_id:
        description:
          - By default it is derived from the machine's name and the seed, so that cloud-init treats a changed seed as a
            new instance. If you set your own, a refreshed seed has an effect only when you change it.
        type: str
      user:
        description:
          - The user that Ansible logs in as. It may use sudo without a password.
        type: str
        default: ansible
      authorized_keys:
        description:
          - The public SSH keys of this user, as a list, or as text with one per line.
        type: list
        elements: str
      password_hash:
        description:
          - The hash of this user's password for /etc/shadow, as produced by C(openssl passwd -6) or the filter
            P(ansible.builtin.password_hash#filter). Without it, the password is locked. It is for the console; SSH
            accepts only keys, unless C(ssh_pwauth) is V(true).
        type: str
      ssh_pwauth:
        description:
          - Whether sshd accepts passwords.
        type: bool
        default: false
      users:
        description:
          - Users to create in addition to C(user), which is not among them.
        type: list
        elements: dict
        suboptions:
          name:
            description:
              - Name of the user.
            type: str
            required: true
          gecos:
            description:
              - Full name.
            type: str
          groups:
            description:
              - Groups that the user is in. They are created if missing.
            type: list
            elements: str
          shell:
            description:
              - Login shell.
            type: str
            default: /bin/bash
          sudo:
            description:
              - Whether the user may use sudo, without a password.
            type: bool
            default: false
          authorized_keys:
            description:
              - Public SSH keys, as those of the first user.
            type: list
            elements: str
          password_hash:
            description:
              - Hash of the password. Without it, the password is locked, also of a user who is in the image already,
                such as root.
            type: str
      packages:
        description:
          - Packages to install at the first boot. C(qemu-guest-agent) is started then as well, before C(run_commands).
        type: list
        elements: str
      files:
        description:
          - Files to write. cloud-init before 21.4 writes files before it creates users, so these cannot own them.
            Without an C(/etc/hosts) among them, the machine's own names are written there.
        type: list
        elements: dict
        suboptions:
          path:
            description:
              - Path of the file.
            type: str
            required: true
          content:
            description:
              - The content of the file. Empty by default.
            type: str
          owner:
            description:
              - The user that owns the file, and its group after a colon.
            type: str
            default: root:root
          mode:
            description:
              - The permissions in octal digits, in quotes.
            type: str
            default: "0644"
          encoding:
            description:
              - How C(content) is written; V(base64) is for what is not text.
            type: str
            default: text
            choices: [text, base64]
          secret:
            description:
              - Whether the content is kept out of logs and output.
            type: bool
            default: false
      run_commands:
        description:
          - Commands to run once, at the end of the first boot, each a line for the shell or a list of words.
        type: list
        elements: raw
      network:
        description:
          - A complete network configuration for cloud-init, version 1 or 2, instead of the one generated from O(nics).
            It may be wrapped in the key C(network).
        type: dict
      user_data:
        description:
          - cloud-init's user-data, as data or as text. Data and cloud-config text are merged with what this module
            writes, key by key, with lists appended. In the same way cloud-init merges in the guest what a jinja
            template, a cloud-config archive or an include file turns out to be there. Scripts, boothooks and part
            handlers are added as parts of their own.
        type: raw
      timezone:
        description:
          - Time zone, such as V(Europe/Vienna). The default is that of the image.
        type: str
      locale:
        description:
          - Locale, such as V(C.UTF-8). The default is that of the image.
        type: str
      pool:
        description:
          - The storage pool of the seed volume.
        type: str
        default: default
"""
