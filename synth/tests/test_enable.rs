//! The test enable of clock gates: one input of the top module opens all gates of all modules below it, and changes nothing while it is low.
//!
//! Icarus Verilog simulates the mapped modules, put together again, and the RTL.

use crate::power::{CELLS, gated, icarus};
use ndp_hdl_language::{Design, ModuleBuilder};
use ndp_synth::liberty::Family;
use ndp_synth::script::CHOSEN_NETLIST;
use ndp_synth::source::Hierarchy;
use ndp_synth::tools;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const TEST_ENABLE: &str = "test_enable_i";
const CYCLES: u64 = 200;

/// Two enabled registers in a leaf, a module without clock, a memory, a module around a leaf, a top with its own gate.
fn design() -> Hierarchy {
    let m = ModuleBuilder::new("leaf", "Two registers, each with its enable.");
    let (a, enables) = (m.input("a_i", 8, "data"), m.input("en_i", 2, "enables"));
    let [first, second] = [0, 1].map(|n| {
        let register = m.reg(format!("q{n}_q"), 8).enable(enables.bit(n));
        register.next(a + register);
        register
    });
    m.output("y_o", first ^ second, "both");
    let leaf = m.finish().unwrap();

    let m = ModuleBuilder::new("inverter", "No clock.");
    let a = m.input("a_i", 8, "data");
    m.output("y_o", !a, "inverted");
    let inverter = m.finish().unwrap();

    let m = ModuleBuilder::new("memory", "Four words.");
    let (address, data, write) =
        (m.input("addr_i", 2, "word"), m.input("data_i", 8, "word"), m.input("write_i", 1, "write"));
    let words = m.memory("words", 8, 4);
    words.write(write, address, data);
    let q = m.reg("read_q", 8);
    q.next(words.read(address));
    m.output("data_o", q, "word");
    m.memory_macro(4, 8);
    let memory = m.finish().unwrap();

    let m = ModuleBuilder::new("middle", "Passes the test enable on.");
    let (a, enables) = (m.input("a_i", 8, "data"), m.input("en_i", 2, "enables"));
    let y = m.instance("leaf", &leaf).input("a_i", a).input("en_i", enables).output("y_o");
    m.output("y_o", m.instance("inverter", &inverter).input("a_i", y).output("y_o"), "data");
    let middle = m.finish().unwrap();

    let m = ModuleBuilder::new("top", "All of it.");
    let (a, enables) = (m.input("a_i", 8, "data"), m.input("en_i", 4, "enables"));
    let inner = m.instance("middle", &middle).input("a_i", a).input("en_i", enables.low(2)).output("y_o");
    let outer = m.instance("leaf", &leaf).input("a_i", inner).input("en_i", enables.low(2)).output("y_o");
    let kept = m.instance("memory", &memory).input("addr_i", a.low(2)).input("write_i", enables.bit(3));
    let kept = kept.input("data_i", outer).output("data_o");
    let own = m.reg("own_q", 8).enable(enables.bit(2));
    own.next(kept ^ own);
    m.output("y_o", own, "data");
    Hierarchy::from_design(&Design::new(&m.finish().unwrap()).unwrap())
}

fn modules(folder: &Path) -> Map<String, Value> {
    let mut all = Map::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let Ok(text) = std::fs::read_to_string(entry.path().join(CHOSEN_NETLIST)) else { continue };
        let file: Value = serde_json::from_str(&text).unwrap();
        let own = file["modules"].as_object().unwrap().clone();
        all.extend(own.into_iter().filter(|(_, module)| module["attributes"].get("blackbox").is_none()));
    }
    all
}

/// Renames the modules with the suffix `_mapped`.
fn verilog(modules: &Map<String, Value>, folder: &Path) -> String {
    let mapped = |name: &str| format!("{name}_mapped");
    let mut renamed = Map::new();
    for (name, module) in modules {
        let mut module = module.clone();
        for cell in module["cells"].as_object_mut().unwrap().values_mut() {
            let kind = cell["type"].as_str().unwrap().to_owned();
            if modules.contains_key(&kind) {
                cell["type"] = json!(mapped(&kind));
            }
        }
        renamed.insert(mapped(name), module);
    }
    let file = json!({ "creator": "test", "modules": renamed });
    std::fs::write(folder.join("all.json"), serde_json::to_string(&file).unwrap()).unwrap();
    let yosys = tools::yosys(None, std::time::Duration::from_secs(7200)).unwrap();
    let script = "read_json all.json; write_verilog -noattr all_mapped.v";
    let run = Command::new(yosys.program).args(["-q", "-p", script]).current_dir(folder).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    std::fs::read_to_string(folder.join("all_mapped.v")).unwrap()
}

