//! A rank with a DFI port: is the device initialised as JESD79-4 says, and does every burst come and go at the times of
//! the DFI specification?
//!
//! The port's RTL lies between the pins of `rank_port` and a PHY, written here from DFI 4.0 and JESD79-4. The PHY
//! drives the device model with the mode registers that the port has set. Read data come back at random times up to the
//! latest one. Mutants.

use common::rank::{Bench, DataPath, Request, Segment, Stalls};
use common::rtl::{Mutant, Mutation, design, design_config};
use common::{Outcome, amount};
use ndp_config::{DfiConfig, DramConfig};
use ndp_dram::{CommandPins, Rank};
use ndp_hdl_language::{lit, repeat};
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{Clocks, InputPort, Model, OpenOptions, OutputPort};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::error::Error;
use std::sync::{Arc, Mutex};

const COMMAND_CLOCKS: u64 = 1;
const DESELECTED: CommandPins = CommandPins { cs_n: true, act_n: true, bank_group: 0, bank: 0, address: 0 };

/// A PHY's inputs from the port in a clock.
#[derive(Clone, Copy)]
struct Seen {
    pins: CommandPins,
    reset_n: bool,
    cke: bool,
    odt: bool,
    wrdata: [u64; 2],
    wrdata_en: bool,
    wrdata_mask: u64,
    rddata_en: bool,
}

/// The bench's findings, for the test to read when the bench has gone.
#[derive(Default)]
struct Findings {
    errors: Vec<String>,
    modes: Vec<(u64, u32)>,
    reads: u64,
    writes: u64,
    /// Clock of the last WR at the controller's pins.
    last_write: Option<u64>,
    /// Clocks from power up until the device could be used.
    initialised: u64,
}

/// The PHY and the device's power up.
struct Phy {
    dram: DramConfig,
    dfi: DfiConfig,
    now: u64,
    /// When the PHY reports that it is ready.
    complete: u64,
    released: Option<u64>,
    cke_since: Option<u64>,
    last_command: Option<(u64, u64)>,
    dll_reset: u64,
    calibrated: Option<u64>,
    latencies: [u64; 2],
    sent: VecDeque<CommandPins>,
    read_enables: BTreeSet<u64>,
    write_enables: BTreeSet<u64>,
    odt: BTreeSet<u64>,
    samples: BTreeMap<u64, u64>,
    bus: BTreeMap<u64, [u64; 2]>,
    back: BTreeMap<u64, [u64; 2]>,
    newest: u64,
    extra: u64,
    words: u64,
    random: SplitMix64,
    found: Arc<Mutex<Findings>>,
}

impl Phy {
    fn error(&self, what: String) {
        if let Ok(mut found) = self.found.lock() {
            found.errors.push(format!("clock {}: {what}", self.now));
        }
    }

    fn clocks(&self, ns: u64) -> u64 {
        (ns * 1000).div_ceil(self.dram.clock_ps())
    }

    fn at_least(&self, what: &str, since: u64, least: u64) {
        if self.now - since < least {
            self.error(format!("{what}: {} clocks, at least {least} expected", self.now - since));
        }
    }

    /// A wait of the power up, which takes exactly as long as it has to.
    fn exactly(&self, what: &str, since: u64, clocks: u64) {
        if self.now != since + clocks {
            self.error(format!("{what}: from clock {since}, {clocks} clocks expected"));
        }
    }

    /// Reset and CKE as JESD79-4, 3.3.1 has them.
    fn power_up(&mut self, seen: &Seen) {
        match (self.released, seen.reset_n) {
            (None, true) => {
                // The pins are registers: they change a clock after the PHY's answer.
                let clocks = self.dfi.reset_clocks(&self.dram);
                self.exactly("RESET_n low", self.complete + 1, clocks.into());
                self.released = Some(self.now);
            }
            (Some(_), false) => self.error("RESET_n goes low again".into()),
            _ => {}
        }
        match (self.cke_since, seen.cke) {
            (None, true) => {
                let clocks = self.dfi.cke_clocks(&self.dram);
                self.exactly("CKE low", self.released.unwrap_or(self.now), clocks.into());
                self.cke_since = Some(self.now);
            }
            (Some(_), false) => self.error("CKE goes low again".into()),
            _ => {}
        }
    }

