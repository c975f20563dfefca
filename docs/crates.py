#!/usr/bin/env python3
"""Draws the crates and who uses whom: docs/generated/crates.svg, from `cargo metadata`.

    crates.py          writes the picture
    crates.py --check  fails if it is not what the manifests say
"""

import html
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/generated/crates.svg"
# Floors from the top, each with the folders of its crates. A crate uses its own floor and those below.
FLOORS = [
    ("program and tests", ["", "sim/tool", "testbenches/common", "rust/testkit"]),
    ("machines", ["sim", "synth", "rust/systems"]),
    ("hardware, hosts and policies", ["hdl", "sim/verilate", "rust/hermes", "rust/librapim", "rust/energy", "rust/traces"]),
    ("contract and models", ["hdl/language", "rust/config", "rust/isa", "rust/numerics", "rust/cycles", "rust/dram", "rust/model"]),
    ("support", ["rust/files", "rust/report", "rust/oracle"]),
]
# Crates that must not reach the others, not even by way of a third.
SOFTWARE = ["ndp-numerics", "ndp-isa", "ndp-model"]
APART = [
    ("ndp-hdl", [*SOFTWARE, "ndp-cycles", "ndp-dram", "ndp-oracle"]),
    ("ndp-cycles", ["ndp-hdl", "ndp-dram", "ndp-model", "ndp-oracle"]),
    ("ndp-dram", ["ndp-hdl", "ndp-cycles", "ndp-isa", "ndp-model", "ndp-oracle"]),
    ("ndp-oracle", ["ndp-hdl", *SOFTWARE, "ndp-cycles", "ndp-dram"]),
    *((name, ["ndp-hdl", "ndp-oracle"]) for name in SOFTWARE),
]
WIDTH, BOX, GAP, ROW = 1010, (172, 62), (20, 22), 44


def floor_of(folder):
    """The floor with the longest folder that the crate is in."""
    fits = [
        (len(own), number)
        for number, (_, folders) in enumerate(FLOORS)
        for own in folders
        if folder == own or (own and folder.startswith(own + "/"))
    ]
    return max(fits)[1]


def crates():
    """Crates by name: folder, description, names of the crates that it uses outside of tests."""
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--no-deps", "--offline", "--format-version", "1"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)["packages"]
    names = {package["name"] for package in packages}
    found = {}
    for package in sorted(packages, key=lambda package: package["manifest_path"]):
        folder = pathlib.Path(package["manifest_path"]).parent.relative_to(ROOT).as_posix()
        uses = {
            dependency["name"]
            for dependency in package["dependencies"]
            if dependency["name"] in names and dependency["kind"] != "dev"
        }
        found[package["name"]] = ("" if folder == "." else folder, package["description"] or "", uses)
    return found


def lines(text, length, count):
    """The words in at most `count` lines."""
    found = [""]
    for word in text.split():
        if len(found[-1]) + len(word) < length:
            found[-1] = f"{found[-1]} {word}".strip()
        else:
            found.append(word)
    return found if len(found) <= count else found[: count - 1] + [found[count - 1] + " .."]


def picture():
    found = crates()
    floors = [[name for name, (folder, *_) in found.items() if floor_of(folder) == number] for number in range(len(FLOORS))]
    for name, (folder, _, uses) in found.items():
        upward = [other for other in uses if floor_of(found[other][0]) < floor_of(folder)]
        if upward:
            sys.exit(f"{name} uses {', '.join(upward)}, which stand on a floor above it")
    for name, others in APART:
        shared = sorted(reached(found, name) & set(others))
        if shared:
            sys.exit(f"{name} depends on {', '.join(shared)}, with which it must share nothing")
    # The cycle model reads programs, but computes nothing.
    for path in sorted((ROOT / "rust/cycles/src").rglob("*.rs")):
        if any("machine::" in line.partition("//")[0] for line in path.read_text().splitlines()):
            sys.exit(f"{path.relative_to(ROOT)} uses the functional model, with which it must share nothing")
    columns = (WIDTH - 2 * GAP[0]) // (BOX[0] + GAP[0])
    place, y, text = {}, 16, []
    for (title, _), names in zip(FLOORS, floors):
        text.append(f'<text x="{GAP[0]}" y="{y + 16}" font-size="15" font-weight="bold">{title}</text>')
        y += 28
        for at, name in enumerate(names):
            row, column = divmod(at, columns)
            place[name] = (GAP[0] + column * (BOX[0] + GAP[0]), y + row * (BOX[1] + GAP[1]))
        y += -(-len(names) // columns) * (BOX[1] + GAP[1]) + ROW - GAP[1]
    paths = []
    for name, (_, _, uses) in found.items():
        # What a crate uses by way of another one is left out.
        below = {far for near in uses for far in reached(found, near)}
        for other in sorted(uses - below):
            (x, top), (to_x, to_top) = place[name], place[other]
            x, to_x = x + BOX[0] // 2, to_x + BOX[0] // 2
            start, end = top + BOX[1], to_top
            paths.append(
                f'<path d="M{x},{start} C{x},{start + 30} {to_x},{end - 30} {to_x},{end}" fill="none" stroke="#456" '
                f'stroke-opacity="0.35"><title>{name} uses {other}</title></path>'
            )
    for name, (x, top) in place.items():
        folder, about, _ = found[name]
        text.append(f'<rect x="{x}" y="{top}" width="{BOX[0]}" height="{BOX[1]}" rx="5" fill="#e8f1fa" stroke="#345"/>')
        text.append(f'<text x="{x + 8}" y="{top + 16}" font-weight="bold">{folder or "."}</text>')
        for number, line in enumerate(lines(about, 30, 3)):
            text.append(f'<text x="{x + 8}" y="{top + 30 + 12 * number}" font-size="10">{html.escape(line)}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-family="sans-serif" font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *paths, *text, "</svg>"]) + "\n"


def reached(found, name):
    """What a crate uses, and what that uses."""
    todo, seen = list(found[name][2]), set()
    while todo:
        other = todo.pop()
        if other not in seen:
            seen.add(other)
            todo.extend(found[other][2])
    return seen


if __name__ == "__main__":
    drawn = picture()
    if sys.argv[1:] == ["--check"]:
        if not PICTURE.is_file() or PICTURE.read_text() != drawn:
            sys.exit(f"{PICTURE.relative_to(ROOT)} is out of date: docs/crates.py writes it")
    else:
        PICTURE.write_text(drawn)
