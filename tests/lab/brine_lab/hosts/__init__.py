# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""The hosts as system containers, with their keys and the inventory that names them."""
