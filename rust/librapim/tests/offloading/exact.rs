//! Is the number that is offloaded always the best one, and the smallest of the best?

use crate::offloading::closed_form::{Linear, PaperTimes};
use ndp_config::LlmShape;
use ndp_librapim::offloading::algorithm::{Slot, Stage};
use ndp_librapim::offloading::evaluate::{BATCHES, SEQUENCES};
use ndp_librapim::offloading::{
    AnalyticTimes, Decision, DeviceTimes, Hardware, KvMapping, MeasuredTimes, Model, Npu, Picos, Pim,
    Scheduler, TableFile, Usage, Work, balance, exhaustive,
};
use ndp_numerics::SplitMix64;

fn below(rng: &mut SplitMix64, end: u64) -> u64 {
    rng.next_u64() % end
}

fn model(name: &str) -> Model {
    Model::of(&LlmShape::preset(name).unwrap())
}

/// Times with plateaus and jumps that never fall.
fn staircase(rng: &mut SplitMix64, length: u32) -> Vec<u64> {
    let (mut time, jumps) = (below(rng, 40), 1 + below(rng, 8));
    (0..=length)
        .map(|_| {
            if below(rng, jumps) == 0 {
                time += below(rng, 10);
            }
            time
        })
        .collect()
}

#[test]
fn staircases_are_balanced_as_exhaustive_search_does() {
    let mut rng = SplitMix64::new(7);
    let (mut inner, mut ties) = (0, 0);
    for case in 0..200_000 {
        let limit = below(&mut rng, 40) as u32;
        let rising = staircase(&mut rng, limit);
        let falling: Vec<_> = staircase(&mut rng, limit).into_iter().rev().collect();
        let (falling, rising) = (|k: u32| falling[k as usize], |k: u32| rising[k as usize]);
        let best = exhaustive(limit, falling, rising);
        assert_eq!(balance(limit, falling, rising), best, "seed 7, case {case}");
        inner += u32::from(best.count > 0 && best.count < limit);
        ties += u32::from(
            best.count < limit && falling(best.count + 1).max(rising(best.count + 1)) == best.longer(),
        );
    }
    assert!(inner > 20_000 && ties > 20_000, "{inner} {ties}");
}

#[test]
fn straight_lines_have_a_closed_form() {
    let mut rng = SplitMix64::new(8);
    for case in 0..200_000 {
        let limit = below(&mut rng, 400) as u32;
        let relief = u128::from(below(&mut rng, 30));
        let line = Linear {
            falling: relief * u128::from(limit) + u128::from(below(&mut rng, 2000)),
            relief,
            rising: u128::from(below(&mut rng, 4000)),
            burden: u128::from(below(&mut rng, 30)),
        };
        let best = exhaustive(limit, |k| line.falling(k), |k| line.rising(k));
        assert_eq!(line.balance(limit), best, "seed 8, case {case}: {line:?}, limit {limit}");
        assert_eq!(balance(limit, |k| line.falling(k), |k| line.rising(k)), best);
    }
}

#[test]
fn algorithm_1_with_flops_is_exact_over_the_grid_and_line_16_as_printed_is_not() {
    let hardware = Hardware::default();
    let gflops = |macs: f64| (2.0 * macs / 1e9) as u32;
    let (mut ffn, mut mha, mut worse) = (0, 0, 0);
    for name in ["gpt3-175b", "llama3-70b"] {
        let model = model(name);
        let times = PaperTimes {
            qkv_and_projection: 2 * (model.qkv().weights() + model.projection().weights()),
            ffn: 2 * model.ffn_weights(),
            mha_per_token: 2 * model.attention_macs(1),
            xpu_gflops: gflops(hardware.npu_macs_per_second()),
            xpu_gemv_gflops: gflops(hardware.bus_bytes_per_second(true) / 2.0),
            pim_gflops: gflops(hardware.pim_macs_per_second(true)) / 8,
        };
        for batch in BATCHES {
            for sequence in SEQUENCES {
                let group = batch / 2;
                for line in [times.ffn(group, sequence), times.mha(group, sequence)] {
                    let best = exhaustive(group, |k| line.falling(k), |k| line.rising(k));
                    assert_eq!(line.balance(group), best, "{name} {batch} {sequence}");
                }
                let line = times.ffn(group, sequence);
                if line.falling > line.rising {
                    ffn += 1;
                    let printed = times.ffn_as_printed(group, sequence).balance(group).count;
                    let longer = line.falling(printed).max(line.rising(printed));
                    assert!(longer >= line.balance(group).longer());
                    worse += u32::from(longer > line.falling);
                } else {
                    mha += u32::from(times.mha(group, sequence).balance(group).count > 0);
                }
            }
        }
    }
    assert!(ffn > 20 && mha > 5, "{ffn} {mha}");
    assert!(worse > 20, "as printed, {worse} of {ffn} are slower than without offloading");
}

