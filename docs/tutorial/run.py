#!/usr/bin/env python3
"""Runs the tutorial on a copy of the repository: writes its files, applies its changes, runs its commands, compares what they print.

Blocks of the pages: `file=PATH` is a file; `diff apply` is a change, found by its context; `sh` is commands; `console` is
commands behind `$ ` with what they print, where a line `...` stands for any lines. The copy is `target/tutorial/ndp-cosim`; what
it builds stays in `target/tutorial/target`, or CARGO_TARGET_DIR.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

PAGES = pathlib.Path(__file__).resolve().parent
ROOT = PAGES.parent.parent


def blocks(page):
    """(line, info, text) of each fenced block."""
    found, info, start, text = [], None, 0, []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if not line.startswith("```"):
            text.append(line)
        elif info is None:
            info, start, text = line[3:], number, []
        else:
            found.append((start, info, text))
            info, text = None, []
    return found


def apply(diff, root):
    """Replaces the context lines of each hunk by what it makes of them; the context has to occur once."""
    path, hunks = None, []
    for line in diff:
        if line.startswith("--- "):
            continue
        if line.startswith("+++ b/"):
            path = root / line[6:]
        elif line.startswith("@@"):
            hunks.append((path, []))
        else:
            hunks[-1][1].append(line)
    for path, lines in hunks:
        old = "".join(line[1:] + "\n" for line in lines if line[0] in " -")
        new = "".join(line[1:] + "\n" for line in lines if line[0] in " +")
        text = path.read_text()
        assert text.count(old) == 1, f"{path}: the context occurs {text.count(old)} times:\n{old}"
        path.write_text(text.replace(old, new))


def run(command, root, environment):
    shell = ["bash", "-ec", f'ndp() {{ "$NDP" "$@"; }}\n{command}']
    done = subprocess.run(shell, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def matches(expected, printed):
    parts = [re.escape(line) if line != "..." else None for line in expected]
    pattern = "".join(r"(?:.*\n)*?" if part is None else part + r"\s*\n" for part in parts)
    return re.fullmatch(pattern, printed if printed.endswith("\n") else printed + "\n")


def main():
    folder = ROOT / "target/tutorial"
    root = folder / "ndp-cosim"
    shutil.rmtree(root, ignore_errors=True)
    list_files = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(list_files, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    for name in filter(None, files.stdout.decode().split("\0")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, root / name)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", folder / "target"))
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target), "NDP": str(target / "release/ndp")}
    ran = 0
    for page in sorted(PAGES.glob("[0-9]-*.md")):
        for line, info, text in blocks(page):
            place, began = f"{page.name}:{line}", time.time()
            try:
                if "file=" in info:
                    path = root / info.split("file=")[1]
                    path.write_text("\n".join(text) + "\n")
                elif info == "diff apply":
                    apply(text, root)
                elif info == "sh":
                    commands = [command for command in text if not command.startswith("alias ")]
                    run("\n".join(commands), root, environment)
                    ran += len(commands)
                elif info == "console":
                    command, expected = text[0].removeprefix("$ "), text[1:]
                    printed = run(command, root, environment)
                    assert matches(expected, printed), "expected\n" + "\n".join(expected) + f"\nprinted\n{printed}"
                    ran += 1
            except AssertionError as error:
                sys.exit(f"{place}: {text[0]}: {error}")
            if info in ("sh", "console") and text:
                print(f"{place}: {text[0]} ({time.time() - began:.0f} s)", flush=True)
    assert ran >= 15, f"only {ran} commands"
    print(f"{ran} commands did what the tutorial says")


if __name__ == "__main__":
    main()
