//! Exact times for the papers' numbers: policies on the machine of `ndp evaluate`.

use crate::kept::Kept;
use crate::machine::{self, Ran, Text};
use crate::prelude::*;
use ndp_energy::{Energy, EnergyConstants};
use ndp_hermes::placement::{Instance, Options, place_structured};
use ndp_hermes::scheduler::Policy as Scheduling;
use ndp_sim::gemv::Estimated;
use ndp_sim::system::{ActivitySource, EvaluateOptions, evaluate};
use ndp_systems::ablation::{TraceOptions, in_pieces};
use ndp_systems::figures::{Bar, Designs, Exact, Item, Paper, Study, TraceSetting, bar_row};
use ndp_systems::{Assumptions, Device, Machine, Policy, Run, RunCosts, Step, Steps, Workload};
use ndp_traces::synth::SynthOptions;
use ndp_traces::{NeuronShape, Profile, SyntheticTrace, TraceSource};
use std::cell::RefCell;
use std::rc::Rc;

/// A run that a number needs.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    design: DesignConfig,
    /// With the assumed efficiencies.
    system: SystemConfig,
    policy: Policy,
    work: Workload,
}

impl Point {
    fn of(machine: &Machine<'_>, policy: Policy, work: &Workload) -> Result<Self> {
        let system = machine.assumptions.on(machine.system)?;
        Ok(Self { design: machine.dimms.design().clone(), system, policy, work: work.clone() })
    }

    fn constants(&self) -> Result<EnergyConstants> {
        EnergyConstants::load(&self.design, self.system.name(), [None; 3])
    }

    fn run(&self, exact: u64, fresh: bool) -> Result<Ran> {
        let Workload { ref model, prompt, output, batch } = self.work;
        let (devices, constants) = ((&self.design, &self.system), self.constants()?);
        let machine = machine::Machine::new(devices, Text::Synthetic([prompt, output]), &constants);
        let machine = machine::Machine { exact, fresh, threads: 1, ..machine };
        let of = || format!("{} of {} at batch {batch}", self.policy.name(), model.name());
        machine.run(model, self.policy, batch).with_context(of)
    }
}

/// Time of the MLPs for a token of a trace, by policy of the scheduler.
type MlpTimes = Vec<(Scheduling, f64)>;

/// Runs a trace on the machine under all policies, with this number of exact tokens.
fn mlp_times(setting: &TraceSetting, exact: u64) -> Result<MlpTimes> {
    let (model, system) = (setting.model(), setting.system());
    let TraceOptions { profiled, prompt, tokens, seed, targets, cluster, contiguous } = *setting.options();
    let synth = SynthOptions {
        seed,
        prompt_tokens: prompt,
        sequence_tokens: prompt + tokens,
        first_sequence: 0,
        targets,
        cluster,
    };
    let mut placement = None;
    if contiguous {
        let shape = NeuronShape::of(model);
        let mut profile = Profile::new(&shape);
        let mut texts = SyntheticTrace::new(model, synth.clone(), profiled)?;
        while let Some((_, activity)) = texts.read()? {
            profile.add(activity);
        }
        let instance = Instance::new(model, system, &profile.frequencies(), &Options::default())?;
        let mut pieces = place_structured(&instance)?.0;
        in_pieces(&mut pieces, &shape, system.dimms().count);
        placement = Some(pieces);
    }
    let options = EvaluateOptions {
        seed,
        activity: ActivitySource::Predicted,
        exact: Some(exact),
        fast: true,
        placement,
        ..EvaluateOptions::default()
    };
    let design = DesignConfig::preset("hermes")?;
    let mut trace = SyntheticTrace::new(model, synth, profiled + 1)?;
    let result = evaluate(&mut trace, &design, model, system, &options, |_, _| {})?;
    Ok(result.policies.iter().map(|of| (of.policy, of.mlp_us)).collect())
}

/// Notes the runs that numbers need, and leaves the numbers to the formulas.
#[derive(Clone, Default)]
struct Wanted {
    points: Rc<RefCell<Vec<Point>>>,
    traces: Rc<RefCell<Vec<TraceSetting>>>,
}

impl Exact for Wanted {
    fn run(
        &self,
        machine: &Machine<'_>,
        policy: Policy,
        work: &Workload,
    ) -> ndp_files::Result<Option<(Run, Energy)>> {
        if machine::runs(policy, work.batch, machine.system) {
            let point = Point::of(machine, policy, work)?;
            let mut all = self.points.borrow_mut();
            if !all.contains(&point) {
                all.push(point);
            }
        }
        Ok(None)
    }

    /// The value is thrown away.
    fn mlp_us(&self, setting: &TraceSetting, _: Scheduling) -> ndp_files::Result<f64> {
        let mut all = self.traces.borrow_mut();
        if all.iter().all(|known| known.name() != setting.name()) {
            all.push(setting.clone());
        }
        Ok(1.0)
    }
}

/// Runs on the machine, or why it refuses them.
pub struct Answers {
    points: Vec<(Point, Result<Ran>)>,
    traces: Vec<(TraceSetting, MlpTimes)>,
}

