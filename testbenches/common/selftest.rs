//! Small blocks on which the harness tests itself, under the configuration name `selftest`. They have one port of each
//! storage class of Verilator (8, 16, 32, 64 bits and words), one clocked block, one without a clock and one with two,
//! and compile in seconds. They are no part of the hardware.

use ndp_hdl::designs::BuildError;
use ndp_hdl_language::{
    Bits, Crossing, Design, HdlError, Module, ModuleBuilder, any_of, cat, lit, mux, one_hot_mux, repeat,
    zeros,
};
use ndp_sim::ffi::{Hardware, Model, OpenOptions, rtl};
use std::rc::Rc;

/// One width per storage class, the last two in words.
const WIDTHS: [u32; 7] = [1, 8, 16, 32, 64, 100, 128];

#[derive(Debug)]
pub struct SelfTest;

impl Hardware for SelfTest {
    fn name(&self) -> &str {
        "selftest"
    }

    fn elaborate(&self, block: &str) -> Result<Design, BuildError> {
        Ok(Design::new(&match block {
            "adder" => adder()?,
            "clocks" => clocks()?,
            "operators" => operators()?,
            "limits" => limits()?,
            "chain" => chain()?,
            _ => accumulator()?,
        })?)
    }
}

pub fn open(block: &str) -> ndp_files::Result<Model> {
    open_with(block, &OpenOptions::default())
}

pub fn open_with(block: &str, options: &OpenOptions) -> ndp_files::Result<Model> {
    Model::open(&rtl(&SelfTest, block)?, options)
}

fn adder() -> Result<Rc<Module>, HdlError> {
    let module = ModuleBuilder::new("selftest_adder", "sums of each width, without a clock");
    for width in WIDTHS {
        let a = module.input(format!("a{width}_i"), width, "term");
        let b = module.input(format!("b{width}_i"), width, "term");
        module.output(format!("y{width}_o"), a + b, "sum, wrapping");
    }
    module.finish()
}

/// A counter on each of two clocks, and the core clock's last sample of the DRAM clock's counter.
fn clocks() -> Result<Rc<Module>, HdlError> {
    let counter = {
        let module = ModuleBuilder::new("selftest_counter", "cycles since reset");
        let count = module.reg("count_q", 40).reset(0);
        count.next(count.plus_one());
        module.output("count_o", count, "cycles since reset");
        module.finish()?
    };
    let sampler = {
        let module = ModuleBuilder::new("selftest_sampler", "what an input was at the last edge");
        let sample = module.reg("sample_q", 40);
        sample.next(module.input("value_i", 40, "value"));
        module.output("sample_o", sample, "the input at the last edge");
        module.finish()?
    };
    let module = ModuleBuilder::new("selftest_clocks", "a counter on each of two clocks");
    let dram = module.clock_domain("dram");
    let core_count = module.instance("core", &counter).output("count_o");
    let dram_count = module.instance("dram", &counter).in_domain(&dram).output("count_o");
    let sampled = module.instance("sampler", &sampler).crossing(
        "value_i",
        dram_count,
        Crossing::Stable,
        "edges never coincide",
    );
    module.output(
        "sampled_o",
        sampled.output("sample_o"),
        "DRAM cycles at the last edge of the core's clock",
    );
    module.output("core_o", core_count, "core cycles since reset");
    module.output("dram_o", dram_count, "DRAM cycles since reset");
    module.finish()
}

/// For each width a sum of all inputs while enabled, and a cycle counter.
fn accumulator() -> Result<Rc<Module>, HdlError> {
    let module = ModuleBuilder::new("selftest_accumulator", "running sums of each width");
    let enable = module.input("en_i", 1, "add the inputs");
    let enable_q = module.reg("en_q", 1).reset(0);
    enable_q.next(enable);
    for width in WIDTHS {
        let channel = channel(width)?;
        let x = module.input(format!("x{width}_i"), width, "term");
        let instance = module.instance(format!("channel{width}"), &channel);
        let sum = instance.input("en_i", enable_q).input("x_i", x).output("y_o");
        module.output(format!("y{width}_o"), sum, "sum, wrapping");
    }
    let cycle = module.reg("cycle_q", 40).reset(0);
    cycle.next(cycle.plus_one());
    module.output("cycle_o", cycle, "cycles since reset");
    module.finish()
}