    /// A command before the device can be used: mode registers in their order, then the calibration.
    fn set_up(&mut self, pins: &CommandPins) {
        let Some(cke) = self.cke_since else { return self.error("a command without CKE".into()) };
        let t_xpr = u64::from(self.dram.t_rfc()) + self.clocks(10);
        let t_mod = self.clocks(15).max(24);
        let code = pins.address >> 14 & 7;
        match code {
            0b000 if pins.act_n => {
                match self.last_command {
                    Some((when, _)) => self.exactly("tMRD", when, 8),
                    // Commands pass one register more than CKE and the report that the device is ready.
                    None => self.exactly("tXPR", cke, t_xpr.max(5) + 1),
                }
                let mode = u64::from(pins.bank_group) << 2 | u64::from(pins.bank);
                if mode == 0 {
                    self.dll_reset = self.now;
                }
                self.last_command = Some((self.now, mode));
                self.mode(mode, pins.address);
            }
            0b110 if pins.act_n && pins.address >> 10 & 1 == 1 => {
                self.exactly("tMOD", self.last_command.map_or(0, |last| last.0), t_mod);
                self.calibrated = Some(self.now);
            }
            _ => self.error(format!("{pins:?} before the device can be used")),
        }
    }

    fn mode(&mut self, mode: u64, value: u32) {
        let bits = |from: u32, count: u32| u64::from(value >> from & ((1 << count) - 1));
        match mode {
            0 => {
                if bits(0, 2) != 0 || bits(3, 1) != 0 || bits(8, 1) != 1 {
                    self.error(format!(
                        "MR0 {value:#x}: sequential bursts of eight and a reset of the DLL expected"
                    ));
                }
                // Table of MR0: A12, A6:A4, A2.
                let plain = [9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 23, 17, 19, 21];
                let code = bits(4, 3) << 1 | bits(2, 1);
                self.latencies[0] = if bits(12, 1) == 1 { 25 + code } else { plain[code as usize] };
            }
            1 if bits(0, 1) == 0 => self.error("MR1: the DLL is off".into()),
            2 => self.latencies[1] = [9, 10, 11, 12, 14, 16, 18, 20][bits(3, 3) as usize],
            6 => {
                let clocks = 4 + bits(10, 3);
                if clocks != u64::from(self.dram.t_ccd_l()).clamp(4, 8) {
                    self.error(format!("MR6: tCCD_L of {clocks} clocks"));
                }
            }
            _ => {}
        }
        if let Ok(mut found) = self.found.lock() {
            found.modes.push((mode, value));
        }
    }

    fn command(&mut self, pins: &CommandPins) {
        let Some(calibrated) = self.calibrated else { return self.set_up(pins) };
        self.at_least("tZQinit", calibrated, 1024);
        self.at_least("tDLLK", self.dll_reset, 1024);
        let (now, dram, dfi) = (self.now, &self.dram, &self.dfi);
        let burst = 0..u64::from(DramConfig::T_BL);
        match (pins.act_n, pins.address >> 14 & 7) {
            (true, 0b101) => {
                let enable = now + u64::from(dfi.t_rddata_en(dram)) + self.latencies[0]
                    - u64::from(dfi.cas_latency(dram));
                self.read_enables.extend(burst.map(|clock| enable + clock));
            }
            (true, 0b100) => {
                let enable = now + u64::from(dfi.t_phy_wrlat(dram));
                for clock in burst {
                    self.write_enables.insert(enable + clock);
                    // The bus is driven the write latency after the command reaches the device.
                    let sampled = enable + u64::from(dfi.t_phy_wrdata()) + clock;
                    self.samples.insert(sampled, now + COMMAND_CLOCKS + self.latencies[1] + clock);
                }
                self.odt.extend(now..now + 6);
            }
            _ => {}
        }
    }

