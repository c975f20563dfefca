//! Three tiers: which neurons are copied to the GPU, which have a place in a DIMM, and which only the SSD has until they are needed.
//!
//! The SSD has all neurons of the MLP. A DIMM keeps the original of every neuron of attention; of the MLP those that are resident. Whatever is not on
//! the GPU is computed by its DIMM, after the SSD has read it if need be: a term takes `max(T_GPU, T_DIMM) + T_SSD`.
//!
//! **Bound.** With prices `l` and `r` for a byte of GPU and DIMMs, 0 or more, and for each term a weight `a` in 0..=1 of its GPU side, no placement takes
//! less than
//!
//! `sum over terms of (2 a T_sync + (1 - a) W / (D BW_dimm)) + sum over neurons of M min(l + f s, r, f / BW_ssd) - l S_GPU - r S_DIMMs`
//!
//! with `s = a / BW_GPU - (1 - a) / (D BW_dimm)`, and `min(l + f s, 0)` for neurons of attention, whose originals take room anyway: `max(x, y)` is at
//! least `a x + (1 - a) y`, the slowest DIMM takes at least the mean, and no price lowers the time of what keeps the capacities. These numbers are the
//! certificate; who checks it needs them, the frequencies and this formula. Both prices and all weights are found by bisection, as the bound is
//! concave in them.
//!
//! DIMMs are divided alike: a placement keeps their capacity if one DIMM has room for as many slots of each block as the fullest one needs. That is no less
//! than the mean, so the bound is one of these placements.
//!
//! **Placement.** Groups go to the GPU by what the bound gains from each byte of them, as long as there is room and, where it gains nothing, as long
//! as the GPU is not the slower side. Of the others of the MLP the coldest are on the SSD; the DIMMs are evenly loaded by all. If there are few enough
//! placements, all are tried.

use crate::placement::balance::{Stored, cold};
use crate::placement::bound::least;
use crate::placement::structured::spread;
use crate::placement::{Instance, ONE, Placement, TermTime, gpu};
use ndp_config::BlockKind;
use ndp_files::{Result, refusal};
use serde::Serialize;

/// Most placements that are tried one by one.
const MOST_TRIED: u64 = 1 << 16;

/// Halvings for prices, and for the weights of terms.
const HALVINGS: [usize; 2] = [40, 26];

/// What a placement on three tiers costs, and what none can go below.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierCertificate {
    /// Time of the placement in microseconds.
    pub objective_us: f64,
    /// No placement takes less.
    pub bound_us: f64,
    /// `objective / bound - 1`.
    pub gap: f64,
    /// Whether all placements have been tried: then none takes less than this one.
    pub exhaustive: bool,
    /// Price of a byte of the GPU in microseconds.
    pub gpu_price: f64,
    /// Price of a byte of the DIMMs in microseconds.
    pub dimm_price: f64,
    /// Weight of the GPU's side of each term.
    pub weights: Vec<f64>,
    /// Bytes of neurons on the GPU.
    pub gpu_bytes: u64,
    /// Bytes of neurons in each DIMM.
    pub dimm_bytes: Vec<u64>,
    /// Bytes of neurons that neither the GPU nor a DIMM has.
    pub ssd_bytes: u64,
    pub terms: Vec<TermTime>,
}

/// Where the bound has a neuron.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tier {
    Gpu,
    Dimm,
    Ssd,
}

/// Time per byte and unit of frequency on each device, and capacities.
struct Rates {
    gpu: f64,
    dimms: f64,
    ssd: f64,
    sync_us: f64,
    gpu_bytes: f64,
    /// What attention leaves of the DIMMs.
    dimm_bytes: f64,
}

/// The bound at two prices.
struct Point {
    us: f64,
    prices: [f64; 2],
    weights: Vec<f64>,
    /// Bytes that are used of GPU and DIMMs.
    used: [f64; 2],
}

/// Sums over a part of a block.
#[derive(Clone, Copy, Default)]
struct Sums {
    us: f64,
    gpu_bytes: f64,
    gpu_work: f64,
    dimm_bytes: f64,
}

