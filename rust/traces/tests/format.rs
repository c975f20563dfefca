//! The trace format from outside: a written trace can be read, and every other file is refused.

use ndp_config::LlmShape;
use ndp_files::said;
use ndp_numerics::SplitMix64;
use ndp_traces::{Activity, Phase, TokenInfo, TraceFileWriter, TraceHeader, TraceReader, TraceWriter};

fn model() -> LlmShape {
    LlmShape::opt_like("tiny", 2, 70, 2, 130, 256).unwrap()
}

/// Two sequences with 2 + 3 and 0 + 1 tokens: dense, sparse, equal and empty ones.
fn tokens() -> Vec<(TokenInfo, Activity)> {
    let shape = TraceHeader::new(&model(), 0, 0).shape();
    let mut rng = SplitMix64::new(5);
    let mut activity = |density: u64| {
        let mut activity = Activity::new(&shape);
        for (index, block) in shape.blocks().iter().enumerate() {
            for neuron in 0..block.neurons as usize {
                let bit = u64::from(rng.next_u64() % 100 < density);
                activity.block_mut(&shape, index)[neuron / 64] |= bit << (neuron % 64);
            }
        }
        activity
    };
    let mut all = vec![activity(50), activity(50), activity(3)];
    all.extend([all[2].clone(), activity(0), activity(100)]);
    let infos = (0..5).map(|position| TokenInfo::at(position, 2)).chain([TokenInfo::at(0, 0)]);
    infos.zip(all).collect()
}

fn header() -> TraceHeader {
    TraceHeader { sequences: 2, seed: 9, source: "a test".into(), ..TraceHeader::new(&model(), 6, 2) }
}

fn bytes() -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), header()).unwrap();
    tokens().iter().for_each(|(info, activity)| writer.write(*info, activity).unwrap());
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> ndp_files::Result<Vec<(TokenInfo, Activity)>> {
    let mut reader = TraceReader::new(bytes)?;
    let mut activity = Activity::default();
    let mut all = Vec::new();
    while let Some(info) = reader.read_into(&mut activity)? {
        all.push((info, activity.clone()));
    }
    Ok(all)
}

#[test]
fn what_is_written_is_read() {
    let bytes = bytes();
    assert_eq!(read(&bytes).unwrap(), tokens());
    let reader = TraceReader::new(&bytes[..]).unwrap();
    assert_eq!(reader.header(), &header());
    let all: Vec<_> = reader.map(Result::unwrap).collect();
    assert_eq!(all, tokens().into_iter().map(|(_, activity)| activity).collect::<Vec<_>>());
}

#[test]
fn a_trace_without_tokens_is_a_trace() {
    let bytes = TraceWriter::new(Vec::new(), TraceHeader::new(&model(), 0, 0)).unwrap().finish().unwrap();
    assert!(read(&bytes).unwrap().is_empty());
}

#[test]
fn a_trace_cut_off_anywhere_is_refused_and_says_where() {
    let bytes = bytes();
    let mut places = Vec::new();
    for length in 0..bytes.len() {
        let text = said(&read(&bytes[..length]));
        let at = text.strip_prefix("the trace is truncated ");
        places.push(at.unwrap_or_else(|| panic!("{length} bytes: {text}")).to_owned());
    }
    places.dedup();
    let at_tokens = (0..6).map(|token| format!("at token {token}"));
    let expected: Vec<_> = ["in its header".to_owned()]
        .into_iter()
        .chain(at_tokens)
        .chain(["at its end record".to_owned()])
        .collect();
    assert_eq!(places, expected);
}

#[test]
fn every_flipped_bit_is_seen() {
    let bytes = bytes();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&damaged).is_err(), "bit {bit}");
    }
}

#[test]
fn a_flipped_bit_names_its_token() {
    let bytes = bytes();
    // Before its checksum and the end record of 16 bytes.
    let mut damaged = bytes.clone();
    damaged[bytes.len() - 16 - 4 - 1] ^= 1;
    let error = read(&damaged).unwrap_err();
    assert!(error.to_string().contains("damaged at token 5: CRC-32"), "{error}");
}

