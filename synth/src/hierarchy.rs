//! Sums the figures of the modules up the hierarchy.

use crate::flow::{Figures, Generic};
use crate::source::{Hierarchy, MemoryShape};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Sum {
    pub generic: Generic,
    /// Cell area; 0 without a library.
    pub area_um2: f64,
    pub cells: u64,
    pub flip_flops: u64,
    pub memory_bits: u64,
}

impl Sum {
    fn add(&mut self, other: &Self, times: u64) {
        self.generic.cells += other.generic.cells * times;
        self.generic.flip_flops += other.generic.flip_flops * times;
        self.generic.transistors += other.generic.transistors * times;
        self.area_um2 += other.area_um2 * times as f64;
        self.cells += other.cells * times;
        self.flip_flops += other.flip_flops * times;
        self.memory_bits += other.memory_bits * times;
    }
}

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Row {
    pub module: String,
    pub instances: u64,
    pub memory: Option<MemoryShape>,
    /// Figures of one instance, own logic only.
    pub own: Option<Figures>,
    /// Sum of all instances, own logic only.
    pub total: Sum,
    /// Sum of one instance and everything below it.
    pub with_children: Sum,
    /// Share of `total` in all logic, by area, or by transistors without a library.
    pub share_percent: f64,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Rollup {
    /// Parents before children, the top first.
    pub rows: Vec<Row>,
    pub total: Sum,
}

/// `figures` has one entry per module, `None` for memories.
pub fn roll_up(hierarchy: &Hierarchy, figures: Vec<Option<Figures>>) -> Rollup {
    let mut below: BTreeMap<&str, Sum> = BTreeMap::new();
    let mut rows = Vec::new();
    let mut whole = Sum::default();
    for (unit, own) in hierarchy.units.iter().zip(figures) {
        let one = own_sum(own.as_ref(), unit.memory);
        let mut with_children = one;
        for (child, times) in &unit.children {
            // Children come first, so their sums are known.
            with_children.add(&below.get(child.as_str()).copied().unwrap_or_default(), *times);
        }
        let mut total = Sum::default();
        total.add(&one, unit.instances);
        whole.add(&one, unit.instances);
        below.insert(&unit.name, with_children);
        rows.push(Row {
            module: unit.name.clone(),
            instances: unit.instances,
            memory: unit.memory,
            own,
            total,
            with_children,
            share_percent: 0.0,
        });
    }
    let size = |sum: &Sum| if whole.area_um2 > 0.0 { sum.area_um2 } else { sum.generic.transistors as f64 };
    let all = size(&whole);
    for row in &mut rows {
        row.share_percent = if all > 0.0 { 100.0 * size(&row.total) / all } else { 0.0 };
    }
    rows.reverse();
    Rollup { rows, total: whole }
}

fn own_sum(own: Option<&Figures>, memory: Option<MemoryShape>) -> Sum {
    let mapped = own.and_then(|figures| figures.mapped.as_ref());
    Sum {
        generic: own.map(|figures| figures.generic).unwrap_or_default(),
        area_um2: mapped.map_or(0.0, |m| m.area_um2),
        cells: mapped.map_or(0, |m| m.cells),
        flip_flops: mapped.map_or(0, |m| m.flip_flops),
        memory_bits: memory.map_or(0, MemoryShape::bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Mapped;
    use crate::script::Recipe;
    use crate::source::Unit;

    fn unit(name: &str, instances: u64, children: &[(&str, u64)]) -> Unit {
        Unit {
            name: name.into(),
            verilog: String::new(),
            stub: String::new(),
            children: children.iter().map(|(c, n)| (c.to_string(), *n)).collect(),
            instances,
            memory: None,
            clocks: vec!["clk_i".into()],
        }
    }

    fn figures(area_um2: f64, transistors: u64, mapped: bool) -> Option<Figures> {
        let mapped = mapped.then_some(Mapped {
            recipe: Recipe::Balanced,
            area_um2,
            cells: 10,
            flip_flops: 4,
            delay_ps: Some(100.0),
            timing: None,
        });
        Some(Figures { generic: Generic { cells: 20, flip_flops: 5, transistors }, mapped })
    }

    /// top (1) holds 2 of `mid` and 1 of `leaf`; `mid` holds 3 of `leaf` and 1 of `ram`.
    fn example(mapped: bool) -> Rollup {
        let mut ram = unit("ram", 2, &[]);
        ram.memory = Some(MemoryShape { depth: 16, width: 8 });
        let hierarchy = Hierarchy {
            units: vec![
                unit("leaf", 7, &[]),
                ram,
                unit("mid", 2, &[("leaf", 3), ("ram", 1)]),
                unit("top", 1, &[("leaf", 1), ("mid", 2)]),
            ],
        };
        let figures =
            vec![figures(1.0, 50, mapped), None, figures(4.0, 200, mapped), figures(5.0, 250, mapped)];
        roll_up(&hierarchy, figures)
    }

    #[test]
    fn own_figures_are_multiplied_by_instances() {
        let rollup = example(true);
        let names: Vec<&str> = rollup.rows.iter().map(|row| row.module.as_str()).collect();
        assert_eq!(names, ["top", "mid", "ram", "leaf"]);
        assert_eq!(rollup.rows[3].total.area_um2, 7.0);
        assert_eq!(rollup.rows[1].total.generic.transistors, 400);
        assert_eq!(rollup.total.area_um2, 7.0 + 8.0 + 5.0);
        assert_eq!(rollup.total.flip_flops, 4 * 10);
        assert_eq!(rollup.total.memory_bits, 2 * 128);
    }

    #[test]
    fn the_top_with_its_children_is_the_whole() {
        let rollup = example(true);
        assert_eq!(rollup.rows[0].with_children, rollup.total);
        assert_eq!(rollup.rows[1].with_children.area_um2, 7.0);
        assert_eq!(rollup.rows[1].with_children.memory_bits, 128);
    }

    #[test]
    fn shares_are_of_area_or_without_a_library_of_transistors() {
        let shares = |rollup: &Rollup| rollup.rows.iter().map(|row| row.share_percent).collect::<Vec<_>>();
        assert_eq!(shares(&example(true)), [25.0, 40.0, 0.0, 35.0]);
        assert_eq!(shares(&example(false)), [25.0, 40.0, 0.0, 35.0]);
        assert_eq!(example(false).total.area_um2, 0.0);
    }
}
