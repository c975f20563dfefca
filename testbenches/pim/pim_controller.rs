//! The controller of a PIM channel: does it ever break a rule, is all returned data right, and do reads and MACs
//! overlap?
//!
//! The channel is the device model, with the Verilated channel beside it in some runs: any refusal fails. Reads are
//! compared with a map of columns, sums with exact sums of `rust/numerics`. The test measures rates, prints them and
//! asserts: with banks cut in two both reach at least 95 % of the rate that each reaches by itself; joined, their times
//! add up.

use common::rtl::{Mutant, Mutation, hbm_config, hbm_design};
use common::{Outcome, amount, some};
use ndp_config::{HbmCommandSet, HbmConfig};
use ndp_dram::hbm::{Column, HbmPlace, pim};
use ndp_numerics::{ExactSum, SplitMix64, SumFormat, f16};
use ndp_sim::hbm::diagram::{draw, scenario};
use ndp_sim::hbm::{Access, Controlled, ControlledWaves, Operation, PimChannel, Request};
use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::io::Write as _;

const TINY: &str = "librapim-tiny";
const AIM: &str = "aim-tiny";
const GROUPS: &str = "hbm2-tiny";
const PAPER: &str = "librapim";
const NEWTON: &str = "newton-aim";
const HBM2: &str = "hbm2";
const REFPB: &str = "hbm2-refpb";
const SERIAL: &str = "aim-commands";
const COMMANDS: &str = "aim";
/// Answer to a command that is not in the set.
const NOT_IN_SET: u8 = 17;

fn config(name: &str) -> Result<HbmConfig, Box<dyn Error>> {
    Ok(hbm_config(name)?)
}

fn report(line: &str) -> Outcome {
    writeln!(std::io::stderr(), "pim_controller: {line}")?;
    Ok(())
}

/// The host's data: contents, buffer, sums, and the reads to come.
struct Bench {
    config: HbmConfig,
    system: Controlled,
    random: SplitMix64,
    cells: HashMap<HbmPlace, Column>,
    buffer: Vec<Column>,
    /// Data read for a MAC that takes them, by slot.
    shared: Vec<VecDeque<Column>>,
    sums: Vec<ExactSum>,
    expected: [Vec<Column>; 3],
    asked: u64,
    /// First refusal of the channel in the form of `refused_o`.
    refused: u64,
    empty: ExactSum,
}

impl Bench {
    fn open(
        design: &str,
        config: &HbmConfig,
        boundary: u16,
        rtl: bool,
        seed: u64,
    ) -> Result<Self, Box<dyn Error>> {
        let controller = hbm_design(design, Controlled::BLOCK, &MUTANTS)?;
        let channel = rtl.then(|| hbm_design(design, PimChannel::BLOCK, &[])).transpose()?;
        let waves = ControlledWaves::default();
        let system = Controlled::of_rtl(&controller, channel.as_ref(), config, boundary, seed, waves)?;
        let sum = SumFormat::new(config.acc_bits(), 1)?.empty();
        Ok(Self {
            config: config.clone(),
            system,
            random: SplitMix64::new(seed),
            cells: HashMap::new(),
            buffer: vec![[0; 4]; config.buffer_slots() as usize],
            shared: vec![VecDeque::new(); config.buffer_slots() as usize],
            sums: vec![sum.clone(); config.banks() as usize],
            expected: Default::default(),
            asked: 0,
            refused: 0,
            empty: sum,
        })
    }

    fn below(&mut self, count: u32) -> u32 {
        (self.random.next_u64() % u64::from(count)) as u32
    }

    fn column(&mut self) -> Column {
        pim::column_of((0..16).map(|_| {
            let bits = self.random.next_u64() as u16;
            f16::from_bits(if bits & 0x7C00 == 0x7C00 && bits & 0x3F != 0 { bits & !0x4000 } else { bits })
        }))
    }

    fn cell(&self, place: HbmPlace) -> Column {
        self.cells.get(&place).copied().unwrap_or_default()
    }

    fn places(&self, r: Request) -> Vec<HbmPlace> {
        let (groups, per_group) = (self.config.bank_groups(), self.config.banks_per_group());
        (r.position..r.position + r.columns)
            .map(|at| HbmPlace {
                bank: ((at % groups) * per_group + r.bank) as usize,
                row: r.row,
                column: (at / groups) as u8,
            })
            .collect()
    }

