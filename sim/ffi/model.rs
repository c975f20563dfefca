//! One simulated instance of a design.
//!
//! Cycle `n` is the `n`-th call of [`Model::tick`], counted from 0: the rising edge of `clk_i` takes the inputs over,
//! and the outputs afterwards hold until the next edge. In waves it spans `n` to `n + 1` periods, with the rising edge
//! in the middle.
//!
//! A design with a port `dram_clk_i` has two clocks ([`super::Edge`]). [`Model::step`] goes on by one rising edge;
//! before it, the outputs have the values that the edge will see, and [`Model::next_edge`] names the clock whose inputs
//! to set.
#![allow(unsafe_code)]

use super::clocks::{Clocks, Edge, Schedule};
use super::coverage::{self, Sink};
use super::library::{self, Library};
use super::ports::{self, Handle, InputPort, OutputPort, PortInfo};
use super::raw;
use super::storage::Slot;
use super::waves::{WaveOptions, WaveSink};
use ndp_files::{Result, failure};
use ndp_verilate::{Rtl, Variant};
use std::ffi::CStr;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// What simulates a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// C++ from the netlist, the fastest. Waves and mutants are always Verilated.
    Native,
    /// The Verilog, by Verilator.
    Verilated,
    /// Native, counting the time of each module ([`Model::profile`]).
    #[value(skip)]
    Profiled,
    /// Both in lockstep, from the same contents: all outputs are compared after each edge.
    Both,
}

static FORM: OnceLock<Form> = OnceLock::new();

impl Form {
    /// Sets the default form; no effect after a model was opened.
    pub fn make_default(self) {
        FORM.get_or_init(|| self);
    }
}

impl Default for Form {
    /// The form of [`Form::make_default`], else that in `NDP_FORM` (`native`, `verilated`, `both`), else native.
    ///
    /// # Panics
    /// For another name in `NDP_FORM`; `ndp` checks it first.
    fn default() -> Self {
        *FORM.get_or_init(|| match std::env::var("NDP_FORM").as_deref() {
            Ok(name) => match <Self as clap::ValueEnum>::from_str(name, false) {
                Ok(form) => form,
                Err(_) => panic!("NDP_FORM = `{name}` must be native, verilated or both"),
            },
            Err(_) => Self::Native,
        })
    }
}

#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub form: Form,
    /// Models without waves run another, faster variant of the same design.
    pub waves: Option<WaveOptions>,
    /// Seed of random contents of registers and memories, instead of zeros: results after the reset must not depend on
    /// them. Reproducible for one variant and Verilator version; the same for both models in lockstep.
    pub random_contents: Option<u32>,
    /// Periods of the clocks, and where their edges lie.
    pub clocks: Clocks,
    /// Failed properties are only counted ([`Model::property_failures`]): for inputs that break a design's assumptions.
    /// Verilog that was changed always counts.
    pub count_failures: bool,
    /// Folder for coverage; by default that in `NDP_COVERAGE`. A model that covers is Verilated and checks no
    /// properties; models with waves or in lockstep, and Verilog that was changed, write nothing.
    pub coverage: Option<PathBuf>,
}

/// Share of a model's time in a module, all instances together.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ModuleShare {
    pub module: String,
    /// The time of each function is divided among the modules by their operations in it.
    pub seconds: f64,
    /// Operations on words, or on vectors of words of up to 16 instances.
    pub operations: f64,
}

/// A running model. Outputs of the GEMV unit change only in [`Model::tick`]. Where a path leads from an input to an
/// output without a register (blocks without a clock; the digits of a multiplier unit, which its phase selects), they
/// settle in [`Model::eval`].
#[derive(Debug)]
pub struct Model {
    raw: NonNull<raw::NdpModel>,
    library: Library,
    name: String,
    ports: Vec<PortInfo>,
    slots: Vec<Slot>,
    reset: Option<InputPort>,
    dram_reset: Option<InputPort>,
    clocked: bool,
    two_clocks: bool,
    clocks: Clocks,
    cycle: u64,
    dram_cycle: u64,
    /// Clocks that are up in the waves, and when they fall.
    falls: Vec<(Edge, u64)>,
    /// Time of the last dump of a model with two clocks.
    last_dump_ps: Option<u64>,
    waves: Option<WaveSink>,
    failures: NonNull<u64>,
    /// Failures are counted, and do not panic.
    counts_failures: bool,
    covered: Option<Sink>,
    /// Verilated model in lockstep.
    reference: Option<Box<Model>>,
}

