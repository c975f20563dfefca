#!/usr/bin/env python3
"""Stored measurements, and what the documents say of them.

    results.py                 writes docs/generated/results.md from docs/measured/*.json
    results.py --check         fails if that page, or a marked number in the documents, is not what the files say
    results.py --rerun [NAME]  runs the commands of NAME, or of all that take less than a minute, and compares the results
    results.py --measure NAME [COMMAND...]  runs commands, or those of docs/measured/NAME.json, and writes that file

A file has the commands, the commit, what the last command printed with --json, and what it took. A number in a document is marked by
a comment right behind it that names a figure of `figures` below: 0.955 followed by <!--products.least-->. `ndp` is target/release/ndp,
or what the variable NDP names; `ndp synth` needs the libraries that its command line names.
"""

import json
import math
import os
import pathlib
import re
import resource
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
PAGE = ROOT / "docs/generated/results.md"
# What differs from machine to machine and from run to run.
VOLATILE = {"seconds", "sim_cycles_per_second", "tools"}
QUICK_SECONDS = 60


class Files(dict):
    """What the files hold, by name; each is read when it is asked for."""

    def __missing__(self, name):
        self[name] = json.loads((FOLDER / f"{name}.json").read_text())
        return self[name]

    def result(self, name):
        return self[name]["result"]


FILES = Files()


def rows(name, key, **chosen):
    """The elements of a list of a result that have these values."""
    found = FILES.result(name)
    found = found[key] if key else found
    return [row for row in found if all(row[k] == v for k, v in chosen.items())]


def row(name, key, **chosen):
    (only,) = rows(name, key, **chosen)
    return only


def number(value, decimals=0):
    return f"{value:,.{decimals}f}"


def table(head, lines):
    """A table; columns whose cells are numbers are set to the right."""
    lines = [[str(cell) for cell in line] for line in lines]
    right = [all(re.fullmatch(r"[-+\d.,% ]*", line[i]) for line in lines) for i in range(len(head))]
    rule = ["---:" if numbers else "---" for numbers in right]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *lines]) + "\n"


def section(title, names, *parts):
    commands = [command for name in names for command in FILES[name]["commands"]]
    commands = list(dict.fromkeys(commands))
    return "\n".join([f"## {title}\n", "```sh", *commands, "```\n", *parts])


# What the sections need more than once.

SCALING = {"all": "scaling", "a fifth": "scaling-sparse", "a fifth, known in advance": "scaling-oracle"}
PAPERS = {"hermes": "Hermes", "powerinfer": "PowerInfer", "flash": "LLM in a flash", "librapim": "LibraPIM"}


def products_page():
    parts = []
    all_rows = rows("products", "products")
    batches = sorted({p["batch"] for p in all_rows})
    for density in sorted({p["density"] for p in all_rows}, reverse=True):
        lines = []
        for mode in ("dot", "axpy"):
            for cols in sorted({p["cols"] for p in all_rows}):
                of = {b: row("products", "products", mode=mode, cols=cols, density=density, batch=b) for b in batches}
                rate = [number(of[b]["macs"] / of[b]["cycles"], 1) for b in (batches[0], batches[-1])]
                lines.append([f"`{mode}`", number(cols), *(number(of[b]["efficiency"], 3) for b in batches), *rate])
        some = next(p for p in all_rows if p["density"] == density)
        parts.append(f"Share of the roofline, {number(some['active_rows'])} of {number(some['rows'])} rows:\n")
        parts.append(table(
            ["product by", "columns", *(f"batch {b}" for b in batches), "MAC per cycle at 1", f"at {batches[-1]}"], lines))
    result = FILES.result("products")
    parts.append(f"{number(result['outputs_checked'])} outputs were compared: {result['mismatches']} mismatches.\n")
    return section("Products against the roofline", ["products"], *parts)


def weights_page():
    lines = []
    for mode in ("dot", "axpy"):
        for cols in sorted({p["cols"] for p in rows("weights", "products")}):
            of = {w: row("weights", "products", mode=mode, cols=cols, weights=w) for w in ("fp16", "int8", "int4")}
            cells = [cell for p in of.values() for cell in (number(p["cycles"]), number(p["efficiency"], 3))]
            gain = of["fp16"]["cycles"] / of["int4"]["cycles"]
            lines.append([f"`{mode}`", number(cols), *cells, number(gain, 2)])
    head = ["product by", "columns"] + [c for w in ("FP16", "INT8", "INT4") for c in (f"{w} cycles", "of its roofline")]
    return section("Weights of 16, 8 and 4 bits", ["weights"], table([*head, "FP16 / INT4"], lines))


