//! Places in a frame, and the header of a flit (docs/dimm-link.md, "Frame").

use ndp_config::{BEAT_BITS, LinkConfig};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Idle,
    Data,
    Init,
    Answer,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    pub last: bool,
    pub dest: u8,
    pub source: u8,
    pub label: u32,
}

/// The last beat of a flit's payload, with its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag {
    pub beat: Beat,
    pub last_beat: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub kind: Kind,
    pub fault: bool,
    pub nack: bool,
    pub nack_round: u8,
    pub round: u8,
    pub sequence: u8,
    pub ack: u8,
    pub limit: u8,
    pub tag: Tag,
}

impl Tag {
    /// Contents of a memory that was never written: unknown, not zeros.
    pub const UNKNOWN: Self =
        Self { beat: Beat { last: true, dest: 15, source: 15, label: 0x1_FFFF }, last_beat: 7 };
}

impl Header {
    /// Whether a lane carries zeros in the header's fields.
    pub fn is_zero(&self, lane: usize) -> bool {
        let fields = [
            (self.kind as u128, 0),
            (self.fault.into(), 2),
            (self.nack.into(), 3),
            (self.nack_round.into(), 4),
            (self.round.into(), 8),
            (self.sequence.into(), 12),
            (self.ack.into(), 20),
            (self.limit.into(), 28),
            (self.tag.beat.dest.into(), 36),
            (self.tag.beat.source.into(), 40),
            (self.tag.last_beat.into(), 44),
            (self.tag.beat.last.into(), 47),
            (self.tag.beat.label.into(), 48),
        ];
        let bits = fields.into_iter().fold(0, |bits, (field, at): (u128, u32)| bits | field << at);
        let lane_bits = LinkConfig::LANE_BITS as usize;
        lane >= 5 || bits >> (lane_bits * lane) & ((1 << lane_bits) - 1) == 0
    }
}

/// Place of a word in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Mark,
    Word(u64),
}

/// Lengths of frame and flit, and which words carry only zeros.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub lanes: usize,
    /// Words of a flit.
    pub words: u64,
    /// Words of a frame.
    pub length: u64,
    /// For each word, a bit for each lane that carries zeros whatever the flit is, and for each lane that does in a
    /// flit without payload.
    zeros: Vec<[u8; 2]>,
}

impl Frame {
    pub fn new(config: &LinkConfig) -> Self {
        let word_bits = config.word_bits();
        let payload = LinkConfig::HEADER_BITS..LinkConfig::HEADER_BITS + config.payload_bits();
        let check = config.flit_bits() - LinkConfig::CRC_BITS;
        debug_assert!(payload.end <= check && payload.len() as u32 == config.flit_beats() * BEAT_BITS);
        let zeros = (0..config.flit_words()).map(|word| {
            let of_kind = |full: bool| {
                (0..config.lanes()).fold(0, |mask, lane| {
                    let first = word * word_bits + lane * LinkConfig::LANE_BITS;
                    let end = first + LinkConfig::LANE_BITS;
                    let used = end > check || full && first < payload.end && end > payload.start;
                    mask | u8::from(!used) << lane
                })
            };
            [of_kind(true), of_kind(false)]
        });
        Self {
            lanes: config.lanes() as usize,
            words: config.flit_words().into(),
            length: config.frame_words().into(),
            zeros: zeros.collect(),
        }
    }

    /// Place of the word that comes `since` words after a marker.
    #[inline]
    pub fn place(&self, since: u64) -> Place {
        match since % self.length {
            0 => Place::Mark,
            at => Place::Word((at - 1) % self.words),
        }
    }

    /// Whether a lane carries zeros in a word of a flit, not regarding the header's fields.
    pub fn is_zero(&self, word: u64, lane: usize, full: bool) -> bool {
        self.zeros[word as usize][usize::from(!full)] >> lane & 1 == 1
    }
}

/// Whether `to` lies ahead of `from` modulo 256: at a distance of less than 128.
#[inline]
pub(crate) fn is_ahead(from: u8, to: u8) -> bool {
    let distance = to.wrapping_sub(from);
    distance != 0 && distance < 128
}
