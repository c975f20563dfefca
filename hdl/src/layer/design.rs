//! A whole design: the top module and every distinct module below it, children first.

use super::{HdlError, Module};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A hierarchy in which every distinct module is listed once.
#[derive(Debug)]
pub struct Design {
    modules: Vec<Rc<Module>>,
}

impl Design {
    /// Collects the hierarchy below `top`.
    ///
    /// # Errors
    /// [`HdlError::ModuleClash`] when one name stands for two different definitions.
    pub fn new(top: &Rc<Module>) -> Result<Self, HdlError> {
        let mut seen = BTreeMap::new();
        let mut modules = Vec::new();
        collect(top, &mut seen, &mut modules)?;
        Ok(Self { modules })
    }

    /// Every distinct module once, children before parents, the top last.
    pub fn modules(&self) -> &[Rc<Module>] {
        &self.modules
    }

    /// The top module.
    pub fn top(&self) -> &Rc<Module> {
        &self.modules[self.modules.len() - 1]
    }

    /// The module of that name.
    pub fn module(&self, name: &str) -> Option<&Rc<Module>> {
        self.modules.iter().find(|m| m.name() == name)
    }

    /// All definitions in one text, children first.
    pub fn verilog(&self) -> String {
        self.modules.iter().map(|m| m.verilog()).collect::<Vec<_>>().join("\n")
    }

    /// How often each module occurs below the top (the top itself once), in the order of [`Design::modules`].
    pub fn instance_counts(&self) -> Vec<(Rc<Module>, u64)> {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        counts.insert(self.top().name(), 1);
        for module in self.modules.iter().rev() {
            let own = counts.get(module.name()).copied().unwrap_or(0);
            for (_, child) in module.instances() {
                *counts.entry(child.name()).or_insert(0) += own;
            }
        }
        self.modules.iter().map(|m| (m.clone(), counts[m.name()])).collect()
    }
}

fn collect(
    module: &Rc<Module>,
    seen: &mut BTreeMap<String, Rc<Module>>,
    out: &mut Vec<Rc<Module>>,
) -> Result<(), HdlError> {
    if let Some(known) = seen.get(module.name()) {
        if Rc::ptr_eq(known, module) {
            return Ok(());
        }
        if known.verilog == module.verilog {
            // The text names its children only: they can still be different ones.
            return module.instances().iter().try_for_each(|(_, child)| collect(child, seen, out));
        }
        return Err(HdlError::ModuleClash { module: module.name().to_owned() });
    }
    for (_, child) in module.instances() {
        collect(child, seen, out)?;
    }
    seen.insert(module.name().to_owned(), module.clone());
    out.push(module.clone());
    Ok(())
}
