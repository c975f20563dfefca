//! Options that stand on the command line, so that those without effect are refused even if they have a default.

use crate::prelude::*;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use std::collections::BTreeSet;

/// Names of the fields whose options stand on the command line. It has to be the first field of its arguments: those before it are taken out already.
#[derive(Clone, Debug, Default)]
pub struct Given(BTreeSet<String>);

impl Given {
    /// Whether the command line has the option of this field.
    pub fn has(&self, field: &str) -> bool {
        self.0.contains(field)
    }

    /// Refuses options that have an effect only with `needed`.
    pub fn only_with<'a>(&self, needed: &str, fields: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let useless = fields.into_iter().find(|field| self.has(field)).map(|field| field.replace('_', "-"));
        useless.map_or(Ok(()), |option| bail!("--{option} has no effect without {needed}; leave it out"))
    }
}

impl clap::FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let written = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        Ok(Self(matches.ids().map(clap::Id::as_str).filter(written).map(str::to_owned).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Given {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
