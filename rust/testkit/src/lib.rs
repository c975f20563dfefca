//! Random draws for tests of several crates: legal configurations, for tests of generator, planner and simulation, and
//! programs ([`random_programs`], [`malform`]); how much of a series runs ([`amount`], [`some`], [`first`], [`whole`]);
//! checks of a binary from outside ([`programs`]); and the bandwidth of a rank's read stream by formula ([`stream`]).
//!
//! Every key is drawn here, one line each, within the limits of `ndp_config` (`docs/configuration.md`): often a limit
//! itself, else any value between. The order of drawing, or drawing again, keeps what ties keys together. A new key
//! gets a line in its table. Tests choose their own checks of a configuration.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod fuzz;
pub mod malform;
mod program_writer;
pub mod programs;
mod random_memories;
mod random_merges;
pub mod random_programs;
mod random_selections;
mod series;
pub mod stream;

pub use malform::malformed_word;
pub use random_memories::random_memory;
pub use random_programs::{ProgramOptions, RandomPrograms};
pub use series::{amount, first, some, whole};

use ndp_config::{DesignConfig, GemvConfig};
use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    All,
    /// Few multipliers and short vectors, so that models are small. All other keys have their full range.
    Small,
}

/// A valid configuration, as it would be written to a file.
#[derive(Clone, Debug)]
pub struct RandomConfig {
    /// The same seed gives the same configuration.
    pub seed: u64,
    pub toml: String,
    pub config: DesignConfig,
}

impl RandomConfig {
    pub fn of(seed: u64, extent: Extent) -> Self {
        let mut draw = Draw::of(seed);
        // From sequences of their own, so that old seeds keep their meaning.
        let mut formats = Draw::of(seed.wrapping_add(1 << 32));
        let mut shares = Draw::of(seed.wrapping_add(2 << 32));
        let multipliers = ["bit-serial", "digit-serial", "shared-parallel"];
        let multiplier = multipliers[Draw::of(seed.wrapping_add(4 << 32)).below(3) as usize];
        let shared = Draw::of(seed.wrapping_add(5 << 32)).below(2) == 1;
        let exponential = if shared { "shared" } else { "per-lane" };
        loop {
            let formats = if formats.below(3) > 0 { "all" } else { "fp16" };
            let toml = draw.configuration(seed, extent, [formats, multiplier, exponential], &mut shares);
            // The reader enforces the rules that tie the sizes of the unit together (slices, chunks).
            if let Ok(config) = DesignConfig::from_toml(&toml) {
                return Self { seed, toml, config };
            }
        }
    }
}

/// The seeds of the small configurations that are simulated, and hence must pass the linters.
pub fn simulated_seeds() -> Vec<u64> {
    (0..10).chain(1000..1200).collect()
}