def text_page():
    text, layer = FILES.result("text"), FILES.result("layer")
    lines = [[p["phase"], number(p["cycles"]), number(100 * p["share"], 1)] for p in layer["phases"]]
    return section(
        "A text and a layer of the small model on one core", ["text", "layer"],
        f"The text: {number(text['cycles'])} cycles, {number(figures()['text.per-token'])} a token after the prompt. "
        f"{number(text['outputs_checked'])} outputs were compared: {text['mismatches']} mismatches.\n",
        f"The layer: {number(layer['cycles'])} cycles.\n", table(["phase", "cycles", "%"], lines))


def scaling_page():
    lines = []
    for active, name in SCALING.items():
        for merge in ("exact", "fp16"):
            of = rows(name, "rows", merge=merge)
            lines.append([active, merge, *(number(r["cycles"]) for r in of), number(of[-1]["speedup"], 2)])
    dimms = [r["dimms"] for r in rows("scaling", "rows", merge="exact")]
    head = ["active neurons", "merging", *(f"{n} DIMM{'s' if n > 1 else ''}" for n in dimms)]
    return section("A layer of LLaMA2-7B's size on several DIMMs", list(SCALING.values()),
                   "Cycles, and how many times as fast the most DIMMs are as one:\n",
                   table([*head, f"{dimms[-1]} DIMMs are faster by"], lines))


def policies_page():
    parts = []
    for cores, name in (("tiny", "policies"), ("hermes", "policies-hermes")):
        result = FILES.result(name)
        lines = [[
            r["dimms"], f"`{r['policy']}`", number(r["cycles_per_token"]), number(r["tokens_per_second"]),
            number(r["system_tokens_per_second"]), number(r["imbalance"], 3), r["migrations"], r["uploads"],
        ] for r in result["rows"]]
        checked = {r["outputs_checked"] for r in result["rows"]}
        equal = all(r["text_identical"] and r["logits_identical"] for r in result["rows"])
        parts.append(
            f"`{cores}` cores, {result['tokens']} tokens, {len(lines)} runs of {number(max(checked))} outputs each: "
            f"{sum(r['mismatches'] for r in result['rows'])} mismatches, "
            f"{sum(r['protocol_violations'] for r in result['rows'])} violations, "
            f"text and logits {'identical' if equal else 'NOT identical'}.\n")
        parts.append(table(["DIMMs", "policy", "cycles per token", "tokens/s", "system tokens/s", "load max/mean",
                            "migrated", "uploaded"], lines))
    return section("Policies on the small model", ["policies", "policies-hermes"], *parts)


def cause(device, what):
    """The column of a device's cause of time."""
    kind = device.split()[0]
    if kind == "DIMM":
        return {"dram": "DRAM", "set_up": "set-up"}.get(what, what)
    if kind == "channel":
        return "channels: latency" if what == "latency" else "channels: control, data, queue"
    return "messages" if kind == "link" else "GPU, bus"


def causes_page():
    """The critical path of `tiny` cores with the policy `partition`."""
    columns = ["compute", "DRAM", "set-up", "messages", "channels: latency", "channels: control, data, queue", "GPU, bus"]
    lines = []
    for r in rows("policies", "rows", policy="partition"):
        shares = dict.fromkeys(columns, 0)
        for device, causes in r["time"]["critical_path_ns"].items():
            for what, ns in causes.items():
                shares[cause(device, what)] += 100 * ns / r["time"]["ns"]
        lines.append([r["dimms"], number(r["system_ns_per_token"]), *(number(shares[c], 1) for c in columns)])
    return section("Where the time of a token goes", ["policies"], "Per cent of the critical path; `tiny` cores, policy `partition`:\n",
                   table(["DIMMs", "ns per token", *columns], lines))


