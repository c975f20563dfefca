//! Offloading while texts are generated: are the texts the same on every device, is all moved work compared, does the
//! scheduler move both FFN and attention, and are errors found?

use crate::host::common;
use crate::host::common::{assert_texts, memory, prompts, random_model};
use ndp_config::HbmConfig;
use ndp_dram::hbm::PseudoChannel;
use ndp_librapim::host::controller::{Access, Controller, Place, Returned};
use ndp_librapim::host::machine::Done;
use ndp_librapim::host::memory::{CacheShape, Memory};
use ndp_librapim::host::shared::{Partial, Product, channel_work};
use ndp_librapim::host::{
    Arrangement, Machine, Offloading, Outcome, Pins, Prompt, Work, boxed, check_room, run_arranged,
};
use ndp_librapim::offloading::{Device, Hardware, Pim, Rule};
use ndp_model::Model;
use ndp_numerics::{SplitMix64, dot, f16};
use std::path::Path;

fn run(
    model: &Model,
    config: &HbmConfig,
    hardware: &Hardware,
    offloading: Offloading,
    prompts: &[Prompt],
) -> ndp_files::Result<(Outcome, Machine)> {
    let channels = boxed(PseudoChannel::all(config)?);
    let hardware = Hardware { pim: Pim { channels: config.channels(), ..hardware.pim }, ..*hardware };
    run_arranged(
        model,
        config,
        &hardware,
        Arrangement { groups: 2, offloading, record: 0..0 },
        prompts,
        channels,
    )
}

/// Outputs that the banks must have computed, from decisions and shapes.
fn expected_products(model: &Model, outcome: &Outcome) -> u64 {
    let config = &model.config;
    let of_request = config.num_hidden_layers() * (config.hidden_size() + config.ffn_dim());
    outcome.decisions.iter().map(|decided| u64::from(decided.share.ffn) * of_request as u64).sum()
}

/// Products in memory during the other group's attention there.
fn interruptions(outcome: &Outcome) -> usize {
    let in_memory =
        |work| outcome.events.iter().filter(move |event| event.device == Device::Pim && event.work == work);
    let within = |product: &&ndp_librapim::host::Event| {
        in_memory(Work::Attention).any(|a| a.start < product.start && product.end < a.end)
    };
    in_memory(Work::Product).filter(within).count()
}

#[test]
fn texts_are_the_same_with_any_share_on_the_other_device() {
    let prompts = prompts(&[(5, 4), (3, 2), (9, 3), (2, 5), (4, 1), (17, 3)], 64);
    // One row of inputs for both matrices; or two for the second, the last with a column and a half.
    let mut interrupted = 0;
    for (ffn_width, channels) in [(96, 2), (536, 4)] {
        let model = random_model(64, 4, ffn_width);
        let config = memory(channels);
        let mut reads = Vec::new();
        for (ffn, mha) in [(0, 0), (1, 0), (3, 0), (0, 1), (0, 3), (2, 2)] {
            let offloading = Offloading::Fixed { ffn, mha };
            let (outcome, machine) =
                run(&model, &config, &Hardware::default(), offloading, &prompts).unwrap();
            assert_texts(&model, &prompts, &outcome);
            assert_eq!(machine.channels().map(Pins::violations).sum::<u64>(), 0);
            assert_eq!(outcome.checked.products, expected_products(&model, &outcome));
            assert_eq!(outcome.checked.products > 0, ffn > 0);
            assert_eq!(outcome.copies_checked > 0, mha > 0);
            reads.push(outcome.columns_checked);
            interrupted += interruptions(&outcome);
            let shared = |event: usize| {
                outcome.spans.iter().filter(|span| span.event == event && span.commands.share > 0).count()
            };
            for (number, event) in outcome.events.iter().enumerate() {
                if event.device == Device::Npu && event.label.contains(".fc") && event.step > 0 && ffn > 0 {
                    assert_eq!(shared(number), channels as usize, "{event:?}");
                }
            }
        }
        assert!(reads.iter().all(|&columns| columns == reads[0]), "{reads:?}");
    }
    assert!(interrupted > 0, "no product came in between parts of attention");
}

