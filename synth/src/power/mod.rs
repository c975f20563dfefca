//! Power of the logic in a run: the mapped netlist of every module, replayed with the values of a wave file.
//!
//! Waves have the values of ports and registers in each cycle. All nets of the mapped netlist follow from them exactly,
//! and with Liberty's tables the energy of each transition in its state. The next values of registers and the outputs
//! are compared with the waves, so a netlist of another design is an error.
//!
//! Reading order: [`group`] and [`logic`] (Liberty's text), [`cells`], [`netlist`], [`waves`], [`replay`] (one module),
//! this file (all instances of all modules).

pub mod cells;
mod fst;
pub mod group;
pub mod logic;
pub mod netlist;
pub mod replay;
pub mod report;
pub mod waves;

use crate::flow::Library;
use crate::script::CHOSEN_NETLIST;
use cells::{CellPower, Units};
use ndp_files::{Error, Result, bail, map_on_threads, refusal};
use netlist::{Netlist, Port, RawNetlist, ZERO};
pub use replay::Energy;
use replay::{Plan, Run};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use waves::{Place, Samples, Waves};
use wellen::{ScopeRef, SignalRef};

pub struct Request<'a> {
    /// Folder of netlists from `ndp synth --keep`.
    pub netlists: &'a Path,
    /// Library that the netlists are mapped to.
    pub library: &'a Library,
    pub waves: &'a Path,
    pub windows: &'a [Window],
    /// Transition time at all inputs.
    pub slew_ps: f64,
    /// Load beyond the module, for the tables of outputs.
    pub load_ff: f64,
    pub jobs: usize,
}

/// Cycles of a run, each from a rising edge of the core's clock to the next.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Window {
    /// Activity of the run in this window.
    pub name: String,
    pub start: u64,
    /// First cycle after the window; `None` for the end of the waves.
    pub stop: Option<u64>,
    /// Amount of work in the window, and its unit.
    pub work: Option<(u64, String)>,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Activity {
    pub top: String,
    pub window: Window,
    /// Period of the core's clock.
    pub period_ps: u64,
    /// Number of cycles in the window.
    pub cycles: u64,
    /// Instances in the top module by power, highest first; the top's own logic has its name.
    pub blocks: Vec<BlockPower>,
    /// Modules, highest power first.
    pub modules: Vec<ModulePower>,
    pub memories: Vec<MemoryAccesses>,
}

/// An instance in the top module with everything below it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct BlockPower {
    pub block: String,
    pub power_mw: Energy,
}

/// All instances of a module, without those below.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ModulePower {
    pub module: String,
    pub instances: u64,
    pub flip_flops: u64,
    /// Cells of one instance, with flip-flops.
    pub cells: u64,
    pub nets: u64,
    /// Changes of nets other than clocks, all instances.
    pub changes: u64,
    /// Power of all instances.
    pub power_mw: Energy,
}

/// Accesses of all instances of a memory macro.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct MemoryAccesses {
    pub module: String,
    pub instances: u64,
    /// Bits per cycle of the core's clock.
    pub read_bits: f64,
    pub written_bits: f64,
}

struct Instance {
    netlist: usize,
    scope: ScopeRef,
    path: String,
    /// Instance whose clocks sample the values: this one, or the next one around it with clocks.
    clocked: usize,
}

struct Memory {
    module: String,
    scope: ScopeRef,
    clocked: usize,
}

/// Origin of a bit.
type Source = (Place, u32);

fn wrong(path: &Path, reason: impl Display) -> Error {
    refusal!("waves '{}': {reason}", path.display())
}

/// # Errors
/// Unreadable files, files that do not belong together, or a window without edges.
pub fn run(request: &Request) -> Result<Vec<Activity>> {
    waves::guarded(|| replay_all(request)).map_err(|reason| wrong(request.waves, reason))?
}

