//! Energy of the ranks of a DIMM, down to the bank.

use crate::counts::RankActivity;
use crate::dram::{DramCosts, DramEnergy};
use crate::energy::Energy;
use serde::Serialize;

/// A rank: what it was used for and what that took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RankEnergy {
    pub total: Energy,
    pub parts: DramEnergy,
    /// ACT, RD and WR by bank: the sum of these parts, the data bus left out.
    pub banks: Vec<Energy>,
    pub counted: RankActivity,
}

/// All ranks of a DIMM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DimmEnergy {
    /// All of it: the sum of the ranks, and of the parts.
    pub total: Energy,
    pub parts: DramEnergy,
    pub ranks: Vec<RankEnergy>,
}

impl DimmEnergy {
    /// Of ranks that were used like this.
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
