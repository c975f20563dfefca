//! The attribute `block`: names, and ports as fields.

use ndp_hdl_language::prelude::*;
use ndp_hdl_language::{Direction, packed};

/// Ports of all kinds.
#[block(m, "child_n{count}", "Ports of all kinds.")]
fn child(count: u32, more: bool) -> Block {
    let start = m.input(1, "begins");
    let step = more.then(|| m.input("step_i", 1, "goes on"));
    let values = each(count, |k| m.input(format!("value{k}_i"), 4, format!("value {k}")));
    let sum = m.wire(any_of(values));
    let kept = m.reg(4).reset(0).enable(step.unwrap_or(lit(1, 1)));
    kept.next(sum.gated(start));
    for k in 0..count {
        m.output(format!("half{k}_o"), kept.slice(2 * k, 2), format!("half {k}"));
    }
    m.output(kept, "what was kept");
}

#[block(m, "parent", "Holds a child.")]
fn parent() -> Block {
    let start = m.input(1, "begins");
    let a = m.input(4, "a value");
    let inputs = child::In { start, step: None, value: vec![a, a] };
    let part = inputs.part(&m, "part", &child(2, false)?);
    // Outputs are declared in the order in which they are read, and once.
    m.output("all_o", part.kept, "all");
    m.output("half_o", part.half.at(1) & part.kept.low(2), "a half");
    part.half.at(0).low(1);
    m.unused(part.half.at(0), "the other half");
}

#[test]
fn signals_have_the_names_of_their_variables() {
    let module = child(2, true).unwrap();
    let names = |direction| {
        let ports = module.ports().iter().filter(move |port| port.direction == direction);
        ports.map(|port| port.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(Direction::Input), ["clk_i", "rst_ni", "start_i", "step_i", "value0_i", "value1_i"]);
    assert_eq!(names(Direction::Output), ["half0_o", "half1_o", "kept_o"]);
    assert_eq!(module.title(), "child_n2");
    assert_eq!(module.doc(), "Ports of all kinds.");
    let signals: Vec<&str> = module.signals().iter().map(|signal| signal.name).collect();
    assert!(signals.contains(&"kept_q") && signals.contains(&"sum"), "{signals:?}");
}

#[test]
fn an_instance_is_connected_by_fields() {
    let text = parent().unwrap().verilog().to_owned();
    for line in [".start_i(start_i),", ".value0_i(a_i),", ".value1_i(a_i),", ".kept_o(part_kept)"] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    let order = ["wire [3:0] part_kept;", "wire [1:0] part_half1;", "wire [1:0] part_half0;"];
    let places = order.map(|line| text.find(line).unwrap_or_else(|| panic!("{line} in\n{text}")));
    assert!(places.is_sorted());
}

packed! {
    struct Word(width: u32) {
        low: width,
        flag: 1,
        high: width + 1,
    }
}

#[test]
fn a_packed_word_has_its_first_field_lowest() {
    assert_eq!(Word::bits(3), 8);
    let m = ModuleBuilder::new("dut", "Packs what it has unpacked.");
    let word = m.input("word_i", 8, "a word");
    let Word { low, flag, high } = Word::unpack(3, word);
    m.output("word_o", Word { low, flag: !flag, high }.pack(), "the same with the other flag");
    let text = m.finish().unwrap().verilog().to_owned();
    assert!(text.contains("assign word_o = {word_i[7:4], ~word_i[3], word_i[2:0]};"), "{text}");
}
