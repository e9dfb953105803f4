# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines move from one hypervisor to another."""
