//! Runs every module of a hierarchy through Yosys, and its netlist through OpenSTA, several at a time.
//!
//! Each module has its own folder, because ABC writes a file of a fixed name. Libraries are linked into it: the
//! WebAssembly build of Yosys opens relative paths only and follows no symbolic links out.

use crate::files::{create_folder, read, unwritten, write};
use crate::liberty::{ClockGate, Family, Liberty};
use crate::parse::{self, AbcDelay, CellCounts};
use crate::script::{self, Mapping, Recipe};
use crate::source::{Hierarchy, Unit};
use crate::sta;
use crate::tools::Tool;
use ndp_files::{Error, Result, failure, refusal};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const YOSYS: &str = "Yosys";
const OPENSTA: &str = "OpenSTA";
#[derive(Debug)]
pub struct Library {
    /// Gates, and flip-flops when there is no `seq`.
    pub comb: Liberty,
    /// Flip-flops that `dfflibmap` may choose.
    pub seq: Option<Liberty>,
    /// Parts of names of cells that must not be used.
    pub avoided: Vec<String>,
}

impl Library {
    pub fn family(&self) -> Family {
        self.comb.family()
    }

    /// Driving cell of every input, and load of every output in fF; `None` if the library lacks the cell.
    pub fn boundary(&self) -> Option<(&'static str, f64)> {
        self.family().boundary().filter(|(cell, _)| self.comb.cells.contains_key(*cell))
    }

    /// Sum of areas and kinds over a netlist, without the black boxes in `children`.
    fn sum(&self, cells: &CellCounts, unit: &Unit) -> Result<Cells> {
        let mut sum = Cells::default();
        for (name, count) in cells.iter().filter(|(name, _)| !unit.children.contains_key(*name)) {
            let found = self.comb.cells.get(name).or_else(|| self.seq.as_ref()?.cells.get(name));
            let cell = found.ok_or_else(|| unmapped(unit, name, *count))?;
            sum.area_um2 += cell.area_um2 * *count as f64;
            sum.cells += count;
            sum.flip_flops += if cell.sequential { *count } else { 0 };
        }
        Ok(sum)
    }
}

#[derive(Default)]
struct Cells {
    area_um2: f64,
    cells: u64,
    flip_flops: u64,
}

fn unmapped(unit: &Unit, cell: &str, count: u64) -> Error {
    refusal!(
        "module '{}' still holds {count} cells '{cell}' that no given library provides{}",
        unit.name,
        if cell.contains("DFF") { " (no matching flip-flop: give one with --liberty-seq)" } else { "" }
    )
}

#[derive(Debug)]
pub struct Flow {
    pub yosys: Tool,
    /// OpenSTA, for timing; needs a library.
    pub sta: Option<Tool>,
    /// Cell library; `None` counts generic gates only.
    pub library: Option<Library>,
    /// The smallest result that meets its timing is kept.
    pub recipes: Vec<Recipe>,
    /// Further recipes for modules that miss the timing; each takes its time again.
    pub fallback: Vec<Recipe>,
    /// Gate for registers with an enable, as from [`Family::clock_gate`].
    pub clock_gate: Option<ClockGate>,
    pub period_ps: f64,
    /// Modules synthesised in parallel.
    pub jobs: usize,
    pub limit: Duration,
}

/// Technology-independent, for a module's own logic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Generic {
    pub cells: u64,
    pub flip_flops: u64,
    /// Transistors in static CMOS, 16 for a flip-flop.
    pub transistors: u64,
}

/// Result in the library's cells, for a module's own logic.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Mapped {
    pub recipe: Recipe,
    pub area_um2: f64,
    pub cells: u64,
    pub flip_flops: u64,
    /// Longest combinational path by ABC; `None` without combinational logic.
    pub delay_ps: Option<f64>,
    pub timing: Option<sta::Timing>,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Figures {
    pub generic: Generic,
    pub mapped: Option<Mapped>,
}

impl Flow {
    pub fn target_ps(&self) -> f64 {
        self.period_ps * script::ABC_SHARE
    }

