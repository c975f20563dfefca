//! Three tiers: does the certificate follow its formula, neuron by neuron, and is the placement as good as it says? The
//! test uses no part of the solver.

use crate::placement::common::{Sizes, below, frequencies};
use ndp_config::{BlockKind, LlmShape, Ssd, SystemConfig};
use ndp_hermes::placement::{
    Instance, Machine, Options, Placement, PlacementFile, Terms, TierCertificate, place_structured,
    place_tiers, synthetic_frequencies,
};
use ndp_numerics::SplitMix64;
use ndp_testkit::{amount, whole};
use ndp_traces::NeuronShape;

const ROUNDING: f64 = 1e-9;

struct Problem {
    shape: NeuronShape,
    bytes: [u64; 2],
    machine: Machine,
    frequencies: Vec<Vec<f32>>,
    terms: Terms,
    instance: Instance,
}

impl Problem {
    fn new(
        shape: NeuronShape,
        bytes: [u64; 2],
        machine: Machine,
        frequencies: Vec<Vec<f32>>,
        (terms, group): (Terms, u32),
    ) -> Self {
        let options = Options { group_neurons: group, terms, kv_tokens: 0 };
        let instance = Instance::with_machine(shape.clone(), bytes, machine, &frequencies, &options).unwrap();
        Self { shape, bytes, machine, frequencies, terms, instance }
    }

    /// DIMMs have room for attention and a part of the MLP.
    fn drawn(seed: u64, sizes: Sizes) -> Self {
        let mut rng = SplitMix64::new(seed);
        let shape = NeuronShape::new(sizes.layers, sizes.attention, sizes.mlp);
        let bytes = [1 + below(&mut rng, 2000), 1 + below(&mut rng, 3000)];
        let of = |kind: BlockKind| {
            let blocks = shape.blocks().iter().filter(|block| block.kind == kind);
            blocks.map(|block| u64::from(block.neurons) * bytes[kind as usize]).sum::<u64>()
        };
        let (attention, mlp) = (of(BlockKind::Attention), of(BlockKind::Mlp));
        let machine = Machine {
            gpu_bytes: below(&mut rng, (attention + mlp) / 2 + 1),
            gpu_gbps: [1.0, 5.0, 50.0][below(&mut rng, 3) as usize],
            sync_us: [0.0, 0.01, 0.3][below(&mut rng, 3) as usize],
            dimms: sizes.dimms,
            dimm_bytes: (attention + below(&mut rng, mlp + 1)).div_ceil(sizes.dimms.into())
                + 3000 * u64::from(sizes.layers),
            dimm_gbps: 1.0,
            kv_bytes: 0,
            ssd_gbps: Some([0.05, 0.5, 3.0][below(&mut rng, 3) as usize]),
        };
        let frequencies = frequencies(&mut rng, &shape);
        let terms = if below(&mut rng, 2) == 0 { Terms::Layer } else { Terms::Block };
        Self::new(shape, bytes, machine, frequencies, (terms, sizes.group))
    }

    /// Multiples of 2^-23.
    fn frequency(&self, block: usize, neuron: usize) -> f64 {
        let scale = f64::from(1 << 23);
        (f64::from(self.frequencies[block][neuron]) * scale).round_ties_even() / scale
    }

    fn terms(&self) -> Vec<Vec<usize>> {
        let mut terms: Vec<Vec<usize>> = Vec::new();
        for (number, block) in self.shape.blocks().iter().enumerate() {
            match terms.last_mut() {
                Some(last)
                    if self.terms == Terms::Layer && self.shape.blocks()[last[0]].layer == block.layer =>
                {
                    last.push(number);
                }
                _ => terms.push(vec![number]),
            }
        }
        terms
    }

