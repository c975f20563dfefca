//! Map of the memory: weights row by row, keys and values head by head.
//!
//! Row `r` of a matrix is a run of columns of the interleaved region in channel `r mod channels`: reads use all
//! channels and bank groups, and a channel has whole rows.
//!
//! With offloading, the first rows of the multipliers' partition are for inputs of a product: vector `b` is in bank `b`
//! of every channel, 512 elements to a row. The weight partition has, after the weights, keys and values for the NPU,
//! interleaved as weights are: position `p` is in channel `p mod channels` (LibraPIM, section 5.3).

use crate::host::controller::Place;
use crate::offloading::Model;
use ndp_config::HbmConfig;
use ndp_dram::hbm::{Column, pim::column_of};
use ndp_files::{Result, bail, ensure, failure, in_range};
use ndp_isa::layout::hbm::{CacheElement, HbmAddress, Interleaved, KvMap};
use ndp_numerics::f16;
use std::collections::HashMap;

const LANES: usize = HbmConfig::LANES as usize;
const ADVICE: &str = "take a memory with more channels or rows, or fewer or shorter requests";
const ROW_LANES: usize = LANES * HbmConfig::COLUMNS as usize;

#[derive(Clone, Debug)]
pub struct Weights {
    /// First column of the interleaved region, per channel.
    first: u64,
    /// Columns by channel, in order.
    pub columns: Vec<Vec<Column>>,
    /// `(outputs, inputs)`.
    pub shape: (usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    pub sequences: usize,
    pub layers: usize,
    pub heads: usize,
    pub head_width: usize,
    pub positions: usize,
}

impl CacheShape {
    /// Caches of `sequences` sequences of a model.
    pub fn of(model: &Model, sequences: usize, positions: usize) -> Self {
        let [layers, heads, head_width] =
            [model.layers, model.kv_heads, model.head_width].map(|size| size as usize);
        Self { sequences, layers, heads, head_width, positions }
    }
}

#[derive(Clone, Debug)]
pub struct Memory {
    config: HbmConfig,
    region: Interleaved,
    caches: KvMap,
    shape: CacheShape,
    next: u64,
    matrices: HashMap<String, Weights>,
    /// First row of the inputs, and number of rows.
    inputs: (u32, u32),
    /// First column of the NPU's copies, per channel.
    copies: Option<u64>,
    /// Whether heads of a layer are spread over the channels.
    spread: bool,
}

impl Memory {
    /// An empty memory with room for products' inputs of up to `widest` elements in the multipliers' partition. Without
    /// slicing, weights have the same rows as with it. Fails if inputs, keys or values do not fit.
    pub fn new(config: &HbmConfig, shape: CacheShape, widest: usize) -> Result<Self> {
        let boundary = if config.slicing() { config.weight_rows() } else { config.rows() / 2 };
        let rows = widest.div_ceil(ROW_LANES) as u32;
        let (needed, available) = (u64::from(rows), u64::from(config.rows() - boundary));
        if needed >= available {
            let what = "rows of the multipliers' partition, for inputs and caches";
            bail!("{what}: {} needed, only {available} available; {ADVICE}", needed + 1);
        }
        let first = boundary + rows;
        in_range("elements of a head", shape.head_width, 1, ROW_LANES)?;
        // Keys of a row are neighbours only at widths that divide it; the lanes in between stay zeros.
        let width = shape.head_width.next_power_of_two().max(LANES);
        let caches = KvMap::new(config, first, width as u32, shape.positions as u32)?;
        let needed = (shape.sequences * shape.layers * shape.heads) as u64;
        ensure!(
            needed <= caches.heads(),
            "heads with keys and values: {needed} needed, only {} available; {ADVICE}",
            caches.heads()
        );
        let region = Interleaved::new(config, 0, boundary)?;
        Ok(Self {
            config: config.clone(),
            region,
            caches,
            shape,
            next: 0,
            matrices: HashMap::new(),
            inputs: (boundary, rows),
            copies: None,
            spread: false,
        })
    }

    pub fn shape(&self) -> CacheShape {
        self.shape
    }

    /// Row of all banks with the input elements from `512 * piece`, at most 512. Fails past the reserved rows.
    pub fn input_row(&self, piece: usize) -> Result<u32> {
        let (first, rows) = self.inputs;
        if piece >= rows as usize {
            let (needed, available) = (piece as u64 + 1, u64::from(rows));
            bail!("rows for the inputs of a product: {needed} needed, only {available} available");
        }
        Ok(first + piece as u32)
    }

    /// Columns that keys, or values, of a head take in a channel of the copy.
    fn half_of_copy(&self) -> u64 {
        (self.shape.positions.div_ceil(self.channels()) * self.shape.head_width.div_ceil(LANES)) as u64
    }

    /// Reserves room in the weight partition for keys and values of all heads. Matrices cannot be added afterwards.
    pub fn add_copies(&mut self) -> Result<()> {
        let heads = (self.shape.sequences * self.shape.layers * self.shape.heads) as u64;
        self.copies = Some(self.next);
        self.take_room(
            "columns of weights and of keys and values for the NPU",
            2 * heads * self.half_of_copy(),
        )?;
        Ok(())
    }