#[test]
fn the_scheduler_moves_ffns_from_a_slow_npu_and_attention_from_a_memory_with_more_of_it() {
    let attentive = random_model(64, 4, 32);
    // One array of 4 x 4: computing takes longer than reading.
    let slow = Hardware::preset("librapim-small-npu").unwrap();
    let wide = random_model(64, 4, 256);
    let lengths = [(3, 30), (4, 25), (2, 28), (5, 20), (1, 31), (3, 30), (3, 29), (4, 32)];
    let prompts = prompts(&lengths, 64);
    let config = memory(2);
    for (model, hardware, moves_ffn) in [(&wide, &slow, true), (&attentive, &Hardware::default(), false)] {
        let mut clocks = Vec::new();
        for offloading in [Offloading::None, Offloading::Live(Rule::Paper)] {
            let (outcome, _) = run(model, &config, hardware, offloading, &prompts).unwrap();
            assert_texts(model, &prompts, &outcome);
            clocks.push(outcome.clocks);
            let sum = |share: fn(&ndp_librapim::host::Share) -> u32| {
                outcome.decisions.iter().map(|decided| share(&decided.share)).sum::<u32>()
            };
            let (ffn, mha) = (sum(|share| share.ffn), sum(|share| share.mha));
            println!("{} clocks, m {ffn}, n {mha}", outcome.clocks);
            if offloading == Offloading::None {
                assert_eq!((ffn, mha), (0, 0));
            } else if moves_ffn {
                assert!(ffn > 0);
            } else {
                assert!(mha > 0);
            }
        }
        assert!(clocks[1] < clocks[0], "{clocks:?}");
    }
}

#[test]
fn what_is_decided_follows_the_measured_times() {
    use ndp_librapim::host::batch::sizes_of;
    use ndp_librapim::host::policy::Policy;
    use ndp_librapim::host::times::HostTimes;
    let (model, config) = (random_model(64, 4, 256), memory(2));
    let hardware = Hardware::from(Pim { channels: 2, ..Pim::default() });
    let slow = Hardware { npu: Hardware::preset("librapim-small-npu").unwrap().npu, ..hardware };
    let sizes = sizes_of(&model);
    let policy = |hardware: &Hardware| {
        let times = || HostTimes::new(&sizes, hardware, &config, 8, 64);
        Policy::new(Offloading::Live(Rule::Shortest), (hardware, config.banks()), 8, times).unwrap()
    };
    let (fast, slow) = (policy(&hardware), policy(&slow));
    // The NPU reads as long as before: nothing is gained.
    assert_eq!(fast.decide(&[5, 5], &[5, 5]).ffn, 0);
    let shares: Vec<u32> = (1..=8).map(|requests| slow.decide(&vec![5; requests], &[5]).ffn).collect();
    // More requests take the NPU longer but, at one per bank, hardly the memory.
    assert!(shares.is_sorted() && shares[0] == 0 && shares[7] > 3, "{shares:?}");
    let alone = fast.decide(&[40; 4], &[]);
    assert!(alone.mha > 0 && alone.ffn == 0, "{alone:?}");
    assert_eq!(fast.decide(&[], &[3]), ndp_librapim::host::Share::default());
    let times = slow.times().unwrap();
    for requests in 1..=8 {
        assert!(times.ffn_clocks(requests) >= times.ffn_clocks(requests - 1));
    }
    assert!(times.head_clocks(64) > times.head_clocks(16));
    // The times of docs/offloading.md.
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/model");
    let sizes = sizes_of(&Model::load(&golden).unwrap());
    let of_golden = HostTimes::new(&sizes, &hardware, &config, 4, 16).unwrap();
    assert_eq!([1, 2, 3, 4].map(|m| of_golden.ffn_clocks(m)), [31_005, 31_495, 31_992, 32_503]);
    assert_eq!(times.head_clocks(1000), times.head_clocks(64));
}

/// "The same memory": serial runs on the sliced banks too, with the same channels and times. Clocks count whole
/// runs, prompts included.
#[test]
fn the_shortest_plan_is_never_slower_than_serial_on_the_same_memory() {
    let lengths: [&[(usize, usize)]; 4] = [
        &[(3, 9), (4, 9), (2, 9), (5, 9), (1, 9), (3, 9), (3, 9), (4, 9)],
        &[(30, 4), (2, 12), (9, 6), (1, 3)],
        &[(40, 8), (50, 6)],
        &[(6, 1), (7, 2), (3, 2), (8, 1), (5, 1)],
    ];
    let small = Hardware::preset("librapim-small-npu").unwrap();
    let mut groups = [0; 2];
    for (hidden, heads, ffn) in [(64, 4, 256), (64, 4, 32), (32, 2, 536)] {
        let model = random_model(hidden, heads, ffn);
        for (hardware, channels) in [(small, 2), (small, 4), (Hardware::default(), 2)] {
            let config = memory(channels);
            let hardware = Hardware { pim: Pim { channels, ..hardware.pim }, ..hardware };
            for lengths in lengths {
                let prompts = prompts(lengths, 64);
                let run = |groups, offloading| {
                    let channels = boxed(PseudoChannel::all(&config).unwrap());
                    let arrangement = Arrangement { groups, offloading, record: 0..0 };
                    run_arranged(&model, &config, &hardware, arrangement, &prompts, channels).unwrap().0
                };
                let serial = run(1, Offloading::None);
                let shortest = run(2, Offloading::Live(Rule::Shortest));
                assert_texts(&model, &prompts, &shortest);
                let [own, serials] = [shortest.clocks, serial.clocks];
                println!("{hidden}/{heads}/{ffn}, {channels} channels, {lengths:?}: {own} of {serials}");
                assert!(own <= serials, "{hidden}/{heads}/{ffn}, {channels} channels, {lengths:?}");
                groups[shortest.groups - 1] += 1;
            }
        }
    }
    assert!(groups.iter().all(|&runs| runs > 0), "{groups:?}");
}