    fn request(&mut self, r: Request) {
        for (place, n) in self.places(r).into_iter().zip(0..) {
            if r.transfer == Access::Write {
                let column = self.column();
                self.system.writes.push_back(column);
                self.cells.insert(place, column);
            } else {
                let column = self.cell(place);
                self.expected[0].push(column);
                if let Access::Copy { slot } = r.transfer {
                    self.buffer[slot as usize + n] = column;
                }
                if let Access::Share { slot } = r.transfer {
                    self.shared[slot as usize + n].push_back(column);
                }
            }
        }
        self.system.requests.push_back(r);
        self.asked += 1;
    }

    fn operation(&mut self, operation: Operation) {
        match operation {
            Operation::Load { slot, columns } => {
                for s in slot..slot + columns {
                    let column = self.column();
                    self.system.loads.push_back(column);
                    self.buffer[s as usize] = column;
                }
            }
            Operation::Run { row, column, slot, columns, first, take, .. } => {
                if take {
                    for s in slot..slot + columns {
                        self.buffer[s as usize] = self.shared[s as usize].pop_front().expect("shared before");
                    }
                }
                for bank in 0..self.sums.len() {
                    if first {
                        self.sums[bank] = self.empty.clone();
                    }
                    for n in 0..columns {
                        let place = HbmPlace { bank, row, column: (column + n) as u8 };
                        let (w, x) = (self.cell(place), self.buffer[(slot + n) as usize]);
                        let sum = &mut self.sums[bank];
                        (0..16).for_each(|l| sum.mul_add(pim::lane(&w, l), pim::lane(&x, l)));
                        *sum = sum.wrapped();
                    }
                }
            }
            Operation::Results => {
                let column = pim::column_of(self.sums.iter().map(ExactSum::round));
                self.expected[1].push(column);
            }
            Operation::Sum { bank } => {
                let format = SumFormat::new(self.config.acc_bits(), 1).expect("validated");
                let word = format.to_word(&self.sums[bank as usize]);
                self.expected[2].push([word as u64, (word >> 64) as u64, 0, 0]);
            }
        }
        self.system.operations.push_back(operation);
    }

    /// A row of all banks, by writes of whole stripes.
    fn fill(&mut self, row: u32) {
        let columns = self.config.bank_groups() * HbmConfig::COLUMNS;
        for bank in 0..self.config.banks_per_group() {
            self.request(Request { transfer: Access::Write, bank, row, position: 0, columns });
        }
    }

    fn check(&mut self) -> Result<u64, Box<dyn Error>> {
        let end = self.system.drain()?;
        for (kind, name) in ["columns", "results", "sums"].into_iter().enumerate() {
            let (found, expected) = (&self.system.read[kind], &self.expected[kind]);
            if let Some(at) = found.iter().zip(expected).position(|(a, b)| a != b) {
                return Err(format!("{name}[{at}] is {:x?} instead of {:x?}", found[at], expected[at]).into());
            }
            if found.len() != expected.len() {
                return Err(format!("{} {name} were read instead of {}", found.len(), expected.len()).into());
            }
        }
        if self.system.refused() != self.refused {
            return Err(format!("the controller says that {:#x} was refused", self.system.refused()).into());
        }
        let (done, reported) = (self.system.requests_done, self.system.reported());
        if (done, reported) != (self.asked, 0) {
            return Err(
                format!("{done} requests are done instead of {}, reports {reported}", self.asked).into()
            );
        }
        Ok(end)
    }

    fn random_request(&mut self, rows: &[u32]) -> Request {
        let stripe = self.config.bank_groups() * HbmConfig::COLUMNS;
        let position = if self.below(2) == 0 { 0 } else { self.below(stripe) };
        let most = stripe - position;
        let columns = match self.below(3) {
            0 => most,
            1 => 1 + self.below(most.min(4)),
            _ => 1 + self.below(most),
        };
        let row = rows[self.below(rows.len() as u32) as usize];
        Request {
            transfer: if self.below(3) == 0 { Access::Write } else { Access::Read },
            bank: self.below(self.config.banks_per_group()),
            row,
            position,
            columns,
        }
    }