    fn clock(&mut self, seen: &Seen, rank: Option<&mut Rank>) -> Option<[u64; 2]> {
        self.power_up(seen);
        if !seen.pins.cs_n {
            self.command(&seen.pins);
        }
        let now = self.now;
        for (what, expected, found) in [
            ("dfi_rddata_en", self.read_enables.remove(&now), seen.rddata_en),
            ("dfi_wrdata_en", self.write_enables.remove(&now), seen.wrdata_en),
            ("dfi_odt", self.odt.remove(&now), seen.odt),
        ] {
            if expected != found {
                self.error(format!("{what} is {found}, expected {expected}"));
            }
        }
        if let Some(when) = self.samples.remove(&now) {
            if when < now || seen.wrdata_mask != 0 {
                self.error(format!("write data for clock {when}, mask {:#x}", seen.wrdata_mask));
            }
            self.bus.insert(when, seen.wrdata);
        }
        self.sent.push_back(if self.calibrated.is_some_and(|when| when < now) {
            seen.pins
        } else {
            DESELECTED
        });
        let pins = self.sent.pop_front().unwrap_or(DESELECTED);
        let write = self.bus.remove(&now);
        if let (Some(rank), true) = (rank, self.calibrated.is_some()) {
            if let Some(data) = rank.clock(&pins, write) {
                // All of a burst has one delay.
                if self.words.is_multiple_of(u64::from(DramConfig::T_BL)) {
                    let most = u64::from(self.dfi.read_lag()) - COMMAND_CLOCKS;
                    self.extra = 1 + self.random.next_u64() % most;
                }
                self.words += 1;
                self.newest = (now + self.extra).max(self.newest + 1);
                self.back.insert(self.newest, data);
            }
            if let Ok(mut found) = self.found.lock() {
                found.writes += u64::from(write.is_some());
                found.reads = self.words;
            }
        }
        self.now += 1;
        self.back.remove(&now)
    }
}

struct Path {
    model: Model,
    inputs: [InputPort; 5],
    data: InputPort,
    driven: InputPort,
    rddata: InputPort,
    rddata_valid: InputPort,
    outputs: [OutputPort; 10],
    wrdata: OutputPort,
    dq: OutputPort,
    ready: OutputPort,
    late: OutputPort,
    phy: Phy,
}

impl Path {
    /// After power up. At `complete` the PHY reports that it is ready.
    fn open(name: &str, device: &DramConfig, seed: u64, complete: u64) -> Result<Self, Box<dyn Error>> {
        let of = MUTANTS.iter().find(|(_, mutation)| mutation.name == name).map_or(name, |(of, _)| *of);
        let config = design_config(of)?;
        let options = OpenOptions { random_contents: Some(seed as u32), ..OpenOptions::default() };
        let mut model = Model::open(&design(name, "dfi_port", &MUTANTS)?, &options)?;
        let (input, output) = (|name: &str| model.input(name), |name: &str| model.output(name));
        let inputs = [input("cs_n_i")?, input("act_n_i")?, input("bg_i")?, input("ba_i")?, input("a_i")?];
        let [data, driven] = [input("dq_i")?, input("dq_oe_i")?];
        let [rddata, rddata_valid] = [input("dfi_rddata")?, input("dfi_rddata_valid")?];
        let outputs = [
            output("dfi_cs_n")?,
            output("dfi_act_n")?,
            output("dfi_bg")?,
            output("dfi_bank")?,
            output("dfi_address")?,
            output("dfi_reset_n")?,
            output("dfi_cke")?,
            output("dfi_odt")?,
            output("dfi_wrdata_en")?,
            output("dfi_rddata_en")?,
        ];
        let [wrdata, dq, ready, late] =
            [output("dfi_wrdata")?, output("dq_o")?, output("ready_o")?, output("late_o")?];
        let done = input("dfi_init_complete")?;
        for port in [done, driven, rddata_valid] {
            model.set(port, 0);
        }
        model.set(inputs[0], 1);
        model.reset(4);
        let phy = Phy {
            dram: device.clone(),
            dfi: config.dfi().clone(),
            now: 0,
            complete,
            released: None,
            cke_since: None,
            last_command: None,
            dll_reset: 0,
            calibrated: None,
            latencies: [0; 2],
            sent: VecDeque::from(vec![DESELECTED; COMMAND_CLOCKS as usize]),
            read_enables: BTreeSet::new(),
            write_enables: BTreeSet::new(),
            odt: BTreeSet::new(),
            samples: BTreeMap::new(),
            bus: BTreeMap::new(),
            back: BTreeMap::new(),
            newest: 0,
            extra: 1,
            words: 0,
            random: SplitMix64::new(seed),
            found: Arc::default(),
        };
        let mut path =
            Self { model, inputs, data, driven, rddata, rddata_valid, outputs, wrdata, dq, ready, late, phy };
        while path.model.get(path.ready) == 0 {
            path.model.set(done, (path.phy.now >= path.phy.complete).into());
            path.step(&DESELECTED, None, None);
            if path.phy.now > 3_000_000 {
                return Err("the device is never ready".into());
            }
        }
        let initialised = path.phy.now;
        path.phy.exactly("tZQinit and tDLLK", path.phy.calibrated.unwrap_or(initialised), 1024 - 1);
        if let Ok(mut found) = path.phy.found.lock() {
            found.initialised = initialised;
        }
        Ok(path)
    }

