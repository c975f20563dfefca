//! Do all that share the host's port get their turn, whatever rhythm the ranks and the host have?
//!
//! Only the port, of the small preset: host, store and transfer all want a rank in every cycle, and ranks are ready in
//! a fixed rhythm, as when core and DRAM have clocks of a simple ratio. Then answers of all ranks and of the core wait
//! for a slow host. Then the test checks the port's transfers, with random addresses, tags and data. Last, the same
//! starvation in a program.

use common::Outcome;
use common::rtl::{Mutant, Mutation, design};
use ndp_config::DesignConfig;
use ndp_hdl_language::lit;
use ndp_numerics::SplitMix64;
use ndp_sim::core::{CoreOptions, HostStalls, NdpCore};
use ndp_sim::ffi::{InputPort, Model, OpenOptions, OutputPort};
use std::error::Error;

const RANKS: usize = 2;
/// Bits of a request's tag above the host's: a store's, a transfer's.
const STORE: u64 = 1 << 8;
const TRANSFER: u64 = 1 << 9;
const CYCLES: u64 = 1200;

struct Bench {
    model: Model,
    ready: [InputPort; RANKS],
    valid: [OutputPort; RANKS],
    tag: OutputPort,
    /// Granted requests of host, store and transfer.
    granted: [u64; 3],
}

impl Bench {
    /// A port at which all three want a rank: the host `host`, the transfer `transfer`, the store both in turn.
    fn open(name: &str, host: u64, transfer: u64) -> Result<Self, Box<dyn Error>> {
        let mut model = Model::open(&design(name, "host_port", &MUTANTS)?, &OpenOptions::default())?;
        let of = |name: &str, rank: usize| name.replace('#', &rank.to_string());
        let inputs =
            |name: &str| Ok::<_, Box<dyn Error>>([model.input(&of(name, 0))?, model.input(&of(name, 1))?]);
        let ready = inputs("req#_ready_i")?;
        let valid = [model.output(&of("req#_valid_o", 0))?, model.output(&of("req#_valid_o", 1))?];
        let tag = model.output("req_tag_o")?;
        let mut set = |name: &str, value: u64| model.input(name).map(|port| model.set(port, value));
        set("store_start_i", 0)?;
        model.reset(4);
        let mut set = |name: &str, value: u64| model.input(name).map(|port| model.set(port, value));
        for (name, value) in [
            ("store_start_i", 1),
            ("response_ready_i", 1),
            ("host_valid_i", 1),
            ("host_write_i", 1),
            ("host_addr_i", host),
            ("transfer_valid_i", 1),
            ("transfer_write_i", 1),
            ("transfer_rank_i", 1 << transfer),
        ] {
            set(name, value)?;
        }
        model.tick();
        for (name, value) in [("store_start_i", 0), ("store_valid_i", 1)] {
            let port = model.input(name)?;
            model.set(port, value);
        }
        Ok(Self { model, ready, valid, tag, granted: [0; 3] })
    }

    fn cycle(&mut self, ready: [bool; RANKS]) {
        for (port, ready) in self.ready.into_iter().zip(ready) {
            self.model.set(port, ready.into());
        }
        self.model.eval();
        let goes =
            self.valid.into_iter().zip(ready).any(|(valid, ready)| ready && self.model.get(valid) == 1);
        if goes {
            let tag = self.model.get(self.tag);
            self.granted[usize::from(tag & STORE != 0) + 2 * usize::from(tag & TRANSFER != 0)] += 1;
        }
        self.model.tick();
    }
}

/// The first rhythm of the ranks in which one of three sources gets less than its third.
fn starved(name: &str) -> Result<Option<String>, Box<dyn Error>> {
    for period in 1..=8 {
        for phase in 0..period {
            let mut bench = Bench::open(name, 0, 1)?;
            (0..CYCLES).for_each(|cycle| bench.cycle([cycle % period == phase; RANKS]));
            let [host, store, transfer] = bench.granted;
            let fair = CYCLES / period / 3 - 2;
            if host.min(store).min(transfer) < fair {
                return Ok(Some(format!(
                    "ranks ready in cycle {phase} of {period}: host {host}, store {store}, transfer {transfer}; at least {fair} each"
                )));
            }
        }
    }
    Ok(None)
}