def merging_page():
    lines = []
    for cores, name in (("tiny", "merging"), ("hermes", "merging-hermes")):
        for r in FILES.result(name)["rows"]:
            merge, differ = r["merge_figures"], r["differences"]
            lines.append([
                f"`{cores}`", r["dimms"], r["merge"], number(r["cycles_per_token"]), number(r["system_tokens_per_second"]),
                number(merge["meet_cycles"] / merge["meetings"]), number(merge["link_bytes"]), number(merge["bus_bytes"]),
                number(differ["different"]), number(differ["compared"]), number(differ["largest"])])
    head = ["cores", "DIMMs", "form", "cycles per token", "system tokens/s", "cycles of a meeting", "link bytes", "bus bytes",
            "results that differ", "of", "largest distance"]
    return section("What merging costs, policy `hermes`", ["merging", "merging-hermes"], table(head, lines))


def evaluated(name):
    """The only policy of an evaluation."""
    (only,) = FILES.result(name)["policies"]
    return only


def pim_page():
    lines = []
    for channels, name in ((2, "pim"), (4, "pim-4")):
        for mode in FILES.result(name)["modes"]:
            moved = [f"{mode[f'{kind}_requests']} in {mode[f'{kind}_steps']} steps" for kind in ("ffn", "mha")]
            lines.append([channels, f"`{mode['mode']}`", number(mode["clocks"]), number(mode["npu_idle"]),
                          number(mode["pim_idle"]), *moved])
    head = ["channels", "mode", "clocks", "NPU idle", "memory idle", "FFN moved", "attention moved"]
    return section("Texts on HBM-PIM with a slow NPU", ["pim", "pim-4"], table(head, lines))


def large_page():
    lines = []
    for what, name in (("FP16, causal", "large"), ("FP16, predicted", "large-predicted"), ("INT4, causal", "large-int4")):
        r = evaluated(name)
        lines.append([what, number(r["tokens_per_second"], 1), number(r["token_us"] / 1e3, 2)])
    compared = [[f"`{e['policy']}`", number(e["tokens_per_second"], 2), number(e["prefill_ms"]), number(e["token_ms"], 1)]
                for e in FILES.result("compare")["entries"]]
    return section(
        "LLaMA2-70B on a GPU and 8 DIMMs", ["large", "large-predicted", "large-int4", "compare"],
        "The scheduler on a trace:\n", table(["weights, neurons", "tokens/s", "ms per token"], lines),
        "All policies, with the assumptions of the set `hermes`; rates are those of a whole request:\n",
        table(["policy", "tokens/s", "prefill, ms", "ms per token"], compared))


def joules(value, decimals=2):
    """An energy with the range of its constants."""
    nominal, low, high = (number(value[key] / 1e15, decimals) for key in ("fj", "low_fj", "high_fj"))
    return f"{nominal} J ({low} to {high})"


def energy_page():
    lines = []
    for way in evaluated("energy")["energy"]["alternatives"]:
        total = {key: way["moving"][key] + way["devices"][key] for key in way["moving"]}
        lines.append([way["name"], number(way["bytes"]), number(way["ns"] / 1e6, 2), *map(joules, (way["moving"], way["devices"], total))])
    return section("Energy of a token of LLaMA2-13B", ["energy"],
                   table(["a token", "bytes", "ms", "moving", "devices and standby", "total"], lines))


def agrees(ours, number_of_paper):
    """Within 15 %; a number that the paper gives as a bound may lie anywhere on its side."""
    paper, bound = number_of_paper["paper"], number_of_paper["bound"]
    ratio = 1 if ours == paper else ours / paper if paper else math.inf
    slack = 0.15 + 1e-9
    return (bound == "at-most" or ratio >= 1 - slack) and (bound == "at-least" or ratio <= 1 + slack)


def agreement(paper):
    """How many numbers of a paper are computed, and how many of them agree with each set of assumptions."""
    of = [r for r in rows("figures", "rows", paper_name=paper) if r["fitted"] is not None]
    exact = [{**r, "exact": r["fitted"] if r["exact"] is None else r["exact"]} for r in of]
    return len(of), {kind: sum(agrees(r[kind], r) for r in exact) for kind in ("stated", "fitted", "exact")}


def figures_page():
    lines = []
    for key, name in PAPERS.items():
        count, near = agreement(key)
        lines.append([name, count, near["stated"], near["fitted"], near["exact"], f"[every number](figures-{key}.md)"])
    return section("The papers' numbers", ["figures"], "How many are within 15 %:\n",
                   table(["paper", "numbers", "stated parameters", "one set of assumptions", "and exact times", "page"], lines))


