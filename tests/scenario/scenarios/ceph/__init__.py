# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines whose disks are in a Ceph cluster."""
