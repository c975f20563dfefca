//! Elements that are positive or above a threshold, the list of them, and products that take the rows of that list.
//!
//! Random programs (`ndp_core.rs`, `cycle_model.rs`, `random_configs.rs`) also have selections, against the functional
//! model. Here the expected bits are computed again, from the document: a selection is a filter. The rows that a
//! product takes show the contents of a list.

use crate::cores::ndp_core::core_mutants;
use common::check::Checks;
use common::rtl::{Mutant, Mutation, design};
use common::{Outcome, some};
use ndp_config::{BEAT_ELEMS, DesignConfig, WeightFormat};
use ndp_hdl_language::{cat, lit, mux};
use ndp_isa::layout::elements_of;
use ndp_isa::{
    Code, Condition, Data, Instruction, Numbers, Product, Program, accumulator_words, block_words,
};
use ndp_numerics::SplitMix64;
use ndp_sim::core::{CoreOptions, NdpCore};
use std::error::Error;

const NAMES: [&str; 3] =
    ["tiny", "testbenches/configs/four-ranks.toml", "testbenches/configs/sixteen-lanes.toml"];

/// Bursts of the DIMM with the source, with the stored values, with the rows' products.
const SOURCE: u32 = 0x100;
const VALUES: u32 = 0x800;
const PRODUCTS: u32 = 0x1800;
const LIST: u32 = 0x2000;
/// First burst of the matrix in each rank. Element 0 of a row is its number, as far as FP16 can represent it; so a
/// `dot` with (1, 0, ...) shows which row it has taken.
const MATRIX: u32 = 0x8000;
/// Rows whose numbers are FP16 values.
const ROWS: u32 = 2048;

/// FP16 bits of a whole number up to 2048.
fn whole(value: u32) -> u16 {
    if value == 0 {
        return 0;
    }
    let exponent = value.ilog2();
    ((15 + exponent) << 10 | ((value << 10 >> exponent) & 0x3FF)) as u16
}

/// A number above the threshold; with `magnitude` without its sign.
fn meets(bits: u16, Condition { threshold, magnitude }: Condition) -> bool {
    let signless = if magnitude { bits & 0x7FFF } else { bits };
    signless > threshold && signless <= 0x7C00
}

/// The bits of a value that was loaded and stored.
fn stored(bits: u16) -> u16 {
    if bits & 0x7FFF > 0x7C00 { 0x7E00 } else { bits }
}

/// A selection whose operands are known here: `values[vector][element]`.
#[derive(Clone, Debug)]
struct Case {
    values: Vec<Vec<u16>>,
    list: u32,
    numbers: Numbers,
    /// A list's entries for the elements, if there is one.
    entries: Vec<u32>,
    condition: Condition,
}

impl Case {
    fn cols(&self) -> u32 {
        self.values[0].len() as u32
    }

    fn batch(&self) -> u32 {
        self.values.len() as u32
    }

    fn selected(&self) -> Vec<(usize, u32)> {
        let meets = |k: &usize| self.values.iter().any(|vector| meets(vector[*k], self.condition));
        let row = |k: usize| match self.numbers {
            Numbers::From(row) => (row + k as u32) % (1 << 24),
            Numbers::Listed(_) => self.entries[k] % (1 << 24),
        };
        (0..self.values[0].len()).filter(meets).map(|k| (k, row(k))).collect()
    }