    /// Columns that are read and taken by MACs as they come, a few slots at a time, beside other requests and
    /// operations.
    fn sharing(&mut self, host: &[u32], weights: &[u32]) {
        let first = self.config.buffer_slots() / 2;
        let slots = self.config.buffer_slots() - first;
        for _ in 0..6 {
            let request = self.random_request(host);
            let at = self.below(slots);
            let columns = request.columns.min(slots - at);
            self.request(Request { transfer: Access::Share { slot: first + at }, columns, ..request });
            let (some, row) = (self.below(columns), weights[self.below(weights.len() as u32) as usize]);
            for (skip, columns) in [(0, some), (some, columns - some)] {
                if columns > 0 {
                    let (column, slot) = (self.below(33 - columns), first + at + skip);
                    let (new, last) = (self.below(4) == 0, self.below(2) == 0);
                    self.operation(Operation::Run {
                        row,
                        column,
                        slot,
                        columns,
                        first: new,
                        last,
                        take: true,
                    });
                }
                let (request, operation) = (self.random_request(host), self.random_operation(weights, first));
                self.request(request);
                self.operation(operation);
            }
        }
    }

    /// Draws an operation with slots below `slots`.
    fn random_operation(&mut self, rows: &[u32], slots: u32) -> Operation {
        match self.below(8) {
            0 => {
                let slot = self.below(slots);
                Operation::Load { slot, columns: 1 + self.below((slots - slot).min(4)) }
            }
            1 => Operation::Results,
            2 if self.config.command_set() == HbmCommandSet::LibraPim => {
                Operation::Sum { bank: self.below(self.config.banks()) }
            }
            _ => {
                let (column, slot) = (self.below(32), self.below(slots));
                let columns = 1 + self.below((32 - column).min(slots - slot));
                let row = rows[self.below(rows.len() as u32) as usize];
                Operation::Run {
                    row,
                    column,
                    slot,
                    columns,
                    first: self.below(4) == 0,
                    last: self.below(2) == 0,
                    take: false,
                }
            }
        }
    }
}

/// Random requests and operations, with stalls; `boundary` cuts the banks.
fn random_work(design: &str, of: &HbmConfig, boundary: u16, rtl: bool, seed: u64) -> Outcome {
    let mut bench = Bench::open(design, of, boundary, rtl, seed)?;
    work(&mut bench, design, boundary, seed)
}

/// Random work on a channel that differs from the controller's configuration.
fn random_work_on(design: &str, device: &HbmConfig, boundary: u16, seed: u64) -> Outcome {
    random_work(design, device, boundary, false, seed)
}

/// The same for an open system; the rows in use are written first.
fn work(bench: &mut Bench, design: &str, boundary: u16, seed: u64) -> Outcome {
    let c = bench.config.clone();
    let edge = u32::from(boundary) * c.subarray_rows();
    let top = c.rows() - 1;
    // Rows to compute with, filled before, and rows of the host on either side.
    let weights = [edge + 1, top];
    let mut host = vec![edge + 2, top - 1];
    if boundary > 0 {
        host.extend([0, edge - 1, 0, edge - 1]);
    }
    for row in weights.iter().chain(&host) {
        bench.fill(*row);
    }
    bench.operation(Operation::Load { slot: 0, columns: c.buffer_slots() });
    bench.check()?;
    for round in 0..8 {
        let pick = |round: u64, k: u64| [0, 0, 40, 128, 230][((round * 7 + k * 3 + seed) % 5) as usize];
        bench.system.stalls = std::array::from_fn(|k| pick(round, k as u64));
        for _ in 0..12 {
            let request = bench.random_request(&host);
            bench.request(request);
        }
        for _ in 0..15 {
            let operation = bench.random_operation(&weights, c.buffer_slots());
            bench.operation(operation);
        }
        let check = |bench: &mut Bench| {
            let from = |e| format!("{design}, boundary {boundary}, seed {seed}, round {round}: {e}");
            bench.check().map_err(from)
        };
        check(bench)?;
        if c.command_set() == HbmCommandSet::Aim {
            continue;
        }
        // Into slots that nothing else uses; MACs with them come after the read.
        let slot = bench.below(c.buffer_slots());
        let request = bench.random_request(&host);
        let columns = request.columns.min(c.buffer_slots() - slot);
        bench.request(Request { transfer: Access::Copy { slot }, columns, ..request });
        check(bench)?;
        bench.sharing(&host, &weights);
        check(bench)?;
    }
    Ok(())
}