ndp_config::sums!(Sums: us, gpu_bytes, gpu_work, dimm_bytes);

/// The costs of a byte of a neuron on each tier, `constant + slope x frequency`; none where it cannot be.
type Costs = [(Tier, f64, f64); 3];

/// The part of the first of two that makes so much of both, 0 to 1.
fn share(wanted: f64, [first, second]: [f64; 2]) -> f64 {
    if first == second { 1.0 } else { ((wanted - second) / (first - second)).clamp(0.0, 1.0) }
}

/// So much of both.
fn mix(part: f64, [first, second]: [f64; 2]) -> f64 {
    part * first + (1.0 - part) * second
}

/// The cheapest tier at a frequency.
fn cheapest(costs: &[(Tier, f64, f64)], frequency: f64) -> (Tier, f64, f64) {
    let cost = |&(_, constant, slope): &(Tier, f64, f64)| constant + slope * frequency;
    // Of equal ones the last.
    costs.iter().copied().rev().min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or((Tier::Dimm, 0.0, 0.0))
}

/// In which order neurons are taken from which the bound gains the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Hottest,
    /// Those first whose copies make room in the DIMMs.
    HottestMlp,
    ColdestMlp,
}

struct Dual<'a> {
    instance: &'a Instance,
    rates: Rates,
    kinds: Vec<BlockKind>,
    /// Sums of the frequencies in front of each position of a block.
    before: Vec<Vec<u64>>,
}

impl<'a> Dual<'a> {
    fn new(instance: &'a Instance, ssd_gbps: f64) -> Self {
        let machine = instance.machine();
        let unit = |gbps: f64| 1.0 / (f64::from(ONE) * 1e3 * gbps);
        let kinds: Vec<BlockKind> = instance.shape().blocks().iter().map(|block| block.kind).collect();
        let of_attention =
            instance.blocks().iter().zip(&kinds).filter(|(_, kind)| **kind == BlockKind::Attention);
        let attention: u64 =
            of_attention.map(|(block, _)| block.order.len() as u64 * block.neuron_bytes).sum();
        let all = machine.dimm_bytes.saturating_mul(machine.dimms.into());
        let before = instance.blocks().iter().map(|block| {
            let sums = block.frequencies.iter().scan(0, |sum, &f| {
                *sum += u64::from(f);
                Some(*sum)
            });
            std::iter::once(0).chain(sums).collect()
        });
        let rates = Rates {
            gpu: unit(machine.gpu_gbps),
            dimms: unit(machine.dimm_gbps) / f64::from(machine.dimms),
            ssd: unit(ssd_gbps),
            sync_us: machine.sync_us,
            gpu_bytes: machine.gpu_bytes as f64,
            dimm_bytes: all.saturating_sub(attention) as f64,
        };
        Self { instance, rates, kinds, before: before.collect() }
    }

    fn costs(&self, kind: BlockKind, [gpu, dimms]: [f64; 2], weight: f64) -> Costs {
        let slope = weight * self.rates.gpu - (1.0 - weight) * self.rates.dimms;
        let (on_dimm, on_ssd) = match kind {
            BlockKind::Attention => ((Tier::Dimm, 0.0, 0.0), (Tier::Dimm, 0.0, 0.0)),
            BlockKind::Mlp => ((Tier::Dimm, dimms, 0.0), (Tier::Ssd, 0.0, self.rates.ssd)),
        };
        [(Tier::Gpu, gpu, slope), on_dimm, on_ssd]
    }

