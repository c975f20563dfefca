//! The model skips cycles in which nothing can happen, and runs only some of its parts in others. Stepping through all
//! cycles one by one has to give the same results.

use ndp_config::DesignConfig;
use ndp_cycles::{
    Answer, COUNTERS, ClockRelation, Command, CycleModel, Host, InstructionTimes, RankActivity, Request,
    RequestKind,
};
use ndp_testkit::{ProgramOptions, RandomPrograms};
use std::collections::VecDeque;
use std::error::Error;

/// Periods of core and DRAM in ps: from a core much faster than the DRAM to one slower than its data.
const PERIODS: [(u64, u64); 7] =
    [(1000, 625), (1250, 625), (1000, 682), (500, 833), (5000, 625), (2600, 625), (625, 625)];
/// Instructions of a burst.
const BURST: usize = 4;

/// A pseudo-random number from two others.
fn mix(a: u64, b: u64) -> u64 {
    let product = (a ^ b.rotate_left(32)).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product ^ product >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 16
}

/// Sends a program, between reads of registers and its own accesses to the DIMM.
struct Traffic {
    seed: u64,
    bursts: VecDeque<[u128; BURST]>,
    /// The next request is offered from this cycle, and the one after it up to `every` cycles later.
    next: u64,
    every: u64,
    /// First burst of the DIMM for its own accesses.
    own: u32,
    outstanding: u32,
    answers: Vec<(u64, Answer)>,
    masks: u64,
}

impl Host for Traffic {
    fn offer(&mut self, cycle: u64) -> Option<Request> {
        if cycle < self.next || self.bursts.is_empty() {
            return None;
        }
        self.next = cycle + 1 + mix(self.seed, cycle) % self.every;
        self.outstanding += 1;
        let chance = mix(self.seed + 1, cycle);
        let kind = match chance % 6 {
            0 => RequestKind::ReadRegister((chance / 8 % 2) as u8),
            1 | 2 => {
                let address = self.own + (chance >> 8) as u32 % 512;
                RequestKind::Dram { address, write: chance % 6 == 1 }
            }
            _ => self.bursts.pop_front().map(RequestKind::Instructions)?,
        };
        Some(Request { kind, tag: 0 })
    }

    fn ready(&mut self, cycle: u64) -> bool {
        !mix(self.seed + 2, cycle).is_multiple_of(4)
    }

    fn answered(&mut self, cycle: u64, answer: Answer) {
        self.outstanding -= 1;
        self.answers.push((cycle, answer));
    }

    fn idle_until(&self, cycle: u64) -> u64 {
        if self.bursts.is_empty() { u64::MAX } else { self.next.max(cycle) }
    }

    fn entries(&mut self, _cycle: u64, burst: u32) -> [u32; 16] {
        std::array::from_fn(|entry| mix(burst.into(), entry as u64) as u32 % 4096)
    }

    /// None, few, half or all of the elements.
    fn mask(&mut self, _cycle: u64) -> u32 {
        self.masks += 1;
        let any = |salt: u64| mix(self.seed + salt, self.masks) as u32;
        match any(3) % 5 {
            0 => 0,
            1 => u32::MAX,
            2 => any(4),
            _ => any(4) & any(5) & any(6) & any(7),
        }
    }
}

#[derive(Debug, PartialEq)]
struct Outcome {
    cycles: u64,
    answers: Vec<(u64, Answer)>,
    counters: [u32; COUNTERS],
    dram: Vec<RankActivity>,
    instructions: Vec<InstructionTimes>,
    commands: Vec<Vec<(u64, Command)>>,
}

fn run(config: &DesignConfig, words: &[u128], seed: u64, every: u64, skips: bool) -> Outcome {
    run_and_count(config, words, seed, every, skips).0
}

/// The outcome, and how often ranks were found symmetric.
fn run_and_count(
    config: &DesignConfig,
    words: &[u128],
    seed: u64,
    every: u64,
    skips: bool,
) -> (Outcome, u64) {
    let burst = |words: &[u128]| std::array::from_fn(|i| words.get(i).copied().unwrap_or(0));
    let mut host = Traffic {
        seed,
        bursts: words.chunks(BURST).map(burst).collect(),
        next: 0,
        every,
        own: 1 << (config.dimm_burst_bits() - 1),
        outstanding: 0,
        answers: Vec::new(),
        masks: 0,
    };
    let (core_ps, dram_ps) = PERIODS[seed as usize % PERIODS.len()];
    let clocks = ClockRelation::new(core_ps, dram_ps, (seed * 377 % 4000) as i64 - 2000);
    let mut model = CycleModel::new(config, clocks);
    model.record();
    model.compute_symmetric_once(skips);
    while !host.bursts.is_empty() || host.outstanding > 0 || model.is_busy() {
        if skips {
            let next = if host.bursts.is_empty() { 0 } else { host.next };
            model.run_until(next.max(model.cycle() + 1), &mut host);
        } else {
            model.step(&mut host);
        }
        if host.bursts.is_empty() && host.outstanding == 0 && skips {
            model.run_while_busy(u64::MAX, &mut host);
        }
    }
    // The causes of a product's last cycle are known only to a host that asks, and in the cycle after it.
    model.step(&mut host);
    // This also brings the ranks up to the last cycle.
    let counters = model.counters();
    let record = model.take_record();
    let outcome = Outcome {
        cycles: model.cycle(),
        answers: host.answers,
        counters,
        dram: model.activity(),
        instructions: record.instructions,
        commands: record.commands,
    };
    (outcome, model.times_symmetric())
}