    fn seen(&self) -> Seen {
        let [cs_n, act_n, group, bank, address, reset_n, cke, odt, wrdata_en, rddata_en] =
            self.outputs.map(|port| self.model.get(port));
        let data = self.model.get_u128(self.wrdata);
        Seen {
            pins: CommandPins {
                cs_n: cs_n == 1,
                act_n: act_n == 1,
                bank_group: group as u8,
                bank: bank as u8,
                address: address as u32,
            },
            reset_n: reset_n == 1,
            cke: cke == 1,
            odt: odt == 1,
            wrdata: [data as u64, (data >> 64) as u64],
            wrdata_en: wrdata_en == 1,
            wrdata_mask: 0,
            rddata_en: rddata_en == 1,
        }
    }

    fn step(&mut self, pins: &CommandPins, write: Option<[u64; 2]>, rank: Option<&mut Rank>) -> [u64; 2] {
        let values = [
            pins.cs_n.into(),
            pins.act_n.into(),
            pins.bank_group.into(),
            pins.bank.into(),
            u64::from(pins.address),
        ];
        for (port, value) in self.inputs.into_iter().zip(values) {
            self.model.set(port, value);
        }
        let wide = |[low, high]: [u64; 2]| u128::from(high) << 64 | u128::from(low);
        if !pins.cs_n
            && pins.act_n
            && pins.address >> 14 & 7 == 0b100
            && let Ok(mut found) = self.phy.found.lock()
        {
            found.last_write = Some(self.phy.now);
        }
        self.model.set(self.driven, write.is_some().into());
        self.model.set_u128(self.data, wide(write.unwrap_or_default()));
        let dq = self.model.get_u128(self.dq);
        let seen = self.seen();
        let back = self.phy.clock(&seen, rank);
        self.model.set(self.rddata_valid, back.is_some().into());
        let noise = [self.phy.random.next_u64(), self.phy.random.next_u64()];
        self.model.set_u128(self.rddata, wide(back.unwrap_or(noise)));
        self.model.tick();
        if self.model.get(self.late) == 1 {
            self.phy.error("read data are late".into());
        }
        [dq as u64, (dq >> 64) as u64]
    }
}

impl DataPath for Path {
    fn clock(&mut self, rank: &mut Rank, pins: &CommandPins, write: Option<[u64; 2]>) -> [u64; 2] {
        self.step(pins, write, Some(rank))
    }
}

type Found = Arc<Mutex<Findings>>;

fn open(name: &str, seed: u64, complete: u64) -> Result<(Bench, Found), Box<dyn Error>> {
    let device = design_config("dfi-device")?;
    let device = device.dram();
    let path = Path::open(name, device, seed, complete)?;
    let found = path.phy.found.clone();
    let clocks = Clocks::new(1000, device.clock_ps());
    let mut bench = Bench::open_at(&design("dfi", "rank_port", &[])?, device, seed, clocks)?;
    bench.path = Some(Box::new(path));
    Ok((bench, found))
}

fn whole(found: &Mutex<Findings>) -> Outcome {
    let found = found.lock().map_err(|e| e.to_string())?;
    found.errors.first().map_or(Ok(()), |first| Err(first.clone().into()))
}

fn traffic(name: &str, seed: u64, stalls: Stalls, complete: u64) -> Result<Found, Box<dyn Error>> {
    let (mut bench, found) = open(name, seed, complete)?;
    bench.stalls = stalls;
    add_traffic(&mut bench, 400, 2500);
    bench.drain()?;
    bench.verdict()?;
    whole(&found)?;
    Ok(found)
}