#[test]
fn nothing_is_refused_and_everything_is_right() -> Outcome {
    for (design, boundaries, seeds) in [
        (TINY, &[0, 3, 7][..], 12),
        (GROUPS, &[0, 3], 12),
        (AIM, &[0], 12),
        (SERIAL, &[0], 12),
        (PAPER, &[0, 16], 2),
        (NEWTON, &[0], 2),
    ] {
        let of = config(design)?;
        for boundary in boundaries {
            for seed in 0..amount(seeds) {
                random_work(design, &of, *boundary, false, seed)?;
            }
        }
    }
    Ok(())
}

/// Copies and sums, which AiM does not have, beside reads and results, which keep their kind.
fn refused_reads(design: &str, rtl: bool) -> Outcome {
    let c = config(SERIAL)?;
    let mut bench = Bench::open(design, &c, 0, rtl, 90)?;
    // Operands are not written during the computation.
    let (host, weights) = ([2, c.rows() - 1], [1]);
    host.iter().chain(&weights).for_each(|row| bench.fill(*row));
    bench.operation(Operation::Load { slot: 0, columns: c.buffer_slots() });
    bench.check()?;
    bench.system.refusals = Some(Vec::new());
    bench.refused = u64::from(NOT_IN_SET) << 7;
    let mut expected = 0;
    for _ in 0..20 {
        let request = bench.random_request(&host);
        let columns = request.columns.min(c.buffer_slots());
        bench.system.requests.push_back(Request { transfer: Access::Copy { slot: 0 }, columns, ..request });
        bench.asked += 1;
        if bench.below(2) == 0 {
            bench.system.operations.push_back(Operation::Sum { bank: 1 });
            expected += 1;
        }
        expected += columns as usize;
        bench.operation(Operation::Results);
        let (request, operation) =
            (bench.random_request(&host), bench.random_operation(&weights, c.buffer_slots()));
        bench.request(request);
        bench.operation(operation);
        bench.check()?;
    }
    assert_eq!(bench.system.refusals, Some(vec![[0, NOT_IN_SET]; expected]));
    Ok(())
}

#[test]
fn what_is_read_behind_refused_reads_keeps_its_kind() -> Outcome {
    refused_reads(SERIAL, false)?;
    refused_reads(SERIAL, true)
}

#[test]
fn a_kind_that_is_kept_for_a_refused_read_is_caught() {
    let message = refused_reads("mutant-refused-read", false).expect_err("it must be noticed").to_string();
    assert!(message.contains("columns"), "{message}");
}

#[test]
fn a_reset_in_the_middle_leaves_nothing_behind() -> Outcome {
    for (design, boundary, rtl) in [(TINY, 3, false), (TINY, 3, true), (TINY, 0, false), (AIM, 0, false)] {
        let c = config(design)?;
        let mut bench = Bench::open(design, &c, boundary, rtl, 70)?;
        for seed in 0..6 {
            work(&mut bench, design, boundary, seed)?;
            let rows = [1, bench.config.rows() - 1];
            for _ in 0..10 {
                let (request, operation) =
                    (bench.random_request(&rows), bench.random_operation(&rows[1..], c.buffer_slots()));
                bench.request(request);
                bench.operation(operation);
            }
            for _ in 0..50 + bench.below(600) {
                bench.system.step()?;
            }
            bench.system.reset()?;
            bench.expected = Default::default();
            bench.asked = 0;
            bench.shared.iter_mut().for_each(VecDeque::clear);
            let empty = bench.empty.clone();
            bench.sums.fill(empty);
        }
    }
    Ok(())
}

