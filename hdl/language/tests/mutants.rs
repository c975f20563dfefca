//! Mutants of a module: which ones exist, and how they are written down, found again and inserted.
//! `testbenches/models/mutants.rs` tests them in models.

use ndp_hdl_language::mutate::{Mutant, Mutation, replaced, with_choices};
use ndp_hdl_language::{Design, Module, ModuleBuilder, Netlist, Op, lit, mux};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Adds up to a limit, `width` bits wide.
fn adder(width: u32) -> Rc<Module> {
    let m = ModuleBuilder::new(format!("adder_{width}"), "Adds.");
    let (enable, data) = (m.input("enable_i", 1, "add"), m.input("data_i", width, "summand"));
    let sum = m.reg("sum_q", width).reset(2).enable(enable);
    let more = m.wire("more", sum.q() + data);
    sum.next(mux(more.lt(data), lit(7, width), more));
    m.output("sum_o", sum.q(), "sum");
    m.finish().unwrap()
}

fn pair() -> Rc<Module> {
    let (m, child) = (ModuleBuilder::new("pair", "Two."), adder(8));
    let (enable, data) = (m.input("enable_i", 1, "add"), m.input("data_i", 8, "summand"));
    for name in ["first", "second"] {
        let instance = m.instance(name, &child).input("enable_i", enable).input("data_i", data);
        m.output(format!("{name}_o"), instance.output("sum_o"), "sum");
    }
    m.finish().unwrap()
}

fn all(module: &Rc<Module>) -> Vec<Mutant> {
    Mutant::all(&Design::new(module).unwrap())
}

fn words(module: &Rc<Module>) -> BTreeSet<String> {
    all(module).iter().map(|mutant| mutant.words(module)).collect()
}

#[test]
fn every_operator_constant_register_and_connection_has_mutants() {
    let words = words(&adder(8));
    for expected in [
        "drive more: (sum_q + data_i) becomes (sum_q - data_i)",
        "drive more: (sum_q + data_i) becomes sum_q",
        "drive more: (sum_q + data_i) becomes 0",
        "next sum_q: ((more < data_i) ? 7 : more) becomes ((more < data_i) ? more : 7)",
        "next sum_q: (more < data_i) becomes (data_i >= more)",
        "next sum_q: 7 becomes 8",
        "next sum_q: 7 becomes 6",
        "enable sum_q: enable_i becomes 1",
        "register sum_q never changes",
        "register sum_q is reset to 3",
        "drive sum_o: sum_q becomes 0",
    ] {
        assert!(words.contains(expected), "{expected} is not in {words:#?}");
    }
    let pair = all(&pair());
    assert_eq!(pair.iter().filter(|mutant| mutant.to_string().contains("input first data_i")).count(), 1);
}

#[test]
fn a_mutant_names_the_line_of_the_description() {
    let module = adder(8);
    let lines: Vec<&str> = include_str!("mutants.rs").lines().collect();
    let mutants = all(&module);
    let sum = mutants.iter().find(|m| m.words(&module).ends_with("becomes (sum_q - data_i)")).unwrap();
    assert!(sum.file().ends_with("tests/mutants.rs"), "{}", sum.file());
    let number: usize = sum.line().rsplit(':').next().unwrap().parse().unwrap();
    assert!(lines[number - 1].contains("sum.q() + data"), "{}", sum.line());
}

#[test]
fn what_is_written_down_is_found_again_in_other_sizes() {
    let (small, large) = (adder(8), adder(12));
    for mutant in all(&small) {
        assert_eq!(mutant.to_string().parse::<Mutant>().unwrap(), mutant);
        assert!(mutant.is_in(&large), "{mutant}");
    }
    let error = "a\tb\tc".parse::<Mutant>().unwrap_err();
    assert_eq!(error, "found 3 fields, expected the 5 of a mutant: a\tb\tc");
}

#[test]
fn one_mutant_changes_one_thing() {
    let module = adder(8);
    let mut texts = BTreeSet::from([module.verilog().to_owned()]);
    let mutants = all(&module);
    for mutant in &mutants {
        let mutated = replaced(&module, mutant).unwrap().unwrap();
        let differs = |(old, new): &(&str, &str)| old != new;
        let lines = module.verilog().lines().zip(mutated.verilog().lines());
        assert_eq!(lines.filter(differs).count(), 1, "{mutant}\n{}", mutated.verilog());
        texts.insert(mutated.verilog().to_owned());
    }
    assert_eq!(texts.len(), mutants.len() + 1, "all differ");
}

