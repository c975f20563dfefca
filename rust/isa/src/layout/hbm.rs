//! Where weights, keys and values lie in an HBM2 memory whose banks compute (LibraPIM, section 5.3).
//!
//! Weights and read streams are interleaved over all channels, then bank groups: from bit 0, channel, bank group,
//! column, bank, row. Keys and values of a head are in one channel, whose buffer has the head's query or probabilities.
//! Each key, and each element's values, is in one bank; neighbours are in neighbouring banks, so one MAC command covers
//! as many as there are banks. Both kinds begin at a row of their own, the paper's offset. Keys and values for the NPU
//! lie as weights do, in the weight partition, at another row offset.
//!
//! In a bank, a key is consecutive columns: one result is one run of MACs. Values are transposed: a row holds one
//! element of 512 consecutive positions, the probabilities of a full global buffer.

use ndp_config::HbmConfig;
use ndp_files::{Result, in_range};

const LANES: u64 = HbmConfig::LANES as u64;
const COLUMNS: u64 = HbmConfig::COLUMNS as u64;
const ROW_LANES: u64 = COLUMNS * LANES;

/// Place of a column of 16 FP16 numbers in the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HbmAddress {
    /// Channel.
    pub channel: u32,
    /// Bank of the channel: `bank_group * banks_per_group + bank of the group`.
    pub bank: u32,
    /// Row of the bank.
    pub row: u32,
    /// Column of the row.
    pub column: u32,
}

/// Place of one FP16 number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HbmElement {
    /// Column of the number.
    pub address: HbmAddress,
    /// Lane of the column, 0 to 15.
    pub lane: u32,
}

/// Rows `first..first + rows` of all banks, with interleaved columns: weights, or keys and values for the NPU.
///
/// ```
/// use ndp_config::HbmConfig;
/// use ndp_isa::layout::hbm::Interleaved;
/// let hbm = HbmConfig::preset("librapim").unwrap();
/// let weights = Interleaved::new(&hbm, 0, 8000).unwrap();
/// let place = weights.place(65).unwrap();
/// assert_eq!((place.channel, place.bank, place.row, place.column), (1, 4, 0, 0));
/// assert_eq!(weights.index(place).unwrap(), 65);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interleaved {
    config: HbmConfig,
    first: u32,
    rows: u32,
}

impl Interleaved {
    /// `rows` rows starting at `first`; an error unless they are in the weight partition and at least one.
    pub fn new(config: &HbmConfig, first: u32, rows: u32) -> Result<Self> {
        let end = u64::from(config.weight_rows());
        in_range("first row", first.into(), 0, end - 1)?;
        in_range("rows", rows.into(), 1, end - u64::from(first))?;
        Ok(Self { config: config.clone(), first, rows })
    }

    /// Columns that fit.
    pub fn columns(&self) -> u64 {
        u64::from(self.config.channels()) * u64::from(self.config.banks()) * u64::from(self.rows) * COLUMNS
    }

    /// Place of column `index`; an error if there is no such column.
    pub fn place(&self, index: u64) -> Result<HbmAddress> {
        in_range("column index", index, 0, self.columns() - 1)?;
        let c = &self.config;
        let mut rest = index;
        // Each field is below its count, so it fits 32 bits.
        let mut take = |count: u64| {
            let field = rest % count;
            rest /= count;
            field as u32
        };
        let (channel, group) = (take(c.channels().into()), take(c.bank_groups().into()));
        let (column, bank) = (take(COLUMNS), take(c.banks_per_group().into()));
        let row = self.first + take(self.rows.into());
        Ok(HbmAddress { channel, bank: group * c.banks_per_group() + bank, row, column })
    }

