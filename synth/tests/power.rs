//! Power of replayed netlists: against a hand-made wave file, and against Icarus Verilog, which simulates the mapped netlist cell by cell.
//!
//! Energies of the library's cells are small integers, so expected values follow from counts.

use crate::common;
use crate::flow::{chain, flow, library};
use ndp_hdl_language::{Design, ModuleBuilder, mux};
use ndp_synth::flow::Flow;
use ndp_synth::liberty::ClockGate;
use ndp_synth::power::replay::Energy;
use ndp_synth::power::report::WindowReport;
use ndp_synth::power::{self, Activity, Request, Window};
use ndp_synth::source::Hierarchy;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

fn accumulator() -> Hierarchy {
    let m = ModuleBuilder::new("accumulator", "Adds.");
    let [a, b] = [m.input("a_i", 8, "number"), m.input("b_i", 8, "number")];
    let enable = m.input("en_i", 1, "add");
    let sum = m.reg("sum_q", 8).enable(enable);
    sum.next(sum + mux(a.bit(0), a, b));
    let late = m.reg("late_q", 8);
    late.next(a ^ b);
    m.output("sum_o", sum, "sum");
    m.output("late_o", late & sum, "both");
    Hierarchy::from_design(&Design::new(&m.finish().unwrap()).unwrap())
}

fn toggle() -> Hierarchy {
    let m = ModuleBuilder::new("toggle", "A register.");
    let q = m.reg("q_q", 1);
    q.next(m.input("a_i", 1, "bit"));
    m.output("y_o", !q, "inverted");
    Hierarchy::from_design(&Design::new(&m.finish().unwrap()).unwrap())
}

fn map(hierarchy: &Hierarchy, folder: &Path) {
    flow(Some(library(&common::liberty())), false).run(hierarchy, folder, &|_| ()).unwrap();
}

fn measure(folder: &Path, waves: &Path, start: u64, stop: Option<u64>) -> Result<Activity, String> {
    let windows = [Window { name: "w".into(), start, stop, work: None }];
    let library = library(&common::liberty());
    let request = Request {
        netlists: folder,
        library: &library,
        waves,
        windows: &windows,
        slew_ps: 20.0,
        load_ff: 2.0,
        jobs: 2,
    };
    power::run(&request).map(|mut all| all.remove(0)).map_err(|error| format!("{error:#}"))
}

/// Hand-written waves of `toggle` with a period of 10 ps; `levels` are the values of `a_i`.
fn waves(levels: &[bool]) -> String {
    let mut text = "$timescale 1ps $end\n$scope module TOP $end\n$scope module toggle $end\n\
        $var wire 1 c clk_i $end\n$var wire 1 a a_i $end\n$var wire 1 q q_q $end\n$var wire 1 y y_o $end\n\
        $upscope $end\n$upscope $end\n$enddefinitions $end\n"
        .to_owned();
    for (cycle, a) in levels.iter().enumerate() {
        let _ = write!(text, "#{}\n0c\n{}a\n", cycle * 10, u8::from(*a));
        if cycle == 0 {
            text += "0q\n1y\n";
        }
        let q = *a;
        let _ = write!(text, "#{}\n1c\n{}q\n{}y\n", cycle * 10 + 5, u8::from(q), u8::from(!q));
    }
    text + "#9999\n"
}

fn of_levels(levels: &[bool]) -> Activity {
    let folder = tempfile::tempdir().unwrap();
    map(&toggle(), folder.path());
    let file = folder.path().join("t.vcd");
    std::fs::write(&file, waves(levels)).unwrap();
    measure(folder.path(), &file, 0, None).unwrap()
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1e-9), "{found}, expected {expected}");
}