#[test]
fn records_that_change_places_are_seen() {
    let shape = TraceHeader::new(&model(), 0, 0).shape();
    let mut writer = TraceWriter::new(Vec::new(), TraceHeader::new(&model(), 3, 0)).unwrap();
    let mut activity = Activity::new(&shape);
    let empty_length = 4 + 1 + 4 + 4; // length, flags, four blocks, checksum
    for position in 0..3 {
        writer.write(TokenInfo::at(position, 0), &activity).unwrap();
        activity.words_mut()[0] = 0;
    }
    let mut bytes = writer.finish().unwrap();
    let end = bytes.len() - 16;
    let (second, third) = bytes[end - 2 * empty_length..end].split_at(empty_length);
    // Equal contents, yet each checksum belongs to its place.
    assert_eq!(second[..9], third[..9]);
    assert_ne!(second, third);
    let swapped = [third, second].concat();
    bytes[end - 2 * empty_length..end].copy_from_slice(&swapped);
    assert!(said(&read(&bytes)).contains("damaged at token 1: CRC-32"));
}

#[test]
fn bytes_behind_the_end_are_refused() {
    let mut bytes = bytes();
    bytes.push(0);
    assert!(said(&read(&bytes)).contains("unexpected data after"));
}

#[test]
fn other_files_and_versions_are_refused() {
    let error = read(b"PK\x03\x04 a zip file, say").unwrap_err();
    assert!(error.to_string().starts_with("not an activation trace"), "{error}");
    let mut bytes = bytes();
    bytes[8] = 2;
    assert_eq!(said(&read(&bytes)), "trace format version 2 is not supported, only version 1");
}

/// A header's bytes with the number at `offset` of the body replaced, and the right checksum.
fn with_number(offset: usize, number: &[u8]) -> Vec<u8> {
    let bytes = TraceWriter::new(Vec::new(), header()).unwrap().finish();
    assert!(bytes.is_err(), "six tokens are missing");
    let mut out = Vec::new();
    let _ = TraceWriter::new(&mut out, header()).unwrap();
    let end = out.len() - 4;
    out[16 + offset..16 + offset + number.len()].copy_from_slice(number);
    let crc = crc32fast::hash(&out[..end]);
    out[end..].copy_from_slice(&crc.to_le_bytes());
    out
}

#[test]
fn impossible_sizes_are_refused_before_anything_is_allocated() {
    let huge = u32::MAX.to_le_bytes();
    for (offset, name) in [(0, "layers"), (4, "attention neurons"), (8, "MLP neurons")] {
        let error = TraceReader::new(&with_number(offset, &huge)[..]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name} = 4294967295")), "{error}");
    }
    // Each is possible, but together they are too many.
    let both = [4096u32.to_le_bytes(), (1u32 << 20).to_le_bytes(), 0u32.to_le_bytes()].concat();
    let error = TraceReader::new(&with_number(0, &both)[..]).unwrap_err().to_string();
    assert!(error.starts_with("neurons = 4294967296 "), "{error}");
    let error = TraceReader::new(&with_number(0, &[0; 4])[..]).unwrap_err().to_string();
    assert!(error.starts_with("layers = 0 "), "{error}");
    let error = TraceReader::new(&with_number(12, &[0xFF; 8])[..]).unwrap_err().to_string();
    assert!(error.starts_with("tokens = 18446744073709551615"), "{error}");
    assert!(said(&TraceReader::new(&with_number(44, &[200])[..])).contains("header is malformed"));
    let mut bytes = bytes();
    bytes[12..16].copy_from_slice(&huge);
    assert!(said(&TraceReader::new(&bytes[..])).contains("bytes of the header = "));
}

#[test]
fn a_model_s_name_has_no_control_characters() {
    let header = TraceHeader { model: "a\u{1b}[2J\nb".into(), ..header() };
    let error = header.validate().unwrap_err();
    assert_eq!(error.to_string(), r"the model's name 'a\u001b[2J\nb' must have no control characters");
    assert!(TraceHeader { model: "facebook/opt-1.3b".into(), ..header }.validate().is_ok());
}