    /// Inverse of [`Interleaved::place`]; an error for a place outside.
    pub fn index(&self, at: HbmAddress) -> Result<u64> {
        let c = &self.config;
        check_place(c, at)?;
        in_range("row", at.row.into(), self.first.into(), u64::from(self.first) + u64::from(self.rows) - 1)?;
        let (group, bank) = (at.bank / c.banks_per_group(), at.bank % c.banks_per_group());
        let row = u64::from(at.row - self.first);
        let banks = row * u64::from(c.banks_per_group()) + u64::from(bank);
        let columns = banks * COLUMNS + u64::from(at.column);
        let groups = columns * u64::from(c.bank_groups()) + u64::from(group);
        Ok(groups * u64::from(c.channels()) + u64::from(at.channel))
    }
}

fn check_place(c: &HbmConfig, at: HbmAddress) -> Result<()> {
    in_range("channel", at.channel.into(), 0, u64::from(c.channels()) - 1)?;
    in_range("bank", at.bank.into(), 0, u64::from(c.banks()) - 1)?;
    in_range("column", at.column.into(), 0, COLUMNS - 1)
}

/// Meaning of a number in the cache of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheElement {
    /// Head, counted over all requests.
    pub head: u64,
    /// Position of the token.
    pub position: u64,
    /// Element of the head's vector.
    pub element: u64,
}

/// Keys and values of heads, each head in one channel.
///
/// Head `h` is number `h / channels` of channel `h mod channels`. The key of position `p` is in bank `p mod banks`,
/// element `e` of all values in bank `e mod banks`. Each head has the same rows of all banks: keys, then values.
///
/// ```
/// use ndp_config::HbmConfig;
/// use ndp_isa::layout::hbm::{CacheElement, KvMap};
/// let hbm = HbmConfig::preset("librapim").unwrap();
/// let map = KvMap::new(&hbm, 8192, 128, 4096).unwrap();
/// let at = CacheElement { head: 65, position: 85, element: 17 };
/// let key = map.key(at).unwrap();
/// assert_eq!((key.address.channel, key.address.bank), (1, 5));
/// // Row 1 of the second head of the channel: the first one has 64 rows of keys and 64 of values.
/// assert_eq!((key.address.row, key.address.column, key.lane), (8192 + 128 + 1, 9, 1));
/// assert_eq!(map.key_of(key).unwrap(), Some(at));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvMap {
    config: HbmConfig,
    first: u32,
    head_dim: u64,
    positions: u64,
}

impl KvMap {
    /// Caches starting at row `first`, for up to `positions` tokens. With slicing, `first` is at or above the boundary.
    ///
    /// Fails for a row below the boundary, a `head_dim` other than 16, 32, 64, 128, 256 or 512, no positions, or no
    /// room for a head.
    pub fn new(config: &HbmConfig, first: u32, head_dim: u32, positions: u32) -> Result<Self> {
        let least = if config.slicing() { config.weight_rows() } else { 0 };
        in_range("first row", first.into(), least.into(), u64::from(config.rows()) - 1)?;
        in_range("head_dim", head_dim.into(), LANES, ROW_LANES)?;
        // The limits in the message name the next power of two.
        let power = u64::from(head_dim).next_power_of_two();
        in_range("head_dim", head_dim.into(), power, power)?;
        let map =
            Self { config: config.clone(), first, head_dim: head_dim.into(), positions: positions.into() };
        let free = u64::from(config.rows() - first);
        in_range("positions", positions.into(), 1, u64::from(u32::MAX))?;
        in_range("rows of a head", map.rows_of_head(), 1, free)?;
        Ok(map)
    }

    /// Keys that share a row of a bank.
    fn keys_per_row(&self) -> u64 {
        ROW_LANES / self.head_dim
    }

    fn banks(&self) -> u64 {
        self.config.banks().into()
    }

    /// Rows of a head's keys, in each bank.
    pub fn key_rows(&self) -> u64 {
        self.positions.div_ceil(self.banks()).div_ceil(self.keys_per_row())
    }

    /// Elements of a value that a bank has.
    fn elements_per_bank(&self) -> u64 {
        self.head_dim.div_ceil(self.banks())
    }

    /// Rows of a head's values, in each bank: one for each of its elements and 512 positions.
    pub fn value_rows(&self) -> u64 {
        self.positions.div_ceil(ROW_LANES) * self.elements_per_bank()
    }

