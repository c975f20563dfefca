#!/usr/bin/env python3
"""Runs the tutorial on a copy of the repository: writes its files, applies its changes, runs its commands, compares what they print.

Blocks of the pages: `file=PATH` is a file; `diff apply` is a change, found by its context; `sh` is commands; `console` is
commands behind `$ ` with what they print, where a line `...` stands for any lines. The copy is `target/tutorial/ndp-cosim`; what
it builds stays in `target/tutorial/target`, or CARGO_TARGET_DIR. With --store, what each command took is in docs/measured/tutorial.json:
seconds, and megabytes of its largest process.
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


def run(command, page, root, environment, took):
    """What a command prints; notes what it took."""
    shell = ["bash", "-ec", f'ndp() {{ "$NDP" "$@"; }}\n{command}']
    began = time.time()
    started = subprocess.Popen(shell, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    printed = started.stdout.read()
    _, status, used = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    if status != 0:
        raise AssertionError(f"exit code {started.returncode}\n{printed}")
    took.append({"page": page.stem, "command": command, "seconds": round(time.time() - began, 1), "megabytes": round(used.ru_maxrss / 1e3)})
    print(f"  {took[-1]['seconds']} s, {took[-1]['megabytes']} MB: {command}", flush=True)
    return printed


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
    took = []
    for page in sorted(PAGES.glob("[0-9]-*.md")):
        for line, info, text in blocks(page):
            place = f"{page.name}:{line}"
            try:
                if "file=" in info:
                    path = root / info.split("file=")[1]
                    path.write_text("\n".join(text) + "\n")
                elif info == "diff apply":
                    apply(text, root)
                elif info == "sh":
                    for command in (command for command in text if not command.startswith("alias ")):
                        run(command, page, root, environment, took)
                elif info == "console":
                    command, expected = text[0].removeprefix("$ "), text[1:]
                    printed = run(command, page, root, environment, took)
                    assert matches(expected, printed), "expected\n" + "\n".join(expected) + f"\nprinted\n{printed}"
            except AssertionError as error:
                sys.exit(f"{place}: {text[0]}: {error}")
    assert len(took) >= 15, f"only {len(took)} commands"
    print(f"{len(took)} commands did what the tutorial says")
    if "--store" in sys.argv[1:]:
        sys.path.insert(0, str(ROOT / "docs/measured"))
        import results

        whole = {"seconds": round(sum(one["seconds"] for one in took)), "megabytes": max(one["megabytes"] for one in took)}
        results.store("tutorial", ["python3 docs/tutorial/run.py --store"], whole, took)


if __name__ == "__main__":
    main()
