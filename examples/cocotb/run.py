"""Runs the tests of test_axi.py in Icarus Verilog: python3 run.py RTL [BUILD]

RTL is a folder that `gen-rtl --config tiny --block ndp_core_axi --out RTL` wrote. BUILD is a folder for what is built, by default RTL/cocotb.
Needs cocotb 2 and cocotbext-axi: pip install cocotb cocotbext-axi. Exit code 3 if they are missing.
"""

import sys
from pathlib import Path

try:
    import cocotbext.axi  # noqa: F401
    from cocotb_tools.runner import get_results, get_runner
except ImportError as error:
    print(f"{error}; pip install cocotb cocotbext-axi", file=sys.stderr)
    sys.exit(3)

HERE = Path(__file__).resolve().parent


def main(arguments):
    if len(arguments) not in (1, 2) or not Path(arguments[0], "files.f").is_file():
        print(__doc__, file=sys.stderr)
        return 2
    rtl = Path(arguments[0]).resolve()
    build = Path(arguments[1]).resolve() if len(arguments) == 2 else rtl / "cocotb"
    names = (rtl / "files.f").read_text().splitlines()
    runner = get_runner("icarus")
    runner.build(
        sources=[rtl / name for name in names if not name.startswith("#")]
        + [HERE.parent / "icarus" / "ddr4_rank.v", HERE / "harness.v"],
        includes=[rtl],
        hdl_toplevel="harness",
        build_args=["-g2012"],
        timescale=("1ns", "100fs"),
        build_dir=build,
    )
    results = runner.test(
        hdl_toplevel="harness", test_module="test_axi", test_dir=HERE, build_dir=build, results_xml=str(build / "results.xml")
    )
    tests, failures = get_results(results)
    print(f"{tests} tests, {failures} failures")
    return 1 if failures or not tests else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