impl Exact for Answers {
    fn run(
        &self,
        machine: &Machine<'_>,
        policy: Policy,
        work: &Workload,
    ) -> ndp_files::Result<Option<(Run, Energy)>> {
        if !machine::runs(policy, work.batch, machine.system) {
            return Ok(None);
        }
        let point = Point::of(machine, policy, work)?;
        let Some((_, ran)) = self.points.iter().find(|(known, _)| *known == point) else { return Ok(None) };
        let ran = ran.as_ref().map_err(|error| ndp_files::refusal!("{error:#}"))?;
        let costs = RunCosts::new(&point.design, &point.constants()?);
        let whole = ran.with_prompt(machine, &work.model, &costs)?;
        let mut token = Steps::default();
        token.add(1.0, Step::new("token on the machine").with(Device::Dimms, ran.token_us * 1e3, 0.0));
        let energy = whole.joules.iter().map(|(_, energy)| *energy).sum();
        let Workload { batch, output, .. } = *work;
        let run = Run { batch, output, prefill: whole.prefill, token, resident: whole.resident };
        Ok(Some((run, energy)))
    }

    fn mlp_us(&self, setting: &TraceSetting, policy: Scheduling) -> ndp_files::Result<f64> {
        let found = self.traces.iter().find(|(known, _)| known.name() == setting.name());
        let us = found.and_then(|(_, times)| times.iter().find(|(known, _)| *known == policy));
        us.map(|(_, us)| *us).ok_or_else(|| ndp_files::refusal!("{policy} did not run on the machine"))
    }
}

impl Answers {
    /// Computes the runs that items without kept rows and bars need, with this number of exact tokens each.
    pub fn new(
        items: &[(Paper, &'static Item)],
        bars: &[(Paper, Bar)],
        kept: &Kept,
        (exact, fresh): (u64, bool),
    ) -> Result<Self> {
        let wanted = Wanted::default();
        let designs = Designs::exact(Box::new(wanted.clone()));
        // LibraPIM has no such policies.
        let ours = |paper: &Paper| *paper != Paper::LibraPim;
        let is_run = |item: &Item| !item.traced || item.figure == "Fig. 13";
        for (paper, item) in items.iter().filter(|(paper, item)| ours(paper) && is_run(item)) {
            if !kept.has_row(*paper, item, true) {
                let set = Assumptions::preset(paper.name())?;
                // What cannot be computed is reported later.
                let _ = paper.value(item, &Study::new(&set, &designs).exactly());
            }
        }
        for (paper, bar) in bars.iter().filter(|(paper, _)| ours(paper)) {
            bar_row(*paper, bar.clone(), &designs)?;
        }
        let (points, settings) = (wanted.points.take(), wanted.traces.take());
        let progress = Progress::new((points.len() + settings.len()) as u64, "runs on the machine");
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let found = ndp_files::map_on_threads(threads, points.len(), |number| {
            let ran = points[number].run(exact, fresh);
            progress.add(1);
            ran
        });
        let traces = ndp_files::map_on_threads(threads, settings.len(), |number| {
            let setting = &settings[number];
            let name = format!("MLP times of {}, {exact} tokens", setting.name());
            let times = kept.value(&name, || mlp_times(setting, exact))?;
            progress.add(1);
            Ok((setting.clone(), times))
        });
        let traces = traces.into_iter().collect::<Result<_>>()?;
        Ok(Self { points: points.into_iter().zip(found).collect(), traces })
    }

    /// Number of runs, their texts, and the largest errors; `None` without runs.
    pub fn note(&self) -> Option<String> {
        let runs = || self.points.iter().filter_map(|(_, ran)| ran.as_ref().ok());
        let of_traces = match &self.traces[..] {
            [] => String::new(),
            _ => "; all policies of the scheduler ran on the trace of Fig. 13".to_owned(),
        };
        let Some(first) = runs().next() else {
            return (!self.traces.is_empty())
                .then(|| format!("exact: on the machine of `ndp evaluate`{of_traces}"));
        };
        let of = |error: &dyn Fn(&Ran) -> Option<f64>| {
            let most = runs().filter_map(error).max_by(f64::total_cmp);
            most.map_or_else(String::new, |most| {
                format!(", off by at most {:.1} % where it is known", 100.0 * most)
            })
        };
        let interpolated = of(&|ran| ran.interpolated?.error);
        let estimated = of(&|ran| ran.estimated.as_ref().filter(|of| of.checked > 0).map(Estimated::error));
        let (exact, tokens) =
            first.interpolated.map_or((first.generated, first.generated), |of| (of.exact, of.tokens));
        let refused = self.points.iter().filter_map(|(_, ran)| ran.as_ref().err());
        let refused = refused.map(|error| format!("; the machine does not run {error:#}")).join("");
        let runs = runs().count();
        Some(format!(
            "exact: hermes and hermes-base ran on the machine of `ndp evaluate`, {runs} runs, with synthetic traces and predicted \
             neurons; {exact} of {tokens} tokens ran, the others are interpolated{interpolated}; like programs are \
             estimated{estimated}{of_traces}{refused}"
        ))
    }
}