#[test]
fn the_verilated_channel_takes_it_as_well() -> Outcome {
    for (design, boundary) in [(TINY, 3), (TINY, 0), (GROUPS, 3), (AIM, 0), (SERIAL, 0), (PAPER, 16)] {
        random_work(design, &config(design)?, boundary, true, 50)?;
    }
    Ok(())
}

/// Clocks for `stripes` stripes of reads and `runs` rows of MACs with a result each, and commands by kind.
fn clocks(design: &str, boundary: u16, stripes: u32, runs: u32) -> Result<u64, Box<dyn Error>> {
    let c = config(design)?;
    let mut bench = Bench::open(design, &c, boundary, false, 3)?;
    let slots = c.buffer_slots();
    bench.operation(Operation::Load { slot: 0, columns: slots });
    bench.check()?;
    let start = bench.system.clock();
    let columns = c.bank_groups() * HbmConfig::COLUMNS;
    let edge = u32::from(boundary) * c.subarray_rows();
    let host_rows = if edge == 0 { c.rows() } else { edge };
    for n in 0..stripes {
        let (bank, row) = (n % c.banks_per_group(), n / c.banks_per_group() % host_rows);
        bench.request(Request { transfer: Access::Read, bank, row, position: 0, columns });
    }
    for n in 0..runs {
        let row = edge + n % (c.rows() - edge).min(16);
        for part in 0..HbmConfig::COLUMNS / slots {
            let (first, last) = (part == 0, (part + 1) * slots == HbmConfig::COLUMNS);
            bench.operation(Operation::Run {
                row,
                column: part * slots,
                slot: 0,
                columns: slots,
                first,
                last,
                take: false,
            });
        }
        bench.operation(Operation::Results);
    }
    Ok(bench.check()? - start)
}

/// Reads and MACs, each by itself and together, over equal times; also the MACs at the pace that full reads leave them.
fn rates(design: &str, boundary: u16) -> Result<[f64; 4], Box<dyn Error>> {
    let (stripes, runs) = (200, 200);
    let reads = clocks(design, boundary, stripes, 0)?;
    let macs = clocks(design, boundary, 0, runs)?;
    // As many of each as take the same time by themselves.
    let time = reads.max(macs);
    let (stripes, runs) =
        ((u64::from(stripes) * time / reads) as u32, (u64::from(runs) * time / macs) as u32);
    let reads = clocks(design, boundary, stripes, 0)?;
    let macs = clocks(design, boundary, 0, runs)?;
    let both = clocks(design, boundary, stripes, runs)?;
    let columns = u64::from(stripes * config(design)?.bank_groups() * HbmConfig::COLUMNS);
    report(&format!(
        "{design}, boundary {boundary}: {stripes} stripes alone {reads} clocks ({:.1} % of the bus), {runs} runs of 32 MACs alone \
         {macs} ({:.1} clocks each), together {both}: {:.1} % of the longer one, {:.1} % of the sum",
        columns as f64 * 200.0 / reads as f64,
        macs as f64 / f64::from(runs),
        100.0 * both as f64 / reads.max(macs) as f64,
        100.0 * both as f64 / (reads + macs) as f64
    ))?;
    let c = config(design)?;
    let paced = u64::from(runs) * 31 * u64::from(c.t_ccd_l().next_multiple_of(c.t_ccd_s()) - c.t_ccd_l());
    Ok([reads as f64, macs as f64, both as f64, (macs + paced) as f64])
}

/// FFN offload with one transfer (Fig. 14): the banks also multiply each column that is read, once.
#[test]
fn columns_for_both_devices_come_at_the_rate_of_reads() -> Outcome {
    let c = config(PAPER)?;
    let time = |shared: bool| -> Result<u64, Box<dyn Error>> {
        let mut bench = Bench::open(PAPER, &c, 16, false, 3)?;
        bench.check()?;
        let (start, slots) = (bench.system.clock(), c.buffer_slots());
        let edge = 16 * c.subarray_rows();
        for n in 0..100 {
            for part in 0..4 {
                let transfer = if shared { Access::Share { slot: 0 } } else { Access::Read };
                let (bank, row) = (n % c.banks_per_group(), n / c.banks_per_group());
                bench.request(Request { transfer, bank, row, position: part * slots, columns: slots });
                if shared {
                    let (first, last, take) = (n % 4 == 0 && part == 0, false, true);
                    let (row, column, slot) = (edge, 0, 0);
                    bench.operation(Operation::Run { row, column, slot, columns: slots, first, last, take });
                }
            }
            if shared && n % 4 == 3 {
                bench.operation(Operation::Results);
            }
        }
        Ok(bench.check()? - start)
    };
    let (alone, both) = (time(false)?, time(true)?);
    report(&format!("{PAPER}: 12,800 columns alone {alone} clocks, multiplied in all banks too {both}"))?;
    assert!(both as f64 <= alone as f64 / 0.95);
    Ok(())
}

