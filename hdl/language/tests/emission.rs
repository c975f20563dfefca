//! Designs that the language accepts: the emitted text is as recorded and the same in every run, three tools accept it,
//! and registers and memories behave as the language's documentation says.
//!
//! `semantics.rs` tests the values of combinational expressions, `refusals.rs` the refusals.

use crate::common;
use ndp_hdl_language::{
    Bits, Design, Direction, MemoryInfo, Module, ModuleBuilder, Pragmas, any_of, cat, lit, mux, one_hot_mux,
};
use std::rc::Rc;

/// Registers with every combination of reset and enable.
fn registers() -> Rc<Module> {
    let m = ModuleBuilder::new("registers_w4", "One register of each kind.");
    let data = m.input("data_i", 4, "next value");
    let enable = m.input("enable_i", 1, "take it");
    let plain = m.reg("plain_q", 4);
    let held = m.reg("held_q", 4).enable(enable);
    let cleared = m.reg("cleared_q", 4).reset(0);
    let counter = m.reg("counter_q", 4).reset(9).enable(enable);
    plain.next(data);
    held.next(data);
    cleared.next(data);
    counter.next(counter.plus_one());
    for (name, register) in
        [("plain_o", plain), ("held_o", held), ("cleared_o", cleared), ("counter_o", counter)]
    {
        m.output(name, register, "its value");
    }
    m.finish().unwrap()
}

fn register_file() -> Rc<Module> {
    let m = ModuleBuilder::new("register_file_6x8", "Six words of eight bits, one read and one write port.");
    let write = m.input("write_i", 1, "write");
    let write_addr = m.input("write_addr_i", 3, "word to write");
    let data = m.input("data_i", 8, "word");
    let read_addr = m.input("read_addr_i", 3, "word to read");
    let words = m.memory("words", 8, 6);
    words.write(write, write_addr, data);
    let read = m.reg("read_q", 8);
    read.next(words.read(read_addr));
    m.output("data_o", read, "the word, a cycle later");
    m.memory_macro(6, 8);
    m.finish().unwrap()
}

fn expressions() -> Rc<Module> {
    let m = ModuleBuilder::new(
        "expressions_w8",
        "Every form of expression, among them slices of sums and of multiplexers.",
    );
    let [a, b] = [m.input("a_i", 8, "first operand"), m.input("b_i", 8, "second operand")];
    let select = m.input("select_i", 3, "selects, one-hot");
    let amount = m.input("amount_i", 4, "shift amount");
    m.output("logic_o", (a & b) | (!&a ^ b), "bitwise");
    m.output("carry_o", (a.zext(9) + b.zext(9)).bit(8), "carry of the sum");
    m.output("difference_o", (a.sext(9) - b.sext(9)).high(3), "signed difference, upper bits");
    m.output("shifted_o", a.shl(amount) ^ b.shr(amount.low(3)), "variable shifts");
    m.output("selected_o", one_hot_mux(select, [a, b, lit(0xa5, 8)]), "AND-OR multiplexer");
    m.output("nested_o", mux(select.bit(0), a + b, a).slice(2, 4), "slice of a multiplexer");
    m.output("flags_o", cat([a.eq(b), a.ne(b), a.lt(b), a.ge(b), a.all(), b.is_zero()]), "comparisons");
    m.output("any_o", any_of([a.msb(), b.msb(), select.any()]).gated(!(!&select).all()), "reductions");
    m.output("wide_o", cat([a, lit(0, 140), b]).slice(4, 150), "more than 128 bits");
    m.finish().unwrap()
}