    /// Time of a placement; `None` if it exceeds a memory or has attention on the SSD. Each DIMM has as many slots of a
    /// block as the fullest one needs.
    fn objective(&self, placement: &Placement) -> Option<f64> {
        let machine = &self.machine;
        let (mut on_gpu, mut slots) = (0, 0);
        let mut us = 0.0;
        for blocks in self.terms() {
            let (mut gpu, mut dimms, mut ssd) = (0.0, vec![0.0; machine.dimms as usize], 0.0);
            for block in blocks {
                let kind = self.shape.blocks()[block].kind;
                let bytes = self.bytes[kind as usize];
                let mut in_dimms = vec![0; machine.dimms as usize];
                for neuron in 0..self.frequencies[block].len() {
                    let work = self.frequency(block, neuron) * bytes as f64 / 1e3;
                    let dimm = usize::from(placement.dimm(block, neuron));
                    if placement.on_ssd(block, neuron) {
                        if kind == BlockKind::Attention {
                            return None;
                        }
                    } else {
                        in_dimms[dimm] += bytes;
                    }
                    if placement.on_gpu(block, neuron) {
                        on_gpu += bytes;
                        gpu += work / machine.gpu_gbps;
                    } else {
                        dimms[dimm] += work / machine.dimm_gbps;
                        if placement.on_ssd(block, neuron) {
                            ssd += work / machine.ssd_gbps.unwrap();
                        }
                    }
                }
                slots += in_dimms.into_iter().max().unwrap_or(0);
            }
            us += dimms.into_iter().fold(gpu + 2.0 * machine.sync_us, f64::max) + ssd;
        }
        (on_gpu <= machine.gpu_bytes && slots <= machine.dimm_bytes).then_some(us)
    }

    /// The certificate's formula, for any prices and weights.
    fn bound(&self, certificate: &TierCertificate) -> f64 {
        let machine = &self.machine;
        let TierCertificate { gpu_price, dimm_price, weights, .. } = certificate;
        assert!(*gpu_price >= 0.0 && *dimm_price >= 0.0 && weights.iter().all(|a| (0.0..=1.0).contains(a)));
        let dimms = f64::from(machine.dimms);
        let terms = self.terms();
        assert_eq!(terms.len(), weights.len());
        let mut us = -gpu_price * machine.gpu_bytes as f64 - dimm_price * dimms * machine.dimm_bytes as f64;
        for (blocks, a) in terms.into_iter().zip(weights) {
            us += 2.0 * a * machine.sync_us;
            for block in blocks {
                let kind = self.shape.blocks()[block].kind;
                let bytes = self.bytes[kind as usize] as f64;
                for neuron in 0..self.frequencies[block].len() {
                    let work = self.frequency(block, neuron) * bytes / 1e3;
                    let elsewhere = (1.0 - a) * work / (dimms * machine.dimm_gbps);
                    let gpu = gpu_price * bytes + a * work / machine.gpu_gbps;
                    let dimm = dimm_price * bytes;
                    us += match kind {
                        // The original takes room with or without a copy.
                        BlockKind::Attention => dimm + gpu.min(elsewhere),
                        BlockKind::Mlp => {
                            gpu.min(elsewhere + dimm).min(elsewhere + work / machine.ssd_gbps.unwrap())
                        }
                    };
                }
            }
        }
        us
    }

    /// Checks a certificate by its formula, and its placement by its neurons.
    fn verify(&self, (placement, certificate): &(Placement, TierCertificate)) {
        let objective = self.objective(placement).expect("the placement keeps the capacities");
        let size = certificate.objective_us.max(1e-9);
        assert!(
            (objective - certificate.objective_us).abs() <= ROUNDING * size,
            "{objective} {certificate:?}"
        );
        let bound = self.bound(certificate).max(0.0);
        assert!((bound - certificate.bound_us).abs() <= 1e-7 * size, "{bound} {certificate:?}");
        assert!(certificate.bound_us <= objective * (1.0 + ROUNDING), "{certificate:?}");
    }

    fn optimum(&self) -> f64 {
        let blocks = self.shape.blocks().iter().enumerate();
        let neurons: Vec<(usize, usize)> = blocks
            .flat_map(|(block, of)| (0..of.neurons as usize).map(move |neuron| (block, neuron)))
            .collect();
        let mut placement = Placement::new(&self.shape);
        let mut best = f64::INFINITY;
        self.each(&neurons, &mut placement, &mut best);
        best
    }

    fn each(&self, neurons: &[(usize, usize)], placement: &mut Placement, best: &mut f64) {
        let Some((&(block, neuron), rest)) = neurons.split_first() else {
            *best = best.min(self.objective(placement).unwrap_or(f64::INFINITY));
            return;
        };
        for dimm in 0..self.machine.dimms as u8 {
            for (gpu, ssd) in [(false, false), (false, true), (true, false), (true, true)] {
                placement.dimms_mut(block)[neuron] = dimm;
                placement.set_gpu(block, neuron, gpu);
                placement.set_ssd(block, neuron, ssd);
                self.each(rest, placement, best);
            }
        }
    }
}