#[test]
fn offloading_that_cannot_be_is_refused() {
    let model = random_model(64, 4, 96);
    let prompts = prompts(&[(3, 2), (2, 2), (2, 2)], 64);
    let says = |config: &HbmConfig, offloading| {
        run(&model, config, &Hardware::default(), offloading, &prompts).map(drop).unwrap_err().to_string()
    };
    let fixed = |ffn, mha| Offloading::Fixed { ffn, mha };
    assert_eq!(
        says(&memory(2), fixed(3, 0)),
        "requests of a group whose FFN is offloaded = 3 must be in 0..=2"
    );
    assert_eq!(
        says(&memory(2), fixed(0, 3)),
        "requests of a group whose attention is offloaded = 3 must be in 0..=2"
    );
    assert_eq!(
        says(&memory(2).unsliced(), fixed(1, 0)),
        "offloading needs sliced banks, but memory 'librapim-small-unsliced' does not slice its banks"
    );
    let few =
        run(&model, &memory(2), &Hardware::default(), fixed(1, 0), &prompts[..1]).map(drop).unwrap_err();
    assert_eq!(
        few.to_string(),
        "prompts = 1, expected at least 2, one for each group: add prompts, or choose the mode serial, or dex+dbo with the shortest plan"
    );
    let shortest = Offloading::Live(Rule::Shortest);
    let (one, _) = run(&model, &memory(2), &Hardware::default(), shortest, &prompts[..1]).unwrap();
    assert_eq!(one.groups, 1);
    assert_texts(&model, &prompts[..1], &one);
    // Six rows for weights fit them, but no copies of keys and values.
    let small =
        "name = \"s\"\n[device]\nchannels = 2\nrow_bits = 5\nsubarray_rows = 1\nweight_subarrays = 6\n";
    let small = HbmConfig::from_toml(small).unwrap();
    let many = common::prompts(&[(60, 2), (60, 2), (60, 2)], 64);
    let channels = boxed(PseudoChannel::all(&small).unwrap());
    let arrangement = Arrangement { groups: 2, offloading: fixed(0, 1), record: 0..0 };
    let hardware = Hardware::from(Pim { channels: 2, ..Pim::default() });
    let error = run_arranged(&model, &small, &hardware, arrangement, &many, channels).map(drop).unwrap_err();
    let expected = "columns of weights and of keys and values for the NPU: 3408 needed, only 3072 available; \
                    take a memory with more channels or rows, or fewer or shorter requests";
    assert_eq!(error.to_string(), expected);
    // Known before channels are opened.
    let arrangement = Arrangement { groups: 2, offloading: fixed(0, 1), record: 0..0 };
    let room = |config| check_room(&model, config, &arrangement, &many);
    assert_eq!(room(&small).unwrap_err().to_string(), expected);
    room(&memory(2)).unwrap();
}