/// A two-level hierarchy: two register files in a row, an ignored port, a Verilator attribute.
fn hierarchy() -> Design {
    let leaf = || {
        let m = ModuleBuilder::new("pair_w8", "Sum and carry.");
        let [a, b] = [m.input("a_i", 8, "operand"), m.input("b_i", 8, "operand")];
        let sum = m.wire("sum", a.zext(9) + b.zext(9));
        m.output("sum_o", sum.low(8), "sum");
        m.output("carry_o", sum.msb(), "carry");
        m.share_code();
        m.finish().unwrap()
    };
    let file = register_file();
    let m = ModuleBuilder::new("hierarchy", "Adds what two register files hold.");
    let addr = m.input("addr_i", 3, "word");
    let data = m.input("data_i", 8, "word");
    let write = m.input("write_i", 1, "write");
    let words: Vec<Bits> = ["even", "odd"]
        .into_iter()
        .map(|name| {
            m.instance(name, &file)
                .input("write_i", if name == "odd" { write & addr.bit(0) } else { write & !addr.bit(0) })
                .input("write_addr_i", addr)
                .input("read_addr_i", addr)
                .input("data_i", data)
                .output("data_o")
        })
        .collect();
    // Built twice on purpose: equal modules are one definition.
    let first = m.instance("first", &leaf()).input("a_i", words[0]).input("b_i", words[1]);
    let first = first.ignore("carry_o", "the sum\nwraps").output("sum_o");
    let second = m.instance("second", &leaf()).input("a_i", first).input("b_i", data);
    m.output("sum_o", cat([second.output("carry_o"), second.output("sum_o")]), "sum of both and `data_i`");
    Design::new(&m.finish().unwrap()).unwrap()
}

#[test]
fn registers_of_every_kind_print_readably() {
    insta::assert_snapshot!(registers().verilog());
}

#[test]
fn expressions_of_every_form_print_readably() {
    insta::assert_snapshot!(expressions().verilog());
}

#[test]
fn a_hierarchy_prints_readably() {
    insta::assert_snapshot!(hierarchy().verilog());
}

#[test]
fn all_tools_accept_what_the_layer_prints() {
    for module in [registers(), register_file(), expressions()] {
        common::lint(module.verilog(), module.name());
    }
    common::lint(&hierarchy().verilog(), hierarchy().top().name());
}

#[test]
#[should_panic(expected = "dut.v")]
fn the_lint_of_this_test_can_fail() {
    let mutant = registers().verilog().replace("[3:0] data_i", "[4:0] data_i");
    assert_ne!(mutant, registers().verilog(), "nothing was changed");
    common::lint(&mutant, registers().name());
}

#[test]
#[should_panic(expected = "install Debian's package no-such-package")]
fn a_missing_tool_fails_with_its_package() {
    common::run("no-such-tool", "no-such-package", &[], std::path::Path::new("."));
}

#[test]
fn a_hierarchy_has_one_definition_per_distinct_module() {
    let design = hierarchy();
    let titles: Vec<&str> = design.modules().iter().map(|m| m.name()).collect();
    assert_eq!(titles, ["register_file_6x8", "pair_w8", "hierarchy"]);
    let text = design.verilog();
    for name in design.modules().iter().map(|m| m.name()) {
        let definitions = text.lines().filter(|line| line.starts_with(&format!("module {name} "))).count();
        assert_eq!(definitions, 1, "definitions of {name}");
    }
    let counts: Vec<u64> = design.instance_counts().into_iter().map(|(_, count)| count).collect();
    assert_eq!(counts, [2, 2, 1]);
    assert_eq!(design.top().name(), "hierarchy");
    assert_eq!(design.module("pair_w8").unwrap().memory(), None);
    assert!(design.module("pair_w9").is_none());
    let memory = design.module("register_file_6x8").unwrap().memory();
    assert_eq!(memory, Some(MemoryInfo { depth: 6, width: 8 }));
}

#[test]
fn the_text_is_the_same_every_time() {
    fn all() -> [String; 3] {
        [registers().verilog().to_owned(), expressions().verilog().to_owned(), hierarchy().verilog()]
    }
    let first = all();
    // Other modules in between, and another thread: neither may leave a trace in the text.
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(all)).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), first);
    }
}

#[test]
fn clock_and_reset_exist_only_where_they_are_needed() {
    let ports = |module: &Module| module.ports().iter().map(|p| p.name.clone()).collect::<Vec<_>>();
    assert_eq!(ports(&registers())[..2], ["clk_i", "rst_ni"]);
    assert_eq!(ports(&register_file())[..2], ["clk_i", "write_i"]);
    assert_eq!(ports(&expressions())[0], "a_i");
    assert_eq!(ports(hierarchy().top())[..2], ["clk_i", "addr_i"]);
}

