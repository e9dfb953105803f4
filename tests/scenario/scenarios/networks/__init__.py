# SPDX-License-Identifier: GPL-3.0-or-later
"""What machines are connected to: networks of libvirt, and VLANs of bridges."""