// SAFETY: a C++ model owns all of its state, its context included, and shim.cpp leaves no pointer to it in the thread
// that made it. It is not `Sync`, and everything that changes it takes `&mut self`.
unsafe impl Send for Model {}

impl Model {
    /// All inputs and registers are 0 unless the options say otherwise. A model that is not in the cache is built,
    /// which takes seconds to minutes.
    ///
    /// # Errors
    /// A model that cannot be built; no memory; invalid [`WaveOptions`]; a wave file that cannot be created.
    pub fn open(rtl: &Rtl, options: &OpenOptions) -> Result<Self> {
        // Errors of the waves come before the model is built.
        let waves = options
            .waves
            .as_ref()
            .map(|waves| WaveSink::create(waves, options.clocks.core_ps()))
            .transpose()?;
        let variant = match options.form {
            _ if waves.is_some() => Variant::Waves,
            Form::Verilated => Variant::Verilated,
            Form::Profiled => Variant::Profiled,
            Form::Native | Form::Both => Variant::Native,
        };
        let plain = matches!(variant, Variant::Native | Variant::Verilated) && options.form != Form::Both;
        let covered = coverage::folder(options.coverage.as_ref()).filter(|_| plain && rtl.native.is_some());
        let variant = if covered.is_some() { Variant::Coverage } else { variant };
        let both = options.form == Form::Both && variant == Variant::Native && rtl.native.is_some();
        let other = options.random_contents.map_or(Variant::Verilated, |_| Variant::Alike);
        let reference =
            both.then(|| Self::of_variant(rtl, other, options, None, None).map(Box::new)).transpose()?;
        let mut model = Self::of_variant(rtl, variant, options, waves, reference)?;
        if let (Some(folder), Some(counts)) = (covered, model.library.counts) {
            model.covered = Some(Sink::create(rtl, counts, &folder)?);
        }
        Ok(model)
    }

    fn of_variant(
        rtl: &Rtl,
        variant: Variant,
        options: &OpenOptions,
        waves: Option<WaveSink>,
        reference: Option<Box<Self>>,
    ) -> Result<Self> {
        let library = library::load(rtl, variant)?;
        let raw_options = raw::NdpOpenOptions {
            waves: waves.is_some(),
            random: options.random_contents.is_some(),
            // Verilator takes a positive 31-bit seed; 0 means a random one to it.
            seed: (options.random_contents.unwrap_or(0) % (i32::MAX as u32)) as i32 + 1,
            mutant: rtl.mutant,
        };
        // SAFETY: the library is of the variant that the options ask for.
        let raw = unsafe { library.shim.ndp_open(&raw_options) };
        let Some(raw) = NonNull::new(raw) else {
            return Err(failure!(
                "memory is exhausted: there is no room for the model of `{}`; fewer channels or DIMMs need less",
                rtl.name
            ));
        };
        // SAFETY: the table of ports belongs to the model that was just made.
        let table = unsafe {
            std::slice::from_raw_parts(
                library.shim.ndp_ports(raw.as_ptr()),
                library.shim.ndp_port_count(raw.as_ptr()) as usize,
            )
        };
        let ports =
            table.iter().map(|port| PortInfo { name: name_of(port), output: port.output, width: port.width });
        let ports: Vec<PortInfo> = ports.collect();
        let slots = table.iter().filter_map(|port| {
            let data = NonNull::new(port.data.cast())?;
            // SAFETY: the generated shim states address, size and width of the port's storage. It lives as long
            // as the model, and the model touches it only in calls that borrow `self`.
            Some(unsafe { Slot::new(data, port.bytes, port.width) })
        });
        let slots = slots.collect();
        // SAFETY: the count is a field of the model, which lives until `drop`.
        let failures = unsafe { NonNull::new_unchecked(library.shim.ndp_failures(raw.as_ptr()).cast_mut()) };
        let reset = |name| {
            let port = ports::find(&ports, (library.number, &rtl.name), name, false, Some(1));
            port.ok().map(InputPort)
        };
        let [reset, dram_reset] = ["rst_ni", "dram_rst_ni"].map(reset);
        let [clocked, two_clocks] =
            ["clk_i", "dram_clk_i"].map(|clock| ports.iter().any(|port| port.name == clock));
        let mut model = Self {
            raw,
            library,
            name: rtl.name.clone(),
            ports,
            slots,
            reset,
            dram_reset,
            clocked,
            two_clocks,
            clocks: options.clocks,
            cycle: 0,
            dram_cycle: 0,
            falls: Vec::new(),
            last_dump_ps: None,
            waves,
            failures,
            counts_failures: options.count_failures || rtl.native.is_none(),
            covered: None,
            reference,
        };
        if let Some(waves) = &model.waves {
            // SAFETY: the model was opened with waves, and this is the only call.
            if !unsafe { model.library.shim.ndp_trace_begin(model.raw.as_ptr(), waves.depth()) } {
                model.waves = None;
                return Err(failure!(
                    "memory is exhausted: there is no room for the model of `{}`; fewer channels or DIMMs need less",
                    rtl.name
                ));
            }
        }
        Ok(model)
    }

