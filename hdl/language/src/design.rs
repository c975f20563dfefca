//! A whole design: the top module and every distinct module below it, children first.

use crate::{HdlError, Module, Pragmas};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A hierarchy with every distinct module listed once.
#[derive(Debug)]
pub struct Design {
    modules: Vec<Rc<Module>>,
}

impl Design {
    /// Collects the hierarchy below `top`.
    ///
    /// # Errors
    /// [`HdlError::ModuleClash`] if two definitions have one name.
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

    /// The definition of each module, in the order of [`Design::modules`].
    pub fn definitions(&self, pragmas: Pragmas) -> impl Iterator<Item = &str> {
        self.modules.iter().map(move |module| module.text(pragmas))
    }

    /// Names that begin with `prefix`, in the order of [`Design::modules`]: without parameters if they are then unique
    /// in the design. The top's name is the prefix.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        self.modules
            .iter()
            .for_each(|module| *counts.entry(without_parameters(module.name())).or_insert(0) += 1);
        let name = |module: &Rc<Module>| match without_parameters(module.name()) {
            _ if Rc::ptr_eq(module, self.top()) => prefix.to_owned(),
            short if counts[short] == 1 => format!("{prefix}_{short}"),
            _ => format!("{prefix}_{}", module.name()),
        };
        self.modules.iter().map(name).collect()
    }

    /// The definition of each module with these names, in the order of [`Design::modules`].
    pub fn renamed(&self, pragmas: Pragmas, names: &[String]) -> Vec<String> {
        let of: BTreeMap<_, _> = self.modules.iter().map(|module| module.name()).zip(names).collect();
        let renamed = |(module, text): (&Rc<Module>, &str)| {
            let head = |name: &str| format!("module {name} (\n");
            let text = text.replacen(&head(module.name()), &head(of[module.name()]), 1);
            module.instances().iter().fold(text, |text, (instance, child)| {
                let head = |name: &str| format!("    {name} {instance} (\n");
                text.replacen(&head(child.name()), &head(of[child.name()]), 1)
            })
        };
        self.modules.iter().zip(self.definitions(pragmas)).map(renamed).collect()
    }

    /// Number of instances of each module below the top (the top itself once), in the order of [`Design::modules`].
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

/// A module's name up to the first word, other than the first, that has a digit.
fn without_parameters(name: &str) -> &str {
    let words = name.match_indices('_').map(|(at, _)| at);
    let has_digit = |at: &usize| {
        let word = name[at + 1..].split('_').next().unwrap_or_default();
        word.contains(|c: char| c.is_ascii_digit())
    };
    words.into_iter().find(has_digit).map_or(name, |at| &name[..at])
}

fn collect(
    module: &Rc<Module>,
    seen: &mut BTreeMap<String, Rc<Module>>,
    out: &mut Vec<Rc<Module>>,
) -> Result<(), HdlError> {
    if let Some(known) = seen.get(module.name()).cloned() {
        if Rc::ptr_eq(&known, module) {
            return Ok(());
        }
        // If a child differs, its name says more.
        module.instances().iter().try_for_each(|(_, child)| collect(child, seen, out))?;
        if known.verilog == module.verilog {
            return Ok(());
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
