//! The whole flow on modules whose figures can be worked out by hand: real Yosys, a library of nine cells.
//!
//! `testbenches/tools/synth.rs` tests the command line, the parsers' own tests the texts of both Yosys versions.

use crate::common;
use ndp_hdl_language::{Design, Module, ModuleBuilder};
use ndp_synth::flow::{Figures, Flow, Library};
use ndp_synth::hierarchy::{Rollup, roll_up};
use ndp_synth::liberty::Liberty;
use ndp_synth::script::Recipe;
use ndp_synth::source::Hierarchy;
use ndp_synth::tools;
use std::rc::Rc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(7200);

fn register() -> Rc<Module> {
    let m = ModuleBuilder::new("register_w8", "Eight flip-flops.");
    let a = m.input("a_i", 8, "data");
    let q = m.reg("q_q", 8);
    q.next(a);
    m.output("y_o", q, "data of the cycle before");
    m.finish().unwrap()
}

fn inverter() -> Rc<Module> {
    let m = ModuleBuilder::new("inverter_w8", "Eight inverters.");
    let a = m.input("a_i", 8, "data");
    m.output("y_o", !a, "inverted");
    m.finish().unwrap()
}

/// A macro of 16 words of 8 bits.
fn memory() -> Rc<Module> {
    let m = ModuleBuilder::new("memory_16x8", "Sixteen words.");
    let [addr, data] = [m.input("addr_i", 4, "word"), m.input("data_i", 8, "word")];
    let write = m.input("write_i", 1, "write");
    let words = m.memory("words", 8, 16);
    words.write(write, addr, data);
    let q = m.reg("q_q", 8);
    q.next(words.read(addr));
    m.output("data_o", q, "word");
    m.memory_macro(16, 8);
    m.finish().unwrap()
}

/// Three registers, two inverters and two memories; no logic of its own.
pub fn chain() -> Hierarchy {
    let (register, inverter, memory) = (register(), inverter(), memory());
    let m = ModuleBuilder::new("chain", "A chain.");
    let mut data = m.input("a_i", 8, "data");
    let [addr, write] = [m.input("addr_i", 4, "word"), m.input("write_i", 1, "write")];
    for (index, module) in [&register, &inverter, &register, &inverter, &register].into_iter().enumerate() {
        data = m.instance(format!("stage{index}"), module).input("a_i", data).output("y_o");
    }
    for name in ["first", "second"] {
        let memory = m.instance(name, &memory).input("addr_i", addr).input("write_i", write);
        data = memory.input("data_i", data).output("data_o");
    }
    m.output("y_o", data, "data");
    Hierarchy::from_design(&Design::new(&m.finish().unwrap()).unwrap())
}

pub fn library(text: &str) -> Library {
    Library { comb: Liberty::scan(text.to_owned()).unwrap(), seq: None, avoided: Vec::new() }
}

pub fn flow(library: Option<Library>, sta: bool) -> Flow {
    Flow {
        yosys: tools::yosys(None, LIMIT).unwrap(),
        sta: sta.then(|| tools::sta(None, LIMIT).unwrap()),
        library,
        recipes: vec![Recipe::Balanced],
        fallback: Vec::new(),
        clock_gate: None,
        period_ps: 1000.0,
        jobs: 2,
        limit: LIMIT,
    }
}

fn run(flow: &Flow, hierarchy: &Hierarchy) -> ndp_files::Result<Vec<Option<Figures>>> {
    let folder = tempfile::tempdir().unwrap();
    flow.run(hierarchy, folder.path(), &|_| ())
}

fn rolled(flow: &Flow, hierarchy: &Hierarchy) -> Rollup {
    roll_up(hierarchy, run(flow, hierarchy).unwrap())
}

#[test]
fn without_a_library_gates_and_transistors_add_up() {
    let rollup = rolled(&flow(None, false), &chain());
    let total = rollup.total;
    assert_eq!((total.generic.cells, total.generic.flip_flops), (3 * 8 + 2 * 8, 3 * 8));
    // 16 transistors to a flip-flop, 2 to an inverter.
    assert_eq!(total.generic.transistors, 24 * 16 + 16 * 2);
    assert_eq!((total.area_um2, total.cells), (0.0, 0));
    assert_eq!(total.memory_bits, 2 * 16 * 8);
    assert!(rollup.rows.iter().all(|row| row.own.as_ref().is_none_or(|own| own.mapped.is_none())));
}