    /// Loads, selects, stores the values, and multiplies the selected rows with (1, 0, ...).
    fn program(&self, config: &DesignConfig) -> Program {
        let (cols, batch) = (self.cols(), self.batch());
        let mut program = Program::default();
        let mut beats = Vec::new();
        for first in (0..cols).step_by(BEAT_ELEMS as usize) {
            for vector in &self.values {
                let beat = (first..first + BEAT_ELEMS).map(|k| vector.get(k as usize).copied());
                // Elements past the vectors' end must not be selected.
                beats.extend(beat.map(|value| value.unwrap_or(0x3C00)));
            }
        }
        program.data.push(Data::F16 { address: SOURCE, values: beats });
        program.data.push(Data::F16 { address: 0, values: vec![0x3C00] });
        let words = block_words(config, cols, batch);
        let (src, dst, one, rows) = (0, words, 2 * words, 2 * words + 1);
        program.push(Instruction::Load { dst: src, cols, batch, address: SOURCE });
        program.push(Instruction::Load { dst: one, cols: 2, batch: 1, address: 0 });
        if let Numbers::Listed(from) = self.numbers {
            let values = (0..from % 16).chain(self.entries.iter().copied()).collect();
            program.data.push(Data::U32 { address: LIST, values });
            let count = from % 16 + cols;
            program.push(Instruction::List { list: from & !15, count, address: LIST });
        }
        let (list, numbers, condition) = (self.list, self.numbers, self.condition);
        program.push(Instruction::Select { src, dst, cols, batch, list, numbers, condition });
        let (count, list, address) = (cols, Some(list), MATRIX);
        let product = Product {
            src: one,
            dst: rows,
            cols: 2,
            batch: 1,
            count,
            address,
            list,
            heads: 1,
            selected: true,
            weights: WeightFormat::Fp16,
            shared: false,
        };
        program.push(Instruction::Zero { dst: rows, count: block_words(config, cols, 1) });
        program.push(Instruction::Dot(product));
        program.push(Instruction::Store { src: dst, cols, batch, address: VALUES });
        program.push(Instruction::Store { src: rows, cols, batch: 1, address: PRODUCTS });
        program
    }

    /// Runs it; returns the number of wrong elements.
    fn wrong(&self, core: &mut NdpCore) -> Result<usize, Box<dyn Error>> {
        let program = self.program(&core.config().clone());
        core.place(&program)?;
        let run = core.run_words(&program.words(), |_| {})?;
        let selected = self.selected();
        let mut wrong =
            usize::from(run.status.selection as usize != selected.len() || run.status.malformed > 0);
        let element = |core: &NdpCore, first: u32, batch: u32, vector: u32, k: usize| {
            let (beat, at) = (k as u32 / BEAT_ELEMS, k % BEAT_ELEMS as usize);
            elements_of(&core.peek(u64::from(first + beat * batch + vector)))[at]
        };
        let mut look = |what: &str, k: usize, expected: u16, actual: u16| {
            if expected != actual {
                println!("{what} of element {k}: expected {expected:#06x}, actual {actual:#06x}");
                wrong += 1;
            }
        };
        // Beyond the vectors' end each burst is +0, whatever else is unspecified.
        for i in self.cols() as usize..self.cols().next_multiple_of(BEAT_ELEMS) as usize {
            for vector in 0..self.batch() {
                look("beyond the end of a value", i, 0, element(core, VALUES, self.batch(), vector, i));
            }
            look("beyond the end of a row", i, 0, element(core, PRODUCTS, 1, 0, i));
        }
        // Past the computed rows the zeros stay.
        for i in selected.len()..self.cols() as usize {
            look("no row", i, 0, element(core, PRODUCTS, 1, 0, i));
        }
        for (i, (k, row)) in selected.into_iter().enumerate() {
            for (vector, values) in (0..).zip(&self.values) {
                let kept = if meets(values[k], self.condition) { stored(values[k]) } else { 0 };
                look("value", k, kept, element(core, VALUES, self.batch(), vector, i));
            }
            look("row", k, whole(row), element(core, PRODUCTS, 1, 0, i));
        }
        Ok(wrong)
    }
}

/// The matrix of row numbers: two columns, a stripe for each row.
fn place_numbers(core: &mut NdpCore) -> Outcome {
    let config = core.config().clone();
    let layout = ndp_isa::layout::MatrixLayout::unbounded(&config, MATRIX, 2, WeightFormat::Fp16);
    for row in 0..ROWS {
        for rank in 0..config.gemv().ranks() {
            if layout.cut().stripes_of(row, rank).next().is_some() {
                let burst = layout.burst_at(layout.offset(row, rank));
                let burst = ndp_isa::layout::DimmAddress { rank, burst }.to_burst(&config);
                let mut data = [0; 8];
                data[0] = u64::from(whole(row));
                core.poke(burst, &data);
            }
        }
    }
    Ok(())
}

