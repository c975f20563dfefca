//! Designs that the language must refuse: one for each rule and way to break it, with the message that names the place.
//!
//! `emission.rs` and `semantics.rs` test accepted designs.

use ndp_hdl_language::{
    Bits, Design, HdlError, Module, ModuleBuilder, any_named, any_of, cat, lit, mux, named, one_hot_mux,
    repeat, zeros,
};
use std::rc::Rc;

fn refused<R>(describe: impl FnOnce(&ModuleBuilder) -> R) -> HdlError {
    let m = ModuleBuilder::new("dut", "To be refused.");
    describe(&m);
    m.finish().expect_err("the module must be refused")
}

/// The message for an output `y_o` driven by an expression of `a_i` (8 bits) and `b_i` (5 bits).
fn refused_expression(expression: impl FnOnce(&Bits, &Bits) -> Bits) -> String {
    refused(|m| {
        let a = m.input("a_i", 8, "eight bits");
        let b = m.input("b_i", 5, "five bits");
        m.output("y_o", expression(&a, &b), "result");
    })
    .to_string()
}

/// `y_o = !a_i`, combinationally.
fn inverter(width: u32) -> Rc<Module> {
    let m = ModuleBuilder::new(format!("inverter_{width}"), "Inverts.");
    let a = m.input("a_i", width, "operand");
    m.output("y_o", !a, "inverted");
    m.finish().unwrap()
}

/// `y_o` is last cycle's `a_i`.
fn delay(width: u32) -> Rc<Module> {
    let m = ModuleBuilder::new(format!("delay_{width}"), "Delays by a cycle.");
    let a = m.input("a_i", width, "data");
    let q = m.reg("q_q", width);
    q.next(a);
    m.output("y_o", q, "data of the cycle before");
    m.finish().unwrap()
}

#[test]
fn operands_of_different_width_are_refused_with_both_widths() {
    type Operation = fn(&Bits, &Bits) -> Bits;
    let operations: [(&str, Operation); 9] = [
        ("&", |a, b| a & b),
        ("|", |a, b| a | b),
        ("^", |a, b| a ^ b),
        ("+", |a, b| a + b),
        ("-", |a, b| a - b),
        ("==", |a, b| a.eq(b)),
        ("!=", |a, b| a.ne(b)),
        ("<", |a, b| a.lt(b)),
        (">=", |a, b| a.ge(b)),
    ];
    for (name, operation) in operations {
        let expected = format!("module dut: y_o: {name}: 8 bits against 5 bits");
        assert_eq!(refused_expression(operation), expected);
    }
}

#[test]
fn a_mismatch_deep_inside_an_expression_is_found() {
    let message = refused_expression(|a, b| cat([mux(b.bit(0), zeros(3), (a + b).low(3)), *b]));
    assert_eq!(message, "module dut: y_o: +: 8 bits against 5 bits");
}

#[test]
fn multiplexers_with_wrong_widths_are_refused() {
    let message = refused_expression(|a, b| mux(a.bit(0), a, b));
    assert_eq!(message, "module dut: y_o: mux: 8 bits against 5 bits");
    let message = refused_expression(|a, b| mux(b, a, a));
    assert_eq!(message, "module dut: y_o: mux select: 1 bits against 5 bits");
    let message = refused_expression(|a, b| one_hot_mux(b, [*a, *a]));
    assert_eq!(message, "module dut: y_o: one-hot select: 5 bits against 2 bits");
    let message = refused_expression(|a, b| one_hot_mux(b.low(2), [*a, *b]));
    assert_eq!(message, "module dut: y_o: |: 8 bits against 5 bits");
}

#[test]
fn a_name_that_no_signal_of_a_list_has_is_refused() {
    let expected = "module dut: y_o: no signal is named `stor`, expected one of load, store";
    let list = |a: &Bits| [("load", a.bit(0)), ("store", a.bit(1))];
    assert_eq!(refused_expression(|a, _| named(&list(a), "stor")), expected);
    // Neither among others nor by itself.
    assert_eq!(refused_expression(|a, _| any_named(&list(a), &["load", "stor"])), expected);
    assert_eq!(refused_expression(|a, _| any_named(&list(a), &["stor"])), expected);
}

