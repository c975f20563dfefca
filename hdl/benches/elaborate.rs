//! Time from a configuration to its Verilog text, checks included: `cargo bench -p ndp-hdl`. The bar for `hermes` is
//! half a second, file output included.

use divan::{Bencher, black_box};
use ndp_config::DesignConfig;
use ndp_hdl::designs::build;

fn main() {
    divan::main();
}

#[divan::bench(args = ["tiny", "hermes", "hermes-512"])]
fn gemv_unit(bencher: Bencher, preset: &str) {
    let config = DesignConfig::preset(preset).unwrap_or_else(|error| panic!("{error}"));
    bencher.bench_local(|| {
        let design = build(black_box(&config), "gemv_unit").unwrap_or_else(|error| panic!("{error}"));
        design.verilog().len()
    });
}
