//! A placement as JSON: per block a line of text for the GPU and one for the DIMMs.

use crate::placement::Placement;
use ndp_config::BlockKind;
use ndp_files::{Result, bail, refusal};
use ndp_traces::NeuronShape;
use serde::{Deserialize, Serialize};

/// Characters of DIMMs 0 to 63.
const DIGITS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementFile {
    pub model: String,
    pub dimms: u32,
    /// In order of computation.
    blocks: Vec<BlockText>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockText {
    layer: u32,
    kind: String,
    /// A hexadecimal digit per four neurons, the first in its lowest bit.
    gpu: String,
    /// A digit to base 64 per neuron.
    dimms: String,
    /// As `gpu`: neurons that only the SSD has. Omitted if there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    ssd: String,
}

fn kind_name(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Attention => "attention",
        BlockKind::Mlp => "mlp",
    }
}

fn digit_of(character: u8) -> Option<u8> {
    DIGITS.iter().position(|&digit| digit == character).map(|digit| digit as u8)
}

impl PlacementFile {
    pub fn new(model: &str, dimms: u32, placement: &Placement) -> Self {
        let shape = placement.shape();
        let text = |(block, of): (usize, &ndp_traces::Block)| {
            let digits = |bits: &[u64]| -> String {
                let nibble = |i: usize| DIGITS[(bits[i / 16] >> (i % 16 * 4) & 15) as usize] as char;
                (0..of.neurons.div_ceil(4) as usize).map(nibble).collect()
            };
            let ssd = placement.ssd_bits(block);
            BlockText {
                layer: of.layer,
                kind: kind_name(of.kind).to_owned(),
                gpu: digits(placement.gpu_bits(block)),
                ssd: if ssd.iter().any(|word| *word != 0) { digits(ssd) } else { String::new() },
                dimms: placement.dimms(block).iter().map(|&d| DIGITS[usize::from(d % 64)] as char).collect(),
            }
        };
        let blocks = shape.blocks().iter().enumerate().map(text).collect();
        Self { model: model.to_owned(), dimms, blocks }
    }

