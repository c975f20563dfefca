//! Checks the lengths in an FST file, which the reader trusts: a damaged one could make it allocate all memory or never
//! end. Each block has to lie within the file, and its size fields have to be possible for its bytes.

/// Most bytes that a byte of zlib, of LZ4, and of LZ4 in LZ4 can stand for.
const ZLIB: u64 = 1032;
const LZ4: u64 = 255;
const LZ4_TWICE: u64 = LZ4 * LZ4;

struct Block<'a> {
    kind: u8,
    start: usize,
    body: &'a [u8],
}

impl Block<'_> {
    fn damaged(&self, what: &str) -> String {
        format!("damaged: {what} of the block at byte {} is impossible", self.start)
    }

    fn word(&self, at: usize) -> Result<u64, String> {
        let bytes = at.checked_add(8).and_then(|end| self.body.get(at..end)?.try_into().ok());
        bytes.map(u64::from_be_bytes).ok_or_else(|| self.damaged("the length"))
    }

    /// LEB128 at `at`, which is moved past it.
    fn varint(&self, at: &mut usize) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = *self.body.get(*at).ok_or_else(|| self.damaged("a number"))?;
            *at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.damaged("a number"))
    }

    fn check(&self, holds: bool, what: &str) -> Result<(), String> {
        if holds { Ok(()) } else { Err(self.damaged(what)) }
    }

    /// Whether `packed` bytes fit in the block and can be `unpacked` bytes.
    fn check_packed(&self, packed: u64, unpacked: u64, most: u64) -> Result<(), String> {
        self.check(packed <= self.body.len() as u64, "the packed length")?;
        self.check(unpacked <= packed.saturating_mul(most), "the unpacked length")
    }
}

/// # Errors
/// The first impossible block, in words.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    let (mut at, mut geometry, mut counts) = (0, None, Vec::new());
    while at < bytes.len() {
        let length = bytes.get(at + 1..at + 9).and_then(|word| word.try_into().ok()).map(u64::from_be_bytes);
        let body = length
            .filter(|length| *length >= 8)
            .and_then(|length| bytes.get(at + 1..(at + 1).checked_add(usize::try_from(length).ok()?)?));
        let Some(body) = body else {
            return Err(format!("damaged or not complete: no block of the length that is said at byte {at}"));
        };
        let block = Block { kind: bytes[at], start: at, body };
        let own = body.len() as u64;
        match block.kind {
            254 => return Err("packed as a whole; unpack it, for example with fst2vcd".to_owned()),
            3 => {
                let (unpacked, signals) = (block.word(8)?, block.word(16)?);
                block.check_packed(own.saturating_sub(24), unpacked, ZLIB)?;
                block.check(signals <= unpacked, "the number of signals")?;
                geometry = Some(signals);
            }
            kind @ (4 | 6 | 7) => {
                let unpacked = block.word(8)?;
                let most = [ZLIB, LZ4, LZ4_TWICE][usize::from(kind).saturating_sub(5)];
                block.check_packed(own.saturating_sub(16), unpacked, most)?;
            }
            2 => block.check(block.varint(&mut 8)? <= own, "the number of pauses")?,
            1 | 5 | 8 => {
                let times = body.len().checked_sub(24).ok_or_else(|| block.damaged("the length"))?;
                let [unpacked, packed, items] = [0, 8, 16].map(|word| block.word(times + word));
                let packed = packed?;
                block.check_packed(packed, unpacked.clone()?, ZLIB)?;
                // The length of the table of values precedes the times.
                let table =
                    usize::try_from(packed).ok().and_then(|packed| times.checked_sub(packed)?.checked_sub(8));
                let table = table.ok_or_else(|| block.damaged("the packed length"))?;
                block.check(block.word(table)? <= table as u64, "the length of the table")?;
                block.check(items? <= unpacked?, "the number of times")?;
                let mut place = 32;
                let [unpacked, packed, signals] = [(); 3].map(|()| block.varint(&mut place));
                let packed = packed?;
                block.check_packed(packed, unpacked?, ZLIB)?;
                counts.push((at, signals?));
                // The packed length counts bytes in the file.
                place = place.saturating_add(usize::try_from(packed).unwrap_or(usize::MAX));
                counts.push((at, block.varint(&mut place)?));
            }
            _ => {}
        }
        at += 1 + body.len();
    }
    let most = geometry.unwrap_or(bytes.len() as u64);
    match counts.into_iter().find(|(_, count)| *count > most) {
        Some((start, _)) => {
            Err(format!("damaged: the number of signals of the block at byte {start} is impossible"))
        }
        None => Ok(()),
    }
}