/// Random numbers of a fixed sequence (Knuth's 64-bit linear congruential generator, upper bits).
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    pub fn of(seed: u64) -> Self {
        let mut draw = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // Neighbouring seeds begin alike.
        for _ in 0..4 {
            draw.below(2);
        }
        draw
    }

    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(bound)) as u32
    }

    pub fn one_of(&mut self, from: &[u32]) -> u32 {
        from[self.below(from.len() as u32) as usize]
    }

    /// A number within limits, each limit in one case of six.
    pub fn within(&mut self, min: u32, max: u32) -> u32 {
        match self.below(6) {
            0 => min,
            1 => max,
            _ => min + self.below(max - min + 1),
        }
    }

    /// A number within limits, seldom far from the lower one, as long times make long runs.
    fn short(&mut self, min: u32, max: u32) -> u32 {
        match self.below(8) {
            0 => min,
            1 => self.within(min, max),
            _ => min + self.below(max.min(4 * min + 8) - min + 1),
        }
    }

    /// A power of two within limits that are powers of two.
    pub fn power(&mut self, min: u32, max: u32) -> u32 {
        min << self.below((max / min).ilog2() + 1)
    }

    fn configuration(&mut self, seed: u64, extent: Extent, names: [&str; 3], shares: &mut Self) -> String {
        let mut text = format!("name = \"random-{seed}\"\n");
        let tables = [
            ("gemv", self.gemv(extent, names, shares)),
            ("dram", self.dram()),
            ("core", self.core()),
            ("link", self.link(extent)),
            ("axi", self.axi()),
        ];
        for (table, keys) in tables {
            let _ = writeln!(text, "\n[{table}]");
            for (key, value) in keys {
                let _ = writeln!(text, "{key} = {value}");
            }
        }
        text
    }

    fn gemv(
        &mut self,
        extent: Extent,
        [formats, multiplier, exponential]: [&str; 3],
        shares: &mut Self,
    ) -> Vec<(&'static str, String)> {
        let small = extent == Extent::Small;
        let segments = self.within(3, 6);
        let mut keys = [
            ("multipliers", self.power(4, if small { 16 } else { 1024 })),
            ("lanes", self.power(8, 16)),
            ("serial_steps", self.within(2, 11)),
            ("acc_bits", segments * self.within(97u32.div_ceil(segments), 120 / segments)),
            ("acc_segments", segments),
            ("ranks", self.power(1, 4)),
            ("buffer_kib", self.power(1, if small { 32 } else { 1024 })),
            ("max_batch", self.power(1, 16)),
            ("weight_fifo_beats", self.power(4, 64)),
        ];
        // No row that the buffer holds overflows the accumulator.
        let [(_, multipliers), (_, lanes), _, (_, acc_bits), _, (_, ranks), (_, buffer_kib), ..] = &mut keys;
        *acc_bits = (*acc_bits).max(GemvConfig::acc_bits_for(512 * *buffer_kib).next_multiple_of(segments));
        // A stripe of one beat is FP16.
        let (multipliers, lanes, ranks) = (*multipliers, *lanes, *ranks);
        let formats = if multipliers / ranks * lanes < 64 { "fp16" } else { formats };
        let mut keys = written(keys);
        keys.push(("weight_formats", format!("\"{formats}\"")));
        keys.push(("multiplier", format!("\"{multiplier}\"")));
        keys.push(("exponential", format!("\"{exponential}\"")));
        // In one case of two, slices share lanes of the activation unit.
        if shares.below(2) == 1 {
            keys.push(("activation_lanes", shares.power(ranks, multipliers).to_string()));
        }
        keys
    }

    fn dram(&mut self) -> Vec<(&'static str, String)> {
        let (t_cl, t_rrd_s, t_wtr_s) = (self.within(8, 60), self.short(1, 32), self.short(1, 60));
        let t_ccd_s = self.short(4, 32);
        let (t_ras, t_rp) = (self.within(4, 120), self.within(4, 120));
        let (t_rc, t_rfc) = (self.short((t_ras + t_rp).max(8), 240), self.short(16, 4000));
        let keys = [
            ("speed", self.one_of(&[2400, 2666, 2933, 3200])),
            ("bank_groups", self.power(2, 4)),
            ("row_bits", self.within(8, 17)),
            ("t_rc", t_rc),
            ("t_rcd", self.within(4, 120)),
            ("t_cl", t_cl),
            ("t_rp", t_rp),
            ("t_ccd_s", t_ccd_s),
            ("t_ccd_l", self.short(t_ccd_s, 32)),
            ("t_rrd_s", t_rrd_s),
            ("t_rrd_l", self.within(t_rrd_s, 32)),
            ("t_faw", self.within(4, 120)),
            ("t_ras", t_ras),
            ("t_cwl", self.within(8, t_cl)),
            ("t_wr", self.within(4, 120)),
            ("t_wtr_s", t_wtr_s),
            ("t_wtr_l", self.within(t_wtr_s, 60)),
            ("t_rtp", self.within(4, 60)),
            ("t_rfc", t_rfc),
            ("t_refi", self.within((2 * t_rfc + t_rc).max(512), 65_532)),
        ];
        let mut keys = written(keys);
        // Any time, not only the standard's.
        keys.push(("jedec", false.to_string()));
        keys
    }

    fn core(&mut self) -> Vec<(&'static str, String)> {
        let keys = [
            ("clock_mhz", self.within(200, 2000)),
            ("queue_entries", self.power(8, 1024)),
            ("list_entries", self.power(64, 4096)),
            ("read_fifo_beats", self.power(16, 256)),
        ];
        let mut keys = written(keys);
        keys.push(("link", (self.below(2) == 1).to_string()));
        keys
    }

    fn link(&mut self, extent: Extent) -> Vec<(&'static str, String)> {
        // Short time-outs are worth more than long ones that no test reaches.
        let longest = self.one_of(&[12, 14, 16, 24]);
        let fault = self.power(1 << 10, 1 << longest);
        let keys = [
            ("lanes", self.power(4, 8)),
            ("flit_beats", self.power(2, 8)),
            ("frame_flits", self.power(2, 64)),
            ("replay_flits", self.power(4, if extent == Extent::Small { 32 } else { 64 })),
            ("receive_flits", self.power(4, if extent == Extent::Small { 32 } else { 64 })),
            ("timeout_cycles", self.power(256, 65_536)),
            ("fault_cycles", fault),
            ("transfer_cycles", self.power(2 * fault, 2 << longest)),
            ("bridge_ports", self.within(2, 8)),
        ];
        written(keys)
    }

    fn axi(&mut self) -> Vec<(&'static str, String)> {
        let keys = [
            ("data_bits", self.power(32, 512)),
            ("id_bits", self.within(1, 16)),
            ("outstanding", self.power(4, 64)),
        ];
        written(keys)
    }
}

