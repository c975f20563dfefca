//! `ndp layer --dimms N[,N...]`: one decoder layer in one decode step on several DIMMs, in a table over the numbers of DIMMs.
//!
//! All neurons are on the DIMMs, the projection behind attention on the GPU.

use crate::args::UnitArgs;
use crate::gemv::name;
use crate::rerun::Rerun;
use crate::system::args::LinksChoice;
use crate::tools::{Tools, grouped};
use crate::verdict::Verdict;
use anyhow::Context;
use clap::Args;
use ndp_config::{DesignConfig, LlmFamily, LlmShape, SystemConfig, WeightFormat};
use ndp_sim::core::Backend;
use ndp_sim::error::Mismatch;
use ndp_sim::gemv::{GemvOptions, MergeFormat};
use ndp_sim::layer::LayerStep;
use ndp_sim::system::{
    ActivitySource, LinkOptions, Load, Operation, StaticPlaces, SystemBackend, SystemFigures, SystemOptions,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;

/// Several DIMMs.
#[derive(Args, Clone, Debug)]
pub struct ScalingArgs {
    /// Deal the layer out to so many DIMMs (1..=8, or 16 with --links bandwidth); a list makes a table
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=16))]
    pub dimms: Vec<u32>,
    /// With --dimms: in which form partial results go from DIMM to DIMM
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [MergeFormat::Exact], requires = "dimms")]
    pub merge: Vec<MergeFormat>,
    /// With --dimms: whether FC1 computes all neurons (causal), or only those that software has found to be active (oracle)
    #[arg(long, value_enum, default_value_t = ActivitySource::Causal, requires = "dimms")]
    pub activity: ActivitySource,
    /// With --dimms: whether the links between DIMMs are simulated (up to 8 DIMMs), or take bytes over their bandwidth
    #[arg(long, value_enum, default_value_t = LinksChoice::Rtl, requires = "dimms")]
    pub links: LinksChoice,
}

/// A layer and what it runs on.
pub struct Scaling<'a> {
    pub args: &'a ScalingArgs,
    pub unit: &'a UnitArgs,
    pub config: &'a DesignConfig,
    pub step: &'a LayerStep,
    pub seed: u64,
    /// Without the options of [`ScalingArgs`].
    pub rerun: Rerun,
}

/// One number of DIMMs.
#[derive(Debug, Serialize)]
struct Row {
    dimms: u32,
    merge: MergeFormat,
    /// Of the slowest DIMM of each step, messages included.
    cycles: u64,
    /// The same by operation.
    operation_cycles: BTreeMap<Operation, u64>,
    /// Part of them: messages, from the first instruction's offer to the end of the later side.
    message_cycles: u64,
    /// Part of them: programs that add what has come and finish the product.
    meet_cycles: u64,
    /// Cycles of the first row over these.
    speedup: f64,
    /// Speed-up over the number of DIMMs, relative to the first row.
    efficiency: f64,
    /// Cycles of the DIMM that has most over the mean.
    imbalance: f64,
    link_bytes: u64,
    outputs_checked: u64,
    mismatches: u64,
    protocol_violations: u64,
    backdoor_accesses: u64,
    /// Whether each DIMM's cycles are those of the cycle model.
    cycles_equal_model: bool,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    command: &'static str,
    config: &'a DesignConfig,
    backend: Backend,
    activity: ActivitySource,
    hidden: usize,
    heads: usize,
    ffn: usize,
    weights: WeightFormat,
    context: usize,
    /// Fraction of zeros among the inputs of Q, K, V.
    qkv_zeros: f64,
    /// Fraction of zeros among those of FC2.
    fc2_zeros: f64,
    rows: Vec<Row>,
    rerun: &'a str,
    tools: Tools,
}

/// Runs the job.
pub fn run(mut scaling: Scaling<'_>) -> anyhow::Result<Verdict> {
    let Scaling { args, unit, config, step, .. } = scaling;
    let shape = step.shape();
    let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    scaling.rerun.option("dimms", list(&args.dimms));
    scaling.rerun.option("merge", args.merge.iter().map(|merge| name(*merge)).collect::<Vec<_>>().join(","));
    scaling.rerun.option("activity", name(args.activity));
    scaling.rerun.option("links", name(args.links));
    let context = format!("seed {}, rerun: {}", scaling.seed, scaling.rerun.line());
    let (mut rows, mut zeros): (Vec<Row>, _) = (Vec::new(), [0.0; 2]);
    for &dimms in &args.dimms {
        for &merge in &args.merge {
            let (row, found) = one(&scaling, dimms, merge, rows.first()).context(context.clone())?;
            zeros = found;
            rows.push(row);
        }
    }
    let sound = |row: &Row| {
        let wrong = row.mismatches + row.protocol_violations + row.backdoor_accesses;
        wrong == 0 && row.cycles_equal_model
    };
    let verdict = if rows.iter().all(sound) { Verdict::Agreed } else { Verdict::Differed };
    let report = Report {
        command: "layer",
        config,
        backend: unit.backend,
        activity: args.activity,
        hidden: step.hidden(),
        heads: shape.heads,
        ffn: step.ffn(),
        weights: step.layer().weights(),
        context: shape.positions,
        qkv_zeros: zeros[0],
        fc2_zeros: zeros[1],
        rows,
        rerun: scaling.rerun.line(),
        tools: Tools::new(),
    };
    if unit.json {
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.print();
    }
    if verdict == Verdict::Differed {
        note!("rerun: {}", report.rerun);
    }
    Ok(verdict)
}