    /// Runs every module except memories; the result has one entry per module, in order. `done` gets the name of each
    /// finished module, from any thread.
    ///
    /// # Errors
    /// The first failure, in the order of the modules, among those that had started.
    pub fn run(
        &self,
        hierarchy: &Hierarchy,
        folder: &Path,
        done: &(dyn Fn(&str) + Sync),
    ) -> Result<Vec<Option<Figures>>> {
        self.write_libraries(folder)?;
        let mut order: Vec<usize> =
            (0..hierarchy.units.len()).filter(|i| hierarchy.units[*i].memory.is_none()).collect();
        // Long ones first, so that none starts when everything else has finished.
        order.sort_by_key(|i| (std::cmp::Reverse(hierarchy.units[*i].verilog.len()), *i));
        let stop = AtomicBool::new(false);
        let found = ndp_files::map_on_threads(self.jobs, order.len(), |number| {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let index = order[number];
            let figures = self.module(hierarchy, index, folder);
            match &figures {
                Ok(_) => done(&hierarchy.units[index].name),
                Err(_) => stop.store(true, Ordering::Relaxed),
            }
            Some((index, figures))
        });
        let mut found: Vec<_> = found.into_iter().flatten().collect();
        found.sort_by_key(|(index, _)| *index);
        let mut all = vec![None; hierarchy.units.len()];
        for (index, figures) in found {
            all[index] = Some(figures?);
        }
        Ok(all)
    }

    fn write_libraries(&self, folder: &Path) -> Result<()> {
        let Some(library) = &self.library else { return Ok(()) };
        write(&folder.join(script::COMB_LIB), &library.comb.text_without(&library.avoided))?;
        if let Some(seq) = &library.seq {
            write(&folder.join(script::SEQ_LIB), &seq.text_without(&[]))?;
        }
        write(&folder.join(script::CONSTRAINTS), &script::constraints(library.boundary()))
    }

    fn prepare(
        &self,
        hierarchy: &Hierarchy,
        index: usize,
        folder: &Path,
        recipes: &[Recipe],
    ) -> Result<PathBuf> {
        let unit = &hierarchy.units[index];
        let own = folder.join(format!("m{index:04}"));
        create_folder(&own)?;
        if let Some(library) = &self.library {
            let seq = if library.seq.is_some() { script::SEQ_LIB } else { script::COMB_LIB };
            for (from, to) in [
                (script::COMB_LIB, script::COMB_LIB),
                (seq, script::SEQ_LIB),
                (script::CONSTRAINTS, script::CONSTRAINTS),
            ] {
                link(&folder.join(from), &own.join(to))?;
            }
        }
        // ABC appends to it.
        let _ = std::fs::remove_file(own.join(script::ABC_STATS));
        let test_enable = self.clock_gate.as_ref().is_some_and(|gate| gate.test_enable);
        let stubs = unit.children.keys().filter_map(|name| hierarchy.unit(name)).map(|child| {
            if test_enable && child.has_registers() {
                child.stub_with_input(script::TEST_ENABLE)
            } else {
                child.stub.clone()
            }
        });
        let verilog: String = stubs.chain([unit.verilog.clone()]).collect::<Vec<_>>().join("\n");
        write(&own.join(script::VERILOG), &verilog)?;
        let mapping = self.library.is_some().then(|| Mapping {
            recipes: recipes.to_vec(),
            target_ps: self.target_ps(),
            clock_gating: self.clock_gate.is_some(),
            test_enable,
        });
        if let Some(gate) = &self.clock_gate {
            write(&own.join(script::CLOCK_GATE), &gate.verilog)?;
            write(&own.join(script::GATED), &script::clock_gate_stub(gate.test_enable))?;
            write(&own.join(script::GATED_MAP), &script::gated_registers())?;
        }
        write(&own.join(script::SCRIPT), &script::yosys_script(unit, mapping.as_ref()))?;
        Ok(own)
    }

    fn module(&self, hierarchy: &Hierarchy, index: usize, folder: &Path) -> Result<Figures> {
        let figures = self.module_by(hierarchy, index, folder, &self.recipes)?;
        let met = figures.mapped.as_ref().is_none_or(|mapped| miss(mapped, self.target_ps()) <= 0.0);
        if self.fallback.is_empty() || met {
            return Ok(figures);
        }
        let all = [&self.recipes[..], &self.fallback].concat();
        self.module_by(hierarchy, index, folder, &all)
    }

