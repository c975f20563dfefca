//! Measured times, from a cycle model or hardware.
//!
//! The paper's host looks times up in a table that is updated after each generation stage (LibraPIM, section 4.1). The
//! table has times at points of two axes, requests and context. In between they are interpolated linearly and rounded
//! up; before the first point that one's counts, after the last there are none. Rounding up keeps a non-falling
//! sequence non-falling, so the balance stays exact.

use crate::offloading::npu::NpuTime;
use crate::offloading::time::Picos;
use crate::offloading::timeline::Work;
use crate::offloading::times::DeviceTimes;
use crate::offloading::work::Model;
use ndp_files::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// Origin of a table of times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    pub model: Model,
    pub memory: String,
}

/// File format. Times are in picoseconds; attention is `requests x contexts`, row-major.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableFile {
    /// `None` in tables of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Origin>,
    /// Ascending.
    pub requests: Vec<u32>,
    /// Tokens in K and V, ascending.
    pub contexts: Vec<u32>,
    /// Q, K and V on the NPU.
    pub qkv_npu: Vec<NpuTime>,
    /// The projection on the NPU.
    pub projection_npu: Vec<NpuTime>,
    /// The FFN on the NPU.
    pub ffn_npu: Vec<NpuTime>,
    /// Logits on the NPU.
    pub head_npu: Vec<NpuTime>,
    /// Q, K and V in memory.
    pub qkv_pim: Vec<Picos>,
    pub projection_pim: Vec<Picos>,
    /// The FFN in memory.
    pub ffn_pim: Vec<Picos>,
    /// Attention on the NPU.
    pub mha_npu: Vec<NpuTime>,
    pub mha_pim: Vec<Picos>,
}

impl TableFile {
    /// Samples `times` at these points.
    pub fn sample(times: &dyn DeviceTimes, requests: &[u32], contexts: &[u32]) -> Self {
        let points = |work| {
            let contexts = if work == Work::Mha { contexts } else { &[1] };
            requests.iter().flat_map(move |&b| contexts.iter().map(move |&context| (b, context)))
        };
        let npu = |work| points(work).map(|(b, context)| times.npu(work, b, context)).collect();
        let pim = |work| points(work).map(|(b, context)| times.pim(work, b, context)).collect();
        Self {
            of: None,
            requests: requests.to_vec(),
            contexts: contexts.to_vec(),
            qkv_npu: npu(Work::Qkv),
            projection_npu: npu(Work::Projection),
            ffn_npu: npu(Work::Ffn),
            head_npu: npu(Work::Head),
            qkv_pim: pim(Work::Qkv),
            projection_pim: pim(Work::Projection),
            ffn_pim: pim(Work::Ffn),
            mha_npu: npu(Work::Mha),
            mha_pim: pim(Work::Mha),
        }
    }

    /// Times on the NPU, with their name in the file.
    fn npu(&self, work: Work) -> (&'static str, &[NpuTime]) {
        match work {
            Work::Qkv => ("qkv_npu", &self.qkv_npu),
            Work::Projection => ("projection_npu", &self.projection_npu),
            Work::Ffn => ("ffn_npu", &self.ffn_npu),
            Work::Head => ("head_npu", &self.head_npu),
            Work::Mha => ("mha_npu", &self.mha_npu),
        }
    }

    /// Times in memory; `None` for logits.
    fn pim(&self, work: Work) -> Option<(&'static str, &[Picos])> {
        match work {
            Work::Qkv => Some(("qkv_pim", &self.qkv_pim)),
            Work::Projection => Some(("projection_pim", &self.projection_pim)),
            Work::Ffn => Some(("ffn_pim", &self.ffn_pim)),
            Work::Head => None,
            Work::Mha => Some(("mha_pim", &self.mha_pim)),
        }
    }

    /// Adds model and memory of the times.
    #[must_use]
    pub fn of(self, model: &Model, memory: &str) -> Self {
        Self { of: Some(Origin { model: model.clone(), memory: memory.to_owned() }), ..self }
    }

