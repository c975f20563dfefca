//! Two small blocks on which the harness tests itself.
//!
//! Built beside the real designs under the configuration name `selftest`. They have one port of each storage
//! class of Verilator (8, 16, 32, 64 bits and words), one clocked block and one without a clock, and they
//! compile in seconds. They are no part of the hardware.

use ndp_hdl::layer::{Design, HdlError, Module, ModuleBuilder, mux};
use std::rc::Rc;

/// Name under which the blocks appear in place of a configuration.
pub const CONFIG: &str = "selftest";
/// The blocks.
pub const BLOCKS: [&str; 2] = ["accumulator", "adder"];
/// One width per storage class, the last two in words.
const WIDTHS: [u32; 7] = [1, 8, 16, 32, 64, 100, 128];

/// Elaborates one of [`BLOCKS`].
pub fn build(block: &str) -> Result<Design, HdlError> {
    Design::new(&if block == "adder" { adder()? } else { accumulator()? })
}

/// `y_o = a_i + b_i` for each width, without a register.
fn adder() -> Result<Rc<Module>, HdlError> {
    let module = ModuleBuilder::new("selftest_adder", "sums of each width, without a clock");
    for width in WIDTHS {
        let a = module.input(format!("a{width}_i"), width, "term");
        let b = module.input(format!("b{width}_i"), width, "term");
        module.output(format!("y{width}_o"), &a + &b, "sum, wrapping");
    }
    module.finish()
}

/// For each width a sum of everything that came in while enabled, and a cycle counter.
fn accumulator() -> Result<Rc<Module>, HdlError> {
    let module = ModuleBuilder::new("selftest_accumulator", "running sums of each width");
    let enable = module.input("en_i", 1, "add the inputs");
    let enable_q = module.reg("en_q", 1).reset(0);
    enable_q.next(&enable);
    for width in WIDTHS {
        let channel = channel(width)?;
        let x = module.input(format!("x{width}_i"), width, "term");
        let instance = module.instance(format!("channel{width}"), &channel);
        let sum = instance.input("en_i", &enable_q).input("x_i", &x).output("y_o");
        module.output(format!("y{width}_o"), &sum, "sum, wrapping");
    }
    let cycle = module.reg("cycle_q", 40).reset(0);
    cycle.next(cycle.plus_one());
    module.output("cycle_o", &cycle, "cycles since reset");
    module.finish()
}

fn channel(width: u32) -> Result<Rc<Module>, HdlError> {
    let module = ModuleBuilder::new(format!("selftest_channel_w{width}"), "one running sum");
    module.share_code();
    let enable = module.input("en_i", 1, "add, one cycle after the term");
    let x = module.input("x_i", width, "term");
    let x_q = module.reg("x_q", width).reset(0);
    x_q.next(&x);
    let sum = module.reg("sum_q", width).reset(0);
    sum.next(mux(&enable, &(&sum.q() + &x_q.q()), &sum.q()));
    module.output("y_o", &sum, "sum");
    module.finish()
}