fn channel(width: u32) -> Result<Rc<Module>, HdlError> {
    let module = ModuleBuilder::new(format!("selftest_channel_w{width}"), "one running sum");
    module.share_code();
    let enable = module.input("en_i", 1, "add, one cycle after the term");
    let x = module.input("x_i", width, "term");
    let x_q = module.reg("x_q", width).reset(0);
    x_q.next(x);
    let sum = module.reg("sum_q", width).reset(0);
    sum.next(mux(enable, sum + x_q, sum));
    module.output("y_o", sum, "sum");
    module.finish()
}

/// Counters in an array; each must stay below its limit.
fn limits() -> Result<Rc<Module>, HdlError> {
    let counter = {
        let m = ModuleBuilder::new("selftest_limit", "steps since reset");
        m.replicated();
        let (step, limit) = (m.input("step_i", 1, "count"), m.input("limit_i", 8, "what is not reached"));
        let count = m.reg("count_q", 8).reset(0).enable(step);
        count.next(count.plus_one());
        m.assert("below", count.lt(limit), "the count is below the limit");
        m.output("reached_o", count.eq(limit), "the limit is reached");
        m.finish()?
    };
    let m = ModuleBuilder::new("selftest_limits", "an array of counters with limits");
    let step = m.input("step_i", INSTANCES, "count, one bit for each");
    m.assume("some", step.any(), "some counter counts");
    let reached: Vec<Bits> = (0..INSTANCES)
        .map(|lane| {
            let counter = m.instance(format!("counter{lane}"), &counter).input("step_i", step.bit(lane));
            counter.input("limit_i", lit(u128::from(lane) + 2, 8)).output("reached_o")
        })
        .collect();
    m.output("reached_o", cat(reached.into_iter().rev()), "which limits are reached");
    m.finish()
}

/// Widths within, at and beyond the words of a native model.
const OPERANDS: [u32; 6] = [1, 5, 32, 33, 64, 70];
/// Instances of the array: more than a vector has, and not a multiple of it.
const INSTANCES: u32 = 20;
/// Not a power of two.
const DEPTH: u32 = 6;

/// Every operator at every width, registers with all kinds of enables and resets, memories with one and several enables.
fn element() -> Result<Rc<Module>, HdlError> {
    let m = ModuleBuilder::new("selftest_element", "every operator of the language");
    m.replicated();
    let choose = m.input("c_i", 1, "choice");
    let enable = m.input("e_i", 1, "enable of some registers");
    let amount = m.input("s_i", 7, "amount of shifts");
    let (write_addr, read_addr) =
        (m.input("waddr_i", 3, "word to write"), m.input("raddr_i", 3, "word to read"));
    let parts = m.input("we_i", 5, "parts to write");
    // A constant that differs between instances, and passes through.
    let number = m.input("number_i", 8, "number of the instance");
    m.output("number_o", number, "the same");
    m.assert("number_known", number.ne(zeros(8)) | !choose, "the first instance has no choice");
    for width in OPERANDS {
        let (a, b) = (
            m.input(format!("a{width}_i"), width, "operand"),
            m.input(format!("b{width}_i"), width, "operand"),
        );
        let sum = m.wire(format!("sum{width}"), a + b);
        let total = m.reg(format!("total{width}_q"), width).reset(1);
        total.next(total ^ sum);
        let held = m.reg(format!("held{width}_q"), width).enable(enable);
        held.next(total);
        let chosen = m.reg(format!("chosen{width}_q"), width).reset(0).enable(choose);
        chosen.next(held + a);
        let whole = m.memory(format!("whole{width}"), width, DEPTH);
        whole.write(enable, write_addr, a);
        let wide = m.memory(format!("parts{width}"), 5 * width, DEPTH);
        wide.write(parts, write_addr, repeat(5, b));
        let word = m.reg(format!("word{width}_q"), 5 * width).enable(enable);
        word.next(wide.read(read_addr));
        let bits: Vec<Bits> = (0..width).map(|i| a.bit(i)).collect();
        let parity = bits[1..].iter().fold(bits[0], |sum, bit| sum ^ bit);
        let results = [
            sum,
            a - b,
            a * b,
            a & b,
            a | b,
            a ^ b,
            !a,
            a.shl(amount),
            a.shr(amount),
            mux(choose, a, b),
            cat([a.eq(b), a.ne(b), a.lt(b), a.ge(b), a.all(), a.any(), parity]),
            one_hot_mux(parts, [&a, &b, &sum, &total.q(), &held.q()].map(Bits::clone)),
            repeat(3, b),
            cat([b.high(width.div_ceil(2)), a.low(width.div_ceil(2))]),
            (a * lit(1, width)).zext(width + 3) + b.sext(width + 3),
            any_of([a.gated(choose), b.gated(!choose)]),
            chosen.q(),
            whole.read(read_addr),
            word.q(),
        ];
        for (index, result) in results.into_iter().enumerate() {
            m.output(format!("y{width}_{index}_o"), result, "result");
        }
    }
    m.finish()
}

