//! Properties and their ghosts: the emitted text, that tools read it, that a solver proves and refutes it, the forms
//! that are refused, and their traces in a netlist. `testbenches/models/properties.rs` tests that simulation models
//! check them.

use crate::common;
use ndp_hdl_language::{HdlError, Module, ModuleBuilder, Netlist, lit, mux};
use std::rc::Rc;

/// Counts up to `last`; the property says that it never exceeds 5.
fn counter(last: u128) -> Rc<Module> {
    let m = ModuleBuilder::new("counter", "Counts.");
    let step = m.input("step_i", 1, "count");
    let count = m.reg("count_q", 3).reset(0).enable(step);
    count.next(mux(count.eq_lit(last), lit(0, 3), count.plus_one()));
    m.output("count_o", count, "steps");
    m.assert("bounded", lit(5, 3).ge(count), "the count is at most 5");
    m.cover("ends", count.eq_lit(last), "the last count is reached");
    m.finish().unwrap()
}

/// A register stage whose input has to stay offered until it is taken.
fn stage() -> Rc<Module> {
    let m = ModuleBuilder::new("stage", "Holds one word.");
    let (valid, data) = (m.input("valid_i", 1, "offered"), m.input("data_i", 8, "word"));
    let ready = m.input("ready_i", 1, "taken");
    let full = m.reg("full_q", 1).reset(0);
    let takes = m.wire("takes", !full.q() | ready);
    full.next(mux(takes, valid, full));
    let word = m.reg("word_q", 8).enable(valid & takes);
    word.next(data);
    m.assume_held("input", &valid, &takes, &[&data]);
    m.assert_held("output", &full, &ready, [&word]);
    m.output("ready_o", takes, "the word is taken");
    m.output("valid_o", full, "there is a word");
    m.output("data_o", word, "the word");
    m.finish().unwrap()
}

#[test]
fn properties_and_ghosts_print_readably() {
    insta::assert_snapshot!(stage().verilog());
}

#[test]
fn tools_accept_modules_with_and_without_their_properties() {
    for module in [counter(5), stage()] {
        common::lint(module.verilog(), module.name());
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("dut.v"), module.verilog()).unwrap();
        let defines = ["-DNDP_PROPERTIES", "-DNDP_ASSERT=$error"];
        let top = ["--top-module", module.name(), "dut.v"];
        let verilator = [&["--lint-only", "-Wall", "-Wno-DECLFILENAME"][..], &defines, &top].concat();
        common::run("verilator", "verilator", &verilator, folder.path());
        let icarus = [&["-g2012", "-Wall", "-t", "null"][..], &defines, &["dut.v"]].concat();
        common::run("iverilog", "iverilog", &icarus, folder.path());
    }
}

/// Whether Yosys' solver proves a module's assertions, by induction over `depth` cycles.
fn proved(module: &Module, depth: u32) -> bool {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("dut.v"), module.verilog()).unwrap();
    let script = format!(
        "read_verilog -formal -DNDP_PROPERTIES dut.v; prep -top {}; chformal -cover -remove; async2sync; dffunmap; \
         sat -tempinduct -prove-asserts -set-assumes -set-at 1 rst_ni 0 -seq 1 -maxsteps {depth}",
        module.name()
    );
    let out = common::run("yosys", "yosys", &["-p", &script], folder.path());
    let [proved, refuted] = ["Induction step proven: SUCCESS!", "model found for base case: FAIL!"]
        .map(|verdict| out.contains(verdict));
    assert!(proved != refuted, "no verdict:\n{out}");
    proved
}

#[test]
fn a_solver_proves_what_holds_and_nothing_else() {
    assert!(proved(&counter(5), 10));
    assert!(!proved(&counter(6), 10));
    assert!(proved(&stage(), 10));
}

#[test]
fn a_netlist_has_assertions_and_assumptions() {
    let netlist = Netlist::of(&stage()).unwrap();
    let names: Vec<&str> = netlist.checks.iter().map(|check| check.name.as_str()).collect();
    assert_eq!(names, ["input_held", "output_held"]);
    assert!(netlist.checks.iter().all(|check| check.clock == "clk_i" && check.reset == "rst_ni"));
    // A cover is no check.
    assert_eq!(Netlist::of(&counter(5)).unwrap().checks.len(), 1);
}

#[test]
fn properties_change_no_port_and_no_line_before_them() {
    let with = counter(5);
    let text = with.verilog();
    assert_eq!(text.matches("NDP_PROPERTIES").count(), 1);
    let ports: Vec<&str> = with.ports().iter().map(|port| port.name.as_str()).collect();
    assert_eq!(ports, ["clk_i", "rst_ni", "step_i", "count_o"]);
}

fn refused(describe: impl FnOnce(&ModuleBuilder)) -> String {
    let m = ModuleBuilder::new("dut", "To be refused.");
    let q = m.reg("q_q", 2).reset(0);
    q.next(m.input("a_i", 2, "data"));
    m.output("q_o", q, "data");
    describe(&m);
    m.finish().expect_err("the module must be refused").to_string()
}

#[test]
fn what_a_property_must_not_be_is_refused() {
    let message = refused(|m| m.assert("two_bits", lit(3, 2), "a word"));
    assert_eq!(message, "module dut: two_bits: assignment: 1 bits against 2 bits");
    let message = refused(|m| m.assert("q_q", lit(1, 1), "the name of a register"));
    assert_eq!(message, "module dut: name 'q_q' is used twice");
    let message = refused(|m| m.assert("Upper", lit(1, 1), "no name"));
    assert!(message.starts_with("module dut: 'Upper' is not a legal name"), "{message}");
    let message = refused(|m| {
        let ghost = m.ghost("past_q", 1).reset(0);
        ghost.next(lit(1, 1));
        m.output("y_o", ghost, "a ghost");
    });
    assert_eq!(message, "module dut: past_q is never read (use ModuleBuilder::unused with a reason)");
    let message = refused(|m| {
        let ghost = m.ghost("past_q", 1).reset(0);
        ghost.next(lit(1, 1));
        m.output("y_o", ghost, "a ghost");
        m.assert("past", ghost, "it is read");
    });
    assert_eq!(message, "module dut: y_o: reads past_q, a ghost, which only properties may read");
    // A signal that only a property reads is unread by the hardware.
    let message = refused(|m| {
        let b = m.input("b_i", 1, "data");
        m.assert("read", b, "read by nothing else");
    });
    assert_eq!(message, "module dut: b_i is never read (use ModuleBuilder::unused with a reason)");
}

#[test]
fn a_module_without_clock_or_reset_has_no_properties() {
    let m = ModuleBuilder::new("dut", "To be refused.");
    let a = m.input("a_i", 1, "data");
    m.output("y_o", a, "data");
    m.assert("set", a, "always");
    let error: HdlError = m.finish().unwrap_err();
    assert_eq!(error.to_string(), "module dut: set: a property needs a module with clk_i and rst_ni");
}
