# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of Sphinx for the guide, as `antsibull-docs sphinx-init` writes them, but for nothing from the network."""

from __future__ import annotations

import re
import typing as t

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

project = "brine.virt"
project_copyright = "brine.virt contributors"
html_title = "brine.virt"
html_short_title = html_title

extensions = ["sphinx_antsibull_ext"]
html_theme = "sphinx_ansible_theme"
pygments_style = "ansible"
highlight_language = "YAML+Jinja"
html_show_sphinx = False
html_use_index = False
html_copy_source = False
default_role = "any"
# Every label, plugin and option that a page names has to be there.
nitpicky = True

ANSIBLE = "https://docs.ansible.com/ansible/latest/"
# Labels of Ansible's own documentation, and their pages there.
PAGES = {
    "action_plugins": "plugins/action.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "common_return_values": "reference_appendices/common_return_values.html",
}
BUILTIN = re.compile(r"ansible_collections\.ansible\.builtin\.(\w+_(?:module|filter|lookup|inventory))$")


def resolve_ansible(
    _app: Sphinx, _env: BuildEnvironment, node: nodes.Element, content: nodes.TextElement
) -> nodes.reference | None:
    """Return the link for a label or a variable of Ansible's own documentation, or None for anything else.

    That a plugin of ansible.builtin exists is checked by antsibull-docs.
    """
    target = str(node.get("reftarget", ""))
    page = PAGES.get(target)
    if node.get("reftype") == "envvar":
        page = f"reference_appendices/config.html#envvar-{target}"
    elif builtin := BUILTIN.match(target):
        page = f"collections/ansible/builtin/{builtin[1]}.html"
    return nodes.reference("", "", content, internal=False, refuri=ANSIBLE + page) if page else None


def setup(app: Sphinx) -> dict[str, t.Any]:
    """Have Sphinx ask resolve_ansible for the labels that it does not know."""
    app.connect("missing-reference", resolve_ansible)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