#[test]
fn energies_of_a_hand_made_wave_file_are_those_worked_out_by_hand() {
    // Nine edges, eight cycles. `a_i` changes four times before the ninth edge; `q_q` and `y_o` do so a cycle later.
    let a = [true, true, false, false, true, true, true, false, false];
    let found = of_levels(&a);
    assert_eq!((found.period_ps, found.cycles), (10, 8));
    let power = found.modules[0].power_mw;
    let span_ps = 80.0;
    // q: 0 1 1 0 0 1 1 1 0 at the nine edges: two rises and two falls; the inverter's output changes the other way.
    close(power.internal * span_ps, 2.0 * (2.0 + 1.0) + 2.0 * (2.0 + 1.0));
    // a: three changes at D, q: four at the inverter's input; half a fF V2 each. The output has no pin of the module.
    close(power.switching * span_ps, 0.5 * (3.0 + 4.0));
    // 3 + 2 fJ inside and a fF that is charged and discharged, for each cycle.
    close(power.clock * span_ps, 8.0 * (5.0 + 1.0));
    // Two cells of 4 nW.
    close(power.leakage, 8e-6);
    // a three times, q four, y four.
    assert_eq!(found.modules[0].changes, 11);
}

#[test]
fn twice_the_changes_are_twice_the_dynamic_power_but_for_the_clock() {
    let levels = |every: usize| (0..66).map(|cycle| cycle / every % 2 == 1).collect::<Vec<_>>();
    let skip = |every: usize| {
        let folder = tempfile::tempdir().unwrap();
        map(&toggle(), folder.path());
        let file = folder.path().join("t.vcd");
        std::fs::write(&file, waves(&levels(every))).unwrap();
        // From the second change; 64 cycles.
        measure(folder.path(), &file, 1, Some(65)).unwrap().modules[0].power_mw
    };
    let (fast, slow) = (skip(1), skip(2));
    close(fast.internal, 2.0 * slow.internal);
    close(fast.switching, 2.0 * slow.switching);
    close(fast.clock, slow.clock);
    assert!(fast.internal > 0.0 && fast.switching > 0.0);
}

/// Runs Icarus Verilog, whose bench writes `waves.vcd`; returns its output.
pub fn icarus(folder: &Path, verilog: &str) -> String {
    std::fs::write(folder.join("all.v"), verilog).unwrap();
    let mut printed = String::new();
    for command in [&["iverilog", "-g2005", "-o", "all.vvp", "all.v"][..], &["vvp", "-n", "all.vvp"]] {
        let run = Command::new(command[0]).args(&command[1..]).current_dir(folder).output().unwrap();
        assert!(run.status.success(), "{command:?}: {}", String::from_utf8_lossy(&run.stderr));
        printed = String::from_utf8(run.stdout).unwrap();
    }
    printed
}

/// A bench with random inputs before each of 200 edges: `ports` may connect to `clk` and `x` (the inputs).
fn bench(module: &str, ports: &str) -> String {
    format!(
        "`timescale 1ps/1ps\nmodule bench; reg clk = 0; reg [31:0] x = 0; integer n, seed = 7;\n\
         {module} dut ({ports});\n\
         initial begin $dumpfile(\"waves.vcd\"); $dumpvars; #500;\n\
         for (n = 0; n < 200; n = n + 1) begin x = $random(seed); #500 clk = 1; #500 clk = 0; end $finish; end\nendmodule\n"
    )
}

pub const CELLS: &str = "module INV(A, Y); input A; output Y; assign Y = !A; endmodule\n\
    module BUF(A, Y); input A; output Y; assign Y = A; endmodule\n\
    module NAND2(A, B, Y); input A, B; output Y; assign Y = !(A & B); endmodule\n\
    module NOR2(A, B, Y); input A, B; output Y; assign Y = !(A | B); endmodule\n\
    module AND2(A, B, Y); input A, B; output Y; assign Y = A & B; endmodule\n\
    module OR2(A, B, Y); input A, B; output Y; assign Y = A | B; endmodule\n\
    module XOR2(A, B, Y); input A, B; output Y; assign Y = A ^ B; endmodule\n\
    module MUX2(A, B, S, Y); input A, B, S; output Y; assign Y = S ? B : A; endmodule\n\
    module DFF(CK, D, Q); input CK, D; output reg Q; initial Q = 0; always @(posedge CK) Q <= D; endmodule\n\
    module LATN(G, D, Q); input G, D; output reg Q; always @* if (!G) Q = D; endmodule\n";

