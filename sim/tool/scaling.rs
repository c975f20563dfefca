//! `ndp layer --dimms N[,N...]`: one decode step of one decoder layer on several DIMMs.
//!
//! All neurons are on the DIMMs, dealt in turn as by Hermes-base; the GPU computes the projection after attention.

use crate::gemv::name;
use crate::layer;
use crate::made;
use crate::prelude::*;
use crate::report::LISTED;
use crate::system::args::LinksChoice;
use clap::Args;
use ndp_config::LlmFamily;
use ndp_hermes::placement::{Instance, Options, place_layers};
use ndp_report::counted;
use ndp_sim::core::Backend;
use ndp_sim::gemv::MergeFormat;
use ndp_sim::layer::LayerStep;
use ndp_sim::system::{ActivitySource, LinkOptions, Load, Ran, SystemBackend, SystemOptions};
use ndp_traces::NeuronShape;
use std::time::Instant;

/// Options of several DIMMs.
#[derive(Args, Clone, Debug)]
pub struct ScalingArgs {
    /// Number of DIMMs that share the layer (1..=8, up to 16 with --links bandwidth); a list makes a table
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=16))]
    pub dimms: Vec<u32>,
    /// With --dimms: formats of the partial results that DIMMs exchange
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [MergeFormat::Exact], requires = "dimms")]
    pub merge: Vec<MergeFormat>,
    /// With --dimms: neurons of FC1 to compute: all (causal), or only those known from software to be active (oracle)
    #[arg(long, value_enum, default_value_t = ActivitySource::Causal, requires = "dimms")]
    pub activity: ActivitySource,
    /// With --dimms: model of the DIMM-links: `rtl` simulates them (up to 8 DIMMs), `bandwidth` only counts bytes
    /// over their bandwidth
    #[arg(long, value_enum, default_value_t = LinksChoice::Rtl, requires = "dimms")]
    pub links: LinksChoice,
}

struct Row {
    dimms: u32,
    merge: MergeFormat,
    ran: Ran,
    /// Cycles of the first row divided by the cycles of this row. `efficiency` is the speedup divided by the number
    /// of DIMMs.
    speedup: f64,
    efficiency: f64,
    /// Wall-clock time of the simulation.
    seconds: f64,
}

impl Row {
    fn cycles(&self) -> u64 {
        self.ran.figures.critical_cycles
    }

    fn message_cycles(&self) -> u64 {
        self.ran.figures.links.as_ref().map_or(0, |links| links.cycles)
    }

    fn equals_model(&self) -> bool {
        let figures = &self.ran.figures;
        figures.mismatches > 0 || figures.dimms.iter().all(|dimm| dimm.cycles == dimm.model_cycles)
    }

    fn is_sound(&self) -> bool {
        let wrong = self.ran.figures.mismatches + self.ran.violations + self.ran.backdoor_accesses;
        wrong == 0 && self.equals_model()
    }
}