fn add_traffic(bench: &mut Bench, segments: u64, requests: u64) {
    let half = bench.rank.config().bursts() / 2;
    for _ in 0..segments {
        let start = bench.below(256);
        let bursts = 1 + bench.below(16.min(256 - start));
        let address = half + bench.below(16) * 256 + start;
        let tag = bench.below(16);
        bench.segments.push_back(Segment { address, bursts, tag });
    }
    for _ in 0..requests {
        let address = bench.below(12) * 256 + bench.below(8);
        let write = (bench.below(2) == 0).then(|| bench.draw_burst());
        let tag = bench.below(512);
        bench.requests.push_back(Request { address, write, tag });
    }
}

/// A reset of the controller at every clock from a WR at its pins to well beyond its data, with reads and other writes
/// before and after it. The burst is then the old one, or the new one with zeros for words that were not driven any
/// more.
fn resets_at_every_clock(name: &str) -> Outcome {
    let (mut bench, found) = open(name, 21, 0)?;
    let device = bench.rank.config().clone();
    let mut cut_short = 0;
    for clock in 0..u64::from(device.t_cwl() + DramConfig::T_BL + device.t_cl()) {
        let since = bench.rank.cycle();
        let other = 256 * bench.below(8);
        bench.requests.push_back(Request { address: other, write: None, tag: 1 });
        bench.drain()?;
        let (address, fresh) = (8 + clock, bench.draw_burst());
        let old = bench.rank.read_burst(address);
        found.lock().map_err(|e| e.to_string())?.last_write = None;
        bench.requests.push_back(Request { address, write: Some(fresh), tag: 2 });
        for tag in 3..9 {
            let write = (tag % 3 == 0).then(|| bench.draw_burst());
            bench.requests.push_back(Request { address: 256 * tag, write, tag });
        }
        while found.lock().map_err(|e| e.to_string())?.last_write.is_none() {
            bench.step()?;
        }
        let reset = bench.rank.cycle() + clock;
        while bench.rank.cycle() < reset {
            bench.step()?;
        }
        bench.reset();
        whole(&found).map_err(|e| format!("a reset {clock} clocks after WR: {e}"))?;
        let left = bench.rank.read_burst(address);
        let driven = (0..4).take_while(|word| left[2 * word..][..2] == fresh[2 * word..][..2]).count();
        if left != old && left[2 * driven..].iter().any(|word| *word != 0) {
            return Err(format!("a reset {clock} clocks after WR leaves {left:x?} of {fresh:x?}").into());
        }
        cut_short += usize::from(left != old && driven < 4);
        // Each reset costs a REF, and the device takes a limited number of them.
        while bench.rank.cycle() < since + u64::from(device.t_refi()) / 8 {
            bench.step()?;
        }
        bench.verdict()?;
    }
    bench.drain()?;
    bench.verdict()?;
    whole(&found)?;
    if cut_short == 0 { Err("no write was cut short".into()) } else { Ok(()) }
}

#[test]
fn a_reset_at_every_clock_of_a_write_leaves_its_handshake_whole() -> Outcome {
    resets_at_every_clock("dfi")
}

#[test]
fn resets_amid_traffic_leave_handshakes_whole_and_lose_no_data() -> Outcome {
    let (mut bench, found) = open("dfi", 22, 0)?;
    for round in 0..amount(120) {
        bench.stalls = STALLS[round % 3];
        add_traffic(&mut bench, 40, 100);
        for _ in 0..2500 + bench.below(3000) {
            bench.step().map_err(|e| format!("round {round}: {e}"))?;
        }
        bench.reset();
        whole(&found).map_err(|e| format!("round {round}: {e}"))?;
    }
    add_traffic(&mut bench, 100, 300);
    bench.drain()?;
    bench.verdict()?;
    whole(&found)
}

const STALLS: [Stalls; 3] = [
    Stalls { segment: 0, request: 0, beat: 0, response: 0 },
    Stalls { segment: 100, request: 100, beat: 100, response: 100 },
    Stalls { segment: 0, request: 200, beat: 200, response: 240 },
];