fn replay_all(request: &Request) -> Result<Vec<Activity>> {
    let Mapped { netlists, cells, volts } = read(request)?;
    let in_waves = |reason: String| wrong(request.waves, reason);
    let mut waves = Waves::open(request.waves)?;
    let design = Design::find(&netlists, &waves, request)?;
    let sources = design.sources(&netlists, &waves).map_err(in_waves)?;
    let mut wanted: Vec<SignalRef> = sources.iter().flat_map(|all| all.signals()).collect();
    wanted.extend(design.memories.iter().flat_map(|memory| {
        let ports = ["clk_i", "write_clk_i", "read_clk_i", "re_i", "we_i"];
        ports.into_iter().filter_map(|port| Some(waves.find(memory.scope, port)?.signal)).collect::<Vec<_>>()
    }));
    wanted.sort();
    wanted.dedup();
    waves.load(&wanted).map_err(in_waves)?;

    let top = &sources[0];
    let clock = top.clock("clk_i").ok_or_else(|| in_waves("the top module has no clk_i".into()))?;
    let edges = waves.edges(&[clock], 0, u64::MAX);
    let too_few = || in_waves("fewer than two edges of clk_i".into());
    let first_two = edges.places.len().checked_sub(1).ok_or_else(too_few)?;
    let period_ps = (edges.span_ps.1 - edges.span_ps.0).checked_div(first_two as u64).ok_or_else(too_few)?;
    let plans: Vec<Plan> = netlists
        .iter()
        .map(|netlist| Plan::new(netlist, &cells, volts, request.slew_ps, request.load_ff))
        .collect();
    let all = All { request, netlists: &netlists, plans, design, sources, waves, clock, period_ps };
    request.windows.iter().map(|window| all.window(window)).collect()
}

struct All<'a> {
    request: &'a Request<'a>,
    netlists: &'a [Netlist],
    plans: Vec<Plan<'a>>,
    design: Design,
    sources: Vec<Sources>,
    waves: Waves,
    clock: SignalRef,
    period_ps: u64,
}

impl All<'_> {
    fn window(&self, window: &Window) -> Result<Activity> {
        let (design, waves, sources) = (&self.design, &self.waves, &self.sources);
        let in_waves = |reason: String| wrong(self.request.waves, reason);
        let ps = |cycle: u64| cycle.saturating_mul(self.period_ps);
        // The edge after the last cycle ends it.
        let end = window.stop.map_or(u64::MAX, |stop| ps(stop.saturating_add(1)));
        let edges = waves.edges(&[self.clock], ps(window.start), end);
        let cycles = (edges.places.len() as u64).saturating_sub(1);
        if let Some(stop) = window.stop
            && cycles != stop - window.start
        {
            let all = waves.edges(&[self.clock], 0, u64::MAX).span_ps;
            return Err(in_waves(format!(
                "window '{}', cycles {} up to {stop}, is not in the waves, which have whole cycles {} up to {} (--wave-start and --wave-stop of the \
                 run choose them)",
                window.name,
                window.start,
                all.0 / self.period_ps,
                all.1 / self.period_ps
            )));
        }
        let span = (ps(window.start), window.stop.map_or(u64::MAX, |_| edges.span_ps.1 + 1));
        if edges.places.len() < 2 {
            let reason = format!("fewer than two edges of clk_i from cycle {} up to the end", window.start);
            return Err(in_waves(reason));
        }
        // Instances with the same clocks share samples.
        let mut known: HashMap<Vec<SignalRef>, usize> = HashMap::new();
        let mut samples: Vec<Samples> = Vec::new();
        let mut of_instance = Vec::new();
        for instance in &design.instances {
            let clocks: Vec<SignalRef> =
                sources[instance.clocked].clocks.iter().map(|(_, signal)| *signal).collect();
            of_instance.push(*known.entry(clocks.clone()).or_insert_with(|| {
                samples.push(waves.edges(&clocks, span.0, span.1));
                samples.len() - 1
            }));
        }
        let results = map_on_threads(self.request.jobs, design.instances.len(), |index| {
            let instance = &design.instances[index];
            let (netlist, plan) = (&self.netlists[instance.netlist], &self.plans[instance.netlist]);
            let at = |reason: String| in_waves(format!("{}: {reason}", instance.path));
            let (own, samples) = (&sources[index], &samples[of_instance[index]]);
            waves::guarded(|| replay_one(netlist, plan, own, waves, samples)).flatten().map_err(at)
        });
        let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;

        let mut modules: BTreeMap<usize, ModulePower> = BTreeMap::new();
        let mut blocks: BTreeMap<&str, Energy> = BTreeMap::new();
        for (instance, (power_mw, changes)) in design.instances.iter().zip(results) {
            let netlist = &self.netlists[instance.netlist];
            let module = modules.entry(instance.netlist).or_insert_with(|| ModulePower {
                module: netlist.name.clone(),
                instances: 0,
                flip_flops: netlist.registers.len() as u64,
                cells: (netlist.registers.len() + netlist.gates.len()) as u64,
                nets: netlist.nets as u64 - 2,
                changes: 0,
                power_mw: Energy::default(),
            });
            module.instances += 1;
            module.changes += changes;
            module.power_mw += power_mw;
            let mut path = instance.path.split('.');
            let top = path.next().unwrap_or_default();
            *blocks.entry(path.next().unwrap_or(top)).or_default() += power_mw;
        }
        let mut modules: Vec<ModulePower> = modules.into_values().collect();
        modules.sort_by(|a, b| {
            b.power_mw.total().total_cmp(&a.power_mw.total()).then_with(|| a.module.cmp(&b.module))
        });
        let blocks =
            blocks.into_iter().map(|(block, power_mw)| BlockPower { block: block.to_owned(), power_mw });
        let mut blocks: Vec<BlockPower> = blocks.collect();
        blocks.sort_by(|a, b| {
            b.power_mw.total().total_cmp(&a.power_mw.total()).then_with(|| a.block.cmp(&b.block))
        });
        Ok(Activity {
            top: self.netlists[design.instances[0].netlist].name.clone(),
            window: window.clone(),
            period_ps: self.period_ps,
            cycles,
            blocks,
            modules,
            memories: memories(design, waves, &samples, &of_instance, &edges, self.period_ps),
        })
    }
}