    /// `<configuration>/<block>`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Includes clock and reset.
    pub fn ports(&self) -> &[PortInfo] {
        &self.ports
    }

    /// # Errors
    /// No such input; the message lists the design's inputs.
    pub fn input(&self, name: &str) -> Result<InputPort> {
        self.find(name, false, None).map(InputPort)
    }

    /// # Errors
    /// No such output; the message lists the design's outputs.
    pub fn output(&self, name: &str) -> Result<OutputPort> {
        self.find(name, true, None).map(OutputPort)
    }

    /// # Errors
    /// Errors of [`Model::input`], and a port of another width.
    pub fn input_of_width(&self, name: &str, width: u32) -> Result<InputPort> {
        self.find(name, false, Some(width)).map(InputPort)
    }

    /// # Errors
    /// Errors of [`Model::output`], and a port of another width.
    pub fn output_of_width(&self, name: &str, width: u32) -> Result<OutputPort> {
        self.find(name, true, Some(width)).map(OutputPort)
    }

    fn find(&self, name: &str, output: bool, width: Option<u32>) -> Result<Handle> {
        ports::find(&self.ports, (self.library.number, &self.name), name, output, width)
    }

    #[inline]
    fn slot(&self, handle: Handle) -> Slot {
        assert!(handle.design == self.library.number, "a port of another design was used with {}", self.name);
        self.slots[handle.index as usize]
    }

    /// Drives an input; bits above 64 become 0.
    ///
    /// # Panics
    /// If the value is wider than the port, or the port is of another design.
    #[inline]
    pub fn set(&mut self, port: InputPort, value: u64) {
        self.slot(port.0).write(value);
        if let Some(other) = &mut self.reference {
            other.slots[port.0.index as usize].write(value);
        }
    }

    /// Least significant word first.
    ///
    /// # Panics
    /// If there are not exactly [`InputPort::words`] words or the last one has bits above the width.
    pub fn set_words(&mut self, port: InputPort, words: &[u32]) {
        self.slot(port.0).write_words(words);
        if let Some(other) = &mut self.reference {
            other.slots[port.0.index as usize].write_words(words);
        }
    }

    /// Drives an input; bits above 128 become 0.
    ///
    /// # Panics
    /// If the value is wider than the port.
    pub fn set_u128(&mut self, port: InputPort, value: u128) {
        self.slot(port.0).write_wide(value);
        if let Some(other) = &mut self.reference {
            other.slots[port.0.index as usize].write_wide(value);
        }
    }

    /// Drives words of 64 bits, least significant first.
    ///
    /// # Panics
    /// Like [`Model::set_words`]; beyond 512 bits.
    #[inline]
    pub fn set_longs(&mut self, port: InputPort, longs: &[u64]) {
        let mut words = [0; 16];
        for (words, long) in words.chunks_mut(2).zip(longs) {
            words.copy_from_slice(&[*long as u32, (long >> 32) as u32]);
        }
        self.set_words(port, &words[..2 * longs.len()]);
    }

    /// Reads words of 64 bits, least significant first.
    ///
    /// # Panics
    /// Like [`Model::get_words`]; beyond 512 bits.
    #[inline]
    pub fn get_longs<const N: usize>(&self, port: OutputPort) -> [u64; N] {
        let mut words = [0; 16];
        self.get_words(port, &mut words[..2 * N]);
        std::array::from_fn(|i| u64::from(words[2 * i + 1]) << 32 | u64::from(words[2 * i]))
    }