/// RTL and netlist have to agree with random inputs and the test enable low; then no enables, with the test enable low,
/// then high. The bench counts the registers that a clock reached in these two phases by their cells.
fn bench() -> String {
    format!(
        "`timescale 1ps/1ps\nmodule bench; reg clk = 0, test = 0; reg [31:0] x = 0; integer n, seed = 7, differ = 0;\n\
         wire [7:0] rtl, gates;\n\
         top rtl_top (.clk_i(clk), .a_i(x[7:0]), .en_i(x[11:8]), .y_o(rtl));\n\
         top_mapped dut (.clk_i(clk), .a_i(x[7:0]), .en_i(x[11:8]), .y_o(gates), .test_enable_i(test));\n\
         initial begin $dumpfile(\"waves.vcd\"); $dumpvars; #500;\n\
         for (n = 0; n < 3 * {CYCLES}; n = n + 1) begin x = $random(seed);\n\
         if (n >= {CYCLES}) x[11:8] = 0; test = n >= 2 * {CYCLES};\n\
         #250 if (!test && rtl !== gates) differ = differ + 1; #250 clk = 1; #500 clk = 0; end\n\
         $display(\"differ %0d\", differ); $finish; end\nendmodule\n"
    )
}

/// Rising edges in a phase at the clock pin of each flip-flop.
fn clocked(waves: &Path, phase: u64) -> Vec<u64> {
    let mut wave = wellen::simple::read(waves).unwrap();
    let hierarchy = wave.hierarchy();
    let mut pins = Vec::new();
    for scope in hierarchy.all_scopes().map(|scope| &hierarchy[scope]) {
        if scope.full_name(hierarchy).starts_with("bench.dut.") {
            let vars = scope.vars(hierarchy).map(|var| &hierarchy[var]);
            pins.extend(vars.filter(|var| var.name(hierarchy) == "CK").map(|var| var.signal_ref()));
        }
    }
    let mut ids = pins.clone();
    ids.sort();
    ids.dedup();
    wave.load_signals(&ids);
    // The edge of cycle n is at n + 1 ns.
    let span = phase * CYCLES * 1000 + 1..=(phase + 1) * CYCLES * 1000;
    let rises = |signal| {
        let changes = wave.get_signal(signal).unwrap().iter_changes();
        let rises = changes.filter(|(place, value)| {
            span.contains(&wave.time_table()[*place as usize]) && value.to_bit_string().unwrap() == "1"
        });
        rises.count() as u64
    };
    pins.into_iter().map(rises).collect()
}

/// Outputs that differ between RTL and netlist, and edges at flip-flops with the test enable low and high.
fn simulated(modules: &Map<String, Value>, hierarchy: &Hierarchy, folder: &Path) -> (String, [Vec<u64>; 2]) {
    let zero = |line: &str| match line.trim_start() {
        words if words.starts_with("reg ") && words.ends_with("[0:3];") => {
            format!("{line} integer k; initial for (k = 0; k < 4; k = k + 1) words[k] = 0;\n")
        }
        register if register.starts_with("reg ") => line.replace(';', " = 0;\n"),
        _ => format!("{line}\n"),
    };
    let rtl: String =
        hierarchy.units.iter().flat_map(|unit| unit.verilog.lines().collect::<Vec<_>>()).map(zero).collect();
    let mapped = verilog(modules, folder);
    let printed = icarus(folder, &format!("{CELLS}{rtl}{mapped}{}", bench()));
    (printed, [1, 2].map(|phase| clocked(&folder.join("waves.vcd"), phase)))
}