fn written<const N: usize>(keys: [(&'static str, u32); N]) -> Vec<(&'static str, String)> {
    keys.into_iter().map(|(key, value)| (key, value.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_is_a_configuration_and_seeds_differ() {
        let texts: BTreeSet<String> = (0..200).map(|seed| RandomConfig::of(seed, Extent::All).toml).collect();
        assert_eq!(texts.len(), 200);
        let again = RandomConfig::of(7, Extent::All);
        assert!(texts.contains(&again.toml));
        assert!(RandomConfig::of(7, Extent::Small).config.gemv().multipliers() <= 16);
    }

    #[test]
    fn limits_are_met() {
        let drawn: Vec<DesignConfig> =
            (0..400).map(|seed| RandomConfig::of(seed, Extent::Small).config).collect();
        let reached = |name: &str, of: &dyn Fn(&DesignConfig) -> u32, values: &[u32]| {
            let found: BTreeSet<u32> = drawn.iter().map(of).collect();
            assert!(values.iter().all(|value| found.contains(value)), "{name}: {found:?}");
        };
        reached("ranks", &|c| c.gemv().ranks(), &[1, 2, 4]);
        reached("lanes", &|c| c.gemv().lanes(), &[8, 16]);
        reached("slices of a lane", &|c| c.gemv().slices_per_lane(), &[1, 2, 4, 8]);
        reached("shared exponentials", &|c| c.gemv().shares_exponential().into(), &[0, 1]);
        reached("windows of a product", &|c| c.gemv().product_windows(), &[0, 1]);
        reached("window", &|c| c.gemv().window_cycles(), &[10, 11, 13, 18, 21]);
        reached("row_bits", &|c| c.dram().row_bits(), &[8, 17]);
        reached("t_cl", &|c| c.dram().t_cl(), &[8, 60]);
        reached("t_rcd", &|c| c.dram().t_rcd(), &[4, 120]);
        reached("t_rfc", &|c| c.dram().t_rfc(), &[16, 4000]);
        reached("queue_entries", &|c| c.core().queue_entries(), &[8, 1024]);
        reached("link", &|c| c.core().link().into(), &[0, 1]);
        reached("frame_flits", &|c| c.link().frame_flits(), &[2, 64]);
        reached("data_bits", &|c| c.axi().data_bits(), &[32, 512]);
    }
}