/// Energies from the pins of all cells of a simulated netlist, between edges.
fn expected(waves: &Path, edges: std::ops::Range<u64>) -> Energy {
    let mut wave = wellen::simple::read(waves).unwrap();
    let hierarchy = wave.hierarchy();
    let mut pins = Vec::new();
    for scope in hierarchy.all_scopes().map(|scope| &hierarchy[scope]) {
        // Cells are inside the device, which is inside the bench.
        if scope.full_name(hierarchy).matches('.').count() < 2 {
            continue;
        }
        for var in scope.vars(hierarchy).map(|var| &hierarchy[var]) {
            pins.push((var.name(hierarchy).to_owned(), var.signal_ref()));
        }
    }
    let ids: Vec<_> = pins.iter().map(|(_, signal)| *signal).collect();
    wave.load_signals(&ids);
    // Just before the edge: the edge of cycle n is at n ns.
    let times = wave.time_table();
    let place = |edge: u64| times.partition_point(|time| *time < edge * 1000) - 1;
    let mut energy = Energy::default();
    for (name, signal) in &pins {
        let signal = wave.get_signal(*signal).unwrap();
        let value = |edge: u64| {
            let offset = signal.get_offset(place(edge) as u32).unwrap();
            signal.get_value_at(&offset, offset.elements - 1).to_bit_string().unwrap() == "1"
        };
        for edge in edges.clone() {
            let (before, after) = (value(edge), value(edge + 1));
            match (name.as_str(), before, after) {
                ("CK", ..) => energy.clock += 3.0 + 2.0 + 1.0,
                (_, before, after) if before == after => {}
                ("Y" | "Q", false, true) => energy.internal += 2.0,
                ("Y" | "Q", true, false) => energy.internal += 1.0,
                _ => energy.switching += 0.5,
            }
        }
    }
    energy
}

fn simulate_rtl(hierarchy: &Hierarchy, ports: &str, folder: &Path) {
    let verilog: String =
        hierarchy.units.iter().map(|unit| unit.verilog.as_str()).collect::<Vec<_>>().join("\n");
    let top = &hierarchy.units.last().unwrap().name;
    // Registers of RTL have no value before they are written.
    let zero = |line: &str| match line.trim_start() {
        words if words.starts_with("reg ") && words.ends_with("[0:15];") => {
            format!("{line} integer k; initial for (k = 0; k < 16; k = k + 1) words[k] = 0;\n")
        }
        register if register.starts_with("reg ") => line.replace(';', " = 0;\n"),
        _ => format!("{line}\n"),
    };
    let verilog: String = verilog.lines().map(zero).collect();
    icarus(folder, &format!("{verilog}{}", bench(top, ports)));
}

#[test]
fn a_replay_counts_what_a_simulation_of_the_netlist_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (nets, rtl, gates) =
        (folder.path().join("nets"), folder.path().join("rtl"), folder.path().join("gates"));
    [&nets, &rtl, &gates].into_iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    map(&accumulator(), &nets);
    simulate_rtl(&accumulator(), ".clk_i(clk), .a_i(x[7:0]), .b_i(x[15:8]), .en_i(x[16])", &rtl);
    let netlist = std::fs::read_to_string(nets.join("m0000/balanced_net.v")).unwrap();
    let bits = |port: &str, low: u32| {
        (0..8).map(|bit| format!(".\\{port}[{bit}] (x[{}]), ", low + bit)).collect::<String>()
    };
    let ports = format!(".clk_i(clk), {}{}.en_i(x[16])", bits("a_i", 0), bits("b_i", 8));
    icarus(&gates, &format!("{CELLS}{netlist}\n{}", bench("accumulator", &ports)));

    let (start, stop) = (3, 190);
    let found = measure(&nets, &rtl.join("waves.vcd"), start, Some(stop)).unwrap();
    let expected = expected(&gates.join("waves.vcd"), start..stop);
    let power = found.modules[0].power_mw.times((stop - start) as f64 * 1000.0);
    assert_eq!(found.cycles, stop - start);
    close(power.internal, expected.internal);
    close(power.switching, expected.switching);
    close(power.clock, expected.clock);
    assert!(expected.internal > 1000.0, "{expected:?}");
}

/// A latch that is open while the clock is down, and an AND gate.
const GATE: &str = "module clock_gate(input clk_i, input en_i, output clk_o); wire on;\n\
    LATN hold(.G(clk_i), .D(en_i), .Q(on)); AND2 pass(.A(clk_i), .B(on), .Y(clk_o)); endmodule\n";