#[test]
fn shared_products_are_exact_for_any_numbers() {
    let config = memory(2);
    let hardware = Hardware::from(Pim { channels: 2, ..Pim::default() });
    let shape = CacheShape { sequences: 1, layers: 1, heads: 1, head_width: 16, positions: 16 };
    let mut rng = SplitMix64::new(5);
    // Rows of inputs: less than one, exactly one, one and an element, three. Channels share outputs unevenly.
    for (rows, cols, vectors) in [(7, 40, 3), (3, 512, 16), (5, 513, 2), (4, 1100, 5)] {
        let mut any = |count: usize, special: bool| -> Vec<f16> {
            let mut number = || {
                let bits = rng.next_u64();
                // All exponents, or without NaN and infinities, which hide the rest.
                f16::from_bits(if special || bits & 0x7C00 != 0x7C00 {
                    bits as u16
                } else {
                    bits as u16 ^ 0x4000
                })
            };
            (0..count).map(|_| number()).collect()
        };
        let weights = any(rows * cols, false);
        let mut inputs: Vec<Vec<f16>> = (0..vectors).map(|_| any(cols, false)).collect();
        inputs[0] = any(cols, true);
        let channels = boxed(PseudoChannel::all(&config).unwrap());
        let mut machine = Machine::new(&config, &hardware, shape, cols, channels).unwrap();
        machine.load("matrix", (rows, cols), &weights).unwrap();
        let product = Product { label: "matrix".to_owned(), vectors: inputs.clone(), others: 1 };
        machine.start_shared(0, &product).unwrap();
        let Some(Done::Shared(0, found)) = machine.run().unwrap() else { panic!("not done") };
        assert_eq!(found.len(), vectors * rows);
        for (index, found) in found.into_iter().enumerate() {
            let (vector, row) = (index / rows, index % rows);
            let expected = dot(&weights[row * cols..][..cols], &inputs[vector]);
            assert_eq!(found.to_bits(), expected.to_bits(), "{rows} x {cols}, {vector}, {row}");
        }
        assert_eq!(machine.channels().map(Pins::violations).sum::<u64>(), 0);
        let many = Product { vectors: vec![inputs[0].clone(); 17], ..product.clone() };
        assert_eq!(
            machine.start_shared(0, &many).unwrap_err().to_string(),
            "vectors of the memory = 17 must be in 1..=16"
        );
        let absent = Product { label: "other".to_owned(), ..product };
        assert!(machine.start_shared(0, &absent).unwrap_err().to_string().contains("'other'"));
    }
}

/// Late reads: the multipliers' rows are open long before the first column, and slots hold another product's data.
#[test]
fn macs_wait_for_the_columns_that_they_share() {
    let config = memory(2);
    let shape = CacheShape { sequences: 1, layers: 1, heads: 1, head_width: 16, positions: 16 };
    let (rows, cols) = (8, 64);
    let mut rng = SplitMix64::new(2);
    let mut number = || f16::from_bits(0x3000 | (rng.next_u64() & 0x8FFF) as u16);
    let mut memory = Memory::new(&config, shape, cols).unwrap();
    let weights: Vec<Vec<f16>> = (0..2).map(|_| (0..rows * cols).map(|_| number()).collect()).collect();
    let inputs: Vec<Vec<f16>> = (0..2).map(|_| (0..cols).map(|_| number()).collect()).collect();
    let mut controller = Controller::new(&config, 0, Box::new(PseudoChannel::new(&config).unwrap())).unwrap();
    for (label, weights) in ["first", "second"].into_iter().zip(&weights) {
        memory.add(label, (rows, cols), weights).unwrap();
        let stored = memory.weights(label).unwrap();
        for (place, &column) in memory.places(stored, 0).unwrap().into_iter().zip(&stored.columns[0]) {
            controller.access(Access::Write(place, column));
        }
    }
    for (number, label) in ["first", "second"].into_iter().enumerate() {
        let product = Product { label: label.to_owned(), vectors: inputs.clone(), others: 0 };
        let work = channel_work(&product, &memory, &config, 0).unwrap();
        let mut partial = Partial::new(&config, inputs.len(), rows).unwrap();
        let mut awaited = work.awaited;
        // In another row, so that the product's are closed.
        let late = Place { bank: 3, row: 200, column: 0 };
        (0..400).for_each(|_| controller.access(Access::Read(late)));
        let reads = work.reads.iter().map(|(access, _)| *access);
        controller.multiply(work.inputs, reads, work.operations);
        while !controller.is_idle() {
            assert!(controller.clock() < 20_000);
            controller.step().unwrap();
            while let Some(returned) = controller.take() {
                if let Returned::OfProduct(column) = returned {
                    partial.take(awaited.pop_front().unwrap(), &column);
                }
            }
        }
        let found = partial.finish().unwrap();
        for (vector, input) in inputs.iter().enumerate() {
            for row in (0..rows).step_by(2) {
                let expected = dot(&weights[number][row * cols..][..cols], input);
                assert_eq!(
                    found[vector * rows + row].to_bits(),
                    expected.to_bits(),
                    "{label} {vector} {row}"
                );
            }
        }
    }
    assert_eq!(controller.pins().violations(), 0);
}
