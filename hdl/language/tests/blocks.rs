//! The attribute `block`: names, and ports as fields.

use ndp_hdl_language::prelude::*;
use ndp_hdl_language::{Direction, packed};

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
    // Outputs are declared once, in the order in which they are read.
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
    assert_eq!(module.name(), "child_n2");
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

bundle! {
    struct Beat(bits: &u32) {
        valid: 1, "a beat is offered";
        data: *bits, "what is driven" => "what is read";
        r#move: 1, "may be missing", if *bits > 4;
    }
}

/// A bundle in and out, and inputs with two numbers.
#[block(m, "relay_n{bits}", "Holds a beat.")]
fn relay(bits: u32) -> Block {
    let beat = Beat::inputs(&m, &bits);
    let others = Beat::inputs_as(&m, "other_", "other: ", &bits);
    let enable = m.input(1, "takes it");
    let rows = each(2, |i| each(2, |k| m.input(format!("row{i}_{k}_i"), 1, "a row")));
    let chosen = beat.or_else(any_of(rows.into_iter().flatten()), others).held(&m, "", enable);
    Beat::outputs_as(&m, "to_", "to: ", &bits, chosen);
    m.output(sum = chosen.data + beat.data, "named before its value");
}

/// Two relays in a circle: each is driven by the other.
#[block(m, "circle", "Beats go round.")]
fn circle() -> Block {
    let enable = m.input(1, "takes it");
    let beat = Beat::later(&4);
    let [first_row, second_row] = [(); 2].map(|()| laters(2));
    let relay_of = |name: &str, beat: Beat, other: Beat| -> Result<relay::Out, HdlError> {
        let row = vec![first_row.clone(), second_row.clone()];
        Ok(relay::In { beat, other, enable, row }.part(&m, name, &relay(4)?))
    };
    let first = relay_of("first", beat, beat)?;
    let second = relay_of("second", first.to.q(), first.to.q())?;
    beat.comes_from(second.to.q());
    for (k, rows) in [first_row, second_row].iter().enumerate() {
        rows.iter().for_each(|row| row.comes_from(lit(k as u128, 1)));
    }
    m.output(sum = first.sum ^ second.sum, "of both");
}

#[test]
#[should_panic(expected = "only a placeholder")]
fn a_value_is_not_given_later() {
    lit(1, 1).comes_from(lit(0, 1));
}

#[test]
fn a_bundle_is_declared_once() {
    let module = relay(8).unwrap();
    let ports: Vec<(&str, &str)> =
        module.ports().iter().skip(1).map(|port| (port.name.as_str(), port.doc.as_str())).collect();
    assert_eq!(
        ports[..4],
        [
            ("valid_i", "a beat is offered"),
            ("data_i", "what is read"),
            ("move_i", "may be missing"),
            ("other_valid_i", "other: a beat is offered")
        ]
    );
    assert!(
        ports.contains(&("to_data_o", "to: what is driven"))
            && ports.contains(&("sum_o", "named before its value"))
    );
    assert!(relay(4).unwrap().ports().iter().all(|port| port.name != "move_i"));
}

#[test]
fn what_comes_later_drives_all_that_it_was_connected_to() {
    let text = circle().unwrap().verilog().to_owned();
    for line in [
        ".data_i(second_to_data),",
        ".other_data_i(second_to_data),",
        ".row1_0_i(1'h1),",
        ".data_i(first_to_data),",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

/// The same circle with outputs that are read before the inputs are connected.
#[block(m, "early", "Beats go round.")]
fn early() -> Block {
    let enable = m.input(1, "takes it");
    let [first, second] = ["first", "second"].map(|name| m.instance(name, &relay(4).unwrap()).into());
    let (first, second): (relay::Out, relay::Out) = (first, second);
    let row = [0, 1].map(|k| vec![lit(k, 1); 2]).to_vec();
    for (own, other) in [(first, second), (second, first)] {
        let (beat, row) = (other.to.q(), row.clone());
        own.connect(relay::In { beat, other: beat, enable, row });
    }
    own_sum(&m, first.sum.q() ^ second.sum);
}

/// A part of the block's text: its signals have the names of variables.
#[block(m)]
fn own_sum(m: &ModuleBuilder, of_both: Bits) {
    /// Both relays' "sum".
    let total = m.wire(of_both);
    m.output("sum_o", total, "of both");
}

#[test]
fn outputs_can_be_read_before_inputs_are_connected() {
    let text = early().unwrap().verilog().to_owned();
    for line in [
        ".data_i(second_to_data),",
        ".data_i(first_to_data),",
        "// Both relays' \"sum\".\n",
        "wire [3:0] total = first_sum ^ second_sum;",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

#[test]
fn what_comes_later_is_no_operand() {
    let m = ModuleBuilder::new("dut", "Reads what drives inputs only.");
    m.output("y_o", later() & lit(1, 1), "no value");
    assert!(
        m.finish().unwrap_err().to_string().contains("what comes later can drive inputs of instances only")
    );
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