const GATE_WITH_TEST: &str = "module clock_gate(input clk_i, input en_i, input test_enable_i, output clk_o); wire on, any;\n\
    OR2 either(.A(en_i), .B(test_enable_i), .Y(any)); LATN hold(.G(clk_i), .D(any), .Q(on));\n\
    AND2 pass(.A(clk_i), .B(on), .Y(clk_o)); endmodule\n";

pub fn gated(test_enable: bool) -> Flow {
    let verilog = if test_enable { GATE_WITH_TEST } else { GATE }.into();
    let clock_gate = Some(ClockGate { verilog, test_enable });
    Flow { clock_gate, ..flow(Some(library(&common::liberty())), false) }
}

#[test]
fn a_gated_clock_takes_energy_in_the_cycles_that_it_passes() {
    gated_clock(false);
}

#[test]
fn a_test_enable_is_low_in_a_replay() {
    gated_clock(true);
}

fn gated_clock(test_enable: bool) {
    let folder = tempfile::tempdir().unwrap();
    gated(test_enable).run(&accumulator(), folder.path(), &|_| ()).unwrap();
    simulate_rtl(&accumulator(), ".clk_i(clk), .a_i(x[7:0]), .b_i(x[15:8]), .en_i(x[16])", folder.path());
    let waves = folder.path().join("waves.vcd");
    let (start, stop) = (3, 190);
    let found = measure(folder.path(), &waves, start, Some(stop)).unwrap();
    // The edges at which `en_i` is set.
    let mut wave = wellen::simple::read(&waves).unwrap();
    let hierarchy = wave.hierarchy();
    let enable =
        hierarchy.lookup_var(&["bench", "dut"], "en_i").map(|var| hierarchy[var].signal_ref()).unwrap();
    wave.load_signals(&[enable]);
    let (times, signal) = (wave.time_table(), wave.get_signal(enable).unwrap());
    let is_set = |edge: &u64| {
        let place = times.partition_point(|time| *time < edge * 1000) - 1;
        let offset = signal.get_offset(place as u32).unwrap();
        signal.get_value_at(&offset, offset.elements - 1).to_bit_string().unwrap() == "1"
    };
    let cycles = (stop - start) as f64;
    let passed = (start..stop).filter(is_set).count() as f64;
    assert!(passed > 60.0 && passed < 130.0, "{passed}");
    // Eight flip-flops without a gate, at 3 + 2 fJ and a fF each; the clock pins of the latch and the AND gate.
    let always = 8.0 * 6.0 + 2.0;
    // Eight after the gate, and the AND gate's output up and down.
    let gated = 8.0 * 6.0 + 3.0;
    close(found.modules[0].power_mw.clock * cycles * 1000.0, always * cycles + gated * passed);
    assert_eq!((found.modules[0].flip_flops, found.modules[0].instances), (16, 1));
}

#[test]
fn modules_and_parts_add_up_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let waves = folder.path().join("waves.vcd");
    map(&chain(), folder.path());
    simulate_rtl(&chain(), ".clk_i(clk), .a_i(x[7:0]), .addr_i(x[11:8]), .write_i(x[12])", folder.path());
    let found = measure(folder.path(), &waves, 20, Some(150)).unwrap();
    let instances: BTreeMap<&str, u64> =
        found.modules.iter().map(|module| (module.module.as_str(), module.instances)).collect();
    assert_eq!(instances, BTreeMap::from([("chain", 1), ("inverter_w8", 2), ("register_w8", 3)]));
    let blocks: f64 = found.blocks.iter().map(|block| block.power_mw.total()).sum();
    assert_eq!(found.blocks.len(), 6, "five stages, and the chain without them");
    // 24 flip-flops and 16 inverters.
    close(found.modules.iter().map(|module| module.power_mw.leakage).sum(), 40.0 * 4e-6);
    let report = WindowReport::new(found.clone(), 0.1);
    close(report.total_mw.total(), found.modules.iter().map(|module| module.power_mw.total()).sum());
    close(report.total_mw.total(), blocks);
    // Flattened, the same cells see the same values.
    let flat = tempfile::tempdir().unwrap();
    map(&chain().flattened(), flat.path());
    let whole = measure(flat.path(), &waves, 20, Some(150)).unwrap();
    close(whole.modules[0].power_mw.total(), blocks);
}