#[test]
fn extension_to_fewer_bits_is_refused() {
    assert_eq!(refused_expression(|a, _| a.zext(7)), "module dut: y_o: zext: 7 bits against 8 bits");
    assert_eq!(refused_expression(|a, _| a.sext(7)), "module dut: y_o: sext: 7 bits against 8 bits");
}

#[test]
fn a_driver_of_another_width_than_its_target_is_refused() {
    let error = refused(|m| {
        let a = m.input("a_i", 8, "eight bits");
        let narrow = m.forward("narrow", 7);
        narrow.drive(a);
        m.output("y_o", narrow, "result");
    });
    assert_eq!(error.to_string(), "module dut: narrow: assignment: 7 bits against 8 bits");

    let error = refused(|m| {
        let a = m.input("a_i", 8, "eight bits");
        let wide = m.reg("wide_q", 9);
        wide.next(a);
        m.output("y_o", wide, "result");
    });
    assert_eq!(error.to_string(), "module dut: wide_q: assignment: 9 bits against 8 bits");

    let error = refused(|m| {
        let a = m.input("a_i", 8, "eight bits");
        let held = m.reg("held_q", 8).enable(a);
        held.next(a);
        m.output("y_o", held, "result");
    });
    assert_eq!(error.to_string(), "module dut: held_q (enable): assignment: 1 bits against 8 bits");

    let error = refused(|m| {
        let a = m.input("a_i", 8, "eight bits");
        m.output("y_o", m.instance("inv", &inverter(4)).input("a_i", a).output("y_o"), "result");
    });
    assert_eq!(error.to_string(), "module dut: inv.a_i: assignment: 4 bits against 8 bits");
}

/// The refusal of a memory of 5 words of 8 bits, given the widths of its addresses, data and enable.
fn refused_memory(read: u32, write: u32, data: u32, enable: u32) -> String {
    refused(|m| {
        let [read, write] = [m.input("read_i", read, "address"), m.input("write_i", write, "address")];
        let [data, enable] = [m.input("data_i", data, "word"), m.input("enable_i", enable, "enable")];
        let words = m.memory("words", 8, 5);
        words.write(enable, write, data);
        m.output("y_o", words.read(read), "word");
    })
    .to_string()
}

#[test]
fn memory_ports_of_wrong_width_are_refused() {
    let expected = |port: &str, left, right| {
        format!("module dut: words ({port}): assignment: {left} bits against {right} bits")
    };
    assert_eq!(refused_memory(4, 3, 8, 1), expected("read address", 3, 4));
    assert_eq!(refused_memory(3, 2, 8, 1), expected("write address", 3, 2));
    assert_eq!(refused_memory(3, 3, 7, 1), expected("write data", 8, 7));
    assert_eq!(refused_memory(3, 3, 8, 3), expected("write enable", 1, 3));
}

#[test]
fn slices_beyond_the_operand_are_refused() {
    assert_eq!(refused_expression(|a, _| a.slice(5, 4)), "module dut: y_o: slice [5 +: 4] of 8 bits");
    assert_eq!(refused_expression(|a, _| a.slice(0, 0)), "module dut: y_o: slice [0 +: 0] of 8 bits");
    assert_eq!(refused_expression(|a, _| a.bit(8)), "module dut: y_o: slice [8 +: 1] of 8 bits");
    assert_eq!(refused_expression(|a, _| a.high(9)), "module dut: y_o: slice [0 +: 9] of 8 bits");
    // Does not wrap around 32 bits.
    let message = refused_expression(|a, _| a.slice(u32::MAX, 2));
    assert_eq!(message, "module dut: y_o: slice [4294967295 +: 2] of 8 bits");
}

