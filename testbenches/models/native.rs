//! Does a native model behave as the Verilated one? Every output is compared, after every change of an input and every
//! edge of a clock.
//!
//! The emitter is trusted: nearly all other tests run on its output. So blocks with arrays run in lockstep with
//! Verilator here, from the same random contents, with resets and random values on all pins, legal or not; a core runs
//! random programs; and errors in the emitter's output have to be found. Mutants of the Verilog are always Verilated.

use common::check::Checks;
use common::rtl::{design_config, hbm_config};
use common::selftest::SelfTest;
use common::{Outcome, amount, some};
use ndp_config::DesignConfig;
use ndp_numerics::SplitMix64;
use ndp_sim::core::{CoreOptions, NdpCore};
use ndp_sim::ffi::{Form, Hardware, Model, OpenOptions, Rtl, rtl};
use ndp_testkit::RandomPrograms;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Cycles in lockstep with random values on all pins, from random contents. Returns the number of values that were
/// compared.
pub fn random_pins(rtl: &Rtl, cycles: u64, seed: u64) -> Result<u64, Box<dyn Error>> {
    random_pins_from(rtl, cycles, seed, Some(seed as u32))
}

fn random_pins_from(
    rtl: &Rtl,
    cycles: u64,
    seed: u64,
    random_contents: Option<u32>,
) -> Result<u64, Box<dyn Error>> {
    // Most random values on the pins break the blocks' assumptions, in both models alike.
    let options =
        OpenOptions { form: Form::Both, random_contents, count_failures: true, ..OpenOptions::default() };
    let mut model = Model::open(rtl, &options)?;
    let mut random = SplitMix64::new(seed);
    let of = |output| model.ports().iter().filter(move |port| port.output == output);
    let outputs = of(true).count() as u64;
    let inputs: Vec<(&str, u32)> = of(false).map(|port| (port.name, port.width)).collect();
    let mut pins = Vec::new();
    for (name, width) in inputs.into_iter().filter(|(name, _)| !name.ends_with("clk_i")) {
        pins.push((model.input(name)?, width, name.ends_with("rst_ni")));
    }
    let (mut steps, mut odds) = (0, 1);
    for cycle in 0..cycles {
        if cycle % 64 == 0 {
            // From pins that rarely change to pins that always do.
            odds = 1 + random.next_u64() % 4;
        }
        for (pin, width, reset) in &pins {
            if *reset {
                model.set(*pin, u64::from(!random.next_u64().is_multiple_of(97)));
            } else if random.next_u64() % 4 < odds {
                let mut words: Vec<u32> = (0..width.div_ceil(32)).map(|_| random.next_u64() as u32).collect();
                if random.next_u64().is_multiple_of(4) {
                    words.fill(if random.next_u64().is_multiple_of(2) { 0 } else { u32::MAX });
                }
                if width % 32 != 0 {
                    let last = words.len() - 1;
                    words[last] &= (1 << (width % 32)) - 1;
                }
                model.set_words(*pin, &words);
            }
        }
        model.eval();
        model.step();
        steps += 2;
    }
    Ok(steps * outputs)
}

/// A configuration with arrays longer than a vector.
const LONG: &str = "name = \"long\"\n[gemv]\nmultipliers = 64\nranks = 2\nbuffer_kib = 64\nmax_batch = 4\n";

fn long() -> Result<ndp_config::DesignConfig, Box<dyn Error>> {
    Ok(ndp_config::DesignConfig::from_toml(LONG)?)
}