/// LibraPIM's dual-path execution against a bank that either computes or is read (section 5.2, Fig. 16).
#[test]
fn cut_banks_do_both_at_once_and_joined_ones_one_after_the_other() -> Outcome {
    let measured = |cases: &[(&'static str, u16)]| -> Result<Vec<_>, Box<dyn Error>> {
        some(cases).iter().map(|(design, boundary)| Ok((*design, rates(design, *boundary)?))).collect()
    };
    let cut = measured(&[(TINY, 3), (PAPER, 16), (HBM2, 16), (GROUPS, 3), (REFPB, 8)])?;
    let joined = measured(&[(AIM, 0), (NEWTON, 0), (PAPER, 0), (HBM2, 0), (REFPB, 0), (COMMANDS, 0)])?;
    for (design, [reads, macs, both, paced]) in cut {
        // The same work in a time in which each had 95 % of its rate.
        let longest = reads.max(macs).max(paced);
        // A round of refreshes every 400 clocks, and the rows that are reopened after it, are a larger part of it.
        let share = if design == GROUPS { 0.9 } else { 0.95 };
        assert!(both <= longest / share, "{design}: {both} clocks, {reads} and {macs} alone, {paced} paced");
    }
    for (design, [reads, macs, both, _]) in joined {
        assert!(both >= 0.95 * (reads + macs), "{design}: {both} is less than {reads} + {macs}");
    }
    Ok(())
}

pub const MUTANTS: [Mutant; 7] = [
    // Data are awaited of a read that the channel has refused.
    (SERIAL, Mutation::new("mutant-refused-read", "asks_q & ~(|column_status_i)", |s| s.part(0))),
    // MACs do not wait for loads into the buffer.
    (TINY, Mutation::new("mutant-load", "~(|slot_left_q)", |s| s.lit(1))),
    // Accesses of the first two banks do not wait for their rows.
    (TINY, Mutation::new("mutant-record", "(|bank0_column_flags) | (|bank1_column_flags)", |s| s.lit(0))),
    // Data to write come a clock late.
    (TINY, Mutation::new("mutant-late", "line_q[3] | line_q[4]", |s| s.part(1))),
    // Any row will do.
    (TINY, Mutation::new("mutant-row-hit", "drive right0_0", |s| s.lit(1))),
    // A slot is filled again before it was taken.
    (TINY, Mutation::new("mutant-promise", "~early | soon_i", |s| s.lit(1))),
    // MACs do not wait for their reads.
    (TINY, Mutation::new("mutant-there", "~current_q[19]", |s| s.lit(1))),
];

#[test]
fn mutants_are_caught() -> Outcome {
    let of = config(TINY)?;
    for (design, sign) in [
        ("mutant-load", "50"),
        ("mutant-record", "34"),
        ("mutant-late", "write data"),
        ("mutant-row-hit", "columns["),
        ("mutant-promise", "nothing has been done"),
        ("mutant-there", "buffer"),
    ] {
        let outcome = (0..12).try_for_each(|seed| random_work(design, &of, 3, false, seed));
        let message = outcome.expect_err(&format!("{design} must be noticed")).to_string();
        report(&format!("{design}: {message}"))?;
        assert!(message.contains(sign), "{design}: {message}");
    }
    Ok(())
}

/// A channel that is a clock slower in one of its times refuses a command by that rule, and the channel as it is
/// refuses nothing of the same work: so the controller gives a command in the first legal clock, and none before.
/// (tSLICE is over when the first row is wanted.)
#[test]
fn every_distance_is_kept_and_none_is_longer_than_it_must_be() -> Outcome {
    for (design, boundary, times) in [
        (TINY, 3, &["t_rcd", "t_rp", "t_rc", "t_ras", "t_rrd_s", "t_faw", "t_wr", "t_wtr_s", "t_rtp"][..]),
        (TINY, 3, &["t_wtr_l", "t_rfc", "t_mac", "t_ccd_s", "t_ccd_l"]),
        (GROUPS, 3, &["t_rfc_pb", "t_rrefd", "t_ccd_s", "t_ccd_l", "t_rrd_s", "t_faw", "t_wtr_s", "t_wtr_l"]),
        (AIM, 0, &["t_rcd", "t_rp", "t_wr", "t_rtp", "t_wtr_s", "t_mac", "t_ccd_l", "t_rfc"]),
    ] {
        let of = config(design)?;
        let text = toml::to_string(&of)?;
        for time in times {
            let longer = |key: &str| -> Result<(String, String), Box<dyn Error>> {
                let line = text.lines().find(|line| line.starts_with(&format!("{key} = ")));
                let line = line.ok_or(format!("{design} has no {key}"))?;
                let value: u32 = line[key.len() + 3..].parse()?;
                Ok((line.to_owned(), format!("{key} = {}", value + 1)))
            };
            let (line, slower) = longer(time)?;
            let mut changed = text.replace(&line, &slower);
            // Some times bound others.
            let bound = match *time {
                "t_rp" | "t_ras" => Some("t_rc"),
                "t_ccd_s" => Some("t_ccd_l"),
                _ => None,
            };
            if let Some(bound) = bound {
                let (line, slower) = longer(bound)?;
                changed = changed.replace(&line, &slower);
            }
            let device = HbmConfig::from_toml(&changed)?;
            let rule = time.replace("t_", "t").to_uppercase().replacen('T', "t", 1);
            let rule = rule.replace("RFC_PB", "RFCpb");
            let outcome = (0..12).try_for_each(|seed| random_work_on(design, &device, boundary, seed));
            let message =
                outcome.err().ok_or(format!("{design}: no checker notices that {slower}"))?.to_string();
            report(&format!("{design}, {slower}: {rule}: {message}"))?;
            assert!(message.contains("the channel answers"), "{message}");
        }
        random_work(design, &of, boundary, false, 0)?;
    }
    Ok(())
}

#[test]
fn a_wrong_bit_in_the_channel_is_caught() -> Outcome {
    let c = config(TINY)?;
    let mut bench = Bench::open(TINY, &c, 3, false, 8)?;
    bench.fill(40);
    bench.check()?;
    let place = HbmPlace { bank: 2, row: 40, column: 7 };
    let mut column = bench.system.device().read_column(place);
    column[1] ^= 1 << 20;
    bench.system.device_mut().write_column(place, &column);
    bench.request(Request { transfer: Access::Read, bank: 0, row: 40, position: 0, columns: 64 });
    let message = bench.check().expect_err("a wrong bit must be noticed").to_string();
    assert!(message.starts_with("columns["), "{message}");
    Ok(())
}

/// The pictures in `docs` show these commands, each with its intended effect.
#[test]
fn the_documented_diagrams_are_those_of_the_rtl() -> Outcome {
    let c = config(PAPER)?;
    let [serial, dex] = [scenario(&c, false)?, scenario(&c, true)?];
    report(&format!(
        "a run of 32 MACs and 64 reads: {} clocks joined, {} cut in two",
        serial.clocks, dex.clocks
    ))?;
    assert!(dex.clocks < serial.clocks * 3 / 4);
    for (mode, title, trace) in [
        ("serial", "Joined banks compute, then are read", &serial),
        ("dex", "Banks cut in two compute and are read at once", &dex),
    ] {
        let path = format!("{}/docs/pim-{mode}.svg", env!("CARGO_MANIFEST_DIR"));
        let documented = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        let title = format!("{title} ({})", c.name());
        let drawn = draw(trace, &c, &title, serial.clocks.max(dex.clocks))?;
        assert!(
            drawn == documented,
            "docs/pim-{mode}.svg: ndp generate pim-diagram --mode {mode} --out docs/pim-{mode}.svg"
        );
    }
    Ok(())
}