#[test]
fn literals_that_do_not_fit_are_refused() {
    assert_eq!(refused_expression(|_, _| lit(256, 8)), "module dut: y_o: literal 256 in 8 bits");
    assert_eq!(refused_expression(|_, _| lit(0, 0)), "module dut: y_o: literal 0 in 0 bits");
    assert_eq!(refused_expression(|a, _| a.eq_lit(300)), "module dut: y_o: literal 300 in 8 bits");
    let message = refused(|m| {
        let a = m.input("a_i", 8, "eight bits");
        let counter = m.reg("counter_q", 8).reset(256);
        counter.next(a);
        m.output("y_o", counter, "result");
    });
    assert_eq!(message.to_string(), "module dut: counter_q: reset value 256 in 8 bits");
}

#[test]
fn empty_expressions_are_refused() {
    assert_eq!(refused_expression(|_, _| cat(Vec::<Bits>::new())), "module dut: y_o: empty concatenation");
    assert_eq!(refused_expression(|a, _| repeat(0, a)), "module dut: y_o: repetition of count 0");
    assert_eq!(refused_expression(|_, _| any_of(Vec::<Bits>::new())), "module dut: y_o: OR of nothing");
}

#[test]
fn widths_and_depths_outside_the_limits_are_refused() {
    let refused_input = |width| {
        refused(|m| m.output("y_o", m.input("a_i", width, "operand").any(), "any bit set")).to_string()
    };
    assert_eq!(refused_input(0), "module dut: a_i: width 0 must be in 1..=65536");
    assert_eq!(refused_input(65_537), "module dut: a_i: width 65537 must be in 1..=65536");
    let message = refused_expression(|a, _| repeat(10_000, a).any());
    assert_eq!(message, "module dut: y_o: an expression of 80000 bits must have at most 65536");
    // Saturates instead of wrapping to something small.
    let message = refused_expression(|a, _| cat([repeat(u32::MAX, a), *a]).any());
    assert_eq!(message, "module dut: y_o: an expression of 4294967295 bits must have at most 65536");

    let refused_shape = |width, depth| {
        refused(|m| {
            let a = m.input("a_i", 1, "address");
            let words = m.memory("words", width, depth);
            words.write(a, a, lit(0, 8));
            m.output("y_o", words.read(a).any(), "any bit set");
        })
        .to_string()
    };
    assert_eq!(refused_shape(8, 0), "module dut: words: depth 0 must be in 1..=268435456");
    assert_eq!(refused_shape(0, 2), "module dut: words: word width 0 must be in 1..=65536");
    assert_eq!(refused_shape(8, u32::MAX), "module dut: words: depth 4294967295 must be in 1..=268435456");
}

#[test]
fn signals_without_a_driver_are_refused() {
    let error = refused(|m| {
        let wire = m.forward("floating", 3);
        m.output("y_o", wire, "result");
    });
    assert_eq!(error, HdlError::Undriven { module: "dut".into(), signal: "floating".into() });
    assert_eq!(error.to_string(), "module dut: floating is never driven");

    let error = refused(|m| m.output("y_o", m.reg("state_q", 3), "result"));
    assert_eq!(error.to_string(), "module dut: state_q is never driven");

    let error = refused(|m| {
        let addr = m.input("addr_i", 2, "address");
        m.output("y_o", m.memory("words", 8, 4).read(addr), "word");
    });
    assert_eq!(error.to_string(), "module dut: words is never driven");
}

#[test]
fn two_drivers_are_refused() {
    let error = refused(|m| {
        let a = m.input("a_i", 3, "operand");
        let wire = m.forward("shared", 3);
        wire.drive(a);
        wire.drive(!&a);
        m.output("y_o", wire, "result");
    });
    assert_eq!(
        error,
        HdlError::MultipleDrivers { module: "dut".into(), signal: "shared".into(), drivers: 2 }
    );
    assert_eq!(error.to_string(), "module dut: shared is driven 2 times");

    let error = refused(|m| {
        let a = m.input("a_i", 3, "operand");
        let state = m.reg("state_q", 3);
        for _ in 0..3 {
            state.next(a);
        }
        m.output("y_o", state, "result");
    });
    assert_eq!(error.to_string(), "module dut: state_q is driven 3 times");

    let error = refused(|m| {
        let a = m.input("a_i", 1, "operand");
        let state = m.reg("state_q", 1).enable(a).enable(!&a);
        state.next(a);
        m.output("y_o", state, "result");
    });
    assert_eq!(error.to_string(), "module dut: state_q (enable) is driven 2 times");
}

