//! Are capacities and shapes kept, and does an error name the rule that is broken?

use crate::placement::common::{Sizes, problem, rows};
use ndp_config::{LlmShape, SystemConfig};
use ndp_files::said;
use ndp_hermes::placement::{
    HostMemory, Instance, LpForm, Machine, MilpOptions, Options, Placement, PlacementFile, PowerInferProgram,
    least_neurons, place_greedy, place_milp, place_powerinfer, place_random, place_structured,
    synthetic_frequencies, write_lp,
};
use ndp_traces::NeuronShape;
use std::collections::BTreeMap;

const SIZES: Sizes = Sizes { layers: 3, attention: 70, mlp: 130, dimms: 4, group: 16 };

fn machine() -> Machine {
    Machine {
        gpu_bytes: 1000,
        gpu_gbps: 9.0,
        sync_us: 0.1,
        dimms: 4,
        dimm_bytes: 2000,
        dimm_gbps: 1.0,
        kv_bytes: 0,
        ssd_gbps: None,
    }
}

#[test]
fn all_methods_keep_the_capacities() {
    for seed in 0..100 {
        let (instance, _) = problem(seed, SIZES, 1.0);
        let (structured, certificate) = place_structured(&instance).unwrap();
        let least = vec![Some(20); instance.blocks().len()];
        let memory = HostMemory { cpu_bytes: instance.bytes(), predictors: vec![100; 6] };
        let program = PowerInferProgram::new(&instance, &least, &memory).unwrap();
        let milp = MilpOptions { groups_per_variable: 4, ..MilpOptions::default() };
        for placement in [
            structured,
            place_greedy(&instance).unwrap(),
            place_random(&instance, seed).unwrap(),
            place_powerinfer(&program).unwrap().0,
            place_milp(&instance, &milp).unwrap().0,
        ] {
            placement.check(&instance).unwrap();
        }
        assert!(certificate.gpu_bytes <= instance.machine().gpu_bytes);
        assert_eq!(certificate.dimm_bytes.iter().sum::<u64>(), instance.bytes());
    }
}

#[test]
fn dimms_without_a_spare_byte_are_filled() {
    let shape = NeuronShape::new(2, 40, 60);
    let machine = Machine { dimm_bytes: 50 * 10, ..machine() };
    let frequencies: Vec<Vec<f32>> =
        shape.blocks().iter().map(|b| (0..b.neurons).map(|i| 1.0 / (i + 1) as f32).collect()).collect();
    let options = Options { group_neurons: 16, ..Options::default() };
    let instance = Instance::with_machine(shape, [10, 10], machine, &frequencies, &options).unwrap();
    let (_, certificate) = place_structured(&instance).unwrap();
    assert_eq!(certificate.dimm_bytes, [500; 4]);
    place_greedy(&instance).unwrap().check(&instance).unwrap();
}

#[test]
fn neurons_that_are_never_active_cost_nothing_and_fill_the_dimms_evenly() {
    let shape = NeuronShape::new(2, 64, 64);
    let frequencies: Vec<Vec<f32>> = shape.blocks().iter().map(|b| vec![0.0; b.neurons as usize]).collect();
    let instance = Instance::with_machine(
        shape,
        [10, 10],
        machine(),
        &frequencies,
        &Options { group_neurons: 4, ..Options::default() },
    );
    let (_, certificate) = place_structured(&instance.unwrap()).unwrap();
    assert_eq!((certificate.objective_us, certificate.bound_us), (0.4, 0.4));
    assert_eq!(certificate.dimm_bytes, [640; 4]);
}

#[test]
fn the_same_problem_has_the_same_placement() {
    let model = LlmShape::opt_like("opt-like", 3, 256, 4, 1024, 100).unwrap();
    let system = SystemConfig::preset("hermes").unwrap();
    let place = || {
        let instance = Instance::new(&model, &system, &synthetic_frequencies(&model, 4), &Options::default());
        place_structured(&instance.unwrap()).unwrap()
    };
    assert_eq!(place(), place());
}

#[test]
fn each_broken_rule_of_a_placement_is_found() {
    let (instance, _) = problem(3, SIZES, 1.2);
    let (good, _) = place_structured(&instance).unwrap();
    let broken = |change: fn(&mut Placement)| {
        let mut placement = good.clone();
        change(&mut placement);
        said(&placement.check(&instance))
    };
    assert_eq!(
        broken(|p| p.dimms_mut(1)[5] = 4),
        "neuron 5 of block 1 is placed on DIMM 4, but the system has only 4 DIMMs"
    );
    assert_eq!(
        broken(|p| p.gpu_bits_mut(0)[1] |= 1 << 6),
        "the bits of block 0 go on behind its last neuron, number 69"
    );
    let all_on_gpu = |p: &mut Placement| {
        for block in 0..6 {
            (0..p.dimms(block).len()).for_each(|neuron| p.set_gpu(block, neuron, true));
        }
    };
    let numbers = |text: &str| {
        let words = text.split(' ').filter_map(|word| word.parse::<u64>().ok());
        words.collect::<Vec<_>>()
    };
    let text = broken(all_on_gpu);
    assert!(text.contains("bytes of neurons on the GPU, "), "{text}");
    assert!(matches!(numbers(&text)[..], [used, capacity] if used > capacity), "{text}");
    let all_on_2 = |p: &mut Placement| (0..6).for_each(|block| p.dimms_mut(block).fill(2));
    let text = broken(all_on_2);
    assert!(text.contains("bytes of neurons on DIMM 2, "), "{text}");
    assert!(matches!(numbers(&text)[..], [used, capacity] if used > capacity), "{text}");
    let other = Placement::new(&NeuronShape::new(3, 70, 131));
    assert!(said(&other.check(&instance)).contains("603 instead of 600"));
}

