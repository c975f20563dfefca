//! A trace from the Python writer (`rust/traces/python/test_capture.py --write`) is valid and has the intended bits.

use ndp_traces::{Activity, TraceReader, TraceWriter};

const DENSITY: [u64; 6] = [50, 50, 10, 10, 0, 100];

#[test]
fn a_trace_from_python_is_read_and_written_bit_by_bit() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/python.trace");
    let bytes = std::fs::read(path).unwrap();
    let mut reader = TraceReader::new(&bytes[..]).unwrap();
    let header = reader.header().clone();
    assert_eq!((header.model.as_str(), header.seed, header.sequences), ("python", 7, 2));
    let shape = header.shape();
    let mut writer = TraceWriter::new(Vec::new(), header).unwrap();
    let mut activity = Activity::default();
    for (token, density) in (0..).zip(DENSITY) {
        let info = reader.read_into(&mut activity).unwrap().unwrap();
        assert_eq!(info, ndp_traces::TokenInfo::at(token % 3, 2));
        for (index, block) in shape.blocks().iter().enumerate() {
            for neuron in 0..u64::from(block.neurons) {
                let mixed = neuron * 7919 + index as u64 * 104_729 + token / 2 * 1_299_709;
                let expected = (mixed.wrapping_mul(2_654_435_761) >> 16) % 100 < density;
                let bit = activity.block(&shape, index)[neuron as usize / 64] >> (neuron % 64) & 1;
                assert_eq!(bit != 0, expected, "token {token}, block {index}, neuron {neuron}");
            }
        }
        writer.write(info, &activity).unwrap();
    }
    assert!(reader.next().is_none());
    assert_eq!(writer.finish().unwrap(), bytes);
}