    /// Channel and column of 16 elements of a key or value in the NPU's copy, starting at `element`. Fails without
    /// copies, or as [`Interleaved::place`].
    pub fn copy(&self, head: u64, is_value: bool, position: usize, element: usize) -> Result<(u32, Place)> {
        let first =
            self.copies.ok_or_else(|| failure!("a group stopped: there are no copies for the NPU"))?;
        let (channels, parts) = (self.channels(), self.shape.head_width.div_ceil(LANES));
        let before = (2 * head + u64::from(is_value)) * self.half_of_copy();
        let index = first + before + (position / channels * parts + element / LANES) as u64;
        let channel = position % channels;
        let at = self.region.place(index * channels as u64 + channel as u64)?;
        Ok((channel as u32, in_channel(at)))
    }

    fn take_room(&mut self, what: &'static str, columns: u64) -> Result<()> {
        let available = self.region.columns() / self.channels() as u64;
        self.next += columns;
        ensure!(self.next <= available, "{what}: {} needed, only {available} available; {ADVICE}", self.next);
        Ok(())
    }

    fn channels(&self) -> usize {
        self.config.channels() as usize
    }

    /// Takes room for a matrix. Returns its columns in a channel.
    pub(crate) fn reserve(&mut self, (rows, cols): (usize, usize)) -> Result<usize> {
        let per_channel = rows.div_ceil(self.channels()) * cols.div_ceil(LANES);
        self.take_room("columns of weights in a channel", per_channel as u64)?;
        Ok(per_channel)
    }

    pub fn add(&mut self, label: &str, (rows, cols): (usize, usize), data: &[f16]) -> Result<()> {
        let channels = self.channels();
        let first = self.next;
        let per_channel = self.reserve((rows, cols))?;
        let mut columns = vec![Vec::with_capacity(per_channel); channels];
        for (row, values) in data.chunks(cols).enumerate() {
            columns[row % channels]
                .extend(values.chunks(LANES).map(|lanes| column_of(lanes.iter().copied())));
        }
        self.matrices.insert(label.to_owned(), Weights { first, columns, shape: (rows, cols) });
        Ok(())
    }

    pub fn weights(&self, label: &str) -> Result<&Weights> {
        self.matrices
            .get(label)
            .ok_or_else(|| failure!("a group stopped: there is no matrix '{label}' in memory"))
    }

    pub fn labels(&self) -> Vec<String> {
        let mut labels: Vec<String> = self.matrices.keys().cloned().collect();
        labels.sort_unstable();
        labels
    }

    /// Places of a matrix's columns in a channel, in order. Never fails for matrices that were added.
    pub fn places(&self, weights: &Weights, channel: u32) -> Result<Vec<Place>> {
        let channels = self.channels() as u64;
        let count = weights.columns[channel as usize].len() as u64;
        let place = |index: u64| {
            let at = self.region.place((weights.first + index) * channels + u64::from(channel))?;
            Ok(in_channel(at))
        };
        (0..count).map(place).collect()
    }

    /// Spreads the heads of each layer over the channels ([`Self::head`]).
    pub fn spread(&mut self) {
        self.spread = true;
    }

    /// Number of a head of the caches. Layers past the caches' last one reuse the first ones' rows.
    ///
    /// The channel is the number modulo the channels. If they do not divide the heads, a layer's heads of all sequences
    /// may be in few channels. Spread, they are numbered layer by layer; and where as many sequences as it takes to
    /// reach the first channel again have passed, numbers turn by a channel, or by the common divisor of heads and
    /// channels, so that every other sequence is spread, too.
    pub fn head(&self, sequence: u32, layer: usize, head: usize) -> u64 {
        let CacheShape { sequences, layers, heads, .. } = self.shape;
        let (sequence, layer) = (sequence as usize, layer % layers);
        if !self.spread {
            return ((sequence * layers + layer) * heads + head) as u64;
        }
        let number = (layer * sequences + sequence) * heads + head;
        let channels = self.channels();
        let (row, channel) = (number / channels, number % channels);
        // The last row may not be full, and does not turn.
        if (row + 1) * channels > sequences * layers * heads {
            return number as u64;
        }
        let common = common_divisor(heads, channels);
        (row * channels + (channel + row / (heads / common) * common) % channels) as u64
    }

    pub fn channel(&self, head: u64) -> u32 {
        (head % u64::from(self.config.channels())) as u32
    }

    /// Column with 16 elements of a key, starting at `element`.
    pub fn key(&self, head: u64, position: usize, element: usize) -> Result<Place> {
        let (position, element) = (position as u64, element as u64);
        Ok(in_channel(self.caches.key(CacheElement { head, position, element })?.address))
    }

    /// Column with one element of 16 positions' values, starting at `position`.
    pub fn value(&self, head: u64, position: usize, element: usize) -> Result<Place> {
        let (position, element) = (position as u64, element as u64);
        Ok(in_channel(self.caches.value(CacheElement { head, position, element })?.address))
    }
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

fn in_channel(at: HbmAddress) -> Place {
    Place { bank: at.bank, row: at.row, column: at.column }
}