#[test]
fn bursts_come_and_go_through_the_port_and_a_phy() -> Outcome {
    for (seed, stalls) in (1..).zip(STALLS) {
        let found = traffic("dfi", seed, stalls, 100 * seed).map_err(|e| format!("seed {seed}: {e}"))?;
        let found = found.lock().map_err(|e| e.to_string())?;
        println!(
            "seed {seed}: initialised in {} clocks, {} words read, {} written",
            found.initialised, found.reads, found.writes
        );
        let order: Vec<u64> = found.modes.iter().map(|(mode, _)| *mode).collect();
        assert_eq!(order, [3, 6, 5, 4, 2, 1, 0]);
        assert!(found.reads > 10_000 && found.writes > 4000);
    }
    Ok(())
}

/// The values of the standard for a power up of 700 us, and the mode registers of DDR4-3200 with a CAS latency of 24.
#[test]
fn a_device_is_powered_up_as_long_as_the_standard_says() -> Outcome {
    let path = Path::open("dfi-slow", design_config("dfi-device")?.dram(), 1, 0)?;
    let found = path.phy.found.lock().map_err(|e| e.to_string())?;
    assert_eq!(found.errors, Vec::<String>::new());
    let [reset, cke] = [path.phy.released, path.phy.cke_since].map(Option::unwrap_or_default);
    assert!(reset >= 320_000 && cke - reset >= 800_000, "{reset}, {cke}");
    let modes: BTreeMap<u64, u32> = found.modes.iter().copied().collect();
    // CL 24 is code 01011, WR 24 and RTP 12 code 0110, CWL 16 code 101, tCCD_L 8 code 100.
    assert_eq!(modes[&0], 0b101 << 4 | 1 << 2 | 0b110 << 9 | 1 << 8);
    assert_eq!((modes[&2] >> 3 & 7, modes[&6] >> 10), (0b101, 0b100));
    Ok(())
}

/// Faults of the port: waits that are a clock shorter, the wrong mode register, commands, write data, ODT and read data
/// a clock off. The last two show when the controller is reset: its pins decide on the enable, and words that it does
/// not drive are no zeros.
const MUTANTS: [Mutant; 8] = [
    ("dfi", Mutation::new("mutant-wait", "left_q == 13'h1", |s| s.with(1, lit(2, 13)))),
    ("dfi", Mutation::new("mutant-mode", "steps_mode[1:0]", |s| !s.old())),
    (
        "dfi",
        Mutation::new("mutant-command", "(steps_ready ? pins2_q : ..)", |s| s.with(1, s.signal("pins1_q"))),
    ),
    ("dfi", Mutation::new("mutant-data", "wrdata0_q", |s| s.signal("dq_i"))),
    (
        "dfi",
        Mutation::new("mutant-odt", "writes_age3_q | writes_age4_q | writes_age5_q", |s| {
            s.with(0, lit(0, 1))
        }),
    ),
    (
        "dfi",
        Mutation::new("mutant-read", "reads_age32_q | reads_age33_q", |s| {
            s.with(0, s.signal("reads_age31_q"))
        }),
    ),
    (
        "dfi",
        Mutation::new(
            "mutant-enable",
            "(|{writes_age16_q, writes_age17_q, writes_age18_q, writes_age19_q})",
            |s| s.signal("dq_oe_i"),
        ),
    ),
    (
        "dfi",
        Mutation::new("mutant-driven", "dq_i & {128{dq_oe_i}}", |s| {
            s.part(0) | repeat(128, !s.signal("dq_oe_i"))
        }),
    ),
];

#[test]
fn mutants_are_caught() -> Outcome {
    for (_, Mutation { name, .. }) in &MUTANTS[..6] {
        let found = traffic(name, 7, STALLS[1], 0).err().ok_or(*name)?;
        println!("{name}: {found}");
    }
    Ok(())
}

#[test]
fn faults_that_a_reset_shows_are_caught() -> Outcome {
    for (_, Mutation { name, .. }) in &MUTANTS[6..] {
        traffic(name, 7, STALLS[1], 0).map_err(|e| format!("{name} without a reset: {e}"))?;
        let found = resets_at_every_clock(name).err().ok_or(*name)?;
        println!("{name}: {found}");
    }
    Ok(())
}