    /// What the bound has of a block.
    fn block(&self, block: usize, costs: &Costs) -> Sums {
        let of = &self.instance.blocks()[block];
        // Between two crossings one tier is the cheapest.
        let mut borders = vec![0.0, f64::from(ONE) + 1.0];
        for (index, (_, constant, slope)) in costs.iter().enumerate() {
            for (_, other, rises) in &costs[..index] {
                let at = (other - constant) / (slope - rises);
                if at > 0.0 && at < f64::from(ONE) + 1.0 {
                    borders.push(at);
                }
            }
        }
        borders.sort_by(f64::total_cmp);
        let bytes = of.neuron_bytes as f64;
        let mut sums = Sums::default();
        for pair in borders.windows(2) {
            let behind = |border: f64| of.frequencies.partition_point(|&f| f64::from(f) >= border);
            let (first, last) = (behind(pair[1]), behind(pair[0]));
            if first == last {
                continue;
            }
            let (tier, constant, slope) = cheapest(costs, f64::midpoint(pair[0], pair[1]));
            let count = (last - first) as f64 * bytes;
            let work = (self.before[block][last] - self.before[block][first]) as f64 * bytes;
            sums.us += constant * count + slope * work;
            match tier {
                Tier::Gpu => (sums.gpu_bytes, sums.gpu_work) = (sums.gpu_bytes + count, sums.gpu_work + work),
                Tier::Dimm if self.kinds[block] == BlockKind::Mlp => sums.dimm_bytes += count,
                _ => {}
            }
        }
        sums
    }

    /// A term at prices and a weight.
    fn term(&self, term: usize, prices: [f64; 2], weight: f64) -> Sums {
        let mut sums = Sums::default();
        for block in self.instance.terms()[term].clone() {
            sums += self.block(block, &self.costs(self.kinds[block], prices, weight));
        }
        let work = self.instance.term_work(term) as f64;
        sums.us += 2.0 * weight * self.rates.sync_us + (1.0 - weight) * self.rates.dimms * work;
        sums
    }

    /// The best weight of each term at prices.
    fn at(&self, prices: [f64; 2]) -> Point {
        let Rates { gpu, dimms, sync_us, gpu_bytes, dimm_bytes, .. } = self.rates;
        let mut point = Point {
            us: -prices[0] * gpu_bytes - prices[1] * dimm_bytes,
            prices,
            weights: Vec::new(),
            used: [0.0; 2],
        };
        for term in 0..self.instance.terms().len() {
            let work = self.instance.term_work(term) as f64;
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..HALVINGS[1] {
                let weight = f64::midpoint(low, high);
                let on_gpu = self.term(term, prices, weight).gpu_work;
                // The bound rises with the weight while the GPU is the slower side.
                let rises = 2.0 * sync_us + gpu * on_gpu > dimms * (work - on_gpu);
                if rises { low = weight } else { high = weight }
            }
            let [below, above] = [low, high].map(|weight| self.term(term, prices, weight));
            let (weight, us) = if below.us >= above.us { (low, below.us) } else { (high, above.us) };
            // Where many neurons change sides at this weight, both sides are equal with a part of them.
            let equal = (dimms * work - 2.0 * sync_us) / (gpu + dimms);
            let part = share(equal, [below.gpu_work, above.gpu_work]);
            point.us += us;
            point.used[0] += mix(part, [below.gpu_bytes, above.gpu_bytes]);
            point.used[1] += mix(part, [below.dimm_bytes, above.dimm_bytes]);
            point.weights.push(weight);
        }
        point
    }

    fn best(&self) -> Point {
        // Beyond these nothing is on the GPU, and nothing of the MLP in the DIMMs.
        let Rates { dimms, ssd, gpu_bytes, dimm_bytes, .. } = self.rates;
        let most = [2.0 * (dimms + ssd), 2.0 * ssd].map(|rate| rate * f64::from(ONE));
        let at = |dimms: f64| self.search((0, most[0], gpu_bytes), |gpu| self.at([gpu, dimms]));
        self.search((1, most[1], dimm_bytes), at)
    }

    /// The best of the points between prices 0 and `most`: the first at which no more than the capacity is used.
    fn search(&self, (device, most, capacity): (usize, f64, f64), at: impl Fn(f64) -> Point) -> Point {
        let mut below = at(0.0);
        if below.used[device] <= capacity {
            return below;
        }
        let (mut low, mut high, mut above) = (0.0, most, at(most));
        for _ in 0..HALVINGS[0] {
            let middle = f64::midpoint(low, high);
            let point = at(middle);
            if point.used[device] > capacity {
                (low, below) = (middle, point)
            } else {
                (high, above) = (middle, point)
            }
        }
        // Where many neurons go at this price, a part of them fits.
        let part = share(capacity, [below.used[device], above.used[device]]);
        let used = [0, 1].map(|device| mix(part, [below.used[device], above.used[device]]));
        let best = if below.us >= above.us { below } else { above };
        Point { used, ..best }
    }