/// The first rhythm of the host in which answers of one of three sources get less than their third.
fn unanswered(name: &str) -> Result<Option<String>, Box<dyn Error>> {
    for every in [1, 2, 3, 7] {
        let mut model = Model::open(&design(name, "host_port", &MUTANTS)?, &OpenOptions::default())?;
        model.reset(4);
        let mut port = |name: &str, value: u64| -> Outcome {
            let port = model.input(name)?;
            model.set(port, value);
            Ok(())
        };
        // The host reads a register repeatedly with tag 9. Ranks answer with 1 and 2.
        let register = 1 << DesignConfig::preset("tiny")?.dimm_burst_bits();
        for (name, value) in [("host_valid_i", 1), ("host_addr_i", register), ("host_tag_i", 9)] {
            port(name, value)?;
        }
        for rank in 0..RANKS as u64 {
            port(&format!("rsp{rank}_valid_i"), 1)?;
            port(&format!("rsp{rank}_tag_i"), rank + 1)?;
        }
        let ready = model.input("response_ready_i")?;
        let (valid, tag) = (model.output("response_valid_o")?, model.output("response_tag_o")?);
        let mut taken = [0; 10];
        for cycle in 0..CYCLES {
            let takes = cycle % every == 0;
            model.set(ready, takes.into());
            model.eval();
            if takes && model.get(valid) == 1 {
                taken[model.get(tag) as usize] += 1;
            }
            model.tick();
        }
        // The core's answer takes four cycles.
        let fair = (CYCLES / every / 3 - 2).min(CYCLES / 5);
        let [first, second, core] = [taken[1], taken[2], taken[9]];
        if first.min(second).min(core) < fair {
            return Ok(Some(format!(
                "one answer in {every} cycles: rank 0 {first}, rank 1 {second}, core {core}; at least {fair} each"
            )));
        }
    }
    Ok(None)
}

#[test]
fn no_rhythm_of_the_ranks_starves_a_source() -> Outcome {
    assert_eq!(starved("tiny")?, None);
    Ok(())
}

#[test]
fn answers_of_all_ranks_and_of_the_core_get_their_turn() -> Outcome {
    assert_eq!(unanswered("tiny")?, None);
    Ok(())
}

/// Arbiters without memory of turns; an append whose address counts its beats twice.
const MUTANTS: [Mutant; 3] = [
    ("tiny", Mutation::new("mutant-turn-order", "turn_older0_1_q | turn1", |s| s.with(1, lit(0, 1)))),
    ("tiny", Mutation::new("mutant-answer-order", "answer_older0_1_q | answer1", |s| s.with(1, lit(0, 1)))),
    ("tiny", Mutation::new("mutant-append", "store_beat_q & exports_q", |s| s.part(0))),
];

#[test]
fn arbiters_that_forget_turns_are_caught() -> Outcome {
    assert!(starved("mutant-turn-order")?.is_some() && unanswered("mutant-turn-order")?.is_none());
    assert!(starved("mutant-answer-order")?.is_none() && unanswered("mutant-answer-order")?.is_some());
    Ok(())
}

/// A write of register 2 passes its two lowest bits to the link, once; nothing else does (docs/isa.md, "Addresses that
/// the host sees").
#[test]
fn the_link_is_told_by_writes_of_its_own_register_alone() -> Outcome {
    let mut model = Model::open(&design("tiny", "host_port", &MUTANTS)?, &OpenOptions::default())?;
    let core = 1 << DesignConfig::preset("tiny")?.dimm_burst_bits();
    let [valid, write, addr, data] = ["valid", "write", "addr", "data"].map(|name| format!("host_{name}_i"));
    let (valid, write, addr) = (model.input(&valid)?, model.input(&write)?, model.input(&addr)?);
    let (data, ready, control) =
        (model.input(&data)?, model.output("host_ready_o")?, model.output("control_o")?);
    model.reset(4);
    for name in ["response_ready_i", "req0_ready_i", "req1_ready_i"] {
        let port = model.input(name)?;
        model.set(port, 1);
    }
    let mut random = SplitMix64::new(7);
    let mut commands = 0;
    for address in (0..600).chain(core..core + 600) {
        for (writes, word) in [(false, 3), (true, random.next_u64()), (true, 1), (true, 2)] {
            for (port, value) in [(valid, 1), (write, writes.into()), (addr, address), (data, word)] {
                model.set(port, value);
            }
            model.eval();
            assert_eq!(model.get(ready), 1, "{address:#x}: the request before is at work");
            model.tick();
            model.set(valid, 0);
            let mut told = 0;
            for _ in 0..8 {
                model.eval();
                // Bits of two cycles stay separate.
                told = told << 2 | model.get(control);
                model.tick();
            }
            let commanded = writes && address == core + 2;
            let of = format!("{address:#x}, write {writes}, {word:#x}");
            assert_eq!(told != 0, commanded && word & 3 != 0, "{of}: {told:#x}");
            // In one cycle: the bits above and below that cycle's are zeros.
            let at = told.trailing_zeros() & !1;
            assert!(told == 0 || told >> at == word & 3, "{of}: {told:#x}");
            commands += u64::from(told != 0);
        }
    }
    assert!(commands >= 2);
    Ok(())
}