def area_page():
    lines = []
    for name in ("area", "area-bank", "area-bank-joined"):
        of, (command,) = FILES.result(name), FILES[name]["commands"]
        config = command.split("--config ")[1].split()[0]
        gated = " with clock gates" if "--clock-gating" in command else ""
        total = of["total"]
        lines.append([f"`{of['block']}` of `{config}`{gated}", number(total["area_um2"]), number(total["cells"]),
                      number(total["flip_flops"]), number(total["memory_bits"]), number(of["sram_area_um2"])])
    head = ["block", "cells, um2", "cells", "flip-flops", "SRAM, bits", "SRAM, um2 by assumption"]
    return section("Area in ASAP7", ["area", "area-bank", "area-bank-joined"],
                   "Without wires, of a predictive library: [what that means](../../synth/README.md).\n", table(head, lines))


def share(value, of):
    """How far a formula's rate is from the exact one, in percent."""
    return "" if value is None or of is None else f"{100 * (value / of - 1):+.1f}"


def points_page():
    result = FILES.result("points")
    layers = {p["name"]: p["equal"] for p in FILES.result("layers")["points"]}
    yes = {True: "yes", False: "NO"}
    lines = [[p["model"], p["weights"], p["batch"], p["context"], number(p["compare"], 2), yes[p["equal"]], yes[layers[p["name"]]],
              share(p["formula"], p["compare"]), "" if p["base"] is None else number(p["base"], 2), share(p["base_formula"], p["base"])]
             for p in result["points"]]
    head = ["model", "weights", "batch", "context", "`hermes`, tokens/s", "`evaluate` equal", "`layer` equal", "formula, %", "`hermes-base`, tokens/s", "formula, %"]
    return section("One rate from two commands, and the error of the formulas", ["points", "layers"],
                   f"Rates after the prompt on the machine, {result['exact']} of {result['generated']} tokens exact, set `hermes`, predicted neurons,"
                   " synthetic traces.", f"Models without ReLU have a trace with {100 * result['density']:.0f} % of the neurons active, on which the"
                   " formulas have no value. *Formula*: `compare --formula` over the machine.",
                   "*`layer` equal*: a layer of these sizes takes the same cycles in `layer` and in `compare`, for each operation, with all neurons"
                   " active and on the DIMMs.\n", table(head, lines))


def chat_page():
    result = FILES.result("chat")
    lines = [[a["machine"], a["weights"], a["text"], a["tokens"], number(a.get("cycles") or a["clocks"]), number(a["system_tokens_per_second"]),
              number(a["outputs_checked"])] for a in result["answers"]]
    head = ["machine", "weights", "answer", "tokens", "cycles, or clocks", "tokens/s", "outputs compared"]
    losses = [[p["weights"], number(p["per_token"], 2), number(100 * p["change"], 1), number(100 * p["right"], 1), p["tokens"]]
              for p in result["perplexity"]]
    return section("A conversation with SmolLM2-135M-Instruct", ["chat"],
                   f"The question is \"{result['question']}\", greedy, on the cores `hermes` and the channels `librapim`; prompt included in the cycles."
                   " No output is wrong. Tokens/s are those after the prompt on the DIMMs, and of all steps on HBM-PIM.\n", table(head, lines),
                   "\nPerplexity of Debian's copy of the GPL 3 (first 1,024 tokens, windows of 256). The file has Q4_1 weights; they become FP16,"
                   " and INT8 and INT4 with groups of 32 quantise them again:\n",
                   table(["weights", "perplexity", "change, %", "largest logit right, %", "tokens"], losses))


