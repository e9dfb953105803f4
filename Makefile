# SPDX-License-Identifier: GPL-3.0-or-later
# Each target installs what it needs, and can be run again at any time. The work is done by the programs in tests/.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo pictures dev docs check test test-full bench lab-up lab-down clean

help: ## show these targets
	@printf 'brine.virt: a private cloud of plain Linux hosts. Targets:\n\n'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 14
	@printf '\nThey install what they need, including Debian packages; everything they create is in .build.\n'

demo: ## a private cloud to try: two bare hosts made into hypervisors, and a machine on one of them that Ansible reaches
	@tests/gate/setup demo lab && tests/demo/run

pictures: ## the pictures of the README, in docs/pictures: `demo`, recorded in its terminal, and the page of its cloud in a browser
	@tests/gate/setup demo lab browser && tests/pictures/run

dev: ## the tools to work on the collection: `.build/venv/bin/pytest tests/unit/...` runs after this one step, wherever the checkout lies
	@tests/gate/setup check && echo "Run one test: .build/venv/bin/pytest tests/unit/...   Run a role on bare hosts: . .build/venv/bin/activate && molecule test -s virt_bridge"

docs: ## the guide as HTML, in .build/docs: tutorial, tasks, reference of all plugins and roles
	@tests/gate/setup check && .build/venv/bin/python -m tests.gate.docsite

check: ## the quick part of the tests, for every change: format, lint, types, documentation, unit tests of one ansible-core and Python; says at its end what it leaves to `test`
	@tests/gate/setup check && .build/venv/bin/python -m tests.gate check

test: ## everything that CI runs: check, unit tests on the oldest and the newest ansible-core, sanity on the newest and on every Python, and alongside it the scenario in the lab and one of molecule; says at its end what it leaves to `test-full` (SCENARIO=no leaves both out, KEEP_LAB=1 leaves the lab up)
	@tests/gate/setup check test $(if $(filter no,$(SCENARIO)),,demo lab) && .build/venv/bin/python -m tests.gate test

test-full: ## what `test` leaves out because it takes long: tests that start whole runs of Ansible, ansible-core 2.20, sanity on 2.19 and 2.20, every way to seed a guest, storage and backups, hosts with kernels of their own, the other scenarios of molecule (hours; PART='storage molecule' runs only these parts, and a wrong name lists them)
	@tests/gate/setup check test browser builder importer $(if $(filter no,$(SCENARIO)),,demo lab rulebook) && .build/venv/bin/python -m tests.gate test-full $(PART)

bench: ## how long many machines take in the lab compared with virt-install and the bare tools, a move compared with virsh, a first login compared with a bare boot, many machines made by the playbook compared with the bare tools, the inventory of many machines compared with community.libvirt (KEEP_LAB=1 leaves the lab up)
	@tests/gate/setup demo lab && tests/benchmark/run && tests/benchmark/run --moves && tests/benchmark/run --first-login && tests/benchmark/run --provisions && tests/benchmark/run --inventory

lab-up: ## start the lab: bare hosts on this machine to try things on
	@tests/gate/setup lab && tests/lab/lab up

lab-down: ## stop the lab and leave nothing of it running
	@tests/gate/down

clean: ## stop the lab and remove everything that was created here (.build); downloads for the lab stay in their cache
	@tests/gate/down && tests/gate/clean