    /// Neurons of each group that are on the GPU, the group's hottest ones: by what the bound gains from each byte, of equal ones in this order.
    fn select(&self, point: &Point, order: Order) -> Vec<u32> {
        let instance = self.instance;
        let groups = instance.groups();
        let Rates { gpu, dimms, ssd, .. } = self.rates;
        // Differences below this are those of rounding.
        let unit = 1e-7 * ((gpu + dimms + ssd) * f64::from(ONE) + point.prices[0] + point.prices[1]);
        let gain = |index: usize| {
            let group = &groups[index];
            let weight = point.weights[instance.term_of(index)];
            let [gpu, others @ ..] = self.costs(self.kinds[group.block as usize], point.prices, weight);
            let cost = |(_, constant, slope): (Tier, f64, f64)| constant + slope * group.mean();
            ((cost(cheapest(&others, group.mean())) - cost(gpu)) / unit).round() as i64
        };
        let is_attention = |index: usize| self.kinds[groups[index].block as usize] == BlockKind::Attention;
        let mut sorted: Vec<(i64, usize)> = instance.hottest().map(|index| (gain(index), index)).collect();
        if order == Order::ColdestMlp {
            sorted.reverse();
        }
        let last = |index| order != Order::Hottest && is_attention(index);
        sorted.sort_by_key(|(gain, index)| (std::cmp::Reverse(*gain), last(*index)));
        // Where the GPU is the slower side whatever is there, as much as the bound wants.
        let room = |term: usize| match point.weights[term] > 1.0 - 1e-6 {
            true => u64::MAX,
            false => instance.saturation(term) as u64,
        };
        let mut room: Vec<u64> = (0..instance.terms().len()).map(room).collect();
        let mut free = instance.machine().gpu_bytes;
        let mut taken = vec![0; groups.len()];
        for (gain, index) in sorted {
            let (group, term) = (&groups[index], instance.term_of(index));
            let most = if gain < 0 && room[term] == u64::MAX { 0 } else { room[term] };
            let positions = group.start..group.start + group.len;
            let (len, work) = instance.leading(group.block as usize, positions, most, free);
            taken[index] = len;
            room[term] -= work;
            free -= u64::from(len) * instance.blocks()[group.block as usize].neuron_bytes;
        }
        taken
    }

    /// Of each block, from which position in its order on neurons that are not on the GPU are on the SSD.
    fn resident(&self, taken: &[u32]) -> Vec<u32> {
        let instance = self.instance;
        let machine = instance.machine();
        let mlps = || (0..instance.blocks().len()).filter(|&block| self.kinds[block] == BlockKind::Mlp);
        let len: Vec<u32> = instance.blocks().iter().map(|block| block.order.len() as u32).collect();
        let mut until = len.clone();
        let all = machine.dimm_bytes.saturating_mul(machine.dimms.into());
        let room = all.saturating_sub(instance.attention_bytes());
        // Slots of all DIMMs for those in front of a position.
        let bytes = |block: usize, until: u32| {
            instance.slot_bytes(block, cold(instance, taken, block, until)) * u64::from(machine.dimms)
        };
        let above = |block: usize, frequency: u32| {
            instance.blocks()[block].frequencies.partition_point(|&f| f > frequency) as u32
        };
        let all_above =
            |frequency: u32| mlps().map(|block| bytes(block, above(block, frequency))).sum::<u64>();
        // The least frequency above which all have room; 0 stands for all that are ever active.
        let low = least(|frequency| all_above(frequency) <= room);
        let mut free = room.saturating_sub(all_above(low));
        for block in mlps() {
            let first = above(block, low);
            let last = if low == 0 { len[block] } else { above(block, low - 1) };
            // Of those that have just this frequency, as many as still have room.
            let before = bytes(block, first);
            let fits = |until: u32| bytes(block, until) - before <= free;
            let (mut some, mut most) = (first, last);
            while some < most {
                let middle = (some + most).div_ceil(2);
                if fits(middle) { some = middle } else { most = middle - 1 }
            }
            free -= bytes(block, some) - before;
            // And what there are slots for.
            while some < len[block] && bytes(block, some + 1) == bytes(block, some) {
                some += 1;
            }
            until[block] = some;
        }
        until
    }
}