/// Netlists, their cells, and the supply.
struct Mapped {
    netlists: Vec<Netlist>,
    cells: HashMap<String, CellPower>,
    volts: f64,
}

fn read(request: &Request) -> Result<Mapped> {
    let folder = request.netlists;
    let refuse = |path: &Path, reason: String| refusal!("'{}' {reason}", path.display());
    let read_error = |path: &Path| {
        let path = path.to_owned();
        move |reason| Error::new(reason).context(format!("cannot read '{}'", path.display()))
    };
    let listed = std::fs::read_dir(folder).map_err(read_error(folder))?;
    let files = listed.filter_map(|entry| Some(entry.ok()?.path().join(CHOSEN_NETLIST)));
    let mut files: Vec<PathBuf> = files.filter(|path| path.is_file()).collect();
    files.sort();
    if files.is_empty() {
        let hint = "holds no netlists; 'ndp synth --liberty FILE --keep' leaves some there";
        return Err(refuse(folder, hint.into()));
    }
    let libraries = request.library.seq.iter().chain([&request.library.comb]);
    let units = |library| Units::of(library).map_err(|reason| refuse(folder, reason));
    let libraries: Vec<_> = libraries.map(|library| Ok((library, units(library)?))).collect::<Result<_>>()?;
    let mut cells: HashMap<String, CellPower> = HashMap::new();
    let mut raws = Vec::new();
    for path in files {
        let text = ndp_files::open(&path).and_then(std::io::read_to_string).map_err(read_error(&path))?;
        let raw = RawNetlist::parse(&text).map_err(|reason| refuse(&path, reason))?;
        for name in raw.cells() {
            if cells.contains_key(name) {
                continue;
            }
            let found = libraries.iter().find_map(|(library, units)| Some((library.cell_text(name)?, units)));
            let (group, units) =
                found.ok_or_else(|| refuse(&path, format!("no cell '{name}' in the library")))?;
            let cell = CellPower::parse(group, units);
            cells.insert(
                name.to_owned(),
                cell.map_err(|reason| refuse(&path, format!("cell '{name}': {reason}")))?,
            );
        }
        raws.push((path, raw));
    }
    let compile = |(path, raw): (PathBuf, RawNetlist)| {
        Netlist::compile(raw, &cells).map_err(|reason| refuse(&path, reason))
    };
    let netlists = raws.into_iter().map(compile).collect::<Result<_, _>>()?;
    Ok(Mapped { netlists, cells, volts: libraries[0].1.volts })
}