#[test]
fn the_port_table_lists_every_port_with_its_width() {
    let module = registers();
    let table = module.port_table();
    assert!(table.starts_with("### `registers_w4`\n\nOne register of each kind.\n"), "{table}");
    assert!(table.contains("| `rst_ni` | in | 1 | synchronous reset, active low |"), "{table}");
    assert!(table.contains("| `counter_o` | out | 4 | its value |"), "{table}");
    assert_eq!(table.lines().filter(|line| line.starts_with("| `")).count(), module.ports().len());
    assert_eq!(module.ports().iter().filter(|p| p.direction == Direction::Output).count(), 4);
}

#[test]
fn combinational_paths_end_at_registers() {
    assert_eq!(registers().comb_inputs_of("plain_o"), [] as [&str; 0]);
    assert_eq!(expressions().comb_inputs_of("carry_o"), ["a_i", "b_i"]);
    assert_eq!(hierarchy().top().comb_inputs_of("sum_o"), ["data_i"]);
}

#[test]
fn names_of_helper_wires_avoid_the_names_in_use() {
    let m = ModuleBuilder::new("helpers", "Names that helper wires would like to have.");
    let a = m.input("a_i", 4, "operand");
    let taken = m.wire("y_o_part0", !&a);
    let unused = m.wire("unused_0", taken.plus_one());
    m.unused(unused, "only its name matters");
    m.output("y_o", (a + taken).bit(3), "upper bit of a sum");
    let module = m.finish().unwrap();
    common::lint(module.verilog(), module.name());
}

#[test]
fn a_long_expression_is_cut_and_what_its_parts_share_is_printed_once() {
    let m = ModuleBuilder::new("cut", "Lines that would be too long.");
    let data = m.input("data_i", 8, "data");
    let parity = (0..6).map(|bit| data.bit(bit)).reduce(|sum, bit| sum ^ bit).unwrap();
    let bits: Vec<Bits> = (0..64).map(|bit| parity & data.bit(bit % 8)).collect();
    m.output(
        "all_o",
        cat(bits.iter().rev().cloned()),
        "the data eight times if the parity of six bits is odd",
    );
    // A short expression is repeated.
    m.output("any_o", any_of([parity, data.bit(0)]), "short");
    let module = m.finish().unwrap();
    let text = module.verilog();
    assert!(text.lines().all(|line| line.len() <= 120), "{text}");
    let printed = "(^{data_i[0], data_i[1], data_i[2], data_i[3], data_i[4], data_i[5]})";
    assert_eq!(text.matches(printed).count(), 2, "{text}");
    for line in [format!("all_o_part0 = {printed};"), format!("any_o = {printed} | data_i[0];")] {
        assert_eq!(text.matches(&line).count(), 1, "{line}: {text}");
    }
    common::lint(text, module.name());
    let shown = simulated(
        &module,
        "data_i = 8'h51; #1 $display(\"%h\", all_o); data_i = 8'h50; #1 $display(\"%h\", all_o);\n",
    );
    assert_eq!(shown, ["0000000000000000", "5050505050505050"]);
}

#[test]
fn pragmas_are_in_the_text_for_verilator_alone() {
    let design = hierarchy();
    let text = |pragmas| design.definitions(pragmas).collect::<String>();
    assert!(!text(Pragmas::None).contains("verilator") && !design.verilog().contains("verilator"));
    let with = text(Pragmas::Verilator);
    assert_eq!(with.matches(" /* verilator public_flat_rd */, // ").count(), 2, "{with}");
    assert_eq!(
        with.replace(" /* verilator public_flat_rd */", "")
            .replace("    /* verilator no_inline_module */\n", ""),
        text(Pragmas::None)
    );
}

#[test]
fn a_module_knows_where_it_is_described() {
    let described = registers().source().to_owned();
    let line =
        include_str!("emission.rs").lines().position(|line| line.contains("\"registers_w4\"")).unwrap() + 1;
    assert_eq!(described, format!("hdl/language/tests/emission.rs:{line}"));
    assert!(!registers().verilog().contains("emission.rs"));
}