/// A single element, and an array whose instances share some inputs.
fn operators() -> Result<Rc<Module>, HdlError> {
    let element = element()?;
    let m = ModuleBuilder::new("selftest_operators", "every operator of the language, once and in an array");
    let inputs: Vec<(String, Bits)> = element
        .ports()
        .iter()
        .filter(|port| port.name.ends_with("_i") && !matches!(port.name.as_str(), "clk_i" | "number_i"))
        .map(|port| (port.name.clone(), m.input(&port.name, port.width, "for all")))
        .collect();
    let turned = |bits: &Bits, by: u32| match by % bits.width() {
        0 => *bits,
        by => cat([bits.low(bits.width() - by), bits.high(by)]),
    };
    let outputs: Vec<(String, u32)> = element
        .ports()
        .iter()
        .filter(|port| port.name.ends_with("_o"))
        .map(|port| (port.name.clone(), port.width))
        .collect();
    let instances: Vec<_> = (0..=INSTANCES)
        .map(|lane| {
            let instance =
                m.instance(format!("element{lane}"), &element).input("number_i", lit(lane.into(), 8));
            inputs.iter().fold(instance, |instance, (name, bits)| {
                let alike = matches!(name.as_str(), "e_i" | "s_i" | "waddr_i" | "a5_i" | "b64_i");
                instance.input(name, if alike { *bits } else { turned(bits, lane) })
            })
        })
        .collect();
    for (name, _) in &outputs {
        // Neighbours, and lanes of both vectors.
        let values: Vec<Bits> = instances.iter().map(|instance| instance.output(name)).collect();
        let stem = name.trim_end_matches("_o");
        m.output(format!("{stem}_first_o"), values[0], "of the first one");
        m.output(format!("{stem}_last_o"), values[values.len() - 1], "of the last one");
        let sum = values[1..].iter().fold(values[0], |sum, value| sum ^ value);
        m.output(format!("{stem}_sum_o"), sum, "of all, modulo 2");
    }
    m.finish()
}

/// Replicated instances; each depends on the one before it in the same cycle.
fn chain() -> Result<Rc<Module>, HdlError> {
    let link = {
        let m = ModuleBuilder::new("selftest_link", "adds what it has to what it gets");
        m.replicated();
        let (carry, own) = (m.input("carry_i", 8, "from the one before"), m.input("own_i", 8, "to hold"));
        let held = m.reg("held_q", 8).reset(0);
        held.next(own);
        m.output("carry_o", carry + held, "to the next one");
        m.finish()?
    };
    let m = ModuleBuilder::new("selftest_chain", "a chain");
    let (mut carry, own) = (m.input("carry_i", 8, "to the first"), m.input("own_i", 8, "for all"));
    for index in 0..6 {
        let instance = m.instance(format!("link{index}"), &link).input("carry_i", carry).input("own_i", own);
        carry = instance.output("carry_o");
    }
    m.output("carry_o", carry, "from the last");
    m.finish()
}
