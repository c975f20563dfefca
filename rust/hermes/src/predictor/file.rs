//! The correlation table as a file.
//!
//! Little-endian: the magic `NDPTABL1`; layers, neurons of an attention block and of an MLP block, `u32` each; for each
//! block and neuron two `u32`, its parents, `0xffff_ffff` for none; the 64-bit FNV-1a hash of all that.

use crate::predictor::lightweight::describe;
use crate::predictor::table::LayerTable;
use ndp_config::BlockKind;
use ndp_files::{Context, OutputFile, Result, bail, read_bytes, refusal};
use ndp_traces::NeuronShape;
use std::path::Path;

const MAGIC: &[u8; 8] = b"NDPTABL1";
const HEADER_BYTES: usize = MAGIC.len() + 3 * 4;
const HASH_BYTES: usize = 8;
/// Most layers, and neurons of a block; keeps sizes from overflowing.
const LIMIT: u32 = 1 << 20;

/// Longest file: parents of 2^27 neurons.
const MAX_BYTES: u64 = 1 << 30;

/// 64-bit FNV-1a: any changed byte changes it.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word))
}

impl LayerTable {
    /// Writes the table; the file appears complete or not at all. Fails if layers differ in shape.
    pub fn save(&self, path: &Path) -> Result<()> {
        let shape = self.shape();
        let layers = shape.blocks().last().map_or(0, |block| block.layer + 1);
        let neurons = |kind| shape.blocks().iter().find(|b| b.kind == kind).map_or(0, |b| b.neurons);
        let sizes = [layers, neurons(BlockKind::Attention), neurons(BlockKind::Mlp)];
        let regular = NeuronShape::new(sizes[0], sizes[1], sizes[2]);
        if regular != *shape {
            let (found, expected) = (describe(shape), describe(&regular));
            bail!("a table to be saved is for another shape: {found}, expected {expected}");
        }
        let mut bytes = MAGIC.to_vec();
        sizes.iter().for_each(|size| bytes.extend(size.to_le_bytes()));
        for block in 0..shape.blocks().len() {
            bytes.extend(self.raw(block).as_flattened().iter().flat_map(|parent| parent.to_le_bytes()));
        }
        bytes.extend(hash(&bytes).to_le_bytes());
        OutputFile::create(path).and_then(|file| file.finish(|out| out.write_all(&bytes)))
    }

    /// Fails for files that are damaged or hold no table, and for parents that do not exist or are equal.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = read_bytes(path, MAX_BYTES).with_context(|| path.display().to_string())?;
        let wrong = |reason: String| refusal!("{}: {reason}", path.display());
        if bytes.len() < HEADER_BYTES + HASH_BYTES || !bytes.starts_with(MAGIC) {
            return Err(wrong(format!(
                "no correlation table: {} bytes, magic NDPTABL1 expected",
                bytes.len()
            )));
        }
        let sizes: Vec<u32> = words(&bytes[MAGIC.len()..HEADER_BYTES]).collect();
        for (what, &size) in ["layers", "attention neurons", "MLP neurons"].iter().zip(&sizes) {
            if size > LIMIT {
                return Err(wrong(format!("{what} = {size} must be at most {LIMIT}")));
            }
        }
        let neurons = u64::from(sizes[0]) * (u64::from(sizes[1]) + u64::from(sizes[2]));
        let expected = (HEADER_BYTES + HASH_BYTES) as u64 + 8 * neurons;
        if bytes.len() as u64 != expected {
            return Err(wrong(format!("{} bytes, expected {expected} for {neurons} neurons", bytes.len())));
        }
        let (content, stored) = bytes.split_at(bytes.len() - HASH_BYTES);
        let stored = stored.iter().rev().fold(0, |hash, &byte| hash << 8 | u64::from(byte));
        let found = hash(content);
        if found != stored {
            return Err(wrong(format!("damaged: its hash is {found:#018x}, {stored:#018x} is stored")));
        }
        let shape = NeuronShape::new(sizes[0], sizes[1], sizes[2]);
        let mut all = words(&content[HEADER_BYTES..]);
        let mut pair = || Some([all.next()?, all.next()?]);
        let parents = shape.blocks().iter().map(|block| (0..block.neurons).map_while(|_| pair()).collect());
        let parents = parents.collect();
        Self::from_raw(&shape, parents)
    }
}