def thresholds_page():
    result = FILES.result("thresholds")
    losses = [[p["weights"], p["share"], number(100 * p["active"], 1), number(p["per_token"], 2), number(100 * p["change"], 1),
               number(100 * p["right"], 1)] for p in result["perplexity"]]
    answers = [[a["share"], a["text"].replace("\n", " "), a["tokens"], number(a["cycles"]), number(a["system_tokens_per_second"]),
                number(a["outputs_checked"])] for a in result["answers"]]
    activity = []
    for a in result["activity"]:
        rates, mlp = a["tokens_per_second"], a["predictor"]
        hits = ["", ""] if mlp is None else [
            number(100 * mlp["true_positives"] / (mlp["true_positives"] + mlp[other]), 1) for other in ("false_negatives", "false_positives")]
        predicted = a["predicted_tokens_per_second"]
        activity.append([a["share"], *(number(100 * a[key], 1) for key in ("active", "block_share", "adjacent", "distant", "hot_change", "layer")),
                         *(number(rates[policy]) for policy in ("random", "partition", "hermes")),
                         "" if predicted is None else number(predicted), *hits])
    name = lambda path: path.rsplit("/", 1)[-1]
    return section("SmolLM2-135M-Instruct with thresholds", ["thresholds"],
                   f"Thresholds were found on Debian's {name(result['found_on'])} (512 tokens), perplexity is of {name(result['measured_on'])}"
                   " (512 tokens, windows of 256); share 100 is the model without thresholds.\n",
                   table(["weights", "share, %", "active, %", "perplexity", "change, %", "largest logit right, %"], losses),
                   f"\n\"{result['question']}\" on 4 DIMMs of `hermes` with a GPU, FP16, greedy; no output is wrong:\n",
                   table(["share, %", "answer", "tokens", "cycles", "tokens/s", "outputs compared"], answers),
                   "\nActivity of four texts of 120 generated tokens, as `ndp trace stats` gives it, for MLP neurons alone: the smallest share of neurons"
                   " with 80 % of the activations; the similarity to the token before, and to the one 11 tokens before; hot neurons that change;"
                   " the chance to be active with the most correlated neuron of the block before. Then tokens/s of the last text on 4 DIMMs, for which"
                   " the GPU has memory for 20 % of the neurons: neurons at random, placed by frequency, and moved by Hermes; then Hermes with"
                   " predicted neurons, whose text may differ, and the recall and precision of its predictor:\n",
                   table(["share, %", "active, %", "80 % come from, %", "adjacent, %", "distant, %", "hot changed, %", "with parent, %", "random",
                          "partition", "hermes", "predicted", "recall, %", "precision, %"], activity))


def experts_page():
    lines = [[a["model"], a["weights"], number(100 * a["active"], 1), *(number(a["tokens_per_second"][policy], 2) for policy in
              ("random", "partition", "hermes")), number(a["to_the_gpu_bytes_per_token"] / 1e6, 2), number(a["moved_bytes_per_token"] / 1e6, 2)]
             for a in FILES.result("experts")]
    head = ["model", "weights", "active neurons, %", "random", "partition", "hermes", "to the GPU, MB a token", "between DIMMs, MB a token"]
    return section("Mixtures of experts on four DIMMs", ["experts"],
                   "Tokens/s after the prompt on 4 DIMMs of `hermes` with a GPU: neurons of experts at random, placed by frequency, and moved by Hermes."
                   " The traces are synthetic, links count bytes, 2 of 24 tokens ran.\n", table(head, lines))


def proofs_page():
    lines = [[f"`{p['name']}`", p["outcome"]["verdict"], p["method"], "; ".join(", ".join(f"`{x}`" for x in m["properties"]) for m in p["mutants"])]
             for p in rows("proofs", "proofs")]
    return section("Proofs", ["proofs"], table(["proof", "verdict", "method", "properties that each mutant breaks"], lines))



PAGES = [
    products_page, weights_page, text_page, scaling_page, causes_page, policies_page, merging_page, pim_page, large_page,
    energy_page, figures_page, points_page, chat_page, thresholds_page, experts_page, area_page, proofs_page,
]


def page():
    return "\n".join([
        "# Measured\n",
        "Written by `python3 docs/measured/results.py` from the files in `docs/measured`; do not edit. [results.md](../results.md) says what",
        "the numbers mean. The commands above each table measured it.\n",
        *(part() for part in PAGES)])


