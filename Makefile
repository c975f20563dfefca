# Entry points of the project.
.PHONY: test lint clean

## test: unit tests of every crate and of the Python reference
test:
	cargo test --workspace --release
	python3 -c 'import numpy' 2>/dev/null || python3 -m pip install --quiet -r golden/requirements.txt
	python3 golden/test_reference.py

## lint: formatting and clippy
lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

clean:
	cargo clean
