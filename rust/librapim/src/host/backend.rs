//! The decoder's operations of one group: the device of each, the places of keys and values, and checks of results.
//!
//! Keys and values of a sequence have two homes: the multipliers' partition for attention in memory, and a copy in the
//! weight partition for the NPU (MHA offload; LibraPIM, section 5.3). Attention writes the positions that its home
//! lacks. Positions only in the other home are read there first, so moving a sequence costs its keys and values twice
//! on the bus.

use crate::host::asked::{Asked, Both, NpuWork, Reply, Request};
use crate::host::attention::{Append, HeadQuery, NewToken, Query};
use crate::host::machine::{Attention, Stream};
use crate::host::memory::Memory;
use crate::host::policy::Share;
use crate::host::progress::count_weights;
use crate::host::record::Work;
use crate::host::shared::Product;
use crate::offloading::Model as Sizes;
use crate::offloading::npu::NpuTimes;
use ndp_config::HbmConfig;
use ndp_dram::hbm::pim::column_of;
use ndp_files::{Result, bail, failure, fault};
use ndp_model::{AttentionOp, AttentionSpan, GemvBackend, GemvClass, GemvOp, LinearOp, SoftwareBackend};
use ndp_numerics::f16;
use serde::Serialize;
use std::collections::HashMap;

const LANES: usize = HbmConfig::LANES as usize;

/// Constants of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub memory: Memory,
    pub npu: NpuTimes,
    pub sizes: Sizes,
    /// Compute nothing; results are zeros.
    pub is_timing_only: bool,
}

/// Outputs compared bit for bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// From the banks' attention.
    pub attention: u64,
    /// From the banks' products.
    pub products: u64,
}

ndp_config::sums!(Checked: attention, products);

/// Number of positions whose keys and values are at each home, for a sequence and layer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Homes {
    pim: usize,
    npu: usize,
}

impl Homes {
    pub(crate) fn written(positions: usize) -> Self {
        Self { pim: positions, npu: 0 }
    }
}

pub struct GroupBackend<'a> {
    plan: &'a Plan,
    ask: Box<dyn FnMut(Request) -> Result<Reply> + Send + 'a>,
    software: SoftwareBackend,
    share: Share,
    /// Sequences whose attention the NPU has in this step.
    on_npu: Vec<u32>,
    /// By sequence and layer.
    pub(crate) homes: HashMap<(u32, usize), Homes>,
    checked: Checked,
}

impl<'a> GroupBackend<'a> {
    pub(crate) fn new(plan: &'a Plan, ask: impl FnMut(Request) -> Result<Reply> + Send + 'a) -> Self {
        Self {
            plan,
            ask: Box::new(ask),
            software: SoftwareBackend::new(),
            share: Share::default(),
            on_npu: Vec::new(),
            homes: HashMap::new(),
            checked: Checked::default(),
        }
    }

    pub fn checked(&self) -> Checked {
        self.checked
    }

    /// Begins a step; `sequences` are numbers with the positions that they will have. Makes a new decision on
    /// offloading.
    pub fn begin_step(&mut self, sequences: &[(u32, u32)]) -> Result<()> {
        let contexts = sequences.iter().map(|&(_, context)| context).collect();
        if let Reply::Share(share) = (self.ask)(Request::Step(contexts))? {
            self.share = share;
        }
        // Offload the longest; among equals, those that came first.
        let mut longest = sequences.to_vec();
        longest.sort_by_key(|&(number, context)| (std::cmp::Reverse(context), number));
        longest.truncate(self.share.mha as usize);
        self.on_npu = longest.into_iter().map(|(number, _)| number).collect();
        Ok(())
    }

    fn work(&mut self, asked: Asked) -> Result<Vec<f16>> {
        match (self.ask)(Request::Work(Box::new(asked)))? {
            Reply::Values(values) => Ok(values),
            Reply::Share(_) => Err(failure!("a group stopped: another answer was expected")),
        }
    }

    fn npu(&mut self, op: &GemvOp<'_>) -> Result<()> {
        let work = NpuWork::Matrix { label: op.label().to_owned(), vectors: op.batch() };
        self.work(Asked { npu: Some(work), ..Asked::default() }).map(drop)
    }