/// Instances of a netlist, the top first, and its memories.
struct Design {
    instances: Vec<Instance>,
    memories: Vec<Memory>,
}

impl Design {
    fn find(netlists: &[Netlist], waves: &Waves, request: &Request) -> Result<Self> {
        let by_name: HashMap<&str, usize> =
            netlists.iter().enumerate().map(|(n, netlist)| (netlist.name.as_str(), n)).collect();
        let below: Vec<&str> = netlists
            .iter()
            .flat_map(|netlist| netlist.children.iter().map(|child| child.module.as_str()))
            .collect();
        let tops: Vec<usize> =
            (0..netlists.len()).filter(|n| !below.contains(&netlists[*n].name.as_str())).collect();
        let [top] = tops[..] else {
            let names: Vec<&str> = tops.iter().map(|n| netlists[*n].name.as_str()).collect();
            let reason = format!("{} modules are in no other, expected 1: {}", tops.len(), names.join(", "));
            bail!("'{}' {reason}", request.netlists.display());
        };
        let ports: Vec<&str> = netlists[top].ports.iter().map(|port| port.name.as_str()).collect();
        let scope = waves.top(&ports).ok_or_else(|| {
            wrong(request.waves, format!("no scope has the ports of '{}'", netlists[top].name))
        })?;
        let mut design = Self { instances: Vec::new(), memories: Vec::new() };
        design.instances.push(Instance { netlist: top, scope, path: netlists[top].name.clone(), clocked: 0 });
        let mut at = 0;
        while at < design.instances.len() {
            let (netlist, scope) = (&netlists[design.instances[at].netlist], design.instances[at].scope);
            for child in &netlist.children {
                let path = format!("{}.{}", design.instances[at].path, child.name);
                let inner = child.name.split('.').try_fold(scope, |scope, name| waves.scope(scope, name));
                let inner = inner
                    .ok_or_else(|| wrong(request.waves, format!("no scope of the instance '{path}'")))?;
                let around = design.instances[at].clocked;
                match by_name.get(child.module.as_str()) {
                    Some(&own) => {
                        let has_clock = netlists[own].clocks().next().is_some();
                        let clocked = if has_clock { design.instances.len() } else { around };
                        design.instances.push(Instance { netlist: own, scope: inner, path, clocked });
                    }
                    None => design.memories.push(Memory {
                        module: child.module.clone(),
                        scope: inner,
                        clocked: around,
                    }),
                }
            }
            at += 1;
        }
        Ok(design)
    }

    fn sources(&self, netlists: &[Netlist], waves: &Waves) -> Result<Vec<Sources>, String> {
        let of = |instance: &Instance| {
            let found = Sources::of(&netlists[instance.netlist], instance.scope, waves);
            found.map_err(|reason| format!("{}: {reason}", instance.path))
        };
        self.instances.iter().map(of).collect()
    }
}

/// Places of an instance's values in the waves.
#[derive(Default)]
struct Sources {
    /// Input ports, and outputs of black boxes.
    given: Vec<(usize, Source)>,
    held: Vec<Source>,
    /// Output ports, to be compared.
    expected: Vec<(usize, Source)>,
    /// Clocks by net.
    clocks: Vec<(usize, SignalRef)>,
    names: Vec<String>,
}

