//! Do the costs follow the formulae, and do all sums give the same total?

use ndp_config::DesignConfig;
use ndp_energy::{
    BankCounts, BusBits, BusCounts, DimmEnergy, DramConstants, DramCosts, DramPart, DramUse, Energy,
    RankActivity, RankCounts,
};

fn costs(preset: &str) -> DramCosts {
    let design = DesignConfig::preset(preset).unwrap();
    DramCosts::new(&DramConstants::of_design(design.dram()).unwrap(), design.dram())
}

/// nJ times a thousand as an integer of pJ.
fn pj(energy: Energy) -> u128 {
    (energy.value + 500) / 1_000
}

/// By hand from the currents: mA * V * ns are pJ.
#[test]
fn costs_are_those_of_the_formulae() {
    let x8 = costs("hermes-x8");
    // 57 * 46.25 - 52 * 32.5 - 37 * 13.75 = 437.5 mA ns; 1.2 V, 8 devices. VPP is the same with and without ACT.
    assert_eq!(pj(x8.activate), 4_200);
    // (168 - 52) and (150 - 52) mA over 2.5 ns.
    assert_eq!((pj(x8.read), pj(x8.write)), (2_784, 2_352));
    // (250 - 37) mA of 1.2 V and (28 - 3) mA of 2.5 V over 350 ns.
    assert_eq!(pj(x8.refresh), 715_680 + 175_000);
    // A clock of 625 ps: (52 * 1.2 + 3 * 2.5) mW * 8.
    assert_eq!((x8.active_clock.value, x8.precharged_clock.value), (349_500, 259_500));
    let x16 = costs("hermes");
    // 95 * 46.25 - 56 * 32.5 - 37 * 13.75 = 2065 mA ns; 1.2 V, 4 devices; and 1 mA of VPP over 46.25 ns.
    assert_eq!(pj(x16.activate), 9_912 + 463);
    assert_eq!((pj(x16.read), pj(x16.write)), (2_952, 2_664));
    // Bounds of RD: 0.55 of it, and all.
    assert_eq!((x16.read.low, x16.read.high), (x16.read.value * 55 / 100, x16.read.value));
}

fn ranks(bus: bool) -> Vec<RankActivity> {
    let rank = |rank: u64| {
        let bank = |bank: u64| BankCounts {
            activates: 3 + rank + 7 * bank,
            reads: 1_000 + 13 * bank * rank,
            writes: 77 * (bank + 1) + rank,
        };
        let bits = |seed: u64| BusBits { bits: 512 * seed, ones: 300 * seed, toggles: 111 * seed + 5 };
        let bus = bus.then(|| BusCounts { read: bits(9 + rank), write: bits(4 + rank) });
        RankActivity::new(
            [100_000 + rank, 60_123 * (rank + 1) / 3, 8 + rank],
            (0..8).map(bank).collect(),
            bus,
        )
    };
    (0..4).map(rank).collect()
}

#[test]
fn ranks_banks_and_parts_have_the_same_sum() {
    let costs = costs("hermes");
    for bus in [false, true] {
        let all = ranks(bus);
        let dimm = DimmEnergy::new(&costs, all.clone());
        assert_eq!(dimm.parts.iter().map(|(_, energy)| energy).sum::<Energy>(), dimm.total);
        assert_eq!(dimm.ranks.iter().map(|rank| rank.total).sum::<Energy>(), dimm.total);
        for rank in &dimm.ranks {
            let commands = [DramPart::Activate, DramPart::Read, DramPart::Write];
            let of_banks: Energy = rank.banks.iter().copied().sum();
            assert_eq!(of_banks, commands.into_iter().map(|part| rank.parts.get(part)).sum());
            assert!(DramPart::ALL.into_iter().all(|part| rank.parts.get(part).value > 0));
        }
        // Costs add up over ranks, and over parts of the time.
        let start: Vec<RankActivity> = all
            .iter()
            .map(|rank| {
                RankActivity::new(
                    [0; 3],
                    vec![BankCounts::default(); rank.banks.len()],
                    rank.bus.map(|_| BusCounts::default()),
                )
            })
            .collect();
        let together = DramUse::since(&all, &start);
        assert_eq!(costs.of(&together).total(), dimm.total);
        let half: Vec<RankActivity> = all
            .iter()
            .map(|rank| {
                let banks = rank.banks.iter().map(|bank| BankCounts { reads: bank.reads / 3, ..*bank });
                let RankCounts { cycles, active_cycles, refreshes, .. } = rank.counts;
                let bus = rank.bus.map(|bus| BusCounts { write: BusBits::default(), ..bus });
                RankActivity::new([cycles / 2, active_cycles / 5, refreshes / 2], banks.collect(), bus)
            })
            .collect();
        let mut both = DramUse::since(&half, &start);
        both += DramUse::since(&all, &half);
        assert_eq!(both, together);
    }
}

#[test]
fn a_bus_of_known_bits_costs_its_zeros_changes_and_strobes() {
    let costs = costs("hermes-x8");
    let of = |ones, toggles| {
        let read = BusBits { bits: 512, ones, toggles };
        let bus = Some(BusCounts { read, write: BusBits::default() });
        let commands = BankCounts { reads: 1, ..BankCounts::default() };
        costs
            .of(&DramUse { counts: RankCounts { commands, ..RankCounts::default() }, bus })
            .get(DramPart::ReadBus)
    };
    // 0.68 pJ per bit for strobes, 5.47 pJ per 0, 0.85 pJ per change.
    assert_eq!(of(512, 0).value, 512 * 680);
    assert_eq!(of(500, 7).value, 512 * 680 + 12 * 5_470 + 7 * 850);
    // Unknown bits are in between.
    let unknown = costs.random_burst(true);
    assert_eq!(unknown.value, 512 * (680 + (5_470 + 850) / 2));
    assert!(unknown.low <= of(512, 0).low && of(0, 512).high <= unknown.high);
}

#[test]
fn an_idle_rank_refreshes_and_waits() {
    let costs = costs("hermes-x8");
    let idle = costs.idle(12_480 * 100);
    assert_eq!(idle.get(DramPart::Refresh).value, costs.refresh.value * 100);
    assert_eq!(idle.get(DramPart::PrechargedStandby).value, costs.precharged_clock.value * 1_248_000);
    assert_eq!(idle.get(DramPart::PrechargedStandby).high, costs.active_clock.high * 1_248_000);
    assert_eq!(idle.get(DramPart::ActiveStandby), Energy::default());
}

#[test]
fn amounts_are_shown_with_three_digits_and_their_range() {
    for (fj, shown) in [
        ([0.0; 3], "0 fJ"),
        ([999.0; 3], "999 fJ"),
        ([1234.0; 3], "1.23 pJ"),
        ([1.0e15, 2.0e15, 12.34e15], "2 J (1 to 12.3)"),
        ([0.05e9, 123.4e9, 1.0e12], "123 uJ (0.05 to 1000)"),
    ] {
        assert_eq!(Energy::from_fj(fj).to_string(), shown);
    }
    assert_eq!(Energy::from_fj([-3.0, 0.4, 0.5]), Energy { low: 0, value: 0, high: 1 });
    assert_eq!(
        Energy::from_w_ns([1.0, 2.0, 3.0], 5),
        Energy { low: 5_000_000, value: 10_000_000, high: 15_000_000 }
    );
}
