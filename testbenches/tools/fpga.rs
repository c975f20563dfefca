//! `ndp synth fpga`: its report has the numbers of the library, which `synth/tests/fpga.rs` tests.

use ndp_testkit::programs::Program;
use serde_json::{Map, Value};

#[test]
fn cells_of_a_mapped_block_are_reported() {
    let program = Program::new(env!("CARGO_BIN_EXE_ndp")).subcommand("fpga");
    let output = program.succeeds("--map-only --block fp16_rounder --json");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cells = report["cells"].as_array().unwrap().iter();
    let cells: Map<String, Value> =
        cells.map(|cell| (cell["cell"].as_str().unwrap().to_owned(), cell["count"].clone())).collect();
    assert_eq!(report["run"]["cells"], Value::Object(cells));
    assert!(report["run"]["cells"]["TRELLIS_FF"].as_u64() > Some(0));
    // Nothing was placed, so no clock misses its target.
    assert_eq!((&report["clocks"], &report["holds"]), (&serde_json::json!([]), &true.into()));
    assert!(program.left().is_empty());
}