    fn module_by(
        &self,
        hierarchy: &Hierarchy,
        index: usize,
        folder: &Path,
        recipes: &[Recipe],
    ) -> Result<Figures> {
        let unit = &hierarchy.units[index];
        let own = self.prepare(hierarchy, index, folder, recipes)?;
        self.yosys.run(YOSYS, (&unit.name, &own), &[script::SCRIPT], script::LOG, self.limit)?;
        let generic = generic(&self.stat(&own, script::GENERIC_STAT, unit)?, unit)?;
        let Some(library) = &self.library else { return Ok(Figures { generic, mapped: None }) };
        let dumped = std::fs::read_to_string(own.join(script::ABC_STATS)).unwrap_or_default();
        let dumped: Vec<&str> = dumped.lines().filter(|line| !line.trim().is_empty()).collect();
        let mut found = Vec::new();
        for (position, recipe) in recipes.iter().enumerate() {
            let cells = library.sum(&self.stat(&own, &script::mapped_stat(*recipe), unit)?, unit)?;
            let log = read(&own.join(script::abc_log(*recipe)))?;
            let delay = parse::abc_delay(&log, dumped.get(position).copied())
                .map_err(|reason| output(YOSYS, &unit.name, reason))?;
            let mut mapped = Mapped {
                recipe: *recipe,
                area_um2: cells.area_um2,
                cells: cells.cells,
                flip_flops: cells.flip_flops,
                delay_ps: match delay {
                    AbcDelay::Ps(ps) => Some(ps),
                    AbcDelay::NoLogic => None,
                },
                timing: None,
            };
            if let Some(tool) = &self.sta {
                mapped.timing = Some(self.time(tool, library, unit, &mapped, &own)?);
            }
            found.push(mapped);
        }
        let mapped = best(found, self.target_ps());
        if let Some(mapped) = &mapped {
            link(&own.join(script::named_netlist(mapped.recipe)), &own.join(script::CHOSEN_NETLIST))?;
        }
        Ok(Figures { generic, mapped })
    }

    fn time(
        &self,
        tool: &Tool,
        library: &Library,
        unit: &Unit,
        mapped: &Mapped,
        own: &Path,
    ) -> Result<sta::Timing> {
        let netlist = script::netlist(mapped.recipe);
        let boundary = library.boundary().map(|(cell, load_ff)| (cell, load_ff / library.comb.cap_unit_ff));
        let both = [script::COMB_LIB, script::SEQ_LIB];
        let request = sta::Request {
            module: &unit.name,
            libraries: if library.seq.is_some() { &both } else { &both[..1] },
            netlist: &netlist,
            clocks: &unit.clocks,
            registers: mapped.flip_flops > 0,
            period_ps: self.period_ps,
            time_unit_ps: library.comb.time_unit_ps,
            boundary,
        };
        write(&own.join(sta::SCRIPT), &sta::script(&request))?;
        let arguments = ["-no_splash", "-exit", sta::SCRIPT];
        tool.run(OPENSTA, (&unit.name, own), &arguments, sta::LOG, self.limit)?;
        sta::timing(&read(&own.join(sta::LOG))?, &request)
            .map_err(|reason| output(OPENSTA, &unit.name, reason))
    }

    fn stat(&self, own: &Path, file: &str, unit: &Unit) -> Result<CellCounts> {
        parse::stat_json(&read(&own.join(file))?, &unit.name)
            .map_err(|reason| output(YOSYS, &unit.name, reason))
    }
}

/// Excess over the target in ps: OpenSTA's slack, which sees clock-to-Q and setup, else ABC's delay. At most 0 if the
/// timing is met.
fn miss(mapped: &Mapped, target_ps: f64) -> f64 {
    let worst = mapped.timing.as_ref().and_then(|timing| timing.worst.as_ref());
    worst.map_or_else(|| mapped.delay_ps.unwrap_or(0.0) - target_ps, |path| -path.slack_ps)
}