#[test]
fn problems_that_make_no_sense_are_refused_with_their_numbers() {
    let shape = NeuronShape::new(1, 4, 8);
    let good = vec![vec![0.5; 4], vec![0.5; 8]];
    let with = |machine: Machine, bytes, frequencies: &[Vec<f32>], group_neurons| {
        let options = Options { group_neurons, ..Options::default() };
        Instance::with_machine(shape.clone(), bytes, machine, frequencies, &options)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let mut nan = good.clone();
    nan[1][6] = f32::NAN;
    let mut large = good.clone();
    large[0][3] = 1.5;
    for (found, expected) in [
        (with(machine(), [10, 10], &good, 0), "group size = 0"),
        (with(machine(), [0, 10], &good, 4), "bytes of a neuron = 0"),
        (with(machine(), [10, 1 << 38], &good, 4), "bytes of all neurons"),
        (with(machine(), [10, 10], &good[..1], 4), "blocks with frequencies: 1 instead of 2"),
        (
            with(machine(), [10, 10], &[vec![0.5; 4], vec![0.5; 7]], 4),
            "frequencies of block 1: 7 instead of 8",
        ),
        (with(machine(), [10, 10], &nan, 4), "frequency NaN of neuron 6 of block 1"),
        (with(machine(), [10, 10], &large, 4), "frequency 1.5 of neuron 3 of block 0"),
        (with(Machine { dimms: 0, ..machine() }, [10, 10], &good, 4), "dimms = 0 must be in 1..=64"),
        (with(Machine { dimms: 65, ..machine() }, [10, 10], &good, 4), "dimms = 65 must be in 1..=64"),
        (with(Machine { gpu_gbps: 0.0, ..machine() }, [10, 10], &good, 4), "GPU bandwidth = 0"),
        (with(Machine { sync_us: -1.0, ..machine() }, [10, 10], &good, 4), "synchronisation = -1"),
        (
            with(Machine { dimm_bytes: 29, kv_bytes: 7, ..machine() }, [10, 10], &good, 4),
            "120 bytes of neurons do not fit in 4 DIMMs: 29 bytes is usable in each (36 bytes minus 7 bytes for keys and values); use",
        ),
    ] {
        assert!(found.contains(expected), "{found}");
    }
    // Enough in all, but each DIMM has room for two and a half neurons.
    let (shape, machine) = (NeuronShape::new(1, 0, 10), Machine { dimm_bytes: 25, ..machine() });
    let instance = Instance::with_machine(shape, [10, 10], machine, &[vec![0.5; 10]], &Options::default());
    let error = place_structured(&instance.unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no DIMM has 10 bytes left for a neuron of block 0: the fullest use leaves at most 5 in one DIMM"
    );
}

#[test]
fn models_that_do_not_fit_the_machine_are_refused_with_bytes() {
    let hermes = SystemConfig::preset("hermes").unwrap();
    let t4 = SystemConfig::preset("hermes-t4").unwrap();
    let text = include_str!("../../../config/presets/systems/hermes.toml")
        .replace("memory_gb = 24.0", "memory_gb = 8.0");
    let small_gpu = SystemConfig::from_toml(&text).unwrap();
    let model = LlmShape::preset("opt-66b").unwrap();
    let machine = |system: &SystemConfig, tokens| Machine::of(&model, system, tokens);
    assert_eq!(machine(&t4, 0).unwrap().gpu_bytes, 15_500_000_000 - model.resident_bytes());
    let error = machine(&small_gpu, 0).unwrap_err().to_string();
    assert!(error.contains("7500000000 bytes") && error.contains("11798249472"), "{error}");
    let error = machine(&hermes, 1 << 30).unwrap_err().to_string();
    assert!(
        error.starts_with("119.6 GB of neurons do not fit in 8 DIMMs: none is usable in each"),
        "{error}"
    );
    assert!(error.contains("(keys and values alone take 316659.3 GB in each)"), "{error}");
    let three = hermes.with_dimms(3).unwrap();
    let frequencies = synthetic_frequencies(&model, 1);
    let error = Instance::new(&model, &three, &frequencies, &Options::default()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("GB of neurons do not fit in 3 DIMMs: "), "{error}");
}

#[test]
fn options_of_the_other_methods_are_checked() {
    let (instance, _) = problem(3, SIZES, 1.2);
    let milp = |groups_per_variable, time_limit_s| {
        let options = MilpOptions { groups_per_variable, time_limit_s, ..MilpOptions::default() };
        place_milp(&instance, &options).unwrap_err().to_string()
    };
    assert!(milp(0, 1.0).contains("groups per variable = 0"));
    assert!(milp(1, f64::NAN).contains("time limit = NaN"));
    assert!(least_neurons(&instance, 0.0).unwrap_err().to_string().contains("CPU bandwidth = 0"));
    let memory = HostMemory { cpu_bytes: 0, predictors: vec![7; 6] };
    let program = |least: &[Option<u32>]| PowerInferProgram::new(&instance, least, &memory).unwrap_err();
    assert!(program(&[]).to_string().contains("0 instead of 6"));
    let (neurons, gpu) = (instance.bytes(), instance.machine().gpu_bytes);
    let text = format!(
        "{neurons} bytes of neurons and 42 of predictors fit neither GPU nor CPU: they have {gpu} and 0 bytes"
    );
    assert_eq!(program(&[None; 6]).to_string(), text);
    // No block may have neurons on the GPU, and the CPU lacks one byte.
    let memory = HostMemory { cpu_bytes: neurons - 1, predictors: Vec::new() };
    let program = PowerInferProgram::new(&instance, &[None; 6], &memory).unwrap();
    let error = place_powerinfer(&program).unwrap_err();
    let text = format!("{neurons} bytes of neurons are left to the CPU, {} fit", neurons - 1);
    assert_eq!(error.to_string(), text);
    let model = LlmShape::preset("llama2-70b").unwrap();
    for (cpu_gb, percent, expected) in [
        (f64::NAN, 7.0, "CPU memory = NaN must be 0 to 10^6 GB"),
        (-1.0, 7.0, "CPU memory = -1 must be"),
        (192.0, 100.5, "size of the predictors = 100.5 must be 0 to 100 per cent"),
    ] {
        let error = HostMemory::of(&model, cpu_gb, percent, 0).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let memory = HostMemory::of(&model, 192.0, 8.08, 2048).unwrap();
    assert_eq!(memory.cpu_bytes, 192_000_000_000 - 2048 * model.kv_bytes_per_token());
    let all = (model.resident_bytes() + model.neurons_bytes()) as f64;
    let predictors: u64 = memory.predictors.iter().sum();
    assert!((predictors as f64 / all - 0.0808).abs() < 1e-8 && memory.predictors.len() == 160);
}

#[test]
fn a_file_of_a_placement_gives_it_back() {
    let (instance, _) = problem(9, SIZES, 1.2);
    let (placement, _) = place_structured(&instance).unwrap();
    let file = PlacementFile::new("some", 4, &placement);
    assert_eq!(file.placement(instance.shape(), 4).unwrap(), placement);
}

#[test]
fn the_exported_problem_has_the_placement_as_a_solution_with_its_objective() {
    for (seed, form) in (0..20).flat_map(|seed| [(seed, LpForm::Full), (seed, LpForm::Reduced)]) {
        // One neuron per group, so every placement is one of whole groups.
        let (instance, _) = problem(seed, Sizes { attention: 11, mlp: 18, group: 1, ..SIZES }, 1.2);
        let (placement, _) = place_structured(&instance).unwrap();
        let evaluation = placement.evaluate(&instance).unwrap();
        let mut text = Vec::new();
        write_lp(&instance, form, "a title\nof two lines", &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("\\ a title\n\\ of two lines\nMinimize\n"), "{text}");
        assert!(text.lines().all(|line| line.len() < 255));
        let mut values = BTreeMap::new();
        for (index, group) in instance.groups().iter().enumerate() {
            let block = group.block as usize;
            let neuron = instance.blocks()[block].order[group.start as usize] as usize;
            let on = placement.on_gpu(block, neuron);
            values.insert(format!("x{index}_g"), f64::from(on));
            if !on {
                values.insert(format!("x{index}_d{}", placement.dimm(block, neuron)), 1.0);
            }
        }
        for (term, time) in evaluation.terms.iter().enumerate() {
            let us = if form == LpForm::Full { time.us() } else { time.gpu_us.max(time.dimm_mean_us) };
            values.insert(format!("t{term}"), us);
        }
        // Every row holds, one of each term with equality: times cannot be smaller.
        let mut tight = vec![false; evaluation.terms.len()];
        for (name, row, relation, right) in rows(&text).1 {
            let left: f64 = row.iter().map(|(x, c)| c * values.get(x).copied().unwrap_or(0.0)).sum();
            let holds = match relation.as_str() {
                "<=" => left <= right + 1e-9,
                ">=" => left >= right - 1e-9,
                _ => (left - right).abs() < 1e-9,
            };
            assert!(holds, "seed {seed}, {form:?}: {name}: {left} {relation} {right}");
            for term in (0..tight.len()).filter(|term| row.contains_key(&format!("t{term}"))) {
                tight[term] |= (left - right).abs() < 1e-9;
            }
        }
        assert!(tight.iter().all(|&tight| tight), "seed {seed}, {form:?}");
    }
}