    /// # Panics
    /// If the port is wider, or of another design.
    #[inline]
    pub fn get(&self, port: OutputPort) -> u64 {
        self.slot(port.0).read()
    }

    /// Least significant word first.
    ///
    /// # Panics
    /// If `words` does not have exactly [`OutputPort::words`] elements.
    pub fn get_words(&self, port: OutputPort, words: &mut [u32]) {
        self.slot(port.0).read_words(words);
    }

    /// # Panics
    /// If the port is wider.
    pub fn get_u128(&self, port: OutputPort) -> u128 {
        self.slot(port.0).read_wide()
    }

    /// 0 in a model without that clock.
    pub fn dram_cycle(&self) -> u64 {
        self.dram_cycle
    }

    /// Number of cycles simulated so far.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// Lets outputs follow the inputs without a clock edge.
    ///
    /// # Panics
    /// In lockstep ([`Form::Both`]), if the models differ; so do all that move a clock.
    #[inline]
    pub fn eval(&mut self) {
        // SAFETY: `raw` is of this library, and open until `drop`.
        unsafe { self.library.shim.ndp_eval(self.raw.as_ptr()) }
        self.follow(Self::eval);
    }

    #[inline]
    fn follow(&mut self, action: impl FnOnce(&mut Self)) {
        if let Some(mut other) = self.reference.take() {
            action(&mut other);
            self.compare(&other);
            self.reference = Some(other);
        }
    }

    #[cold]
    fn compare(&self, other: &Self) {
        let failures = [self, other].map(Self::property_failures);
        assert!(
            failures[0] == failures[1],
            "{}: after {} cycles ({} of the DRAM) properties have not held {} times in the native model, first {:?}, and {} times in the \
             Verilated one, first {:?}",
            self.name,
            self.cycle,
            self.dram_cycle,
            failures[0],
            self.failed_property(),
            failures[1],
            other.failed_property()
        );
        for (index, port) in self.ports.iter().enumerate().filter(|(_, port)| port.output) {
            let mut words =
                [vec![0; port.width.div_ceil(32) as usize], vec![0; port.width.div_ceil(32) as usize]];
            self.slots[index].read_words(&mut words[0]);
            other.slots[index].read_words(&mut words[1]);
            assert!(
                words[0] == words[1],
                "{}: after {} cycles ({} of the DRAM) {} is {:x?} in the native model and {:x?} in the Verilated one",
                self.name,
                self.cycle,
                self.dram_cycle,
                port.name,
                words[0],
                words[1]
            );
        }
    }

    /// Where the time went since the model was opened; empty unless [`Form::Profiled`].
    pub fn profile(&mut self) -> Vec<ModuleShare> {
        let mut count = 0;
        // SAFETY: `raw` is of this library, and open until `drop`.
        let rows = unsafe { self.library.shim.ndp_profile(self.raw.as_ptr(), &mut count) };
        if count == 0 {
            return Vec::new();
        }
        // SAFETY: the table stays where it is until the next call.
        let rows = unsafe { std::slice::from_raw_parts(rows, count as usize) };
        let share = |row: &raw::NdpShare| {
            // SAFETY: the generated table has constants of a library, and libraries stay loaded.
            let module = unsafe { CStr::from_ptr(row.module) }.to_string_lossy().into_owned();
            ModuleShare { module, seconds: row.seconds, operations: row.operations }
        };
        rows.iter().map(share).collect()
    }

    #[inline]
    pub fn next_edge(&self) -> Edge {
        if self.two_clocks { self.schedule().next(self.clocks).0 } else { Edge::Core }
    }

    /// Goes past the next rising edge of either clock; with one clock as [`Model::tick`].
    pub fn step(&mut self) -> Edge {
        if !self.two_clocks {
            self.ticks(1);
            return Edge::Core;
        }
        let (edge, time) = self.schedule().next(self.clocks);
        if self.waves.is_some() {
            self.rise_with_waves(edge, time);
        } else {
            self.set_clock(edge, true);
            self.set_clock(edge, false);
        }
        Schedule { core: self.cycle, dram: self.dram_cycle } = self.schedule().after(edge);
        self.check_properties();
        edge
    }

    pub fn clocks(&self) -> Clocks {
        self.clocks
    }

    fn schedule(&self) -> Schedule {
        Schedule { core: self.cycle, dram: self.dram_cycle }
    }