#[test]
fn every_point_of_the_papers_grid_is_decided_as_exhaustive_search_does() {
    let (mut points, mut ffn, mut mha) = (0, 0, 0);
    // As is; with multipliers at an eighth of the pace; with arrays that load tiles faster than HBM delivers.
    let slow = Hardware::from(Pim { t_ccd_l: 16, ..Pim::default() });
    let wide = Hardware::from(Npu { load_rows: 4, ..Npu::default() });
    let by_request = Hardware {
        pim: Pim { usage: Usage { kv_mapping: KvMapping::Requests, ..Usage::default() }, ..slow.pim },
        ..slow
    };
    for hardware in [Hardware::default(), slow, wide, by_request] {
        for name in ["gpt3-175b", "llama3-70b"] {
            for model in [model(name), model(name).with_all_kv_heads()] {
                let times = AnalyticTimes::new(&model, &hardware, true);
                for batch in BATCHES {
                    for sequence in SEQUENCES {
                        for stage in [Stage::First, Stage::Middle, Stage::Last, Stage::Idle] {
                            let requests = if stage == Stage::Idle { 0 } else { batch / 2 };
                            let slot = Slot { stage, requests, mha_requests: batch / 2, context: sequence };
                            let scheduler = Scheduler::new(&times, hardware.pim.channels);
                            let choice = scheduler.decide(slot);
                            assert_eq!(choice, scheduler.decide_exhaustively(slot), "{name} {slot:?}");
                            let sides = scheduler.sides(slot);
                            let limit = if matches!(stage, Stage::First | Stage::Idle) {
                                0
                            } else {
                                requests.min(64)
                            };
                            let with_ffn = exhaustive(limit, |m| sides.npu_without(m), |m| sides.pim_with(m));
                            let with_mha =
                                exhaustive(batch / 2, |n| sides.pim_without(n), |n| sides.npu_with(n));
                            assert_eq!(choice.longer(), with_ffn.longer().min(with_mha.longer()));
                            let shares = scheduler.shares(slot).map(|share| share.longer());
                            assert_eq!(shares, [with_ffn.longer(), with_mha.longer()]);
                            points += 1;
                            ffn += u32::from(matches!(choice.decision, Decision::Ffn(_)));
                            mha += u32::from(matches!(choice.decision, Decision::Mha(_)));
                        }
                    }
                }
            }
        }
    }
    assert_eq!(points, 4 * 4 * 45 * 4);
    assert!(ffn > 200 && mha > 300, "{ffn} {mha}");
}

#[test]
fn more_work_never_takes_less_time() {
    for name in ["gpt3-175b", "llama3-70b"] {
        for kv_mapping in [KvMapping::Heads, KvMapping::Requests] {
            let hardware =
                Hardware::from(Pim { usage: Usage { kv_mapping, ..Usage::default() }, ..Pim::default() });
            let times = AnalyticTimes::new(&model(name), &hardware, true);
            let of = |b: u32| {
                let npu = [
                    times.npu(Work::Qkv, b, 1),
                    times.npu(Work::Projection, b, 1),
                    times.npu(Work::Ffn, b, 1),
                    times.npu(Work::Head, b, 1),
                ];
                let pim = [times.pim(Work::Qkv, b, 1), times.pim(Work::Projection, b, 1), times.ffn_pim(b)];
                npu.map(|time| time.total()).into_iter().chain(pim).collect::<Vec<_>>()
            };
            assert!(of(0).iter().all(|&time| time == Picos::ZERO));
            for b in 0..384 {
                assert!(of(b).iter().zip(of(b + 1)).all(|(less, more)| *less <= more), "{b}");
            }
            let of = |b: u32, l: u32| [times.mha_pim(b, l), times.npu(Work::Mha, b, l).total()];
            for (b, l) in (0..=200).step_by(5).flat_map(|b| (1..600).step_by(7).map(move |l| (b, l))) {
                let here = of(b, l);
                for more in [of(b + 1, l), of(b, l + 1)] {
                    assert!(here[0] <= more[0] && here[1] <= more[1], "{b} {l}");
                }
            }
        }
    }
}

fn table() -> TableFile {
    let times = AnalyticTimes::new(&model("llama3-70b"), &Hardware::default(), true);
    TableFile::sample(&times, &[8, 16, 32, 64, 192], &[16, 100, 1000, 4096])
}

