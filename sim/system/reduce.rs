//! Q, K, V and FC2: each device adds the products of its own neurons, and the sums meet on one core, or for some
//! columns on each ([`Meeting`]).

use super::backend::{Fault, SystemBackend};
use super::event_log::{Operation, Way};
use super::links::{Message, Round};
use super::neuron_map::{Device, NeuronMap, Parts, cold, split};
use super::pool::{alike, together};
use super::resource::Resource;
use super::rounds::Early;
use crate::gemv::{Cut, Epilogue, GemvUnit, Handed, Mode, Part, Product, Selected, Weights, columns_of};
use ndp_config::BlockKind;
use ndp_files::Result;
use ndp_isa::layout::VectorBlock;
use ndp_isa::planner::{Plan, Sizes, WeightMatrix};
use ndp_model::{Finish as After, GemvOp, LinearOp};
use ndp_numerics::{ExactSum, f16};
use std::collections::BTreeMap;
use std::ops::Range;

/// Some outputs of some vectors of a product.
pub(super) struct Piece<'a> {
    op: &'a GemvOp<'a>,
    /// Number of the product's first input in its block of neurons.
    first: u32,
    pub outputs: Range<usize>,
    pub vectors: Range<usize>,
}

impl Piece<'_> {
    /// The part of values `[batch x rows]` in the piece.
    fn of(&self, values: &[f16]) -> Vec<f16> {
        let row = |vector: usize| &values[vector * self.op.rows()..][self.outputs.clone()];
        self.vectors.clone().flat_map(row).copied().collect()
    }

    /// Values of some inputs, `[vectors x neurons]`.
    pub fn values_of(&self, neurons: &[u32]) -> Vec<f16> {
        let values =
            |b: usize| neurons.iter().map(move |&n| self.op.activation(b)[(n - self.first) as usize]);
        self.vectors.clone().flat_map(values).collect()
    }

    /// Sums over some inputs, for each vector and output.
    fn sums<'w>(
        &self,
        neurons: &[u32],
        came: impl Fn(u32) -> Option<&'w [f16]>,
        sum: impl Fn(&mut dyn Iterator<Item = (f16, f16)>) -> ExactSum,
    ) -> Vec<ExactSum> {
        let places = self.vectors.clone().flat_map(|v| self.outputs.clone().map(move |o| (v, o)));
        let of = |(vector, output): (usize, usize)| {
            let (vector, weights) = (self.op.activation(vector), self.op.weight_row(output));
            let product = |&n: &u32| {
                let input = (n - self.first) as usize;
                (came(n).map_or(weights[input], |w| w[output]), vector[input])
            };
            sum(&mut neurons.iter().map(product))
        };
        places.map(of).collect()
    }
}

/// Numbers of columns and vectors of a piece, and the range of its columns whose sums meet on a core.
pub(super) type OwnColumns = ((u32, u32), Range<u32>);

/// A link, the name of the message, and its bytes.
type Path = (Resource, &'static str, u64);

/// A core's part: neurons, the slots of their weights, and their values.
struct Share<'a> {
    neurons: &'a [u32],
    slots: Vec<u32>,
    vectors: Vec<f16>,
    /// Meetings on other cores that get its sums.
    leaves: Vec<&'a Meeting>,
    /// Whether the host reads which of the core's inputs are positive.
    asks: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Meeting {
    core: usize,
    cut: Cut,
}

impl Meeting {
    /// Its block of values `[vectors x columns of the piece]`.
    fn of<T: Clone>(&self, piece: &Piece<'_>, values: &[T]) -> Vec<T> {
        let block = self.cut.block.start as usize..self.cut.block.end as usize;
        values.chunks(piece.outputs.len()).flat_map(|row| &row[block.clone()]).cloned().collect()
    }
}

/// A core's work at the end: parts of the sums, bias and residual of its columns.
struct Finish<'a> {
    meeting: &'a Meeting,
    parts: Vec<Part>,
    epilogue: Epilogue<'a>,
    /// Whether the core has sums of its own.
    own: bool,
    output: Option<VectorBlock>,
    spoilt: Option<Handed>,
}

