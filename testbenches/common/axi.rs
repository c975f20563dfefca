//! An AXI4 manager with random traffic, and the expected answers of its subordinate, written from the standard (Arm IHI
//! 0022) and `docs/axi.md`.
//!
//! Addresses and lanes of beats are the formulae of A3.4.1. The subordinate serves a memory of lines of 64 bytes; a
//! place with a write in flight is not read, and vice versa, as AXI has no order between the two.

use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{InputPort, Model, OutputPort};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::error::Error;

pub const LINE: u64 = 64;
pub type Line = [u8; LINE as usize];
/// Cycles without any transfer after which it counts as hanging.
const WATCHDOG: u64 = 20_000;
const PAGE: u64 = 4096;

const OKAY: u64 = 0;
const SLVERR: u64 = 2;
const DECERR: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Fixed,
    Incr,
    /// At rising addresses, round a boundary.
    Wrap,
    /// Not in the standard.
    Reserved,
}

#[derive(Clone, Copy, Debug)]
pub struct Burst {
    pub id: u64,
    /// Byte address of the first beat.
    pub addr: u64,
    /// Number of beats, 1 to 256.
    pub beats: u64,
    /// Logarithm of the bytes of a beat.
    pub size: u64,
    pub kind: Kind,
}

impl Burst {
    fn bytes(&self) -> u64 {
        1 << self.size
    }

    /// Address of a beat, counted from 0.
    fn address(&self, beat: u64) -> u64 {
        let (bytes, length) = (self.bytes(), self.bytes() * self.beats);
        let aligned = self.addr / bytes * bytes;
        match self.kind {
            _ if beat == 0 => self.addr,
            Kind::Fixed => self.addr,
            Kind::Incr | Kind::Reserved => aligned + beat * bytes,
            Kind::Wrap => {
                let boundary = self.addr / length * length;
                let onward = aligned + beat * bytes;
                if onward < boundary + length { onward } else { onward - length }
            }
        }
    }

    /// The bytes of a beat: the first one, and the one after the last.
    fn lanes(&self, beat: u64) -> (u64, u64) {
        let address = self.address(beat);
        (address, address / self.bytes() * self.bytes() + self.bytes())
    }
}

#[derive(Clone, Debug)]
struct Beat {
    data: Vec<u8>,
    strobes: u64,
    last: bool,
}

/// Number of cycles in 256 in which the manager or the memory stalls each channel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stalls {
    pub aw: u64,
    pub w: u64,
    pub b: u64,
    pub ar: u64,
    pub r: u64,
}

/// An expected beat: ID, response, last, and the bytes that matter.
#[derive(Debug)]
struct DueBeat {
    id: u64,
    resp: u64,
    last: bool,
    bytes: Vec<(usize, u8)>,
    page: u64,
    seen: bool,
}

/// Sizes at the manager, and the address space.
#[derive(Clone, Debug)]
pub struct Space {
    pub data_bytes: u64,
    pub id_bits: u32,
    /// Bytes of DRAM; registers are above.
    pub dram: u64,
    /// Registers that keep a whole written line.
    pub registers: std::ops::Range<u64>,
}

struct Ports {
    aw: [InputPort; 6],
    w: [InputPort; 4],
    ar: [InputPort; 6],
    ready: [InputPort; 2],
    readies: [OutputPort; 3],
    b: [OutputPort; 3],
    r: [OutputPort; 5],
}

/// The manager, with the answers that it expects.
pub struct Manager {
    pub space: Space,
    pub stalls: Stalls,
    /// Bytes of every line that was written, and of lines that came from elsewhere.
    pub lines: HashMap<u64, Line>,
    /// Whole lines expected at registers, in order.
    pub register_writes: Vec<(u64, Line)>,
    /// Share of 256 of bursts with missing strobes.
    pub partial: u64,
    /// Share of 256 of bursts that are refused.
    pub illegal: u64,
    pub bursts: [u64; 2],
    pub beats: [u64; 2],
    /// Bursts that must be answered by an error.
    pub errors: u64,
    aw: VecDeque<Burst>,
    w: VecDeque<Beat>,
    ar: VecDeque<Burst>,
    offered: [bool; 3],
    due_b: VecDeque<(u64, u64, u64)>,
    due_r: VecDeque<DueBeat>,
    /// Pages with reads and writes in flight.
    busy: BTreeMap<u64, [u64; 2]>,
    held: [Option<Vec<u32>>; 2],
    /// Times that the subordinate changed or withdrew an offer.
    pub violations: u64,
    /// Bytes that came for `peek`.
    pub seen: Vec<u8>,
    pub random: SplitMix64,
    ports: Ports,
    quiet: u64,
}