fn compare(preset: &str, programs: usize, cycles: u32) -> Result<(), Box<dyn Error>> {
    let config = DesignConfig::preset(preset)?;
    let options = ProgramOptions { cycles, malformed_percent: 10 };
    for (index, program) in RandomPrograms::with_options(&config, 7, options).take(programs).enumerate() {
        let every = [1, 1, 8, 60, 700][index % 5];
        let [fast, slow] =
            [true, false].map(|skips| run(&config, &program.words(), index as u64, every, skips));
        assert!(fast.cycles > 0 && fast == slow, "{preset}, program {index}, a request in {every} cycles");
    }
    Ok(())
}

#[test]
fn nothing_happens_in_the_cycles_that_are_skipped() -> Result<(), Box<dyn Error>> {
    compare("tiny", 60, 3000)?;
    compare("hermes", 20, 4000)
}

/// Products in alternating halves of the buffer, so that the rows of each are fetched while the one before runs.
#[test]
fn nothing_happens_between_products_that_follow_each_other() -> Result<(), Box<dyn Error>> {
    let config = DesignConfig::preset("tiny")?;
    let half = config.gemv().slice_words() / 2;
    for seed in 0..60 {
        let mut text = String::new();
        for product in 0..12u64 {
            let any = |salt: u64, most: u64| 1 + mix(mix(seed, product), salt) % most;
            let (cols, count, batch) = (any(0, 900), any(1, 90), any(2, 4));
            let (at, list) = ((product as u32 % 2) * half, 2048 * (product % 2));
            let dst = at + 20;
            text += &format!(
                "list list={list}, count={count}, address={:#x}\nload dst={at}, cols={cols}, batch={batch}, address={:#x}\n\
                 dot src={at}, dst={dst}, cols={cols}, batch={batch}, count={count}, address={:#x}{}\n\
                 store src={dst}, cols={count}, batch={batch}, address={:#x}\n",
                any(3, 4000),
                any(4, 4000),
                any(5, 4000),
                if any(6, 3) == 1 { String::new() } else { format!(", list={list}") },
                any(7, 4000)
            );
        }
        // The store of a product after the start of the next one.
        let mut lines: Vec<&str> = text.lines().collect();
        (3..lines.len() - 3).step_by(4).for_each(|store| lines[store..store + 4].rotate_left(1));
        let words = ndp_isa::parse(&lines.join("\n"))?.words();
        for every in [1, 60] {
            let [fast, slow] = [true, false].map(|skips| run(&config, &words, seed, every, skips));
            assert!(fast == slow, "seed {seed}, a request in {every} cycles\n{}", lines.join("\n"));
        }
    }
    Ok(())
}

/// Products of whole waves, or with two more stripes over four ranks, some after others: ranks become symmetric, all or
/// in pairs, repeatedly, and accesses to the DIMM split them.
#[test]
fn symmetric_ranks_do_what_each_would_do_by_itself() -> Result<(), Box<dyn Error>> {
    for (preset, seeds, most_cols, is_paired) in
        [("tiny", 40, 6, false), ("hermes", 12, 8, false), ("hermes", 12, 8, true)]
    {
        let config = DesignConfig::preset(preset)?;
        let wave = u64::from(config.gemv().ranks() * config.gemv().stripe_elems());
        let mut times_symmetric = 0;
        for seed in 0..seeds {
            let mut text = String::new();
            for product in 0..8u64 {
                let any = |salt: u64, most: u64| 1 + mix(mix(seed, product), salt) % most;
                let more = if is_paired && any(10, 4) > 1 { wave / 2 } else { 0 };
                let less = if any(1, 5) == 1 { any(2, wave - 1) } else { 0 };
                let (cols, sums) = (wave * any(0, most_cols) + more - less, wave + more);
                let (count, batch) = (any(3, 150), any(4, 2));
                let rows = format!("batch={batch}, count={count}, address={:#x}", any(5, 4000));
                let list = if any(6, 3) == 1 { "" } else { ", list=0" };
                let weights = [", weights=int8", ", weights=int4", "", "", ""][any(7, 5) as usize - 1];
                let shared = if list.is_empty() && !weights.is_empty() { ", shared=1" } else { "" };
                text += &format!("list list=0, count={count}, address={:#x}\n", any(8, 4000));
                text += &match any(9, 5) {
                    1 | 2 => format!("axpy src=0, dst=8, cols={sums}, {rows}{list}{weights}{shared}\n"),
                    3 => format!("import dst=8, count={}, address={:#x}\n", any(3, 3), any(5, 4000)),
                    _ => format!("dot src=0, dst=24, cols={cols}, {rows}{list}{weights}{shared}\n"),
                };
            }
            let words = ndp_isa::parse(&text)?.words();
            for every in [3, 60, 3000] {
                let [(fast, symmetric), (slow, never)] =
                    [true, false].map(|skips| run_and_count(&config, &words, seed, every, skips));
                assert!(fast == slow, "{preset}, seed {seed}, a request in {every} cycles\n{text}");
                assert_eq!(never, 0);
                times_symmetric += symmetric;
            }
        }
        assert!(times_symmetric > seeds, "{preset}: {times_symmetric}");
    }
    Ok(())
}

