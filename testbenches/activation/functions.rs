//! SiLU, GELU, quotients and exponentials of the core's activation unit: every number, beside a product, on cores with other lanes and ranks.
//!
//! Random programs (`ndp_core.rs`, `cycle_model.rs`, `random_configs.rs`) also have them, against the functional model.
//! Here the expected bits come from `ndp_oracle`, and the expected cycles from the document's formula.

use crate::arithmetic::function_unit::{GELU, SILU};
use crate::cores::ndp_core::core_mutants;
use common::check::Checks;
use common::rtl::{Mutant, Mutation, design, design_config};
use common::{Outcome, some};
use ndp_config::{BEAT_ELEMS, DesignConfig};
use ndp_isa::layout::elements_of;
use ndp_isa::{Activation, Data, Instruction, Opcode, Program, block_words};
use ndp_oracle::Random;
use ndp_oracle::exponential::exp_of_all;
use ndp_oracle::ieee::Operation;
use ndp_sim::core::{CoreOptions, NdpCore};
use std::error::Error;
use std::sync::LazyLock;

static EXP: LazyLock<Vec<u16>> = LazyLock::new(exp_of_all);

/// Bursts of the DIMM with the operands and the results.
const FIRST: u32 = 0x100;
const SECOND: u32 = 0x800;
const RESULTS: [u32; 4] = [0x1000, 0x2000, 0x3000, 0x5000];
/// First burst of the product's matrix in each rank, and bursts of the DIMM with its factors and its sums.
const MATRIX: u32 = 0x8000;
const FACTORS: u32 = 0x4000;
const SUMS: u32 = 0x4800;
const ROWS: u32 = 32;

/// Two vector blocks, as they lie in DRAM: `operands[place]`, in the order of the beats, including what lies past the
/// vectors' end.
struct Case {
    cols: u32,
    batch: u32,
    operands: Vec<(u16, u16)>,
}

impl Case {
    /// As many vectors as fit the buffer three times, beside a product's sums and factors; `next` gives the operands.
    fn draw(config: &DesignConfig, random: &mut Random, mut next: impl FnMut() -> (u16, u16)) -> Self {
        let gemv = config.gemv();
        let room = (gemv.slice_words() - gemv.lanes() - 1) / 3;
        let batch = 1 + random.below(gemv.max_batch().min(room) as usize) as u32;
        let wave = gemv.ranks() * gemv.stripe_elems();
        let most = (room / batch * wave).min(gemv.max_cols()).max(1);
        let cols = 1 + random.below(most as usize) as u32;
        let cols = if block_words(config, cols, batch) > room { cols.min(wave / 2) } else { cols };
        let places = cols.div_ceil(BEAT_ELEMS) * batch * BEAT_ELEMS;
        Self { cols, batch, operands: (0..places).map(|_| next()).collect() }
    }

    /// Loads both blocks, starts a product, and lets the unit compute beside it: into a third block, in place, and over
    /// the second one.
    fn program(&self, config: &DesignConfig) -> Program {
        let (cols, batch) = (self.cols, self.batch);
        let mut program = Program::default();
        let (firsts, seconds): (Vec<u16>, Vec<u16>) = self.operands.iter().copied().unzip();
        program.data.push(Data::F16 { address: FIRST, values: firsts });
        program.data.push(Data::F16 { address: SECOND, values: seconds });
        let words = block_words(config, cols, batch);
        let (x, z, y, factors, sums) = (0, words, 2 * words, 3 * words, 3 * words + 1);
        let text = format!(
            ".random {FACTORS} bursts=1 seed=3 kind=normal
             .matrix {MATRIX} rows={ROWS} cols={BEAT_ELEMS} seed=4 kind=normal
             load dst={factors}, cols={ROWS}, address={FACTORS}
             zero dst={sums}, count={}
             load dst={x}, cols={cols}, batch={batch}, address={FIRST}
             load dst={z}, cols={cols}, batch={batch}, address={SECOND}
             axpy src={factors}, dst={sums}, cols={BEAT_ELEMS}, count={ROWS}, address={MATRIX}
             silu src={x}, dst={y}, cols={cols}, batch={batch}
             div src={x}, other={z}, dst={z}, cols={cols}, batch={batch}
             store src={y}, cols={cols}, batch={batch}, address={}
             exp src={x}, dst={y}, cols={cols}, batch={batch}
             gelu src={x}, dst={x}, cols={cols}, batch={batch}
             store src={x}, cols={cols}, batch={batch}, address={}
             store src={z}, cols={cols}, batch={batch}, address={}
             store src={y}, cols={cols}, batch={batch}, address={}
             round src={sums}, dst={sums}, cols={BEAT_ELEMS}
             store src={sums}, cols={BEAT_ELEMS}, address={SUMS}
             .dump {SUMS} bursts=1
             signal 1",
            config.gemv().lanes(),
            RESULTS[0],
            RESULTS[1],
            RESULTS[2],
            RESULTS[3],
        );
        let rest = ndp_isa::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        program.data.extend(rest.data);
        program.code = rest.code;
        program.dumps = rest.dumps;
        program
    }