impl Report<'_> {
    fn print(&self) {
        say!(
            "{}: a layer of {}, {} heads, FFN {}, {} weights, context {}; {:.1} % of the inputs of Q, K, V and {:.1} % of those of FC2 are zero, activity {}; {}",
            self.config.name(),
            self.hidden,
            self.heads,
            self.ffn,
            self.weights,
            self.context,
            100.0 * self.qkv_zeros,
            100.0 * self.fc2_zeros,
            name(self.activity),
            match self.backend {
                Backend::Rtl => "RTL",
                Backend::Cycles => "cycle model and functional model, no RTL",
            }
        );
        say!(
            "DIMMs  merge      cycles  speed-up  per DIMM          q          k          v  attention        fc1        fc2  \
             messages   meeting  load max/mean  seconds"
        );
        for row in &self.rows {
            let of = |operation| grouped(row.operation_cycles.get(&operation).copied().unwrap_or(0));
            say!(
                "{:>5}  {:<5} {:>11}  {:>8.2}  {:>8.2} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9}  {:>13.3}  {:>7.1}",
                row.dimms,
                name(row.merge),
                grouped(row.cycles),
                row.speedup,
                row.efficiency,
                of(Operation::Q),
                of(Operation::K),
                of(Operation::V),
                of(Operation::Attention),
                of(Operation::Fc1),
                of(Operation::Fc2),
                grouped(row.message_cycles),
                grouped(row.meet_cycles),
                row.imbalance,
                row.seconds
            );
        }
        let sum = |of: fn(&Row) -> u64| self.rows.iter().map(of).sum::<u64>();
        say!(
            "outputs checked    {}, {} mismatches, {} violations of DRAM timing, {} backdoor accesses after loading",
            grouped(sum(|row| row.outputs_checked)),
            sum(|row| row.mismatches),
            sum(|row| row.protocol_violations),
            sum(|row| row.backdoor_accesses)
        );
    }
}

/// One run, compared with the first one, and the fractions of zeros.
fn one(
    scaling: &Scaling<'_>,
    dimms: u32,
    merge: MergeFormat,
    first: Option<&Row>,
) -> anyhow::Result<(Row, [f64; 2])> {
    let Scaling { args, unit, config, step, seed, .. } = scaling;
    let begin = Instant::now();
    let shape = step.shape();
    let (hidden, heads) = (step.hidden() as u32, shape.heads as u32);
    let shape =
        LlmShape::opt_like("layer", 1, hidden, heads, step.ffn() as u32, 1)?.of_family(LlmFamily {
            kv_heads: shape.kv_heads as u32,
            gated: step.layer().up.is_some(),
            biased: step.layer().q_proj.bias.is_some(),
            tied_embeddings: true,
            rotary: step.is_rotary(),
        })?;
    let shape = shape.with_weights(step.layer().weights());
    let system = SystemConfig::preset("small")?.with_dimms(dimms)?.with_gpu_percent(&shape, 0)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let activity = args.activity;
    let options =
        SystemOptions { threads, merge, activity, load: Load::Backdoor, ..SystemOptions::new(&system) };
    let options_of_unit = GemvOptions { predict: true, ..unit.options(*seed) };
    let places = StaticPlaces::new(dimms, 0, *seed);
    let layers = std::slice::from_ref(step.layer());
    let mut backend = SystemBackend::of_layers(config, &options_of_unit, &options, places, (&shape, layers))?;
    if args.links == LinksChoice::Rtl && dimms > 1 {
        backend = backend.with_links(&LinkOptions { seed: *seed, ..LinkOptions::default() })?;
    }
    let zeros = match step.run(&mut backend) {
        Ok(output) => [output.sparsity.qkv_input.fraction(), output.sparsity.ffn_hidden.fraction()],
        // It is reported; what was found up to there is still of interest.
        Err(_) if backend.figures().mismatches > 0 => {
            let mismatch = |mismatch: &Mismatch| note!("MISMATCH {mismatch}; seed {seed}");
            backend.mismatches().iter().take(16).for_each(mismatch);
            [0.0; 2]
        }
        Err(error) => return Err(error.into()),
    };
    backend.count_links()?;
    let figures: &SystemFigures = backend.figures();
    let by_model = |dimm: &ndp_sim::system::DimmFigures| dimm.cycles == dimm.model_cycles;
    let cycles = figures.critical_cycles;
    let (of_first, dimms_of_first) = first.map_or((cycles, dimms), |first| (first.cycles, first.dimms));
    let speedup = of_first as f64 / cycles.max(1) as f64;
    let row = Row {
        dimms,
        merge,
        cycles,
        operation_cycles: figures.operation_cycles.clone(),
        message_cycles: figures.links.as_ref().map_or(0, |links| links.cycles),
        meet_cycles: figures.merge.meet_cycles,
        speedup,
        efficiency: speedup * f64::from(dimms_of_first) / f64::from(dimms),
        imbalance: figures.imbalance(),
        link_bytes: figures.bytes.links(),
        outputs_checked: figures.outputs_checked,
        mismatches: figures.mismatches,
        protocol_violations: backend.protocol_violations(),
        backdoor_accesses: backend.backdoor_accesses(),
        cycles_equal_model: figures.mismatches > 0 || figures.dimms.iter().all(by_model),
        seconds: begin.elapsed().as_secs_f64(),
    };
    Ok((row, zeros))
}