impl Manager {
    /// A manager at the ports of a model that begin with `s_axi_`.
    pub fn new(model: &Model, space: Space, seed: u64) -> Result<Self, Box<dyn Error>> {
        let input = |name: &str| model.input(&format!("s_axi_{name}"));
        let output = |name: &str| model.output(&format!("s_axi_{name}"));
        let address = |channel: &str| -> Result<[InputPort; 6], Box<dyn Error>> {
            let of = |field: &str| input(&format!("{channel}{field}"));
            Ok([of("valid")?, of("id")?, of("addr")?, of("len")?, of("size")?, of("burst")?])
        };
        let ports = Ports {
            aw: address("aw")?,
            w: [input("wvalid")?, input("wdata")?, input("wstrb")?, input("wlast")?],
            ar: address("ar")?,
            ready: [input("bready")?, input("rready")?],
            readies: [output("awready")?, output("wready")?, output("arready")?],
            b: [output("bvalid")?, output("bid")?, output("bresp")?],
            r: [output("rvalid")?, output("rid")?, output("rresp")?, output("rlast")?, output("rdata")?],
        };
        Ok(Self {
            space,
            stalls: Stalls::default(),
            lines: HashMap::new(),
            register_writes: Vec::new(),
            partial: 60,
            illegal: 8,
            bursts: [0; 2],
            beats: [0; 2],
            errors: 0,
            aw: VecDeque::new(),
            w: VecDeque::new(),
            ar: VecDeque::new(),
            offered: [false; 3],
            due_b: VecDeque::new(),
            due_r: VecDeque::new(),
            busy: BTreeMap::new(),
            held: [None, None],
            violations: 0,
            seen: Vec::new(),
            random: SplitMix64::new(seed),
            ports,
            quiet: 0,
        })
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    fn one_in_256(&mut self, share: u64) -> bool {
        share > 0 && self.below(256) < share
    }

    /// Drops everything in flight; returns lines that a write was in flight to, whose bytes are unknown now.
    pub fn reset(&mut self, model: &mut Model) -> Vec<u64> {
        let lost = self.busy.iter().filter(|(_, [_, writes])| *writes > 0).map(|(page, _)| *page);
        let lost: Vec<u64> = lost.flat_map(|page| page * PAGE / LINE..(page + 1) * PAGE / LINE).collect();
        for queue in [&mut self.aw, &mut self.ar] {
            queue.clear();
        }
        self.w.clear();
        self.due_b.clear();
        self.due_r.clear();
        self.busy.clear();
        self.register_writes.clear();
        self.offered = [false; 3];
        self.held = [None, None];
        self.quiet = 0;
        for port in [self.ports.aw[0], self.ports.w[0], self.ports.ar[0]].into_iter().chain(self.ports.ready)
        {
            model.set(port, 0);
        }
        lost
    }

    pub fn pending(&self) -> bool {
        !(self.due_b.is_empty() && self.due_r.is_empty())
    }

    /// Bursts that wait or are in flight.
    pub fn queued(&self) -> usize {
        self.aw.len() + self.ar.len()
    }

    /// A legal or illegal burst somewhere in `pages`.
    pub fn draw_burst(&mut self, pages: &[u64]) -> Burst {
        let bus = self.space.data_bytes.ilog2() as u64;
        let size = if self.below(3) > 0 { bus } else { self.below(bus + 1) };
        let page = pages[self.below(pages.len() as u64) as usize] * PAGE;
        let id = self.below(1 << self.space.id_bits);
        let kind = [Kind::Incr, Kind::Incr, Kind::Incr, Kind::Wrap, Kind::Fixed][self.below(5) as usize];
        let (mut offset, bytes) = (self.below(PAGE), 1 << size);
        if self.below(4) > 0 {
            offset = offset / bytes * bytes;
        }
        let mut burst = Burst { id, addr: page + offset, beats: 1, size, kind };
        burst.beats = match kind {
            Kind::Wrap => {
                burst.addr = page + offset / bytes * bytes;
                2 << self.below(4)
            }
            Kind::Fixed => 1 + self.below(16),
            _ => {
                let most = (PAGE - offset / bytes * bytes) / bytes;
                let few = if self.below(2) == 0 { 4 } else { 256 };
                1 + self.below(most.min(few))
            }
        };
        if self.one_in_256(self.illegal) {
            match self.below(5) {
                0 => burst.kind = Kind::Reserved,
                1 => burst.size = bus + 1 + self.below(7 - bus),
                2 => (burst.kind, burst.beats) = (Kind::Wrap, 1 + self.below(256)),
                3 if burst.size > 0 => {
                    burst.addr |= 1;
                    (burst.kind, burst.beats) = (Kind::Wrap, 4);
                }
                // Past the registers.
                _ => burst.addr = self.space.dram + (1 << (14 + self.below(5))) + offset,
            }
            if matches!(burst.kind, Kind::Incr | Kind::Reserved) {
                (burst.addr, burst.beats) = (burst.addr / PAGE * PAGE, burst.beats.min(16));
            }
        }
        burst
    }

    /// Response of a burst that has no effect.
    fn refusal(&self, burst: &Burst) -> u64 {
        let unaligned = !burst.addr.is_multiple_of(burst.bytes());
        let wrap = ![2, 4, 8, 16].contains(&burst.beats) || unaligned;
        if burst.addr >= self.space.dram + 256 * LINE {
            DECERR
        } else if burst.kind == Kind::Reserved
            || burst.bytes() > self.space.data_bytes
            || (burst.kind == Kind::Wrap && wrap)
        {
            SLVERR
        } else {
            OKAY
        }
    }

    /// Whether a burst may be in flight concurrently with the others; `write` is 1.
    fn admit(&mut self, burst: &Burst, write: usize) -> bool {
        let busy = self.busy.entry(burst.addr / PAGE).or_default();
        let admitted = busy[1 - write] == 0;
        busy[write] += u64::from(admitted);
        admitted
    }

    fn line(&self, number: u64, pristine: &dyn Fn(u64) -> Line) -> Line {
        self.lines.get(&number).copied().unwrap_or_else(|| pristine(number))
    }

    /// Offers a read, unless a write is in flight there. `pristine` gives unwritten lines.
    pub fn read(&mut self, burst: Burst, pristine: &dyn Fn(u64) -> Line) -> bool {
        if !self.admit(&burst, 0) {
            return false;
        }
        let resp = self.refusal(&burst);
        self.errors += u64::from(resp != OKAY);
        for beat in 0..burst.beats {
            let mut due = DueBeat {
                id: burst.id,
                resp,
                last: beat + 1 == burst.beats,
                bytes: Vec::new(),
                page: burst.addr / PAGE,
                seen: false,
            };
            if resp == OKAY {
                let (from, to) = burst.lanes(beat);
                let line = self.line(from / LINE, pristine);
                due.bytes = (from..to)
                    .map(|at| ((at % self.space.data_bytes) as usize, line[(at % LINE) as usize]))
                    .collect();
            }
            self.due_r.push_back(due);
        }
        self.bursts[0] += 1;
        self.ar.push_back(burst);
        true
    }

    /// Offers a read of unknown bytes, which are stored in `seen`.
    pub fn peek(&mut self, burst: Burst) -> bool {
        let expected = self.due_r.len();
        let begun = self.read(burst, &|_| [0; LINE as usize]);
        self.due_r.iter_mut().skip(expected).for_each(|due| {
            due.bytes.clear();
            due.seen = true;
        });
        begun
    }

    pub fn writes_registers(&self) -> bool {
        self.busy.get(&(self.space.dram / PAGE)).is_some_and(|busy| busy[1] > 0)
    }

    /// Offers a write of random bytes, unless a read is in flight there.
    pub fn write(&mut self, burst: Burst, pristine: &dyn Fn(u64) -> Line) -> bool {
        let partial = self.one_in_256(self.partial);
        let sparse = self.below(2) == 0;
        let mut random = self.random.clone();
        let beats: Vec<(Vec<u8>, u64)> = (0..burst.beats)
            .map(|_| {
                let data = (0..self.space.data_bytes).map(|_| random.next_u64() as u8).collect();
                let strobes = match (partial, sparse) {
                    (false, _) => u64::MAX,
                    (true, false) => random.next_u64(),
                    (true, true) => [0, 0, u64::MAX, random.next_u64() & random.next_u64()]
                        [(random.next_u64() % 4) as usize],
                };
                (data, strobes)
            })
            .collect();
        self.random = random;
        self.write_beats(burst, beats, pristine)
    }

    /// Offers a write of these beats: data and strobes; only strobes of the beat's lanes count.
    pub fn write_beats(
        &mut self,
        burst: Burst,
        beats: Vec<(Vec<u8>, u64)>,
        pristine: &dyn Fn(u64) -> Line,
    ) -> bool {
        if !self.admit(&burst, 1) {
            return false;
        }
        let mut resp = self.refusal(&burst);
        // Bytes of the incomplete line, by the lines of consecutive beats.
        let mut runs: Vec<(u64, BTreeMap<u64, u8>)> = Vec::new();
        for (number, (data, mut strobes)) in (0..).zip(beats) {
            let (from, to) = burst.lanes(number);
            let bus = self.space.data_bytes;
            if burst.bytes() <= bus {
                let lanes = (from..to).fold(0, |lanes, at| lanes | 1u64 << (at % bus));
                strobes &= lanes;
            } else if bus < 64 {
                strobes &= (1 << bus) - 1;
            }
            let line = from / LINE;
            if burst.kind == Kind::Fixed || runs.last().is_none_or(|(last, _)| *last != line) {
                runs.push((line, BTreeMap::new()));
            }
            if let Some((_, bytes)) = runs.last_mut().filter(|_| resp == OKAY) {
                for at in (from..to).filter(|at| strobes >> (at % bus) & 1 == 1) {
                    bytes.insert(at % LINE, data[(at % bus) as usize]);
                }
            }
            self.w.push_back(Beat { data, strobes, last: number + 1 == burst.beats });
        }
        for (number, bytes) in runs {
            let register = number * LINE >= self.space.dram;
            if bytes.is_empty() {
                continue;
            }
            if register && bytes.len() < LINE as usize {
                resp = SLVERR;
                continue;
            }
            let mut line = self.line(number, pristine);
            bytes.iter().for_each(|(at, byte)| line[*at as usize] = *byte);
            if register {
                self.register_writes.push((number, line));
            }
            if !register || self.space.registers.contains(&(number - self.space.dram / LINE)) {
                self.lines.insert(number, line);
            }
        }
        self.errors += u64::from(resp != OKAY);
        self.due_b.push_back((burst.id, resp, burst.addr / PAGE));
        self.bursts[1] += 1;
        self.aw.push_back(burst);
        true
    }

    fn offer(&mut self, channel: usize, waits: bool, share: u64) -> bool {
        if waits && !self.offered[channel] && !self.one_in_256(share) {
            self.offered[channel] = true;
        }
        self.offered[channel]
    }

    fn drive(model: &mut Model, ports: [InputPort; 6], burst: Option<Burst>) {
        let [valid, id, addr, len, size, kind] = ports;
        model.set(valid, burst.is_some().into());
        if let Some(burst) = burst {
            model.set(id, burst.id);
            model.set(addr, burst.addr);
            model.set(len, burst.beats - 1);
            model.set(size, burst.size);
            model.set(kind, burst.kind as u64);
        }
    }

    /// Before a rising edge: offers and takes the transfers of this edge.
    ///
    /// # Errors
    /// The first wrong answer.
    pub fn cycle(&mut self, model: &mut Model) -> Result<(), String> {
        let mut moved = false;
        let ready = self.ports.readies.map(|port| model.get(port) == 1);
        let offers = self.offer(0, !self.aw.is_empty(), self.stalls.aw);
        Self::drive(model, self.ports.aw, self.aw.front().copied().filter(|_| offers));
        if offers && ready[0] {
            (self.offered[0], moved) = (false, true);
            self.aw.pop_front();
        }
        let offers = self.offer(1, !self.w.is_empty(), self.stalls.w);
        let [valid, data, strobes, last] = self.ports.w;
        model.set(valid, offers.into());
        if let Some(beat) = self.w.front().filter(|_| offers) {
            let words: Vec<u32> = beat
                .data
                .chunks(4)
                .map(|bytes| bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)))
                .collect();
            model.set_words(data, &words);
            model.set(strobes, beat.strobes);
            model.set(last, beat.last.into());
            if ready[1] {
                (self.offered[1], moved) = (false, true);
                self.beats[1] += 1;
                self.w.pop_front();
            }
        }
        let offers = self.offer(2, !self.ar.is_empty(), self.stalls.ar);
        Self::drive(model, self.ports.ar, self.ar.front().copied().filter(|_| offers));
        if offers && ready[2] {
            (self.offered[2], moved) = (false, true);
            self.ar.pop_front();
        }
        moved |= self.answers(model)?;
        self.quiet = if moved || !self.pending() { 0 } else { self.quiet + 1 };
        if self.quiet > WATCHDOG {
            return Err(format!("nothing moved for {WATCHDOG} cycles"));
        }
        Ok(())
    }

    fn answers(&mut self, model: &mut Model) -> Result<bool, String> {
        let cycle = model.cycle();
        let takes = [!self.one_in_256(self.stalls.b), !self.one_in_256(self.stalls.r)];
        let [b_valid, b_id, b_resp] = self.ports.b.map(|port| model.get(port));
        let [r_valid, r_id, r_resp, r_last, r_data] = self.ports.r;
        let mut data = vec![0; (self.space.data_bytes / 4) as usize];
        model.get_words(r_data, &mut data);
        let [r_valid, r_id, r_resp, r_last] = [r_valid, r_id, r_resp, r_last].map(|port| model.get(port));
        let payload = [vec![b_id as u32, b_resp as u32], {
            let mut all = data.clone();
            all.extend([r_id as u32, r_resp as u32, r_last as u32]);
            all
        }];
        for (channel, (valid, payload)) in [b_valid, r_valid].into_iter().zip(payload).enumerate() {
            let now = (valid == 1).then_some(payload);
            // An offer that was not taken stays.
            self.violations += u64::from(self.held[channel].is_some() && self.held[channel] != now);
            self.held[channel] = now.filter(|_| !takes[channel]);
        }
        for (port, takes) in self.ports.ready.into_iter().zip(takes) {
            model.set(port, takes.into());
        }
        let mut moved = false;
        if b_valid == 1 && takes[0] {
            let Some((id, resp, page)) = self.due_b.pop_front() else {
                return Err(format!("cycle {cycle}: an answer that was not asked for, ID {b_id}"));
            };
            if (b_id, b_resp) != (id, resp) {
                return Err(format!(
                    "cycle {cycle}: BID {b_id}, BRESP {b_resp}; expected {id}, {resp} of page {page:#x}"
                ));
            }
            self.busy.entry(page).and_modify(|busy| busy[1] -= 1);
            moved = true;
        }
        if r_valid == 1 && takes[1] {
            let Some(due) = self.due_r.pop_front() else {
                return Err(format!("cycle {cycle}: a beat that was not asked for, ID {r_id}"));
            };
            if (r_id, r_resp, r_last) != (due.id, due.resp, due.last.into()) {
                return Err(format!(
                    "cycle {cycle}: RID {r_id}, RRESP {r_resp}, RLAST {r_last}; expected {due:?}"
                ));
            }
            for (lane, byte) in &due.bytes {
                let found = (data[lane / 4] >> (8 * (lane % 4))) as u8;
                if found != *byte {
                    return Err(format!(
                        "cycle {cycle}: byte {lane} of a beat is {found:#04x}, expected {byte:#04x}; {due:?}"
                    ));
                }
            }
            if due.seen {
                self.seen.extend(data.iter().flat_map(|word| word.to_le_bytes()));
            }
            self.beats[0] += 1;
            if due.last {
                self.busy.entry(due.page).and_modify(|busy| busy[0] -= 1);
            }
            moved = true;
        }
        Ok(moved)
    }
}