#[test]
fn no_placement_of_tiny_problems_is_below_the_bound_and_ours_is_the_best() {
    let (mut tight, mut cases) = (0, 0);
    for seed in 0..amount(120) {
        let mut rng = SplitMix64::new(7000 + seed);
        let sizes = Sizes {
            layers: 1 + below(&mut rng, 2) as u32,
            attention: below(&mut rng, 2) as u32,
            mlp: 1 + below(&mut rng, 2) as u32,
            dimms: 1 + below(&mut rng, 2) as u32,
            group: 1 + below(&mut rng, 2) as u32,
        };
        let problem = Problem::drawn(seed, sizes);
        let placed = place_tiers(&problem.instance).unwrap();
        problem.verify(&placed);
        let (best, certificate) = (problem.optimum(), &placed.1);
        assert!(
            certificate.exhaustive && certificate.bound_us <= best * (1.0 + ROUNDING),
            "{seed} {certificate:?}"
        );
        assert!((certificate.objective_us - best).abs() <= ROUNDING * best, "{seed}: {best} {certificate:?}");
        cases += 1;
        tight += u32::from(certificate.bound_us >= best * 0.99);
    }
    // The bound splits neurons.
    assert!(tight > 0 && (tight * 10 > cases || !whole()), "{tight} of {cases}");
}

#[test]
fn placements_of_some_hundred_neurons_are_near_their_bounds() {
    let mut gaps = Vec::new();
    let (mut on_ssd, count) = (0, amount(60));
    for seed in 0..count {
        let sizes = Sizes { layers: 2, attention: 200, mlp: 700, dimms: 4, group: 8 };
        let problem = Problem::drawn(seed, sizes);
        let placed = place_tiers(&problem.instance).unwrap();
        problem.verify(&placed);
        on_ssd += u64::from(placed.1.ssd_bytes > 0);
        gaps.push(placed.1.gap);
    }
    gaps.sort_by(f64::total_cmp);
    // If nearly all neurons of a block are equally active, only parts of them attain the bound.
    let part = |tenths: u64| gaps[(count * tenths / 10) as usize];
    assert!(part(5) < 0.01 && part(8) < 0.03, "{gaps:?}");
    assert!(on_ssd * 3 > count, "{on_ssd}");
}

#[test]
fn any_prices_and_weights_are_a_bound() {
    for seed in 0..amount(40) {
        let sizes = Sizes { layers: 2, attention: 30, mlp: 90, dimms: 3, group: 4 };
        let problem = Problem::drawn(seed, sizes);
        let (placement, certificate) = place_tiers(&problem.instance).unwrap();
        let objective = problem.objective(&placement).unwrap();
        let mut rng = SplitMix64::new(seed);
        for _ in 0..50 {
            let mut other = certificate.clone();
            let mut factor = || below(&mut rng, 3000) as f64 / 1000.0;
            (other.gpu_price, other.dimm_price) = (other.gpu_price * factor(), other.dimm_price * factor());
            other.weights.iter_mut().for_each(|weight| *weight = (*weight * factor()).min(1.0));
            let bound = problem.bound(&other);
            assert!(bound <= objective * (1.0 + ROUNDING), "{bound} {objective}");
            // None is better than the certificate's, up to the search's last bits.
            assert!(bound <= certificate.bound_us + 1e-4 * objective, "{bound} {}", certificate.bound_us);
        }
    }
}