#[test]
fn a_netlist_of_something_else_than_what_ran_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    map(&toggle(), folder.path());
    let file = folder.path().join("t.vcd");
    let levels = [true, false, true, true, false];
    std::fs::write(&file, waves(&levels)).unwrap();
    let netlist = folder.path().join("m0000/netlist.json");
    let text = std::fs::read_to_string(&netlist).unwrap();
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        // The file is a link to the recipe's.
        std::fs::remove_file(&netlist).unwrap();
        std::fs::write(&netlist, text.replace(from, to)).unwrap();
        measure(folder.path(), &file, 0, None).unwrap_err()
    };
    assert!(with("\"INV\"", "\"BUF\"").contains("port 'y_o' has other values than in the waves"));
    assert!(with("\"INV\"", "\"NO\"").contains("no cell 'NO' in the library"));
    assert!(with("\"q_q$", "\"other_q$").contains("no signal for the register 'other_q'"));
}

#[test]
fn windows_and_files_that_cannot_be_used_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.vcd");
    std::fs::write(&file, waves(&[true, false, true])).unwrap();
    assert!(measure(folder.path(), &file, 0, None).unwrap_err().contains("holds no netlists"));
    map(&toggle(), folder.path());
    assert!(measure(folder.path(), &file, 0, None).is_ok());
    assert!(measure(folder.path(), &file, 2, None).unwrap_err().contains("from cycle 2 up to the end"));
    let wrong = |from: &str, to: &str| {
        std::fs::write(&file, waves(&[true, false, true]).replace(from, to)).unwrap();
        measure(folder.path(), &file, 0, None).unwrap_err()
    };
    assert!(wrong("a_i", "b_i").contains("no scope has the ports of 'toggle'"));
    assert!(wrong("1ps", "1ns").contains("unit of time"));
    assert!(wrong("#15\n1c\n0q", "#15\n1c\n1q").contains("'q_q$"), "a register that does not take its data");
    assert!(wrong("1a", "xa").contains("neither 0 nor 1"));
}

