//! A general solver as referee: solves the reduced problem, with equal DIMMs, by `good_lp` and its pure-Rust solver.
//!
//! One 0-1 variable per group (or several, for speed), one time per term: minimise `sum t_l` with
//! `t_l >= sum work x / BW_gpu + 2 T_sync`, `t_l >= (W_l - sum work x) / (D BW_dimm)` and `sum bytes x <= S_GPU`.

use crate::placement::structured::with_gpu_groups;
use crate::placement::{Instance, Placement};
use good_lp::solvers::SolutionStatus;
use good_lp::{
    Expression, ProblemVariables, Solution, SolverModel, Variable, WithMipGap, WithTimeLimit, variable,
};
use ndp_files::{Result, bail, in_range, refusal};
use serde::Serialize;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MilpOptions {
    /// Neighbouring groups of a block that share a variable.
    pub groups_per_variable: u32,
    /// Time after which to take the best solution so far.
    pub time_limit_s: f64,
    /// Gap to the solver's bound at which it may stop, as a fraction.
    pub gap: f32,
}

impl Default for MilpOptions {
    fn default() -> Self {
        Self { groups_per_variable: 8, time_limit_s: 60.0, gap: 1e-3 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MilpReport {
    /// Value of the reduced problem: microseconds with perfectly balanced DIMMs.
    pub reduced_us: f64,
    pub variables: usize,
    pub timed_out: bool,
}

/// Solves the reduced problem and places neurons accordingly.
///
/// Fails without a solution in time, for groups outside 1..=2^20, times that are not positive, or as
/// [`place_structured`](crate::placement::place_structured).
pub fn place_milp(instance: &Instance, options: &MilpOptions) -> Result<(Placement, MilpReport)> {
    let solved = solve(instance, options, true)?;
    let mut on = vec![false; instance.groups().len()];
    for (groups, value) in &solved.parts {
        on[groups.clone()].fill(*value > 0.5);
    }
    let report =
        MilpReport { reduced_us: solved.us, variables: solved.parts.len(), timed_out: solved.timed_out };
    Ok((with_gpu_groups(instance, &on)?, report))
}

/// Optimum of the problem's linear relaxation, in microseconds.
pub fn relaxation_us(instance: &Instance, options: &MilpOptions) -> Result<f64> {
    Ok(solve(instance, options, false)?.us)
}

struct Solved {
    us: f64,
    parts: Vec<(Range<usize>, f64)>,
    timed_out: bool,
}

fn solve(instance: &Instance, options: &MilpOptions, whole: bool) -> Result<Solved> {
    let &MilpOptions { groups_per_variable, time_limit_s: seconds, gap } = options;
    in_range("groups per variable", groups_per_variable, 1, 1 << 20)?;
    if !(seconds > 0.0 && seconds <= 1e6) {
        let (what, rule) = ("time limit", "a positive number of seconds, at most 10^6");
        bail!("{what} = {seconds} must be {rule}");
    }
    let machine = instance.machine();
    let mut variables = ProblemVariables::new();
    let times: Vec<Variable> = instance.terms().iter().map(|_| variables.add(variable().min(0.0))).collect();
    let mut parts = Vec::new();
    for block in instance.blocks() {
        for start in block.groups.clone().step_by(groups_per_variable as usize) {
            let range = start..(start + groups_per_variable as usize).min(block.groups.end);
            let x = if whole { variable().binary() } else { variable().bounds(0.0..=1.0) };
            parts.push((block.term, range, variables.add(x)));
        }
    }
    let mut gpu_us: Vec<Expression> = times.iter().map(|_| Expression::from(2.0 * machine.sync_us)).collect();
    let evenly = |work: f64| machine.dimm_us(work) / f64::from(machine.dimms);
    let mut dimm_us: Vec<Expression> =
        (0..times.len()).map(|term| Expression::from(evenly(instance.term_work(term) as f64))).collect();
    let mut gigabytes = Expression::from(0.0);
    for (term, range, x) in &parts {
        let groups = &instance.groups()[range.clone()];
        let work = groups.iter().map(|group| group.work).sum::<u64>() as f64;
        gpu_us[*term].add_mul(machine.gpu_us(work), *x);
        dimm_us[*term].add_mul(-evenly(work), *x);
        gigabytes.add_mul(groups.iter().map(|group| group.bytes).sum::<u64>() as f64 / 1e9, *x);
    }
    let total: Expression = times.iter().sum();
    let mut model = variables.minimise(total).using(good_lp::microlp).with_time_limit(seconds);
    model.add_constraint(gigabytes.leq(machine.gpu_bytes as f64 / 1e9));
    for ((&time, gpu), dimm) in times.iter().zip(gpu_us).zip(dimm_us) {
        model.add_constraint(gpu.leq(time));
        model.add_constraint(dimm.leq(time));
    }
    let failed = |reason: String| refusal!("the MILP solver found no placement within {seconds} s: {reason}");
    let model = model.with_mip_gap(gap).map_err(|error| failed(error.to_string()))?;
    let solution = model.solve().map_err(|error| failed(error.to_string()))?;
    Ok(Solved {
        us: times.iter().map(|&time| solution.value(time)).sum(),
        parts: parts.into_iter().map(|(_, range, x)| (range, solution.value(x))).collect(),
        timed_out: matches!(solution.status(), SolutionStatus::TimeLimit),
    })
}