fn open(config: &DesignConfig, seed: u64) -> Result<NdpCore, Box<dyn Error>> {
    let options =
        CoreOptions { seed, random_contents: Some(seed as u32), predict: true, ..CoreOptions::default() };
    let mut core = NdpCore::open(config, &options)?;
    place_numbers(&mut core)?;
    Ok(core)
}

fn below(random: &mut SplitMix64, bound: u32) -> u32 {
    (random.next_u64() % u64::from(bound)) as u32
}

/// Values with a share of positive ones; zeros, infinities and NaNs of both signs among them.
fn values(cols: u32, batch: u32, share: u32, random: &mut SplitMix64) -> Vec<Vec<u16>> {
    let positive = [0x0001, 0x03FF, 0x0400, 0x3C00, 0x7BFF, 0x7C00];
    let others = [0x0000, 0x8000, 0x8001, 0xBC00, 0xFBFF, 0xFC00, 0x7C01, 0x7E00, 0x7FFF, 0xFC01, 0xFFFF];
    let mut value = || match below(random, 100) < share {
        true => positive[below(random, 6) as usize],
        false => others[below(random, 11) as usize],
    };
    (0..batch).map(|_| (0..cols).map(|_| value()).collect()).collect()
}

/// Counted or listed; a list in place, downwards or elsewhere.
fn case(config: &DesignConfig, values: Vec<Vec<u16>>, form: u32, random: &mut SplitMix64) -> Case {
    let cols = values[0].len() as u32;
    let entries: Vec<u32> = (0..cols).map(|_| below(random, ROWS) | below(random, 256) << 24).collect();
    let room = config.core().list_entries() - cols;
    let (list, numbers) = match form {
        0 => (16 * below(random, room / 16 + 1), Numbers::From(below(random, ROWS - cols))),
        1 => {
            let list = 16 * below(random, room / 16 + 1);
            (list, Numbers::Listed(list))
        }
        _ => {
            let from = below(random, room - room % 16 + 1);
            (16 * below(random, from / 16 + 1), Numbers::Listed(from))
        }
    };
    let thresholds = [0, 0x0001, 0x03FF, 0x3BFF, 0x3C00, 0x7BFF, 0x7C00, 0x7C01, 0x7FFF];
    let condition = match below(random, 3) {
        0 => Condition::POSITIVE,
        sign => Condition { threshold: thresholds[below(random, 9) as usize], magnitude: sign == 1 },
    };
    Case { values, list, numbers, entries, condition }
}

#[test]
fn every_share_batch_and_length_gives_values_and_rows() -> Outcome {
    let mut random = SplitMix64::new(11);
    for name in some(&NAMES) {
        let config = DesignConfig::load(name)?;
        let mut core = open(&config, 3)?;
        let gemv = config.gemv();
        let wave = gemv.ranks() * gemv.stripe_elems();
        let mut done = 0;
        for cols in
            [1, 2, 31, 32, 33, 64, 65, gemv.stripe_elems() + 1, wave - 1, wave, wave + 33, 3 * wave + 1]
        {
            for (index, share) in [0, 1, 5, 20, 50, 99, 100].into_iter().enumerate() {
                let batch = [1, gemv.max_batch(), 1 + below(&mut random, gemv.max_batch())][index % 3];
                let words = 2 * block_words(&config, cols, batch) + 1 + block_words(&config, cols, 1);
                if cols > config.core().list_entries().min(ROWS - 1) || words > gemv.slice_words() {
                    continue;
                }
                let values = values(cols, batch, share, &mut random);
                let form = below(&mut random, 3);
                let case = case(&config, values, form, &mut random);
                let wrong = case.wrong(&mut core)?;
                assert_eq!(
                    wrong, 0,
                    "{name}: {cols} x {batch}, {share} %, {:?}, {}",
                    case.numbers, case.list
                );
                done += 1;
            }
        }
        core.check_protocol()?;
        assert!(done > 50, "{name}: {done}");
    }
    Ok(())
}