    fn set_clock(&mut self, edge: Edge, level: bool) {
        // SAFETY: `raw` is of this library, and open until `drop`.
        unsafe { self.library.shim.ndp_set_clock(self.raw.as_ptr(), edge == Edge::Dram, level) }
        self.follow(|other| other.set_clock(edge, level));
    }

    /// One clock cycle: rising edge, falling edge. A block without a clock settles and counts a cycle. With two clocks
    /// everything up to and including the next rising edge of `clk_i`.
    #[inline]
    pub fn tick(&mut self) {
        self.ticks(1);
    }

    #[inline]
    pub fn ticks(&mut self, cycles: u64) {
        if self.two_clocks {
            return (0..cycles).for_each(|_| while self.step() != Edge::Core {});
        }
        if self.waves.is_some() {
            (0..cycles).for_each(|_| self.tick_with_waves());
            return self.check_properties();
        }
        if self.reference.is_some() && cycles > 1 {
            return (0..cycles).for_each(|_| self.ticks(1));
        }
        // SAFETY: `raw` is of this library, and open until `drop`.
        unsafe { self.library.shim.ndp_tick(self.raw.as_ptr(), cycles) };
        self.cycle += cycles;
        self.follow(|other| other.ticks(cycles));
        self.check_properties();
    }

    /// Number of failed properties, of all instances and edges.
    #[inline]
    pub fn property_failures(&self) -> u64 {
        // SAFETY: the count lives as long as the model, which changes it only in calls that borrow `self` mutably.
        unsafe { *self.failures.as_ptr() }
    }

    /// The first failed property: hierarchical name and text.
    pub fn failed_property(&self) -> Option<String> {
        // SAFETY: `raw` is of this library, and open until `drop`; the text lives until the next call with `&mut`.
        let failure = unsafe { CStr::from_ptr(self.library.shim.ndp_failure(self.raw.as_ptr())) };
        Some(failure.to_string_lossy().into_owned()).filter(|failure| !failure.is_empty())
    }

    /// # Panics
    /// If a property failed: the design or the driver of its inputs is wrong.
    #[inline]
    fn check_properties(&self) {
        if self.property_failures() != 0 && !self.counts_failures {
            self.property_failed();
        }
    }

    #[cold]
    fn property_failed(&self) -> ! {
        panic!(
            "{}: in cycle {} ({} of the DRAM) this does not hold: {}",
            self.name,
            self.cycle.saturating_sub(1),
            self.dram_cycle.saturating_sub(1),
            self.failed_property().unwrap_or_default()
        );
    }

    /// Drives `rst_ni` and `dram_rst_ni` low for `cycles` cycles and high again; a block without reset only spends the
    /// time.
    pub fn reset(&mut self, cycles: u64) {
        self.hold_reset(true);
        self.ticks(cycles);
        self.hold_reset(false);
    }

    pub fn hold_reset(&mut self, held: bool) {
        let resets = [self.reset, self.dram_reset];
        resets.into_iter().flatten().for_each(|reset| self.set(reset, (!held).into()));
    }

    /// Completes the wave file, even before its window is over. Dropping the model does the same but cannot report
    /// errors.
    ///
    /// # Errors
    /// A write that failed since the model was opened.
    pub fn close_waves(&mut self) -> Result<()> {
        let Some(mut waves) = self.waves.take() else { return Ok(()) };
        // SAFETY: the model was opened with waves, and they end only here.
        unsafe { self.library.shim.ndp_trace_end(self.raw.as_ptr()) };
        waves.take_dump(self.drain());
        // SAFETY: as above; the text that was drained is not used any more.
        unsafe { self.library.shim.ndp_trace_clear(self.raw.as_ptr()) };
        let begun = self.falls.iter().map(|(_, time)| time.div_ceil(self.clocks.core_ps())).max();
        waves.finish(begun.map_or(self.cycle, |cycle| cycle.max(self.cycle)), self.last_dump_ps)
    }