pub fn run(layer: &layer::Args, config: &DesignConfig, step: &LayerStep) -> Result<Report> {
    let layer::Args { scaling: args, unit, seed, .. } = layer;
    let shape = step.shape();
    let context = format!("seed {seed}, rerun: {}", made::rerun());
    let (mut rows, mut zeros): (Vec<Row>, _) = (Vec::new(), [0.0; 2]);
    for (&dimms, &merge) in iproduct!(&args.dimms, &args.merge) {
        let (row, found) =
            one(layer, (config, step), (dimms, merge), rows.first()).context(context.clone())?;
        zeros = found;
        rows.push(row);
    }
    let sum = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>();
    let checked = grouped(sum(|row| row.ran.figures.outputs_checked));
    let wrong = sum(|row| row.ran.figures.mismatches);
    let sound = rows.iter().all(Row::is_sound);
    let verdict = match (sound, wrong) {
        (true, _) => format!("{}; {checked} outputs equal exact arithmetic", answer(&rows)),
        (false, 0) => "cycles differ from the cycle model, or DRAM rules are broken (--verbose)".to_owned(),
        (false, wrong) => format!("{wrong} of {checked} outputs differ from exact arithmetic"),
    };
    let mut report = Report::checked("layer", sound, verdict).setting(format!(
        "a layer of {}, {} heads, FFN {}, {} weights, context {}, on {}, activity {}, links {}, seed {seed}",
        step.hidden(),
        shape.heads,
        step.ffn(),
        step.layer().weights(),
        shape.positions,
        config.name(),
        name(args.activity),
        name(args.links)
    ));
    if let Some(most) = rows.iter().max_by_key(|row| row.dimms).filter(|row| row.dimms > 1) {
        let share = |cycles: u64| 100.0 * cycles as f64 / most.cycles().max(1) as f64;
        report = report.reason(format!(
            "with {}, {:.0} % of the cycles have messages under way and {:.0} % merging, beside other work; the fullest DIMM has {:.3} times the \
             mean load",
            counted(most.dimms.into(), "DIMM"),
            share(most.message_cycles()),
            share(most.ran.figures.merge.meet_cycles),
            most.ran.figures.imbalance()
        ));
    }
    for row in &rows {
        let (dimms, merge) = (counted(row.dimms.into(), "DIMM"), name(row.merge));
        let listed = row.ran.mismatches.iter().take(LISTED);
        report = listed.fold(report, |report, mismatch| {
            report.note(format!("{dimms}, merge {merge}: MISMATCH {mismatch}; seed {seed}"))
        });
    }
    report = match unit.backend {
        Backend::Rtl => report,
        Backend::Cycles => report.note("cycle model and functional model of the cores, no RTL"),
    };
    let table = rows! { &rows => |row|
        let figures = &row.ran.figures;
        "dimms" "DIMMs" {Count} Screen: "DIMMs" = row.dimms;
        "merge" "partial sums" {Text} Screen: "form in which partial results travel: exact or fp16" = row.merge;
        "cycles" "cycles" {Cycles} Screen: "core cycles of the slowest DIMM of each step, messages included" = row.cycles();
        "speedup" "speed-up" {Real("", 2)} Screen: "cycles of the first row over these" = row.speedup;
        "efficiency" "per DIMM" {Real("", 2)} Screen: "speed-up over the number of DIMMs, relative to the first row" = row.efficiency;
        "message_cycles" "messages" {Cycles} Screen: "core cycles of messages, from the first instruction's offer to the end of the later side"
            = row.message_cycles();
        "meet_cycles" "merging" {Cycles} Screen: "core cycles of programs that add partial results and finish the product" = figures.merge.meet_cycles;
        "imbalance" "most/mean" {Real("", 3)} Screen: "cycles of the busiest DIMM over the mean" = figures.imbalance();
        "operation_cycles" = figures.operation_cycles;
        "operation_cycles.q" "Q" {Cycles} Verbose: "core cycles of queries";
        "operation_cycles.k" "K" {Cycles} Verbose: "core cycles of keys";
        "operation_cycles.v" "V" {Cycles} Verbose: "core cycles of values";
        "operation_cycles.attention" "attention" {Cycles} Verbose: "core cycles of attention";
        "operation_cycles.projection" "projection" {Cycles} Verbose: "core cycles of the projection after attention";
        "operation_cycles.fc1" "FC1" {Cycles} Verbose: "core cycles of the first half of the MLP";
        "operation_cycles.fc2" "FC2" {Cycles} Verbose: "core cycles of the second half of the MLP";
        "operation_cycles.head" "logits" {Cycles} Verbose: "core cycles of the logits";
        "link_bytes" "over links" {Bytes} Verbose: "bytes over the links" = figures.bytes.links();
        "outputs_checked" "outputs" {Count} Verbose: "outputs of the cores compared with exact arithmetic" = figures.outputs_checked;
        "mismatches" "wrong" {Count} Verbose: "outputs that differ" = figures.mismatches;
        "protocol_violations" "broken rules" {Count} Verbose: "broken timing rules of the DRAM" = row.ran.violations;
        "backdoor_accesses" "backdoor" {Count} Verbose: "bursts of DRAM accessed by backdoor after loading" = row.ran.backdoor_accesses;
        "cycles_equal_model" "as predicted" {Text} Verbose: "whether each DIMM takes the cycles that the cycle model predicts" = row.equals_model();
        "seconds" "simulation" {Real("s", 1)} Verbose: "wall-clock time of the simulation" = row.seconds;
    };
    let caption = "Over the first row; messages and merging keep it below the number of DIMMs.";
    let bars = ChartKind::Rows { label: "dimms,merge", value: "speedup" };
    Ok(report
        .note("the GPU has no neurons; the projection after attention is the GPU's")
        .figures(figures! {
                "backend" "backend" {Text} Verbose: "rtl or cycles" = unit.backend;
                "activity" "activity" {Text} Verbose: "neurons of FC1 that are computed: causal (all) or oracle (the active ones)" = args.activity;
                "hidden" "hidden" {Count} Verbose: "size of the hidden state" = step.hidden();
                "heads" "heads" {Count} Verbose: "attention heads" = shape.heads;
                "ffn" "FFN" {Count} Verbose: "size of the FFN" = step.ffn();
                "weights" "weights" {Text} Verbose: "format of the weights" = step.layer().weights();
                "context" "context" {Count} Verbose: "positions in the caches" = shape.positions;
                "qkv_zeros" "zeros among inputs of Q, K, V" {Share} Verbose: "share of the inputs of Q, K and V that is 0" = zeros[0];
                "fc2_zeros" "zeros among inputs of FC2" {Share} Verbose: "share of the inputs of FC2 that is 0" = zeros[1];
            })
        .table("rows", "Numbers of DIMMs", table)
        .chart(Chart::new("rows", "Speed-up", caption, bars))
        .data("config", "the configuration (docs/configuration.md)", config)
        .data("tools", "versions of the tools", &Tools::new()))
}