#[test]
fn one_element_at_every_place_of_a_beat_is_found() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let mut core = open(&config, 4)?;
    let mut random = SplitMix64::new(12);
    for k in 0..70 {
        let mut values = values(70, 3, 0, &mut random);
        values[k % 3][k] = [0x0001, 0x7C00, 0x3C00][k / 3 % 3];
        let condition = Condition::POSITIVE;
        let case = Case { condition, ..case(&config, values, k as u32 % 3, &mut random) };
        assert_eq!(case.selected().len(), 1);
        assert_eq!(case.wrong(&mut core)?, 0, "element {k}");
    }
    Ok(())
}

/// Numbers count modulo 2^24, and a row of that number is where the layout has it.
#[test]
fn numbers_go_round() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let mut core = open(&config, 5)?;
    let mut random = SplitMix64::new(13);
    let values = values(60, 2, 60, &mut random);
    let (numbers, condition) = (Numbers::From((1 << 24) - 20), Condition::POSITIVE);
    let case = Case { values, list: 0, numbers, entries: Vec::new(), condition };
    let program = case.program(&config);
    // Of the rows at the end of the numbers only zeros are known, so only those that wrapped around are checked.
    core.place(&program)?;
    core.run_words(&program.words(), |_| {})?;
    for (i, (k, row)) in case.selected().into_iter().enumerate() {
        let bits = elements_of(&core.peek(u64::from(PRODUCTS) + i as u64 / 32))[i % 32];
        assert!(row > 100 || bits == whole(row), "element {k}: row {row}, {bits:#06x}");
        assert_eq!(row < 100, k >= 20);
    }
    Ok(())
}

#[test]
fn a_product_before_any_selection_takes_no_row() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let mut core = open(&config, 6)?;
    let text = ".f16 0 1, 2, 3
        load dst=0, cols=3, address=0
        zero dst=8, count=8
        dot src=0, dst=20, cols=3, count=5, address=0x2000, list=0, selected=1
        axpy src=0, dst=8, cols=3, count=3, address=0x2000, list=0, selected=1
        round src=8, dst=30, cols=3
        store src=30, cols=3, address=0x900
        signal 7";
    let check = core.check_program(&ndp_isa::parse(text)?, |_| {})?;
    assert!(check.agrees() && check.run.status.started == check.run.status.taken, "{check:?}");
    assert_eq!((elements_of(&core.peek(0x900))[..3].to_vec(), check.run.status.selection), (vec![0; 3], 0));
    Ok(())
}

#[test]
fn malformed_selections_do_nothing_but_count() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let mut core = open(&config, 7)?;
    let before = Case {
        values: values(40, 2, 40, &mut SplitMix64::new(14)),
        list: 16,
        numbers: Numbers::From(3),
        entries: Vec::new(),
        condition: Condition::POSITIVE,
    };
    assert_eq!(before.wrong(&mut core)?, 0);
    let selection = core.status()?.selection;
    let (numbers, condition) = (Numbers::From(0), Condition::POSITIVE);
    let good = Instruction::Select { src: 0, dst: 8, cols: 40, batch: 2, list: 16, numbers, condition };
    let with = |change: fn(&mut Instruction)| {
        let mut instruction = good;
        change(&mut instruction);
        instruction.encode()
    };
    fn set(i: &mut Instruction, f: impl Fn(&mut u32, &mut u32, &mut u32, &mut u32, &mut Numbers)) {
        if let Instruction::Select { src, dst, cols, list, numbers, .. } = i {
            f(src, dst, cols, list, numbers);
        }
    }
    let words = [
        (2, good.encode() | 1 << 31),
        (2, good.encode() | 1 << 48),
        (2, good.encode() | 1 << 8 | 1 << 76),
        (3, with(|i| set(i, |_, _, cols, _, _| *cols = 0))),
        (3, with(|i| set(i, |_, _, cols, _, _| *cols = 4097))),
        (5, with(|i| set(i, |_, _, _, list, _| *list = 17))),
        (5, with(|i| set(i, |_, _, _, list, _| *list = 4080))),
        (5, with(|i| set(i, |_, _, _, _, numbers| *numbers = Numbers::Listed(4060)))),
        (4, with(|i| set(i, |src, _, _, _, _| *src = 63))),
        (7, with(|i| set(i, |src, _, _, _, _| *src = 8))),
        (7, with(|i| set(i, |src, _, _, _, _| *src = 9))),
        (7, with(|i| set(i, |_, _, _, list, numbers| (*list, *numbers) = (48, Numbers::Listed(16))))),
        (2, ndp_isa::parse("dot src=0, dst=8, cols=40, count=3, address=0")?.words()[0] | 1 << 31),
    ];
    for (code, word) in words {
        core.reset()?;
        let run = core.run_words(&[word], |_| {})?;
        let status = run.status;
        assert_eq!((status.malformed, status.error, status.selection), (1, code, 0), "{word:#034x}");
        assert_eq!(ndp_isa::decode(word, &config).map_err(|e| e.code().number()), Err(code));
    }
    assert!(selection > 0);
    Ok(())
}

