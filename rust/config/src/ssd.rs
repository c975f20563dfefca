//! An SSD below the DIMMs: time to read scattered chunks.

use crate::keys::checked;
use crate::{NameRule, getters, in_range, name_is, parse, presets};
use ndp_files::Result;
use serde::{Deserialize, Serialize};

checked! {
    "ssd.", ssd:
    /// An SSD and how it is read.
    ///
    /// A thread waits for the latency of a request, then its stream delivers the chunk. As many requests as threads and queue depth allow overlap; all
    /// together are no faster than the SSD reads in sequence. Of `n` chunks of `c` bytes each chunk takes
    ///
    /// `max(c / bandwidth, latency / (threads x queue depth) + c / (stream x threads), 1 / iops)`
    ///
    /// and all together never less than the latency of one request.
    ///
    /// ```
    /// let ssd = ndp_config::Ssd::preset("flash-m1").unwrap();
    /// // 64 x (184 us + 16 KiB / 0.35 GB/s) / 32.
    /// assert_eq!(ssd.read_ns(64, 16 << 10), 461_623);
    /// ```
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Ssd {
        name: String;
        bandwidth_gbps: f64, in_range(1e-3, 1e4);
        latency_us: f64, in_range(0.0, 1e6);
        stream_gbps: f64, in_range(1e-3, 1e4);
        threads: u32, in_range(1, 4096);
        queue_depth: u32, in_range(1, 65_536);
        #[serde(default, skip_serializing_if = "Option::is_none")]
        iops: Option<u32>;
    }
}

presets!(
    Ssd,
    "SSD",
    "flash-m1" => "../presets/ssds/flash-m1.toml",
    "flash-linux" => "../presets/ssds/flash-linux.toml",
    "nvme-pcie4" => "../presets/ssds/nvme-pcie4.toml",
);

getters!(Ssd {
    /// Name of the SSD.
    name: &str,
    /// Sequential rate.
    bandwidth_gbps: f64,
});

impl Ssd {
    /// Parses and validates an SSD in TOML; unknown keys are errors.
    pub fn from_toml(text: &str) -> Result<Self> {
        let ssd: Self = parse(text)?;
        ssd.validate()?;
        Ok(ssd)
    }

    pub(crate) fn validate(&self) -> Result<()> {
        name_is(NameRule::Title, "ssd.name", &self.name)?;
        self.check_keys()?;
        in_range("ssd.iops", self.iops.unwrap_or(u32::MAX), 1, u32::MAX)
    }

