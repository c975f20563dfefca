//! HBM-PIM: do the costs follow the table, and do all sums give the same total?

use ndp_config::HbmConfig;
use ndp_energy::{
    Energy, HbmBank, HbmChannelEnergy, HbmConstants, HbmCosts, HbmCounts, HbmEnergy, HbmEvent, HbmPart,
    HbmSizes, NpuConstants, ratio_range,
};

fn sizes() -> HbmSizes {
    HbmSizes::of(&HbmConfig::preset("librapim").unwrap())
}

fn costs() -> HbmCosts {
    HbmCosts::new(&HbmConstants::preset("hbm2-8gb").unwrap(), sizes())
}

/// By hand: fJ of a column of 256 bits, 16 banks, 16 lanes.
#[test]
fn each_command_pays_for_the_way_that_its_column_goes() {
    let costs = costs();
    let of = |event| costs.event(event).total().value;
    let (column, group, mux, tsv, io) = (112_640, 258_560, 314_880, 128_000, 76_800);
    let buffer = 40_960;
    assert_eq!(of(HbmEvent::Row), 909_000);
    assert_eq!(of(HbmEvent::Read), column + group + mux + tsv + io);
    assert_eq!(of(HbmEvent::Read), 890_880);
    assert_eq!(of(HbmEvent::Write), of(HbmEvent::Read));
    assert_eq!(of(HbmEvent::BufferRead), of(HbmEvent::Read) + buffer);
    assert_eq!(of(HbmEvent::BufferWrite), io + tsv + buffer);
    // 16 columns, one broadcast, 16 banks of 32 operations.
    assert_eq!(of(HbmEvent::Mac), 16 * column + 573_440 + buffer + 16 * 32 * 320);
    assert_eq!(of(HbmEvent::Result), group + mux + tsv + io);
    assert_eq!(of(HbmEvent::Sum), of(HbmEvent::Result));
    assert_eq!(of(HbmEvent::Refresh), 22_000_000);
    assert_eq!(of(HbmEvent::BankRefresh), 22_000_000 / 16);
    assert_eq!((of(HbmEvent::ActiveClock), of(HbmEvent::PrechargedClock)), (33_000, 24_000));
    // MACs use no I/O, RDs no multipliers.
    let mac = costs.event(HbmEvent::Mac);
    for part in [HbmPart::BankGroup, HbmPart::Multiplexer, HbmPart::Tsv, HbmPart::Interposer] {
        assert_eq!(mac.get(part), Energy::default());
        assert!(costs.event(HbmEvent::Read).get(part).low > 0);
    }
    assert_eq!(costs.event(HbmEvent::Read).get(HbmPart::Arithmetic), Energy::default());
    // Sums over the ways are those that the sources measure: 1.57 to 5.16 pJ a bit.
    let read = costs.event(HbmEvent::Read).total();
    assert_eq!((read.low, read.high), (256 * 1_570, 256 * 5_160));
}

#[test]
fn sizes_scale_what_they_should() {
    let constants = HbmConstants::preset("hbm2-8gb").unwrap();
    let with = |sizes| HbmCosts::new(&constants, sizes);
    let (all, of) = (costs(), |costs: &HbmCosts, event| costs.event(event).total().value);
    let wide = with(HbmSizes { row_bytes: 2048, clock_ps: 500, ..sizes() });
    assert_eq!(of(&wide, HbmEvent::Row), 2 * of(&all, HbmEvent::Row));
    assert_eq!(of(&wide, HbmEvent::Read), of(&all, HbmEvent::Read));
    assert_eq!(of(&wide, HbmEvent::ActiveClock), 16_500);
    let few = with(HbmSizes { banks: 4, column_bytes: 16, ..sizes() });
    assert_eq!(of(&few, HbmEvent::Read) * 2, of(&all, HbmEvent::Read));
    assert_eq!(of(&few, HbmEvent::Mac), 4 * 56_320 + (573_440 + 40_960) / 2 + 4 * 16 * 320);
    assert_eq!((all.clocks(1_001), all.refreshes(7_800_000), all.refreshes(7_799_999)), (2, 2, 1));
}

fn channel(costs: &HbmCosts, seed: u64) -> HbmChannelEnergy {
    let banks: Vec<HbmBank> = (0..16)
        .map(|bank| HbmBank { rows: 5 + bank * seed, columns: 1_000 + 31 * bank + seed, macs: 700 + seed })
        .collect();
    let mut counts = HbmCounts::default();
    counts.add(HbmEvent::Row, banks.iter().map(|bank| bank.rows).sum());
    let columns: u64 = banks.iter().map(|bank| bank.columns).sum();
    for (event, count) in [
        (HbmEvent::Read, columns / 2),
        (HbmEvent::BufferRead, columns / 3),
        (HbmEvent::Write, columns - columns / 2 - columns / 3),
        (HbmEvent::BufferWrite, 91 + seed),
        (HbmEvent::Mac, 700 + seed),
        (HbmEvent::Result, 33),
        (HbmEvent::Sum, 44),
        (HbmEvent::Refresh, 9),
        (HbmEvent::BankRefresh, 13),
        (HbmEvent::ActiveClock, 20_001),
        (HbmEvent::PrechargedClock, 3_003),
    ] {
        counts.add(event, count);
    }
    HbmChannelEnergy::new(costs, counts, banks)
}