/// Runs a product and then selections, and compares the monitor's masks. Returns the number of wrong bytes.
fn wrong_masks(core: &mut NdpCore, random: &mut SplitMix64) -> Result<usize, Box<dyn Error>> {
    let config = core.config().clone();
    let mut program = Program::default();
    program.data.push(Data::F16 { address: 0, values: vec![0x3C00] });
    program.push(Instruction::Load { dst: 0, cols: 2, batch: 1, address: 0 });
    let (list, address) = (None, MATRIX);
    let product = Product {
        src: 0,
        dst: 1,
        cols: 2,
        batch: 1,
        count: 70,
        address,
        list,
        heads: 1,
        selected: false,
        weights: WeightFormat::Fp16,
        shared: false,
    };
    program.push(Instruction::Dot(product));
    let mut expected = Vec::new();
    for (index, (cols, batch)) in (0..).zip([(70, 3), (33, 1), (1, 2), (64, 1), (200, 2), (200, 1), (200, 1)])
    {
        let case = Case {
            values: values(cols, batch, 30, random),
            list: 0,
            numbers: Numbers::From(0),
            entries: Vec::new(),
            condition: Condition { threshold: 0x0400, magnitude: batch == 2 },
        };
        let words = block_words(&config, cols, batch);
        let of_case = case.program(&config);
        let Some(Data::F16 { values, .. }) = of_case.data.first() else { return Err("no values".into()) };
        let address = SOURCE + 0x80 * index;
        program.data.push(Data::F16 { address, values: values.clone() });
        program.push(Instruction::Load { dst: 8, cols, batch, address });
        let Case { list, numbers, condition, .. } = case;
        let dst = 8 + words;
        program.push(Instruction::Select { src: 8, dst, cols, batch, list, numbers, condition });
        // A product of selected rows leaves the masks unchanged.
        let (dst, list) = (8 + 2 * words, Some(case.list));
        let product = Product { dst, count: cols, list, selected: true, ..product };
        program.push(Instruction::Dot(product));
        let mut bytes = vec![0u8; 4 * cols.div_ceil(BEAT_ELEMS) as usize];
        case.selected().into_iter().for_each(|(k, _)| bytes[k / 8] |= 1 << (k % 8));
        expected.extend(bytes);
    }
    core.place(&program)?;
    core.run_words(&program.words(), |_| {})?;
    let mut actual = Vec::new();
    for register in 64..64 + expected.len().div_ceil(64) as u64 {
        actual.extend(core.register(register)?.iter().flat_map(|word| word.to_le_bytes()));
    }
    Ok(expected.iter().zip(&actual).filter(|(expected, actual)| expected != actual).count())
}

#[test]
fn the_monitor_has_the_masks_of_all_selections_since_the_last_product() -> Outcome {
    for name in some(&NAMES) {
        let mut core = open(&DesignConfig::load(name)?, 8)?;
        let mut random = SplitMix64::new(15);
        for round in 0..3 {
            assert_eq!(wrong_masks(&mut core, &mut random)?, 0, "{name}, round {round}");
        }
    }
    Ok(())
}

