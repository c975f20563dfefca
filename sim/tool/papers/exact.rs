//! Exact times for the papers' numbers: policies on the machine of `ndp evaluate`.

use crate::kept::Kept;
use crate::machine::{self, Ran, Text};
use crate::prelude::*;
use ndp_energy::{Energy, EnergyConstants};
use ndp_sim::gemv::Estimated;
use ndp_sim::system::ActivitySource;
use ndp_systems::figures::{Bar, Designs, Exact, Item, Paper, Study, bar_row};
use ndp_systems::{Assumptions, Device, Machine, Policy, Run, RunCosts, Step, Steps, Workload};
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
        let machine = machine::Machine {
            design: &self.design,
            system: &self.system,
            text: Text::Synthetic([prompt, output]),
            constants: &self.constants()?,
            activity: ActivitySource::Predicted,
            linked: None,
            exact,
            every_program: false,
            fresh,
            seed: 1,
            threads: 1,
            shows: false,
        };
        let of = || format!("{} of {} at batch {batch}", self.policy.name(), model.name());
        machine.run(model, self.policy, batch).with_context(of)
    }
}

/// Notes the runs that numbers need, and leaves the numbers to the formulas.
#[derive(Clone, Default)]
struct Wanted(Rc<RefCell<Vec<Point>>>);

impl Exact for Wanted {
    fn run(
        &self,
        machine: &Machine<'_>,
        policy: Policy,
        work: &Workload,
    ) -> ndp_files::Result<Option<(Run, Energy)>> {
        if machine::runs(policy, work.batch, machine.system) {
            let point = Point::of(machine, policy, work)?;
            let mut all = self.0.borrow_mut();
            if !all.contains(&point) {
                all.push(point);
            }
        }
        Ok(None)
    }
}

/// Runs on the machine, or why it refuses them.
pub struct Answers(Vec<(Point, Result<Ran>)>);

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
        let Some((_, ran)) = self.0.iter().find(|(known, _)| *known == point) else { return Ok(None) };
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
        for (paper, item) in items.iter().filter(|(paper, item)| ours(paper) && !item.traced) {
            if !kept.has_row(*paper, item, true) {
                let set = Assumptions::preset(paper.name())?;
                // What cannot be computed is reported later.
                let _ = paper.value(item, &Study::new(&set, &designs).exactly());
            }
        }
        for (paper, bar) in bars.iter().filter(|(paper, _)| ours(paper)) {
            bar_row(*paper, bar.clone(), &designs)?;
        }
        let points = wanted.0.take();
        let progress = Progress::new(points.len() as u64, "runs on the machine");
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let found = ndp_files::map_on_threads(threads, points.len(), |number| {
            let ran = points[number].run(exact, fresh);
            progress.add(1);
            ran
        });
        Ok(Self(points.into_iter().zip(found).collect()))
    }

    /// Number of runs, their texts, and the largest errors; `None` without runs.
    pub fn note(&self) -> Option<String> {
        let runs = || self.0.iter().filter_map(|(_, ran)| ran.as_ref().ok());
        let first = runs().next()?;
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
        let refused = self.0.iter().filter_map(|(_, ran)| ran.as_ref().err());
        let refused = refused.map(|error| format!("; the machine does not run {error:#}")).join("");
        let runs = runs().count();
        Some(format!(
            "exact: hermes and hermes-base ran on the machine of `ndp evaluate`, {runs} runs, with synthetic traces and predicted \
             neurons; {exact} of {tokens} tokens ran, the others are interpolated{interpolated}; like programs are \
             estimated{estimated}{refused}"
        ))
    }
}
