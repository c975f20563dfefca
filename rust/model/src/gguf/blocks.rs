//! Types of tensors in a GGUF file, and their blocks as FP32 numbers.
//!
//! Scales are FP16 numbers and quants have up to 8 bits, so each product is exact in FP32. Types with a minimum add it
//! in FP32, which rounds once.

use ndp_config::WeightFormat;
use ndp_files::{Result, bail};
use ndp_numerics::f16;

/// A type whose tensors can be read.
#[derive(Debug)]
pub(super) struct Kind {
    id: u32,
    pub(super) name: &'static str,
    /// Elements of a block.
    pub(super) elements: u64,
    /// Bytes of a block.
    pub(super) bytes: u64,
    /// Reads a block's bytes into its elements.
    read: fn(&[u8], &mut [f32]),
}

const KINDS: [Kind; 11] = [
    Kind { id: 0, name: "F32", elements: 1, bytes: 4, read: |b, y| y[0] = f32::from_le_bytes(start(b)) },
    Kind { id: F16, name: "F16", elements: 1, bytes: 2, read: |b, y| y[0] = half(b, 0) },
    Kind { id: 30, name: "BF16", elements: 1, bytes: 2, read: bfloat },
    Kind { id: 8, name: "Q8_0", elements: 32, bytes: 34, read: q8_0 },
    Kind { id: 2, name: "Q4_0", elements: 32, bytes: 18, read: q4_0 },
    Kind { id: 3, name: "Q4_1", elements: 32, bytes: 20, read: q4_1 },
    Kind { id: 6, name: "Q5_0", elements: 32, bytes: 22, read: q5_0 },
    Kind { id: 7, name: "Q5_1", elements: 32, bytes: 24, read: q5_1 },
    Kind { id: 12, name: "Q4_K", elements: 256, bytes: 144, read: q4_k },
    Kind { id: 13, name: "Q5_K", elements: 256, bytes: 176, read: q5_k },
    Kind { id: 14, name: "Q6_K", elements: 256, bytes: 210, read: q6_k },
];

const F16: u32 = 1;

/// Names of other types, for messages.
const OTHERS: [(u32, &str); 22] = [
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
];

/// The type with this number.
pub(super) fn kind(id: u32) -> Result<&'static Kind> {
    const ALL: &[Kind] = &KINDS;
    if let Some(kind) = ALL.iter().find(|kind| kind.id == id) {
        return Ok(kind);
    }
    let name = OTHERS.iter().find(|(other, _)| *other == id).map_or("an unknown type", |(_, name)| name);
    bail!("type = {id} ({name}), expected {}", KINDS.map(|kind| kind.name).join(", "))
}

impl Kind {
    pub(super) fn is_half(&self) -> bool {
        self.id == F16
    }

    /// The format in DRAM that has the same numbers, with a scale for as many: all blocks of it begin with an FP16 scale.
    pub(super) fn format(&self) -> Option<WeightFormat> {
        match self.name {
            "Q8_0" => Some(WeightFormat::Int8),
            "Q4_0" => Some(WeightFormat::Int4),
            _ => None,
        }
    }

    /// Scales of blocks that have a [`Self::format`].
    pub(super) fn scales(&self, bytes: &[u8]) -> Vec<f16> {
        let blocks = bytes.chunks_exact(self.bytes as usize);
        blocks.map(|block| f16::from_bits(u16::from_le_bytes(start(block)))).collect()
    }

    /// Calls `take` with each element of whole blocks, in order.
    pub(super) fn read(&self, bytes: &[u8], mut take: impl FnMut(f32)) {
        let mut elements = [0.0; 256];
        let elements = &mut elements[..self.elements as usize];
        for block in bytes.chunks_exact(self.bytes as usize) {
            (self.read)(block, elements);
            elements.iter().copied().for_each(&mut take);
        }
    }
}

fn start<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

/// The FP16 number at a byte.
fn half(bytes: &[u8], at: usize) -> f32 {
    f16::from_bits(u16::from_le_bytes(start(&bytes[at..]))).to_f32()
}

fn bfloat(b: &[u8], y: &mut [f32]) {
    y[0] = f32::from_bits(u32::from(u16::from_le_bytes(start(b))) << 16);
}