#[test]
fn bits_behind_the_last_neuron_are_refused_in_both_directions() {
    let mut writer = TraceWriter::new(Vec::new(), TraceHeader::new(&model(), 1, 0)).unwrap();
    let mut activity = Activity::new(writer.shape());
    activity.words_mut()[1] = 1 << 6; // neuron 70 of 70
    let error = writer.write(TokenInfo::at(0, 0), &activity).unwrap_err();
    let beyond = |block, neuron, neurons| {
        format!("token 0, block {block}: neuron {neuron} does not exist, the block has {neurons}")
    };
    assert_eq!(error.to_string(), beyond(0, 70, 70));

    let record = |payload: &[u8]| {
        let mut out = Vec::new();
        let _ = TraceWriter::new(&mut out, TraceHeader::new(&model(), 1, 0)).unwrap();
        let chain = out[out.len() - 4..].to_vec();
        let length = (payload.len() as u32).to_le_bytes();
        out.extend([&length[..], payload].concat());
        out.extend(crc32fast::hash(&[&chain[..], &length, payload].concat()).to_le_bytes());
        TraceReader::new(&out[..]).unwrap().next().unwrap().unwrap_err()
    };
    let raw = [&[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 1, 1][..]].concat();
    assert_eq!(record(&raw).to_string(), beyond(0, 70, 70));
    assert_eq!(record(&[3, 1, 2, 130, 1, 1, 1]).to_string(), beyond(1, 130, 130));
    // Too many bytes, too few, a number that does not end, unknown flags.
    for payload in
        [&[3, 1, 1, 1, 1, 1][..], &[3, 1, 1, 1], &[], &[3, 255, 255, 255, 255, 255, 1], &[7, 1, 1, 1, 1]]
    {
        let error = record(payload);
        assert!(error.to_string().starts_with("token 0 is malformed"), "{payload:?}: {error}");
    }
    // The first token of a trace has to begin a sequence.
    assert!(record(&[2, 1, 1, 1, 1]).to_string().starts_with("token 0 is malformed"));
}

#[test]
fn a_writer_keeps_to_its_header() {
    let count = |result: ndp_files::Result<_>| said(&result).contains(": the header says ");
    let empty = Activity::new(&header().shape());
    let writer = || TraceWriter::new(Vec::new(), TraceHeader::new(&model(), 1, 1)).unwrap();
    assert!(count(writer().finish().map(drop)));
    let mut one = writer();
    one.write(TokenInfo::at(0, 1), &empty).unwrap();
    assert!(count(one.write(TokenInfo::at(1, 2), &empty)));
    let mut generated = writer();
    generated.write(TokenInfo::at(0, 0), &empty).unwrap();
    assert!(count(generated.finish().map(drop)));
    let mut other = writer();
    assert!(said(&other.write(TokenInfo::at(0, 1), &Activity::default())).contains(", the trace's shape "));
    let mut late = TraceWriter::new(Vec::new(), TraceHeader::new(&model(), 2, 1)).unwrap();
    late.write(TokenInfo::at(0, 0), &empty).unwrap();
    let prompt = TokenInfo { first: false, phase: Phase::Prompt };
    assert!(said(&late.write(prompt, &empty)).starts_with("token 1 is malformed"));
}

#[test]
fn a_file_has_its_name_only_when_it_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.trace");
    let mut writer = TraceFileWriter::create(&path, header()).unwrap();
    for (info, activity) in tokens() {
        assert!(!path.exists());
        writer.write(info, &activity).unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes());
    // An aborted one leaves the old file and nothing else.
    let unfinished = TraceFileWriter::create(&path, header()).unwrap();
    assert!(unfinished.finish().unwrap_err().to_string().contains("a.trace"));
    assert_eq!(std::fs::read(&path).unwrap(), bytes());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    assert!(TraceFileWriter::create(directory.path(), header()).is_err());
    assert!(TraceReader::open(&directory.path().join("none")).unwrap_err().to_string().contains("none"));
}

#[test]
fn attention_that_was_not_recorded_can_be_read_as_dense() {
    let model = model();
    let header = TraceHeader { attention: 0, ..header() };
    let (stored, whole) = (header.shape(), TraceHeader::new(&model, 0, 0).shape());
    let mut writer = TraceWriter::new(Vec::new(), header).unwrap();
    for (info, activity) in tokens() {
        let mut own = Activity::new(&stored);
        for layer in 0..2 {
            own.block_mut(&stored, layer).copy_from_slice(activity.block(&whole, 2 * layer + 1));
        }
        writer.write(info, &own).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let mut reader = TraceReader::new(&bytes[..]).unwrap().with_dense_attention(70);
    assert_eq!(reader.shape(), &whole);
    for (info, activity) in tokens() {
        let (found_info, found) = reader.read().unwrap().unwrap();
        assert_eq!(found_info, info);
        for layer in 0..2 {
            assert_eq!(found.block(&whole, 2 * layer), [u64::MAX, (1 << 6) - 1]);
            assert_eq!(found.block(&whole, 2 * layer + 1), activity.block(&whole, 2 * layer + 1));
        }
    }
    assert!(reader.read().unwrap().is_none());
    let bytes = self::bytes();
    let reader = TraceReader::new(&bytes[..]).unwrap().with_dense_attention(70);
    assert!(reader.map(Result::unwrap).eq(tokens().into_iter().map(|(_, activity)| activity)));
}
