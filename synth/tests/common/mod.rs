//! A cell library small enough to check by hand.

/// Units ps and fF. Gates switch in 30 ps, flip-flops in 40 ps with 5 ps of setup, whatever the load. Supply: 1 V. An
/// input pin has 1 fF. An output takes 2 fJ to rise and 1 to fall, a clock pin 3 and 2 fJ. Every cell leaks 4 nW.
pub fn liberty() -> String {
    let gates = [
        ("INV", 0.5, "!A"),
        ("BUF", 0.75, "A"),
        ("NAND2", 1.0, "!(A & B)"),
        ("NOR2", 1.0, "!(A | B)"),
        ("AND2", 1.5, "A & B"),
        ("OR2", 1.5, "A | B"),
        ("XOR2", 2.5, "A ^ B"),
        ("MUX2", 3.0, "(S & B) | (!S & A)"),
    ];
    let gates: String = gates.iter().map(|(name, area, function)| gate(name, *area, function)).collect();
    format!("{HEAD}{gates}{FLIP_FLOP}{LATCH}}}\n")
}

fn gate(name: &str, area: f64, function: &str) -> String {
    let edge = |edge: &str| {
        format!(
            "cell_{edge} (t) {{ values (\"30, 30\", \"30, 30\"); }} {edge}_transition (t) {{ values (\"10, 10\", \"10, 10\"); }}"
        )
    };
    let (mut inputs, mut arcs) = (String::new(), String::new());
    for pin in ["A", "B", "S"].into_iter().filter(|pin| function.contains(pin)) {
        inputs += &format!("    pin ({pin}) {{ direction : input; capacitance : 1; }}\n");
        arcs +=
            &format!("      timing () {{ related_pin : \"{pin}\"; {} {} }}\n", edge("rise"), edge("fall"));
        arcs += &format!("      internal_power () {{ related_pin : \"{pin}\"; {} }}\n", energies(2, 1));
    }
    format!(
        "  cell ({name}) {{\n    area : {area}; cell_leakage_power : 4;\n{inputs}    pin (Y) {{ direction : output; function : \"{function}\"; \
         max_capacitance : 100;\n{arcs}    }}\n  }}\n"
    )
}

fn energies(rise: u32, fall: u32) -> String {
    let table = |edge: &str, value: u32| format!("{edge}_power (scalar) {{ values (\"{value}\"); }}");
    format!("{} {}", table("rise", rise), table("fall", fall))
}

const HEAD: &str = r#"library (few_cells) {
  delay_model : table_lookup;
  time_unit : "1ps";
  voltage_unit : "1V";
  current_unit : "1uA";
  pulling_resistance_unit : "1kohm";
  leakage_power_unit : "1nW";
  capacitive_load_unit (1, ff);
  nom_process : 1; nom_temperature : 25; nom_voltage : 1;
  input_threshold_pct_rise : 50; input_threshold_pct_fall : 50;
  output_threshold_pct_rise : 50; output_threshold_pct_fall : 50;
  slew_lower_threshold_pct_rise : 20; slew_lower_threshold_pct_fall : 20;
  slew_upper_threshold_pct_rise : 80; slew_upper_threshold_pct_fall : 80;
  lu_table_template (t) {
    variable_1 : input_net_transition; variable_2 : total_output_net_capacitance;
    index_1 ("1, 100"); index_2 ("1, 100");
  }
  lu_table_template (s) {
    variable_1 : related_pin_transition; variable_2 : constrained_pin_transition;
    index_1 ("1, 100"); index_2 ("1, 100");
  }
"#;

/// Open while its clock is down.
const LATCH: &str = r#"  cell (LATN) {
    area : 3; cell_leakage_power : 4;
    latch (IQ, IQN) { enable : "!G"; data_in : "D"; }
    pin (G) { direction : input; clock : true; capacitance : 1; }
    pin (D) { direction : input; capacitance : 1; }
    pin (Q) { direction : output; function : "IQ"; max_capacitance : 100; }
  }
"#;

const FLIP_FLOP: &str = r#"  cell (DFF) {
    area : 4; cell_leakage_power : 4;
    ff (IQ, IQN) { clocked_on : "CK"; next_state : "D"; }
    pin (CK) { direction : input; clock : true; capacitance : 1;
      internal_power () { rise_power (scalar) { values ("3"); } fall_power (scalar) { values ("2"); } } }
    pin (D) { direction : input; capacitance : 1;
      timing () { related_pin : "CK"; timing_type : setup_rising;
        rise_constraint (s) { values ("5, 5", "5, 5"); } fall_constraint (s) { values ("5, 5", "5, 5"); } } }
    pin (Q) { direction : output; function : "IQ"; max_capacitance : 100;
      internal_power () { related_pin : "CK"; rise_power (scalar) { values ("2"); } fall_power (scalar) { values ("1"); } }
      timing () { related_pin : "CK"; timing_type : rising_edge;
        cell_rise (t) { values ("40, 40", "40, 40"); } rise_transition (t) { values ("10, 10", "10, 10"); }
        cell_fall (t) { values ("40, 40", "40, 40"); } fall_transition (t) { values ("10, 10", "10, 10"); } } }
  }
"#;