    /// Nanoseconds of reading `chunks` chunks of `chunk_bytes`, rounded up once; 0 for 0 chunks or bytes.
    pub fn read_ns(&self, chunks: u64, chunk_bytes: u64) -> u64 {
        if chunks == 0 || chunk_bytes == 0 {
            return 0;
        }
        let (bytes, threads) = (chunk_bytes as f64, f64::from(self.threads));
        let latency = self.latency_us * 1e3;
        // Bytes over GB/s are ns.
        let streams =
            latency / (threads * f64::from(self.queue_depth)) + bytes / (self.stream_gbps * threads);
        let requests = self.iops.map_or(0.0, |iops| 1e9 / f64::from(iops));
        let chunk = (bytes / self.bandwidth_gbps).max(streams).max(requests);
        (chunks as f64 * chunk).max(latency).ceil() as u64
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn table_2_of_llm_in_a_flash_is_met_within_15_percent() {
        // OPT-6.7B in 16 bits: 32 layers, 4,096 wide, FFN 16,384; 6.66e9 parameters. Rows of 8 KiB; a bundle is two.
        let (ssd, row) = (Ssd::preset("flash-m1").unwrap(), 8_192);
        let rows = 32.0 * 2.0 * 16_384.0;
        let of = |share: f64| (rows * share).round() as u64;
        // 3 % of the neurons are active; the predictor misses 5 %, and takes 7 % of the others for active (section
        // 3.1).
        let predicted = 0.03 * 0.95 + 0.97 * 0.07;
        // All in sequence, half of it, predicted rows, the 2.4 % missing in a window of five tokens, these in bundles.
        let whole = 13_317_000_000;
        let found = [
            ssd.read_ns(1, whole),
            ssd.read_ns(1, whole / 2),
            ssd.read_ns(of(predicted), row),
            ssd.read_ns(of(0.024), row),
            ssd.read_ns(of(0.024) / 2, 2 * row),
        ];
        assert_eq!(found.map(|ns| (ns as f64 / 1e6).round() as u64), [2_183, 1_092, 655, 163, 91]);
        for (found, paper) in found.into_iter().zip([2_130.0, 1_090.0, 738.0, 164.0, 87.0]) {
            assert!((found as f64 / 1e6 / paper - 1.0).abs() < 0.15, "{found} ns, {paper} ms");
        }
        // Section 4.1: 32 bits on this machine, 16 bits on the one with a GPU.
        let others = [ssd.read_ns(of(0.024) / 2, 4 * row), {
            Ssd::preset("flash-linux").unwrap().read_ns(of(0.024) / 2, 2 * row)
        }];
        for (found, paper) in others.into_iter().zip([125.0, 40.5]) {
            assert!((found as f64 / 1e6 / paper - 1.0).abs() < 0.15, "{found} ns, {paper} ms");
        }
    }

    #[test]
    fn an_ssd_is_bound_by_latency_streams_bandwidth_or_requests() {
        let base = "name = \"x\"\nbandwidth_gbps = 4.0\nlatency_us = 100.0\nstream_gbps = 0.5\nthreads = 4\n";
        let one = Ssd::from_toml(&format!("{base}queue_depth = 1")).unwrap();
        assert_eq!([one.read_ns(0, 9), one.read_ns(9, 0)], [0, 0]);
        // One request waits for its latency.
        assert_eq!(one.read_ns(1, 1), 100_000);
        // 100 us / 4 + 4,000 / 2 GB/s; the sum is rounded up.
        assert_eq!(one.read_ns(10, 4_000), 10 * 27_000);
        assert_eq!(one.read_ns(11, 4_001), 297_006);
        // Large chunks go at the rate of all threads.
        assert_eq!(one.read_ns(1, 4_000_000_000), 2_000_025_000);
        let deep = Ssd::from_toml(&format!("{base}queue_depth = 100\niops = 500_000")).unwrap();
        assert_eq!(deep.read_ns(1_000, 2_000), 2_000_000);
        assert_eq!(deep.read_ns(1_000, 6_000), 3_250_000);
        let fast = Ssd::from_toml(&format!("{}queue_depth = 100", base.replace("0.5", "5.0"))).unwrap();
        assert_eq!(fast.read_ns(1_000, 40_000), 10_000_000);
    }

    #[test]
    fn values_that_no_ssd_has_are_refused_by_name() {
        for name in Ssd::PRESETS {
            assert_eq!(Ssd::preset(name).unwrap().name(), name);
        }
        let text = include_str!("../presets/ssds/nvme-pcie4.toml");
        for (from, to, named) in [
            ("= 7.0", "= 0.0", "ssd.bandwidth_gbps = 0"),
            ("= 44.3", "= -1.0", "ssd.latency_us = -1"),
            ("= 3.5", "= nan", "ssd.stream_gbps = NaN"),
            ("threads = 16", "threads = 0", "ssd.threads = 0 must be in 1..=4096"),
            ("= 32 ", "= 0 ", "ssd.queue_depth = 0 must be in 1..=65536"),
            ("= 1_000_000", "= 0", "ssd.iops = 0"),
            ("iops", "iop", "iop"),
        ] {
            assert!(text.contains(from), "{from}");
            let error = Ssd::from_toml(&text.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