/// A host that offers accesses to the DIMM one after the other, and takes every answer.
struct Accesses {
    left: VecDeque<(u32, bool)>,
    tag: u8,
    under_way: Vec<u8>,
}

impl Host for Accesses {
    fn offer(&mut self, _cycle: u64) -> Option<Request> {
        if self.under_way.contains(&self.tag) {
            return None;
        }
        let (address, write) = self.left.pop_front()?;
        let tag = self.tag;
        self.under_way.push(tag);
        self.tag = tag.wrapping_add(1);
        Some(Request { kind: RequestKind::Dram { address, write }, tag })
    }

    fn answered(&mut self, _cycle: u64, answer: Answer) {
        self.under_way.retain(|tag| *tag != answer.tag);
    }

    fn idle_until(&self, cycle: u64) -> u64 {
        cycle
    }

    fn entries(&mut self, _cycle: u64, _burst: u32) -> [u32; 16] {
        [0; 16]
    }
}

/// Accesses in order, at random, to one rank, to rows in conflict; pauses and a product between them.
#[test]
fn accesses_of_a_host_that_does_nothing_else_take_the_same_cycles() -> Result<(), Box<dyn Error>> {
    for (preset, seeds) in [("tiny", 60), ("hermes", 20), ("hermes-x8", 10)] {
        let config = DesignConfig::preset(preset)?;
        let program =
            ndp_isa::parse("dot src=0, dst=24, cols=512, batch=1, count=20, address=0x100")?.words();
        let words = std::array::from_fn(|i| program.get(i).copied().unwrap_or(0));
        let (core_ps, dram_ps) = PERIODS[seeds as usize % PERIODS.len()];
        for seed in 0..seeds {
            let clocks = ClockRelation::new(core_ps, dram_ps, (seed * 377 % 4000) as i64 - 2000);
            let outcome = |at_once: bool| {
                let mut model = CycleModel::new(&config, clocks);
                model.record();
                let mut cycles = Vec::new();
                for part in 0..6 {
                    let any = |salt: u64, most: u64| mix(mix(seed, part), salt) % most;
                    let (first, writes, count) = (any(0, 1 << 20) as u32, any(1, 4), 1 + any(2, 900));
                    let access = |n: u64| {
                        let address = match any(3, 4) {
                            0 => first + any(4 + n, 1 << 16) as u32,
                            1 => first + 4 * n as u32,
                            2 => first + ((n % 2) << 15) as u32 + n as u32,
                            _ => first + n as u32,
                        };
                        let write = writes == 1 || writes > 1 && any(5000 + n, writes) == 0;
                        (address % (1 << config.dimm_burst_bits()), write)
                    };
                    let mut host = Accesses { left: VecDeque::new(), tag: 0, under_way: Vec::new() };
                    if any(9, 2) == 0 {
                        model.run_until(model.cycle() + any(10, 9000), &mut host);
                    }
                    let accesses = (0..count).map(access);
                    if at_once {
                        model.serve(accesses);
                    } else {
                        host.left = accesses.collect();
                        while !host.left.is_empty() || !host.under_way.is_empty() {
                            model.step(&mut host);
                        }
                    }
                    cycles.push(model.cycle());
                    let mut host = Traffic {
                        seed,
                        bursts: VecDeque::from([words]),
                        next: 0,
                        every: 1,
                        own: 0,
                        outstanding: 0,
                        answers: Vec::new(),
                        masks: 0,
                    };
                    while !host.bursts.is_empty() || host.outstanding > 0 || model.is_busy() {
                        model.step(&mut host);
                    }
                    cycles.push(model.cycle());
                }
                model.step(&mut Accesses { left: VecDeque::new(), tag: 0, under_way: Vec::new() });
                let counters = model.counters();
                let record = model.take_record();
                (cycles, counters, model.activity(), record.instructions, record.commands)
            };
            assert!(outcome(true) == outcome(false), "{preset}, seed {seed}");
        }
    }
    Ok(())
}
