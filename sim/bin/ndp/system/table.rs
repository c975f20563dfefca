//! Several runs in one table: numbers of DIMMs, policies, forms of partial results.

use super::args::LinksChoice;
use super::run::{Choice, Host, Outcome, Quality};
use crate::gemv::name;
use crate::tools::{Tools, per_second};
use ndp_config::DesignConfig;
use ndp_sim::core::Backend;
use ndp_sim::system::{Breakdown, Differences, GpuNumerics, MergeFigures};
use serde::Serialize;

/// One run.
#[derive(Serialize)]
pub struct Row {
    #[serde(flatten)]
    choice: Choice,
    text: String,
    /// Whether text and logits are those of exact sums in software.
    text_identical: bool,
    logits_identical: bool,
    outputs_checked: u64,
    mismatches: u64,
    protocol_violations: u64,
    backdoor_accesses: u64,
    cycles_equal_model: bool,
    /// Of the slowest cores of each step, behind the prompt.
    cycles_per_token: f64,
    tokens_per_second: f64,
    system_ns_per_token: f64,
    system_tokens_per_second: f64,
    /// Cycles of the core that has most over the mean.
    imbalance: f64,
    /// Neurons that the scheduler moved; with links in RTL those that have arrived.
    migrations: u64,
    uploads: u64,
    /// Flits that links in RTL sent again.
    flits_sent_again: u64,
    bus_bytes: u64,
    link_bytes: u64,
    #[serde(rename = "merge_figures")]
    merge: MergeFigures,
    differences: Differences,
    recall: Option<f64>,
    time: Breakdown,
    seconds: f64,
}

impl Row {
    /// Of a run with cores of this clock.
    pub fn new(outcome: &Outcome, core_ghz: f64) -> Self {
        let figures = &outcome.figures;
        let (cycles_per_token, system_ns_per_token) = outcome.per_token();
        let (mut uploaded, mut migrated) =
            (outcome.sum(|record| record.upload_bytes), outcome.sum(|record| record.migration_bytes));
        let (mut uploads, mut migrations) =
            (outcome.sum(|record| record.uploads), outcome.sum(|record| record.migrations));
        let mut flits_sent_again = 0;
        if let Some(links) = &figures.links {
            (uploaded, migrated) = (links.upload_bytes, links.migration_bytes);
            (uploads, migrations) = (links.uploads, links.migrations);
            flits_sent_again = links.counters.iter().map(|link| u64::from(link.sent_again)).sum();
        }
        Self {
            choice: outcome.choice,
            text: outcome.generation.text.clone(),
            text_identical: outcome.same_text,
            logits_identical: outcome.difference.is_none(),
            outputs_checked: figures.outputs_checked,
            mismatches: figures.mismatches,
            protocol_violations: outcome.violations,
            backdoor_accesses: outcome.backdoor_accesses,
            cycles_equal_model: outcome.is_on_time(),
            cycles_per_token,
            tokens_per_second: per_second(cycles_per_token / core_ghz),
            system_ns_per_token,
            system_tokens_per_second: per_second(system_ns_per_token),
            imbalance: figures.imbalance(),
            migrations,
            uploads,
            flits_sent_again,
            bus_bytes: figures.bytes.bus() + uploaded,
            link_bytes: figures.bytes.links() + migrated,
            merge: figures.merge,
            differences: figures.differences,
            recall: outcome.predictions.as_ref().and_then(|predictions| predictions.all.recall),
            time: outcome.breakdown.clone(),
            seconds: outcome.wall.as_secs_f64(),
        }
    }

    /// A line of the table.
    pub fn print(&self) {
        let text = match (self.logits_identical, self.differences.compared, self.recall) {
            (true, ..) => "identical",
            (false, 0, None) => "DIFFERS",
            _ if self.text_identical => "text only",
            _ => "another",
        };
        say!(
            "{:>5} {:<17} {:<6} {text:<10} {:>9} {:>10} {:>10} {:>12.0} {:>9.0} {:>12.0} {:>9.3} {:>8} {:>8} {:>6} {:>7.1}",
            self.choice.dimms,
            self.choice.policy.name(),
            name(self.choice.merge),
            self.outputs_checked,
            self.mismatches,
            self.protocol_violations,
            self.cycles_per_token,
            self.tokens_per_second,
            self.system_tokens_per_second,
            self.imbalance,
            self.migrations,
            self.uploads,
            self.flits_sent_again,
            self.seconds
        );
    }
}

/// What the table shows, and its columns.
pub fn print_head(host: &Host<'_>, runs: usize) {
    say!(
        "{}/ndp_core: {runs} runs of {} tokens behind {:?}, {} % of the neurons on the GPU, activity {}, GPU adds {}, links {}, bit error rate {}, seed {}, backend {}",
        host.config.name(),
        host.job.options.tokens,
        host.job.prompt,
        host.args.gpu_percent,
        name(host.args.activity),
        name(host.args.gpu_numerics),
        name(host.args.links),
        host.args.ber,
        host.job.options.seed,
        name(host.args.unit.backend)
    );
    say!(
        "DIMMs policy            merge  text       {:>9} mismatches violations {:>12} {:>9} {:>12} {:>9} {:>8} {:>8} {:>6} {:>7}",
        "outputs",
        "cycles/token",
        "tokens/s",
        "system tok/s",
        "max/mean",
        "migrated",
        "uploaded",
        "resent",
        "seconds"
    );
}

/// The table in JSON. `seconds` are the only figures that differ from run to run.
#[derive(Serialize)]
pub struct Report<'a> {
    command: &'static str,
    config: &'a DesignConfig,
    backend: Backend,
    gpu_percent: u32,
    gpu_numerics: GpuNumerics,
    links: LinksChoice,
    bit_error_rate: f64,
    prompt: &'a str,
    tokens: usize,
    seed: u64,
    rows: &'a [Row],
    #[serde(skip_serializing_if = "Option::is_none")]
    perplexity: Option<&'a Quality>,
    tools: Tools,
}

impl<'a> Report<'a> {
    /// Of some runs.
    pub fn new(host: &'a Host<'_>, rows: &'a [Row], perplexity: Option<&'a Quality>) -> Self {
        Self {
            command: "generate",
            config: host.config,
            backend: host.args.unit.backend,
            gpu_percent: host.args.gpu_percent,
            gpu_numerics: host.args.gpu_numerics,
            links: host.args.links,
            bit_error_rate: host.args.ber,
            prompt: &host.job.prompt,
            tokens: host.job.options.tokens,
            seed: host.job.options.seed,
            rows,
            perplexity,
            tools: Tools::new(),
        }
    }
}