#[test]
fn a_memory_with_two_write_ports_is_refused() {
    let error = refused(|m| {
        let a = m.input("a_i", 1, "operand");
        let words = m.memory("words", 1, 2);
        words.write(a, a, a);
        words.write(!&a, a, a);
        m.output("y_o", words.read(a), "word");
    });
    assert_eq!(error.to_string(), "module dut: words is driven 2 times");
}

#[test]
fn an_instance_port_that_is_connected_twice_is_refused() {
    let error = refused(|m| {
        let a = m.input("a_i", 4, "operand");
        let inv = m.instance("inv", &inverter(4)).input("a_i", a).input("a_i", !&a);
        m.output("y_o", inv.output("y_o"), "result");
    });
    assert_eq!(error.to_string(), "module dut: inv.a_i is driven 2 times");
}

#[test]
fn signals_that_nothing_reads_are_refused() {
    let unread = |describe: fn(&ModuleBuilder)| refused(describe).to_string();
    let expected =
        |name: &str| format!("module dut: {name} is never read (use ModuleBuilder::unused with a reason)");
    let message = unread(|m| {
        let _ = m.input("a_i", 4, "operand");
    });
    assert_eq!(message, expected("a_i"));
    let message = unread(|m| {
        let a = m.input("a_i", 4, "operand");
        let _ = m.wire("spare", !a);
    });
    assert_eq!(message, expected("spare"));
    // A counter that only feeds itself.
    let message = unread(|m| {
        let counter = m.reg("counter_q", 4).reset(0);
        counter.next(counter.plus_one());
    });
    assert_eq!(message, expected("counter_q"));
    let message = unread(|m| {
        let a = m.input("a_i", 4, "operand");
        let _ = m.instance("inv", &inverter(4)).input("a_i", a).output("y_o");
    });
    assert_eq!(message, expected("inv_y"));
    let message = unread(|m| {
        let a = m.input("a_i", 1, "operand");
        m.memory("words", 1, 2).write(a, a, a);
    });
    assert_eq!(message, expected("words"));
}