impl Sources {
    fn of(netlist: &Netlist, scope: ScopeRef, waves: &Waves) -> Result<Self, String> {
        let mut all = Self::default();
        let own = waves.signals(scope);
        let bits = |port: &Port, scope: ScopeRef| {
            let place = waves.find(scope, &port.name).ok_or_else(|| format!("no signal '{}'", port.name))?;
            let nets: Vec<(usize, Source)> =
                port.nets.iter().enumerate().map(|(bit, net)| (*net, (place, bit as u32))).collect();
            if place.width as usize == nets.len() {
                Ok(nets)
            } else {
                Err(format!("'{}' has {} bits, expected {}", port.name, place.width, nets.len()))
            }
        };
        for port in &netlist.ports {
            let found = bits(port, scope)?;
            if port.output {
                // A register with one value is constant in the netlist; in the waves only once it has been written.
                all.expected.extend(found.into_iter().filter(|(net, _)| *net > ZERO + 1));
            } else if port.name.ends_with("clk_i") {
                all.clocks.extend(found.iter().map(|(net, (place, _))| (*net, place.signal)));
                all.names.push(port.name.clone());
            } else {
                all.given.extend(found);
            }
        }
        for child in &netlist.children {
            let inner = child.name.split('.').try_fold(scope, |scope, name| waves.scope(scope, name));
            let inner = inner.ok_or_else(|| format!("no scope '{}'", child.name))?;
            for port in child.ports.iter().filter(|port| port.output) {
                all.given.extend(bits(port, inner)?);
            }
        }
        let mut inner: HashMap<String, HashMap<String, Vec<Place>>> = HashMap::new();
        for register in &netlist.registers {
            let name = register.name.split("$_").next().unwrap_or(&register.name);
            let missing = || format!("no signal for the register '{name}'");
            // In a flattened block, names of instances come first.
            let (path, local) = name.rsplit_once('.').unwrap_or(("", name));
            let signals = match path {
                "" => &own,
                path => {
                    if !inner.contains_key(path) {
                        let scope = path.split('.').try_fold(scope, |scope, name| waves.scope(scope, name));
                        inner.insert(path.to_owned(), waves.signals(scope.ok_or_else(missing)?));
                    }
                    &inner[path]
                }
            };
            all.held.push(register_bit(signals, local).ok_or_else(missing)?);
        }
        Ok(all)
    }

    fn signals(&self) -> impl Iterator<Item = SignalRef> {
        let bits = self.given.iter().chain(&self.expected).map(|(_, source)| source).chain(&self.held);
        bits.map(|(place, _)| place.signal).chain(self.clocks.iter().map(|(_, signal)| *signal))
    }

    fn clock(&self, name: &str) -> Option<SignalRef> {
        let place = self.names.iter().position(|own| own == name)?;
        Some(self.clocks[place].1)
    }
}

/// `word[3]` is bit 3 of `word`, and `words[2][3]` bit 3 of word 2 of an array. `bit` is the only bit, or the only one
/// left.
fn register_bit(signals: &HashMap<String, Vec<Place>>, name: &str) -> Option<Source> {
    let indexed = name.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
    let indexed = indexed.and_then(|(base, bit)| Some((signals.get(base)?, bit.parse::<u32>().ok()?)));
    let found = indexed.and_then(|(places, bit)| {
        let place = places.iter().find(|place| (place.first..place.first + place.width).contains(&bit))?;
        Some((*place, bit - place.first))
    });
    found.or_else(|| Some((*signals.get(name)?.first()?, 0)))
}

