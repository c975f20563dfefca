//! A GEMV unit in software, with one fault on demand: what the driver's checks are tested on.
//!
//! Follows the unit's port contract with registered outputs, and computes with `ndp_numerics`; it has no timing of its
//! own (a command's results come one per cycle once its last weight is there). Only in tests.

use super::beat::Beat;
use super::command::Command;
use super::lockstep::{Lockstep, Run, Settings};
use super::pins::{CommandWord, Outputs, Pins, ResultBeat};
use super::plant::Plant;
use super::stalls::Stalls;
use crate::error::SimError;
use ndp_config::{DesignConfig, GemvConfig, RowLayout};
use ndp_numerics::{SplitMix64, dot, f16};
use std::collections::{BTreeMap, VecDeque};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The second result is withdrawn when it is not taken at once.
    DropsValid,
    /// A result that waits changes.
    ChangesData,
    /// Rows come in the opposite order.
    Reversed,
    /// `last` is never set.
    NoLast,
    /// One result too many.
    OneMore,
    /// One result too few.
    OneLess,
    /// Stops taking weights.
    Stuck,
    /// Stays busy for ever.
    StaysBusy,
    /// The padding of a beat takes part.
    TakesPadding,
}

struct Fake {
    config: GemvConfig,
    fault: Fault,
    cycle: u64,
    load: Option<CommandWord>,
    dot: Option<CommandWord>,
    x: Option<Beat>,
    w: Vec<Option<Beat>>,
    result_ready: bool,
    outputs: Outputs,
    loading: Option<(CommandWord, Vec<Beat>)>,
    vectors: BTreeMap<u32, Vec<Vec<f16>>>,
    running: VecDeque<CommandWord>,
    beats: Vec<VecDeque<Beat>>,
    results: VecDeque<ResultBeat>,
}

fn unpack(beat: &Beat, elements: usize, into: &mut Vec<f16>) {
    into.extend((0..elements).map(|e| f16::from_bits((beat[e / 2] >> (16 * (e % 2))) as u16)));
}

impl Fake {
    fn new(config: &GemvConfig, fault: Fault) -> Self {
        let ranks = config.ranks() as usize;
        let outputs = Outputs { load_ready: true, dot_ready: true, ..Outputs::default() };
        Self {
            config: config.clone(),
            fault,
            cycle: 0,
            load: None,
            dot: None,
            x: None,
            w: vec![None; ranks],
            result_ready: false,
            outputs,
            loading: None,
            vectors: BTreeMap::new(),
            running: VecDeque::new(),
            beats: vec![VecDeque::new(); ranks],
            results: VecDeque::new(),
        }
    }

    fn take_activation(&mut self, beat: Beat) {
        let Some((word, beats)) = &mut self.loading else { panic!("activations without a load") };
        beats.push(beat);
        let per_vector = word.cols.div_ceil(32) as usize;
        if beats.len() < per_vector * word.batch as usize {
            return;
        }
        let vectors = beats.chunks(per_vector).map(|beats| {
            let mut vector = Vec::new();
            for (i, beat) in beats.iter().enumerate() {
                unpack(beat, (word.cols as usize - 32 * i).min(32), &mut vector);
            }
            vector
        });
        let (base, vectors) = (word.base, vectors.collect());
        self.vectors.insert(base, vectors);
        self.loading = None;
    }