#[test]
fn a_full_rank_stops_only_what_goes_to_it() -> Outcome {
    let mut bench = Bench::open("tiny", 0, 1)?;
    (0..CYCLES).for_each(|_| bench.cycle([false, true]));
    let [host, store, transfer] = bench.granted;
    // The store waits for rank 0 with its first beat or its second.
    assert!(
        host == 0 && store <= 1 && transfer >= CYCLES - 2,
        "host {host}, store {store}, transfer {transfer}"
    );
    Ok(())
}

type Beat = [u32; 16];

/// A request at a rank: the rank, whether it is a write, its burst, its tag, its data.
type Passed = (u64, u64, u64, u64, Beat);

/// The port with ranks that are always ready.
struct Alone {
    model: Model,
    random: SplitMix64,
}

impl Alone {
    fn open(config: &str) -> Result<Self, Box<dyn Error>> {
        let mut model = Model::open(&design(config, "host_port", &MUTANTS)?, &OpenOptions::default())?;
        model.reset(4);
        let mut port = Self { model, random: SplitMix64::new(7) };
        port.set(&[("req0_ready_i", 1), ("req1_ready_i", 1), ("response_ready_i", 1)])?;
        Ok(port)
    }

    fn draw(&mut self, bits: u32) -> u64 {
        self.random.next_u64() >> (64 - bits)
    }

    fn draw_beat(&mut self) -> Beat {
        std::array::from_fn(|_| self.draw(32) as u32)
    }

    fn set(&mut self, values: &[(&str, u64)]) -> Outcome {
        for (name, value) in values {
            let port = self.model.input(name)?;
            self.model.set(port, *value);
        }
        Ok(())
    }

    fn set_beat(&mut self, name: &str, beat: &Beat) -> Outcome {
        let port = self.model.input(name)?;
        self.model.set_words(port, beat);
        Ok(())
    }

    fn get(&mut self, name: &str) -> Result<u64, Box<dyn Error>> {
        self.model.eval();
        Ok(self.model.get(self.model.output(name)?))
    }

    fn get_words<const N: usize>(&mut self, name: &str) -> Result<[u32; N], Box<dyn Error>> {
        self.model.eval();
        let mut words = [0; N];
        self.model.get_words(self.model.output(name)?, &mut words);
        Ok(words)
    }

    fn passed(&mut self) -> Result<Option<Passed>, Box<dyn Error>> {
        let rank = match [self.get("req0_valid_o")?, self.get("req1_valid_o")?] {
            [0, 0] => return Ok(None),
            [first, second] => {
                assert_eq!(first + second, 1);
                second
            }
        };
        let [write, addr, tag] = ["req_write_o", "req_addr_o", "req_tag_o"].map(|name| self.get(name));
        Ok(Some((rank, write?, addr?, tag?, self.get_words("req_data_o")?)))
    }

    fn request(&mut self, write: u64, addr: u64, tag: u64, data: &Beat) -> Outcome {
        assert_eq!(self.get("host_ready_o")?, 1);
        self.set_beat("host_data_i", data)?;
        let request =
            [("host_valid_i", 1), ("host_write_i", write), ("host_addr_i", addr), ("host_tag_i", tag)];
        self.set(&request)?;
        self.model.tick();
        self.set(&[("host_valid_i", 0)])
    }

    /// The only answer that the host gets in this cycle.
    fn answered(&mut self, write: u64, tag: u64, data: &Beat) -> Outcome {
        let names = ["response_valid_o", "response_write_o", "response_tag_o"];
        let [valid, is_write, of] = names.map(|name| self.get(name));
        assert_eq!((valid?, is_write?, of?), (1, write, tag));
        assert_eq!(self.get_words("response_data_o")?, *data);
        self.model.tick();
        assert_eq!(self.get("response_valid_o")?, 0);
        Ok(())
    }