def figures():
    """Every number that a document may mark, by name."""
    found = {}
    products = FILES.result("products")["products"]
    found["products.least"] = min(p["efficiency"] for p in products)
    found["products.most"] = max(p["efficiency"] for p in products)
    found["products.outputs"] = FILES.result("products")["outputs_checked"]
    gains = [p["cycles"] / row("weights", "products", mode=p["mode"], cols=p["cols"], weights="int4")["cycles"]
             for p in rows("weights", "products", weights="fp16")]
    found["weights.int4.least"], found["weights.int4.most"] = min(gains), max(gains)
    text = FILES.result("text")
    found["text.cycles"], found["text.outputs"] = text["cycles"], text["outputs_checked"]
    found["text.per-token"] = (text["cycles"] - text["prompt_cycles"]) / (text["tokens"] - 1)
    found["layer.cycles"] = FILES.result("layer")["cycles"]
    for active, name in zip(("all", "sparse", "oracle"), SCALING.values()):
        for r in rows(name, "rows"):
            found[f"scaling.{active}.{r['merge']}.{r['dimms']}"] = r["cycles"]
            found[f"scaling.{active}.{r['merge']}.{r['dimms']}.speedup"] = r["speedup"]
    for name in ("policies", "policies-hermes"):
        for r in rows(name, "rows"):
            cores = FILES.result(name)["config"]["name"]
            found[f"policies.{cores}.{r['dimms']}.{r['policy']}"] = r["cycles_per_token"]
    for name in ("merging", "merging-hermes"):
        for r in rows(name, "rows"):
            meeting = r["merge_figures"]["meet_cycles"] / r["merge_figures"]["meetings"]
            found[f"merging.{FILES.result(name)['config']['name']}.{r['dimms']}.{r['merge']}"] = meeting
    long, fp32 = FILES.result("long-hermes"), FILES.result("fp32")
    found["long.hermes.4.cycles"], found["long.hermes.4.load"] = long["cycles_per_token"], long["imbalance"]
    for r in rows("long", "rows"):
        found[f"long.tiny.{r['dimms']}.cycles"] = r["cycles_per_token"]
        found[f"long.tiny.{r['dimms']}.ns"] = r["system_ns_per_token"]
    for r in rows("oracle", "rows"):
        found[f"oracle.{r['dimms']}"] = r["cycles_per_token"]
    found |= {f"fp32.{key}": value for key, value in fp32["differences"].items()}
    for name, channels in (("pim", 2), ("pim-4", 4)):
        dex, dbo = (row(name, "modes", mode=mode)["clocks"] for mode in ("dex", "dex+dbo"))
        found[f"pim.{channels}.gain"] = dex / dbo
    for name in ("large", "large-predicted", "large-int4"):
        found[name], found[f"{name}.ms"] = evaluated(name)["tokens_per_second"], evaluated(name)["token_us"] / 1e3
    for entry in FILES.result("compare")["entries"]:
        found[f"compare.{entry['policy']}"] = entry["tokens_per_second"]
    points = FILES.result("points")["points"]
    found["layers.equal"] = sum(p["equal"] for p in FILES.result("layers")["points"])
    found["points"], found["points.equal"] = len(points), sum(p["equal"] for p in points)
    for name, key, exact in (("hermes", "formula", "compare"), ("base", "base_formula", "base")):
        errors = [100 * (p[key] / p[exact] - 1) for p in points if p[key] is not None]
        found[f"points.{name}.below"], found[f"points.{name}.above"] = -min(errors), max(errors)
        found[f"points.{name}.mean"] = sum(map(abs, errors)) / len(errors)
    for name, way in zip(("dimms", "pcie", "host"), evaluated("energy")["energy"]["alternatives"]):
        for key in ("fj", "low_fj", "high_fj"):
            found[f"energy.{name}.{key[:-3] or 'nominal'}"] = (way["moving"][key] + way["devices"][key]) / 1e15
    for paper in PAPERS:
        found[f"figures.{paper}"], near = agreement(paper)
        found |= {f"figures.{paper}.{kind}": count for kind, count in near.items()}
    for name, baseline in (("aim", "NPU+AiM"), ("attacc", "AttAcc"), ("neupims", "NeuPIMs")):
        speedup = row("figures", "rows", paper_name="librapim", item=f"LibraPIM over {baseline}, mean")
        found[f"librapim.{name}"] = speedup["exact"]
    area, sliced, joined = (FILES.result(name) for name in ("area", "area-bank", "area-bank-joined"))
    found["area.cells.um2"] = area["total"]["area_um2"]
    found["area.cells.mm2"], found["area.sram.mm2"] = area["total"]["area_um2"] / 1e6, area["sram_area_um2"] / 1e6
    found["area.slicing.percent"] = 100 * (sliced["total"]["area_um2"] / joined["total"]["area_um2"] - 1)
    found["proofs"] = len(rows("proofs", "proofs"))
    for page in sorted({one["page"] for one in FILES.result("tutorial")}):
        of = rows("tutorial", None, page=page)
        found[f"tutorial.{page[0]}.minutes"] = sum(one["seconds"] for one in of) / 60
        found[f"tutorial.{page[0]}.gb"] = max(one["megabytes"] for one in of) / 1e3
    first = {"build": "cargo build --release --bin ndp", "gemv": "ndp gemv --config tiny --rows 64 --cols 1024"}
    for name, command in first.items():
        one = row("tutorial", None, command=command)
        found[f"tutorial.{name}.minutes"], found[f"tutorial.{name}.gb"] = one["seconds"] / 60, one["megabytes"] / 1e3
    return found