#[test]
fn commands_parts_channels_and_banks_have_the_same_sum() {
    let costs = costs();
    let channels: Vec<HbmChannelEnergy> = (1..5).map(|seed| channel(&costs, seed)).collect();
    let (mut counts, mut parts) = (HbmCounts::default(), HbmEnergy::default());
    for channel in &channels {
        counts += channel.counted;
        parts += channel.parts;
        assert_eq!(channel.commands.total(), channel.total);
        assert_eq!(channel.parts.total(), channel.total);
        assert!(channel.commands.iter().all(|(_, energy)| energy.low > 0 && energy.low <= energy.value));
        let inside = [HbmPart::Activate, HbmPart::Column, HbmPart::Arithmetic];
        let inside: Energy = inside.into_iter().map(|part| channel.parts.get(part)).sum();
        assert_eq!(channel.banks.iter().copied().sum::<Energy>(), inside);
    }
    assert_eq!(costs.of(&counts), parts);
    assert_eq!(costs.by_event(&counts).total(), channels.iter().map(|channel| channel.total).sum());
}

#[test]
fn an_npu_pays_for_operations_and_time() {
    let npu = NpuConstants::preset("npu-65tflops").unwrap();
    assert_eq!(npu.flops(1_000).value, 370_000);
    // 21.4 W over a microsecond are 21.4 uJ.
    assert_eq!(npu.standby(1_000_000).value, 21_400_000_000);
}

#[test]
fn the_range_of_a_quotient_is_that_of_all_choices() {
    let mut state = 88_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..200 {
        let parts: Vec<(Energy, Energy)> = (0..9)
            .map(|_| {
                let [low, more, most] = [1 + random(20), random(20), random(90)];
                let cost =
                    Energy { low: low.into(), value: (low + more).into(), high: (low + more + most).into() };
                (cost * random(50), cost * (1 + random(50)))
            })
            .collect();
        let choice = |bits: u32| {
            let sums = parts.iter().enumerate().fold((0, 0), |sum, (part, (one, other))| {
                let high = bits >> part & 1 != 0;
                let of = |energy: &Energy| if high { energy.high } else { energy.low };
                (sum.0 + of(one), sum.1 + of(other))
            });
            sums.0 as f64 / sums.1 as f64
        };
        let [low, value, high] = ratio_range(&parts).unwrap();
        let all = || (0..1 << parts.len()).map(choice);
        assert_eq!(low, all().fold(f64::INFINITY, f64::min));
        assert_eq!(high, all().fold(0.0, f64::max));
        assert!(low <= value && value <= high);
    }
    assert_eq!(ratio_range(&[(Energy::default(), Energy::default())]), None);
}

#[test]
fn the_page_has_every_constant_with_its_range_and_source() {
    let page = include_str!("../../../docs/energy-hbm.md");
    let memory = HbmConstants::preset("hbm2-8gb").unwrap();
    let npu = NpuConstants::preset("npu-65tflops").unwrap();
    let way = &memory.pj_per_bit;
    for (key, constant) in [
        ("activate_pj", &memory.activate_pj),
        ("refresh_nj", &memory.refresh_nj),
        ("refresh_interval_ns", &memory.refresh_interval_ns),
        ("active_standby_mw", &memory.active_standby_mw),
        ("precharged_standby_mw", &memory.precharged_standby_mw),
        ("pj_per_bit.column", &way.column),
        ("pj_per_bit.bank_group", &way.bank_group),
        ("pj_per_bit.multiplexer", &way.multiplexer),
        ("pj_per_bit.tsv", &way.tsv),
        ("pj_per_bit.interposer", &way.interposer),
        ("pj_per_bit.buffer", &way.buffer),
        ("pj_per_bit.broadcast", &way.broadcast),
        ("arithmetic.pj_per_op", &memory.arithmetic.pj_per_op),
        ("flop_pj", &npu.flop_pj),
        ("standby_w", &npu.standby_w),
    ] {
        let [low, value, high] = constant.range();
        let line = format!("| `{key}` | {low} | {value} | {high} | {} |", constant.source);
        assert!(page.lines().any(|of_page| of_page == line), "not in the page: {line}");
    }
}

#[test]
fn presets_have_their_names() {
    for name in HbmConstants::PRESETS {
        assert_eq!(HbmConstants::preset(name).unwrap().name, name);
    }
    for name in NpuConstants::PRESETS {
        assert_eq!(NpuConstants::preset(name).unwrap().name, name);
    }
}