    /// An answer of a rank; the bits above the host's tag say whose it is.
    fn answer(&mut self, rank: u64, tag: u64) -> Outcome {
        let (write, data) = (self.draw(1), self.draw_beat());
        let of = |name: &str| name.replace('#', &rank.to_string());
        self.set_beat(&of("rsp#_data_i"), &data)?;
        self.set(&[(&of("rsp#_valid_i"), 1), (&of("rsp#_write_i"), write), (&of("rsp#_tag_i"), tag)])?;
        assert_eq!(self.get(&of("rsp#_ready_o"))?, 1);
        assert_eq!(self.get(&of("transfer#_valid_o"))?, u64::from(tag & TRANSFER != 0));
        self.model.tick();
        self.set(&[(&of("rsp#_valid_i"), 0)])?;
        if tag & (STORE | TRANSFER) == 0 {
            return self.answered(write, tag, &data);
        }
        assert_eq!(self.get("response_valid_o")?, 0);
        Ok(())
    }

    /// The beats of a store, and its acknowledgements. In an append each vector is a row of one stripe, filled beat by
    /// beat with the others; an export fills such rows one after the other.
    fn store(&mut self, config: &DesignConfig) -> Outcome {
        let beats = u64::from(config.gemv().beats_per_stripe());
        let [address, row] = [config.dimm_burst_bits(), config.gemv().row_bits()].map(|bits| self.draw(bits));
        let (kind, vectors) = (self.draw(8) % 3, 1 + self.draw(8) % u64::from(config.gemv().max_batch()));
        let start = [("store_rows_i", u64::from(kind == 1)), ("store_waves_i", u64::from(kind == 2))];
        self.set(&start)?;
        self.set(&[("store_start_i", 1), ("store_row_i", row), ("store_batch_i", vectors)])?;
        self.set(&[("store_address_i", address)])?;
        self.model.tick();
        self.set(&[("store_start_i", 0), ("store_valid_i", 1)])?;
        let of_row = |vector: u64, beat: u64| {
            let row = (row + vector) & ((1 << config.gemv().row_bits()) - 1);
            (row % 2, address + row / 2 * beats + beat)
        };
        for beat in 0..vectors * beats {
            let (rank, burst) = match kind {
                0 => ((address + beat) % 2, (address + beat) / 2),
                1 => of_row(beat % vectors, beat / vectors),
                _ => of_row(beat / beats, beat % beats),
            };
            let burst = burst % (1 << config.dram().burst_bits());
            let data = self.draw_beat();
            self.set_beat("store_data_i", &data)?;
            let (at, write, addr, tag, passed) = self.passed()?.ok_or("no request")?;
            let what =
                format!("kind {kind}, beat {beat} of {vectors} vectors, address {address:#x}, row {row:#x}");
            assert_eq!((at, write, addr, tag & STORE, passed), (rank, 1, burst, STORE, data), "{what}");
            self.model.tick();
        }
        self.set(&[("store_valid_i", 0)])?;
        for _ in 0..vectors * beats {
            assert_eq!(self.get("stores_pending_o")?, 1);
            let rank = self.draw(1);
            self.answer(rank, STORE)?;
        }
        assert_eq!(self.get("stores_pending_o")?, 0);
        Ok(())
    }

    /// A request of the upper half: registers, the queue, ignored addresses.
    fn of_the_core(&mut self, config: &DesignConfig) -> Outcome {
        let (write, tag, data) = (self.draw(1), self.draw(8), self.draw_beat());
        let number = match self.draw(2) {
            0 => 0,
            1 => 2,
            2 => self.draw(8),
            _ => self.draw(config.dimm_burst_bits()),
        };
        let entries = u64::from(config.core().queue_entries());
        let (queues, count) = (write == 1 && number == 0, entries - self.draw(3));
        // A burst has four instructions.
        let full = count + 4 > entries;
        self.set(&[("queue_count_i", count)])?;
        self.request(write, 1 << config.dimm_burst_bits() | number, tag, &data)?;
        assert_eq!(self.passed()?, None);
        assert_eq!((self.get("register_re_o")?, self.get("register_o")?), (1 - write, number % 256));
        assert_eq!(self.get("overflow_o")?, u64::from(queues && full));
        let control = if write == 1 && number == 2 { u64::from(data[0] % 4) } else { 0 };
        assert_eq!(self.get("control_o")?, control, "{number:#x}");
        let register = self.draw_beat();
        self.model.tick();
        self.set_beat("register_data_i", &register)?;
        let pushed = u64::from(queues && !full);
        for (before, instruction) in data.chunks(4).enumerate() {
            let left = if pushed == 1 { 0b1111 >> before } else { 0 };
            assert_eq!((self.get("queue_push_o")?, self.get("unpacking_o")?), (pushed, left));
            if pushed == 1 {
                assert_eq!(self.get_words::<4>("queue_data_o")?, *instruction);
            }
            if self.get("response_valid_o")? == 1 {
                let shown = if write == 0 && number < 256 { register } else { [0; 16] };
                self.answered(write, tag, &shown)?;
            } else {
                self.model.tick();
            }
        }
        assert_eq!((self.get("unpacking_o")?, self.get("host_ready_o")?), (0, 1));
        Ok(())
    }
}