#[test]
fn choices_are_by_number_and_reach_all_instances() {
    let top = pair();
    let mutants: Vec<Mutant> = all(&adder(8));
    let chosen = with_choices(&top, &mutants).unwrap().unwrap();
    let netlist = Netlist::of(&chosen).unwrap();
    let numbers: BTreeSet<u32> = netlist
        .graph
        .nodes
        .iter()
        .filter_map(|node| match node.op {
            Op::Mutant(number) => Some(number),
            _ => None,
        })
        .collect();
    let resets = mutants.iter().filter(|mutant| mutant.to_string().contains("\treset ")).count();
    assert_eq!((numbers.len() + resets, resets), (mutants.len(), 1));
    assert!(netlist.has_mutants() && !Netlist::of(&top).unwrap().has_mutants());
    let design = Design::new(&chosen).unwrap();
    assert_eq!(design.modules().len(), 2, "both instances stay one module");
    let text = design.verilog();
    assert!(text.contains("if (!$value$plusargs(\"mutant=%d\", mutant)) mutant = 0;"), "{text}");
    assert!(text.contains("? 8'h3 : 8'h2;"), "{text}");
    // A design without any of them stays as it is.
    let m = ModuleBuilder::new("wire_only", "Nothing.");
    let input = m.input("a_i", 1, "in");
    m.output("a_o", input, "out");
    assert!(with_choices(&m.finish().unwrap(), &mutants).unwrap().is_none());
}

#[test]
fn a_mutant_that_holds_the_original_is_no_circle() {
    let m = ModuleBuilder::new("parity", "Adds modulo 2.");
    let (a, b) = (m.input("a_i", 4, "one"), m.input("b_i", 4, "other"));
    m.output("sum_o", a ^ b, "sum");
    let module = m.finish().unwrap();
    let negated =
        all(&module).into_iter().find(|mutant| mutant.words(&module).contains("becomes !")).unwrap();
    let mutated = replaced(&module, &negated).unwrap().unwrap();
    assert!(mutated.verilog().contains("assign sum_o = ~(a_i ^ b_i);"), "{}", mutated.verilog());
    assert!(with_choices(&module, &[negated]).unwrap().is_some());
}

/// Three ways to name a place: by its text, by the root, with two dots.
const CHANGES: [Mutation; 4] = [
    Mutation::new("text", "a_i ^ b_i", |s| s.part(0) | s.part(1)),
    Mutation::new("root", "next kept_q", |s| !s.old()),
    Mutation::new("dots", "(go_i ? .. : kept_q)", |s| s.with(1, s.signal("b_i"))),
    Mutation::new("reset", "reset kept_q", |s| s.lit(3)),
];

fn keeper() -> Rc<Module> {
    let m = ModuleBuilder::new("keeper", "Keeps a parity.");
    let (a, b, go) = (m.input("a_i", 4, "one"), m.input("b_i", 4, "other"), m.input("go_i", 1, "take"));
    let kept = m.reg("kept_q", 4).reset(0);
    kept.next(mux(go, a ^ b, kept));
    m.output("kept_o", kept, "kept");
    m.finish().unwrap()
}

#[test]
fn a_change_by_hand_is_put_where_its_text_or_root_is() {
    let module = keeper();
    let of = |change: &Mutation| replaced(&module, change).unwrap().unwrap().verilog().to_owned();
    for (change, line) in CHANGES.iter().zip([
        "kept_q <= (go_i ? a_i | b_i : kept_q);",
        "kept_q <= ~(go_i ? a_i ^ b_i : kept_q);",
        "kept_q <= (go_i ? b_i : kept_q);",
        "kept_q <= 4'h3;",
    ]) {
        assert!(of(change).contains(line), "{line} in {}", of(change));
    }
    let chosen = with_choices(&module, &CHANGES).unwrap().unwrap();
    for text in ["(mutant == 1)", "(mutant == 2)", "(mutant == 3)", "(mutant == 4) ? 4'h3 : 4'h0"] {
        assert!(chosen.verilog().contains(text), "{text} in {}", chosen.verilog());
    }
}

#[test]
fn a_change_by_hand_that_does_not_fit_is_refused() {
    let refused = |change: Mutation| replaced(&keeper(), &change).unwrap_err();
    let of = |at, to| refused(Mutation::new("wrong", at, to));
    assert_eq!(of("a_i & b_i", |s| s.old()), "no `a_i & b_i`, which wrong replaces");
    assert_eq!(
        of("a_i ^ b_i", |s| lit(1, s.old().width() - 1)),
        "wrong: `a_i ^ b_i` in keeper has 4 bits, not 3"
    );
    assert_eq!(of("a_i ^ b_i", |s| s.signal("c_i")), "wrong: keeper has no signal c_i");
    assert_eq!(of("a_i ^ b_i", |s| s.part(2)), "wrong: keeper has no part 2");
    assert_eq!(of("a_i ^ b_i", |s| s.with(0, lit(0, 3))), "wrong: keeper has no part 0 of 3 bits");
    assert_eq!(of("reset kept_q", |s| s.signal("a_i")), "wrong: a reset value is a literal");
}