#[test]
fn with_a_library_areas_are_the_cells_times_the_instances() {
    let rollup = rolled(&flow(Some(library(&common::liberty())), false), &chain());
    let row = |name: &str| rollup.rows.iter().find(|row| row.module == name).unwrap();
    let mapped = |name: &str| row(name).own.as_ref().unwrap().mapped.clone().unwrap();
    // A flip-flop has 4 um2, an inverter 0.5.
    assert_eq!((mapped("register_w8").area_um2, mapped("register_w8").flip_flops), (32.0, 8));
    assert_eq!(mapped("register_w8").delay_ps, None);
    assert_eq!((mapped("inverter_w8").area_um2, mapped("inverter_w8").cells), (4.0, 8));
    assert!(mapped("inverter_w8").delay_ps.unwrap() > 0.0);
    assert_eq!((mapped("chain").area_um2, row("chain").instances), (0.0, 1));
    assert_eq!((row("register_w8").instances, row("register_w8").total.area_um2), (3, 96.0));
    assert_eq!(rollup.total.area_um2, 3.0 * 32.0 + 2.0 * 4.0);
    assert_eq!(row("chain").with_children, rollup.total);
    // Memories are black boxes: bits, and no gates.
    assert_eq!(row("memory_16x8").own, None);
    assert_eq!((row("memory_16x8").instances, row("memory_16x8").total.memory_bits), (2, 256));
}

#[test]
fn a_flattened_design_has_the_same_cells_but_sees_paths_across_modules() {
    let flat = chain().flattened();
    let rollup = rolled(&flow(Some(library(&common::liberty())), true), &flat);
    assert_eq!(rollup.rows.len(), 2);
    let mapped = rollup.rows[0].own.as_ref().unwrap().mapped.clone().unwrap();
    assert_eq!((mapped.flip_flops, mapped.area_um2), (24, 104.0));
    // Register, inverter, register: 40 ps from the clock edge to Q, 30 ps through the inverter, 5 ps setup.
    let path = mapped.timing.unwrap().registers.unwrap();
    for (actual, expected) in [(path.arrival_ps, 70.0), (path.slack_ps, 925.0), (path.min_period_ps, 75.0)] {
        assert!((actual - expected).abs() < 0.001, "{path:?}");
    }
}

#[test]
fn other_recipes_are_tried_for_modules_that_miss_the_target_only() {
    // An inverter takes 30 ps; the target is 90 % of the period.
    for (period_ps, tried) in [(1000.0, false), (20.0, true)] {
        let flow = Flow {
            period_ps,
            fallback: vec![Recipe::Speed, Recipe::Area],
            ..flow(Some(library(&common::liberty())), false)
        };
        let folder = tempfile::tempdir().unwrap();
        let figures = flow.run(&chain(), folder.path(), &|_| {}).unwrap();
        assert!(figures.iter().flatten().all(|own| own.mapped.is_some()));
        let logs = |recipe: &str| {
            let modules = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path());
            let files = modules.filter_map(|path| std::fs::read_dir(path).ok()).flatten().flatten();
            let log = |name: &str| name.contains("abc") && name.contains(recipe);
            files.filter(|file| log(&file.file_name().to_string_lossy())).count()
        };
        assert_eq!(logs("balanced"), 3, "one for each module");
        assert_eq!(logs("speed"), usize::from(tried), "that of the inverter");
    }
}

#[test]
fn a_library_without_flip_flops_is_refused_with_the_cell_left_over() {
    let gates = common::liberty().split("  cell (DFF)").next().unwrap().to_owned() + "}\n";
    let error = run(&flow(Some(library(&gates)), false), &chain()).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("register_w8") && message.contains("DFF"), "{message}");
}

#[test]
fn verilog_that_yosys_refuses_ends_with_the_module_and_the_end_of_the_log() {
    let mut broken = chain();
    let unit = broken.units.iter_mut().find(|unit| unit.name == "inverter_w8").unwrap();
    unit.verilog = unit.verilog.replace("assign", "asign");
    let message = run(&flow(None, false), &broken).unwrap_err().to_string();
    assert!(message.starts_with("Yosys failed on module 'inverter_w8'"), "{message}");
    assert!(message.contains("ERROR") && message.contains("syntax error"), "{message}");
}
