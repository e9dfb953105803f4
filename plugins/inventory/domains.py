# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory plugin: the live machines of many hypervisors as hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
---
name: domains
short_description: Use the machines of many libvirt hypervisors as hosts, from live data
version_added: "1.0.0"
description:
  - >-
    Asks all hypervisors at once which machines they have, and adds each as a host. Nothing is stored except an optional
    cache and the file in O(known_hosts).
  - >-
    For a hypervisor that is down or slow, or whose connection variables cannot be read, there is a warning, at the
    latest when its own time limit (O(timeout)) is over. The machines of the others are listed.
  - The name of the file must end in C(.virt.yml) or C(.virt.yaml).
  - >-
    Host variables are C(ansible_host) (the best address, when one is known), C(ansible_user) (the user that the
    machine's seed created), and, if the machine's host keys are known, C(ansible_ssh_common_args), which makes SSH
    check them strictly from the first connection on (and C(ansible_ssh_args), see O(ssh_common_args)). All others begin
    with C(virt_) - C(virt_name), C(virt_uuid), C(virt_state), C(virt_hypervisor), C(virt_uri), C(virt_vcpus),
    C(virt_memory_mib), C(virt_autostart), C(virt_title), C(virt_description), C(virt_tags), C(virt_addresses),
    C(virt_disks), C(virt_nics), C(virt_graphics), C(virt_image), C(virt_managed) and C(virt_errors) (what could not be
    determined), with the values that M(brine.virt.virt_info) returns. The machine's own variables are host variables
    under their own names, unless these begin with C(ansible_) or C(virt_), or are names that Ansible sets itself. See
    O(facts).
  - >-
    Groups are C(virt_machines) (all of them), C(virt_<state>), C(virt_on_<hypervisor>), C(virt_tag_<tag>), and
    C(virt_building) (machines that are being created, or whose creation was interrupted; they have no C(ansible_host)).
    Characters that are not allowed in a group name become underscores.
  - >-
    With O(cache=true) and a O(cache_plugin) that outlives the run, hypervisors are asked again when O(cache_timeout)
    is over, or the answers are not those of the same hypervisors at the same URIs. Ansible's own default, V(memory),
    does not outlive it. If a hypervisor does not answer then, its last good answer is used, whatever its age. There is
    a warning, and the hosts have the variable C(virt_stale_since), the time of that answer in UTC. A machine in it that
    is on another hypervisor now is left out.
  - >-
    Two machines of the same name on two hypervisors are never merged. Both are listed as C(<name>_<hypervisor>), with a
    warning. So is a machine that has the name of another host or of a group in the inventory, or a name with another
    meaning for Ansible, such as C(localhost), an address, or C(..), by which it would read other hosts' variables; and
    one with the name that O(known_hosts) knows another machine by, on a hypervisor that does not answer. A host in the
    group C(virt_machines) of the inventory parsed before is taken to be the machine of that name.
  - >-
    Only the sources that are parsed before are known. So this one has to be the last of them, also where it names its
    hypervisors itself: or whoever has taken over a hypervisor could list a machine with the name of one of your hosts.
  - One machine that several configuration files list is one host, with the groups and variables of all of them.
  - >-
    Addresses that come from the guest agent or from ARP are only claims of the guest. They become C(ansible_host) only
    for a machine whose host keys are known, so that SSH notices if another host answers there. C(virt_addresses)
    contains them in any case. See O(trust_guest_addresses).
author:
  - brine.virt maintainers (@brine-virt)
requirements:
  - libvirt-python on the controller (package C(python3-libvirt), on SUSE C(python3-libvirt-python))
  - lxml on the controller (package C(python3-lxml))
extends_documentation_fragment:
  - constructed
  - inventory_cache
options:
  plugin:
    description: The name of this plugin.
    type: str
    required: true
    choices: [brine.virt.domains]
  hypervisors:
    description:
      - The hypervisors to ask, in addition to those in O(hypervisor_group). One of the two options is needed.
      - Each is a name, or a libvirt URI, or a mapping with C(name) and optionally C(uri) or C(transport). A URI alone
        is named after the host in it, or C(localhost).
      - If only a name is given, the address is that of the inventory host of this name if there is one, as for
        O(hypervisor_group), or else the name itself.
    type: list
    elements: raw
    default: []
  hypervisor_group:
    description:
      - A group of the inventory parsed before, whose hosts are the hypervisors to ask.
      - Their C(virt_uri), if they have one, is the URI. Otherwise it is composed of O(transport) and C(ansible_host).
      - >-
        With O(transport=ssh), SSH is called as Ansible calls it for these hosts - with C(ansible_user),
        C(ansible_port), C(ansible_ssh_private_key_file), C(ansible_ssh_common_args) and so on, from variables or
        Ansible's configuration.
      - A host with C(ansible_connection=local) is the controller itself, C(qemu:///system).
      - Inventory files are parsed in the order of the command line, in a directory by name.
    type: str
  transport:
    description: How to reach hypervisors that have no URI of their own. V(local) is the controller itself.
    type: str
    choices: [ssh, tls, local]
    default: ssh
  facts:
    description:
      - What is fetched about the machines and set as host variables. What is not listed is not asked for, which saves
        time.
      - V(address) is C(virt_addresses), and C(ansible_host) wherever the machine has an address that counts. It asks
        DHCP leases, guest agents and neighbour tables.
      - V(hardware) is C(virt_vcpus), C(virt_memory_mib) and C(virt_autostart).
      - V(disks) is C(virt_disks), for which sizes and storage pools are asked for.
      - V(nics), V(graphics), V(image) and V(tags) are C(virt_nics), C(virt_graphics), C(virt_image) and C(virt_tags).
      - V(description) is C(virt_title) and C(virt_description).
      - All groups, C(virt_name), C(virt_uuid), C(virt_state), C(virt_hypervisor), C(virt_uri), C(virt_managed),
        C(virt_errors), C(ansible_user), the arguments for SSH and the machine's own variables are set in any case.
    type: list
    elements: str
    choices: [address, hardware, disks, nics, graphics, image, tags, description]
    default: [address, hardware, disks, nics, graphics, image, tags, description]
  hostnames:
    description:
      - Jinja expressions, of which the first that gives a name is what a machine's host is called. Without any, and
        where none gives a name, it is the machine's own name.
      - They know the host variables, and those that begin with C(virt_) also without it, as C(name), C(uuid),
        C(hypervisor) and C(title).
      - Host variables that O(facts) leaves out are undefined in the expressions.
      - A name begins with a letter, a digit or an underscore, and has only these, dots and hyphens. Any other value is
        ignored.
      - Two machines of the same name are never merged, as described above.
    type: list
    elements: str
    default: []
  filters:
    description:
      - Which machines are listed. Each item is a mapping of V(include) or V(exclude) to a Jinja expression as in
        O(hostnames). For each machine the first one that is true decides; a machine for which none is true is listed.
      - >-
        To list certain machines only, let the last item be C(exclude: true).
      - An expression that cannot be evaluated counts as false, with a warning; with O(strict=true) it is an error.
      - The host keys of machines that are not listed are written to O(known_hosts) as well.
    type: list
    elements: dict
    default: []
  strict_hypervisors:
    description:
      - Whether it is an error if a hypervisor does not answer, or cannot be asked. Then nothing is listed, and no older
        answer is used in its place.
      - Ansible warns of an inventory that it cannot read, and goes on without its hosts. The run fails if
        C(any_unparsed_is_failed) is set in the section C([inventory]) of C(ansible.cfg).
    type: bool
    default: false
  concurrency:
    description: How many hypervisors to ask at once, 1 at least.
    type: int
    default: 16
  timeout:
    description: How many seconds one hypervisor may take for its whole answer, more than 0.
    type: float
    default: 10
  known_hosts:
    description:
      - >-
        The file that the machines' SSH host keys are written to. A relative path starts at the directory of the
        inventory file.
      - Only lines that this plugin wrote are ever changed. Those of hypervisors that did not answer are kept.
      - >-
        From answers in the cache only keys are written, those of machines that the file has no key of. Where the
        machines are, the file knows from answers of the hypervisors themselves and from the playbooks that move them.
      - >-
        Each key is valid only for the alias C(virt-<uuid>), never for a name or an address, so that machines of the
        same name in several clouds cannot be mistaken for each other.
      - >-
        Clouds that are managed separately should have a file each. In a shared one, the lines of two hypervisors of the
        same name overwrite each other, and P(brine.virt.virt_provision#role) does not create a machine that is known on
        a hypervisor outside of its inventory.
      - Empty means that no file is written and that SSH's arguments are left alone. Then no host key counts as known.
    type: str
    default: ~/.ssh/known_hosts.d/brine-virt
  trust_guest_addresses:
    description:
      - Whether C(ansible_host) may be an address that only the guest claims (by its agent or by ARP) although none of
        its host keys is known, as with machines that were created by other means.
      - Whoever controls such a guest can then claim the address of another host, and Ansible's tasks for the guest are
        run there, if that host admits the same user.
    type: bool
    default: false
  ssh_common_args:
    description:
      - Arguments for SSH that are put before those that this plugin sets for machines whose host keys are known. SSH
        uses the first value that it sees of an option, so they take precedence over all others.
      - The value of C(ansible_ssh_common_args) for such a machine without this plugin (from inventory variables,
        C(group_vars) next to the inventory, the command line, the environment or Ansible's configuration) is appended
        to the plugin's, so that both a C(ProxyJump) and the host key check remain in effect. C(group_vars) next to a
        playbook cannot be seen here.
      - Where C(ansible_ssh_args), from the same places, contains one of the three options that this plugin sets
        (C(UserKnownHostsFile), C(HostKeyAlias), C(StrictHostKeyChecking)), or host key checking is off in Ansible's
        configuration, such a machine gets an C(ansible_ssh_args) of its own, with the plugin's arguments first.
        Otherwise SSH would not find the machine's host keys, or would not check them.
    type: str
    default: ""
seealso:
  - module: brine.virt.virt_info
    description: The same records, from a task.
"""

EXAMPLES = r"""
---
# cloud.virt.yml - the hypervisors are a group of hosts.yml:
#   ansible-inventory -i hosts.yml -i cloud.virt.yml --graph
plugin: brine.virt.domains
hypervisor_group: hypervisors

---
# Hypervisors by name and by URI, reached over TLS, a short time limit, groups of your own
plugin: brine.virt.domains
transport: tls
hypervisors:
  - hv1.example.org
  - {name: hv2, uri: "qemu+tls://192.0.2.2/system"}
timeout: 5
keyed_groups:
  - key: virt_image.name | default('no_image', true)
    prefix: image
groups:
  big: virt_memory_mib >= 8192

---
# Only running machines with the tag web, called name.hypervisor, with just the facts to reach and group them
plugin: brine.virt.domains
hypervisor_group: hypervisors
strict_hypervisors: true
facts: [address, tags]
filters:
  - exclude: state != 'running'
  - include: "'web' in tags"
  - exclude: true
hostnames:
  - name ~ '.' ~ hypervisor

---
# The guests are behind a jump host: its argument is put before those that the plugin sets
plugin: brine.virt.domains
hypervisor_group: hypervisors
ssh_common_args: -o ProxyJump=admin@bastion.example.org

---
# Only this machine, answers cached for a minute
plugin: brine.virt.domains
hypervisors:
  - {name: me, uri: "qemu:///system"}
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/brine-virt
cache_timeout: 60
"""

import functools
import os
import re
import typing as t

from ansible import constants as C
from ansible.errors import AnsibleParserError
from ansible.inventory.group import to_safe_group_name
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable, get_cache_plugin

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError, visible
from ansible_collections.brine.virt.plugins.module_utils._base.xml import LXML_IMPORT_ERROR
from ansible_collections.brine.virt.plugins.module_utils._host.connection import require_libvirt
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.validators import unknown_option
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.connection_vars import (
    InventoryVars,
    arguments_beside_ours,
    as_inventory_reaches,
)
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.host_vars import (
    ListedMachine,
    NamedHost,
    group_names,
    host_vars,
    is_unread,
    known_hosts_path,
    listed_machines,
    without_path,
)
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.hypervisors import (
    HypervisorEntry,
    InventoryHypervisor,
    answers_suffix,
    are_of,
    as_asked,
    ask_hypervisors,
    of_now,
    read_entries,
    unasked,
    warn_of,
    warn_of_unread,
    with_group,
    with_last_answers,
)
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.known_hosts import (
    known_elsewhere,
    read_lines,
    update_known_hosts,
)
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.selection import (
    HostSelection,
    described_machines,
    read_filters,
    read_hostnames,
    taken_names,
)

if t.TYPE_CHECKING:  # pragma: no cover
    from ansible.inventory.data import InventoryData
    from ansible.parsing.dataloader import DataLoader

_SSH_ARGS = "ansible_ssh_common_args"
_ENDS = (".virt.yml", ".virt.yaml")
# Where an inventory names its plugin; other sources may be large.
_MOST_BYTES = 64 * 1024


def _names_us(path: str) -> bool:
    """Whether a file says that it is for this plugin. A pipe (-i <(...)) is left to whom it is for."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return re.search(rb"""^plugin:\s*["']?brine\.virt\.domains\b""", file.read(_MOST_BYTES), re.M) is not None
    except OSError:
        return False


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Options, then answers as plain data (asked or cached), then hosts: the three never mix."""

    NAME = "brine.virt.domains"

    @staticmethod
    def _sanitize_group_name(name: str) -> str:
        """Of the groups in keyed_groups: whoever has written a machine's tags or title may have chosen their names."""
        return t.cast("str", to_safe_group_name(without_path(name)))

    def verify_file(self, path: str) -> bool:
        """Whether the file is one of ours, by its name."""
        if not super().verify_file(path):
            return False
        is_ours = path.endswith(_ENDS)
        if not is_ours and _names_us(path):
            # Ansible says that it could not be verified, and not why.
            self.display.warning(f"{path}: the name of a file for {self.NAME} ends in {' or '.join(_ENDS)}. Rename it")
        return is_ours

    @property
    def _data(self) -> InventoryData:
        return t.cast("InventoryData", self.inventory)

    def parse(self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True) -> None:
        """Read the file, ask the hypervisors (or the cache), list what they have."""
        super().parse(inventory, loader, path, cache)
        self._refuse_unknown_options(self._read_config_data(path), path)
        try:
            entries = self._entries()
            read_filters(self.get_option("filters"))
            read_hostnames(self.get_option("hostnames"))
        except VirtError as exc:
            raise AnsibleParserError(f"{path}: {exc}") from None
        answers, asked = self._answers(entries, path, cache)
        silent = [warn_of(answer) for answer in answers if answer["error"] is not None]
        if silent and self.get_option("strict_hypervisors"):
            # Nothing stands in for it then.
            silent = [warn_of({**answer, "stale_since": None}) for answer in answers if answer["error"] is not None]
            raise AnsibleParserError(f"{path}: {'; '.join(silent)}")
        for text in silent:
            self._warn(text)
        known_hosts = known_hosts_path(self._templated("known_hosts"), os.path.dirname(os.path.abspath(path)))
        known: list[str] = []
        if known_hosts:
            try:
                known = read_lines(known_hosts)
                new, cached = as_asked(of_now(answers), asked)
                update_known_hosts(known_hosts, new, cached=cached)
            except OSError as exc:
                self.display.warning(
                    f"The machines' host keys cannot be written to {known_hosts}: {exc.strerror or exc}"
                )
        self.populate(answers, known_hosts, known)

    def _warn(self, text: str) -> None:
        """Warn of what names a machine: nobody but its hypervisor has looked at its name."""
        self.display.warning(visible(text))

    # options

    def _refuse_unknown_options(self, config: dict[str, t.Any], path: str) -> None:
        known = set(self.get_options()) | {"plugin"}
        for word in config:
            if word not in known:
                raise AnsibleParserError(str(unknown_option(word, path, known)))
        for word in ("concurrency", "timeout"):
            if self.get_option(word) <= 0:
                raise AnsibleParserError(f"{path}: {word} is {self.get_option(word)}. Give a number above 0")

    def _templated(self, option: str) -> t.Any:
        """An option that may hold templates. The file is the user's own, so these are trusted."""
        return self.templar.template(self.get_option(option))

    def _entries(self) -> list[HypervisorEntry]:
        """The hypervisors to ask, by name."""
        entries = read_entries(self._templated("hypervisors") or [])
        name = self._templated("hypervisor_group")
        group = self._data.groups.get(name) if name else None
        return with_group(entries, name, None if group is None else [host.name for host in group.get_hosts()])

    def _hypervisor(self, entry: HypervisorEntry) -> InventoryHypervisor:
        """An entry with its URI. Raises VirtError when a variable that this needs cannot be read."""
        if entry.uri:
            return InventoryHypervisor(entry.name, entry.uri)
        return as_inventory_reaches(entry, self._inventory_vars(), self.get_option("transport"))

    def _inventory_vars(self) -> InventoryVars:
        loader = t.cast("DataLoader", self.loader)
        return InventoryVars(self._data, loader, self.templar, use_extra_vars=self.get_option("use_extra_vars"))

    # answers

    def _answers(
        self, entries: list[HypervisorEntry], path: str, cache: bool
    ) -> tuple[list[dict[str, t.Any]], set[str]]:
        """The hypervisors' answers as plain data, and the names of those that were asked now."""
        key = self.get_cache_key(path) + answers_suffix(self.get_option("facts"))
        use_cache = self.get_option("cache")
        if use_cache and cache:
            try:
                cached = list(self._cache[key])
            except KeyError:
                cached = []  # nothing there, or too old
            if cached and are_of(cached, entries, lambda entry: self._hypervisor(entry).uri):
                silent = {answer["hypervisor"] for answer in cached if answer["error"] is not None}
                return self._with_silent_asked_again(cached, entries, silent), silent
        answers = self._ask(entries)
        if use_cache:
            if any(answer["machines"] is None or any(map(is_unread, answer["machines"])) for answer in answers):
                answers = with_last_answers(answers, self._last_answers(key))
            self._cache[key] = answers
        return answers, {entry.name for entry in entries}

    def _with_silent_asked_again(
        self, cached: list[dict[str, t.Any]], entries: list[HypervisorEntry], silent: set[str]
    ) -> list[dict[str, t.Any]]:
        """Cached answers, with those of now for hypervisors that had not answered then.

        They are not stored: that would make the other answers look new.
        """
        if not silent:
            return cached
        new = {one["hypervisor"]: one for one in self._ask([entry for entry in entries if entry.name in silent])}
        return with_last_answers([new.get(answer["hypervisor"], answer) for answer in cached], cached)

    def _last_answers(self, key: str) -> list[dict[str, t.Any]]:
        """What the cache has, however old it is."""
        options = {"_uri": "cache_connection", "_prefix": "cache_prefix"}
        given = {name: value for name, option in options.items() if (value := self.get_option(option)) is not None}
        cache = get_cache_plugin(self.get_option("cache_plugin"), _timeout=0, **given)
        try:
            return list(cache[key])
        except KeyError:
            return []

    def _ask(self, entries: list[HypervisorEntry]) -> list[dict[str, t.Any]]:
        hypervisors, not_asked = [], []
        for entry in entries:
            try:
                hypervisors.append(self._hypervisor(entry))
            except VirtError as exc:
                not_asked.append(unasked(entry.name, str(exc)))
        try:
            require_libvirt()
        except VirtError as exc:
            raise AnsibleParserError(str(exc)) from None
        if LXML_IMPORT_ERROR is not None:
            raise AnsibleParserError("Python cannot import lxml. Install it for the Python that runs Ansible")
        answers = ask_hypervisors(
            hypervisors,
            concurrency=self.get_option("concurrency"),
            timeout_seconds=self.get_option("timeout"),
            tmpdir=C.DEFAULT_LOCAL_TMP,  # type: ignore[attr-defined]  # made at run time
            facts=self.get_option("facts"),
        )
        return answers + not_asked

    # hosts

    def populate(self, answers: list[dict[str, t.Any]], known_hosts: str | None, known: t.Sequence[str] = ()) -> None:
        """Make hosts of the answers' records. What comes from machines is plain text, never a template.

        known: the lines of the file of host keys before these answers.
        """
        strict = self.get_option("strict")
        compose, groups, keyed_groups = (self.get_option(name) for name in ("compose", "groups", "keyed_groups"))
        safe_names: dict[str, str] = {}
        inventory_vars = self._inventory_vars()
        ours_first = self._templated("ssh_common_args")
        vars_of = self._host_vars()
        stale = {answer["hypervisor"]: answer.get("stale_since") for answer in answers}
        for text in (text for answer in answers for text in warn_of_unread(answer)):
            self._warn(text)
        for named in self._named_hosts(answers, known):
            if named.warning:
                self._warn(named.warning)
            host = self._data.add_host(named.host)
            variables = vars_of(named, known_hosts)
            since = stale[named.hypervisor] or named.record.get("stale_since")
            if since:
                variables["virt_stale_since"] = since
            try:
                self._set_variables(host, variables)
                for group_name in group_names(named.record, named.hypervisor):
                    if group_name not in safe_names:
                        safe_name = to_safe_group_name(group_name, force=True, silent=True)
                        safe_names[group_name] = self._data.add_group(safe_name)
                    self._data.add_child(safe_names[group_name], host)
                if compose:
                    self._set_composite_vars(compose, variables, host, strict=strict)
                if groups:
                    self._add_host_to_composed_groups(groups, variables, host, strict=strict)
                if keyed_groups:
                    self._add_host_to_keyed_groups(keyed_groups, variables, host, strict=strict)
            finally:
                # Where strict ends this run, Ansible goes on with the host: not without the check of its host key.
                if _SSH_ARGS in variables:
                    common, first = arguments_beside_ours(
                        host, inventory_vars.of(host), (ours_first, variables[_SSH_ARGS]), self._warn
                    )
                    self._data.hosts[host].vars[_SSH_ARGS] = common
                    if first is not None:
                        self._data.set_variable(host, "ansible_ssh_args", first)

    def _host_vars(self) -> t.Callable[..., dict[str, t.Any]]:
        """What gives the variables of one machine after the other; the options are looked up once."""
        trust, facts = self.get_option("trust_guest_addresses"), self.get_option("facts")
        with_options = functools.partial(host_vars, trust_guest_addresses=trust, facts=facts)

        def of(machine: ListedMachine | NamedHost, known_hosts: str | None = None) -> dict[str, t.Any]:
            return with_options(machine.record, hypervisor=machine.hypervisor, uri=machine.uri, known_hosts=known_hosts)

        return of

    def _named_hosts(self, answers: list[dict[str, t.Any]], known: t.Sequence[str]) -> list[NamedHost]:
        """The machines that the user wants listed, each with the name of its host."""
        # One that is named here is not a machine, whether another source has it as a host or is read later.
        taken = taken_names(self._data) | {answer["hypervisor"] for answer in answers}
        selection = HostSelection(
            read_filters(self.get_option("filters")),
            read_hostnames(self.get_option("hostnames")),
            self._compose,
            strict=self.get_option("strict"),
        )
        try:
            named = selection.hosts(
                listed_machines(answers),
                self._host_vars(),
                taken,
                described_machines(self._data),
                known_elsewhere(known, of_now(answers)),
            )
        except VirtError as exc:
            raise AnsibleParserError(str(exc)) from None
        for text in selection.warnings():
            self._warn(text)
        return named

    def _set_variables(self, host: str, variables: dict[str, t.Any]) -> None:
        """Variables of a machine's host, but for the arguments for SSH, which are put together at last.

        Not by set_variable() of the inventory, which would copy each value to note the file that it came from: that
        takes longer than all the rest. Without a mark of its own a text is no template here either.
        """
        there = self._data.hosts[host].vars
        for key, value in variables.items():
            if key == _SSH_ARGS:
                continue
            if key in there or not key.startswith(("virt_", "ansible_")):
                self._data.set_variable(host, key, value)  # looks at the name, and merges mappings
            else:
                there[key] = value