    /// Rows of a head, in each bank.
    pub fn rows_of_head(&self) -> u64 {
        self.key_rows() + self.value_rows()
    }

    /// Heads that fit the memory.
    pub fn heads(&self) -> u64 {
        let per_channel = u64::from(self.config.rows() - self.first) / self.rows_of_head();
        per_channel * u64::from(self.config.channels())
    }

    fn check(&self, at: CacheElement) -> Result<()> {
        in_range("head", at.head, 0, self.heads() - 1)?;
        in_range("position", at.position, 0, self.positions - 1)?;
        in_range("element", at.element, 0, self.head_dim - 1)
    }

    fn place(&self, head: u64, bank: u64, row_of_head: u64, lane_of_row: u64) -> HbmElement {
        let channels = u64::from(self.config.channels());
        let row = u64::from(self.first) + head / channels * self.rows_of_head() + row_of_head;
        let address = HbmAddress {
            channel: (head % channels) as u32,
            bank: bank as u32,
            row: row as u32,
            column: (lane_of_row / LANES) as u32,
        };
        HbmElement { address, lane: (lane_of_row % LANES) as u32 }
    }

    /// Head, row of the head and lane of the row; `None` in rows that no head has.
    fn locate(&self, at: HbmElement) -> Result<Option<(u64, u64, u64)>> {
        check_place(&self.config, at.address)?;
        in_range("lane", at.lane.into(), 0, LANES - 1)?;
        in_range("row", at.address.row.into(), self.first.into(), u64::from(self.config.rows()) - 1)?;
        let row = u64::from(at.address.row - self.first);
        let of_channel = row / self.rows_of_head() * u64::from(self.config.channels());
        let head = of_channel + u64::from(at.address.channel);
        let lane = u64::from(at.address.column) * LANES + u64::from(at.lane);
        Ok((head < self.heads()).then_some((head, row % self.rows_of_head(), lane)))
    }

    /// Place of an element of a key: `512 / head_dim` keys to a row. Fails if there is no such element.
    pub fn key(&self, at: CacheElement) -> Result<HbmElement> {
        self.check(at)?;
        let (bank, of_bank) = (at.position % self.banks(), at.position / self.banks());
        let lane = of_bank % self.keys_per_row() * self.head_dim + at.element;
        Ok(self.place(at.head, bank, of_bank / self.keys_per_row(), lane))
    }

    /// Place of an element of a value: its row holds this element of 512 positions.
    pub fn value(&self, at: CacheElement) -> Result<HbmElement> {
        self.check(at)?;
        let (bank, of_bank) = (at.element % self.banks(), at.element / self.banks());
        let row = self.key_rows() + at.position / ROW_LANES * self.elements_per_bank() + of_bank;
        Ok(self.place(at.head, bank, row, at.position % ROW_LANES))
    }

    /// Inverse of [`KvMap::key`]: `None` if `at` holds no key, an error outside of the memory or below the first row.
    pub fn key_of(&self, at: HbmElement) -> Result<Option<CacheElement>> {
        let Some((head, row, lane)) = self.locate(at)? else { return Ok(None) };
        let of_bank = row * self.keys_per_row() + lane / self.head_dim;
        let position = of_bank * self.banks() + u64::from(at.address.bank);
        let found = CacheElement { head, position, element: lane % self.head_dim };
        Ok((row < self.key_rows() && position < self.positions).then_some(found))
    }

    /// Inverse of [`KvMap::value`]: `None` if `at` holds no value.
    pub fn value_of(&self, at: HbmElement) -> Result<Option<CacheElement>> {
        let Some((head, row, lane)) = self.locate(at)? else { return Ok(None) };
        let Some(row) = row.checked_sub(self.key_rows()) else { return Ok(None) };
        let per_bank = self.elements_per_bank();
        let position = row / per_bank * ROW_LANES + lane;
        let element = row % per_bank * self.banks() + u64::from(at.address.bank);
        let found = CacheElement { head, position, element };
        Ok((position < self.positions && element < self.head_dim).then_some(found))
    }
}
