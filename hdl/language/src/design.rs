//! A whole design: the top module and every distinct module below it, children first.

use crate::{HdlError, Module, Pragmas};
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
    /// [`HdlError::ModuleClash`] when one title stands for two different definitions.
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

    /// The module of that title.
    pub fn module(&self, title: &str) -> Option<&Rc<Module>> {
        self.modules.iter().find(|m| m.title() == title)
    }

    /// All definitions in one text, children first.
    pub fn verilog(&self) -> String {
        self.modules.iter().map(|m| m.verilog()).collect::<Vec<_>>().join("\n")
    }

    /// Name and definition of each module, in the order of [`Design::modules`], with the names that `name_of` gives.
    ///
    /// Titles are enough where the design is the only one there is: [`Design::new`] has made sure that they differ.
    pub fn definitions(
        &self,
        pragmas: Pragmas,
        name_of: impl Fn(&Module) -> String,
    ) -> Vec<(String, String)> {
        let names: BTreeMap<&str, String> = self.modules.iter().map(|m| (m.name(), name_of(m))).collect();
        self.modules.iter().map(|m| (names[m.name()].clone(), renamed(m.text(pragmas), &names))).collect()
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

/// The text with other words where `names` has one.
fn renamed(text: &str, names: &BTreeMap<&str, String>) -> String {
    let of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while !rest.is_empty() {
        let (word, behind) = rest.split_at(rest.find(|c| !of_word(c)).unwrap_or(rest.len()));
        let (gap, next) = behind.split_at(behind.find(of_word).unwrap_or(behind.len()));
        out += names.get(word).map_or(word, String::as_str);
        out += gap;
        rest = next;
    }
    out
}

fn collect(
    module: &Rc<Module>,
    seen: &mut BTreeMap<String, Rc<Module>>,
    out: &mut Vec<Rc<Module>>,
) -> Result<(), HdlError> {
    if let Some(known) = seen.get(module.title()) {
        if Rc::ptr_eq(known, module) {
            return Ok(());
        }
        if known.verilog == module.verilog {
            // The children have the same names, and so the same texts.
            return Ok(());
        }
        // What differs may be a child, which says more.
        module.instances().iter().try_for_each(|(_, child)| collect(child, seen, out))?;
        return Err(HdlError::ModuleClash { module: module.title().to_owned() });
    }
    for (_, child) in module.instances() {
        collect(child, seen, out)?;
    }
    seen.insert(module.title().to_owned(), module.clone());
    out.push(module.clone());
    Ok(())
}