    /// A product whose first `vectors` are in memory; `[batch x rows]`.
    fn shared(&mut self, op: &GemvOp<'_>, vectors: usize) -> Result<Vec<f16>> {
        let product = Product {
            label: op.label().to_owned(),
            vectors: (0..vectors).map(|vector| op.activation(vector).to_vec()).collect(),
            others: op.batch() - vectors,
        };
        let mut result = self.work(Asked { both: Some(Both::Product(product)), ..Asked::default() })?;
        let all = self.reference(op)?;
        let own = vectors * op.rows();
        if result.len() != own {
            let (found, expected) = (result.len(), own);
            return Err(failure!("a group stopped: {}: {found} outputs, expected {expected}", op.label()));
        }
        equal(op.label(), (0..own).map(|index| (index, result[index], all[index])))?;
        self.checked.products += own as u64;
        result.extend_from_slice(&all[own..]);
        Ok(result)
    }

    fn reference(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>> {
        if self.plan.is_timing_only {
            return Ok(vec![f16::ZERO; op.batch() * op.rows()]);
        }
        self.software.gemv(op)
    }

    fn head(&self, span: &AttentionSpan<'_>, layer: usize, head: usize) -> u64 {
        self.plan.memory.head(span.sequence, layer, head)
    }

    /// Columns that only the other home has, to be read before they are written.
    fn to_move(&self, op: &AttentionOp<'_>) -> Result<Stream> {
        let memory = &self.plan.memory;
        let mut stream = Stream::new(Work::Move, format!("{}.move", op.label()));
        for span in op.spans() {
            let homes = self.homes_of(span, op.layer());
            for head in 0..op.kv_heads() {
                let number = self.head(span, op.layer(), head);
                let before = stream.reads.len();
                if self.on_npu.contains(&span.sequence) && homes.npu < span.position {
                    let append = append(span, number, head, homes.npu, homes.pim);
                    let channel = memory.channel(number);
                    let columns = append.columns(memory)?;
                    stream.reads.extend(columns.into_iter().map(|(place, column)| (channel, place, column)));
                } else if !self.on_npu.contains(&span.sequence) && homes.pim < span.position {
                    copies(&mut stream.reads, memory, span, (number, head), homes.pim..span.position)?;
                }
                stream.vectors += usize::from(head == 0 && stream.reads.len() > before);
            }
        }
        Ok(stream)
    }

    fn homes_of(&self, span: &AttentionSpan<'_>, layer: usize) -> Homes {
        self.homes.get(&(span.sequence, layer)).copied().unwrap_or_default()
    }

    /// Divides attention into that in memory and that on the NPU.
    fn split(&mut self, op: &AttentionOp<'_>) -> Result<(Option<Attention>, Option<Stream>)> {
        let (layer, width) = (op.layer(), op.head_width());
        let (mut appends, mut queries) = (Vec::new(), Vec::new());
        let mut stream = Stream::new(Work::Attention, op.label().to_owned());
        let mut contexts = Vec::new();
        for span in op.spans() {
            let visible = span.position + span.tokens;
            let mut homes = self.homes_of(span, layer);
            let on_npu = self.on_npu.contains(&span.sequence);
            for head in 0..op.kv_heads() {
                let number = self.head(span, layer, head);
                if on_npu {
                    let memory = &self.plan.memory;
                    let first = op.first(span.position + 1);
                    copies(&mut stream.writes, memory, span, (number, head), homes.npu..visible)?;
                    copies(&mut stream.reads, memory, span, (number, head), first..visible)?;
                } else {
                    appends.push(append(span, number, head, homes.pim, visible));
                }
            }
            if on_npu {
                let seen = |end: usize| (end - op.first(end)) as u32;
                contexts.extend((span.position + 1..=visible).map(seen));
                homes.npu = visible;
            } else {
                homes.pim = visible;
            }
            self.homes.insert((span.sequence, layer), homes);
        }
        let mut vectors = 0;
        for (token, (span, visible, query)) in op.each().enumerate() {
            if self.on_npu.contains(&span.sequence) {
                continue;
            }
            vectors += 1;
            let sharing = op.sharing() * width;
            for (head, shared) in query.chunks(sharing).enumerate() {
                let first = token * op.width() + head * sharing;
                let own = shared.chunks(width).enumerate();
                let own = own.map(|(n, of)| Query { elements: of.to_vec(), at: first + n * width });
                let first = op.first(visible);
                check_before_window(op, span, (head, first / LANES * LANES..first))?;
                let head = self.head(span, layer, head);
                let score_cap = op.score_cap();
                queries.push(HeadQuery { head, queries: own.collect(), first, visible, score_cap });
            }
        }
        stream.vectors = contexts.len();
        stream.compute = self.plan.npu.attention(&self.plan.sizes, contexts.into_iter()).compute;
        let (label, elements) = (op.label().to_owned(), op.queries().len());
        let attention = Attention { label, appends, queries, vectors, elements };
        Ok((
            (!attention.queries.is_empty()).then_some(attention),
            (!stream.reads.is_empty()).then_some(stream),
        ))
    }
}

/// Tokens that a head adds to its caches in memory to reach `to` positions.
fn append(span: &AttentionSpan<'_>, number: u64, head: usize, from: usize, to: usize) -> Append {
    let width = span.cache.head_width();
    let (keys, values) = (span.cache.keys(head, to), span.cache.values(head, to));
    let row = |rows: &[f16], position: usize| rows[position * width..][..width].to_vec();
    let new = |position| NewToken { position, key: row(keys, position) };
    let first = from / LANES * LANES;
    Append {
        head: number,
        tokens: (from..to).map(new).collect(),
        values: (first..to).map(|position| row(values, position)).collect(),
        first,
    }
}

/// Refuses values that are not finite before a window, in its first column: a probability of +0 does not hide them.
fn check_before_window(
    op: &AttentionOp<'_>,
    span: &AttentionSpan<'_>,
    (head, positions): (usize, std::ops::Range<usize>),
) -> Result<()> {
    let width = span.cache.head_width();
    let values = &span.cache.values(head, positions.end)[positions.start * width..];
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        let (label, position, found) = (op.label(), positions.start + at / width, values[at]);
        bail!(
            "{label}: a value of head {head} at position {position} is {found}, expected a finite number, since the banks read it with the window after it; run the text in software"
        );
    }
    Ok(())
}