/// Places neurons on three tiers.
pub fn place_tiers(instance: &Instance) -> Result<(Placement, TierCertificate)> {
    let missing = || refusal!("SSD bandwidth = 0 must be that of an SSD");
    let dual = Dual::new(instance, instance.machine().ssd_gbps.ok_or_else(missing)?);
    let point = dual.best();
    let place = |taken: Vec<u32>| {
        let placement = spread(instance, &taken, &Stored::Until(&dual.resident(&taken)))?;
        let evaluation = placement.evaluate(instance)?;
        Ok::<_, ndp_files::Error>((placement, evaluation))
    };
    let tried = try_all(instance);
    let exhaustive = tried.is_some();
    // The hottest ones, too, as on two tiers.
    let orders =
        [Order::Hottest, Order::HottestMlp, Order::ColdestMlp].map(|order| dual.select(&point, order));
    let found =
        orders.into_iter().chain([gpu::select(instance)]).map(place).collect::<Result<Vec<_>, _>>()?;
    let found = found.into_iter().chain(tried);
    let best =
        found.reduce(|best, other| if other.1.objective_us < best.1.objective_us { other } else { best });
    let Some((placement, evaluation)) = best else { return Err(missing()) };
    let bound_us = point.us.max(0.0);
    let ssd_bytes = instance.blocks().iter().enumerate().map(|(block, of)| {
        let bits = placement.gpu_bits(block).iter().zip(placement.ssd_bits(block));
        bits.map(|(gpu, ssd)| u64::from((ssd & !gpu).count_ones())).sum::<u64>() * of.neuron_bytes
    });
    let certificate = TierCertificate {
        objective_us: evaluation.objective_us,
        bound_us,
        gap: if bound_us > 0.0 { evaluation.objective_us / bound_us - 1.0 } else { 0.0 },
        exhaustive,
        gpu_price: point.prices[0],
        dimm_price: point.prices[1],
        weights: point.weights,
        gpu_bytes: evaluation.gpu_bytes,
        dimm_bytes: evaluation.dimm_bytes,
        ssd_bytes: ssd_bytes.sum(),
        terms: evaluation.terms,
    };
    Ok((placement, certificate))
}

/// The best of all placements, if they are few.
fn try_all(instance: &Instance) -> Option<(Placement, crate::placement::Evaluation)> {
    let dimms = u64::from(instance.machine().dimms);
    let mut neurons = Vec::new();
    let mut count = 1u64;
    for (block, of) in instance.shape().blocks().iter().enumerate() {
        for neuron in 0..of.neurons as usize {
            // Attention: a DIMM, with or without a copy. MLP: a DIMM or the SSD, with or without a copy.
            let places = dimms * if of.kind == BlockKind::Attention { 2 } else { 4 };
            count = count.checked_mul(places).filter(|count| *count <= MOST_TRIED)?;
            neurons.push((block, neuron, places));
        }
    }
    let mut placement = Placement::new(instance.shape());
    let mut best: Option<(Placement, crate::placement::Evaluation)> = None;
    for mut number in 0..count {
        for &(block, neuron, places) in &neurons {
            let place = number % places;
            placement.set_gpu(block, neuron, place % 2 == 1);
            placement.set_ssd(block, neuron, place / 2 / dimms == 1);
            placement.dimms_mut(block)[neuron] = (place / 2 % dimms) as u8;
            number /= places;
        }
        if let Ok(found) = placement.evaluate(instance)
            && best.as_ref().is_none_or(|(_, best)| found.objective_us < best.objective_us)
        {
            best = Some((placement.clone(), found));
        }
    }
    best
}