impl<P: NeuronMap> SystemBackend<P> {
    /// Computes a product over `neurons`, by their numbers in the block, each device its own; all other inputs are zero. It
    /// is cut into pieces if a buffer cannot hold the sums of all outputs and vectors.
    pub(super) fn meet(
        &mut self,
        linear: &LinearOp<'_>,
        (layer, kind): (u32, BlockKind),
        neurons: &[u32],
    ) -> Result<Vec<f16>> {
        let op = linear.product();
        let (block, first_neuron) = (kind.block(layer), self.first_neuron(op));
        let mut parts = split(|neuron| self.residence.device((block, neuron)), neurons);
        // The host has not seen whether inputs that a core kept have a positive one.
        for (dimm, _) in (0..).zip(&self.cores).filter(|(_, core)| core.kept_outputs().is_some()) {
            parts.entry(Device::Dimm(dimm)).or_default();
        }
        let turns = self.turns(parts);
        let longest = turns.iter().flat_map(BTreeMap::values).map(Vec::len).max().unwrap_or(0).max(1) as u32;
        let (rows, cols, batch) = (op.cols() as u32, op.rows() as u32, op.batch() as u32);
        let sizes = Sizes { rows, cols, count: longest, batch, listed: true };
        let matrix = self.matrix();
        let tiles = self.residence.tiles(block, matrix);
        let mut tiling = Plan::passes(&self.config, tiles, &sizes)?;
        let is_kept = self.cores.iter().any(|core| core.kept_outputs().is_some());
        if is_kept {
            // They are kept only if all sums have room beside them.
            tiling.passes = vec![batch];
        }
        let epilogue = epilogue_of(linear);
        let (mut bits, mut merged) = (vec![0; op.batch() * op.rows()], Vec::new());
        let mut pieces: Vec<(usize, Piece<'_>, Vec<Early>)> = Vec::new();
        let mut first = 0;
        for &count in &tiling.passes {
            let vectors = first..first + count as usize;
            for (tile, cut) in tiling.tiles.iter().enumerate() {
                let outputs = cut.first as usize..(cut.first + cut.cols) as usize;
                let piece = Piece { op, first: first_neuron, outputs, vectors: vectors.clone() };
                pieces.push((tile, piece, Vec::new()));
            }
            first = vectors.end;
        }
        for (round, parts) in turns.iter().enumerate() {
            self.begin_round(round)?;
            if !is_kept {
                self.send_inputs(parts, op.batch());
            }
            for (device, neurons) in parts {
                let dimm = if let Device::Dimm(dimm) = device { Some(*dimm as usize) } else { None };
                self.event_log.figures.neurons(dimm, neurons.len());
            }
            for (tile, piece, early) in &mut pieces {
                let of = (block, matrix, *tile);
                if round + 1 < turns.len() {
                    early.append(&mut self.leave_sums(piece, of, parts)?);
                    continue;
                }
                let (results, sums) = self.meet_piece(piece, of, (parts, early), &epilogue)?;
                merged.resize(if sums.is_empty() { 0 } else { bits.len() }, f16::from_bits(0));
                let outputs = &piece.outputs;
                for (index, vector) in piece.vectors.clone().enumerate() {
                    let (from, to) = (index * outputs.len(), vector * op.rows() + outputs.start);
                    bits[to..][..outputs.len()].copy_from_slice(&results[from..][..outputs.len()]);
                    if let Some(sums) = sums.get(from..from + outputs.len()) {
                        merged[to..][..outputs.len()].copy_from_slice(sums);
                    }
                }
            }
        }
        let exact = self.reference.linear(linear)?;
        if self.is_exact() || self.reference.is_timing_only() {
            return self.verdict(op.label(), op.rows(), &exact, &bits);
        }
        linear.complete(&mut merged);
        let values = self.verdict(op.label(), op.rows(), &merged, &bits)?;
        self.count_differences(&exact, &values);
        Ok(values)
    }

    /// Compares the core's monitor with the neurons that take part.
    fn check_selected(
        &mut self,
        op: &GemvOp<'_>,
        (block, dimm): (usize, usize),
        neurons: &[u32],
        selected: &[u32],
    ) -> Result<()> {
        let first = self.first_neuron(op);
        let mut expected = self.residence.list(block, neurons);
        expected.sort_unstable();
        if self.reference.is_timing_only() || expected == selected {
            return Ok(());
        }
        let here = |neuron: u32| self.residence.device((block, neuron)) == Device::Dimm(dimm as u32);
        let all = first..first + op.cols() as u32;
        let active = all.clone().map(|neuron| f16::from_f32(f32::from(u8::from(neurons.contains(&neuron)))));
        let slot = |neuron| self.residence.home((block, neuron)).slot;
        let said = |neuron: u32| here(neuron) && selected.contains(&slot(neuron));
        let said: Vec<u16> = all.map(|neuron| if said(neuron) { f16::ONE.to_bits() } else { 0 }).collect();
        let (label, active) = (format!("activity of {}", op.label()), active.collect::<Vec<f16>>());
        self.verdict(&label, op.cols(), &active, &said).map(|_| ())
    }

    /// Sends cores the values and numbers of their neurons. K and V use the ones sent for Q; FC1's outputs are on the
    /// host.
    fn send_inputs(&mut self, parts: &Parts, batch: usize) {
        if matches!(self.event_log.step.operation, Operation::K | Operation::V) {
            return;
        }
        let (begin, mut end) = (self.event_log.now, self.event_log.now);
        for (dimm, neurons) in cold(parts) {
            let values = (2 * batch * neurons.len()) as u64;
            let way = if self.event_log.step.operation == Operation::Fc2 { Way::FromHost } else { Way::Down };
            self.event_log.figures.bytes.bus_inputs += if way == Way::Down { values } else { 0 };
            end = end.max(self.event_log.exchange(dimm, ("inputs", begin), values, way));
            let list = 4 * neurons.len() as u64;
            end = end.max(self.event_log.exchange(dimm, ("list", begin), list, Way::FromHost));
        }
        self.event_log.advance(end);
    }

    /// A piece, `[vectors x outputs]`, with the sums of earlier rounds: the cores' result and, unless all sums are
    /// exact, the sums as rounded by each device on the way.
    fn meet_piece(
        &mut self,
        piece: &Piece<'_>,
        (block, matrix, tile): (usize, WeightMatrix, usize),
        (parts, early): (&Parts, &[Early]),
        epilogue: &Epilogue<'_>,
    ) -> Result<(Vec<u16>, Vec<f16>)> {
        let (cols, batch) = (piece.outputs.len() as u32, piece.vectors.len() as u32);
        let bias: Option<Vec<f16>> = epilogue.bias.map(|bias| bias[piece.outputs.clone()].to_vec());
        let residual: Option<Vec<f16>> = epilogue.residual.map(|residual| piece.of(residual));
        let (begin, format) = (self.event_log.now, self.options.merge);
        let empty = ExactSum::new(self.config.gemv().acc_bits())?;
        let gpu = parts.get(&Device::Gpu);
        let is_timing_only = self.reference.is_timing_only();
        let gpu_sums = gpu.filter(|_| !is_timing_only).map(|neurons| {
            let came = |neuron| self.residence.uploaded((block, neuron), matrix);
            piece.sums(neurons, came, |products| self.gpu.sum(&empty, products))
        });
        let cold: Vec<(usize, &Vec<u32>)> = cold(parts).collect();
        // The core with most neurons is the last to be ready.
        let known =
            |dimm: usize, neurons: &Vec<u32>| self.cores[dimm].kept_outputs().unwrap_or(neurons.len());
        let most =
            cold.iter().max_by_key(|(dimm, neurons)| (known(*dimm, neurons), std::cmp::Reverse(*dimm)));
        let (meetings, met_at) = self.meetings(piece, matrix, most.map_or(0, |(dimm, _)| *dimm));
        let jobs = cold.iter().map(|&(dimm, neurons)| {
            let slots = self.residence.list(block, neurons);
            let vectors = piece.values_of(neurons);
            let leaves = meetings.iter().filter(|of| of.core != dimm).collect();
            let asks = self.asks_monitor(dimm, piece.vectors.len());
            (dimm, Share { neurons, slots, vectors, leaves, asks })
        });
        let jobs: Vec<(usize, Share<'_>)> = jobs.collect();
        // The tile as a matrix of its own.
        let weights = [(0, self.residence.tiles(block, matrix)[tile].1.clone())];
        let up = self.residence.tiles(block, WeightMatrix::Up).first().map(|(_, layout)| layout.clone());
        let cores = (self.cores.as_mut_slice(), self.links.as_mut());
        let size = |share: &Share| share.slots.len();
        let done = together(cores, self.options.threads, jobs, size, async |core: &mut GemvUnit, share| {
            let Share { neurons, slots, vectors, leaves, asks } = share;
            let mut places = None;
            if core.kept_outputs().is_some() {
                let of = core.begin_partial_of_kept((&weights[0].1, up.as_ref()), &slots)?;
                places = Some(of).filter(|_| asks);
            } else {
                let product = Product {
                    mode: Mode::Axpy,
                    rows: weights[0].1.rows(),
                    cols,
                    active: Some(&slots),
                    weights: Weights::Resident(&weights),
                    vectors: &vectors,
                };
                core.begin_partial(&product).await?;
            }
            let (left, computed) = if leaves.is_empty() {
                (None, core.execute(&[]).await?)
            } else {
                let (left, figures) = core.hand_over_async(format, cols, batch).await?;
                let slice = |of: &&Meeting| left.slice(core.core().config(), (cols, batch), &of.cut);
                let slices = match &left {
                    Part::Arrived(_) => Vec::new(),
                    _ => leaves.iter().map(slice).collect::<Result<Vec<_>, _>>()?,
                };
                (Some((left, slices)), figures)
            };
            let selected = match places {
                Some(places) => Some(core.selected(&places).await?),
                None => None,
            };
            Ok((computed, selected, left, neurons))
        })?;
        self.learn();

        let mut finishes: Vec<Finish<'_>> = Vec::with_capacity(meetings.len());
        let of_meeting =
            |values: Option<&Vec<f16>>, meeting: &Meeting| values.map(|values| meeting.of(piece, values));
        let biases: Vec<_> = meetings.iter().map(|meeting| of_meeting(bias.as_ref(), meeting)).collect();
        let residuals: Vec<_> =
            meetings.iter().map(|meeting| of_meeting(residual.as_ref(), meeting)).collect();
        for ((meeting, bias), residual) in meetings.iter().zip(&biases).zip(&residuals) {
            finishes.push(Finish {
                meeting,
                parts: Vec::new(),
                epilogue: Epilogue { bias: bias.as_deref(), residual: residual.as_deref(), ..*epilogue },
                own: cold.iter().any(|(dimm, _)| *dimm == meeting.core),
                output: self.kept_output(piece, matrix, &meeting.cut.block)?,
                spoilt: None,
            });
        }
        let (mut slowest, mut ready) = (0, begin);
        if let Some(neurons) = gpu {
            let weights = self.shape.weight_bytes(neurons.len() as u64 * u64::from(cols));
            let end = self.event_log.gpu(("partial sums", begin), weights, piece.vectors.len(), neurons);
            for Finish { meeting, parts, .. } in &mut finishes {
                let part = match &gpu_sums {
                    Some(sums) => {
                        let sums = meeting.of(piece, sums);
                        Part::of_cut(format, &self.config, batch, &meeting.cut, &sums)?
                    }
                    None => Part::timing_only(format, &self.config, batch, &meeting.cut)?,
                };
                let sums = ("sums of the GPU", end);
                ready = ready.max(self.event_log.exchange(meeting.core, sums, part.bytes(), Way::Down));
                let figures = &mut self.event_log.figures;
                figures.gpu_sent_bytes += part.bytes();
                figures.bytes.bus_gpu_sums += part.bytes();
                figures.merge.bus_bytes += part.bytes();
                parts.push(part);
            }
        }
        for Finish { meeting, parts, .. } in &mut finishes {
            for Early { part, .. } in early {
                let part = part.slice(&self.config, (cols, batch), &meeting.cut)?;
                let sums = ("partial sums", begin);
                ready = ready.max(self.event_log.exchange(meeting.core, sums, part.bytes(), Way::FromHost));
                parts.push(part);
            }
        }
        let (mut waiting, mut computed_by) = (Vec::new(), begin);
        for (dimm, (computed, selected, left, neurons)) in done {
            let cycles = computed.cycles;
            let end = self.event_log.program(dimm, ("partial sums", begin), computed, neurons);
            if let Some(Selected { mut rows, bytes }) = selected {
                if self.fault == Some(Fault::Activity) && rows.pop().is_some() {
                    self.fault = None;
                }
                self.check_selected(piece.op, (block, dimm), neurons, &rows)?;
                ready = ready.max(self.event_log.exchange(dimm, ("activity", end), bytes, Way::ToHost));
            }
            if let Some((part, slices)) = left {
                self.event_log.figures.merge.handed_over += 1;
                if let Part::Arrived(part) = part {
                    waiting.push((dimm, part));
                }
                let others = finishes.iter_mut().filter(|of| of.meeting.core != dimm);
                for (Finish { meeting, parts, .. }, part) in others.zip(slices) {
                    self.event_log.figures.sent(dimm, part.bytes());
                    let link = Resource::LinkIn(meeting.core as u32);
                    ready = ready.max(self.event_log.carry(link, ("partial sums", end), part.bytes()));
                    parts.push(part);
                }
            }
            slowest = slowest.max(cycles);
            ready = ready.max(end);
            computed_by = computed_by.max(end);
        }
        // Messages are sent when all cores have computed.
        for round in self.send_sums(&waiting, &mut finishes, batch)? {
            let (round, ways) = round;
            computed_by = self.event_log.round(computed_by, &round, &ways);
            slowest += round.cycles();
        }
        ready = ready.max(computed_by);
        let merged = if self.is_exact() || is_timing_only {
            Vec::new()
        } else {
            self.merged(piece, (&cold, &meetings), (gpu_sums.as_deref(), early), &empty)?
        };
        if self.fault == Some(Fault::Sums)
            && let Some(finish) = finishes.iter_mut().find(|finish| !finish.parts.is_empty())
        {
            finish.parts[0].spoil(60);
            if let Part::Arrived(part) = &finish.parts[0] {
                finish.spoilt = Some(part.clone());
            }
            self.fault = None;
        }
        let own_bytes = |meeting: &Meeting| 2 * meeting.cut.own.len() as u64 * u64::from(batch);
        for Finish { meeting, .. } in finishes.iter().filter(|_| residual.is_some()) {
            let bytes = own_bytes(meeting);
            self.event_log.figures.bytes.bus_inputs += bytes;
            ready = ready.max(self.event_log.exchange(meeting.core, ("residual", begin), bytes, Way::Down));
        }
        let meets = finishes.iter().any(|finish| !finish.parts.is_empty());
        let jobs = finishes.iter().map(|finish| (finish.meeting.core, finish)).collect();
        let cores = (self.cores.as_mut_slice(), self.links.as_mut());
        let done = together(cores, self.options.threads, jobs, alike, async |core: &mut GemvUnit, job| {
            let Finish { meeting, parts, epilogue, own, output, spoilt } = job;
            if let Some(part) = spoilt {
                core.corrupt_received(part, batch, &meeting.cut).await?;
            }
            let run = core.meet_async((batch, &meeting.cut), parts, *own, epilogue, *output).await?;
            Ok((*meeting, run))
        })?;
        self.learn();
        if let Some(met) = self.met_at.get_mut(matrix as usize) {
            *met = met_at;
        }
        let mut bits = vec![0; piece.outputs.len() * piece.vectors.len()];
        let (mut longest, mut end) = (0, ready);
        for (core, (meeting, run)) in done {
            let cycles = run.figures.cycles;
            longest = longest.max(cycles);
            if meets {
                self.event_log.figures.merge.meetings += 1;
                self.event_log.figures.merge.meet_cycles += cycles;
            }
            let mut met = self.event_log.program(core, ("meet", ready), run.figures, &[]);
            if self.event_log.step.operation == Operation::Fc2 {
                let bytes = own_bytes(meeting);
                self.event_log.figures.bytes.bus_results += bytes;
                met = self.event_log.exchange(core, ("results", met), bytes, Way::Up);
            }
            end = end.max(met);
            let rows = bits.chunks_mut(piece.outputs.len());
            let Cut { own, block, .. } = &meeting.cut;
            for (row, values) in rows.zip(run.bits.chunks(meeting.cut.cols() as usize)) {
                let values = &values[(own.start - block.start) as usize..][..own.len()];
                row[own.start as usize..][..own.len()].copy_from_slice(values);
            }
        }
        self.event_log.critical(slowest + longest);
        self.event_log.advance(end);
        Ok((bits, merged))
    }

    /// Where the columns of a piece meet, and the core of Q, K or V if that is one. Several cores share the columns: by
    /// the heads that they attend to, or by equal numbers of stripes. Columns that cannot be divided meet on `most`.
    fn meetings(
        &mut self,
        piece: &Piece<'_>,
        matrix: WeightMatrix,
        most: usize,
    ) -> (Vec<Meeting>, Option<usize>) {
        let (cores, cols) = (self.cores.len(), piece.outputs.len() as u32);
        let together = (vec![Meeting { core: most, cut: Cut::all(cols) }], Some(most));
        if cores == 1 {
            return together;
        }
        let columns: Vec<Range<u32>> = match matrix {
            WeightMatrix::Q | WeightMatrix::K | WeightMatrix::V => {
                if !self.divides_heads(piece.op.batch()) || piece.outputs.len() != piece.op.rows() {
                    return together;
                }
                let of_core = |core| {
                    let columns = self.head_columns(matrix, core);
                    columns.start as u32..columns.end as u32
                };
                (0..cores).map(of_core).collect()
            }
            _ => {
                let stripe = self.config.gemv().stripe_elems();
                let (stripes, cores) = (cols.div_ceil(stripe), cores as u32);
                let first = |core: u32| (stripes * core / cores * stripe).min(cols);
                (0..cores).map(|core| first(core)..first(core + 1)).collect()
            }
        };
        let size = (cols, piece.vectors.len() as u32);
        let (config, merge, cuts) = (&self.config, self.options.merge, &mut self.cuts);
        let meeting = |(core, own): (usize, Range<u32>)| {
            let cut = cuts
                .entry((size, own))
                .or_insert_with_key(|(_, own)| Cut::of(config, merge, size, own.clone()));
            Some(Meeting { core, cut: cut.clone()? })
        };
        let columns = (0..).zip(columns).filter(|(_, own)| !own.is_empty());
        let meetings: Option<Vec<Meeting>> = columns.map(meeting).collect();
        meetings.filter(|meetings| meetings.len() > 1).map_or(together, |meetings| (meetings, None))
    }

    /// Sends exported sums to where each column meets. In rounds without waiting for third cores: from each core to the
    /// next, then to the one after that.
    fn send_sums(
        &mut self,
        exported: &[(usize, Handed)],
        finishes: &mut [Finish<'_>],
        batch: u32,
    ) -> Result<Vec<(Round, Vec<Path>)>> {
        let Some(links) = &mut self.links else { return Ok(Vec::new()) };
        let count = self.cores.len();
        let (mut messages, mut ways) = (Vec::new(), Vec::new());
        for distance in 1..count {
            for (from, handed) in exported {
                let to = (from + distance) % count;
                let Some(finish) = finishes.iter_mut().find(|finish| finish.meeting.core == to) else {
                    continue;
                };
                let leaving = handed.slice(&self.config, batch, &finish.meeting.cut)?;
                let coming = leaving.at(self.cores[to].coming(*from)?);
                let ranges = leaving.ranges.iter().copied().zip(coming.ranges.iter().copied()).collect();
                messages.push(Message { from: *from, to, ranges });
                ways.push((Resource::LinkIn(to as u32), "partial sums", leaving.bytes()));
                self.event_log.figures.sent(*from, leaving.bytes());
                finish.parts.push(Part::Arrived(coming));
            }
        }
        let rounds = links.deliver(&mut self.cores, &messages)?;
        self.event_log.predicted.append(&mut links.lockstep().take_predicted());
        let with_ways = |round: Round| {
            let ways = round.messages.iter().map(|number| ways[*number]).collect();
            (round, ways)
        };
        Ok(rounds.into_iter().map(with_ways).collect())
    }

    /// The matrix of the current operation.
    fn matrix(&self) -> WeightMatrix {
        match self.event_log.step.operation {
            Operation::Q => WeightMatrix::Q,
            Operation::K => WeightMatrix::K,
            Operation::V => WeightMatrix::V,
            _ => WeightMatrix::Fc2,
        }
    }

    /// Where results stay for the cores that attend: with links the host does not move a single token's.
    fn kept_output(
        &self,
        piece: &Piece<'_>,
        matrix: WeightMatrix,
        columns: &Range<u32>,
    ) -> Result<Option<VectorBlock>> {
        let [queries, keys, values] = &self.residence.qkv;
        let vector = match matrix {
            WeightMatrix::Q => queries,
            WeightMatrix::K => keys,
            WeightMatrix::V => values,
            _ => return Ok(None),
        };
        if !self.keeps_qkv(piece.op.batch()) {
            return Ok(None);
        }
        let first = piece.outputs.start as u32 + columns.start;
        columns_of(&self.config, vector, first, columns.end - columns.start).map(Some)
    }

    /// Sums rounded once, after every part has been rounded as on its way.
    fn merged(
        &self,
        piece: &Piece<'_>,
        (cold, meetings): (&[(usize, &Vec<u32>)], &[Meeting]),
        (gpu, early): (Option<&[ExactSum]>, &[Early]),
        empty: &ExactSum,
    ) -> Result<Vec<f16>> {
        use crate::gemv::MergeFormat;
        let cols = piece.outputs.len();
        let mut totals = vec![empty.clone(); cols * piece.vectors.len()];
        let mut add = |parts: &[ExactSum], from: Option<usize>| -> Result<()> {
            for (index, (total, part)) in totals.iter_mut().zip(parts).enumerate() {
                let column = (index % cols) as u32;
                let stays = meetings.iter().any(|of| Some(of.core) == from && of.cut.own.contains(&column));
                match self.options.merge {
                    MergeFormat::Fp16 if !stays => total.add_value(part.try_round()?),
                    _ => total.add(part),
                }
            }
            Ok(())
        };
        if let Some(gpu) = gpu {
            add(gpu, None)?;
        }
        let exact = |products: &mut dyn Iterator<Item = (f16, f16)>| {
            let mut sum = empty.clone();
            products.for_each(|(w, x)| sum.mul_add(w, x));
            sum
        };
        for &(dimm, neurons) in cold {
            add(&piece.sums(neurons, |_| None, exact), Some(dimm))?;
        }
        for Early { neurons, .. } in early {
            let sums = piece.sums(neurons, |_| None, exact);
            totals.iter_mut().zip(&sums).for_each(|(total, sum)| total.add(sum));
        }
        totals.iter().map(|sum| sum.try_round()).collect()
    }
}

fn epilogue_of<'a>(op: &LinearOp<'a>) -> Epilogue<'a> {
    let epilogue = Epilogue { bias: op.bias(), ..Epilogue::default() };
    match op.finish() {
        After::Plain => epilogue,
        After::Scale(factor) => Epilogue { scale: Some(factor), ..epilogue },
        // Outputs of FC1, and gated products, stay where they are computed.
        After::Activate(_) | After::Gate { .. } => epilogue,
        After::Residual(residual) => Epilogue { residual: Some(residual), ..epilogue },
    }
}