    /// Computes the oldest command once all of its weights are there.
    fn compute(&mut self) {
        let Some(&CommandWord { rows, cols, batch, base }) = self.running.front() else { return };
        let layout = RowLayout::new(&self.config, cols);
        let beats_of =
            |row, rank| layout.stripes_of(row, rank).map(|s| layout.elems_of(s).div_ceil(32)).sum::<u32>();
        for (rank, beats) in (0..).zip(&self.beats) {
            if (beats.len() as u32) < (0..rows).map(|row| beats_of(row, rank)).sum() {
                return;
            }
        }
        let (x, mut results) = (&self.vectors[&base], Vec::new());
        for row in 0..rows {
            let mut weights = BTreeMap::new();
            for (rank, beats) in (0..).zip(&mut self.beats) {
                for stripe in layout.stripes_of(row, rank) {
                    let (mut part, elems) = (Vec::new(), layout.elems_of(stripe) as usize);
                    while part.len() < elems {
                        let left = (elems - part.len()).min(32);
                        let beat = beats.pop_front().expect("counted above");
                        unpack(&beat, left, &mut part);
                        if self.fault == Fault::TakesPadding && left < 32 {
                            let mut padding = Vec::new();
                            unpack(&beat, 32, &mut padding);
                            part[elems - 1] = padding[left];
                        }
                    }
                    weights.insert(stripe, part);
                }
            }
            let weights: Vec<f16> = weights.into_values().flatten().collect();
            for b in 0..batch {
                let data = dot(&weights, &x[b as usize]).to_bits();
                let last = row + 1 == rows && b + 1 == batch && self.fault != Fault::NoLast;
                results.push(ResultBeat { data, row, batch: b, last });
            }
        }
        match self.fault {
            Fault::Reversed => results.reverse(),
            Fault::OneMore => results.extend(results.last().copied()),
            Fault::OneLess => drop(results.pop()),
            _ => {}
        }
        self.results.extend(results);
        self.running.pop_front();
    }

    fn next_result(&mut self) -> Option<ResultBeat> {
        if let Some(held) = self.outputs.result.filter(|_| !self.result_ready) {
            return match self.fault {
                Fault::DropsValid => None,
                Fault::ChangesData => Some(ResultBeat { data: held.data ^ 1, ..held }),
                _ => Some(held),
            };
        }
        self.results.pop_front()
    }
}

impl Pins for Fake {
    fn outputs(&self) -> Outputs {
        self.outputs
    }
    fn drive_load(&mut self, word: Option<CommandWord>) {
        self.load = word;
    }
    fn drive_dot(&mut self, word: Option<CommandWord>) {
        self.dot = word;
    }
    fn drive_activation(&mut self, beat: Option<&Beat>) {
        self.x = beat.copied();
    }
    fn drive_weight(&mut self, rank: usize, beat: Option<&Beat>) {
        self.w[rank] = beat.copied();
    }
    fn drive_result_ready(&mut self, ready: bool) {
        self.result_ready = ready;
    }
    fn tick(&mut self) {
        let before = self.outputs;
        if let (Some(word), true) = (self.load, before.load_ready) {
            self.loading = Some((word, Vec::new()));
        }
        if let (Some(beat), true) = (self.x, before.activation_ready) {
            self.take_activation(beat);
        }
        if let (Some(word), true) = (self.dot, before.dot_ready) {
            self.running.push_back(word);
        }
        for rank in 0..self.w.len() {
            if let (Some(beat), true) = (self.w[rank], before.weight_ready >> rank & 1 == 1) {
                self.beats[rank].push_back(beat);
            }
        }
        self.compute();
        let result = self.next_result();
        let idle = self.running.is_empty() && self.results.is_empty() && self.loading.is_none();
        self.outputs = Outputs {
            load_ready: self.loading.is_none(),
            activation_ready: self.loading.is_some(),
            dot_ready: self.loading.is_none() && self.running.len() < 2,
            weight_ready: if self.fault == Fault::Stuck { 0 } else { (1 << self.w.len()) - 1 },
            result,
            busy: !idle || result.is_some() || self.fault == Fault::StaysBusy,
        };
        self.cycle += 1;
    }
    fn cycle(&self) -> u64 {
        self.cycle
    }
    fn reset(&mut self) {
        *self = Self { cycle: self.cycle, ..Self::new(&self.config, self.fault) };
    }
}

const ROWS: u32 = 5;
const COLS: u32 = 77;