#[test]
fn an_instance_with_an_open_port_is_refused() {
    let error = refused(|m| {
        let inv = m.instance("inv", &inverter(4));
        m.output("y_o", inv.output("y_o"), "result");
    });
    let text = "module dut: port a_i (4 bits) of instance inv (inverter_4) is not connected";
    assert_eq!(error.to_string(), text);

    let error = refused(|m| {
        let a = m.input("a_i", 4, "operand");
        let _ = m.instance("inv", &inverter(4)).input("a_i", a);
    });
    let text = "module dut: port y_o (4 bits) of instance inv (inverter_4) is not connected";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_connection_to_a_port_that_does_not_exist_is_refused() {
    let error = refused(|m| {
        let a = m.input("a_i", 4, "operand");
        let inv = m.instance("inv", &inverter(4)).input("b_i", a);
        m.output("y_o", inv.output("y_o"), "result");
    });
    assert_eq!(error.to_string(), "module dut: instance inv (inverter_4) has no input port b_i");

    let error = refused(|m| {
        let a = m.input("a_i", 4, "operand");
        let inv = m.instance("inv", &inverter(4)).input("a_i", a);
        m.output("y_o", inv.output("z_o"), "result");
    });
    assert_eq!(error.to_string(), "module dut: instance inv (inverter_4) has no output port z_o");
}

#[test]
fn a_connection_against_the_direction_of_its_port_is_refused() {
    let error = refused(|m| {
        let a = m.input("a_i", 4, "operand");
        let _ = m.instance("inv", &inverter(4)).input("a_i", a).input("y_o", a);
    });
    assert_eq!(error.to_string(), "module dut: instance inv (inverter_4) has no input port y_o");
    let error = refused(|m| m.output("y_o", m.instance("inv", &inverter(4)).output("a_i"), "result"));
    assert_eq!(error.to_string(), "module dut: instance inv (inverter_4) has no output port a_i");
}

#[test]
fn combinational_loops_are_refused_with_their_path() {
    let error = refused(|m| {
        let (first, second) = (m.forward("first", 2), m.forward("second", 2));
        first.drive(!&*second);
        second.drive(first.plus_one());
        m.output("y_o", first, "result");
    });
    assert_eq!(error.to_string(), "module dut: combinational loop first -> second -> first");

    let error = refused(|m| {
        let own = m.forward("own", 1);
        own.drive(!&*own);
        m.output("y_o", own, "result");
    });
    assert_eq!(error.to_string(), "module dut: combinational loop own -> own");

    let latch = refused(|m| {
        let [enable, data] = [m.input("enable_i", 1, "enable"), m.input("data_i", 1, "data")];
        let latch = m.forward("latch", 1);
        latch.drive(mux(enable, data, latch));
        m.output("y_o", latch, "result");
    });
    assert_eq!(latch.to_string(), "module dut: combinational loop latch -> latch");
}

/// `child` between an inverter of `dut` and itself.
fn ring(m: &ModuleBuilder, child: &Rc<Module>) {
    let back = m.forward("back", 4);
    let around = m.instance("child", child).input("a_i", !&*back).output("y_o");
    back.drive(around);
    m.output("y_o", around, "result");
}

#[test]
fn a_loop_through_an_instance_is_refused_unless_a_register_breaks_it() {
    let error = refused(|m| ring(m, &inverter(4)));
    assert_eq!(error.to_string(), "module dut: combinational loop back -> child_y -> back");

    let m = ModuleBuilder::new("dut", "A ring with a register.");
    ring(&m, &delay(4));
    m.finish().unwrap();
}

#[test]
fn a_loop_through_a_memory_address_is_refused() {
    let error = refused(|m| {
        let a = m.input("a_i", 1, "operand");
        let words = m.memory("words", 1, 2);
        words.write(a, a, a);
        let next = m.forward("next", 1);
        next.drive(words.read(next));
        m.output("y_o", next, "result");
    });
    assert_eq!(error.to_string(), "module dut: combinational loop next -> next");
}

#[test]
fn illegal_names_are_refused() {
    let names = ["", "A_i", "1_i", "_i", "a-b", "a b", "a$", "\u{e4}_i", "always", "logic", "endmodule"];
    for name in names {
        let error = refused(|m| m.output("y_o", m.input(name, 1, "operand"), "result"));
        let expected = format!(
            "module dut: '{name}' is not a legal name (lower-case letter first, then a-z, 0-9, _; no keyword of \
             Verilog or SystemVerilog)"
        );
        assert_eq!(error.to_string(), expected);
    }
    let memory = refused(|m| {
        let a = m.input("a_i", 1, "operand");
        let words = m.memory("reg", 1, 2);
        words.write(a, a, a);
        m.output("y_o", words.read(a), "word");
    });
    assert_eq!(memory, HdlError::IllegalName { module: "dut".into(), name: "reg".into() });
    let instance = refused(|m| {
        let a = m.input("a_i", 4, "operand");
        m.output("y_o", m.instance("table", &inverter(4)).input("a_i", a).output("y_o"), "result");
    });
    assert_eq!(instance, HdlError::IllegalName { module: "dut".into(), name: "table".into() });
    let module = ModuleBuilder::new("Dut", "Upper case.").finish().unwrap_err();
    assert_eq!(module, HdlError::IllegalName { module: "Dut".into(), name: "Dut".into() });
}

#[test]
fn names_used_twice_are_refused() {
    let twice = |describe: fn(&ModuleBuilder, Bits) -> Bits| {
        let error = refused(|m| {
            let a = m.input("a_i", 4, "operand");
            describe(m, a);
        });
        error.to_string()
    };
    let expected = |name: &str| format!("module dut: name '{name}' is used twice");
    assert_eq!(twice(|m, a| m.output("a_i", a, "result")), expected("a_i"));
    assert_eq!(twice(|m, a| m.output("y_o", m.wire("a_i", a), "result")), expected("a_i"));
    // The language's own clock and reset.
    assert_eq!(twice(|m, _| m.output("y_o", m.input("clk_i", 1, "clock"), "result")), expected("clk_i"));
    assert_eq!(twice(|m, _| m.output("y_o", m.input("rst_ni", 1, "reset"), "result")), expected("rst_ni"));
    // An instance's output wire against a wire of that name.
    let message = twice(|m, a| {
        let y = m.wire("inv_y", a);
        m.output("y_o", m.instance("inv", &inverter(4)).input("a_i", y).output("y_o"), "result")
    });
    assert_eq!(message, expected("inv_y"));
}

#[test]
fn signals_of_other_modules_are_refused() {
    let other = ModuleBuilder::new("other", "Owns the signal.");
    let foreign = other.input("b_i", 4, "operand");
    let error = refused(|m| m.output("y_o", !&foreign, "result"));
    assert_eq!(error.to_string(), "module dut: y_o refers to b_i, which belongs to module other");
    let words = other.memory("words", 4, 16);
    let error = refused(|m| m.output("y_o", words.read(lit(0, 4)), "result"));
    assert_eq!(error.to_string(), "module dut: y_o refers to words, which belongs to module other");
}

#[test]
fn signals_of_another_builder_of_the_same_name_are_refused() {
    let other = ModuleBuilder::new("dut", "Same name, other builder.");
    let _ = [other.input("a_i", 4, "operand"), other.input("b_i", 4, "operand")];
    let foreign = other.input("c_i", 4, "operand");
    let error = refused(|m| m.output("y_o", !&foreign, "result"));
    assert_eq!(error.to_string(), "module dut: y_o refers to c_i, which belongs to module dut");
}

/// A module `child` that adds `constant`, in a parent named `parent` and a grandparent.
fn family(constant: u128, parent: &str) -> Rc<Module> {
    let child = ModuleBuilder::new("child", "Adds a constant.");
    let a = child.input("a_i", 4, "operand");
    child.output("y_o", a + lit(constant, 4), "sum");
    let child = child.finish().unwrap();
    let m = ModuleBuilder::new(parent, "Holds a child.");
    let a = m.input("a_i", 4, "operand");
    m.output("y_o", m.instance("child", &child).input("a_i", a).output("y_o"), "sum");
    m.finish().unwrap()
}

fn both(first: &Rc<Module>, second: &Rc<Module>) -> Result<Design, HdlError> {
    let m = ModuleBuilder::new("top", "Holds both.");
    let a = m.input("a_i", 4, "operand");
    let first = m.instance("first", first).input("a_i", a).output("y_o");
    m.output("y_o", m.instance("second", second).input("a_i", first).output("y_o"), "sum");
    Design::new(&m.finish()?)
}

#[test]
fn two_different_modules_of_one_name_are_refused() {
    let error = both(&family(1, "left"), &family(2, "right")).unwrap_err();
    assert_eq!(error, HdlError::ModuleClash { module: "child".into() });
    assert_eq!(error.to_string(), "two different modules are named child");
    // The parents' texts differ only in the name of their child.
    let error = both(&family(1, "parent"), &family(2, "parent")).unwrap_err();
    assert_eq!(error, HdlError::ModuleClash { module: "child".into() });
    // Built twice, but the same.
    let design = both(&family(1, "parent"), &family(1, "parent")).unwrap();
    let names: Vec<&str> = design.modules().iter().map(|m| m.name()).collect();
    assert_eq!(names, ["child", "parent", "top"]);
}