/// Mean power in mW, and the number of changes of all data nets.
fn replay_one(
    netlist: &Netlist,
    plan: &Plan,
    sources: &Sources,
    waves: &Waves,
    samples: &Samples,
) -> Result<(Energy, u64), String> {
    let cycles = samples.places.len();
    if cycles < 2 {
        return Err("fewer than two edges of its clocks in the window".into());
    }
    let mut run = Run::new(netlist.nets, cycles);
    let words = run.words;
    // Each signal is read once for all its bits.
    let mut wanted: HashMap<SignalRef, Vec<(u32, usize)>> = HashMap::new();
    let bits = sources
        .given
        .iter()
        .map(|(_, source)| source)
        .chain(&sources.held)
        .chain(sources.expected.iter().map(|(_, source)| source));
    let bits: Vec<&Source> = bits.collect();
    for (place, source) in bits.iter().enumerate() {
        wanted.entry(source.0.signal).or_default().push((source.1, place));
    }
    let mut columns = vec![vec![0_u64; words]; bits.len()];
    let mut signals: Vec<_> = wanted.into_iter().collect();
    signals.sort();
    for (signal, places) in signals {
        let mut taken: Vec<(u32, Vec<u64>)> =
            places.iter().map(|(bit, place)| (*bit, std::mem::take(&mut columns[*place]))).collect();
        let mut views: Vec<(u32, &mut [u64])> =
            taken.iter_mut().map(|(bit, words)| (*bit, words.as_mut_slice())).collect();
        waves.bits(signal, samples, &mut views)?;
        for ((_, place), (_, words)) in places.iter().zip(taken) {
            columns[*place] = words;
        }
    }
    let expected = columns.split_off(sources.given.len() + sources.held.len());
    let held = columns.split_off(sources.given.len());
    for ((net, _), column) in sources.given.iter().zip(&columns) {
        run.net_mut(*net).copy_from_slice(column);
    }
    for (net, signal) in &sources.clocks {
        waves.rises(*signal, samples, run.net_mut(*net));
    }
    plan.evaluate(&mut run, &held);
    plan.check(&run, &held)?;
    let last = if cycles.is_multiple_of(64) { u64::MAX } else { (1 << (cycles % 64)) - 1 };
    for ((net, _), column) in sources.expected.iter().zip(&expected) {
        let differs = run.net(*net).iter().zip(column).enumerate();
        let differs = differs
            .map(|(word, (own, other))| (own ^ other) & if word + 1 == words { last } else { u64::MAX });
        if differs.into_iter().any(|bits| bits != 0) {
            let port = netlist.ports.iter().find(|port| port.output && port.nets.contains(net));
            return Err(format!(
                "port '{}' has other values than in the waves",
                port.map_or("", |port| &port.name)
            ));
        }
    }
    let span_ps = (samples.span_ps.1 - samples.span_ps.0) as f64;
    let energy = plan.energy(&run, span_ps);
    let changes = plan.data_nets().map(|net| run.transitions(net)).sum();
    // 1 fJ in 1 ps is 1 mW.
    Ok((energy.times(1.0 / span_ps), changes))
}

fn memories(
    design: &Design,
    waves: &Waves,
    samples: &[Samples],
    of_instance: &[usize],
    edges: &Samples,
    period_ps: u64,
) -> Vec<MemoryAccesses> {
    let mut all: BTreeMap<&str, MemoryAccesses> = BTreeMap::new();
    let cycles = (edges.span_ps.1 - edges.span_ps.0) as f64 / period_ps as f64;
    let Some(last) = edges.places.last() else { return Vec::new() };
    for memory in &design.memories {
        let entry = all.entry(&memory.module).or_insert_with(|| MemoryAccesses {
            module: memory.module.clone(),
            instances: 0,
            read_bits: 0.0,
            written_bits: 0.0,
        });
        entry.instances += 1;
        let width = |port: &str| waves.find(memory.scope, port).map_or(0, |place| place.width);
        let around = &samples[of_instance[memory.clocked]];
        // Bits of an enable that are set at the edges of its clock.
        let set = |port: &str, clock: &str| {
            let place = waves.find(memory.scope, port)?;
            let clock = waves.find(memory.scope, clock).or_else(|| waves.find(memory.scope, "clk_i"))?;
            let words = around.places.len().div_ceil(64).max(1);
            let mut columns = vec![vec![0_u64; words]; place.width as usize];
            let mut views: Vec<(u32, &mut [u64])> = columns
                .iter_mut()
                .enumerate()
                .map(|(bit, words)| (bit as u32, words.as_mut_slice()))
                .collect();
            waves.bits(place.signal, around, &mut views).ok()?;
            let mut rises = vec![0; words];
            waves.rises(clock.signal, around, &mut rises);
            // The edge after the last cycle is outside the window.
            for sample in around.places.partition_point(|place| place < last)..around.places.len() {
                rises[sample / 64] &= !(1 << (sample % 64));
            }
            let count = |column: &Vec<u64>| {
                column.iter().zip(&rises).map(|(bits, rises)| (bits & rises).count_ones()).sum::<u32>()
            };
            Some(columns.iter().map(count).sum::<u32>())
        };
        let lanes = f64::from(width("we_i").max(1));
        entry.read_bits += f64::from(set("re_i", "read_clk_i").unwrap_or(0) * width("rdata_o")) / cycles;
        entry.written_bits +=
            f64::from(set("we_i", "write_clk_i").unwrap_or(0) * width("wdata_i")) / lanes / cycles;
    }
    all.into_values().collect()
}
