//! Small blocks on which the harness tests itself, under the configuration name `selftest`.
//!
//! They have one port of each storage
//! class of Verilator (8, 16, 32, 64 bits and words), one clocked block, one without a clock and one with two, and they
//! compile in seconds. They are no part of the hardware.

use ndp_cosim::ffi::{Hardware, Model, OpenOptions, SimError, rtl};
use ndp_hdl::designs::BuildError;
use ndp_hdl_language::{Design, HdlError, Module, ModuleBuilder, mux};
use std::rc::Rc;

/// One width per storage class, the last two in words.
const WIDTHS: [u32; 7] = [1, 8, 16, 32, 64, 100, 128];

/// The hardware that has them.
pub struct SelfTest;

impl Hardware for SelfTest {
    fn name(&self) -> &str {
        "selftest"
    }

    fn elaborate(&self, block: &str) -> Result<Design, BuildError> {
        Ok(Design::new(&match block {
            "adder" => adder()?,
            "clocks" => clocks()?,
            _ => accumulator()?,
        })?)
    }
}

/// One of them with default options.
pub fn open(block: &str) -> Result<Model, SimError> {
    open_with(block, &OpenOptions::default())
}

/// One of them.
pub fn open_with(block: &str, options: &OpenOptions) -> Result<Model, SimError> {
    Model::open(&rtl(&SelfTest, block)?, options)
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

/// A counter on each of two clocks, and what the core's clock last saw of the DRAM's.
fn clocks() -> Result<Rc<Module>, HdlError> {
    let counter = {
        let module = ModuleBuilder::new("selftest_counter", "cycles since reset");
        let count = module.reg("count_q", 40).reset(0);
        count.next(count.plus_one());
        module.output("count_o", &count, "cycles since reset");
        module.finish()?
    };
    let sampler = {
        let module = ModuleBuilder::new("selftest_sampler", "what an input was at the last edge");
        let sample = module.reg("sample_q", 40);
        sample.next(module.input("value_i", 40, "value"));
        module.output("sample_o", &sample, "the input at the last edge");
        module.finish()?
    };
    let module = ModuleBuilder::new("selftest_clocks", "a counter on each of two clocks");
    let dram = module.clock_domain("dram");
    let core_count = module.instance("core", &counter).output("count_o");
    let dram_count = module.instance("dram", &counter).in_domain(&dram).output("count_o");
    let sampled =
        module.instance("sampler", &sampler).crossing("value_i", &dram_count, "edges never coincide");
    module.output(
        "sampled_o",
        sampled.output("sample_o"),
        "DRAM cycles at the last edge of the core's clock",
    );
    module.output("core_o", core_count, "core cycles since reset");
    module.output("dram_o", dram_count, "DRAM cycles since reset");
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
