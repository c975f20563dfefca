#!/usr/bin/env python3
"""Solves problems that `place --lp-out` has written with the CBC that comes with PuLP, and compares with `ndp place`.

    pip install -r rust/hermes/python/requirements.txt
    ndp place --llm relu-llama2-7b --synthetic-seed 1 --lp-out 7b.lp
    python3 rust/hermes/python/solve_lp.py --time-limit 300 7b.lp

PuLP cannot read CPLEX LP files, so its CBC is run on the file itself. What `ndp place` reached and its bound are in the
file's second comment: microseconds, which are minimised, or PowerInfer's impact, which is maximised. A table row per file: the
solver's objective and bound, its time, and its objective divided by that of `ndp place` (above 1: a slower solution, or one of
more impact). Exit code 1 if a solution is beyond the bound of `ndp place`, which would prove the bound wrong.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pulp

NUMBER = r"([-+0-9.eE]+)"


def solve(path: Path, seconds: float, ratio_gap: float):
    """Objective (None without an integer solution), CBC's bound (None if unknown), how it ended, and seconds."""
    with tempfile.TemporaryDirectory() as directory:
        solution = Path(directory) / "solution"
        command = [pulp.PULP_CBC_CMD().path, str(path), "-timeMode", "elapsed", "-sec", str(seconds)]
        command += ["-ratioGap", str(ratio_gap), "-solve", "-solution", str(solution)]
        begin = time.monotonic()
        run = subprocess.run(command, capture_output=True, text=True)
        elapsed = time.monotonic() - begin
        if not solution.exists():
            sys.exit(f"{path}: CBC wrote no solution (exit code {run.returncode}):\n{run.stdout[-2000:]}{run.stderr}")
        first = solution.read_text().split("\n", 1)[0]
    found = re.fullmatch(r"(.*) - objective value " + NUMBER, first.strip())
    if not found:
        sys.exit(f"{path}: CBC ended with {first!r}")
    bound = re.search(r"^(?:Lower|Upper) bound: +" + NUMBER, run.stdout, re.M)
    if "no integer solution" in found[1]:
        # What CBC calls the objective is the relaxation's then.
        return None, float(found[2]), "no integer solution", elapsed
    return float(found[2]), float(bound[1]) if bound else None, found[1], elapsed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--time-limit", type=float, default=300.0, help="seconds for each file [300]")
    parser.add_argument("--ratio-gap", type=float, default=0.0, help="gap at which CBC may stop [0]")
    args = parser.parse_args()
    print("| file | CBC | CBC's bound | ended | seconds | place | bound | CBC / place |")
    print("| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |", flush=True)
    wrong = False
    for path in args.files:
        with path.open() as lines:
            head = next(lines, "") + next(lines, "")
        ours = re.search(rf"ours {NUMBER} (us|impact), bound {NUMBER} \2", head)
        if not ours:
            sys.exit(f"{path}: no comment of `ndp place` in the first two lines")
        place, limit, most = float(ours[1]), float(ours[3]), ours[2] == "impact"
        objective, bound, ended, seconds = solve(path, args.time_limit, args.ratio_gap)
        bound = f"{bound:.2f}" if bound is not None else "-"
        cbc, ratio = ("-", "-") if objective is None else (f"{objective:.2f}", f"{objective / place:.5f}")
        print(
            f"| {path.name} | {cbc} | {bound} | {ended} | {seconds:.1f} | {place:.2f} | {limit:.2f} | {ratio} |",
            flush=True,
        )
        if objective is not None:
            wrong |= objective > limit * (1 + 1e-6) if most else objective < limit * (1 - 1e-6)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
