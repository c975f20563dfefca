//! A design for provers: without the contents of some modules, with values that the prover chooses.

use crate::bits::{Node, Owner, Signal};
use crate::body::{Declaration, Inner, Kind, PropertyKind};
use crate::mutate::rebuilt;
use crate::{Bits, Module};
use std::collections::HashMap;
use std::rc::Rc;

/// Changes to a design for a prover.
#[derive(Clone, Copy, Debug)]
pub struct ForProver<'a> {
    /// Modules, by the beginning of their titles, reduced to their ports: outputs take any value in each cycle.
    pub any: &'a [&'a str],
    /// Assertions that are left out.
    pub elsewhere: &'a [&'a str],
    /// All clocks are one, so that properties speak of a cycle: a flip-flop would hide their values from the prover.
    /// Otherwise the first flip-flops of a synchroniser catch, for each bit that changed in the last step, the old or
    /// the new value, as the prover chooses.
    pub one_clock: bool,
    /// Verilog for the end of the top.
    pub appendix: &'a str,
}

/// How a module is printed for a prover.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub one_clock: bool,
    pub appendix: String,
}

impl ForProver<'_> {
    /// The design so prepared. A value that the prover chooses has no driver: Yosys makes it an input of the top, so
    /// that it is in the run that is simulated again.
    pub fn prepared(&self, top: &Rc<Module>) -> Rc<Module> {
        rebuilt(top, &mut HashMap::new(), &|module| {
            Some(self.body(module, std::ptr::eq(module, &raw const **top)))
        })
    }

    fn body(&self, module: &Module, is_top: bool) -> Inner {
        let mut inner = module.body().clone();
        let mut appendix = String::new();
        if self.any.iter().any(|begin| inner.name().starts_with(begin)) {
            inner = without_contents(inner);
        } else if !self.one_clock && inner.synchroniser {
            appendix = catches_any(&mut inner);
        }
        if is_top {
            appendix += self.appendix;
        }
        inner.properties.retain(|property| {
            property.kind != PropertyKind::Assert || !self.elsewhere.contains(&&*property.name)
        });
        inner.prover = Some(Prepared { one_clock: self.one_clock, appendix });
        inner
    }
}

/// A signal that is in the text but not in the description.
fn undeclared(name: &str, width: u32) -> Bits {
    Bits::new(width, Node::Signal(Signal { name: name.to_owned(), owner: Owner::default(), id: usize::MAX }))
}

/// Only the ports, with outputs of any value.
fn without_contents(inner: Inner) -> Inner {
    let of_port =
        |declaration: &Declaration| matches!(declaration.kind, Kind::Input { .. } | Kind::Output { .. });
    let mut declarations: Vec<Declaration> = inner.declarations.into_iter().filter(of_port).collect();
    let mut drives = Vec::new();
    for id in 0..declarations.len() {
        let Declaration { name, width, kind: Kind::Output { .. }, place, .. } = &declarations[id] else {
            continue;
        };
        let chosen = Declaration {
            name: format!("proof_any_{name}"),
            width: *width,
            kind: Kind::Wire,
            about: String::new(),
            place,
        };
        drives.push((id, undeclared(&chosen.name, chosen.width)));
        declarations.push(chosen);
    }
    Inner {
        owner: inner.owner,
        source: inner.source,
        doc: inner.doc,
        domains: inner.domains,
        declarations,
        drives,
        ..Inner::default()
    }
}

/// Makes the registers `meta_q` catch old or new bits; returns the text of the values that they catch.
fn catches_any(inner: &mut Inner) -> String {
    let Inner { declarations, regs, .. } = inner;
    let mut text = String::new();
    for reg in regs.iter_mut().filter(|reg| declarations[reg.id].name == "meta_q") {
        let width = declarations[reg.id].width;
        let [late, before] = ["late", "before"].map(|name| undeclared(name, width));
        for next in &mut reg.next {
            *next = (late & before) | (!late & *next);
        }
        let range = crate::lower::range(width);
        text += &format!(
            "wire {range}late;\nreg {range}before = 0;\n(* gclk *) reg step;\nalways @(posedge step) before <= value_i;\n"
        );
    }
    text
}