/// The smallest result that meets its timing, or the fastest when none does.
fn best(found: Vec<Mapped>, target_ps: f64) -> Option<Mapped> {
    let miss = |mapped: &Mapped| miss(mapped, target_ps);
    found.into_iter().min_by(|a, b| match (miss(a) > 0.0, miss(b) > 0.0) {
        (true, true) => miss(a).total_cmp(&miss(b)),
        (false, false) => a.area_um2.total_cmp(&b.area_um2),
        (a, b) => a.cmp(&b),
    })
}

fn generic(cells: &CellCounts, unit: &Unit) -> Result<Generic> {
    let mut sum = Generic::default();
    for (name, count) in cells.iter().filter(|(name, _)| !unit.children.contains_key(*name)) {
        let each = parse::transistors(name).ok_or_else(|| unmapped(unit, name, *count))?;
        sum.cells += count;
        sum.transistors += each * count;
        sum.flip_flops += if name.contains("DFF") { *count } else { 0 };
    }
    Ok(sum)
}

fn output(tool: &'static str, module: &str, reason: String) -> Error {
    failure!("cannot read the output of {tool} for module '{module}': {reason}")
}

fn link(from: &Path, to: &Path) -> Result<()> {
    let _ = std::fs::remove_file(to);
    std::fs::hard_link(from, to).or_else(|_| std::fs::copy(from, to).map(drop)).map_err(unwritten(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(recipe: Recipe, area_um2: f64, delay_ps: f64) -> Mapped {
        Mapped { recipe, area_um2, cells: 1, flip_flops: 0, delay_ps: Some(delay_ps), timing: None }
    }

    #[test]
    fn the_smallest_that_meets_the_target_wins() {
        let found = || {
            vec![
                mapped(Recipe::Balanced, 438.0, 734.0),
                mapped(Recipe::Area, 435.0, 1114.0),
                mapped(Recipe::Speed, 468.0, 608.0),
            ]
        };
        let chosen = |target| best(found(), target).map(|m| m.recipe);
        assert_eq!(chosen(1200.0), Some(Recipe::Area));
        assert_eq!(chosen(900.0), Some(Recipe::Balanced));
        assert_eq!(chosen(734.0), Some(Recipe::Balanced));
        assert_eq!(chosen(733.9), Some(Recipe::Speed));
        assert_eq!(chosen(100.0), Some(Recipe::Speed));
    }

    #[test]
    fn slack_decides_if_there_is_any() {
        let slack = |slack_ps: f64, mapped: Mapped| {
            let worst = Some(sta::Path { slack_ps, ..sta::Path::default() });
            Mapped { timing: Some(sta::Timing { worst, registers: None }), ..mapped }
        };
        let found = |balanced, speed| {
            vec![
                slack(balanced, mapped(Recipe::Balanced, 438.0, 893.0)),
                slack(speed, mapped(Recipe::Speed, 468.0, 899.0)),
            ]
        };
        let chosen = |balanced, speed| best(found(balanced, speed), 900.0).map(|m| m.recipe);
        assert_eq!(chosen(0.0, 20.0), Some(Recipe::Balanced));
        assert_eq!(chosen(-15.8, 0.0), Some(Recipe::Speed));
        assert_eq!(chosen(-15.8, -20.0), Some(Recipe::Balanced));
    }

    #[test]
    fn a_cell_without_known_size_is_an_error_but_a_black_box_is_not() {
        let unit = Unit {
            name: "top".into(),
            verilog: String::new(),
            stub: String::new(),
            children: [("ram".to_owned(), 2)].into(),
            instances: 1,
            memory: None,
            clocks: vec!["clk_i".into()],
        };
        let cells = |name: &str| CellCounts::from([(name.to_owned(), 3), ("ram".to_owned(), 2)]);
        let sum = generic(&cells("$_DFF_P_"), &unit).unwrap();
        assert_eq!(sum, Generic { cells: 3, flip_flops: 3, transistors: 48 });
        let error = generic(&cells("$_DLATCH_P_"), &unit).unwrap_err().to_string();
        assert!(error.contains("3 cells '$_DLATCH_P_'"), "{error}");
    }
}