MARK = re.compile(r"(?P<text>[\w.,]*)<!--(?P<name>[a-z0-9.+-]+)-->")


def documents():
    return [p for p in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if p != PAGE]


def marks():
    """(file, line, text, name) of each marked number."""
    for document in documents():
        for line, text in enumerate(document.read_text().splitlines(), 1):
            for mark in MARK.finditer(text):
                yield document.relative_to(ROOT), line, mark["text"], mark["name"]


def check():
    wrong, values, count = [], figures(), 0
    for path, line, text, name in marks():
        count += 1
        if name not in values:
            wrong.append(f"{path}:{line}: <!--{name}-->: no such figure in docs/measured/results.py")
            continue
        expected = number(values[name], len(text.partition(".")[2]))
        if text != expected:
            wrong.append(f"{path}:{line}: {text}, expected {expected}: {name} is {values[name]}")
    if not PAGE.exists() or PAGE.read_text() != page():
        wrong.append(f"{PAGE.relative_to(ROOT)} is not what docs/measured says: write it anew with docs/measured/results.py")
    if count < 40:
        wrong.append(f"only {count} numbers are marked")
    sys.exit("\n".join(wrong) if wrong else None)


def trimmed(value):
    """Without what differs from run to run; of lists of hundreds, such as what each neuron did, only their length is stored."""
    if isinstance(value, dict):
        return {key: trimmed(v) for key, v in value.items() if key not in VOLATILE}
    if isinstance(value, list):
        return {"left_out": len(value)} if len(value) > 300 else [trimmed(v) for v in value]
    return value


def run(commands):
    """What the last command prints with --json, and what all take: seconds, and megabytes of the largest process."""
    ndp = os.environ.get("NDP", str(ROOT / "target/release/ndp"))
    began = time.time()
    for command in commands:
        shell = ["bash", "-ec", f'ndp() {{ "$NDP" "$@"; }}\n{command}']
        done = subprocess.run(shell, cwd=ROOT, env={**os.environ, "NDP": ndp}, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"exit code {done.returncode} of {command}")
    result = json.loads(done.stdout) if "--json" in commands[-1] else None
    megabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    return result, {"seconds": round(time.time() - began, 1), "megabytes": round(megabytes)}


def store(name, commands, took, result):
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()
    entry = {"commands": commands, "commit": commit, **took, "result": result}
    text = json.dumps(entry, indent=1)
    # A list or an object without others inside is one line.
    flat = re.compile(r"([\[{])\n\s*([^\[\]{}]*?)\n\s*([\]}])")
    text = flat.sub(lambda m: m[1] + re.sub(r"\n\s*", " ", m[2]) + m[3], text)
    (FOLDER / f"{name}.json").write_text(text + "\n")


def names():
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def libraries(commands):
    """Whether the cell libraries that commands name are there; the repository has none."""
    return all((ROOT / word).is_file() for command in commands for word in command.split() if word.endswith(".lib"))


def rerun(chosen):
    quick = [name for name in names() if FILES[name]["seconds"] < QUICK_SECONDS and libraries(FILES[name]["commands"])]
    wrong = []
    for name in chosen or quick:
        result, took = run(FILES[name]["commands"])
        same = trimmed(result) == FILES.result(name)
        print(f"{name}: {'as stored' if same else 'DIFFERS'} ({took['seconds']:.0f} s)", flush=True)
        if not same:
            wrong.append(f"docs/measured/{name}.json: {FILES[name]['commands'][-1]} prints something else today")
    sys.exit("\n".join(wrong) if wrong else None)


def main():
    job, *rest = sys.argv[1:] or ["--write"]
    if job == "--write" and not rest:
        PAGE.write_text(page())
    elif job == "--check" and not rest:
        check()
    elif job == "--rerun":
        rerun(rest)
    elif job == "--measure" and rest:
        commands = rest[1:] or FILES[rest[0]]["commands"]
        result, took = run(commands)
        store(rest[0], commands, took, trimmed(result))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