/// Compares the fastest row with the slowest.
fn answer(rows: &[Row]) -> String {
    let of = |row: &Row| {
        let several = rows.iter().any(|other| other.merge != row.merge);
        let merge = if several { format!(", {} partial results", name(row.merge)) } else { String::new() };
        format!("{}{merge}", counted(row.dimms.into(), "DIMM"))
    };
    let (best, worst) =
        (rows.iter().min_by_key(|row| row.cycles()), rows.iter().max_by_key(|row| row.cycles()));
    let (Some(best), Some(worst)) = (best, worst) else { return String::new() };
    let (least, most) = (best.cycles(), worst.cycles());
    let cycles = grouped(least);
    if least == most {
        return format!("{cycles} cycles with {}", of(best));
    }
    format!(
        "fastest with {}: {cycles} cycles, {:.2} times as fast as with {} ({} cycles)",
        of(best),
        most as f64 / least.max(1) as f64,
        of(worst),
        grouped(most)
    )
}

/// Runs one case. Returns its row, compared with the first row, and the fractions of zeros.
fn one(
    layer: &layer::Args,
    (config, step): (&DesignConfig, &LayerStep),
    (dimms, merge): (u32, MergeFormat),
    first: Option<&Row>,
) -> Result<(Row, [f64; 2])> {
    let layer::Args { scaling: args, unit, seed, .. } = layer;
    let begin = Instant::now();
    let shape = step.shape();
    let (hidden, heads) = (step.hidden() as u32, shape.heads as u32);
    let experts = shape.mixture.map_or([1, 1], |mixture| [mixture.experts, mixture.used]);
    let shape =
        LlmShape::opt_like("layer", 1, hidden, heads, step.ffn() as u32, 1)?.of_family(LlmFamily {
            kv_heads: shape.kv_heads as u32,
            head_width: Some(shape.head_width as u32),
            gated: step.layer().experts.iter().any(|of| of.up.is_some()),
            activation: shape.activation,
            biased: step.layer().q_proj.bias.is_some(),
            tied_embeddings: true,
            rotary: step.is_rotary(),
        })?;
    let shape = shape.of_experts(experts.map(|count| count as u32))?.with_weights(step.layer().weights());
    let system = SystemConfig::preset("small")?.with_dimms(dimms)?.with_gpu_percent(&shape, 0)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let activity = args.activity;
    let options =
        SystemOptions { threads, merge, activity, load: Load::Backdoor, ..SystemOptions::new(&system) };
    let mut options_of_unit = unit.options(*seed);
    options_of_unit.core.predict = true;
    let neurons = NeuronShape::of(&shape);
    let all: Vec<_> = neurons.blocks().iter().map(|block| vec![1.0; block.neurons as usize]).collect();
    let places = place_layers(&Instance::new(&shape, &system, &all, &Options::default())?)?;
    let layers = std::slice::from_ref(step.layer());
    let mut backend = SystemBackend::of_layers(config, &options_of_unit, &options, places, (&shape, layers))?;
    if args.links == LinksChoice::Rtl && dimms > 1 {
        backend = backend.with_links(&LinkOptions { seed: *seed, ..LinkOptions::default() })?;
    }
    let zeros = match step.run(&mut backend) {
        Ok(output) => [output.sparsity.qkv_input.fraction(), output.sparsity.ffn_hidden.fraction()],
        // The mismatches are reported elsewhere. The figures so far are still of interest.
        Err(_) if backend.figures().mismatches > 0 => [0.0; 2],
        Err(error) => return Err(error),
    };
    backend.count_links()?;
    let (ran, seconds) = (backend.into_ran(), begin.elapsed().as_secs_f64());
    let cycles = ran.figures.critical_cycles;
    let (of_first, dimms_of_first) = first.map_or((cycles, dimms), |first| (first.cycles(), first.dimms));
    let speedup = of_first as f64 / cycles.max(1) as f64;
    let efficiency = speedup * f64::from(dimms_of_first) / f64::from(dimms);
    Ok((Row { dimms, merge, ran, speedup, efficiency, seconds }, zeros))
}
