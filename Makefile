# The way in: `make run` and `make test` on a fresh Debian 12. The build itself is CMake's; see CMakePresets.json.
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
SHELL := /bin/bash

JOBS ?= $(shell nproc)
# Whether the files of a target are compiled in batches; see CONTRIBUTING.md.
BATCHES ?= OFF
PROGRAM ?= programs/rmsnorm.strata
FUZZ_SECONDS ?= 60

NAME = $(basename $(notdir $(PROGRAM)))
# `run` needs no emitters: it makes a quick build without them, unless there is one of everything.
RUN_PRESET = $(if $(wildcard build/release/build.ninja),release,core)
STRATA = build/$(RUN_PRESET)/bin/strata

.PHONY: all help install packages core-packages frameworks build run test site wheel wheels wheel-core core-test test-all asan tsan tidy format format-check fuzz clean

all: build

help: ## this list
	@sed -n 's/^\([a-z -]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16
	@echo
	@echo "Variables: JOBS=$(JOBS) BATCHES=$(BATCHES) PROGRAM=$(PROGRAM) FUZZ_SECONDS=$(FUZZ_SECONDS)"

install: ## install what is missing: Debian packages and .venv, for builds, tests and checks
	@scripts/install.sh

packages:
	@scripts/install.sh --build

core-packages:
	@scripts/install.sh --core

# Only the first configuration is ours: from then on ninja runs CMake again when its files change.
build/%/build.ninja: CMakePresets.json | packages
	cmake --preset $* -DSTRATA_BATCHES=$(BATCHES)
	@touch $@

build/core/build.ninja: CMakePresets.json | core-packages
	cmake --preset core
	@touch $@

# `test` builds a part of it. Nobody works in it, so its files are compiled in batches.
build/tsan/build.ninja: CMakePresets.json | packages
	cmake --preset tsan
	@touch $@

build: build/release/build.ninja ## build everything, release
	cmake --build --preset release -j $(JOBS)

run: build/$(RUN_PRESET)/build.ninja ## superoptimise PROGRAM for sm_90a and sm_80
	cmake --build --preset $(RUN_PRESET) -j $(JOBS) --target strata
	$(STRATA) optimize $(PROGRAM) -o out/$(NAME)
	$(STRATA) optimize $(PROGRAM) --target sm_80 -o out/$(NAME)-sm_80
	@echo
	@echo "Reports: out/$(NAME)/report.html (default target), out/$(NAME)-sm_80/report.html (sm_80)"

frameworks: install
	@scripts/install_frameworks.sh

test: install build build/asan/build.ninja build/tsan/build.ninja frameworks ## build, then every test but the slow ones: the core with sanitizers, the rest without
	cmake --build --preset sanitized -j $(JOBS)
	cmake --build --preset threaded -j $(JOBS)
	@failed=0; \
	JOBS=$(JOBS) scripts/test.sh release -LE 'slow|sanitized' || failed=1; \
	JOBS=$(JOBS) scripts/test.sh asan -L sanitized || failed=1; \
	JOBS=$(JOBS) scripts/test.sh tsan -L threaded || failed=1; \
	if [[ $$failed -ne 0 ]]; then scripts/failed_tests.py release asan tsan; fi; \
	exit $$failed

.PHONY: sanitized
sanitized: install build/asan/build.ninja ## build the core with sanitizers and run its tests
	cmake --build --preset sanitized -j $(JOBS)
	@JOBS=$(JOBS) scripts/test.sh asan -L sanitized

core-test: install build/core/build.ninja ## build the Python package without emitters and test it
	cmake --preset core -DSTRATA_PYTHON=ON
	cmake --build --preset core -j $(JOBS) --target strata_python
	.venv/bin/python -m pytest -q tests/python_core

test-all: install build core-test asan tsan frameworks ## every test, and all of them again with each sanitizer
	@STRATA_TEST_ROUNDS=all JOBS=$(JOBS) scripts/test.sh release

asan tsan: %: install build/%/build.ninja ## build with sanitizers and run every test
	cmake --build --preset $@ -j $(JOBS)
	@STRATA_TEST_ROUNDS=all JOBS=$(JOBS) scripts/test.sh $@

tidy: install ## clang-tidy over src (FOLDERS="src/ops ..." for a part)
	@JOBS=$(JOBS) scripts/tidy.sh $(FOLDERS)

format: install ## format the sources in place
	@scripts/check_style.sh --fix

format-check: install ## fail on sources that are not formatted
	@scripts/check_style.sh

fuzz: install build/fuzz/build.ninja ## run each fuzz target for FUZZ_SECONDS
	cmake --build --preset fuzz -j $(JOBS)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz.sh

site: build/release/build.ninja ## the documents and a reference as a site, build/site/html/index.html
	cmake --build --preset release -j $(JOBS) --target strata strata_python
	@scripts/install_site.sh
	.venv/bin/python scripts/site_pages.py build/release build/site
	.venv-site/bin/python -m mkdocs build --strict -q -f build/site/mkdocs.yml
	@echo "build/site/html/index.html"

wheel: install ## the Python package as a wheel for other systems, in dist/
	@JOBS=$(JOBS) scripts/build_wheel.sh

wheel-core: install ## the Python package without emitters, strata-core, as a wheel in dist/
	@JOBS=$(JOBS) scripts/build_wheel.sh --core

wheels: install ## a wheel for each Python from 3.10 on that is installed here
	@for python in $$(scripts/find_pythons.sh); do JOBS=$(JOBS) scripts/build_wheel.sh "$$python" || exit; done

clean: ## remove what was built and written
	rm -rf build out
