//! Instances that become an array, and the parts of an array that stay scalars.

use ndp_hdl_language::{Bits, HdlError, Module, ModuleBuilder, Netlist, Op, lit};
use std::rc::Rc;

/// Holds the sum of its inputs.
fn adder(replicated: bool) -> Result<Rc<Module>, HdlError> {
    let m = ModuleBuilder::new("adder", "holds a sum");
    if replicated {
        m.replicated();
    }
    let (a, b) = (m.input("a_i", 8, "term"), m.input("b_i", 8, "term"));
    let sum = m.reg("sum_q", 8).reset(0);
    sum.next(a + b);
    m.output("sum_o", sum, "sum of the last cycle's terms");
    m.output("now_o", a + b, "sum of this cycle's");
    m.finish()
}

/// Adders whose first term is `first(n)` of the top's input, and whose second term is the same for all.
fn adders(count: u32, replicated: bool, first: impl Fn(&Bits, u32) -> Bits) -> Result<Netlist, HdlError> {
    let adder = adder(replicated)?;
    let m = ModuleBuilder::new("adders", "adders side by side");
    let (a, b) = (m.input("a_i", 8, "for all"), m.input("b_i", 8, "for all"));
    for n in 0..count {
        let instance = m.instance(format!("adder{n}"), &adder).input("a_i", first(&a, n)).input("b_i", b);
        m.output(format!("sum{n}_o"), instance.output("sum_o"), "sum");
        m.output(format!("now{n}_o"), instance.output("now_o"), "sum");
    }
    Netlist::of(&m.finish()?)
}

fn additions(netlist: &Netlist) -> usize {
    let add = |op: &Op| matches!(op, Op::Binary(ndp_hdl_language::Binary::Add, ..));
    netlist.graph.nodes.iter().filter(|node| add(&node.op)).count()
}

#[test]
fn replicated_instances_are_one_array_with_one_operation() -> Result<(), HdlError> {
    let netlist = adders(5, true, |a, n| a ^ lit(u128::from(n) + 1, 8))?;
    assert_eq!(netlist.graph.lanes, [5]);
    assert_eq!(netlist.registers.len(), 1);
    assert_eq!(netlist.registers[0].group, Some(0));
    assert_eq!(netlist.registers[0].name, "adder0.sum_q");
    assert_eq!(additions(&netlist), 1);
    // The first terms differ by a constant, which is a table.
    assert!(
        netlist.graph.nodes.iter().any(|node| matches!(&node.op, Op::Table(values) if values.len() == 5))
    );
    assert!(!netlist.graph.nodes.iter().any(|node| matches!(node.op, Op::Gather(_))));
    Ok(())
}

#[test]
fn what_all_instances_get_alike_stays_a_scalar() -> Result<(), HdlError> {
    let netlist = adders(5, true, |a, _| *a)?;
    // One register for each instance: they may start with different contents.
    assert_eq!(netlist.registers[0].group, Some(0));
    let vectors = netlist.graph.nodes.iter().filter(|node| node.group.is_some());
    assert!(
        vectors.clone().all(|node| matches!(node.op, Op::State { .. })),
        "{:?}",
        vectors.collect::<Vec<_>>()
    );
    Ok(())
}

#[test]
fn few_instances_and_those_of_other_modules_are_none() -> Result<(), HdlError> {
    for (count, replicated) in [(3, true), (5, false)] {
        let netlist = adders(count, replicated, |a, n| a ^ lit(u128::from(n) + 1, 8))?;
        assert!(netlist.graph.lanes.is_empty());
        assert_eq!(netlist.registers.len(), count as usize);
    }
    Ok(())
}

#[test]
fn instances_that_follow_from_one_another_are_none() -> Result<(), HdlError> {
    let adder = adder(true)?;
    let m = ModuleBuilder::new("chain", "adders one after the other");
    let (mut a, b) = (m.input("a_i", 8, "for the first"), m.input("b_i", 8, "for all"));
    for n in 0..5 {
        let instance = m.instance(format!("adder{n}"), &adder).input("a_i", a).input("b_i", b);
        m.output(format!("sum{n}_o"), instance.output("sum_o"), "sum");
        a = instance.output("now_o");
    }
    m.output("now_o", a, "sum");
    let netlist = Netlist::of(&m.finish()?)?;
    assert!(netlist.registers.iter().all(|register| register.group.is_none()));
    assert_eq!(additions(&netlist), 5);
    Ok(())
}
