//! Random messages between two DIMMs, among the instructions of random programs.

use ndp_isa::{Code, Data, Instruction, Program, RandomKind, Transfer};
use ndp_numerics::SplitMix64;

/// First burst of a rank where messages come from; programs are below, the hosts' traffic is above.
pub const SOURCES: u32 = 1 << 24;
pub const TARGETS: u32 = 1 << 25;
/// First burst of the DIMM for results of received data.
const RESULTS: u32 = 1 << 24;

pub fn below(random: &mut SplitMix64, bound: u64) -> u32 {
    (random.next_u64() % bound) as u32
}

pub struct Plan {
    programs: [Program; 2],
    /// Transfers of each program, in the order of the messages, with barriers where one uses what another has received.
    transfers: [Vec<Instruction>; 2],
    /// Ranges that have received a message: rank burst, bursts in each rank.
    received: [Vec<(u32, u32)>; 2],
}

impl Plan {
    pub fn new(programs: [Program; 2]) -> Self {
        Self { programs, transfers: Default::default(), received: Default::default() }
    }

    /// A message of any length from one DIMM to the other, between any ranks of two.
    pub fn message(&mut self, random: &mut SplitMix64) {
        let from = below(random, 2) as usize;
        let slot = below(random, 1 << 16);
        let index = (self.received[0].len() + self.received[1].len()) as u32;
        let most = [3, 17, 120][below(random, 3) as usize];
        let (ranks, count, ranks_there, count_there) = match below(random, 4) {
            0 => (1 << below(random, 2), 1 + below(random, most), 1 << below(random, 2), 0),
            1 => (1 << below(random, 2), 2 * (1 + below(random, most)), 3, 2),
            2 => (3, 1 + below(random, most), 1 << below(random, 2), 1),
            _ => (3, 1 + below(random, most), 3, 0),
        };
        let count_there = match count_there {
            1 => 2 * count,
            2 => count / 2,
            _ => count,
        };
        // Received data are sent on, after a barrier, or something new.
        let old = self.received[from].last().filter(|(_, bursts)| *bursts >= count).copied();
        let address = match old.filter(|_| ranks == 3 && below(random, 2) == 0) {
            Some((address, _)) => {
                self.transfers[from].push(Instruction::Barrier);
                address
            }
            None => {
                let address = SOURCES + 512 * index + below(random, 200);
                self.programs[from].data.push(Data::Random {
                    address: 2 * address,
                    bursts: 2 * count,
                    seed: random.next_u64(),
                    kind: RandomKind::Finite,
                });
                address
            }
        };
        let there = TARGETS + 512 * index + below(random, 200);
        let node = 1 - from as u32;
        self.transfers[from].push(Instruction::Send(Transfer { address, count, ranks, node, slot }));
        let receive =
            Transfer { address: there, count: count_there, ranks: ranks_there, node: from as u32, slot };
        self.transfers[1 - from].push(Instruction::Receive(receive));
        let usable = if ranks_there == 3 { count_there } else { 0 };
        self.received[1 - from].push((there, usable));
    }

    /// Inserts the transfers into the programs; at the end some of the received data are loaded and stored.
    pub fn finish(mut self, random: &mut SplitMix64) -> [Program; 2] {
        for (program, transfers) in self.programs.iter_mut().zip(&self.transfers) {
            let mut places: Vec<usize> =
                transfers.iter().map(|_| below(random, program.code.len() as u64 + 1) as usize).collect();
            places.sort_unstable();
            for (place, transfer) in places.into_iter().zip(transfers).rev() {
                program.code.insert(place, Code::Instruction(*transfer));
            }
        }
        for (program, received) in self.programs.iter_mut().zip(&self.received) {
            program.push(Instruction::Barrier);
            for (index, (address, bursts)) in (0..).zip(received).filter(|(_, (_, bursts))| *bursts > 0) {
                let (cols, batch) = ((64 * bursts).min(8192), 1);
                program.push(Instruction::Load { dst: 0, cols, batch, address: 2 * address });
                program.push(Instruction::Store { src: 0, cols, batch, address: RESULTS + 1024 * index });
            }
        }
        self.programs
    }
}