    /// The placement for a shape and number of DIMMs; [`Placement::check`] checks memories. Fails, naming the block, if
    /// the text is not a placement, and for another number of blocks or DIMMs.
    pub fn placement(&self, shape: &NeuronShape, dimms: u32) -> Result<Placement> {
        let wrong = |what: &str, found, expected| refusal!("{what}: {found} instead of {expected}");
        if self.blocks.len() != shape.blocks().len() {
            let what = "blocks placed (two of each layer)";
            return Err(wrong(what, self.blocks.len() as u64, shape.blocks().len() as u64));
        }
        if self.dimms != dimms {
            return Err(wrong("DIMMs that neurons are placed on", self.dimms.into(), dimms.into()));
        }
        let mut placement = Placement::new(shape);
        for (block, (of, text)) in shape.blocks().iter().zip(&self.blocks).enumerate() {
            let wrong = |what: String| refusal!("not a placement: block {block}: {what}");
            if (text.layer, text.kind.as_str()) != (of.layer, kind_name(of.kind)) {
                let expected = format!("{} of layer {}", kind_name(of.kind), of.layer);
                let again = |other: &BlockText| (other.layer, &other.kind) == (text.layer, &text.kind);
                let twice =
                    if self.blocks[..block].iter().any(again) { ", which is there twice," } else { "" };
                return Err(wrong(format!(
                    "{} of layer {}{twice} instead of {expected}",
                    text.kind, text.layer
                )));
            }
            for (name, digits, expected) in [
                ("dimms", &text.dimms, of.neurons),
                ("gpu", &text.gpu, of.neurons.div_ceil(4)),
                ("ssd", &text.ssd, of.neurons.div_ceil(4)),
            ] {
                if digits.len() != expected as usize && (name != "ssd" || !digits.is_empty()) {
                    let found = digits.len();
                    let neurons = of.neurons;
                    return Err(wrong(format!(
                        "{name} has {found} digits instead of {expected} for {neurons} neurons"
                    )));
                }
            }
            for (dimm, character) in placement.dimms_mut(block).iter_mut().zip(text.dimms.bytes()) {
                let digit = digit_of(character).filter(|&digit| u32::from(digit) < self.dimms);
                *dimm = digit.ok_or_else(|| {
                    wrong(format!("'{}' is none of {} DIMMs", character.escape_ascii(), self.dimms))
                })?;
            }
            let read = |digits: &str, bits: &mut [u64]| {
                for (i, character) in digits.bytes().enumerate() {
                    let nibble = digit_of(character).filter(|&digit| digit < 16);
                    let nibble = nibble.ok_or_else(|| {
                        wrong(format!("'{}' is no hexadecimal digit", character.escape_ascii()))
                    })?;
                    bits[i / 16] |= u64::from(nibble) << (i % 16 * 4);
                }
                if of.neurons % 64 != 0 && bits[bits.len() - 1] >> (of.neurons % 64) != 0 {
                    bail!(
                        "the bits of block {block} go on behind its last neuron, number {}",
                        of.neurons - 1
                    );
                }
                Ok(())
            };
            read(&text.gpu, placement.gpu_bits_mut(block))?;
            read(&text.ssd, placement.ssd_bits_mut(block))?;
            if of.kind == BlockKind::Attention && placement.ssd_bits(block).iter().any(|word| *word != 0) {
                return Err(wrong("neurons of attention cannot be on an SSD".to_owned()));
            }
        }
        Ok(placement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Damage = (fn(&mut PlacementFile), &'static str);

    fn placement() -> Placement {
        let mut placement = Placement::new(&NeuronShape::new(2, 70, 33));
        for (block, neurons) in [(0, 70), (1, 33), (2, 70), (3, 33)] {
            for i in 0..neurons {
                placement.dimms_mut(block)[i] = ((i * 7 + block) % 40) as u8;
                placement.set_gpu(block, i, i % 3 == block % 3);
                placement.set_ssd(block, i, block == 3 && i % 5 == 1);
            }
        }
        placement
    }

    #[test]
    fn what_is_written_is_read_back() {
        let placement = placement();
        let file = PlacementFile::new("some", 40, &placement);
        let text = serde_json::to_string(&file).unwrap();
        let read: PlacementFile = serde_json::from_str(&text).unwrap();
        assert_eq!(read.placement(placement.shape(), 40).unwrap(), placement);
    }

    #[test]
    fn damaged_text_is_refused_with_its_block() {
        let good = PlacementFile::new("some", 40, &placement());
        let shape = NeuronShape::new(2, 70, 33);
        let damages: [Damage; 12] = [
            (|f| f.blocks[2].ssd.push_str("000000000000000001"), "block 2: neurons of attention cannot be"),
            (|f| f.blocks[3].ssd.push('0'), "block 3: ssd has 10 digits instead of 9 for 33 neurons"),
            (|f| f.blocks[3].ssd.replace_range(8..9, "2"), "block 3 go on behind its last neuron, number 32"),
            (|f| f.dimms = 39, "block 0: 'D' is none of 39 DIMMs"),
            (|f| f.blocks[1].dimms.replace_range(0..1, "!"), "block 1: '!'"),
            (|f| f.blocks[2].gpu.replace_range(3..4, "g"), "'g' is no hexadecimal digit"),
            (|f| f.blocks[3].gpu.push('0'), "block 3: gpu has 10 digits instead of 9 for 33 neurons"),
            (|f| f.blocks[2].dimms.truncate(69), "block 2: dimms has 69 digits instead of 70 for 70 neurons"),
            (|f| f.blocks[3].gpu.replace_range(8..9, "2"), "block 3 go on behind its last neuron, number 32"),
            (|f| f.blocks[1].layer = 1, "mlp of layer 1 instead of mlp of layer 0"),
            (
                |f| f.blocks[2] = f.blocks[0].clone(),
                "block 2: attention of layer 0, which is there twice, instead of attention of layer 1",
            ),
            (|f| f.blocks.truncate(3), "3 instead of 4"),
        ];
        for (damage, expected) in damages {
            let mut file = good.clone();
            damage(&mut file);
            let error = file.placement(&shape, file.dimms).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = good.placement(&shape, 41).unwrap_err().to_string();
        assert_eq!(error, "DIMMs that neurons are placed on: 40 instead of 41");
        let text = serde_json::to_string(&good).unwrap();
        for (from, to, expected) in [
            ("\"dimms\":40", "\"dimms\":40,\"dimms\":40", "duplicate field `dimms`"),
            ("\"dimms\":40", "\"dimms\":40,\"cpu\":1", "unknown field `cpu`"),
            ("\"dimms\":40,", "", "missing field `dimms`"),
        ] {
            let error = serde_json::from_str::<PlacementFile>(&text.replacen(from, to, 1)).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