/// FC1, ReLU, selection and FC2 in one program, against the same with a host's list and scalars.
#[test]
fn two_layers_in_one_program_are_those_of_a_list_of_the_host() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let (cols, neurons, out) = (96, 130, 100);
    for batch in 1..=config.gemv().max_batch() {
        let hidden = block_words(&config, neurons, batch);
        let sums = accumulator_words(&config, out, batch);
        let (x, y, packed) = (0, 4, 4 + hidden);
        let acc = packed + hidden;
        let first = format!(
            ".random 0x100 bursts={} seed={batch} kind=normal
             .matrix 0x10000 rows={neurons} cols={cols} seed=5 kind=normal
             .matrix 0x20000 rows={neurons} cols={out} seed=6 kind=normal
             load dst={x}, cols={cols}, batch={batch}, address=0x100
             dot src={x}, dst={y}, cols={cols}, batch={batch}, count={neurons}, address=0x10000
             relu src={y}, dst={y}, cols={neurons}, batch={batch}
             zero dst={acc}, count={sums}\n",
            3 * batch
        );
        let rest = |at: u32| {
            format!(
                "round src={acc}, dst={acc}, cols={out}, batch={batch}\nstore src={acc}, cols={out}, batch={batch}, address={at}\n"
            )
        };
        let all = format!(
            "{first}axpy src={y}, dst={acc}, cols={out}, batch={batch}, count={neurons}, address=0x20000\n{}",
            rest(0x800)
        );
        let ours = format!(
            "{first}select src={y}, dst={packed}, cols={neurons}, batch={batch}, list=32, row=0
             axpy src={packed}, dst={acc}, cols={out}, batch={batch}, count={neurons}, address=0x20000, list=32, selected=1
             store src={y}, cols={neurons}, batch={batch}, address=0xa00\n{}",
            rest(0x900)
        );
        let mut core = open(&config, 8)?;
        for text in [&all, &ours] {
            let check = core.check_program(&ndp_isa::parse(text)?, |_| {})?;
            assert!(check.agrees(), "batch {batch}: {:?}", check.differences);
            assert_eq!(check.run.model_cycles, Some(check.run.cycles), "batch {batch}");
        }
        // The host reads the results of FC1, and makes list and scalars.
        let beats = u64::from(neurons.div_ceil(BEAT_ELEMS) * batch);
        let hidden: Vec<_> = (0..beats).map(|beat| elements_of(&core.peek(0xa00 + beat))).collect();
        let at = |vector: u32, k: u32| hidden[(k / 32 * batch + vector) as usize][(k % 32) as usize];
        let rows: Vec<u32> = (0..neurons)
            .filter(|k| (0..batch).any(|vector| meets(at(vector, *k), Condition::POSITIVE)))
            .collect();
        assert!(rows.len() > 20 && (batch > 2 || rows.len() < neurons as usize), "{}", rows.len());
        let mut program = ndp_isa::parse(&first)?;
        let count = rows.len() as u32;
        let mut scalars = Vec::new();
        for beat in rows.chunks(32) {
            for vector in 0..batch {
                scalars.extend((0..32).map(|i| beat.get(i).map_or(0, |k| at(vector, *k))));
            }
        }
        program.data.push(Data::F16 { address: 0xc00, values: scalars });
        program.data.push(Data::U32 { address: 0xe00, values: rows });
        for line in [
            format!("list list=64, count={count}, address=0xe00"),
            format!("load dst={packed}, cols={count}, batch={batch}, address=0xc00"),
            format!(
                "axpy src={packed}, dst={acc}, cols={out}, batch={batch}, count={count}, address=0x20000, list=64"
            ),
            rest(0xf00),
        ] {
            program.code.extend(ndp_isa::parse(&line)?.code);
        }
        assert!(core.check_program(&program, |_| {})?.agrees());
        for burst in 0..u64::from(out.div_ceil(BEAT_ELEMS) * batch) {
            let [all, ours, hosts] = [0x800, 0x900, 0xf00].map(|first| core.peek(first + burst));
            assert!(ours == hosts && ours == all, "batch {batch}, burst {burst}");
        }
        assert_eq!(core.status()?.selection, count);
    }
    Ok(())
}

