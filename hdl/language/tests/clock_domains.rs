//! Several clocks: the emitted Verilog, its behaviour in Icarus, and the refusal of every way to mix up clocks.

use crate::common;
use ndp_hdl_language::{Bits, Crossing, Design, HdlError, Module, ModuleBuilder, Pragmas};
use std::rc::Rc;

fn refused(describe: impl FnOnce(&ModuleBuilder)) -> String {
    let m = ModuleBuilder::new("dut", "To be refused.");
    describe(&m);
    m.finish().expect_err("the module must be refused").to_string()
}

fn inverter() -> Rc<Module> {
    let m = ModuleBuilder::new("inverter", "Inverts.");
    let a = m.input("a_i", 8, "operand");
    m.output("y_o", !a, "inverted");
    m.finish().unwrap()
}

fn delay() -> Rc<Module> {
    let m = ModuleBuilder::new("delay", "Delays by a cycle.");
    let a = m.input("a_i", 8, "data");
    let q = m.reg("q_q", 8).reset(3);
    q.next(a);
    m.output("y_o", q, "data of the cycle before");
    m.finish().unwrap()
}

/// `y_o` is `a_i` on the clock of domain `far`; nothing is on `clk_i`.
fn far_delay() -> Rc<Module> {
    let m = ModuleBuilder::new("far_delay", "Delays by a cycle of another clock.");
    let far = m.clock_domain("far");
    let a = m.input("a_i", 8, "data");
    let y = m.instance("far", &delay()).in_domain(&far).input("a_i", a).output("y_o");
    m.output("y_o", y, "data of the cycle before");
    m.finish().unwrap()
}

/// Counts on `clk_i`; the count crosses to domain `dram` and back.
fn there_and_back() -> Rc<Module> {
    let m = ModuleBuilder::new("there_and_back", "A count that visits another clock.");
    m.share_code();
    let dram = m.clock_domain("dram");
    let step = m.input("step_i", 8, "increment");
    let count = m.reg("count_q", 8).reset(0);
    count.next(count.q() + step);
    let there = m.instance("there", &far_delay()).pass_domain("far", &dram);
    let there = there.crossing("a_i", count, Crossing::Stable, "sampled, in a test").output("y_o");
    let inverted = m.instance("inverted", &inverter()).input("a_i", there).output("y_o");
    let back = m.instance("back", &far_delay()).pass_domain("far", &m.own_domain());
    let back = back.crossing("a_i", inverted, Crossing::Stable, "sampled, in a test").output("y_o");
    m.output("near_o", back, "on the module's own clock");
    m.output("far_o", inverted, "on the other one");
    m.finish().unwrap()
}

fn plain(module: &Rc<Module>) -> String {
    Design::new(module).unwrap().definitions(Pragmas::Verilator).collect()
}

#[test]
fn clocks_are_ports_and_are_passed_on() {
    let module = there_and_back();
    let ports: Vec<&str> = module.ports().iter().map(|port| &*port.name).collect();
    assert_eq!(ports, ["clk_i", "rst_ni", "dram_clk_i", "dram_rst_ni", "step_i", "near_o", "far_o"]);
    assert_eq!(module.domains(), ["dram"]);
    assert!(module.is_clock_or_reset("dram_clk_i") && !module.is_clock_or_reset("step_i"));
    let words = |module: &Rc<Module>| plain(module).split_whitespace().collect::<Vec<_>>().join(" ");
    let text = words(&module);
    assert!(text.contains(
        "// a_i comes from another clock domain: sampled, in a test far_delay there ( \
         .far_clk_i(dram_clk_i), .far_rst_ni(dram_rst_ni),"
    ));
    assert!(text.contains("far_delay back ( .far_clk_i(clk_i), .far_rst_ni(rst_ni),"), "{text}");
    // A clock must not be made public for sharing: Verilator would not see its edges.
    assert!(text.contains("input wire dram_clk_i, // "), "{text}");
    let far = far_delay();
    assert!(words(&far).contains("delay far ( .clk_i(far_clk_i), .rst_ni(far_rst_ni),"));
    assert!(far.ports().iter().all(|port| port.name != "clk_i"), "nothing is on it");
    let design = Design::new(&module).unwrap();
    common::lint(&design.verilog(), module.name());
}