/// Requests and answers of all kinds, one after the other.
fn pass(name: &str) -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let mut port = Alone::open(name)?;
    for _ in 0..300 {
        let (write, addr, tag, data) =
            (port.draw(1), port.draw(config.dimm_burst_bits()), port.draw(8), port.draw_beat());
        port.request(write, addr, tag, &data)?;
        assert_eq!(port.passed()?, Some((addr % 2, write, addr / 2, tag, data)));
        port.model.tick();
        assert_eq!(port.passed()?, None);
        let (rank, burst, data) = (port.draw(1), port.draw(config.dram().burst_bits()), port.draw_beat());
        port.set_beat("transfer_data_i", &data)?;
        let transfer =
            [("transfer_rank_i", 1 << rank), ("transfer_addr_i", burst), ("transfer_write_i", write)];
        port.set(&transfer)?;
        port.set(&[("transfer_valid_i", 1)])?;
        let (at, is_write, to, owner, passed) = port.passed()?.ok_or("no request")?;
        assert_eq!((at, is_write, to, owner & TRANSFER, passed), (rank, write, burst, TRANSFER, data));
        assert_eq!(port.get("transfer_ready_o")?, 1);
        port.model.tick();
        port.set(&[("transfer_valid_i", 0)])?;
        let (rank, tag) = (port.draw(1), port.draw(8));
        port.answer(rank, tag)?;
        port.answer(1 - rank, TRANSFER | tag)?;
        port.store(&config)?;
        port.of_the_core(&config)?;
    }
    Ok(())
}

#[test]
fn what_passes_the_port_keeps_its_address_tag_and_data() -> Outcome {
    pass("tiny")
}

#[test]
#[should_panic(expected = "kind 1, beat")]
fn an_append_that_goes_on_too_fast_is_caught() {
    let _ = pass("mutant-append");
}

/// Most cycles of a lone read of rank 1: a refresh, a row cycle and the ways there and back, and its turn among three
/// at a host that takes one answer in five cycles.
const LONGEST: u64 = 700;

/// Answers to stores wait after such a read, and barriers wait for them.
#[test]
fn a_slow_host_that_streams_from_one_rank_is_answered_by_the_others() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let stalls = HostStalls { request: 0, response: 80 };
    let mut core = NdpCore::open(&config, &CoreOptions { stalls, ..CoreOptions::default() })?;
    let work = "load dst=0, cols=256, address=0x100\nstore src=0, cols=256, address=0x2000\nbarrier\n\
                dot src=0, dst=32, cols=256, count=256, address=0x8000\nbarrier\n";
    let program =
        ndp_isa::parse(&format!(".random 0x100 bursts=32 seed=3 kind=normal\n{}", work.repeat(12)))?;
    let streamed = 1 << (config.dimm_burst_bits() - 1);
    let lone = streamed + 1;
    let (mut streams, mut lone_waits, mut waits) = (0, false, Vec::new());
    core.place(&program)?;
    let run = core.run_words(&program.words(), |core| {
        while let Some(answer) = core.take_answer() {
            if answer.request.address == lone {
                lone_waits = false;
                waits.push(answer.answered - answer.taken);
            } else if answer.request.address == streamed {
                streams -= 1;
            }
        }
        while streams < 40 {
            streams += 1;
            core.submit(streamed, None);
        }
        if !lone_waits && streams == 40 {
            lone_waits = true;
            core.submit(lone, None);
        }
    })?;
    let longest = waits.iter().max().copied().unwrap_or_default();
    println!("{} reads of rank 1, longest {longest} cycles", waits.len());
    assert_eq!(run.status.malformed, 0);
    assert!(waits.len() > 20 && longest <= LONGEST, "{waits:?}");
    core.check_protocol()?;
    Ok(())
}