    /// The vector of a place, and whether its element is within the vector.
    fn is_in(&self, place: usize) -> bool {
        let beat = place as u32 / (BEAT_ELEMS * self.batch);
        beat * BEAT_ELEMS + place as u32 % BEAT_ELEMS < self.cols
    }

    /// Runs it and returns the first wrong result.
    fn wrong(&self, core: &mut NdpCore) -> Result<Option<String>, Box<dyn Error>> {
        let program = self.program(&core.config().clone());
        let check = core.check_program(&program, |_| {})?;
        if let Some(model) = check.run.model_cycles.filter(|model| *model != check.run.cycles) {
            return Ok(Some(format!("{} cycles, {model} by the model", check.run.cycles)));
        }
        let expected: [fn(u16, u16) -> u16; 4] = [
            |a, _| SILU[usize::from(a)],
            |a, _| GELU[usize::from(a)],
            |a, b| Operation::Div.result_by_f64(a, b),
            |a, _| EXP[usize::from(a)],
        ];
        for (first, expected) in RESULTS.into_iter().zip(expected) {
            for (place, &(a, b)) in self.operands.iter().enumerate() {
                let beat = core.peek(u64::from(first) + place as u64 / u64::from(BEAT_ELEMS));
                let actual = elements_of(&beat)[place % BEAT_ELEMS as usize];
                let expected = if self.is_in(place) { expected(a, b) } else { 0 };
                if actual != expected {
                    return Ok(Some(format!(
                        "at {first:#x}, {place}: {a:#06x}, {b:#06x} gives {actual:#06x}, not {expected:#06x}"
                    )));
                }
            }
        }
        Ok((!check.agrees()).then(|| format!("{:x?} {:?}", check.mismatches.first(), check.differences)))
    }
}

/// Every number once, in order, with another one that is also every number.
fn every_number() -> impl FnMut() -> (u16, u16) {
    let mut number = 0u16;
    move || {
        number = number.wrapping_add(1);
        (number, number.wrapping_mul(0x9E37))
    }
}

#[test]
fn every_number_in_every_kind_of_block_is_right() -> Outcome {
    numbers_in_blocks(&["tiny"])
}

#[test]
#[ignore = "two minutes; run by `make exhaustive`"]
fn every_number_is_right_in_other_units_too() -> Outcome {
    numbers_in_blocks(&["four-ranks", "sixteen-lanes", "shared-lanes", "single-lanes"])
}

fn numbers_in_blocks(names: &[&str]) -> Outcome {
    for name in names {
        let config = design_config(name)?;
        let options =
            CoreOptions { seed: 21, random_contents: Some(21), predict: true, ..CoreOptions::default() };
        let mut core = NdpCore::open(&config, &options)?;
        let (mut random, mut next, mut done) = (Random::new(21), every_number(), 0);
        while done < 1 << 16 {
            let case = Case::draw(&config, &mut random, &mut next);
            done += case.operands.len();
            let wrong = case.wrong(&mut core)?;
            assert_eq!(wrong, None, "{name}: {} x {}", case.cols, case.batch);
        }
        core.check_protocol()?;
    }
    Ok(())
}

/// A reset while a block goes round must leave nothing in the next one.
#[test]
fn a_reset_amid_a_block_leaves_nothing_behind() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let mut core = NdpCore::open(&config, &CoreOptions::default())?;
    let (mut random, mut next, mut amid) = (Random::new(22), every_number(), 0);
    for round in 0..60 {
        let case = Case::draw(&config, &mut random, &mut next);
        core.place(&case.program(&config))?;
        let queue = 1 << config.dimm_burst_bits();
        let [function, other] = [Activation::Silu, Activation::Div { other: 9 }].map(|operation| {
            Instruction::Activate { operation, src: 0, dst: 9, cols: 900, batch: 1, heads: 1 }
        });
        for words in [[function; 4], [other; 4]] {
            let words = words.map(|word| word.encode());
            let half = |word: u128| [word as u64, (word >> 64) as u64];
            let burst: Vec<u64> = words.into_iter().flat_map(half).collect();
            core.submit(queue, Some(burst.try_into().map_err(|_| "four instructions are a burst")?));
        }
        for _ in 0..50 + random.below(3000) {
            core.step()?;
        }
        amid += usize::from(core.status()?.busy);
        core.reset()?;
        assert_eq!(case.wrong(&mut core)?, None, "round {round}");
    }
    assert!(amid > 30, "{amid}");
    Ok(())
}

/// An instruction by itself takes the cycles of docs/activation-unit.md.
#[test]
fn a_block_takes_the_cycles_of_the_document() -> Outcome {
    some(&["tiny", "variants", "shared-lanes", "parallel-multiplier"])
        .iter()
        .try_for_each(|name| takes_the_cycles_of_the_document(name))
}

