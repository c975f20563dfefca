//! The aligner of products by itself, in Icarus, against a shift in 128-bit integers: every exponent and sign, products of every kind.

use crate::common;
use ndp_config::DesignConfig;
use ndp_hdl::designs::build;
use std::fmt::Write;

const SIGNIFICAND_BITS: u32 = 11;

/// All inputs of the aligner: sums of effective exponents, and 63 for specials, with either sign.
fn vectors(product_bits: u32) -> Vec<(u32, u32, bool)> {
    let top = (1 << product_bits) - 1;
    let products = [0, 1, 2, 3, top, top - 1, 1 << (product_bits - 1), 0x0015_5555 & top, 0x002A_AAAA & top];
    let mut vectors = Vec::new();
    for exp in (2..=60).chain([63]) {
        for product in products {
            vectors.extend([false, true].map(|negative| (product, exp, negative)));
        }
    }
    vectors
}

/// Mismatches between the aligner, its Verilog changed by `change`, and the shift.
fn mismatches(config: &DesignConfig, change: impl Fn(String) -> String) -> Vec<String> {
    let gemv = config.gemv();
    let (steps, acc_bits) = (gemv.serial_steps(), gemv.acc_bits());
    let product_bits = SIGNIFICAND_BITS + steps;
    let design = build(config, "product_aligner").unwrap();
    let digits: Vec<String> = (0..gemv.acc_segments()).map(|k| format!("d{k}")).collect();
    let mut text = change(design.verilog()) + "module bench;\n";
    let _ = writeln!(text, "reg [{}:0] product; reg [5:0] exp; reg negative;", product_bits - 1);
    let _ = writeln!(text, "wire [{}:0] {};", gemv.digit_bits() - 1, digits.join(", "));
    let _ =
        write!(text, "{} dut (.product_i(product), .exp_i(exp), .negative_i(negative)", design.top().name());
    for (k, digit) in digits.iter().enumerate() {
        let _ = write!(text, ", .digit{k}_o({digit})");
    }
    text += ");\ninitial begin\n";
    let sum: Vec<&str> = digits.iter().rev().map(String::as_str).collect();
    let vectors = vectors(product_bits);
    for (product, exp, negative) in &vectors {
        let _ = writeln!(
            text,
            "product = {product}; exp = {exp}; negative = {}; #1; $display(\"%h\", {{{}}});",
            u32::from(*negative),
            sum.join(", ")
        );
    }
    text += "end\nendmodule\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bench.v"), text).unwrap();
    let compile = ["-g2005", "-s", "bench", "-o", "bench.vvp", "bench.v"];
    common::run("iverilog", "iverilog", &compile, folder.path());
    let printed = common::run("vvp", "iverilog", &["-n", "bench.vvp"], folder.path());
    assert_eq!(printed.lines().count(), vectors.len());
    let mut wrong = Vec::new();
    for (line, (product, exp, negative)) in printed.lines().zip(vectors) {
        let place = u128::from(product) << (SIGNIFICAND_BITS - steps) << (exp - 2);
        let expected = if negative { !place } else { place } & (u128::MAX >> (128 - acc_bits));
        let found = u128::from_str_radix(line, 16).unwrap();
        if found != expected {
            wrong.push(format!(
                "{product:#x}, exponent sum {exp}, negative {negative}: {found:#x}, not {expected:#x}"
            ));
        }
    }
    wrong
}

#[test]
fn every_product_comes_to_its_place() {
    let wrong = mismatches(&DesignConfig::preset("hermes").unwrap(), |text| text);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_bit_at_a_wrong_place_is_found() {
    let right = "shifted4[27:2]";
    let wrong = mismatches(&DesignConfig::preset("hermes").unwrap(), |text| {
        assert!(text.contains(right), "{text}");
        text.replace(right, "{shifted4[26:2], shifted4[27]}")
    });
    assert!(!wrong.is_empty());
}

#[test]
fn products_of_truncated_weights_come_to_the_same_place() {
    for steps in [2, 7] {
        let toml = format!("name = \"truncated\"\n[gemv]\nserial_steps = {steps}\n");
        let wrong = mismatches(&DesignConfig::from_toml(&toml).unwrap(), |text| text);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