#[test]
fn every_operator_does_once_and_in_an_array() -> Outcome {
    let operators = rtl(&SelfTest, "operators")?.optimised(Some(1));
    let compared = random_pins_from(&operators, amount(20_000), 1, None)?;
    assert!(compared > amount(10_000_000), "{compared}");
    Ok(())
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn a_rank_group_does_with_random_pins() -> Outcome {
    let compared = random_pins(&rtl(&long()?, "rank_group")?, amount(65_000), 2)?;
    assert!(compared > amount(5_000_000), "{compared}");
    Ok(())
}

#[test]
fn a_rounding_column_and_a_receiver_do() -> Outcome {
    random_pins(&rtl(&long()?, "round_column")?, amount(60_000), 3)?;
    random_pins(&rtl(&long()?, "link_receiver")?, amount(60_000), 4)?;
    Ok(())
}

#[test]
fn a_pim_channel_does_with_random_pins() -> Outcome {
    let compared = random_pins(&rtl(&hbm_config("librapim-tiny")?, "pim_channel")?, amount(100_000), 5)?;
    assert!(compared > amount(1_000_000), "{compared}");
    Ok(())
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn every_block_does_with_random_pins() -> Outcome {
    let (config, memory) = (design_config("tiny")?, hbm_config("librapim-tiny")?);
    // No preset's devices have room for a DFI port.
    let dfi = design_config("dfi")?;
    let of = |block: &str| if block.starts_with("dfi_") { &dfi } else { &config };
    let cores = ndp_hdl::designs::BLOCKS.iter().map(|block| rtl(of(block), block));
    for block in cores.chain(ndp_hdl::designs::HBM_BLOCKS.iter().map(|block| rtl(&memory, block))) {
        let block = block?;
        let compared = random_pins(&block, 20_000, 6)?;
        eprintln!("{}: {compared} values", block.name);
    }
    Ok(())
}

#[test]
fn a_core_does_while_it_executes_programs() -> Outcome {
    for name in some(&["examples/fpga/ecp5.toml", "tiny"]) {
        let config = DesignConfig::load(name)?;
        let options = CoreOptions { form: Form::Both, random_contents: Some(7), ..CoreOptions::default() };
        let mut core = NdpCore::open(&config, &options)?;
        for program in RandomPrograms::new(&config, 7).take(amount(24)) {
            assert!(core.check_program(&program, |_| {})?.agrees());
        }
        core.check_protocol()?;
    }
    Ok(())
}

/// Errors in the emitter's output: the block, the replaced text, and the new one.
const ERRORS: [(&str, &str, &str); 16] = [
    // Lanes that are not enabled are written.
    ("operators", "(old & ~w[k]) | (d[k] & w[k])", "d[k]"),
    ("rank_group", "select(n", "select(~n"),
    // Changes of pins, contents and nodes do not wake the tasks that read them.
    ("link_receiver", "if (changed(s.v1_", "if (false && changed(s.v1_"),
    ("link_receiver", "s.later1[0] |= ", "s.later1[0] &= "),
    ("rank_group", "s.live1[1] |= ", "s.live1[1] &= "),
    // Late writes are lost.
    ("operators", "s.late1[0] |= ", "s.late1[0] &= "),
    // One vector of an array is left out.
    ("operators", "l += 16", "l += 32"),
    ("operators", " + n", " | n"),
    // Operands at the wrong distance, and operands that are not made.
    ("rank_group", ", 2>(s.g", ", 1>(s.g"),
    ("operators", " >> 0x", " << 0x"),
    ("operators", "less(", "equal("),
    ("operators", "if (!s.p_rst_ni)", "if (false)"),
    ("operators", " ? n", " == 0 ? n"),
    ("operators", "mul_high(n", "~(n"),
    // One bit of the initial contents is inverted; then all contents differ.
    ("operators", "(options.seed));", "(options.seed)); s.r0[0] ^= 1;"),
    ("rank_group", "(options.seed)", "(options.seed + 1)"),
];

/// Whether the block differs from its Verilated model when `change` is made to its C++.
fn is_found(mut wrong: Rtl, change: impl Fn(&str) -> String) -> Result<bool, Box<dyn Error>> {
    let source = wrong.native.take().ok_or("no native model")?;
    let changed = change(&source);
    if changed == source {
        return Err(format!("nothing in the source of {} is changed", wrong.name).into());
    }
    wrong.native = Some(changed);
    wrong.opt_level = 0;
    let found = catch_unwind(AssertUnwindSafe(|| random_pins(&wrong, 5000, 8).map_err(|e| e.to_string())));
    let Err(message) = found else { return Ok(false) };
    let message = message.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(message.contains("in the native model"), "{message}");
    Ok(true)
}

#[test]
#[ignore = "a minute; run by `make exhaustive`"]
fn errors_of_the_emitter_are_caught() -> Outcome {
    for (block, from, to) in ERRORS {
        let wrong = if block == "operators" { rtl(&SelfTest, block)? } else { rtl(&long()?, block)? };
        let found = is_found(wrong, |source| source.replace(from, to))
            .map_err(|error| format!("`{to}` for `{from}` in {block}: {error}"))?;
        assert!(found, "`{to}` for `{from}` in {block} was not found");
    }
    Ok(())
}

/// The source without anything that wakes that task at an edge of the core's clock, except resets.
fn deaf(source: &str, task: usize) -> String {
    ["live1", "later1"].iter().fold(source.to_owned(), |source, words| {
        let mark = format!("s.{words}[{}] |= 0x", task / 64);
        let mut parts = source.split(&mark);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |before, part| {
            let (bits, after) = part.split_once('u').unwrap_or_default();
            let bits = u64::from_str_radix(bits, 16).unwrap_or_default() & !(1 << (task % 64));
            format!("{before}{mark}{bits:x}u{after}")
        })
    })
}

#[test]
#[ignore = "a minute; run by `make exhaustive`"]
fn a_group_whose_changes_are_not_noticed_is_found() -> Outcome {
    let operators = rtl(&SelfTest, "operators")?;
    let source = operators.native.as_ref().ok_or("no native model")?;
    let tasks = (0..).take_while(|task| source.contains(&format!("void edge_clk_i_{task}(")));
    let tasks: Vec<usize> = tasks.filter(|task| deaf(source, *task) != *source).collect();
    assert!(tasks.len() > 10, "{tasks:?}");
    for task in tasks {
        let found = is_found(operators.clone(), |source| deaf(source, task))?;
        assert!(found, "task {task} is never woken, and nobody notices");
    }
    Ok(())
}

#[test]
fn two_instances_of_a_module_are_no_array_if_one_follows_from_the_other() -> Outcome {
    // A ring oscillator's shape without its loop: each instance passes on the output of the one before it.
    let netlist = ndp_hdl_language::Netlist::of(SelfTest.elaborate("chain")?.top())?;
    assert!(
        netlist.graph.lanes.is_empty() || netlist.registers.iter().all(|register| register.group.is_none())
    );
    random_pins(&rtl(&SelfTest, "chain")?, 5000, 9)?;
    Ok(())
}