#[test]
fn one_input_clocks_every_register_and_changes_nothing_while_it_is_low() {
    let (hierarchy, folder) = (design(), tempfile::tempdir().unwrap());
    gated(true).run(&hierarchy, folder.path(), &|_| ()).unwrap();
    let mut modules = modules(folder.path());
    let names: BTreeSet<&String> = modules.keys().collect();
    assert!(names.into_iter().eq(["inverter", "leaf", "middle", "top"]));
    for (name, module) in &modules {
        let ports = module["ports"].as_object().unwrap();
        assert_eq!(ports.contains_key(TEST_ENABLE), ports.contains_key("clk_i"), "{name}");
    }
    let (printed, [low, high]) = simulated(&modules, &hierarchy, folder.path());
    assert!(printed.contains("differ 0\n"), "{printed}");
    // Two leaves of 16 flip-flops, and 8 in the top.
    assert_eq!((low.len(), high.len()), (40, 40));
    assert!(low.iter().all(|edges| *edges == 0), "{low:?}");
    assert!(high.iter().all(|edges| *edges == CYCLES), "{high:?}");

    // An instance without the test enable: its 16 flip-flops do not move.
    modules["middle"]["cells"]["leaf"]["connections"][TEST_ENABLE] = json!(["0"]);
    let (printed, [_, high]) = simulated(&modules, &hierarchy, folder.path());
    assert!(printed.contains("differ 0\n"), "{printed}");
    assert_eq!(high.iter().filter(|edges| **edges == 0).count(), 16);
}

/// By the functions in their Liberty files, for ASAP7 and sky130.
const GATE_CELLS: &str = "module DFFLQNx1_ASAP7_75t_R(CLK, D, QN); input CLK, D; output reg QN; always @(negedge CLK) QN <= !D; endmodule\n\
    module INVx1_ASAP7_75t_R(A, Y); input A; output Y; assign Y = !A; endmodule\n\
    module AND2x2_ASAP7_75t_R(A, B, Y); input A, B; output Y; assign Y = A & B; endmodule\n\
    module OR2x2_ASAP7_75t_R(A, B, Y); input A, B; output Y; assign Y = A | B; endmodule\n\
    module sky130_fd_sc_hd__dlxtn_1(GATE_N, D, Q); input GATE_N, D; output reg Q; always @* if (!GATE_N) Q = D; endmodule\n\
    module sky130_fd_sc_hd__and2_1(A, B, X); input A, B; output X; assign X = A & B; endmodule\n\
    module sky130_fd_sc_hd__or2_1(A, B, X); input A, B; output X; assign X = A | B; endmodule\n";

#[test]
fn gates_of_real_libraries_pass_the_clock_with_either_enable() {
    for family in [Family::Asap7, Family::Sky130] {
        for test_enable in [false, true] {
            let gate = family.clock_gate(test_enable).unwrap();
            let (port, open) =
                if test_enable { (", .test_enable_i(x[1])", "(x[0] | x[1])") } else { ("", "x[0]") };
            // Enables change after a rising edge, and must not matter until the next one.
            let bench = format!(
                "module bench; reg clk = 1, now = 0, next; reg [1:0] x = 0; integer n, seed = 7, passed = 0, wrong = 0; wire out;\n\
                 clock_gate gate(.clk_i(clk), .en_i(x[0]){port}, .clk_o(out));\n\
                 initial begin #5 clk = 0; #5 clk = 1;\n\
                 for (n = 0; n < 200; n = n + 1) begin\n\
                 #1 if (out !== now) wrong = wrong + 1; x = $random(seed); next = {open};\n\
                 #1 if (out !== now) wrong = wrong + 1; #3 clk = 0; #1 if (out !== 0) wrong = wrong + 1;\n\
                 #4 clk = 1; now = next; passed = passed + now; end\n\
                 $display(\"wrong %0d passed %0d\", wrong, passed); $finish; end\nendmodule\n"
            );
            let folder = tempfile::tempdir().unwrap();
            let printed = icarus(folder.path(), &format!("{GATE_CELLS}{}{bench}", gate.verilog));
            let passed: u32 = printed.trim().rsplit_once(' ').unwrap().1.parse().unwrap();
            assert!(printed.contains("wrong 0 "), "{family:?}: {printed}");
            assert!((80..120).contains(&passed) != test_enable && passed < 180, "{family:?}: {printed}");
        }
    }
}

#[test]
fn without_a_test_enable_no_module_has_the_port() {
    let folder = tempfile::tempdir().unwrap();
    gated(false).run(&design(), folder.path(), &|_| ()).unwrap();
    let modules = modules(folder.path());
    assert_eq!(modules.len(), 4);
    assert!(modules.values().all(|module| module["ports"].get(TEST_ENABLE).is_none()));
}