fn q8_0(b: &[u8], y: &mut [f32]) {
    let d = half(b, 0);
    for (y, q) in y.iter_mut().zip(&b[2..]) {
        *y = f32::from(q.cast_signed()) * d;
    }
}

/// Quants of a block of 32: the low halves of 16 bytes, then their high halves. `high` has a fifth bit for each.
fn quants(nibbles: &[u8], high: u32) -> impl Iterator<Item = f32> {
    (0..32).map(move |i| {
        let nibble = nibbles[i % 16] >> (i / 16 * 4) & 0xF;
        f32::from(nibble | ((high >> i & 1) as u8) << 4)
    })
}

fn q4_0(b: &[u8], y: &mut [f32]) {
    let d = half(b, 0);
    y.iter_mut().zip(quants(&b[2..], 0)).for_each(|(y, q)| *y = (q - 8.0) * d);
}

fn q4_1(b: &[u8], y: &mut [f32]) {
    let (d, m) = (half(b, 0), half(b, 2));
    y.iter_mut().zip(quants(&b[4..], 0)).for_each(|(y, q)| *y = q * d + m);
}

fn q5_0(b: &[u8], y: &mut [f32]) {
    let (d, high) = (half(b, 0), u32::from_le_bytes(start(&b[2..])));
    y.iter_mut().zip(quants(&b[6..], high)).for_each(|(y, q)| *y = (q - 16.0) * d);
}

fn q5_1(b: &[u8], y: &mut [f32]) {
    let (d, m, high) = (half(b, 0), half(b, 2), u32::from_le_bytes(start(&b[4..])));
    y.iter_mut().zip(quants(&b[8..], high)).for_each(|(y, q)| *y = q * d + m);
}

/// Scale and minimum of sub-block `i` of 8, six bits each. The first four of both are the low bits of bytes 0 to 7. The
/// others have four bits in bytes 8 to 11, and two in the high bits of bytes 0 to 7.
fn scale_and_minimum(s: &[u8], i: usize) -> (f32, f32) {
    let (scale, minimum) = match i {
        0..4 => (s[i] & 0x3F, s[i + 4] & 0x3F),
        _ => (s[i + 4] & 0xF | s[i - 4] >> 6 << 4, s[i + 4] >> 4 | s[i] >> 6 << 4),
    };
    (scale.into(), minimum.into())
}

/// Super-block of 8 sub-blocks with 32 elements: two scales, the sub-blocks' scales and minima, fifth bits if `high`
/// is not empty, and four bits of each element. Sub-blocks `2 k` and `2 k + 1` share 32 bytes.
fn k_quants(b: &[u8], high: &[u8], low: &[u8], y: &mut [f32]) {
    let (d, minimum) = (half(b, 0), half(b, 2));
    for (i, y) in y.chunks_exact_mut(32).enumerate() {
        let (scale, own_minimum) = scale_and_minimum(&b[4..16], i);
        let (scale, least) = (d * scale, minimum * own_minimum);
        for (j, y) in y.iter_mut().enumerate() {
            let fifth = high.get(j).map_or(0, |bits| bits >> i & 1);
            let q = low[i / 2 * 32 + j] >> (i % 2 * 4) & 0xF | fifth << 4;
            *y = scale * f32::from(q) - least;
        }
    }
}

fn q4_k(b: &[u8], y: &mut [f32]) {
    k_quants(b, &[], &b[16..], y);
}

fn q5_k(b: &[u8], y: &mut [f32]) {
    k_quants(b, &b[16..48], &b[48..], y);
}

/// Two halves of 128 elements with 64 bytes of low bits, 32 of high bits and 8 scales each. In a half, element
/// `32 k + j` has its low bits in byte `j + 32 (k % 2)` and its two high bits in byte `j`.
fn q6_k(b: &[u8], y: &mut [f32]) {
    let d = half(b, 208);
    for (n, y) in y.chunks_exact_mut(128).enumerate() {
        let (low, high, scales) = (&b[64 * n..], &b[128 + 32 * n..], &b[192 + 8 * n..]);
        for (i, y) in y.iter_mut().enumerate() {
            let (k, j) = (i / 32, i % 32);
            let q = low[j + k % 2 * 32] >> (k / 2 * 4) & 0xF | (high[j] >> (2 * k) & 3) << 4;
            *y = d * f32::from(scales[i / 16].cast_signed()) * (f32::from(q) - 32.0);
        }
    }
}