fn takes_the_cycles_of_the_document(name: &str) -> Outcome {
    let config = design_config(name)?;
    let mut core = NdpCore::open(&config, &CoreOptions { record: true, ..CoreOptions::default() })?;
    let gemv = config.gemv();
    let around = gemv.lanes() * gemv.activation_lanes_per_rank() + 10;
    let shapes = [(1, 1), (128, 1), (1000, 1), (200, 4), (129, 3), (1024, 2)];
    let text = shapes.map(|(cols, batch)| {
        let shape = format!("dst=32, cols={cols}, batch={batch}");
        format!(
            "silu src=0, {shape}\ngelu src=0, {shape}\ndiv src=0, other=16, {shape}\nexp src=0, {shape}\n"
        )
    });
    core.run_words(&ndp_isa::parse(&text.concat())?.words(), |_| {})?;
    let recording = core.take_recording().ok_or("nothing was recorded")?;
    let mut took = recording.instructions.iter().filter_map(|record| {
        let opcode = Opcode::from_code(record.word as u8).filter(|opcode| opcode.is_activation())?;
        Some((opcode, record.ended? - record.started?))
    });
    for (cols, batch) in shapes {
        for opcode in [Opcode::Silu, Opcode::Gelu, Opcode::Div, Opcode::Exp] {
            let words = block_words(&config, cols, batch) * gemv.slices_per_lane();
            let word = around + gemv.lanes() + u32::from(opcode == Opcode::Div);
            // Exponentials in the lanes take six steps more than elements that have gone round.
            let expected = match opcode == Opcode::Exp && !gemv.shares_exponential() {
                true => gemv.lanes() * words + 16,
                false => word * words + 10,
            };
            assert_eq!(took.next(), Some((opcode, u64::from(expected))), "{words} words");
        }
    }
    assert_eq!(took.next(), None);
    Ok(())
}

/// The unit moves no data of DRAM for longer than the watchdog's limit.
#[test]
fn a_block_that_takes_long_is_no_hang() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let mut core = NdpCore::open(&config, &CoreOptions { watchdog_cycles: 500, ..CoreOptions::default() })?;
    core.run_words(&ndp_isa::parse("silu src=0, dst=0, cols=1024, batch=2")?.words(), |_| {})?;
    Ok(())
}

pub const MUTANTS: [Mutant; 10] = [
    // Elements stop a place before their own.
    ("tiny", Mutation::new("mutant-around", "7'h4a", |s| s.lit(0x49))),
    // They leave halfway.
    (
        "tiny",
        Mutation::new("mutant-early", "~goes_round", |s| {
            s.with(0, s.signal("around_left_q").slice(0, 2).all())
        }),
    ),
    // A lane is left out.
    ("tiny", Mutation::new("mutant-chain", "chain_first3", |s| s.signal("chain_first4"))),
    // The same for the second operands.
    ("tiny", Mutation::new("mutant-chain-other", "chain_second3", |s| s.signal("chain_second4"))),
    // Negative results become +0.
    ("tiny", Mutation::new("mutant-least", "16'hfe00", |s| s.lit(0))),
    ("tiny", Mutation::new("mutant-gelu", "drive activation_gelu_o", |s| s.signal("is_silu_q"))),
    // After going round, an element is replaced by the second operand in the lane.
    ("tiny", Mutation::new("mutant-two", "sequencer_two", |s| s.signal("two_q"))),
    // A lane takes the previous slice's word.
    ("shared-lanes", Mutation::new("mutant-take", "next take_slice_q", |s| s.signal("fetched_slice_q"))),
    // The vectors end where they would in the next slice. An end as in an earlier slice goes unseen: a store writes +0
    // there.
    (
        "shared-lanes",
        Mutation::new("mutant-beyond", "lane_beyond0_1 & lane_slice_i[1]", |s| {
            s.with(1, s.signal("lane_slice_i").bit(0))
        }),
    ),
    // A slice is read in another one's turn.
    ("shared-lanes", Mutation::new("mutant-read", "lane_read_slice_i[2]", |s| s.part(0).bit(1))),
];

#[test]
fn mutants_are_caught() -> Outcome {
    for (name, mutation) in some(&MUTANTS) {
        let config = design_config(name)?;
        let rtl = design(mutation.name, "ndp_core", &core_mutants())?;
        let mut core = NdpCore::of_rtl(&rtl, &config, &CoreOptions::default())?;
        let (mut random, mut next) = (Random::new(23), every_number());
        let mut found = None;
        for _ in 0..20 {
            let case = Case::draw(&config, &mut random, &mut next);
            // A mutant may also hang.
            found = case.wrong(&mut core).unwrap_or_else(|e| Some(e.to_string()));
            if found.is_some() {
                break;
            }
        }
        println!("{}: {found:?}", mutation.name);
        assert!(found.is_some(), "{}", mutation.name);
    }
    Ok(())
}