    /// Shows earlier falling edges first, and the inputs for the rising edge a little before it, if there is time.
    #[cold]
    fn rise_with_waves(&mut self, edge: Edge, time: u64) {
        let mut falls = std::mem::take(&mut self.falls);
        falls.sort_by_key(|(_, time)| *time);
        falls.retain(|&(clock, at)| {
            if at < time {
                let shown = self.shows(at);
                self.set_clock(clock, false);
                if shown {
                    self.dump(at);
                }
            }
            at >= time
        });
        let shown = self.shows(time);
        self.eval();
        let free = self.last_dump_ps.map_or(time, |last| last + 1);
        let settled = time.saturating_sub(WaveSink::SETTLED_PS).max(free);
        if shown && settled < time {
            self.dump(settled);
        }
        self.set_clock(edge, true);
        if shown {
            self.dump(time);
        }
        falls.push((edge, self.clocks.fall_ps(edge, time)));
        self.falls = falls;
        self.pass_text_on();
    }

    /// Before the first dump, shows the values with which the window begins.
    fn shows(&mut self, time_ps: u64) -> bool {
        let cycle = time_ps / self.clocks.core_ps();
        let Some(waves) = self.waves.as_ref().filter(|waves| waves.contains(cycle)) else { return false };
        let begin = waves.start_ps(waves.start_cycle());
        if self.last_dump_ps.is_none() && begin < time_ps {
            self.dump(begin);
        }
        true
    }

    /// Dumps at a time or right after the last dump, so that coinciding edges of two clocks are shown in turn.
    fn dump(&mut self, time_ps: u64) {
        let time_ps = self.last_dump_ps.map_or(time_ps, |last| time_ps.max(last + 1));
        self.last_dump_ps = Some(time_ps);
        // SAFETY: `raw` is of this library, and open until `drop`; callers have opened the model with waves.
        unsafe { self.library.shim.ndp_trace_dump(self.raw.as_ptr(), time_ps) }
    }

    fn pass_text_on(&mut self) {
        if self.drain().is_none_or(|text| text.len() >= WaveSink::CHUNK)
            && let Some(mut waves) = self.waves.take()
        {
            waves.take_dump(self.drain());
            self.waves = Some(waves);
            // SAFETY: the model was opened with waves; the text that was drained is not used any more.
            unsafe { self.library.shim.ndp_trace_clear(self.raw.as_ptr()) };
        }
    }

    #[cold]
    fn tick_with_waves(&mut self) {
        let (raw, shim) = (self.raw.as_ptr(), self.library.shim);
        let cycle = self.cycle;
        self.cycle += 1;
        // After the window the waves are complete, and the rest runs without them.
        let Some(waves) = self.waves.as_ref().filter(|waves| waves.contains(cycle)) else {
            // SAFETY: `raw` is of this library, and open until `drop`.
            return unsafe { shim.ndp_tick(raw, 1) };
        };
        let [start, edge] = [waves.start_ps(cycle), waves.edge_ps(cycle)];
        // SAFETY: `raw` is of this library, and open until `drop`, and it was opened with waves. The additional
        // evaluation shows the inputs before the edge; it moves no clock, so no register changes.
        unsafe {
            shim.ndp_eval(raw);
            shim.ndp_trace_dump(raw, start);
            if self.clocked {
                shim.ndp_set_clock(raw, false, true);
                shim.ndp_trace_dump(raw, edge);
                shim.ndp_set_clock(raw, false, false);
            }
        }
        self.pass_text_on();
    }

    /// The VCD text since the last pass; `None` if some of it was lost.
    fn drain(&self) -> Option<&[u8]> {
        let mut length = 0;
        // SAFETY: the model was opened with waves; the text stays where it is until the next call that changes the
        // model. Each such call needs `&mut self` or comes after the last use of this slice.
        unsafe {
            let data = self.library.shim.ndp_trace_data(self.raw.as_ptr(), &mut length);
            (!data.is_null()).then(|| std::slice::from_raw_parts(data, length))
        }
    }
}

/// Generated names are ASCII; anything else reads as empty.
fn name_of(port: &raw::NdpPort) -> &'static str {
    // SAFETY: the generated table has constants of a library, and libraries stay loaded.
    unsafe { CStr::from_ptr(port.name) }.to_str().unwrap_or_default()
}

impl Drop for Model {
    fn drop(&mut self) {
        // An incomplete file is reported only by `close_waves`.
        let _ = self.close_waves();
        if let Some(covered) = &self.covered {
            // SAFETY: the counts belong to the model's library; the model is only closed after this.
            unsafe { covered.write(self.raw) };
        }
        // SAFETY: opened in `open`, closed only here.
        unsafe { self.library.shim.ndp_close(self.raw.as_ptr()) };
    }
}
