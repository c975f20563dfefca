//! Low-rank predictors: the bits of the exact numerics, as `golden/predictor.py` computes them, and files that are
//! refused.

use ndp_files::Result;
use ndp_hermes::predictor::{ActivityPredictor, Exact, LowRank, LowRankLayer};
use ndp_model::{AttentionOp, Decoder, GemvBackend, GemvClass, GemvOp, LinearOp, Model, SoftwareBackend};
use ndp_numerics::{SplitMix64, add, dot, f16};
use ndp_traces::NeuronShape;
use ndp_traces::capture::shape_of;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn golden(model: &str, file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden").join(model).join(file)
}

/// Software that records predictions for each input of FC1.
struct Watched {
    predictor: LowRank,
    layer: usize,
    hash: u64,
    bits: usize,
}

impl GemvBackend for Watched {
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>> {
        let result = SoftwareBackend::new().gemv(op)?;
        Ok(result)
    }

    fn linear(&mut self, op: &LinearOp<'_>) -> Result<Vec<f16>> {
        let product = op.product();
        if product.class() == GemvClass::Fc1 {
            for word in self.predictor.predict(self.layer, product.activations())? {
                self.bits += word.count_ones() as usize;
                for byte in word.to_le_bytes() {
                    self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
                }
            }
            self.layer = (self.layer + 1) % self.predictor.layers().len();
        }
        let result = SoftwareBackend::new().linear(op)?;
        Ok(result)
    }

    fn attend(&mut self, op: &AttentionOp<'_>) -> Result<Vec<f16>> {
        let result = SoftwareBackend::new().attend(op)?;
        Ok(result)
    }
}

#[test]
fn bits_are_those_of_the_reference_in_python() {
    for name in ["model", "model-llama"] {
        let json: Value =
            serde_json::from_slice(&std::fs::read(golden(name, "predictor.json")).unwrap()).unwrap();
        let model = Model::load(&golden(name, "")).unwrap();
        let shape = shape_of(&model.config);
        let predictor = LowRank::load(&golden(name, "predictor.safetensors"), &shape).unwrap();
        for (layer, stored) in predictor.layers().iter().zip(json["layers"].as_array().unwrap()) {
            assert_eq!(layer.rank() as u64, stored["rank"].as_u64().unwrap());
            assert_eq!(layer.bytes(), stored["predictor_bytes"].as_u64().unwrap());
        }
        let tokens = json["digest_tokens"].as_array().unwrap();
        let mut decoder = Decoder::new(&model);
        let mut watched = Watched { predictor, layer: 0, hash: 0xcbf2_9ce4_8422_2325, bits: 0 };
        for token in tokens {
            decoder.step(&mut watched, token.as_u64().unwrap() as u32).unwrap();
        }
        assert!(tokens.len() == 32 && watched.bits > 10_000, "{name}: {} bits", watched.bits);
        assert_eq!(format!("{:016x}", watched.hash), json["predicted_fnv1a64"], "{name}");
    }
}

fn numbers(random: &mut SplitMix64, count: usize) -> Vec<f16> {
    let number = |_| {
        f16::from_bits((random.next_u64() as u16 & 0x83FF) | 0x3000 | (random.next_u64() as u16 & 0x0C00))
    };
    (0..count).map(number).collect()
}

#[test]
fn a_neuron_is_predicted_if_its_score_is_above_zero() {
    let mut random = SplitMix64::new(1);
    let (width, neurons, rank) = (19, 131, 5);
    let [a, b, bias] = [rank * width, neurons * rank, neurons].map(|count| numbers(&mut random, count));
    let layer = LowRankLayer::new(width, neurons, a.clone(), b.clone(), bias.clone()).unwrap();
    let shape = NeuronShape::new(1, width as u32, neurons as u32);
    let mut predictor = LowRank::new(&shape, vec![layer]).unwrap();
    for _ in 0..20 {
        let input = numbers(&mut random, width);
        let t: Vec<f16> = a.chunks(width).map(|row| dot(row, &input)).collect();
        let bits = predictor.predict(0, &input).unwrap();
        for neuron in 0..neurons {
            let s = add(dot(&b[neuron * rank..][..rank], &t), bias[neuron]).to_f32();
            assert_eq!(bits[neuron / 64] >> (neuron % 64) & 1 == 1, s > 0.0, "neuron {neuron}, score {s}");
        }
        // The trait gives the same bits, and skips nothing in attention.
        let mut out = vec![0; 3];
        assert!(ActivityPredictor::predict(&predictor, 1, Some(&input), &mut out).unwrap());
        assert_eq!(out, bits);
        assert!(!ActivityPredictor::predict(&predictor, 0, None, &mut [0]).unwrap());
    }
    // A NaN is not above zero, but infinity is.
    let mut input = vec![f16::from_bits(0x3C00); width];
    input[3] = f16::from_bits(0x7E00);
    assert_eq!(predictor.predict(0, &input).unwrap(), [0; 3]);
    let names = [predictor.boxed().name(), Exact.name()];
    assert_eq!(names, ["low-rank", "exact"]);
    ActivityPredictor::observe(&mut predictor, 1, &[0; 3]).unwrap();
    assert!(!Exact.predict(1, None, &mut []).unwrap());
}