/// One product of 5 rows on a fake unit with a fault, twice in a row.
fn run(fault: Fault, stall_percent: u32, plant: Option<Plant>) -> Result<(Run, Vec<u16>), SimError> {
    let config = DesignConfig::preset("tiny").unwrap();
    let mut random = SplitMix64::new(11);
    let mut vector = |len: u32| -> Vec<f16> {
        (0..len).map(|_| f16::from_bits(random.next_u64() as u16 & 0xBBFF)).collect()
    };
    let (weights, activations) = (vector(ROWS * COLS), vector(2 * COLS));
    let load = |base| Command::Load { cols: COLS, batch: 2, base, activations: &activations };
    let dot = |base| Command::Dot { rows: ROWS, cols: COLS, batch: 2, base, weights: &weights };
    let commands = [load(0), load(8), dot(0), dot(8), Command::Drain];
    let settings = Settings { config: config.gemv().clone(), seed: 3, watchdog_cycles: 500 };
    let mut stalls = Stalls::new(stall_percent, settings.seed, config.gemv().ranks())?;
    let mut fake = Fake::new(config.gemv(), fault);
    let mut plant = plant;
    let run = Lockstep::new(&mut fake, &mut stalls, &settings, &mut plant, None, &commands)?.finish()?;
    assert_eq!(plant, None, "the planted error has found no place");
    let mut expected = Vec::new();
    for x in activations.chunks(COLS as usize) {
        expected.extend(weights.chunks(COLS as usize).map(|row| dot_bits(row, x)));
    }
    Ok((run, expected))
}

fn dot_bits(w: &[f16], x: &[f16]) -> u16 {
    dot(w, x).to_bits()
}

/// The message of a run that has to fail.
fn failure(fault: Fault, stall_percent: u32) -> String {
    run(fault, stall_percent, None).expect_err("the fault was not noticed").to_string()
}

#[test]
fn a_correct_unit_passes_at_every_rate_of_stalls() {
    for stall_percent in [0, 10, 50, 90] {
        let (run, expected) = run(Fault::None, stall_percent, None).unwrap();
        assert_eq!(run.dots.len(), 2);
        for dot in &run.dots {
            assert_eq!(dot.bits, expected, "{stall_percent} % stalls");
        }
        assert!(run.cycles > 0 && run.cycles <= run.simulated_cycles);
    }
}

#[test]
fn a_planted_bit_changes_one_side_only() {
    let (run, expected) = run(Fault::None, 20, Some(Plant::Result { row: 3, batch: 1, bit: 2 })).unwrap();
    let index = (ROWS + 3) as usize;
    assert_eq!(run.dots[0].bits[index], expected[index] ^ 4);
    assert_eq!(run.dots[1].bits, expected);
    let differing = run.dots[0].bits.iter().zip(&expected).filter(|(a, b)| a != b).count();
    assert_eq!(differing, 1);
    let sign = Plant::Weight { row: 2, col: 70, bit: 15 };
    let (run, expected) = self::run(Fault::None, 0, Some(sign)).unwrap();
    assert_ne!(run.dots[0].bits, expected);
    assert_eq!(run.dots[1].bits, expected);
}

#[test]
fn padding_that_takes_part_is_visible() {
    let (run, expected) = run(Fault::TakesPadding, 0, None).unwrap();
    assert_ne!(run.dots[0].bits, expected);
    assert!(run.dots[0].bits.contains(&0x7E00), "{:x?}", run.dots[0].bits);
}

#[test]
fn broken_handshakes_are_reported_with_cycle_and_seed() {
    for (fault, signal) in [
        (Fault::DropsValid, "result_valid_o"),
        (Fault::ChangesData, "result_data_o"),
        (Fault::Reversed, "result_row_o"),
        (Fault::NoLast, "result_last_o"),
        (Fault::OneMore, "result_row_o"),
        (Fault::OneLess, "result_row_o"),
    ] {
        let message = failure(fault, 50);
        assert!(message.contains(signal), "{fault:?}: {message}");
        assert!(message.starts_with("cycle ") && message.contains("stall seed 3"), "{message}");
    }
}

#[test]
fn a_unit_that_does_not_move_is_given_up() {
    let message = failure(Fault::Stuck, 0);
    assert!(message.contains("no handshake moved for 500 cycles"), "{message}");
    assert!(message.contains("w0 1/0, w1 1/0, result 0/1; busy 1; 4 of 5 commands accepted"), "{message}");
    let message = failure(Fault::StaysBusy, 0);
    assert!(message.contains("busy 1; 5 of 5 commands accepted"), "{message}");
}