    /// Checks that the times belong to this model and memory; fails if the table names no origin.
    pub fn check_origin(&self, model: &Model, memory: &str) -> Result<()> {
        let Some(of) = &self.of else {
            bail!("the table does not say its model and memory in `of`; write it anew with --sample-times")
        };
        if of.model.name != model.name || of.memory != memory {
            let of_table = format!("model '{}' in memory '{}'", of.model.name, of.memory);
            let wanted = format!("model '{}' in memory '{memory}'", model.name);
            bail!("the table has times of {of_table}, not of {wanted}; write one with --sample-times");
        }
        if of.model != *model {
            let sizes = |of: &Model| {
                let Model { layers, hidden, heads, kv_heads, ffn, .. } = of;
                format!(
                    "a '{}' of {layers} layers, hidden {hidden}, {heads} heads, {kv_heads} of K and V, FFN {ffn}",
                    of.name
                )
            };
            bail!(
                "the table has times of {}, not of {}; write one with --sample-times",
                sizes(&of.model),
                sizes(model)
            );
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredTimes(TableFile);

/// A place on an axis: `part` of `whole` after the first of two points.
#[derive(Clone, Copy)]
struct Place {
    low: usize,
    high: usize,
    part: u64,
    whole: u64,
}

impl Place {
    fn on(axis: &[u32], value: u32) -> Self {
        let high = axis.partition_point(|&point| point < value);
        if high == 0 || high == axis.len() {
            let end = high.min(axis.len() - 1);
            return Self { low: end, high: end, part: 0, whole: 1 };
        }
        let (below, above) = (axis[high - 1], axis[high]);
        Self { low: high - 1, high, part: u64::from(value - below), whole: u64::from(above - below) }
    }
}

fn check_axis(axis: &'static str, points: &[u32]) -> Result<()> {
    ensure!(!points.is_empty(), "table: {axis} has 0 entries, 1 expected");
    let mut previous = 0;
    for (index, &value) in points.iter().enumerate() {
        ensure!(value > previous, "table: {axis}[{index}] = {value} must be above {previous}");
        previous = value;
    }
    Ok(())
}

/// Checks that times do not fall along either axis; `width` is the second one's length.
fn check_rising(
    column: &'static str,
    times: impl Iterator<Item = Picos>,
    width: usize,
    expected: usize,
) -> Result<()> {
    let times: Vec<_> = times.collect();
    ensure!(times.len() == expected, "table: {column} has {} entries, {expected} expected", times.len());
    for (index, &time) in times.iter().enumerate() {
        // Interpolation multiplies a time by two axis lengths.
        ndp_files::in_range(column, time.0, 0, 1 << 60)?;
        let above = index.checked_sub(width).map(|above| times[above]);
        let left = (index % width > 0).then(|| times[index - 1]);
        let least = above.max(left).unwrap_or_default();
        ensure!(
            time >= least,
            "table: {column}[{index}] = {} ps must be at least {} ps, as with less work",
            time.0,
            least.0
        );
    }
    Ok(())
}

impl MeasuredTimes {
    /// Checks a table. Fails if an axis does not rise, the number of times is wrong, a time falls along its axis (more
    /// work cannot take less time), or a time exceeds 2^60 ps.
    pub fn new(file: TableFile) -> Result<Self> {
        check_axis("requests", &file.requests)?;
        check_axis("contexts", &file.contexts)?;
        let rows = file.requests.len();
        let width = |work| if work == Work::Mha { file.contexts.len() } else { 1 };
        for work in Work::ALL {
            let ((column, times), width) = (file.npu(work), width(work));
            check_rising(column, times.iter().map(|time| time.read), width, rows * width)?;
            check_rising(column, times.iter().map(|time| time.compute), width, rows * width)?;
        }
        for work in Work::ALL {
            if let Some((column, times)) = file.pim(work) {
                check_rising(column, times.iter().copied(), width(work), rows * width(work))?;
            }
        }
        Ok(Self(file))
    }

    pub fn file(&self) -> &TableFile {
        &self.0
    }

    /// Changes entries, as after a generation stage. On error the table stays unchanged.
    pub fn update(&mut self, change: impl FnOnce(&mut TableFile)) -> Result<()> {
        let mut file = self.0.clone();
        change(&mut file);
        *self = Self::new(file)?;
        Ok(())
    }

    fn at(&self, work: Work, requests: u32, context: u32, times: impl Fn(usize) -> Picos) -> Picos {
        if requests == 0 {
            return Picos::ZERO;
        }
        let row = Place::on(&self.0.requests, requests);
        let (cols, col) = match work {
            Work::Mha => (self.0.contexts.len(), Place::on(&self.0.contexts, context)),
            _ => (1, Place { low: 0, high: 0, part: 0, whole: 1 }),
        };
        let time = |row: usize, col: usize| u128::from(times(row * cols + col).0);
        let (part, whole) = (u128::from(col.part), u128::from(col.whole));
        let along = |row| time(row, col.low) * (whole - part) + time(row, col.high) * part;
        let (down, rows) = (u128::from(row.part), u128::from(row.whole));
        let sum = along(row.low) * (rows - down) + along(row.high) * down;
        Picos(sum.div_ceil(rows * whole) as u64)
    }
}

impl DeviceTimes for MeasuredTimes {
    fn limits(&self) -> (u32, u32) {
        let last = |axis: &[u32]| axis.last().copied().unwrap_or(0);
        (last(&self.0.requests), last(&self.0.contexts))
    }

    fn npu(&self, work: Work, requests: u32, context: u32) -> NpuTime {
        let (_, times) = self.0.npu(work);
        NpuTime {
            read: self.at(work, requests, context, |index| times[index].read),
            compute: self.at(work, requests, context, |index| times[index].compute),
        }
    }

    fn pim(&self, work: Work, requests: u32, context: u32) -> Picos {
        self.0
            .pim(work)
            .map_or(Picos::ZERO, |(_, times)| self.at(work, requests, context, |index| times[index]))
    }
}