#[test]
fn each_domain_follows_its_own_clock_and_reset() {
    let bench = "module bench;
    reg clk = 0, dram = 0, rst = 0, dram_rst = 0;
    wire [7:0] near, far;
    there_and_back dut (.clk_i(clk), .rst_ni(rst), .dram_clk_i(dram), .dram_rst_ni(dram_rst), .step_i(8'd1),
        .near_o(near), .far_o(far));
    task core; begin #5 clk = 1; #5 clk = 0; end endtask
    task other; begin #5 dram = 1; #5 dram = 0; end endtask
    initial begin
        core; other; $display(\"%0d %0d\", near, far);
        rst = 1; dram_rst = 1;
        core; core; core; $display(\"%0d %0d\", near, far);
        other; $display(\"%0d %0d\", near, far);
        core; $display(\"%0d %0d\", near, far);
        dram_rst = 0; other; $display(\"%0d %0d\", near, far);
        rst = 0; core; $display(\"%0d %0d\", near, far);
    end
endmodule\n";
    let folder = tempfile::tempdir().unwrap();
    let text = plain(&there_and_back()) + bench;
    std::fs::write(folder.path().join("bench.v"), text).unwrap();
    common::run("iverilog", "iverilog", &["-g2005", "-o", "bench", "bench.v"], folder.path());
    let printed = common::run("vvp", "iverilog", &["-n", "bench"], folder.path());
    // Reset to 3 (252 inverted); three counts that the other clock has not seen; then 3 arrives there, then here.
    assert_eq!(printed, "3 252\n252 252\n252 252\n252 252\n252 252\n3 252\n");
}

#[test]
fn a_signal_that_crosses_unsaid_is_refused_with_both_clocks() {
    let direct = refused(|m| {
        let dram = m.clock_domain("dram");
        let q = m.reg("q_q", 8);
        q.next(m.input("a_i", 8, "data"));
        m.output("y_o", m.instance("far", &delay()).in_domain(&dram).input("a_i", q).output("y_o"), "data");
    });
    assert_eq!(
        direct,
        "module dut: far.a_i, read with dram_clk_i, comes from clk_i \
         (use InstanceBuilder::crossing)"
    );
    let behind_wires_and_instances = refused(|m| {
        let dram = m.clock_domain("dram");
        let far = m.instance("far", &far_delay()).pass_domain("far", &dram);
        let far = m.wire("w", far.input("a_i", m.input("a_i", 8, "data")).output("y_o"));
        let inverted = m.instance("inverted", &inverter()).input("a_i", far).output("y_o");
        let q = m.reg("q_q", 1);
        q.next(inverted.bit(3));
        m.output("y_o", q, "data");
    });
    assert!(behind_wires_and_instances.contains("q_q, read with clk_i, comes from dram_clk_i"));
    let between_two_others = refused(|m| {
        let (red, blue) = (m.clock_domain("red"), m.clock_domain("blue"));
        let first = m.instance("first", &delay()).in_domain(&red).input("a_i", m.input("a_i", 8, "data"));
        let second = m.instance("second", &delay()).in_domain(&blue).input("a_i", first.output("y_o"));
        m.output("y_o", second.output("y_o"), "data");
    });
    assert!(between_two_others.contains("second.a_i, read with blue_clk_i, comes from red_clk_i"));
    let memory = refused(|m| {
        let dram = m.clock_domain("dram");
        let a = m.input("a_i", 8, "data");
        let words = m.memory("words", 8, 4);
        words.write(a.bit(7), a.low(2), a);
        let read = words.read(a.low(2));
        m.output(
            "y_o",
            m.instance("far", &delay()).in_domain(&dram).input("a_i", read).output("y_o"),
            "data",
        );
    });
    assert!(memory.contains("far.a_i, read with dram_clk_i, comes from clk_i"));
}

#[test]
fn a_port_belongs_to_one_domain() {
    let input = refused(|m| {
        let dram = m.clock_domain("dram");
        let a = m.input("a_i", 8, "data");
        let q = m.reg("q_q", 8);
        q.next(a);
        m.output("x_o", q, "data");
        m.output("y_o", m.instance("far", &delay()).in_domain(&dram).input("a_i", a).output("y_o"), "data");
    });
    assert!(input.contains("far.a_i, read with dram_clk_i, comes from clk_i"), "{input}");
    let output = refused(|m| {
        let dram = m.clock_domain("dram");
        let q = m.reg("q_q", 8);
        q.next(m.input("a_i", 8, "data"));
        let far = m.instance("far", &delay()).in_domain(&dram).input("a_i", m.input("b_i", 8, "data"));
        m.output("y_o", far.output("y_o") ^ q.q(), "mixed");
    });
    assert!(output.contains("y_o, read with clk_i, comes from dram_clk_i"), "{output}");
}

#[test]
fn domains_that_are_missing_unknown_unused_or_foreign_are_refused() {
    type Case = (fn(&ModuleBuilder), &'static str);
    let cases: [Case; 8] = [
        (
            |m| {
                m.output(
                    "y_o",
                    m.instance("f", &far_delay()).input("a_i", m.input("a_i", 8, "")).output("y_o"),
                    "",
                );
            },
            "port far_clk_i (1 bits) of instance f (far_delay) is not connected",
        ),
        (
            |m| {
                let own = m.own_domain();
                let f = m.instance("f", &far_delay()).pass_domain("far", &own).pass_domain("far", &own);
                m.output("y_o", f.input("a_i", m.input("a_i", 8, "")).output("y_o"), "");
            },
            "f.far_clk_i is driven 2 times",
        ),
        (
            |m| {
                let d = m.instance("d", &delay()).pass_domain("far", &m.own_domain());
                m.output("y_o", d.input("a_i", m.input("a_i", 8, "")).output("y_o"), "");
            },
            "instance d (delay) has no input port far_clk_i",
        ),
        (
            |m| {
                let dram = m.clock_domain("dram");
                let i = m.instance("i", &inverter()).in_domain(&dram);
                m.output("y_o", i.input("a_i", m.input("a_i", 8, "")).output("y_o"), "");
            },
            "instance i (inverter) has no input port clk_i",
        ),
        (
            |m| {
                let dram = m.clock_domain("dram");
                let d = m.instance("d", &delay()).in_domain(&dram).in_domain(&dram);
                m.output("y_o", d.input("a_i", m.input("a_i", 8, "")).output("y_o"), "");
            },
            "d.clk_i is driven 2 times",
        ),
        (
            |m| {
                m.clock_domain("dram");
                m.output("y_o", m.input("a_i", 8, ""), "");
            },
            "dram_clk_i is never read",
        ),
        (
            |m| {
                let foreign = ModuleBuilder::new("other", "Another module.").clock_domain("dram");
                let d = m.instance("d", &delay()).in_domain(&foreign);
                m.output("y_o", d.input("a_i", m.input("a_i", 8, "")).output("y_o"), "");
            },
            "d.clk_i refers to a clock domain, which belongs to module other",
        ),
        (
            |m| {
                let dram = m.clock_domain("dram");
                let d = m.instance("d", &delay()).in_domain(&dram);
                m.output("y_o", d.input("a_i", m.input("dram_clk_i", 8, "")).output("y_o"), "");
            },
            "name 'dram_clk_i' is used twice",
        ),
    ];
    for (describe, message) in cases {
        let found = refused(describe);
        assert!(found.contains(message), "{found}");
    }
}

/// Two flip-flops in a row, marked as a synchroniser or not.
fn caught(marked: bool) -> Rc<Module> {
    let m = ModuleBuilder::new(if marked { "catch" } else { "two" }, "Two flip-flops in a row.");
    if marked {
        m.synchroniser();
    }
    let first = m.reg("first_q", 8);
    first.next(m.input("a_i", 8, "value"));
    let second = m.reg("second_q", 8);
    second.next(first);
    m.output("y_o", second, "the value");
    m.finish().unwrap()
}

/// Reads its input by a synchroniser, and with `besides` also directly.
fn reader(besides: bool) -> Rc<Module> {
    let m = ModuleBuilder::new("reader", "Reads a value of another clock.");
    let a = m.input("a_i", 8, "value");
    let y = m.instance("catch", &caught(true)).input("a_i", a).output("y_o");
    let q = m.reg("q_q", 8);
    q.next(if besides { y ^ a } else { y });
    m.output("y_o", q, "the value, later");
    m.finish().unwrap()
}

/// Sends the result of `sent` for a register to another clock, where `child` reads it.
fn sender(child: &Rc<Module>, sent: impl Fn(&Bits) -> Bits) -> Result<Rc<Module>, HdlError> {
    let m = ModuleBuilder::new("dut", "Sends a value to another clock.");
    let dram = m.clock_domain("dram");
    let q = m.reg("q_q", 8).reset(0);
    q.next(m.input("a_i", 8, "data"));
    let wire = m.wire("sent", sent(&q));
    let far = m.instance("far", child).in_domain(&dram).crossing("a_i", wire, Crossing::Gray, "as it is");
    m.output("y_o", far.output("y_o"), "the value");
    m.finish()
}

#[test]
fn gray_code_goes_from_registers_to_synchronisers() {
    for child in [caught(true), reader(false)] {
        let module = sender(&child, Bits::clone).unwrap();
        let [crossing] = module.crossings() else { panic!("{:?}", module.crossings()) };
        assert_eq!(
            (crossing.instance.as_str(), crossing.port.as_str(), crossing.kind),
            ("far", "a_i", Crossing::Gray)
        );
        assert_eq!((crossing.from.as_deref(), crossing.to.as_deref()), (Some("clk_i"), Some("dram_clk_i")));
        assert_eq!(module.clock_of("far", "clk_i").as_deref(), Some("dram_clk_i"));
    }
    let message = |child: &Rc<Module>, sent: fn(&Bits) -> Bits| sender(child, sent).unwrap_err().to_string();
    let logic = message(&caught(true), |q| !q);
    assert_eq!(logic, "module dut: far.a_i: a number in Gray code has to come straight from registers");
    for child in [caught(false), reader(true)] {
        let plain = message(&child, Bits::clone);
        assert_eq!(
            plain,
            "module dut: far.a_i: a number in Gray code has to go to synchronisers and nowhere else"
        );
    }
}

#[test]
fn the_registers_of_a_synchroniser_have_their_attributes() {
    let attributes = "(* ASYNC_REG = \"TRUE\", keep = \"true\" *)\n    reg ";
    assert_eq!(caught(true).verilog().matches(attributes).count(), 2);
    assert!(caught(true).is_synchroniser() && !caught(false).is_synchroniser());
    assert!(!caught(false).verilog().contains("(*"));
    common::lint(caught(true).verilog(), caught(true).name());
}

#[test]
fn a_loop_through_another_domain_is_found() {
    let m = ModuleBuilder::new("dut", "To be refused.");
    let wire = m.forward("w", 8);
    let y =
        m.instance("i", &inverter()).crossing("a_i", wire, Crossing::Stable, "no reason helps").output("y_o");
    wire.drive(y);
    m.output("y_o", y, "loop");
    assert!(matches!(m.finish().unwrap_err(), HdlError::CombinationalLoop { .. }));
}
