//! The words of a power run: a table for each window, and one of all windows.

use super::replay::Energy;
use super::{Activity, MemoryAccesses};
use std::fmt::Write;

/// A power run with what it assumed.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct PowerReport {
    /// Name of the library.
    pub library: String,
    /// Transition time at all inputs.
    pub slew_ps: f64,
    /// Load beyond a module at which tables are read.
    pub load_ff: f64,
    /// Energy of a bit that a memory macro reads or writes; an assumption.
    pub sram_pj_per_bit: f64,
    /// Where that is from.
    pub sram_source: String,
    /// Windows.
    pub windows: Vec<WindowReport>,
}

/// Sums of a window.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct WindowReport {
    /// Modules.
    #[serde(flatten)]
    pub activity: Activity,
    /// Sum over the modules in mW.
    pub total_mw: Energy,
    /// Memory macros, by the assumption, in mW.
    pub sram_mw: f64,
    /// Energy of the logic for each unit of work in pJ, if there is any.
    pub pj_per_work: Option<f64>,
    /// The same of the memory macros.
    pub sram_pj_per_work: Option<f64>,
}

impl WindowReport {
    /// Adds up.
    pub fn new(activity: Activity, sram_pj_per_bit: f64) -> Self {
        let mut total_mw = Energy::default();
        activity.modules.iter().for_each(|module| total_mw += module.power_mw);
        let bits = |memory: &MemoryAccesses| memory.read_bits + memory.written_bits;
        let period_ns = activity.period_ps as f64 / 1000.0;
        // 1 pJ in 1 ns is 1 mW.
        let sram_mw = activity.memories.iter().map(bits).fold(0.0, |all, bits| all + bits) * sram_pj_per_bit
            / period_ns;
        let work = activity.window.work.as_ref().map(|(count, _)| *count as f64);
        let per_work = |mw: f64| Some(mw * period_ns * activity.cycles as f64 / work?);
        let (pj_per_work, sram_pj_per_work) = (per_work(total_mw.total()), per_work(sram_mw));
        Self { activity, total_mw, sram_mw, pj_per_work, sram_pj_per_work }
    }
}

impl PowerReport {
    /// JSON.
    ///
    /// # Errors
    /// Never; the signature is `serde_json`'s.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }

    /// Tables.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for window in &self.windows {
            let activity = &window.activity;
            let _ = writeln!(
                text,
                "{}: {}, {} cycles of {} ps from cycle {}, {}\n",
                activity.window.name,
                activity.top,
                activity.cycles,
                activity.period_ps,
                activity.window.start,
                self.library
            );
            head(&mut text, "module", "instances  changes");
            for module in &activity.modules {
                let nets = module.nets * module.instances * activity.cycles;
                let changes = module.changes as f64 / nets.max(1) as f64;
                let before = format!("{:>9} {changes:>8.4}", module.instances);
                row(&mut text, &module.module, &before, module.power_mw, window.total_mw);
            }
            row(&mut text, "total", &" ".repeat(18), window.total_mw, window.total_mw);
            text.push('\n');
            if activity.blocks.len() > 1 {
                head(&mut text, "instance with what is below it", "");
                for block in &activity.blocks {
                    row(&mut text, &block.block, "", block.power_mw, window.total_mw);
                }
                row(&mut text, "total", "", window.total_mw, window.total_mw);
                text.push('\n');
            }
            for memory in &activity.memories {
                let _ = writeln!(
                    text,
                    "{} of {}: {:.1} bits read and {:.1} written in a cycle",
                    memory.instances, memory.module, memory.read_bits, memory.written_bits
                );
            }
            if !activity.memories.is_empty() {
                text.push('\n');
            }
        }
        let _ = writeln!(
            text,
            "{:<16} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}  {:<24}",
            "window",
            "cycles",
            "clock mW",
            "inside mW",
            "charge mW",
            "leak mW",
            "total mW",
            "SRAM mW",
            "logic + SRAM for each"
        );
        for window in &self.windows {
            let Energy { clock, internal, switching, leakage } = window.total_mw;
            let per = match (&window.activity.window.work, window.pj_per_work, window.sram_pj_per_work) {
                (Some((count, unit)), Some(logic), Some(sram)) => {
                    format!("{} + {} pJ/{unit} ({count})", fixed(logic, 3), fixed(sram, 3))
                }
                _ => String::new(),
            };
            let _ = writeln!(
                text,
                "{:<16} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}  {per}",
                window.activity.window.name,
                window.activity.cycles,
                fixed(clock, 3),
                fixed(internal, 3),
                fixed(switching, 3),
                fixed(leakage, 3),
                fixed(window.total_mw.total(), 3),
                fixed(window.sram_mw, 3)
            );
        }
        let _ = write!(
            text,
            "\nSRAM by assumption: {} pJ for each bit read or written, {}; no leakage. No wires, no clock tree, no glitches.",
            self.sram_pj_per_bit, self.sram_source
        );
        text
    }
}

/// A number with some digits, and without the sign of one that is rounded to zero.
fn fixed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.strip_prefix('-') {
        Some(zero) if zero.chars().all(|c| "0.".contains(c)) => zero.to_owned(),
        _ => text,
    }
}

fn head(text: &mut String, first: &str, more: &str) {
    let _ = writeln!(
        text,
        "{first:<36} {more:>18} {:>10} {:>10} {:>10} {:>10} {:>10} {:>7}",
        "clock mW", "inside mW", "charge mW", "leak mW", "total mW", "%"
    );
}

fn row(text: &mut String, name: &str, before: &str, power: Energy, whole: Energy) {
    let share = if whole.total() > 0.0 { 100.0 * power.total() / whole.total() } else { 0.0 };
    let _ = writeln!(
        text,
        "{name:<36} {before:>18} {:>10} {:>10} {:>10} {:>10} {:>10} {:>7}",
        fixed(power.clock, 4),
        fixed(power.internal, 4),
        fixed(power.switching, 4),
        fixed(power.leakage, 4),
        fixed(power.total(), 4),
        fixed(share, 2)
    );
}

#[cfg(test)]
mod tests {
    use super::fixed;

    #[test]
    fn what_is_rounded_to_zero_has_no_sign() {
        assert_eq!([-0.0, -1e-5, 1e-5].map(|value| fixed(value, 3)), ["0.000"; 3]);
        assert_eq!([-0.0006, -12.5, 0.05].map(|value| fixed(value, 3)), ["-0.001", "-12.500", "0.050"]);
    }
}
