//! Energy of the ranks of a DIMM, down to the bank.

use crate::counts::RankActivity;
use crate::dram::{DramCosts, DramEnergy};
use crate::energy::Energy;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RankEnergy {
    pub total: Energy,
    pub parts: DramEnergy,
    /// ACT, RD and WR by bank: sums to these parts without the data bus.
    pub banks: Vec<Energy>,
    pub counted: RankActivity,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DimmEnergy {
    /// Sums of the ranks, and of the parts.
    pub total: Energy,
    pub parts: DramEnergy,
    pub ranks: Vec<RankEnergy>,
}

impl DimmEnergy {
    pub fn new(costs: &DramCosts, ranks: Vec<RankActivity>) -> Self {
        let mut dimm = Self::default();
        for counted in ranks {
            let parts = costs.of(&counted.dram_use());
            let banks = counted.banks.iter().map(|bank| costs.of_commands(bank).total()).collect();
            dimm.parts += parts;
            dimm.total += parts.total();
            dimm.ranks.push(RankEnergy { total: parts.total(), parts, banks, counted });
        }
        dimm
    }
}