#[test]
fn a_model_that_exceeds_the_dimms_is_placed_and_written() {
    let model = LlmShape::preset("opt-66b").unwrap();
    let system = SystemConfig::preset("hermes").unwrap().with_dimms(2).unwrap();
    let frequencies = synthetic_frequencies(&model, 3);
    let options = Options::default();
    let error = Instance::new(&model, &system, &frequencies, &options).unwrap_err();
    assert!(error.to_string().contains("of neurons do not fit in"), "{error}");
    let system = system.with_ssd(Ssd::preset("nvme-pcie4").unwrap());
    let instance = Instance::new(&model, &system, &frequencies, &options).unwrap();
    let error = place_structured(&instance).unwrap_err();
    assert!(error.to_string().contains("of neurons do not fit in"), "{error}");
    let placed = place_tiers(&instance).unwrap();
    let (placement, certificate) = &placed;
    assert!(certificate.gap < 0.01 && !certificate.exhaustive, "{}", certificate.gap);
    assert!(certificate.ssd_bytes > 40_000_000_000, "{}", certificate.ssd_bytes);
    let (shape, machine) = (instance.shape().clone(), *instance.machine());
    let bytes = [BlockKind::Attention, BlockKind::Mlp].map(|kind| model.neuron_bytes(kind));
    Problem { shape: shape.clone(), bytes, machine, frequencies, terms: Terms::Layer, instance }
        .verify(&placed);
    let text = serde_json::to_string(&PlacementFile::new("opt-66b", 2, placement)).unwrap();
    let read: PlacementFile = serde_json::from_str(&text).unwrap();
    assert_eq!(&read.placement(&shape, 2).unwrap(), placement);
}

#[test]
fn dimms_have_as_many_slots_as_the_fullest_one_needs() {
    let sizes = Sizes { layers: 2, attention: 60, mlp: 240, dimms: 3, group: 8 };
    let drawn = Problem::drawn(2, sizes);
    let attention = 2 * 20 * drawn.bytes[0];
    // Slots for 50 of each MLP's 80 neurons per DIMM.
    let capacity = attention + 100 * drawn.bytes[1];
    let machine = Machine { dimm_bytes: capacity, gpu_bytes: 0, ..drawn.machine };
    let problem = Problem::new(drawn.shape, drawn.bytes, machine, drawn.frequencies, (drawn.terms, 8));
    let placed = place_tiers(&problem.instance).unwrap();
    problem.verify(&placed);
    let (placement, certificate) = placed;
    // The free slots are too few for one more neuron on every DIMM.
    assert!(
        certificate.dimm_bytes.iter().all(|&bytes| bytes + 3 * drawn.bytes[1] > capacity),
        "{certificate:?}"
    );
    // Moving one neuron of each MLP makes a DIMM lighter and one heavier in the first, and the reverse in the second.
    let mut moved = placement;
    for (block, from, to) in [(1, 0, 1), (3, 1, 0)] {
        let neuron = (0..240).find(|&n| moved.dimm(block, n) == from && !moved.on_ssd(block, n)).unwrap();
        moved.dimms_mut(block)[neuron] = to;
    }
    let error = moved.check(&problem.instance).unwrap_err();
    let text = error.to_string();
    let used = text.strip_prefix("slots for ").and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(used.unwrap() > capacity && problem.objective(&moved).is_none(), "{text} {capacity}");
}

#[test]
fn what_the_dimms_hold_needs_no_ssd() {
    let sizes = Sizes { layers: 2, attention: 64, mlp: 200, dimms: 4, group: 8 };
    for seed in 0..20 {
        let drawn = Problem::drawn(seed, sizes);
        let machine = Machine { dimm_bytes: 1 << 30, ..drawn.machine };
        let problem = Problem::new(drawn.shape, drawn.bytes, machine, drawn.frequencies, (drawn.terms, 8));
        let placed = place_tiers(&problem.instance).unwrap();
        problem.verify(&placed);
        let two = place_structured(&problem.instance).unwrap().1;
        assert_eq!((placed.1.ssd_bytes, placed.1.dimm_price), (0, 0.0));
        assert!((placed.1.bound_us - two.bound_us).abs() <= 1e-6 * two.bound_us, "{:?} {two:?}", placed.1);
        assert!(placed.1.objective_us <= two.objective_us * 1.02, "{:?} {two:?}", placed.1);
    }
    let drawn = Problem::drawn(1, sizes);
    let machine = Machine { ssd_gbps: None, dimm_bytes: 1 << 30, ..drawn.machine };
    let problem = Problem::new(drawn.shape, drawn.bytes, machine, drawn.frequencies, (drawn.terms, 8));
    let error = place_tiers(&problem.instance).unwrap_err().to_string();
    assert_eq!(error, "SSD bandwidth = 0 must be that of an SSD");
    let mut placement = place_structured(&problem.instance).unwrap().0;
    placement.set_ssd(1, 3, true);
    let error = placement.check(&problem.instance).unwrap_err().to_string();
    assert!(error.starts_with("neurons of block 1 are on an SSD"), "{error}");
}
