//! GEMV units with other parameters than the presets': sixteen lanes, fewer serial steps, other accumulators.
//!
//! Random programs as in `gemv_unit.rs`, which has the unit of four ranks.

use common::Outcome;
use common::programs::run_programs;
use ndp_config::DesignConfig;

fn check(name: &str, programs: usize) -> Outcome {
    let config = DesignConfig::load(&format!("testbenches/configs/{name}.toml"))?;
    run_programs(&config, 0x7061_7261, programs, 20)
}

#[test]
#[ignore = "half a minute; run by `make exhaustive`"]
fn sixteen_lanes_in_a_single_rank_do_what_the_instructions_say() -> Outcome {
    check("sixteen-lanes", 400)
}

#[test]
fn fewer_serial_steps_give_the_products_of_truncated_weights() -> Outcome {
    check("short-steps", 400)
}