#[test]
fn a_table_has_what_was_measured_and_rises_in_between() {
    let computed = AnalyticTimes::new(&model("llama3-70b"), &Hardware::default(), true);
    let times = MeasuredTimes::new(table()).unwrap();
    assert_eq!(times.limits(), (192, 4096));
    for b in [8, 16, 32, 64, 192] {
        assert_eq!(times.ffn_pim(b), computed.ffn_pim(b));
        assert_eq!(times.npu(Work::Ffn, b, 1), computed.npu(Work::Ffn, b, 1));
        for l in [16, 100, 1000, 4096] {
            assert_eq!(times.mha_pim(b, l), computed.mha_pim(b, l));
            assert_eq!(times.npu(Work::Mha, b, l), computed.npu(Work::Mha, b, l));
        }
    }
    assert_eq!(times.ffn_pim(0), Picos::ZERO);
    assert_eq!(times.ffn_pim(3), computed.ffn_pim(8));
    let (low, high) = (computed.ffn_pim(16).0, computed.ffn_pim(32).0);
    assert_eq!(times.ffn_pim(20).0, (low * 12 + high * 4).div_ceil(16));
    for b in 0..192 {
        assert!(times.ffn_pim(b) <= times.ffn_pim(b + 1));
        assert!(times.mha_pim(b, 333) <= times.mha_pim(b + 1, 333));
        assert!(times.mha_pim(b, 15 + b) <= times.mha_pim(b, 16 + b));
    }
}

#[test]
fn decisions_from_tables_of_random_times_are_those_of_exhaustive_search() {
    let mut rng = SplitMix64::new(9);
    let (mut ffn, mut mha) = (0, 0);
    for case in 0..3000 {
        let scale = 1 + below(&mut rng, 40);
        let mut file = table();
        let mut redo = |times: &mut Vec<Picos>, scale: u64| {
            let mut column = staircase(&mut rng, times.len() as u32 - 1);
            column.iter_mut().for_each(|time| *time *= scale);
            *times = column.into_iter().map(Picos).collect();
        };
        redo(&mut file.ffn_pim, scale);
        let mut npu = vec![Picos::ZERO; 5];
        for column in [&mut file.ffn_npu, &mut file.qkv_npu, &mut file.projection_npu] {
            redo(&mut npu, 20);
            for (entry, time) in column.iter_mut().zip(&npu) {
                (entry.read, entry.compute) = (Picos::ZERO, *time);
            }
        }
        let mut row = vec![Picos::ZERO; 5];
        redo(&mut row, 30);
        for (index, time) in file.mha_pim.iter_mut().enumerate() {
            *time = Picos(row[index / 4].0 + (index % 4) as u64 * 50);
        }
        redo(&mut row, scale);
        for (index, time) in file.mha_npu.iter_mut().enumerate() {
            (time.read, time.compute) = (Picos(row[index / 4].0 + (index % 4) as u64), Picos::ZERO);
        }
        let times = MeasuredTimes::new(file).unwrap();
        for _ in 0..2 {
            let requests = 1 + below(&mut rng, 192) as u32;
            let mha_requests = 1 + below(&mut rng, 192) as u32;
            let context = 1 + below(&mut rng, 4096) as u32;
            let slot = Slot { stage: Stage::Middle, requests, mha_requests, context };
            let scheduler = Scheduler::new(&times, 64);
            let choice = scheduler.decide(slot);
            assert_eq!(choice, scheduler.decide_exhaustively(slot), "seed 9, case {case}: {slot:?}");
            ffn += u32::from(matches!(choice.decision, Decision::Ffn(_)));
            mha += u32::from(matches!(choice.decision, Decision::Mha(_)));
        }
    }
    assert!(ffn > 500 && mha > 200, "{ffn} {mha}");
}

#[test]
fn a_table_that_falls_or_does_not_fit_is_refused() {
    let refused = |change: &dyn Fn(&mut TableFile)| {
        let mut file = table();
        change(&mut file);
        MeasuredTimes::new(file).unwrap_err().to_string()
    };
    assert!(
        refused(&|file| file.ffn_pim[2] = Picos(5)).starts_with("table: ffn_pim[2] = 5 ps must be at least")
    );
    assert!(refused(&|file| file.mha_pim[7] = Picos(1)).contains("mha_pim[7] = 1"));
    assert!(refused(&|file| file.requests[1] = 8).contains("requests[1] = 8 must be above 8"));
    assert!(refused(&|file| file.contexts[0] = 0).contains("contexts[0] = 0"));
    assert!(refused(&|file| file.mha_npu.truncate(19)).contains("mha_npu has 19 entries, 20 expected"));
    assert!(refused(&|file| file.head_npu[4].read = Picos(u64::MAX)).contains("head_npu"));
    assert!(refused(&|file| file.requests.clear()).contains("requests has 0 entries"));
    let mut times = MeasuredTimes::new(table()).unwrap();
    let before = times.clone();
    assert!(times.update(|file| file.ffn_pim[1] = Picos(1)).is_err());
    assert_eq!(times, before);
    times.update(|file| file.ffn_pim[4].0 += 7).unwrap();
    assert_eq!(times.ffn_pim(192), before.ffn_pim(192) + Picos(7));
}