pub const MUTANTS: [Mutant; 10] = [
    // A store writes the buffer's old values beyond the vectors' end.
    ("tiny", Mutation::new("mutant-select-old", "store_reader_read_last", |s| s.lit(0))),
    // Negative values are also selected.
    (
        "tiny",
        Mutation::new(
            "mutant-select-sign",
            "{~beat_i[31] | condition_i[15], threshold < beat_i[30:16], ~((&beat_i[30:26]) & ~(|beat_i[25:16]))}",
            |s| s.with(0, lit(1, 1)),
        ),
    ),
    // Infinity exceeds a threshold of infinity.
    ("tiny", Mutation::new("mutant-select-infinity", "threshold", |s| s.signal("condition_i").low(15))),
    // A value stays where only another vector has selected the element.
    ("tiny", Mutation::new("mutant-select-other", "kept", |s| s.signal("value"))),
    // The list begins an entry too late.
    (
        "tiny",
        Mutation::new("mutant-select-list", "selection_q[11:4]", |s| cat!(s.part(0).slice(5, 7), lit(0, 1))),
    ),
    // With several vectors the last one decides.
    (
        "tiny",
        Mutation::new("mutant-select-union", "(element_done ? rest : mask_q) | found", |s| {
            mux(s.signal("look_beat_q"), s.part(1), s.part(0))
        }),
    ),
    // Elements past the vectors' end are selected.
    ("tiny", Mutation::new("mutant-select-end", "walker_last & (last_elem_i < 5'h1f)", |s| s.lit(0))),
    // NaN is positive.
    ("tiny", Mutation::new("mutant-select-nan", "~((&beat_i[14:10]) & ~(|beat_i[9:0]))", |s| s.lit(1))),
    // The monitor skips a place after each mask, and continues after a product.
    ("tiny", Mutation::new("mutant-monitor-place", "10'h1", |s| s.lit(2))),
    (
        "tiny",
        Mutation::new(
            "mutant-monitor-restart",
            "(mask_valid_i ? place_q + 10'h1 : place_q) & {10{~dot_start_i}}",
            |s| s.part(0),
        ),
    ),
];

#[test]
fn injected_errors_are_caught() -> Outcome {
    for (name, mutation) in some(&MUTANTS) {
        let config = DesignConfig::preset(name)?;
        let rtl = design(mutation.name, "ndp_core", &core_mutants())?;
        let mut core = NdpCore::of_rtl(&rtl, &config, &CoreOptions::default())?;
        place_numbers(&mut core)?;
        let mut random = SplitMix64::new(15);
        let mut found = 0;
        for round in 0..40 {
            let (cols, batch) = (1 + below(&mut random, 100), 1 + below(&mut random, 4));
            let mut values = values(cols, batch, [5, 30, 70][round % 3], &mut random);
            // A value past the end, in the source's block and in the buffer: words of a longer block, read as a shorter
            // one.
            values.iter_mut().for_each(|vector| vector.truncate(cols as usize));
            let case = case(&config, values, below(&mut random, 3), &mut random);
            let wrong = match mutation.name.starts_with("mutant-monitor") {
                true => wrong_masks(&mut core, &mut random),
                false => case.wrong(&mut core),
            };
            // A mutant may also hang.
            found += wrong.unwrap_or(1).min(1);
            if found > 0 {
                break;
            }
        }
        let longer = "longer blocks";
        assert!(found > 0 || mutation.name.ends_with("end"), "{}", mutation.name);
        if mutation.name.ends_with("end") {
            assert!(behind_the_end(&mut core)? > 0, "{longer}");
        }
    }
    let config = DesignConfig::preset("tiny")?;
    assert_eq!(behind_the_end(&mut open(&config, 9)?)?, 0);
    Ok(())
}

/// A block is read as one of shorter vectors, so that values lie past their end: the selection is unspecified then, but
/// has no more elements than the vectors. Returns how many were selected beyond.
fn behind_the_end(core: &mut NdpCore) -> Result<u32, Box<dyn Error>> {
    let text = format!(
        ".f16 0x100 {}
         load dst=0, cols=32, address=0x100
         select src=0, dst=8, cols=3, list=0, row=0",
        ["1"; 32].join(", ")
    );
    let program = ndp_isa::parse(&text)?;
    assert!(program.code.iter().all(|code| matches!(code, Code::Instruction(_))));
    core.place(&program)?;
    let selection = match core.run_words(&program.words(), |_| {}) {
        Ok(run) => run.status.selection,
        Err(_) => u32::MAX,
    };
    Ok(selection.saturating_sub(3))
}