#[test]
fn questions_that_have_no_answer_are_refused() {
    let shape = NeuronShape::new(1, 2, 3);
    let zeros = |count| vec![f16::from_bits(0); count];
    let layer = LowRankLayer::new(2, 3, zeros(4), zeros(6), zeros(3)).unwrap();
    let predictor = LowRank::new(&shape, vec![layer.clone()]).unwrap();
    let text = |error: ndp_files::Error| error.to_string();
    assert_eq!(
        text(predictor.predict(0, &zeros(3)).unwrap_err()),
        "input of a low-rank predictor: 3 entries, expected 2"
    );
    assert_eq!(
        text(predictor.predict(1, &zeros(2)).unwrap_err()),
        "layer 1 does not exist, there are predictors for 1"
    );
    assert_eq!(
        text(ActivityPredictor::predict(&predictor, 1, None, &mut [0]).unwrap_err()),
        "block 1: a low-rank predictor needs the input of the block, and none was given"
    );
    assert!(ActivityPredictor::predict(&predictor, 1, Some(&zeros(2)), &mut []).is_err());
    assert!(ActivityPredictor::predict(&predictor, 2, None, &mut [0]).is_err());
    assert!(LowRank::new(&shape, vec![layer.clone(), layer.clone()]).is_err());
    assert!(LowRank::new(&NeuronShape::new(1, 2, 4), vec![layer.clone()]).is_err());
    assert!(LowRank::new(&NeuronShape::new(1, 3, 3), vec![layer]).is_err());
    for (a, b, bias) in [(5, 6, 3), (4, 5, 3), (4, 6, 2), (0, 0, 3)] {
        assert!(LowRankLayer::new(2, 3, zeros(a), zeros(b), zeros(bias)).is_err(), "{a} {b} {bias}");
    }
}

/// Name, dtype, shape and data.
type Tensor = (&'static str, &'static str, &'static [usize], Vec<u16>);

/// Tensors of a model of one layer with two inputs and three neurons.
fn whole() -> Vec<Tensor> {
    vec![
        ("layers.0.a", "F16", &[2, 2], vec![1; 4]),
        ("layers.0.b", "F16", &[3, 2], vec![2; 6]),
        ("layers.0.bias", "F16", &[3], vec![3; 3]),
    ]
}

fn file(tensors: &[Tensor]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::<u8>::new());
    for (name, dtype, shape, values) in tensors {
        let begin = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let entry = serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, data.len()]});
        header.insert((*name).to_owned(), entry);
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}

#[test]
fn files_with_a_defect_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("predictor.safetensors");
    let shape = NeuronShape::new(1, 2, 3);
    let load = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        LowRank::load(&path, &shape)
    };
    assert_eq!(load(&file(&whole())).unwrap().layers()[0].rank(), 2);
    let refused = |change: &dyn Fn(&mut Vec<Tensor>), expected: &str| {
        let mut tensors = whole();
        change(&mut tensors);
        let error = load(&file(&tensors)).unwrap_err().to_string();
        assert_eq!(error, format!("{}: {expected}", path.display()));
    };
    refused(&|t| drop(t.remove(1)), "tensor layers.0.b is missing, expected shape [3, 2]");
    refused(&|t| drop(t.remove(0)), "tensor layers.0.a is missing, expected shape [rank, 2]");
    refused(
        &|t| t[0] = ("layers.0.a", "F16", &[2, 3], vec![1; 6]),
        "tensor layers.0.a has shape [2, 3], expected [rank, 2]",
    );
    refused(
        &|t| t[0] = ("layers.0.a", "F16", &[0, 2], vec![]),
        "tensor layers.0.a has shape [0, 2], expected [rank, 2]",
    );
    refused(
        &|t| t[1] = ("layers.0.b", "F16", &[3, 1], vec![1; 3]),
        "tensor layers.0.b has shape [3, 1], expected [3, 2]",
    );
    refused(
        &|t| t[2] = ("layers.0.bias", "F16", &[3, 1], vec![1; 3]),
        "tensor layers.0.bias has shape [3, 1], expected [3]",
    );
    refused(
        &|t| t[2] = ("layers.0.bias", "BF16", &[3], vec![1; 3]),
        "tensor layers.0.bias has dtype BF16, expected F16",
    );
    refused(&|t| t[1].3[4] = 0x7C00, "tensor layers.0.b, element 4 is 0x7c00, expected a finite number");
    let bytes = file(&whole());
    let error = load(&bytes[..bytes.len() - 1]).unwrap_err();
    assert!(error.to_string().contains("not a valid safetensors file"), "{error}");
    std::fs::remove_file(&path).unwrap();
    let error = LowRank::load(&path, &shape).unwrap_err();
    assert!(
        error.chain().any(|cause| cause.is::<std::io::Error>())
            && error.to_string().contains("predictor.safetensors")
    );
}