#[test]
fn a_window_has_all_of_its_cycles_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    map(&toggle(), folder.path());
    let file = folder.path().join("t.vcd");
    std::fs::write(&file, waves(&[true, false].repeat(20))).unwrap();
    let of = |start, stop| measure(folder.path(), &file, start, Some(stop));
    // `q_q` changes in each cycle. Each part of a window has its share of the energy.
    let pj = |start, stop| {
        let found = of(start, stop).unwrap();
        assert_eq!(found.cycles, stop - start);
        found.modules[0].power_mw.total() * found.cycles as f64
    };
    close(pj(10, 20), 5.0 * pj(10, 12));
    close(pj(10, 20), pj(10, 13) + pj(13, 20));
    assert_eq!(of(10, 39).unwrap().cycles, 29);
    for (start, stop) in [(10, 40), (10, 2000), (50, 60)] {
        let said = of(start, stop).unwrap_err();
        let expected = format!(
            "window 'w', cycles {start} up to {stop}, is not in the waves, which have whole cycles 0 up to 39"
        );
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn waves_are_read_without_threads() {
    // A stack that no thread can have.
    const STACK: &str = "RUST_MIN_STACK";
    if std::env::var_os(STACK).is_none() {
        let own = std::env::current_exe().unwrap();
        let mut command = Command::new(own);
        command.args(["power::waves_are_read_without_threads", "--exact", "--test-threads=1"]);
        let output = command.env(STACK, (1_u64 << 47).to_string()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    assert!(std::thread::Builder::new().spawn(|| ()).is_err());
    assert_eq!(of_levels(&[true, false, true, true]).cycles, 3);
}

#[test]
fn missing_waves_are_a_file_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    map(&toggle(), folder.path());
    let (file, library) = (folder.path().join("none.fst"), library(&common::liberty()));
    let request = Request {
        netlists: folder.path(),
        library: &library,
        waves: &file,
        windows: &[],
        slew_ps: 20.0,
        load_ff: 2.0,
        jobs: 1,
    };
    let error = power::run(&request).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot read '{}'", file.display()));
}

fn fst(levels: &[bool]) -> Vec<u8> {
    use fst_writer::{FstFileType, FstInfo, FstScopeType, FstSignalType, FstVarDirection, FstVarType};
    let info = FstInfo {
        start_time: 0,
        timescale_exponent: -12,
        version: String::new(),
        date: String::new(),
        file_type: FstFileType::Verilog,
    };
    let mut header = fst_writer::FstHeaderWriter::write_to_mem(&info).unwrap();
    header.scope("TOP", "", FstScopeType::Module).unwrap();
    header.scope("toggle", "", FstScopeType::Module).unwrap();
    let signals = ["clk_i", "a_i", "q_q", "y_o"].map(|name| {
        let (kind, direction) = (FstVarType::Wire, FstVarDirection::Implicit);
        header.var(name, FstSignalType::bit_vec(1), kind, direction, None).unwrap()
    });
    header.up_scope().unwrap();
    header.up_scope().unwrap();
    let mut body = header.finish().unwrap();
    let bit = |level: bool| if level { b"1" } else { b"0" };
    let [clock, input, state, output] = signals;
    for (cycle, a) in levels.iter().enumerate() {
        body.time_change(cycle as u64 * 10).unwrap();
        body.signal_change(clock, b"0").unwrap();
        body.signal_change(input, bit(*a)).unwrap();
        if cycle == 0 {
            body.signal_change(state, b"0").unwrap();
            body.signal_change(output, b"1").unwrap();
        }
        body.time_change(cycle as u64 * 10 + 5).unwrap();
        body.signal_change(clock, b"1").unwrap();
        body.signal_change(state, bit(*a)).unwrap();
        body.signal_change(output, bit(!*a)).unwrap();
    }
    body.finish().unwrap().into_inner()
}

/// Changes each byte of a wave file in several ways, and cuts the file there; `whole` does all, else a part per byte.
fn damage(whole: bool) {
    let levels = [true, true, false, false, true, true, true, false, false];
    let folder = tempfile::tempdir().unwrap();
    map(&toggle(), folder.path());
    for (name, content) in [("t.vcd", waves(&levels).into_bytes()), ("t.fst", fst(&levels))] {
        let file = folder.path().join(name);
        let of = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            measure(folder.path(), &file, 0, None)
        };
        let expected = of(&content).unwrap();
        assert_eq!(expected.cycles, 8, "{name}");
        let mut refused = 0;
        for at in 0..content.len() {
            let old = content[at];
            for (kind, change) in [0x00, 0xff, old ^ 1, old.wrapping_add(1)].into_iter().enumerate() {
                let mut bytes = content.clone();
                bytes[at] = change;
                refused += usize::from((whole || at % 4 == kind) && of(&bytes).is_err());
            }
            refused += usize::from((whole || at % 2 == 0) && of(&content[..at]).is_err());
        }
        assert!(refused > content.len() / 2, "{name}: {refused} refused");
    }
}

#[test]
fn damaged_waves_are_errors_wherever_the_damage_is() {
    damage(false);
}

#[test]
#[ignore = "takes 20 s; run by `make exhaustive`"]
fn waves_damaged_in_each_way_are_errors() {
    damage(true);
}

#[test]
fn waves_that_have_no_end_or_are_no_waves_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    map(&toggle(), folder.path());
    let refused = |waves: &Path, expected: &str| {
        let error = measure(folder.path(), waves, 0, None).unwrap_err();
        assert!(error.contains(expected), "{error}");
    };
    refused(Path::new("/dev/zero"), "waves '/dev/zero': not a regular file");
    refused(folder.path(), "not a regular file");
    refused(Path::new("no/such.fst"), "No such file");
    let file = folder.path().join("t.fst");
    std::fs::write(&file, "hello").unwrap();
    refused(&file, "neither VCD nor FST");
    for kind in [0, 1, 8, 255] {
        std::fs::write(&file, [&[kind][..], &[0xff; 8], &[0]].concat()).unwrap();
        refused(&file, "no block of the length that is said at byte 0");
    }
    // A block of length 0 has no end.
    let mut bytes = fst(&[true, false, true]);
    let second = 1 + u64::from_be_bytes(bytes[1..9].try_into().unwrap()) as usize;
    bytes[second + 1..second + 9].fill(0);
    std::fs::write(&file, bytes).unwrap();
    refused(&file, &format!("no block of the length that is said at byte {second}"));
}