/// Output of `statements` in a bench around `module`, line by line.
fn simulated(module: &Module, statements: &str) -> Vec<String> {
    let mut bench = String::from("module bench;\nreg clk_i = 0;\nalways #5 clk_i = !clk_i;\n");
    for port in module.ports().iter().filter(|p| p.name != "clk_i") {
        let kind = if port.direction == Direction::Input { "reg" } else { "wire" };
        bench += &format!("{kind} [{}:0] {};\n", port.width - 1, port.name);
    }
    let ports: Vec<String> = module.ports().iter().map(|p| format!(".{0}({0})", p.name)).collect();
    bench += &format!(
        "{} dut ({});\ninitial begin\n{statements}$finish;\nend\nendmodule\n",
        module.name(),
        ports.join(", ")
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bench.v"), format!("{}\n{bench}", module.verilog())).unwrap();
    common::run(
        "iverilog",
        "iverilog",
        &["-g2005", "-s", "bench", "-o", "bench.vvp", "bench.v"],
        folder.path(),
    );
    common::run("vvp", "iverilog", &["-n", "bench.vvp"], folder.path()).lines().map(str::to_owned).collect()
}

#[test]
fn reset_wins_over_enable_and_registers_hold_while_disabled() {
    let step = |reset_n: u32, enable: u32, data: u32| {
        format!(
            "rst_ni = {reset_n}; enable_i = {enable}; data_i = {data}; @(negedge clk_i);\n\
             $display(\"%0d %0d %0d %0d\", plain_o, held_o, cleared_o, counter_o);\n"
        )
    };
    let steps = [
        // Unreset registers also load in reset.
        (step(0, 1, 5), "5 5 0 9"),
        (step(0, 0, 6), "6 5 0 9"),
        (step(1, 0, 7), "7 5 7 9"),
        (step(1, 1, 8), "8 8 8 10"),
        (step(1, 1, 3), "3 3 3 11"),
        (step(0, 0, 4), "4 3 0 9"),
    ];
    let statements: String = steps.iter().map(|(text, _)| text.as_str()).collect();
    let expected: Vec<&str> = steps.iter().map(|(_, expected)| *expected).collect();
    assert_eq!(simulated(&registers(), &statements), expected);
}

#[test]
fn a_memory_returns_what_was_written() {
    let mut statements = String::from("read_addr_i = 0;\n");
    for addr in 0..6 {
        statements +=
            &format!("write_i = 1; write_addr_i = {addr}; data_i = {}; @(negedge clk_i);\n", 40 + 3 * addr);
    }
    // Not written, although address and data are valid.
    statements += "write_i = 0; write_addr_i = 2; data_i = 99; @(negedge clk_i);\n";
    for addr in (0..6).rev() {
        statements += &format!("read_addr_i = {addr}; @(negedge clk_i); $display(\"%0d\", data_o);\n");
    }
    assert_eq!(simulated(&register_file(), &statements), ["55", "52", "49", "46", "43", "40"]);
}

fn register_file_of_parts(parts: u32) -> Rc<Module> {
    let m = ModuleBuilder::new(format!("register_file_6x12_e{parts}"), "Six words, written part by part.");
    let write = m.input("write_i", parts, "parts to write");
    let write_addr = m.input("write_addr_i", 3, "word to write");
    let data = m.input("data_i", 12, "word");
    let read_addr = m.input("read_addr_i", 3, "word to read");
    let words = m.memory("words", 12, 6);
    words.write(write, write_addr, data);
    m.output("data_o", words.read(read_addr), "the word");
    m.finish().unwrap()
}

#[test]
fn a_memory_with_several_enables_writes_these_parts_and_keeps_the_others() {
    for parts in [2, 3, 4, 6, 12] {
        let module = register_file_of_parts(parts);
        common::lint(module.verilog(), module.name());
        let bits = 12 / parts;
        let (mut words, mut statements, mut expected) = ([0u32; 6], String::new(), Vec::new());
        // All parts once, so that nothing is undefined; then every set of parts, over other data.
        for step in 0..6 + (1 << parts) {
            let addr = step * 5 % 6;
            let enable = if step < 6 { (1 << parts) - 1 } else { step - 6 };
            let data = ((step + 1) * 0x9e5) & 0xfff;
            for part in (0..parts).filter(|part| enable >> part & 1 == 1) {
                let mask = ((1 << bits) - 1) << (part * bits);
                words[addr as usize] = words[addr as usize] & !mask | data & mask;
            }
            statements += &format!(
                "write_i = {enable}; write_addr_i = {addr}; read_addr_i = {addr}; data_i = {data}; @(negedge clk_i);\n\
                 $display(\"%0d\", data_o);\n"
            );
            expected.push(words[addr as usize].to_string());
        }
        assert_eq!(simulated(&module, &statements), expected, "{parts} parts");
    }
}