/// Adds keys, then values, of some positions of a head for the NPU's copy.
fn copies(
    columns: &mut Vec<(u32, crate::host::controller::Place, ndp_dram::hbm::Column)>,
    memory: &Memory,
    span: &AttentionSpan<'_>,
    (number, head): (u64, usize),
    positions: std::ops::Range<usize>,
) -> Result<()> {
    let width = span.cache.head_width();
    for is_value in [false, true] {
        let end = positions.end;
        let rows = if is_value { span.cache.values(head, end) } else { span.cache.keys(head, end) };
        for position in positions.clone() {
            for (part, lanes) in rows[position * width..][..width].chunks(LANES).enumerate() {
                let (channel, place) = memory.copy(number, is_value, position, part * LANES)?;
                columns.push((channel, place, column_of(lanes.iter().copied())));
            }
        }
    }
    Ok(())
}

/// Compares numbers bit for bit: place, found, expected.
fn equal(label: &str, mut each: impl Iterator<Item = (usize, f16, f16)>) -> Result<()> {
    match each.find(|(_, found, expected)| found.to_bits() != expected.to_bits()) {
        Some((index, found, expected)) => {
            let [found, expected] = [found, expected].map(f16::to_bits);
            Err(fault!("{label}: element {index} is {found:04x}, expected {expected:04x}"))
        }
        None => Ok(()),
    }
}

impl GemvBackend for GroupBackend<'_> {
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>> {
        self.npu(op)?;
        count_weights(op.weights().len());
        self.reference(op)
    }

    fn linear(&mut self, op: &LinearOp<'_>) -> Result<Vec<f16>> {
        let product = op.product();
        let vectors = match product.class() {
            GemvClass::Fc1 | GemvClass::Up | GemvClass::Fc2 => product.batch().min(self.share.ffn as usize),
            _ => 0,
        };
        if vectors == 0 {
            self.npu(product)?;
            count_weights(product.weights().len());
            if self.plan.is_timing_only {
                return self.reference(product);
            }
            let result = self.software.linear(op)?;
            return Ok(result);
        }
        let mut result = self.shared(product, vectors)?;
        count_weights(product.weights().len());
        if !self.plan.is_timing_only {
            op.complete(&mut result);
        }
        Ok(result)
    }

    fn attend(&mut self, op: &AttentionOp<'_>) -> Result<Vec<f16>> {
        let stream = self.to_move(op)?;
        if !stream.reads.is_empty() {
            self.work(Asked { both: Some(Both::Move(stream)), ..Asked::default() })?;
        }
        let (pim, npu) = self.split(op)?;
        let mut result = self.work(Asked { pim, npu: npu.map(NpuWork::Stream), both: None })?;
        if self.plan.is_timing_only {
            return Ok(vec![f16::ZERO; op.queries().len()]);
        }
        let expected = self.software.attend(op)?;
        result.resize(expected.len(), f16::ZERO);
        let mut compared = 0;
        for (token, (span, ..)) in op.each().enumerate() {
            let own = token * op.width()..(token + 1) * op.width();
            if self.on_npu.contains(&span.sequence) {
                result[own.clone()].copy_from_slice(&expected[own]);
            } else {
                compared += own.len() as u64;
                equal(op.label(), own.map(|index| (index, result[index], expected[index])))?;
            }
        }
        self.checked.attention += compared;
        Ok(result)
    }
}
